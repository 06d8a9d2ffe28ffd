"""Rates corrected by a labeled part of the cases appear in the findings and the figures of a run that has them."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

from evalkit import load_config, run


@pytest.mark.parametrize(("probability", "shown"), [(0.5, True), ("unknown", False)])
def test_labels_at_random_correct_rates_and_those_of_picked_cases_none(
    tmp_path: Path, probability: float | str, shown: bool
) -> None:
    lines = (files("evalkit") / "datasets" / "samples" / "sample.jsonl").read_text("utf-8").splitlines()
    cases = [json.loads(line) for line in lines]
    for number, case in enumerate(cases):
        if number % 2:
            case["inclusion_probability"] = probability if number % 4 == 1 else 1.0 if shown else "unknown"
        else:
            del case["label"]
    words = ["judge=simulated/good", "tracking=none", "scoring.bootstrap=200", f"store.url={tmp_path / 's.sqlite'}"]
    result = run(load_config(overrides=words), tmp_path / "run", cases=cases)
    assert ("labels/effective" in result.metrics, "labels/picked" in result.metrics) == (shown, not shown)
    found = (tmp_path / "run" / "findings.md").read_text("utf-8")
    assert ("corrected by 12 labels" in found) == shown
    assert not shown or (tmp_path / "run" / "figures" / "corrected.svg").is_file()
    assert ("not about the data set" in found) == (not shown)
