"""Figures that others published, from the texts and scores they published."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from evalkit.interop import Options, import_judgments
from evalkit.scoring import score_run
from evalkit.types import Case, Judgment

pytestmark = pytest.mark.shared


@cache
def qlora(folder: Path) -> tuple[list[Case], list[Judgment]]:
    """Return 80 prompts with eight systems' answers and every verdict."""
    imported = import_judgments("qlora", folder / "pairwise", Options())
    return [*imported.cases], [*imported.judgments]


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
