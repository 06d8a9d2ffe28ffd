"""Every golden run gives the committed numbers and texts."""

import json

import pytest

from evalkit.scoring.catalog.removed import metric_remedy
from tests.golden.contents import METRIC
from tests.golden.harness import (
    EXPECTED,
    HERE,
    accept,
    difference,
    make_store,
    same_line,
    texts_of_run,
)
from tests.golden.runs import GOLDEN

MAX_BYTES = 2_800_000
CHANGED = {"length/slope", "length/slope_at_label", "ranking/win_rate/system-a"}
"""What 0.2.0 computed otherwise: its slopes were not penalized, and constant resamples had no exact
bound. Its corrected rates omitted labels of units without a verdict."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("golden") / "answers.store")


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_run_is_as_committed(name, store, tmp_path):
    found = difference(name, texts_of_run(GOLDEN[name], tmp_path, store))
    assert not found, f"{found}\nIf this is meant: python -m tests.golden --update {name}"


@pytest.mark.parametrize("run", ["pairs", "pairs_again", "scores", "scores_again"])
def test_numbers_of_0_2_0_are_the_same_today(run):
    kind = run.removesuffix("_again")
    before = json.loads((HERE / "v0.2.0" / kind / "metrics.json").read_bytes())["metrics"]
    today = json.loads((EXPECTED / "v0.2.0.json").read_bytes())[run]["metrics"]
    removed = {name for name in before if metric_remedy(name, ()).startswith("removed")}
    skipped = removed | {name for name in before if name.startswith("corrected/")}
    for name in before.keys() - CHANGED - skipped:
        numbers, now = [before[name][key] for key in METRIC[:-1]], today[name][: len(METRIC) - 1]
        if (
            kind == "scores" and (low := numbers[1]) is not None
        ):  # of three cases: intervals are at least Student's
            assert now[1] <= low <= numbers[2] <= now[2]
            numbers[1:3] = now[1:3]
        assert numbers == now


def test_every_committed_file_belongs_to_a_run_and_all_are_small():
    files = list(EXPECTED.iterdir())
    assert {file.name for file in files} == {
        f"{name}.{kind}" for name in GOLDEN for kind in ("json", "md")
    }
    assert sum(file.stat().st_size for file in files) < MAX_BYTES


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ('"value": 0.333333333333', '"value": 0.333333333334', True),
        ('"value": 0.3', '"value": 0.300000000001', True),
        ('"value": 0.333333333333', '"value": 0.333333333336', False),
        ("accuracy 0.33", "accuracy 0.34", False),
        ("accuracy 0.5", "accuracy 0.50", False),
        ("of 8 pairs", "of 8 pair", False),
    ],
)
def test_numbers_agree_to_1e_12_and_texts_byte_for_byte(first, second, same):
    assert same_line(first, second) is same


def test_a_broken_number_and_a_broken_text_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.golden.harness.EXPECTED", tmp_path)
    texts = {
        "json": '{\n "tie_rate": {"value": 0.25}\n}\n',
        "md": "Prefers the answer shown first.\n",
    }
    accept("broken", texts)
    assert difference("broken", texts) == ""
    assert '+ "tie_rate": {"value": 0.26}' in difference(
        "broken", {**texts, "json": texts["json"].replace("25", "26")}
    )
    assert "+Prefers the first." in difference("broken", {**texts, "md": "Prefers the first.\n"})
