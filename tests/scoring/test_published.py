"""Figures that others published, from the texts and scores they published."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from evalkit.scoring import score_run
from evalkit.types import Case, Judgment, Response

pytestmark = pytest.mark.shared

VERDICTS = {1: 1.0, 2: -1.0, 3: 0.0}


def qlora(folder: Path) -> tuple[list[Case], list[Judgment]]:
    """Return 80 prompts with eight systems' answers, by system name, and every verdict, keyed on its answers' ids."""
    names = sorted(path.stem for path in (folder / "generations").glob("*.jsonl"))
    rows = []
    for path in sorted((folder / "pairwise").glob("*.jsonl")):
        sides = path.name.removesuffix("-gpt-4-reviewer-threeclass.jsonl").split("-vs-")
        places = [names.index(re.sub("^answer-", "answer_", side)) for side in sides]
        rows += [(places, json.loads(line)) for line in path.read_text().splitlines()]
    system = {row[f"answer{k + 1}_id"]: places[k] for places, row in rows for k in (0, 1)}
    judgments = []
    for _, row in rows:
        shown = system[row["answer1_id"]], system[row["answer2_id"]]
        value = VERDICTS.get(row["score"])
        if value is not None and shown[0] > shown[1]:
            value = -value
        unit = (min(shown), max(shown))
        status = "ok" if value is not None else "unparseable"
        judgments.append(Judgment(str(row["question_id"]), unit, shown, 0, "gpt-4", status, value))
    cases = [Case(str(number), "", tuple(Response("", name) for name in names)) for number in range(1, 81)]
    return cases, judgments


def read_in_full(cases: list[Case], judgments: list[Judgment]) -> tuple[list[Case], list[Judgment]]:
    broken = {judgment.case_id for judgment in judgments if judgment.value is None}
    return [c for c in cases if c.id not in broken], [j for j in judgments if j.case_id not in broken]


@pytest.mark.parametrize(
    ("swap", "edges", "cycles", "triads"),
    [
        ({"resolve": "net_vote"}, "verdict", 3, 4),
        ({"resolve": "mean"}, "verdict", 3, 4),
        ({"resolve": "tie"}, "verdict", 1, 1),
        ({"policy": "none"}, "verdict", 26, 67),
        ({"resolve": "tie"}, "net", 3, 4),
        ({"resolve": "net_vote"}, "both", 1, 1),
        ({"resolve": "net_vote"}, "single", 26, 67),
        ({"resolve": "net_vote"}, "ties", 69, None),
    ],
)
def test_qlora_conflicts(shared, configure, swap, edges, cycles, triads):
    cases, judgments = read_in_full(*qlora(shared / "data" / "qlora_vicuna"))
    scores = score_run(configure(swap=swap, scoring={"conflict_edges": edges}), cases, judgments)
    rate = scores.metrics["conflict/rate"]
    assert rate.n == 69
    assert rate.value * 69 == pytest.approx(cycles)
    assert scores.metrics["conflict/ratio"].value == pytest.approx(
        rate.value / scores.metrics["conflict/chance_rate"].value
    )
    if triads is None:
        return
    assert scores.metrics["conflict/triads"].value == triads
    listed = scores.details["conflicts"]["cases"]
    assert len(listed) == cycles
    assert sum(len(cycle) == 3 for entry in listed for cycle in entry["cycles"]) == triads
    assert all(entry["fewest"] and not entry["more_cycles"] for entry in listed)
    assert scores.metrics["conflict/reversals"].value == sum(len(entry["reverse"]) for entry in listed)


def test_qlora_cases_with_a_missing_pass_are_left_out(shared, configure):
    metrics = score_run(configure(swap={"resolve": "mean"}), *qlora(shared / "data" / "qlora_vicuna")).metrics
    rate = metrics["conflict/rate"]
    assert (rate.n, rate.missing) == (69, 11)
    assert rate.value == pytest.approx(3 / 69)
    assert (rate.worst_low, rate.worst_high) == pytest.approx((3 / 80, 14 / 80))
