"""The reference pages are generated from the code, and omit no key, field or file."""

import inspect
import re
import runpy
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from evalkit import config
from evalkit.compose import load_config
from evalkit.config import RunConfig, Section
from evalkit.runs.layout import DERIVED, FILES
from evalkit.scoring.decision import Decision
from tests.support.command_line import BRIEF, call_main

ROOT = Path(__file__).parents[2]
REFERENCE: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "generate_reference.py"))
MODELS = [
    model
    for model in vars(config).values()
    if isinstance(model, type) and issubclass(model, Section)
]


@pytest.mark.parametrize("page", REFERENCE["PAGES"])
def test_the_committed_page_is_the_generated_one(page):
    text = (ROOT / "docs" / "reference" / page).read_text("utf-8")
    assert text == REFERENCE["PAGES"][page](), "run docs/generate_reference.py"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_config_key_has_a_meaning(model):
    meanings = REFERENCE["field_meanings"](model)
    assert [name for name in model.model_fields if not meanings.get(name)] == []


def test_every_config_key_is_on_the_page():
    page = (ROOT / "docs" / "reference" / "config.md").read_text("utf-8")
    assert [name for name in RunConfig.model_fields if f"\n## {name}\n" not in page] == []
    inner = [name for model in MODELS if model is not RunConfig for name in model.model_fields]
    assert [name for name in inner if f"{name}` (" not in page] == []


@pytest.mark.parametrize("section", RunConfig.model_fields)
def test_the_example_of_a_section_is_a_valid_config(section):
    assert load_config(overrides=shlex.split(REFERENCE["EXAMPLES"][section]))


def test_every_field_of_a_record_has_a_meaning():
    for types in REFERENCE["RECORDS"].values():
        for one in types:
            attributes = inspect.getdoc(one).partition("Attributes:\n")[2]
            described = re.findall(r"^    (\w+): .", attributes, re.MULTILINE)
            assert described == [field.name for field in fields(one)], one


def test_every_key_of_a_decision_is_on_the_page_of_files():
    page = (ROOT / "docs" / "reference" / "files.md").read_text("utf-8")
    keys = Decision("unknown", "no_labels", "pair").json()
    assert [key for key in keys if f"`{key}`\n:" not in page] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("judge=simulated/good", "gate={tie_rate: '>= 0'}"),
        ("judge=simulated/good", "mode=pointwise"),
        ("judge=simulated/good", "mode=listwise"),
        ("judge=simulated/good", "mode=pairwise,pointwise", "-m"),
    ],
    ids=["pairwise", "pointwise", "listwise", "sweep"],
)
def test_every_file_that_a_run_writes_is_on_the_page(words, here, capfd):
    place = "hydra.sweep.dir=out" if "-m" in words else "hydra.run.dir=out"
    call_main(capfd, "run", *words, "dataset.limit=3", *BRIEF, place)
    page = (ROOT / "docs" / "reference" / "files.md").read_text("utf-8")
    written = [
        path.relative_to(here / "out") for path in (here / "out").rglob("*") if path.is_file()
    ]
    names = {"figures/*.svg" if path.parent.name == "figures" else path.name for path in written}
    assert {"config.yaml", "report.html", "figures/*.svg"} <= names
    assert [name for name in names if f"`{name}`\n:" not in page] == []


def test_every_file_that_a_command_adds_is_on_the_page():
    page = (ROOT / "docs" / "reference" / "files.md").read_text("utf-8")
    assert [name for name in (*FILES, *DERIVED) if f"`{name}`\n:" not in page] == []
    details = page.partition("## Details of scoring")[2].partition("\n## ")[0]
    assert {*re.findall(r"^`(\S+\.json)`$", details, re.M)} <= {*DERIVED}
