"""Tests of two runs, and adjustments for many."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as reference
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import NormalIndPower

from evalkit.core.types import Verdict
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.paired import (
    Lead,
    align,
    by_resampling,
    holm,
    letters,
    mcnemar,
    sign_flip,
    smallest_detectable,
    wilcoxon,
)
from evalkit.scoring.stats.statistic import Tally


def lead(only_first, only_second, neither=3):
    return np.array([1] * only_first + [-1] * only_second + [0] * neither)


SECOND = [("z", (0, 1), "B"), ("y", (0, 1), "A"), ("y", (0, 2), "B"), ("x", (0, 1), "B")]


def verdict(case, *unit, winner=None):
    return Verdict(case, unit, winner, None, reason="judged")


def test_runs_are_aligned_by_case_and_responses():
    """A pair that one run lacks is missing there, or left out; responses alone are ignored."""
    wins = {"A": 1, "B": -1, None: -2}
    first = [verdict("x", 0), verdict("x", 0, 1, winner="A"), verdict("y", 0, 1)]
    second = [verdict(case, *unit, winner=winner) for case, unit, winner in SECOND]
    cluster = {"x": 7, "z": 7}
    runs = align((first, second), lambda one: wins[one.winner], cluster, missing=-2)
    assert runs.codes.tolist() == [[1, -2, -2, -2], [-1, 1, -1, -1]]
    assert runs.tally.case.tolist() == [0, 1, 2, 1]
    assert runs.clusters.number.tolist() == [0, 1, 0]
    both = align((first, second), lambda one: wins[one.winner], cluster, missing=-2, shared=True)
    assert both.codes.tolist() == [[1, -2], [-1, 1]]
    assert both.tally.case.tolist() == [0, 1]


def test_a_lead_counts_units_that_both_runs_read():
    first, second = (
        np.array(codes, dtype=np.int8) for codes in ([1, 1, 0, 1, 1], [0, 0, 1, 1, -2])
    )
    clusters = Clusters.by_key([1, 1, 2], "cluster")
    ahead = Lead.of(first, second, -2, Tally(np.array([0, 1, 2, 2, 2]), 3), clusters)
    assert (ahead.n, ahead.only) == (4, (2, 1))
    assert ahead.mean("lead").observed() == 0.25
    assert ahead.test() == mcnemar(np.array([2, -1]))


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_equals_statsmodels(b, c):
    exact = b + c < 25
    p, test = mcnemar(lead(b, c))
    if not b + c:
        assert (p, test) == (None, "the runs are correct on the same cases")
        return
    expected = reference([[5, b], [c, 5]], exact=exact, correction=True).pvalue
    if b == c and not exact:
        expected = 1.0  # the corrected statistic would be above 0 where nothing differs
    assert p == pytest.approx(expected, abs=1e-9)
    assert test == ("McNemar, exact" if exact else "McNemar, chi-squared")


@given(st.lists(st.integers(-4, 4).filter(bool), min_size=1, max_size=9))
def test_sign_flips_equal_trying_all_signs(leads):
    sums = [
        abs(sum(s * d for s, d in zip(signs, leads, strict=True)))
        for signs in product((1, -1), repeat=len(leads))
    ]
    expected = np.mean([value >= abs(sum(leads)) for value in sums])
    assert sign_flip(np.array(leads)) == pytest.approx(expected, abs=1e-12)
    p, test = mcnemar(np.array(leads))
    assert p == pytest.approx(expected)
    assert test.startswith("McNemar" if {abs(d) for d in leads} == {1} else "sign flips")


def test_cases_of_several_units_are_clusters():
    leads = np.array([2, -1, 1, 3, -2] * 8)
    p, test = mcnemar(leads)
    assert p == pytest.approx(stats.chi2.sf(leads.sum() ** 2 / (leads**2).sum(), 1), abs=1e-12)
    assert "clusters" in test
    # Each case's units counted as if they were cases would claim more.
    assert p > mcnemar(np.repeat(np.sign(leads), np.abs(leads)))[0]


@given(st.lists(st.integers(-30, 30).map(lambda k: k / 4), max_size=70))
def test_wilcoxon_equals_scipy(differences):
    values = np.array([*differences, np.nan])
    p, test = wilcoxon(values)
    nonzero = [d for d in differences if d]
    if not nonzero:
        assert (p, test) == (None, "the runs do not differ on any case")
        return
    exact = len(nonzero) <= 50 and len({abs(d) for d in nonzero}) == len(nonzero)
    expected = stats.wilcoxon(
        nonzero, method="exact" if exact else "asymptotic", correction=not exact
    ).pvalue
    assert p == pytest.approx(expected, abs=1e-12)
    assert test.endswith("exact" if exact else "normal")


def test_the_bootstrap_p_value():
    draws = np.concatenate([np.full(990, 0.2), np.full(10, -0.1), [np.nan]])
    assert by_resampling(draws, 10**9) == (
        pytest.approx(2 * 11 / 1001, rel=1e-6),
        "paired bootstrap",
    )
    assert by_resampling(-draws, 10**9)[0] == pytest.approx(2 * 11 / 1001, rel=1e-6)
    few = 2 * stats.t.sf(stats.norm.isf(11 / 1001) * (11 / 12) ** 0.5, 11)
    assert by_resampling(draws, 12)[0] == pytest.approx(few)
    assert by_resampling(np.array([0.1, -0.1]), 20)[0] == 1
    assert by_resampling(np.zeros(5), 20)[0] is None
    assert by_resampling(np.full(3, np.nan), 20)[0] is None
    assert by_resampling(np.full(1000, 0.2), 1) == (
        None,
        "all cases are in one cluster: no resample differs",
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_equals_statsmodels(p):
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)


def test_tests_without_a_p_value_are_not_of_the_family():
    assert holm([0.02, None, 0.04]) == [0.04, None, 0.04]
    assert holm([]) == []


def test_the_smallest_detectable_difference():
    # Two groups of n at standard deviation 1 have a standard error of sqrt(2 / n).
    effect = NormalIndPower().solve_power(nobs1=80, alpha=0.05, power=0.8, ratio=1)
    assert smallest_detectable(np.sqrt(2 / 80), 0.95, 1) == pytest.approx(effect, abs=1e-5)
    assert smallest_detectable(0.1, 0.95, 3) == pytest.approx(
        0.1 * (stats.norm.isf(0.05 / 6) + stats.norm.isf(0.2))
    )


NAMES = [f"r{k}" for k in range(6)]


@given(st.sets(st.sampled_from([frozenset(pair) for pair in combinations(NAMES, 2)])))
def test_runs_share_a_letter_if_and_only_if_they_do_not_differ(differ):
    shown = letters(NAMES, differ)
    for one, two in combinations(NAMES, 2):
        assert bool(set(shown[one]) & set(shown[two])) == (frozenset((one, two)) not in differ)
    assert all(shown.values())
    assert "a" in shown["r0"]
    # Each letter stands for as many runs as can share one.
    alike = [set(some) for size in range(1, 7) for some in combinations(NAMES, size)]
    alike = [some for some in alike if not any(pair <= some for pair in differ)]
    most = sorted(sorted(some) for some in alike if not any(some < more for more in alike))
    assert [
        [name for name in NAMES if letter in shown[name]] for letter in "abcdefghijkl"[: len(most)]
    ] == most


def test_letters_go_by_order_and_on_beyond_the_alphabet():
    assert letters(["best", "middle", "worst"], [frozenset(("best", "worst"))]) == {
        "best": "a",
        "middle": "ab",
        "worst": "b",
    }
    many = [f"{k:02}" for k in range(28)]
    apart = letters(many, [frozenset(pair) for pair in combinations(many, 2)])
    assert [apart[name] for name in ("00", "25", "26", "27")] == ["a", "z", "a1", "b1"]
