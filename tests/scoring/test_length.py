"""Length: regression of the verdict, the win rate at equal length, and what length adds to scores."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import ScoringConfig
from evalkit.scoring import score_run
from evalkit.scoring.stats import logistic
from evalkit.scoring.stats.bootstrap import Tally, measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.logistic import expit, fit
from tests.support.penalized import slow_fit


def pairs(seed, n=120, bias=1.0, quality=0.0, advantage=0.0):
    """Simulate lengths, labels and verdicts of a judge that favours length by `bias` a standard deviation."""
    generator = np.random.default_rng(seed)
    ratio = generator.normal(0, 0.5, n)
    first, second = np.round(200 * np.exp(ratio / 2)).astype(int), np.round(200 * np.exp(-ratio / 2)).astype(int)
    x = np.log(first / second)
    label = np.where(generator.random(n) < 0.5, 1.0, -1.0)
    p = 1 / (1 + np.exp(-(advantage + bias * x / x.std() + quality * label)))
    return first, second, label, np.where(generator.random(n) < p, 1.0, -1.0)


def run(configure, make_case, judged, first, second, label, verdict, **scoring):
    cases = [
        make_case(str(k), ("x" * a, "y" * b), label={1.0: "A", -1.0: "B", None: None}[choice])
        for k, (a, b, choice) in enumerate(zip(first, second, label, strict=True))
    ]
    judgments = [judged(str(k), (0, 1), value) for k, value in enumerate(verdict)]
    config = configure(swap={"policy": "none"}, scoring={"bootstrap": 400, **scoring})
    return score_run(config, cases, judgments).metrics


def test_the_slopes_equal_the_slow_penalized_ones(configure, make_case, judged):
    first, second, label, verdict = pairs(1, n=300, quality=0.7)
    verdict[::9] = 0.0  # ties count half
    metrics = run(configure, make_case, judged, first, second, label, verdict)
    x = np.log(first / second)
    x = x / x.std()
    y = (1 + verdict) / 2
    plain, held = slow_fit(sm.add_constant(x), y), slow_fit(sm.add_constant(np.stack([x, label], axis=1)), y)
    assert metrics["length/slope"].value == pytest.approx(plain[1], abs=1e-6)
    assert metrics["length/slope_at_label"].value == pytest.approx(held[1], abs=1e-6)
    assert metrics["length/slope"].low > 0


def test_the_controlled_win_rate_equals_statsmodels(configure, make_case, judged):
    first, second, label, verdict = pairs(2, bias=1.5, advantage=0.4)
    metrics = run(configure, make_case, judged, first, second, label, verdict)
    difference = (first - second).astype(float)
    design = sm.add_constant(np.tanh(difference / difference.std()))
    found = sm.GLM((1 + verdict) / 2, design, family=sm.families.Binomial()).fit(tol=1e-14)
    expected = 1 / (1 + np.exp(-found.params[0]))
    metric = metrics["length/controlled_win_rate"]
    assert metric.value == pytest.approx(expected, abs=1e-9)
    assert metric.low < expected < metric.high
    assert metrics["length/win_rate"].value == pytest.approx(((1 + verdict) / 2).mean())


def test_one_step_is_close_to_fitting_each_resample_anew():
    first, second, label, verdict = pairs(4, n=150, quality=0.5)
    x = np.log(first / second)
    design = np.stack([np.ones(150), x / x.std(), label], axis=1)
    outcome = (1 + verdict) / 2
    item = logistic.rate_at_zero("x", design, outcome, Tally(np.arange(150), 150))
    weights = np.concatenate([rows for _, rows in Clusters.each(150).draw(200, 0)])
    near = item.value(item.table.totals(weights))
    drawn = [np.repeat(np.arange(150), row.astype(int)) for row in weights]
    anew = expit(np.array([fit(design[rows], outcome[rows]).coefficients[0] for rows in drawn]))
    assert np.corrcoef(near, anew)[0, 1] > 0.99
    assert np.quantile(near, [0.025, 0.975]) == pytest.approx(np.quantile(anew, [0.025, 0.975]), abs=0.15)


def test_the_interval_of_a_large_run_is_the_clustered_sandwich(configure, make_case, judged):
    first, second, label, verdict = pairs(5, n=800, bias=0.5)
    metric = run(configure, make_case, judged, first, second, label, verdict, bootstrap=2000)["length/slope"]
    x = np.log(first / second)
    model = sm.GLM((1 + verdict) / 2, sm.add_constant(x / x.std()), family=sm.families.Binomial())
    error = model.fit(cov_type="HC0").bse[1]
    assert metric.high - metric.low == pytest.approx(2 * 1.96 * error, rel=0.1)


@pytest.mark.parametrize(
    ("first", "second", "verdict", "why"),
    [
        ([10, 20], [20, 40], [1.0, -1.0], "the same in every pair"),
        ([10, 40], [20, 20], [None, None], "no pair has a verdict"),
    ],
)
def test_no_slope_has_a_reason(configure, make_case, judged, first, second, verdict, why):
    metrics = run(configure, make_case, judged, first, second, [None] * len(first), verdict)
    assert metrics["length/slope"].value is None
    assert why in metrics["length/slope"].note
    assert metrics["length/slope_at_label"].note == "no labeled pair has a verdict"


def test_a_fit_that_does_not_settle_is_none(monkeypatch):
    monkeypatch.setattr(logistic, "STEPS", 1)
    assert fit(np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 0.0, 1.0])).coefficients is None


def test_an_outlier_is_not_taken_for_separation():
    x = np.array([-1.0, -0.5, 0.0, 0.2, 0.5, 1.0, 400.0])
    design, outcome = np.stack([np.ones(7), x], axis=1), np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0])
    expected = sm.GLM(outcome, design, family=sm.families.Binomial()).fit(tol=1e-14).params
    assert fit(design, outcome).coefficients == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=2, max_size=12))
def test_there_is_a_fit_if_and_only_if_the_outcomes_overlap(rows):
    won, lost = ([x for x, y in rows if y == side] for side in (True, False))
    design = np.array([[1.0, x] for x, _ in rows])
    found = fit(design, np.array([float(y) for _, y in rows]))
    overlap = won and lost and min(won) < max(lost) and min(lost) < max(won)
    if len({x for x, _ in rows}) < 2:
        assert "collinear" in found.reason
    else:
        assert (found.coefficients is not None) == bool(overlap)


def test_a_label_that_says_all_leaves_nothing_to_length(configure, make_case, judged):
    first, second, label, _ = pairs(6, n=40)
    metric = run(configure, make_case, judged, first, second, label, label)["length/slope_at_label"]
    assert (metric.value, metric.low) == (None, None)
    assert metric.note == "0 verdicts differ from the label, and 10 are needed to see what else they depend on"
    constant = run(configure, make_case, judged, first, second, np.ones(40), label)["length/slope_at_label"]
    assert "collinear" in constant.note


@pytest.mark.parametrize(("contrary", "defined"), [(2, False), (9, False), (20, True), (60, True)])
def test_few_verdicts_against_the_label_show_nothing(configure, make_case, judged, contrary, defined):
    first, second, label, _ = pairs(7, n=300)
    longer = np.where(first > second, 1.0, -1.0)
    verdict = label.copy()
    verdict[np.flatnonzero(label != longer)[:contrary]] *= -1  # only for the longer one
    metric = run(configure, make_case, judged, first, second, label, verdict)["length/slope_at_label"]
    assert (metric.value is not None) == defined == (metric.low is not None)
    assert not defined or metric.low > 0


@pytest.mark.parametrize("slips", [0, 1, 3])
def test_a_judge_that_always_takes_the_longer_answer_is_shown(configure, make_case, judged, slips):
    """Complete separation is the strongest evidence of all, and a verdict or three against it change nothing."""
    first, second, label, _ = pairs(8, n=200)
    verdict = np.where(first > second, 1.0, -1.0)
    verdict[:slips] *= -1
    metrics = run(configure, make_case, judged, first, second, label, verdict)
    for name in ("length/slope", "length/slope_at_label"):
        assert 1 < metrics[name].low < metrics[name].value < metrics[name].high


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("separated", [True, False])
def test_copies_of_a_pair_on_one_prompt_add_no_evidence(size, separated):
    """Of one outcome by prompt, four copies count as one, and as less than four of their own prompts."""
    generator = np.random.default_rng(3)
    x = np.repeat(generator.normal(size=40), size)
    y = (x > 0) * 1.0 if separated else np.repeat(generator.random(40) < 0.5, size) * 1.0
    n = len(x)
    clusters = Clusters.by_key(np.repeat(np.arange(1, 41), size), "prompt")
    item = logistic.slope("length/slope", np.stack([np.ones(n), x], axis=1), y, Tally(np.arange(n), n), 1)
    once = logistic.slope(
        "length/slope", np.stack([np.ones(40), x[::size]], axis=1), y[::size], Tally(np.arange(40), 40), 1
    )
    settings = ScoringConfig(bootstrap=400)
    metric, single = (
        measure([one], settings, by)["length/slope"] for one, by in ((item, clusters), (once, Clusters.each(40)))
    )
    assert metric.high - metric.low > 0.95 * (single.high - single.low)
    assert separated == (metric.low > 0) == (single.low > 0)


def test_one_prompt_says_little():
    generator = np.random.default_rng(1)
    x = generator.normal(size=30)
    item = logistic.slope("length/slope", x[:, None], (x > 0) * 1.0, Tally(np.arange(30), 30), 0)
    one = measure([item], ScoringConfig(bootstrap=50), Clusters(30, 1, np.zeros(30, dtype=int), "prompt"))
    assert one["length/slope"].low < 0


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ([30, 40, 50], [10, 10, 10], "the second response is at least as long as the other in only 0% of pairs"),
        ([10, 10, 10], [30, 40, 50], "the first response is at least as long as the other in only 0% of pairs"),
        ([10, 20, 30], [10, 20, 30], "the difference in length is the same in every pair"),
    ],
)
def test_a_win_rate_at_a_length_hardly_seen_is_not_read_off(configure, make_case, judged, first, second, why):
    metrics = run(configure, make_case, judged, first, second, [None] * 3, [1.0, -1.0, 1.0])
    assert metrics["length/controlled_win_rate"].value is None
    assert why in metrics["length/controlled_win_rate"].note
    assert metrics["length/win_rate"].value == pytest.approx(2 / 3)


def test_nothing_read(configure, make_case, judged):
    metrics = run(configure, make_case, judged, [1, 2], [2, 1], [None, None], [None, None])
    assert metrics["length/controlled_win_rate"].note == "no pair has a verdict"
    assert (metrics["length/win_rate"].worst_low, metrics["length/win_rate"].worst_high) == (0, 1)


def test_win_rate_worst_cases(configure, make_case, judged):
    metric = run(configure, make_case, judged, [5] * 4, [4] * 4, [None] * 4, [1.0, 0.0, -1.0, None])["length/win_rate"]
    assert (metric.value, metric.worst_low, metric.worst_high) == (0.5, 1.5 / 4, 2.5 / 4)


def scores(pointwise, make_case, judged, rows, **scoring):
    """Score cases given as lists of (length, score, grade)."""
    cases = [
        make_case(str(k), ["x" * length for length, _, _ in row], grades=[grade for *_, grade in row])
        for k, row in enumerate(rows)
    ]
    judgments = [judged(str(k), (r,), score) for k, row in enumerate(rows) for r, (_, score, _) in enumerate(row)]
    return score_run(pointwise(scoring={"bootstrap": 100, **scoring}), cases, judgments)


ROW = st.tuples(st.sampled_from([1, 10, 30, 100, 300]), st.integers(1, 5).map(float), st.integers(1, 5).map(float))


@given(st.lists(st.lists(ROW, min_size=2, max_size=4), min_size=4, max_size=8))
def test_score_slopes_equal_least_squares_with_an_intercept_by_case(pointwise, make_case, judged, rows):
    metrics = scores(pointwise, make_case, judged, rows, bootstrap=0).metrics
    length, score, grade = (np.array(column) for column in zip(*(r for row in rows for r in row), strict=True))
    case = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    dummies = (case[:, None] == np.arange(len(rows))).astype(float)
    for name, more in (("length/score_slope", []), ("length/score_slope_at_grade", [grade])):
        design = np.column_stack([np.log10(length), *more, dummies])
        metric = metrics[name]
        if np.linalg.matrix_rank(design, tol=1e-6) == design.shape[1]:
            expected = np.linalg.lstsq(design, score, rcond=None)[0][0]
            assert metric.value == pytest.approx(expected, abs=1e-6)
        elif metric.value is None:
            assert "do not vary within" in metric.note


def test_single_responses_are_compared_across_cases(pointwise, make_case, judged):
    rows = [[(10, 1.0, None)], [(100, 3.0, None)], [(1000, 5.0, None)], [(7, None, None)]]
    metrics = scores(pointwise, make_case, judged, rows).metrics
    assert metrics["length/score_slope"].value == pytest.approx(2)
    assert metrics["length/score_slope"].missing == 1
    assert metrics["length/score_slope_at_grade"].note == "no graded response with a text has a score"


def test_length_control_takes_out_what_length_adds(pointwise, make_case, judged):
    lengths, quality = [10, 100, 1000], [(1.0, 2.0, 1.0), (2.0, 1.0, 1.0), (1.0, 1.0, 2.0), (2.0, 2.0, 1.0)]
    rows = [[(n, q + np.log10(n), q) for n, q in zip(lengths, row, strict=True)] for row in quality]
    controlled = scores(pointwise, make_case, judged, rows, length_control=True)
    found = {v.unit: v.score for v in controlled.verdicts if v.case_id == "0" and v.score is not None}
    assert [found[(k,)] for k in range(3)] == pytest.approx([3, 4, 3])
    assert controlled.metrics["agreement/pearson"].value == pytest.approx(1)
    plain = scores(pointwise, make_case, judged, rows)
    assert plain.metrics["agreement/pearson"].value < 0.9
    assert controlled.metrics["score/mean"] == plain.metrics["score/mean"]


def test_length_control_without_grades_or_variation(pointwise, make_case, judged):
    raw = scores(pointwise, make_case, judged, [[(10, 1.0, None), (100, 3.0, None)]], length_control=True)
    assert [v.score for v in raw.verdicts if v.score is not None] == pytest.approx([2, 2])
    same = scores(pointwise, make_case, judged, [[(10, 1.0, None), (10, 3.0, None)]], length_control=True)
    assert [v.score for v in same.verdicts if v.score is not None] == [1, 3]
    assert scores(pointwise, make_case, judged, [], length_control=True).verdicts == ()
