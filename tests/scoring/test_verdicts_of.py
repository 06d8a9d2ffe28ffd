"""Verdicts without metrics are those of a scored run, in every mode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import evalkit
from evalkit.scoring import score_run, verdicts_by_judge, verdicts_of

LISTED = {"responses": ["a", "b b", "c c c"]}
PAIR = {"response_a": "a", "response_b": "b b"}
PANEL = "judge={name: p, judges: [{model: simulated/good}, {model: simulated/noisy}, {model: simulated/length_biased}]}"


@pytest.mark.parametrize(
    ("overrides", "row"),
    [
        (["judge=simulated/noisy"], PAIR),
        ([PANEL, "mode.samples=2"], PAIR),
        (["judge=simulated/noisy", "mode=pointwise"], LISTED),
        (["judge=simulated/noisy", "mode=listwise"], LISTED),
        (["judge=simulated/noisy", "mode=pointwise", "rubric=pass_fail"], LISTED),
        (
            ["judge=simulated/noisy", "mode=checklist", "mode.samples=2"],
            {"response": "a", "checklist": ["It is short."]},
        ),
    ],
    ids=["pairs", "panel", "scores", "lists", "classes", "checklists"],
)
def test_they_are_those_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: list[str], row: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [*overrides, "tracking=none", "store.mode=off", "scoring.bootstrap=20"]
    cases = [{"id": str(number), "prompt": f"Write {number}", **row} for number in range(4)]
    run = evalkit.run(evalkit.load_config(overrides=words), tmp_path / "run", cases=cases)
    whole = [*score_run(run.config, run.cases, run.judgments).verdicts]
    assert whole
    assert [*verdicts_of(run.config, run.cases, run.judgments)] == whole
    by_judge = verdicts_by_judge(run)
    again = verdicts_by_judge(replace(run, verdicts=whole))
    assert {name: [*own] for name, own in by_judge.items()} == {name: [*own] for name, own in again.items()}
    assert set(by_judge) <= {one.judge for one in run.judgments}
    assert {len(verdicts) for verdicts in by_judge.values()} <= {len(whole)}
