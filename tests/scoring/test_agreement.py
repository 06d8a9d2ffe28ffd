"""Agreement with people's choices."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from evalkit.scoring import score_run
from evalkit.scoring.stats.coefficients import kappa

VALUES = {"A": 1.0, "TIE": 0.0, "B": -1.0, None: None}
WINNER = st.sampled_from(["A", "TIE", "B"])


def run(configure, make_case, passes, rows, **sections):
    """Score rows of (label, first pass, second pass)."""
    cases = [make_case(str(k), label=row[0]) for k, row in enumerate(rows)]
    judgments = [j for k, row in enumerate(rows) for j in passes(str(k), VALUES[row[1]], VALUES[row[2]])]
    return score_run(configure(scoring={"bootstrap": 0}, **sections), cases, judgments).metrics


@given(st.lists(st.tuples(WINNER, WINNER), min_size=1, max_size=30))
def test_kappa_equals_scikit_learn(rows):
    labels, winners = zip(*rows, strict=True)
    assume(len(set(labels + winners)) > 1)
    cells = np.zeros((3, 3))
    for label, winner in rows:
        cells[["A", "TIE", "B"].index(label), ["A", "TIE", "B"].index(winner)] += 1
    assert kappa(cells.reshape(1, 9))[0] == pytest.approx(cohen_kappa_score(labels, winners), abs=1e-12)


def test_kappa_of_one_class_is_not_identifiable(configure, make_case, passes):
    metric = run(configure, make_case, passes, [("A", "A", "A")] * 3)["agreement/kappa"]
    assert (metric.value, metric.worst_low, metric.worst_high) == (None, None, None)
    assert "all of one class" in metric.note


def test_accuracy_counts_a_tie_as_a_label_of_its_own(configure, make_case, passes):
    rows = [("A", "A", "A"), ("A", "A", "B"), ("TIE", "A", "B"), ("TIE", "A", "A"), (None, "B", "B")]
    metrics = run(configure, make_case, passes, rows)
    assert metrics["agreement/accuracy"].value == 2 / 4
    assert metrics["agreement/accuracy"].n == 4
    assert metrics["agreement/accuracy_per_order"].value == (2 / 4 + 1 / 4) / 2
    assert metrics["agreement/accuracy_first_order"].value == 2 / 4
    assert metrics["agreement/accuracy_second_order"].value == 1 / 4
    assert metrics["agreement/accuracy_both_orders"].value == 1 / 4


@pytest.mark.slow
@settings(max_examples=6)
@given(
    st.lists(st.tuples(WINNER, WINNER | st.none(), WINNER | st.none()), min_size=1, max_size=6).filter(
        lambda rows: sum((a is None) + (b is None) for _, a, b in rows) <= 3
    )
)
def test_worst_cases_are_those_of_filling_in_what_is_missing(configure, make_case, passes, rows):
    metrics = run(configure, make_case, passes, rows)
    lost = [(k, side) for k, row in enumerate(rows) for side in (1, 2) if row[side] is None]
    found = []
    for choice in product(["A", "TIE", "B"], repeat=len(lost)):
        filled = [list(row) for row in rows]
        for (k, side), winner in zip(lost, choice, strict=True):
            filled[k][side] = winner
        found.append(run(configure, make_case, passes, filled))
    values = [metrics_["agreement/accuracy_per_order"].value for metrics_ in found]
    metric = metrics["agreement/accuracy_per_order"]
    assert (metric.worst_low, metric.worst_high) == pytest.approx((min(values), max(values)))
    for name in ("agreement/accuracy", "agreement/accuracy_both_orders", "tie_rate", "position/consistency"):
        values = [metrics_[name].value for metrics_ in found]
        assert metrics[name].worst_low <= min(values) + 1e-9
        assert metrics[name].worst_high >= max(values) - 1e-9


def test_kappa_bounds_what_is_missing(configure, make_case, passes):
    rows = [("A", "A", "A"), ("B", "B", "B"), ("A", "B", "B"), ("B", None, None), ("TIE", None, "A")]
    metric = run(configure, make_case, passes, rows)["agreement/kappa"]
    labels, winners = ["A", "B", "A", "B", "TIE"], ["A", "B", "B"]
    high = cohen_kappa_score(labels, [*winners, "B", "TIE"])
    low = min(cohen_kappa_score(labels, [*winners, b, t]) for b in ("A", "TIE") for t in "AB")
    assert metric.value == pytest.approx(cohen_kappa_score(labels[:3], winners))
    assert (metric.n, metric.missing) == (3, 2)
    assert (metric.worst_low, metric.worst_high) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("rows", "sections", "why"),
    [
        ([(None, "A", "A")], {}, "no pair has a label"),
        ([("A", None, None)], {}, "no labeled pair"),
        ([("A", "A", "A")], {"swap": {"policy": "none"}}, "judged in one order"),
    ],
)
def test_what_cannot_be_known_says_why(configure, make_case, passes, rows, sections, why):
    metrics = run(configure, make_case, passes, rows, **sections)
    for name in ("agreement/accuracy_per_order", "agreement/accuracy_both_orders"):
        assert metrics[name].value is None
        assert why in metrics[name].note
    if not sections:
        assert metrics["agreement/accuracy"].value is None
        assert why in metrics["agreement/accuracy"].note
