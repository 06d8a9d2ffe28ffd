"""The whole of scoring: pure, total, and the same for the same input."""

from __future__ import annotations

import math
from dataclasses import astuple, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.errors import ConfigError
from evalkit.scoring import score_run
from evalkit.scoring.pipeline import frontier_of


def test_the_metrics_of_each_mode_are_there_whatever_the_data(configure, pointwise, make_case, passes, judged):
    scores = [judged("c", (k,), criteria={"quality": 1 + k}) for k in (0, 1)]
    for config, judgments, named in (
        (configure(), passes("c", 1, 1), {"position/consistency", "jnd/noise", "conflict/zeta", "cost/per_case"}),
        (pointwise(), scores, {"score/mean", "agreement/spearman_within", "length/score_slope", "missing/budget"}),
    ):
        runs = ([], []), ([make_case("c")], []), ([make_case("c", ("a",))], []), ([make_case("c")], judgments)
        names = {frozenset(score_run(config, *run).metrics) for run in runs}
        assert len(names) == 1
        assert named < next(iter(names))


VALUE = st.none() | st.floats(-1, 1)
PASSES = st.lists(
    st.tuples(st.integers(2, 4), st.sampled_from(["A", "B", "TIE", None]), st.lists(VALUE, min_size=24, max_size=24)),
    max_size=5,
)


def judgments_of(rows, make_case, judged):
    cases, judgments = [], []
    for k, (size, label, values) in enumerate(rows):
        cases.append(make_case(str(k), "abcd"[:size], label=label))
        units = [(i, j) for i in range(size) for j in range(i + 1, size)]
        places = [(unit, swapped, sample) for unit in units for swapped in (False, True) for sample in (0, 1)]
        for (unit, swapped, sample), value in zip(places, values, strict=False):
            confidence = None if value is None or value > 0.9 else abs(value)
            judgments.append(judged(str(k), unit, value, swapped=swapped, sample=sample, confidence=confidence))
    return cases, judgments


@given(PASSES, st.sampled_from(["tie", "lower_confidence", "net_vote", "mean"]), st.randoms())
def test_every_number_is_finite_bounded_and_independent_of_order(configure, make_case, judged, rows, resolve, random):
    cases, judgments = judgments_of(rows, make_case, judged)
    config = configure(swap={"resolve": resolve}, tie={"threshold": 0.1}, scoring={"bootstrap": 20})
    scores = score_run(config, cases, judgments)
    assert len(scores.verdicts) == sum(size * (size - 1) // 2 for size, *_ in rows)
    for metric in scores.metrics.values():
        numbers = [value for value in astuple(metric)[1:8] if value is not None]
        assert all(math.isfinite(value) for value in numbers)
        assert (metric.value is not None) or metric.note
        if metric.value is not None and metric.worst_low is not None:
            assert metric.worst_low - 1e-9 <= metric.value <= metric.worst_high + 1e-9
    for verdict in scores.verdicts:
        assert (verdict.winner is None) == (verdict.reason == "missing") == (verdict.margin is None)
        assert verdict.confidence is None or 0 <= verdict.confidence <= 1
    random.shuffle(judgments)
    assert score_run(config, cases, judgments) == scores


def test_pointwise_is_independent_of_order_too(pointwise, make_case, judged):
    cases = [make_case(str(k), "abc", grades=[1, 2, 3]) for k in range(9)]
    judgments = [
        judged(str(k), (r,), criteria={"quality": 1 + (k * r) % 5}, sample=s)
        for k in range(9)
        for r in range(3)
        for s in range(2)
    ]
    scores = score_run(pointwise(), cases, judgments)
    assert score_run(pointwise(), cases, judgments[::-1]) == scores
    assert [verdict.unit for verdict in scores.verdicts[:6]] == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"case_id": "zzz"}, "case 'zzz': this case was judged but is not in the dataset"),
        ({"unit": (0, 2), "shown": (0, 2)}, r"case 'c': responses \[0, 2\] were judged, but the case has 2"),
        ({"unit": (1, 0)}, r"case 'c': responses \[1, 0\] were judged"),
        ({"unit": (1, 1), "shown": (1, 1)}, r"case 'c': responses \[1, 1\] were judged"),
        ({"shown": (0, 0)}, r"case 'c': unit \[0, 1\] was shown as \[0, 0\]"),
        ({"sample": 0}, r"case 'c': responses \[0, 1\] have two judgments.*sample 0; keep one"),
        ({"unit": (0,), "shown": (0,)}, "judgments of 1 and 2 responses"),
        ({"unit": (0, 1, 2), "shown": (0, 1, 2)}, r"case 'c': responses \[0, 2\] were judged, but the case has 2"),
        ({"unit": (0, 1, 2), "shown": (0, 1)}, r"case 'c': unit \[0, 1, 2\] was shown as \[0, 1\]"),
        ({"ranking": ((0,), (0,))}, r"case 'c': unit \[0, 1\] was ranked as \[\[0\], \[0\]\]"),
        ({"ranking": ((0,), (2,))}, r"case 'c': unit \[0, 1\] was ranked as \[\[0\], \[2\]\]"),
        ({"unit": (), "shown": ()}, "judgments of 0 and 2 responses"),
    ],
)
def test_judgments_that_do_not_belong(configure, make_case, judged, passes, change, message):
    extra = replace(judged("c", (0, 1), 1.0, sample=1), **change)
    with pytest.raises(ConfigError, match=message):
        score_run(configure(), [make_case("c")], [*passes("c", 1, 1), extra])


