"""The reference pages are what the parser and the config models say, and leave no key without a meaning."""

from __future__ import annotations

import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest

from evalkit import config
from evalkit.config import RunConfig, Section
from evalkit.hydra_app import load_config

ROOT = Path(__file__).parents[2]
REFERENCE: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "generate_reference.py"))
MODELS = [model for model in vars(config).values() if isinstance(model, type) and issubclass(model, Section)]


@pytest.mark.parametrize("page", REFERENCE["PAGES"])
def test_the_committed_page_is_the_generated_one(page: str) -> None:
    text = (ROOT / "docs" / "reference" / page).read_text("utf-8")
    assert text == REFERENCE["PAGES"][page](), "run docs/generate_reference.py"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_config_key_has_a_meaning(model: type[Section]) -> None:
    meanings = REFERENCE["field_meanings"](model)
    assert [name for name in model.model_fields if not meanings.get(name)] == []


def test_every_config_key_is_on_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "config.md").read_text("utf-8")
    assert [name for name in RunConfig.model_fields if f"\n## {name}\n" not in page] == []
    inner = [name for model in MODELS if model is not RunConfig for name in model.model_fields]
    assert [name for name in inner if f"{name}` | " not in page] == []


@pytest.mark.parametrize("section", RunConfig.model_fields)
def test_the_example_of_a_section_is_a_valid_config(section: str) -> None:
    assert load_config(overrides=shlex.split(REFERENCE["EXAMPLES"][section]))
