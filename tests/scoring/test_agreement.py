"""Agreement with people's choices."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from evalkit.scoring import score_run
from evalkit.scoring.chance_level import CORRELATIONS, ONE_ORDER, against_chance
from evalkit.scoring.stats.confusion import kappa
from evalkit.types import Metric

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
@settings(max_examples=25)
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


def interval(name, value, low=None, high=None, note=None):
    return Metric(f"agreement/{name}", value, low, high, 50, note=note)


ONE_ORDER_NOTE = Metric("position/first_rate", 0.5, note=f"{ONE_ORDER}: position and quality cannot be separated")


@pytest.mark.parametrize(
    ("found", "side", "decider"),
    [
        ([interval("spearman", 0.4, 0.1, 0.6)], "above", "spearman"),
        ([interval("spearman", None), interval("kendall", -0.4, -0.6, -0.1)], "below", "kendall"),
        ([("accuracy_decided", 0.8, 0.7, 0.9)], "above", "accuracy_decided"),
        ([("accuracy_decided", 0.5, 0.4, 0.6)], "unclear", "accuracy_decided"),
        ([("accuracy_decided", 1.0)], "unknown", "accuracy_decided"),
        ([("accuracy_decided", None), ("kappa", 0.3, 0.1, 0.5)], "above", "kappa"),
        ([("accuracy_decided", None), ("kappa", 0.0)], "unclear", None),
        ([("accuracy_decided", 0.9, 0.8, 1.0), ("kappa", 0.0), ONE_ORDER_NOTE], "unclear", "kappa"),
        ([("accuracy_decided", 0.9, 0.8, 1.0), ("kappa", 1.0), ONE_ORDER_NOTE], "unknown", "kappa"),
        ([("accuracy_decided", 0.9, 0.8, 1.0), ONE_ORDER_NOTE], "unknown", None),
        ([("accuracy_per_order", 0.8, 0.7, 0.9)], "above", "accuracy_per_order"),
        ([("accuracy_per_order", 0.5, 0.4, 0.6), ("kappa", -0.3, -0.5, -0.1)], "below", "kappa"),
        ([], "unclear", "accuracy"),
    ],
)
def test_the_metric_that_decides_whether_a_judge_beats_chance(found, side, decider):
    metrics = [one if isinstance(one, Metric) else interval(*one) for one in found]
    pairs = any(one.name not in CORRELATIONS for one in metrics) or not metrics
    metrics += [interval("accuracy", 0.5, 0.4, 0.6)] if pairs else []
    test = against_chance({one.name: one for one in metrics})
    assert (test.side, test.metric and test.metric.name) == (side, decider and f"agreement/{decider}")


def test_nothing_is_compared_with_chance_without_labels():
    assert against_chance({"tie_rate": Metric("tie_rate", 0.1, 0.0, 0.2)}) is None