def test_a_response_scored_twice(pointwise, make_case, judged):
    twice = [judged("c", (1,), criteria={"quality": 3})] * 2
    with pytest.raises(ConfigError, match=r"responses \[1\] have two judgments"):
        score_run(pointwise(), [make_case("c")], twice)


def test_a_mode_of_ones_own_is_known_by_its_judgments(configure, make_case, judged):
    config = configure(mode={"name": "mine"}, swap={"policy": "none"})
    assert "position/consistency" in score_run(config, [make_case("c")], [judged("c", (0, 1), 1.0)]).metrics
    assert "score/mean" in score_run(config, [make_case("c")], [judged("c", (0,), 1.0)]).metrics


def test_the_frontier(configure, make_case, passes):
    cases = [make_case(str(k), label=label) for k, label in enumerate(["A", "B", "A", None, "TIE"])]
    rows = [(0.2, 0.2), (0.5, 0.5), (1, 1), (0, 0), (None, None)]
    judgments = [j for k, row in enumerate(rows) for j in passes(str(k), *row)]
    points = score_run(configure(tie={"threshold": 0.4}), cases, judgments).frontier
    assert [point.threshold for point in points] == [0, 0.2, 0.5, 1]
    assert [point.tie_rate for point in points] == [0.25, 0.5, 0.75, 1]
    assert [point.accuracy for point in points] == pytest.approx([2 / 3, 1 / 3, 1 / 3, 0])
    assert [point.decided_accuracy for point in points] == [pytest.approx(2 / 3), 0.5, 1, None]
    assert {point.weak_rate for point in points} == {None}
    assert frontier_of(configure(), cases, judgments) == points


def test_the_frontier_shows_weak_violations_and_is_capped(pointwise, make_case, judged):
    judgments = [judged("c", (k,), criteria={"quality": value}) for k, value in enumerate([1, 2, 3])]
    points = score_run(pointwise(), [make_case("c", "abc")], judgments).frontier
    assert [(point.threshold, point.weak_rate) for point in points] == [(0, 0), (1, 1), (2, 0)]
    cases = [make_case(str(k)) for k in range(300)]
    spread = [judged(str(k), (r,), criteria={"quality": 1 + r * k / 300}) for k in range(300) for r in (0, 1)]
    many = score_run(pointwise(), cases, spread).frontier
    assert len(many) == 101
    assert (many[0].threshold, many[-1].threshold) == (0, pytest.approx(299 / 300))
    assert [point.tie_rate for point in many] == sorted(point.tie_rate for point in many)


def test_nothing_to_score(configure, make_case):
    scores = score_run(configure(), [], [])
    assert (scores.verdicts, scores.frontier) == ((), ())
    assert {metric.value for name, metric in scores.metrics.items() if name != "decision/labels_needed"} == {None}
