"""Responses scored one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evalkit.core.scale import Scale
from evalkit.scoring import score_run
from evalkit.scoring.verdicts.pointwise import minmax, rank, zscore

NAN = float("nan")


def scores_of(result):
    return [verdict.score for verdict in result.verdicts if len(verdict.unit) == 1]


def pairs_of(result):
    return [verdict for verdict in result.verdicts if len(verdict.unit) == 2]


def test_criteria_are_weighted_and_samples_averaged(pointwise, make_case, judged):
    config = pointwise(criteria=[{"name": "truth", "weight": 3}, {"name": "style", "weight": 1}])
    judgments = [
        judged("c", (0,), criteria={"truth": 5, "style": 1}, confidence=0.6),
        judged("c", (0,), criteria={"truth": 3, "style": 3}, sample=1, confidence=0.8),
        judged("c", (0,), sample=2),
        judged("c", (1,), criteria={"truth": 5}),
    ]
    result = score_run(config, [make_case("c", grades=[4.5, 2])], judgments)
    first, second, pair = result.verdicts
    assert (first.unit, first.score, first.reason, first.label) == ((0,), 3.5, "judged", 4.5)
    assert first.criteria == {"truth": 4, "style": 2}
    assert first.confidence == pytest.approx(0.7)
    assert (second.unit, second.score, second.reason, second.label) == ((1,), None, "missing", 2)
    assert second.criteria == {"truth": 5}
    assert (pair.unit, pair.winner, pair.reason, pair.margin, pair.label) == ((0, 1), None, "missing", None, "A")
    assert pair.orders is None


def test_a_single_number_counts_where_there_are_no_criteria(pointwise, make_case, judged):
    result = score_run(pointwise(), [make_case("c", ("a",))], [judged("c", (0,), 4.0)])
    assert scores_of(result) == [4.0]


@pytest.mark.parametrize(
    ("threshold", "winners", "reasons"),
    [
        (0, ["A", "TIE", "B"], ["judged", "equal_scores", "judged"]),
        (0.3, ["TIE", "TIE", "TIE"], ["threshold", "equal_scores", "threshold"]),
        (0.29, ["A", "TIE", "B"], ["judged", "equal_scores", "judged"]),
    ],
)
def test_scores_imply_comparisons(pointwise, make_case, judged, threshold, winners, reasons):
    config = pointwise(tie={"threshold": threshold}, rubric={"min": 0, "max": 1, "step": 0.1})
    judgments = [judged("c", (k,), criteria={"quality": value}) for k, value in enumerate([0.4, 0.1, 0.4])]
    found = pairs_of(score_run(config, [make_case("c", "abc")], judgments))
    assert [verdict.unit for verdict in found] == [(0, 1), (0, 2), (1, 2)]
    assert [verdict.winner for verdict in found] == winners
    assert [verdict.reason for verdict in found] == reasons


def test_a_forbidden_tie_of_scores_is_settled_by_margin_then_coin(pointwise, make_case, judged):
    config = pointwise(tie={"threshold": 2, "allow": False})
    judgments = [judged("c", (k,), criteria={"quality": value}) for k, value in enumerate([3, 4, 4])]
    found = pairs_of(score_run(config, [make_case("c", "abc")], judgments))
    assert [verdict.winner for verdict in found][:2] == ["B", "B"]
    assert found[2].winner in ("A", "B")
    assert {verdict.reason for verdict in found} == {"forced"}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("none", [1, 5, 5, None, 3, 3]),
        ("minmax", [0, 1, 1, None, 0.5, 0.5]),
        ("rank", [1, 2.5, 2.5, None, 1.5, 1.5]),
        ("zscore", [-(2**0.5), 2**-0.5, 2**-0.5, None, 0, 0]),
    ],
)
def test_normalisation_is_by_case(pointwise, make_case, judged, how, expected):
    values = {"x": [1, 5, 5, None], "y": [3, 3]}
    judgments = [
        judged(name, (k,), **({"criteria": {"quality": value}} if value else {}))
        for name, row in values.items()
        for k, value in enumerate(row)
    ]
    result = score_run(pointwise(scoring={"normalize": how}), [make_case("x", "abcd"), make_case("y", "ab")], judgments)
    assert scores_of(result) == [None if value is None else pytest.approx(value) for value in expected]
    assert result.metrics["score/mean"].value == pytest.approx(17 / 5)
    assert result.metrics["score/distinct"].value == 3


@given(st.lists(st.lists(st.none() | st.sampled_from([1.0, 1.5, 2.0, 4.0, 5.0]), max_size=6), max_size=4))
def test_normalisation_equals_scipy(rows):
    case = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    scores = np.array([NAN if value is None else value for row in rows for value in row])
    ranks, deviations = rank(scores, case), zscore(scores, case)
    for number in range(len(rows)):
        mine = (case == number) & ~np.isnan(scores)
        np.testing.assert_allclose(ranks[mine], stats.rankdata(scores[mine]))
        spread = scores[mine].std() if mine.any() else 0
        expected = stats.zscore(scores[mine]) if spread else np.zeros(mine.sum())
        np.testing.assert_allclose(deviations[mine], expected, atol=1e-12)
    assert (np.isnan(ranks) == np.isnan(scores)).all()
    assert (np.isnan(deviations) == np.isnan(scores)).all()


def test_minmax_keeps_what_a_difference_means_across_scales():
    assert minmax(np.array([1.0, 5.5, 10.0]), Scale(1, 10, 1)).tolist() == [0, 0.5, 1]


def test_score_metrics_bound_what_is_missing(pointwise, make_case, judged):
    judgments = [judged("c", (0,), criteria={"quality": 4}), judged("c", (1,), status="refused")]
    metrics = score_run(pointwise(), [make_case("c", "ab"), make_case("d", "ab")], judgments).metrics
    mean = metrics["score/mean"]
    assert (mean.value, mean.n, mean.missing) == (4, 1, 3)
    assert (mean.worst_low, mean.worst_high) == (7 / 4, 19 / 4)
    distinct = metrics["score/distinct"]
    assert (distinct.value, distinct.worst_low, distinct.worst_high, distinct.low) == (1, 1, 4, None)
    empty = score_run(pointwise(), [make_case("c", "ab")], judgments[1:]).metrics
    assert empty["score/mean"].value is None
    assert empty["score/distinct"].value is None
    assert "no response has a score" in empty["score/mean"].note
