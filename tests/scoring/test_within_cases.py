"""Correlations within cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evalkit.scoring import score_run

LEVEL = st.integers(1, 5).map(float)
CASES = st.lists(st.lists(st.tuples(LEVEL | st.none(), LEVEL | st.none()), min_size=1, max_size=5), max_size=6)


def run(pointwise, make_case, judged, rows, **sections):
    cases = [make_case(str(k), "abcde"[: len(row)], grades=[grade for grade, _ in row]) for k, row in enumerate(rows)]
    judgments = [judged(str(k), (r,), score) for k, row in enumerate(rows) for r, (_, score) in enumerate(row)]
    return score_run(pointwise(scoring={"bootstrap": 0}, **sections), cases, judgments).metrics


@pytest.mark.slow
@given(CASES)
def test_they_are_the_means_of_scipys_by_case(pointwise, make_case, judged, rows):
    metrics = run(pointwise, make_case, judged, rows)
    for name, correlate in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr), ("kendall", stats.kendalltau)):
        found = []
        for row in rows:
            both = [(grade, score) for grade, score in row if grade is not None and score is not None]
            if len({g for g, _ in both}) > 1 and len({s for _, s in both}) > 1:
                found.append(correlate(*zip(*both, strict=True)).statistic)
        metric = metrics[f"agreement/{name}_within"]
        assert metric.n == len(found)
        if found:
            assert metric.value == pytest.approx(np.mean(found), abs=1e-9)
        else:
            assert (metric.value, metric.note) == (None, "no case has two graded scores that differ")


def test_what_is_left_out_is_said(pointwise, make_case, judged):
    rows = [[(1.0, 2.0), (2.0, 3.0)], [(1.0, 2.0), (2.0, 2.0)], [(1.0, None), (2.0, 3.0)]]
    metric = run(pointwise, make_case, judged, rows)["agreement/kendall_within"]
    assert (metric.value, metric.n, metric.missing) == (1, 1, 1)
    assert metric.note.startswith("1 cases with equal scores or equal grades are omitted; missing scores")
