"""Rows for choosing a configuration and rows for the final figures: no prompt is on both sides."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit import load_config
from evalkit.config import DatasetConfig
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.types import Case, ChecklistItem, Response
from evalkit.datasets import load_cases
from evalkit.runs.folders import count_opening
from tests.support.command_line import call_main

HALVES = {"fractions": {"dev": 0.5, "test": 0.5}}


def row(n: int, prompt: str, **others: object) -> dict[str, object]:
    return {
        "id": f"c{n}",
        "prompt": prompt,
        "response_a": f"yes {n}",
        "response_b": f"no {n}",
        "label": "A",
        **others,
    }


def side(rows: list[dict[str, object]], use: str, **split: object):
    config = DatasetConfig(split={**split, "use": use})  # type: ignore[arg-type]
    return load_cases(config, mode="pairwise", frame=rows)


@given(
    st.lists(st.sampled_from([f"question {n}" for n in range(30)]), min_size=30, max_size=60),
    st.integers(0, 5),
)
def test_a_prompt_is_on_one_side_whatever_else_is_in_the_file(prompts, seed):
    rows = [
        row(n, prompt) for n, prompt in enumerate([*(f"question {n}" for n in range(30)), *prompts])
    ]
    dev, test = (side(rows, use, **HALVES, seed=seed).cases for use in ("dev", "test"))
    assert not {case.prompt for case in dev} & {case.prompt for case in test}
    assert {case.id for case in dev} | {case.id for case in test} == {
        str(one["id"]) for one in rows
    }
    first = {case.prompt for case in side(rows[:30], "dev", **HALVES, seed=seed).cases}
    assert first == {case.prompt for case in dev}


def test_the_shares_are_about_what_was_set():
    rows = [row(n, f"question {n}") for n in range(2000)]
    dev = side(rows, "dev", fractions={"dev": 0.2, "test": 0.8}).cases
    assert 330 < len(dev) < 470  # 400 +- 4 standard errors
    other = side(rows, "dev", fractions={"dev": 0.2, "test": 0.8}, seed=1).cases
    assert {case.id for case in other} != {case.id for case in dev}


def test_a_sample_is_drawn_from_the_side():
    rows = [row(n, f"question {n}") for n in range(100)]
    config = DatasetConfig(split={**HALVES, "use": "dev"}, sample={"n": 20}, shuffle_seed=1)  # type: ignore[arg-type]
    drawn = {case.id for case in load_cases(config, mode="pairwise", frame=rows).cases}
    assert len(drawn) == 20
    assert drawn <= {case.id for case in side(rows, "dev", **HALVES).cases}


def test_another_group_than_the_prompt_stays_together():
    rows = [row(n, f"question {n}", document=f"d{n % 10}") for n in range(60)]
    dev, test = (side(rows, use, **HALVES, by="document").cases for use in ("dev", "test"))
    assert dev
    assert test
    assert not {case.metadata["document"] for case in dev} & {
        case.metadata["document"] for case in test
    }


def test_a_column_names_the_side_and_what_is_on_neither_is_noted():
    rows = [row(n, f"question {n}", split=("dev", "Test", "train")[n % 3]) for n in range(9)]
    dev = side(rows, "dev", column="split")
    assert [case.id for case in dev.cases] == ["c0", "c3", "c6"]
    assert any("3 'train'" in note for note in dev.notes)
    assert any("dataset.split.use=dev: 3" in note for note in dev.notes)
    assert len(side(rows, "all", column="split").cases) == 9


def test_a_prompt_on_both_sides_is_an_error_with_both_places(tmp_path):
    path = tmp_path / "cases.jsonl"
    rows = [
        row(0, "same", split="dev"),
        row(1, "other", split="test"),
        row(2, " same", split="test"),
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    config = DatasetConfig(path=str(path), split={"column": "split", "use": "dev"})  # type: ignore[arg-type]
    with pytest.raises(DatasetError, match=r"cases\.jsonl:3: the same prompt is on the side 'dev'"):
        load_cases(config, mode="pairwise")


@pytest.mark.parametrize(("split", "message"), [
    ({"use": "dev"}, "needs column or fractions"),
    ({"column": "split", **HALVES}, "set either column or fractions"),
    ({"fractions": {"dev": 0.5, "test": 0.6}}, "fractions needs shares"),
    ({"column": "split", "use": "train"}, "'dev', 'test' or 'all'"),
])  # fmt: skip
def test_settings_that_contradict_each_other_are_refused(split, message):
    with pytest.raises(ValueError, match=message):
        DatasetConfig(split=split)


@pytest.mark.parametrize(("split", "message"), [
    ({"column": "splitt"}, "no column 'splitt' for dataset.split.column; .*did you mean 'split'"),
    ({**HALVES, "by": "doc"}, "no column 'doc' for dataset.split.by"),
    ({"column": "label"}, "no row is on the side 'dev'"),
])  # fmt: skip
def test_a_rule_that_does_not_fit_the_rows_is_refused(split, message):
    with pytest.raises((DatasetError, ConfigError), match=message):
        side([row(0, "question", split="dev")], "dev", **split)


def test_each_scoring_on_the_test_side_is_counted(here, capfd):
    Path("cases.jsonl").write_text(
        "".join(json.dumps(row(n, f"question {n}")) + "\n" for n in range(20))
    )
    words = (
        "judge=simulated/good",
        "dataset.path=cases.jsonl",
        "tracking=none",
        "scoring.bootstrap=0",
    )

    def run(name: str, use: str) -> dict[str, Any]:
        split = f"dataset.split={{fractions: {{dev: 0.5, test: 0.5}}, use: {use}}}"
        call_main(capfd, "run", *words, split, f"hydra.run.dir={name}")
        return manifest(name)

    def manifest(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(Path(name, "manifest.json").read_text())
        return found

    assert "test_labels_opened" not in run("tuned", "dev")
    assert run("first", "test")["test_labels_opened"] == 1
    call_main(capfd, "score", "first", "tie.threshold=0.2")
    assert manifest("first")["test_labels_opened"] == 2
    second = run("second", "test")
    assert second["test_labels_opened"] == 3
    assert [note for note in second["notes"] if note.startswith("test labels")] == [
        "test labels opened 3 times for this data on this machine"
    ]
    assert "test labels opened 3 times" in Path("second", "report.html").read_text()
    call_main(capfd, "score", "second", "tie.threshold=0.3")
    assert sum(note.startswith("test labels") for note in manifest("second")["notes"]) == 1


@pytest.mark.parametrize("case", [
    Case("c", "?", (Response("text", class_name="pass"),)),
    Case(
        "c",
        "?",
        (Response("text"),),
        checklist=(ChecklistItem("i", "Is polite", labels={"ann": ("met",)}),),
    ),
])  # fmt: skip
def test_labels_that_are_classes_or_answers_to_items_are_counted(case, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    config = load_config(
        overrides=[
            "judge=simulated/good",
            "dataset.split={fractions: {dev: 0.5, test: 0.5}, use: test}",
        ]
    )
    assert (
        count_opening(config, "data", [replace(case, checklist=(), responses=(Response("text"),))])
        is None
    )
    assert [count_opening(config, "data", [case]) for _ in range(2)] == [1, 2]
