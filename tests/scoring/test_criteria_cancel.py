"""Weighted winners by criterion that cancel out: the overall winner decides, or the tie has a reason of its own."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

import pytest

from evalkit.scoring import score_run, verdicts_of

WEIGHTS = [("0.5", "0.3", "0.2"), ("0.3", "0.3", "0.4"), ("0.1", "0.2", "0.3"), ("0.7", "0.1", "0.6"), ("3", "2", "1")]
NAMES = ("x", "y", "z")


def criteria(weights):
    return [{"name": name, "weight": float(weight)} for name, weight in weights]


def verdict_of(configure, make_case, judged, weights, values, overall, **scoring):
    config = configure(criteria=criteria(weights), swap={"policy": "none"}, scoring=scoring)
    scores = score_run(config, [make_case("c")], [judged("c", (0, 1), overall, criteria=values)])
    return scores.verdicts[0], scores.metrics


@pytest.mark.parametrize("weights", WEIGHTS, ids="/".join)
def test_verdicts_follow_exact_arithmetic(configure, make_case, judged, weights):
    """Whatever the order of the criteria, the winner is that of rational weights, and a named winner breaks ties."""
    asked = list(product(product((1, 0, -1), repeat=3), (1.0, -1.0)))
    cases = [make_case(f"c{n}") for n in range(len(asked))]
    judgments = [
        judged(case.id, (0, 1), overall, criteria=dict(zip(NAMES, map(float, values), strict=True)))
        for case, (values, overall) in zip(cases, asked, strict=True)
    ]
    for order in permutations(zip(NAMES, weights, strict=True)):
        config = configure(criteria=criteria(order), swap={"policy": "none"}, scoring={"bootstrap": 0})
        for (values, overall), verdict in zip(asked, verdicts_of(config, cases, judgments), strict=True):
            exact = sum(Fraction(weight) * value for weight, value in zip(weights, values, strict=True))
            expected = exact or Fraction(overall)
            assert verdict.winner == ("A" if expected > 0 else "B"), (order, values, overall)
            assert (abs(verdict.margin) == 0.001) == (exact == 0)


CASES = [
    ({}, 1.0, "A", "judged"),
    ({}, 0.0, "TIE", "judged"),
    ({"aggregate": "overall"}, 1.0, "A", "judged"),
    ({"aggregate": "criteria_first"}, -1.0, "B", "judged"),
    ({"aggregate": "criteria"}, 1.0, "TIE", "criteria_cancel"),
    ({"aggregate": "criteria"}, 0.0, "TIE", "judged"),
]


@pytest.mark.parametrize(("scoring", "overall", "winner", "reason"), CASES)
def test_the_reason_of_a_tie_by_weights(configure, make_case, judged, scoring, overall, winner, reason):
    weights, values = tuple(zip(NAMES, (0.5, 0.3, 0.2), strict=True)), {"x": 1.0, "y": -1.0, "z": -1.0}
    verdict, metrics = verdict_of(configure, make_case, judged, weights, values, overall, **scoring)
    assert (verdict.winner, verdict.reason) == (winner, reason)
    assert metrics["tie_rate/criteria_cancel"].value == float(reason == "criteria_cancel")
    assert metrics["tie_rate/judged"].value == float((winner, reason) == ("TIE", "judged"))
    disagrees = scoring.get("aggregate") in ("overall", "criteria") and overall != 0
    assert metrics["criteria/overall_disagreement"].value == float(disagrees)


def test_ties_on_every_criterion_do_not_cancel(configure, make_case, judged):
    weights, values = tuple(zip(NAMES, (0.5, 0.3, 0.2), strict=True)), dict.fromkeys(NAMES, 0.0)
    verdict, _ = verdict_of(configure, make_case, judged, weights, values, 1.0, aggregate="criteria")
    assert (verdict.winner, verdict.reason) == ("TIE", "judged")


def test_an_overall_winner_only_breaks_ties(configure, make_case, judged):
    """One order cancels out with winner A, the other prefers B by 0.2: their mean is B, and a threshold applies."""
    weights = tuple(zip(NAMES, (0.5, 0.3, 0.2), strict=True))
    judgments = [
        judged("c", (0, 1), 1.0, criteria={"x": 1.0, "y": -1.0, "z": -1.0}),
        judged("c", (0, 1), -1.0, swapped=True, criteria={"x": 0.0, "y": 0.0, "z": -1.0}),
    ]
    config = configure(criteria=criteria(weights), swap={"policy": "both", "resolve": "mean"})
    (verdict,) = verdicts_of(config, [make_case("c")], judgments)
    assert verdict.winner == "B"
    assert verdict.margin == pytest.approx(-0.0995)
    config = config.model_copy(update={"tie": config.tie.model_copy(update={"threshold": 0.1})})
    (verdict,) = verdicts_of(config, [make_case("c")], judgments)
    assert verdict.reason == "threshold"


def test_a_panel_reports_that_criteria_cancel(configure, make_case, judged):
    weights, values = tuple(zip(NAMES, (0.5, 0.3, 0.2), strict=True)), {"x": 1.0, "y": -1.0, "z": -1.0}
    judges = [{"model": name, "name": name} for name in "jk"]
    config = configure(
        judge={"name": "panel", "judges": judges},
        criteria=criteria(weights),
        swap={"policy": "none"},
        scoring={"aggregate": "criteria"},
    )
    judgments = [judged("c", (0, 1), 1.0, criteria=values, judge=name) for name in "jk"]
    scores = score_run(config, [make_case("c")], judgments)
    assert scores.verdicts[0].reason == "criteria_cancel"
    assert scores.metrics["tie_rate/criteria_cancel"].value == 1.0
