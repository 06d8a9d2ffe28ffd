"""Bounds over missing verdicts hold every way to fill them in, and are no wider than they have to be."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.scoring.stats import coefficients
from evalkit.scoring.stats.coefficients import Unread


@st.composite
def tables(draw, classes=(2, 3), most=3):
    k = draw(st.sampled_from(classes))
    cells = draw(st.lists(st.integers(0, 4), min_size=k * k, max_size=k * k))
    missing = draw(st.lists(st.integers(0, most), min_size=k, max_size=k))
    return Unread(np.array(cells, dtype=float).reshape(k, k), np.array(missing, dtype=float))


def fillings(unread):
    """Return every matrix, flat, that naming a class for each missing verdict can give."""
    k = len(unread.table)
    rows = [
        [np.bincount(list(picked), minlength=k) for picked in combinations_with_replacement(range(k), int(count))]
        for count in unread.missing
    ]
    return np.array([(unread.table + np.array(fill)).ravel() for fill in product(*rows)])


def of_class(c, name):
    def value(totals):
        table = coefficients.matrices(totals)
        hit, verdicts, labels = table[:, c, c], table[:, :, c].sum(axis=1), table[:, c].sum(axis=1)
        n = table.sum(axis=(1, 2))
        with np.errstate(invalid="ignore", divide="ignore"):
            recall, wrong = hit / labels, (verdicts - hit) / (n - labels)
            return {
                "precision": hit / verdicts,
                "recall": recall,
                "f1": 2 * hit / (verdicts + labels),
                "specificity": 1 - wrong,
                "youden": recall - wrong,
            }[name]

    return value


def check(found, values, observed, *, exact):
    """Check bounds against all values, and the observed one, which some hold as well."""
    defined = values[np.isfinite(values)]
    if not len(defined):
        return
    assert found[0] is not None
    assert found[0] <= defined.min() + 1e-9
    assert found[1] >= defined.max() - 1e-9
    ends = [*defined, *([observed] if np.isfinite(observed) else [])]
    if "low" in exact:
        assert found[0] == pytest.approx(min(ends), abs=1e-9)
    if "high" in exact:
        assert found[1] == pytest.approx(max(ends), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(tables(), st.data())
def test_rates_of_a_class_have_exact_bounds(unread, data):
    c = data.draw(st.integers(0, len(unread.table) - 1))
    every, own = fillings(unread), unread.table.reshape(1, -1)
    for name in ("precision", "recall", "f1", "specificity", "youden"):
        value = of_class(c, name)
        low, high = unread.of_class(getattr(coefficients, name), c)
        check((low, high), value(every), np.nan, exact=("low", "high"))
        observed = value(own)[0]
        if np.isfinite(observed):
            assert low - 1e-9 <= observed <= high + 1e-9, name


SEVERAL_LABELS = {"kappa", "weighted_kappa", "matthews"}
COEFFICIENTS = {
    "balanced_accuracy": (lambda t: coefficients.mean_defined(coefficients.recalls(t)), ("low", "high")),
    "macro_f1": (lambda t: coefficients.mean_defined(coefficients.f1_scores(t)), ("high",)),
    "kappa": (coefficients.kappa, ("low", "high")),
    "weighted_kappa": (lambda t: coefficients.weighted_kappa(t, 2), ("low", "high")),
    "scott_pi": (coefficients.scott_pi, ()),
    "alpha": (coefficients.alpha, ()),
    "ac1": (coefficients.ac1, ()),
    "matthews": (coefficients.matthews, ()),
}


@settings(max_examples=60, deadline=None)
@given(tables())
@pytest.mark.parametrize("name", sorted(COEFFICIENTS))
def test_coefficients_have_bounds_that_hold_every_filling(name, unread):
    value, exact = COEFFICIENTS[name]
    if name in SEVERAL_LABELS and np.count_nonzero(unread.labels) < 2:
        return
    found = getattr(unread, name)(2) if name == "weighted_kappa" else getattr(unread, name)()
    check(found, value(fillings(unread)), value(unread.table.reshape(1, -1))[0], exact=exact)


@settings(max_examples=60, deadline=None)
@given(tables(classes=(2,), most=6))
def test_two_classes_have_exact_bounds_of_macro_f1_and_mcc(unread):
    every, own = fillings(unread), unread.table.reshape(1, -1)
    check(
        unread.macro_f1(),
        COEFFICIENTS["macro_f1"][0](every),
        COEFFICIENTS["macro_f1"][0](own)[0],
        exact=("low", "high"),
    )
    values = coefficients.matthews(every)
    if np.count_nonzero(unread.labels) == 2 and np.isfinite(values).all():
        check(unread.matthews(), values, coefficients.matthews(own)[0], exact=("low", "high"))


@settings(max_examples=100, deadline=None)
@given(tables(most=4))
def test_bounds_by_numerator_and_denominator_apart_hold_every_filling_too(unread):
    if np.count_nonzero(unread.labels) < 2:
        return
    every, own = fillings(unread), unread.table.reshape(1, -1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coefficients, "VERTICES", 0)
        for name in ("scott_pi", "alpha", "ac1", "matthews"):
            value = COEFFICIENTS[name][0]
            check(getattr(unread, name)(), value(every), value(own)[0], exact=())


def test_bounds_of_many_missing_verdicts_are_close():
    # 30 labels of each of three classes, 20 of them read and 3 of these wrong.
    unread = Unread(np.array([[18.0, 1, 1], [1, 18, 1], [1, 1, 18]]), np.array([10.0, 10, 10]))
    for name, low, high in (
        ("scott_pi", 0.392, 0.9),
        ("alpha", 0.395, 0.901),
        ("ac1", 0.4, 0.9),
        ("kappa", 0.4, 0.9),
        ("matthews", 0.4, 0.9),
    ):
        found = getattr(unread, name)()
        assert found == pytest.approx((low, high), abs=0.01), name
