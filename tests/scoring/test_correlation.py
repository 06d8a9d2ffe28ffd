"""Correlations with grades, against scipy."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evalkit.scoring import score_run
from evalkit.scoring.columns import ScoreColumns
from evalkit.scoring.metrics import correlation
from evalkit.scoring.metrics.correlation import correlation_statistics
from evalkit.scoring.stats.clusters import Clusters

ORACLES = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def scored(case, x, y, cases=0):
    case = np.array(case, dtype=np.int64)
    x, y = np.array(x, dtype=float), np.array(y, dtype=float)
    return ScoreColumns(
        case, np.zeros(len(case), np.int64), x, x, x, y, np.zeros(max(cases, 1 + case.max(initial=0)), np.int64)
    )


def found(table):
    return {item.name.split("/")[1]: item for item in correlation_statistics(table)}


ROW = st.tuples(st.integers(0, 5), st.sampled_from([1.0, 2.0, 2.5, 5.0]), st.integers(0, 3))


@given(st.lists(ROW, min_size=2, max_size=25))
def test_values_and_resamples_equal_scipy(rows):
    case, x, y = (np.array(column) for column in zip(*sorted(rows), strict=True))
    statistics = found(scored(case, x, y, 6))
    for _, weights in Clusters.each(6).draw(4, 0):
        for row in [np.ones(6), *weights]:
            taken = np.repeat(np.arange(len(case)), row[case].astype(int))
            for name, oracle in ORACLES.items():
                item = statistics[name]
                totals = row[None] if item.weighted else item.table.totals(row[None])
                value = item.value(totals)[0]
                if len(set(x[taken])) < 2 or len(set(y[taken])) < 2:
                    assert np.isnan(value)
                else:
                    assert value == pytest.approx(oracle(x[taken], y[taken]).statistic, abs=1e-9)


def sample(cases, per_case, generator):
    case = np.repeat(np.arange(cases), per_case)
    common = generator.normal(size=cases)[case] + generator.normal(size=len(case))
    return scored(case, common + generator.normal(size=len(case)), np.round(common))


def test_a_projected_kendall_is_close_to_the_exact_one(monkeypatch):
    table = sample(400, 4, np.random.default_rng(0))
    exact = found(table)["kendall"]
    monkeypatch.setattr(correlation, "EXACT_ROWS", 1000)
    monkeypatch.setattr(correlation, "ANCHORS", 800)
    projected = found(table)["kendall"]
    assert not projected.weighted
    assert projected.observed() == pytest.approx(exact.observed(), abs=1e-12)
    ((_, weights),) = Clusters.each(400).draw(500, 1)
    spread = exact.value(weights).std()
    assert (projected.value(projected.table.totals(weights))).std() == pytest.approx(spread, rel=0.05)
    difference = projected.value(projected.table.totals(weights)) - exact.value(weights)
    assert np.abs(difference).max() < spread / 2


@pytest.mark.parametrize(
    ("x", "y", "why", "missing"),
    [
        ([1, 2], [np.nan, np.nan], "no scored response has a grade", 0),
        ([np.nan, np.nan], [1, 2], "no scored response has a grade", 2),
        ([3, 3], [1, 2], "scores or grades are all equal", 0),
    ],
)
def test_what_is_not_defined_says_why(x, y, why, missing):
    for item in correlation_statistics(scored([0, 1], x, y)):
        assert np.isnan(item.observed())
        assert item.why == why
        assert item.missing == missing


KNOWN = [
    ([1, 2, 4, 5], [1, 3, 3, 5], [2, 4]),
    ([5, 3, 1], [1, 2, 5], [5, 1, 3]),
    ([2, 2], [1, 4], [2, 5]),
    ([3, 2], [5, 4], [4, 5]),  # on the way to the largest r, one is not positive
    ([1, 1.5, 2, 2.5, 4, 5], [1, 2, 2, 3, 4, 5], [3]),
    ([3], [2], [4, 5]),
    ([1], [2], [1]),
    ([1, 1, 2, 2, 3, 3, 4, 4, 5, 5], [1, 1, 2, 2, 3, 3, 4, 4, 5, 5], [3]),
    ([5, 5, 4, 4, 2, 2, 1, 1], [1, 1, 2, 2, 4, 4, 5, 5], [2]),
]


@pytest.mark.parametrize(("x", "y", "lost"), KNOWN)
def test_bounds_hold_every_completion(x, y, lost):
    n = len(x) + len(lost)
    table = scored(np.zeros(n, int), [*x, *[np.nan] * len(lost)], [*y, *lost])
    items = {item.name.split("/")[1]: item for item in correlation_statistics(table, (1.0, 5.0))}
    steps = np.linspace(1, 5, 33 if len(lost) < 3 else 17)
    reached = {name: [] for name in ORACLES}
    for filled in product(steps, repeat=len(lost)):
        every = np.array([*x, *filled])
        if np.ptp(every):
            for name, oracle in (("pearson", np.corrcoef), ("kendall", None), ("spearman", None)):
                if oracle is not None:
                    reached[name].append(oracle(every, [*y, *lost])[0, 1])
                elif all(value % 0.5 == 0 for value in filled):  # between the known scores ranks do not change
                    reached[name].append(ORACLES[name](every, [*y, *lost]).statistic)
    for name, values in reached.items():
        low, high = items[name].worst
        assert -1 <= low <= min(values) + 1e-9, name
        assert 1 >= high >= max(values) - 1e-9, name
    low, high = items["pearson"].worst
    assert high == pytest.approx(max(reached["pearson"]), abs=0.01)
    assert low == pytest.approx(min(reached["pearson"]), abs=0.01)
    assert items["pearson"].note is None


def test_one_missing_score_of_many_moves_a_correlation_little():
    table = sample(150, 2, np.random.default_rng(4))
    score = np.clip(table.score, -4, 4)
    score[17] = np.nan
    for item in correlation_statistics(replace(table, score=score), (-4.0, 4.0)):
        low, high = item.worst
        assert low <= item.observed() <= high
        assert high - low < 0.06, item.name


def test_scores_that_depend_on_each_other_are_not_bounded(pointwise, make_case, judged):
    cases = [make_case(str(k), "ab", grades=[k, k + 1]) for k in range(4)]
    judgments = [judged(str(k), (r,), None if k == r == 0 else 1.0 + k - r / 2) for k in range(4) for r in range(2)]
    for how, bounded in (("none", True), ("minmax", True), ("zscore", False), ("rank", False)):
        metrics = score_run(pointwise(scoring={"normalize": how, "bootstrap": 0}), cases, judgments).metrics
        for name in ORACLES:
            found = metrics[f"agreement/{name}"]
            assert found.missing == 1
            assert (found.worst_low is not None) == bounded, (how, name)
            assert bounded == ("not bounded" not in (found.note or ""))


def within(pointwise, make_case, judged, rows):
    cases = [make_case(str(k), "abcde"[: len(row)], grades=[grade for grade, _ in row]) for k, row in enumerate(rows)]
    judgments = [judged(str(k), (r,), score) for k, row in enumerate(rows) for r, (_, score) in enumerate(row)]
    return score_run(pointwise(scoring={"bootstrap": 0}), cases, judgments).metrics


def test_correlations_within_cases_are_the_means_of_scipys(pointwise, make_case, judged):
    generator, levels = np.random.default_rng(3), [*map(float, range(1, 6)), None]
    rows = [
        [tuple(levels[level] for level in generator.integers(0, 6, 2)) for _ in range(generator.integers(1, 6))]
        for _ in range(150)
    ]
    metrics = within(pointwise, make_case, judged, rows)
    for name, correlate in ORACLES.items():
        found = []
        for row in rows:
            both = [(grade, score) for grade, score in row if grade is not None and score is not None]
            if len({g for g, _ in both}) > 1 and len({s for _, s in both}) > 1:
                found.append(correlate(*zip(*both, strict=True)).statistic)
        metric = metrics[f"agreement/{name}_within"]
        assert (metric.n, metric.value) == (len(found), pytest.approx(np.mean(found), abs=1e-9))
    metric = within(pointwise, make_case, judged, [[(1.0, 2.0), (1.0, 3.0)], []])["agreement/pearson_within"]
    assert (metric.n, metric.value, metric.note) == (0, None, "no case has two graded scores that differ")


def test_cases_left_out_of_correlations_within_cases_are_counted(pointwise, make_case, judged):
    rows = [[(1.0, 2.0), (2.0, 3.0)], [(1.0, 2.0), (2.0, 2.0)], [(1.0, None), (2.0, 3.0)]]
    metric = within(pointwise, make_case, judged, rows)["agreement/kendall_within"]
    assert (metric.value, metric.n, metric.missing) == (1, 1, 1)
    assert metric.note.startswith("1 cases with equal scores or equal grades are omitted; missing scores")
