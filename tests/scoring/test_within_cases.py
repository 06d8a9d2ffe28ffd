"""Correlations within cases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evalkit.scoring import score_run


def run(pointwise, make_case, judged, rows, **sections):
    cases = [make_case(str(k), "abcde"[: len(row)], grades=[grade for grade, _ in row]) for k, row in enumerate(rows)]
    judgments = [judged(str(k), (r,), score) for k, row in enumerate(rows) for r, (_, score) in enumerate(row)]
    return score_run(pointwise(scoring={"bootstrap": 0}, **sections), cases, judgments).metrics


def test_they_are_the_means_of_scipys_by_case(pointwise, make_case, judged):
    generator, levels = np.random.default_rng(3), [*map(float, range(1, 6)), None]
    rows = [
        [tuple(levels[level] for level in generator.integers(0, 6, 2)) for _ in range(generator.integers(1, 6))]
        for _ in range(150)
    ]
    metrics = run(pointwise, make_case, judged, rows)
    for name, correlate in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr), ("kendall", stats.kendalltau)):
        found = []
        for row in rows:
            both = [(grade, score) for grade, score in row if grade is not None and score is not None]
            if len({g for g, _ in both}) > 1 and len({s for _, s in both}) > 1:
                found.append(correlate(*zip(*both, strict=True)).statistic)
        metric = metrics[f"agreement/{name}_within"]
        assert (metric.n, metric.value) == (len(found), pytest.approx(np.mean(found), abs=1e-9))
    metric = run(pointwise, make_case, judged, [[(1.0, 2.0), (1.0, 3.0)], []])["agreement/pearson_within"]
    assert (metric.n, metric.value, metric.note) == (0, None, "no case has two graded scores that differ")


def test_what_is_left_out_is_said(pointwise, make_case, judged):
    rows = [[(1.0, 2.0), (2.0, 3.0)], [(1.0, 2.0), (2.0, 2.0)], [(1.0, None), (2.0, 3.0)]]
    metric = run(pointwise, make_case, judged, rows)["agreement/kendall_within"]
    assert (metric.value, metric.n, metric.missing) == (1, 1, 1)
    assert metric.note.startswith("1 cases with equal scores or equal grades are omitted; missing scores")
