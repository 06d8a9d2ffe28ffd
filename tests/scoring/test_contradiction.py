"""Score orders against verdicts on the same pairs."""

import numpy as np
import pytest

from evalkit.config import ScoringConfig
from evalkit.scoring.metrics.agreement import contradictions
from evalkit.scoring.pipeline import score_run


def both(configure, pointwise, make_case, judged, scores, margins):
    """`scores` holds the scores of each case's responses, `margins` its pairs' margins; none is unreadable."""
    cases = [make_case(str(k), "abcd"[: len(row)]) for k, row in enumerate(scores)]
    singles = [
        judged(str(k), (r,), criteria={"quality": value} if value is not None else {})
        for k, row in enumerate(scores)
        for r, value in enumerate(row)
    ]
    pairs = [
        judged(str(k), unit, value) for k, row in enumerate(margins) for unit, value in row.items()
    ]
    one = score_run(pointwise(), cases, singles).verdicts
    two = score_run(configure(swap={"policy": "none"}), cases, pairs).verdicts
    return contradictions(one, two, ScoringConfig(bootstrap=200))


def test_what_contradicts_what(configure, pointwise, make_case, judged):
    scores = [[3, 2], [3, 2], [2, 2], [1, 4], [None, 3], [5, 1]]
    margins = [{(0, 1): m} for m in (1, -1, 1, 0, 1, None)]
    metrics = both(configure, pointwise, make_case, judged, scores, margins)
    strict, any_ = metrics["between/contradiction"], metrics["between/difference"]
    assert (strict.value, strict.n, strict.missing) == (0.5, 2, 2)
    assert (strict.worst_low, strict.worst_high) == (0.25, 0.75)
    assert (any_.value, any_.n, any_.missing) == (0.75, 4, 2)


def test_a_missing_side_of_a_tie_can_contradict_nothing(configure, pointwise, make_case, judged):
    metrics = both(
        configure, pointwise, make_case, judged, [[2, 2], [3, 2]], [{(0, 1): None}, {(0, 1): 1}]
    )
    strict = metrics["between/contradiction"]
    assert (strict.n, strict.missing, strict.worst_high) == (1, 0, 0)
    assert metrics["between/difference"].missing == 1


def test_several_pairs_of_one_case_are_resampled_together(configure, pointwise, make_case, judged):
    generator = np.random.default_rng(0)
    scores = [generator.permutation([1, 2, 3]).tolist() for _ in range(40)]
    margins = [
        {
            (i, j): float(np.sign(row[i] - row[j])) * (-1 if k % 4 == 0 else 1)
            for i, j in [(0, 1), (0, 2), (1, 2)]
        }
        for k, row in enumerate(scores)
    ]
    metrics = both(configure, pointwise, make_case, judged, scores, margins)
    rate = metrics["between/contradiction"]
    assert (rate.value, rate.n) == (0.25, 120)
    assert rate.high - rate.low == pytest.approx(2 * 1.96 * (0.25 * 0.75 / 40) ** 0.5, rel=0.25)


def test_pairs_that_only_one_has_are_left_out(configure, pointwise, make_case, judged):
    config = configure(swap={"policy": "none"})
    one = score_run(
        pointwise(), [make_case("x")], [judged("x", (r,), criteria={"quality": r}) for r in (0, 1)]
    ).verdicts
    two = score_run(config, [make_case("y")], [judged("y", (0, 1), 1.0)]).verdicts
    metrics = contradictions(one, two, ScoringConfig(bootstrap=10))
    assert {metric.value for metric in metrics.values()} == {None}
    assert "no pair was read in both" in metrics["between/difference"].note
