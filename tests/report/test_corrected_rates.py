"""Rates corrected by a labeled part of the cases: no figure of a run draws one that its findings refuse to state."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from evalkit import load_config, run
from evalkit.report.findings import findings_of


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
    assert (tmp_path / "run" / "figures" / "corrected.svg").is_file() == shown
    figures = "".join(path.read_text("utf-8") for path in (tmp_path / "run" / "figures").glob("*.svg"))
    drawn = set(re.findall(r"<title>(corrected/\S+)", figures))
    assert drawn == {one.metric for one in findings_of(result) if one.metric.startswith("corrected/")}
    assert bool(drawn) == shown
    assert ("not about the data set" in found) == (not shown)
