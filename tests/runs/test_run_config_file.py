"""The saved config means the same to a plain YAML reader and to the composer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from evalkit.hydra_app import load_config
from evalkit.runs.manifest import dump, load

texts = st.text(max_size=12) | st.text("\\${}1e.-:'\" \n#&*!|>%@`yn", max_size=8)


def composed(config: dict[str, Any]) -> Any:
    loaded = OmegaConf.create(dump(config).decode())
    return OmegaConf.to_container(loaded, resolve=True)


@given(st.dictionaries(st.text("abc", min_size=1), texts | st.lists(texts) | st.floats(allow_nan=False), max_size=3))
def test_any_config_is_read_back(config: dict[str, Any]) -> None:
    assert load(dump(config)) == config


@pytest.mark.parametrize(
    "text",
    [
        "${x}",
        "\\${x}",
        "\\\\${oc.env:HOME}",
        "a ${ b",
        "${",
        "1e3",
        "1_0",
        "-.5e1",
        "null",
        "yes",
        "~",
        "2024-05-01",
        "",
    ],
)
def test_texts_stay_texts_when_composed(text: str) -> None:
    config = {"pattern": text, "list": [text, {"deep": text}]}
    assert load(dump(config)) == config
    assert {k: v for k, v in composed(config).items() if k != "defaults"} == config


def test_composed_values_keep_their_types() -> None:
    config = {"a": 1, "b": 1.0, "c": None, "d": True, "e": 1e-7, "f": {"1.0": "low", "1": "A"}, "g": [], "h": {}}
    read = {k: v for k, v in composed(config).items() if k != "defaults"}
    assert read == config
    assert [type(v) for v in read.values()] == [type(v) for v in config.values()]


def test_equal_parts_are_written_out_each_time() -> None:
    part = {"x": [1, 2]}
    text = dump({"a": part, "b": part}).decode()
    assert "&" not in text
    assert "*" not in text


def test_infinity_is_kept() -> None:
    assert load(dump({"a": math.inf})) == {"a": math.inf}


def test_a_saved_config_composes_to_the_same_config(tmp_path: Path) -> None:
    config = load_config("config", ["judge.name='1e3'", "rubric=likert10", "dataset.label_map={1: A, 2: B}"])
    pattern = "x ${now:} \\${y} \\\\${(?P<winner>[ab])}"
    config = config.model_copy(update={"output": config.output.model_copy(update={"pattern": pattern})})
    saved = tmp_path / "config.yaml"
    saved.write_bytes(dump(config.dump()))
    assert load_config(str(saved)) == config
