"""Agreement of winners with labels and of scores with grades, and its bounds over missing answers."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from evalkit.scoring import score_run
from evalkit.scoring.stats.coefficients import ac1, kappa, weighted_kappa

NAMES = ["A", "TIE", "B"]
VALUES = {"A": 1.0, "TIE": 0.0, "B": -1.0, None: None}
WINNER = st.sampled_from(NAMES)


def table_of(rows):
    cells = np.zeros((3, 3))
    for label, winner in rows:
        cells[NAMES.index(label), NAMES.index(winner)] += 1
    return cells.reshape(1, 9)


def run(configure, make_case, passes, rows, **sections):
    """Score rows of (label, first pass, second pass)."""
    cases = [make_case(str(k), label=row[0]) for k, row in enumerate(rows)]
    judgments = [j for k, row in enumerate(rows) for j in passes(str(k), VALUES[row[1]], VALUES[row[2]])]
    return score_run(configure(scoring={"bootstrap": 0}, **sections), cases, judgments).metrics


def pairs_run(configure, make_case, passes, rows):
    """Score rows of (label, winner in both orders)."""
    return run(configure, make_case, passes, [(label, winner, winner) for label, winner in rows])


@pytest.mark.parametrize(
    ("weights", "value"),
    [(None, kappa), ("linear", weighted_kappa), ("quadratic", partial(weighted_kappa, power=2))],
    ids=["plain", "linear", "quadratic"],
)
@given(st.lists(st.tuples(WINNER, WINNER), min_size=1, max_size=30))
def test_kappas_equal_scikit_learn(weights, value, rows):
    labels, winners = ([NAMES.index(name) for name in side] for side in zip(*rows, strict=True))
    assume(len(set(labels + winners)) > 1)
    expected = cohen_kappa_score(labels, winners, weights=weights, labels=[0, 1, 2])
    assert value(table_of(rows))[0] == pytest.approx(expected, abs=1e-12)


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


def test_ac1_of_published_counts():
    # Two observers, 125 units, 118 times both positive, never both negative: AC1 is 0.94 (Gwet 2008, table 1).
    cells = np.array([[118, 0, 5, 0, 0, 0, 2, 0, 0]], dtype=float)
    assert ac1(cells, 2)[0] == pytest.approx(0.9408, abs=5e-5)


@given(st.lists(st.tuples(WINNER, WINNER), min_size=1, max_size=20), st.sampled_from([2, 3]))
def test_ac1_equals_the_obvious_version(rows, categories):
    classes = NAMES if categories == 3 else ["A", "B"]
    rows = [row for row in rows if set(row) <= set(classes)]
    assume(rows)
    agreed = np.mean([label == winner for label, winner in rows])
    said = [name for row in rows for name in row]
    chance = sum(said.count(c) / len(said) * (1 - said.count(c) / len(said)) for c in classes) / (categories - 1)
    assert ac1(table_of(rows), categories)[0] == pytest.approx((agreed - chance) / (1 - chance), abs=1e-12)


def test_without_any_tie_there_are_two_categories(configure, make_case, passes):
    rows = [("A", "A")] * 6 + [("B", "B")] * 3 + [("A", "B")]
    assert pairs_run(configure, make_case, passes, rows)["agreement/ac1"].value == pytest.approx(
        ac1(table_of(rows), 2)[0]
    )
    tied = [*rows, ("A", "TIE")]
    assert pairs_run(configure, make_case, passes, tied)["agreement/ac1"].value == pytest.approx(
        ac1(table_of(tied), 3)[0]
    )


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


@given(
    st.lists(st.tuples(WINNER, WINNER | st.none()), min_size=1, max_size=7).filter(
        lambda rows: sum(winner is None for _, winner in rows) <= 4
    )
)
def test_worst_cases_hold_whatever_is_filled_in(configure, make_case, passes, rows):
    metrics = pairs_run(configure, make_case, passes, rows)
    lost = [k for k, (_, winner) in enumerate(rows) if winner is None]
    tables = []
    for choice in product(NAMES, repeat=len(lost)):
        filled = [list(row) for row in rows]
        for k, winner in zip(lost, choice, strict=True):
            filled[k][1] = winner
        tables.append(table_of(filled))
    tied = lost or any("TIE" in row for row in rows)
    for name, values in (
        ("agreement/kappa_weighted", [weighted_kappa(table)[0] for table in tables]),
        ("agreement/ac1", [ac1(table, 3 if tied else 2)[0] for table in tables]),
    ):
        defined = [value for value in values if np.isfinite(value)]
        metric = metrics[name]
        assert metric.missing == len(lost)
        if name == "agreement/kappa_weighted" and len({label for label, _ in rows if label}) == 1:
            assert (metric.value, metric.worst_low, metric.worst_high) == (None, None, None)
            continue
        if defined:
            assert metric.worst_low <= min(defined) + 1e-9
            assert metric.worst_high >= max(defined) - 1e-9
        if defined and name == "agreement/kappa_weighted" and metric.value is None:
            assert (metric.worst_low, metric.worst_high) == pytest.approx((min(defined), max(defined)))


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


def scored(pointwise, make_case, judged, rows, **sections):
    cases = [make_case(str(k), ("text",), grades=[grade]) for k, (grade, _) in enumerate(rows)]
    judgments = [judged(str(k), (0,), score) for k, (_, score) in enumerate(rows)]
    return score_run(pointwise(scoring={"bootstrap": 50}, **sections), cases, judgments).metrics


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=20))
def test_quadratic_kappa_equals_scikit_learn(pointwise, make_case, judged, rows):
    grades, scores = zip(*rows, strict=True)
    assume(len(set(grades + scores)) > 1)
    expected = cohen_kappa_score(grades, scores, weights="quadratic", labels=[1, 2, 3, 4, 5])
    metric = scored(pointwise, make_case, judged, [(float(g), float(s)) for g, s in rows])["agreement/kappa_quadratic"]
    assert metric.value == pytest.approx(expected, abs=1e-9)


def test_quadratic_kappa_needs_one_scale(pointwise, make_case, judged):
    rows = [(10.0, 3.0), (20.0, 4.0), (30.0, None)]
    metric = scored(pointwise, make_case, judged, rows)["agreement/kappa_quadratic"]
    assert (metric.value, metric.note) == (None, "grades are not on the judge's scale, 1-5")
    equal = scored(pointwise, make_case, judged, [(3.0, 3.0), (3.0, 3.0)])["agreement/kappa_quadratic"]
    assert (equal.value, equal.note) == (None, "scores and grades are all equal")
    lost = scored(pointwise, make_case, judged, [(3.0, 2.0), (4.0, 5.0), (2.0, None)])["agreement/kappa_quadratic"]
    assert (lost.n, lost.missing) == (2, 1)
    assert "not bounded" in lost.note
