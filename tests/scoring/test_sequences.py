"""Intervals of a mean that hold at every look: against a slow version, and by simulation over many looks."""

from __future__ import annotations

from math import log, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.scoring.stats.sequences import log_capital, mean_sequence

LIMIT = log(20)


def slow_capital(sums, counts, mean, largest):
    """Return the capital by its definition: the bets are integrated over their density by 20,000 steps."""
    bets = (np.arange(20_000) + 0.5) / 20_000
    density = np.where(bets > 5e-4, 1.0, 0.0)
    narrow = density * np.exp(-((bets / 0.1) ** 2) / 2)
    weights = 0.75 * narrow / narrow.sum() + 0.25 * density / density.sum()
    up = prod(1 + bets / mean * (s - mean * n) / largest for s, n in zip(sums, counts, strict=True))
    down = prod(1 - bets / (1 - mean) * (s - mean * n) / largest for s, n in zip(sums, counts, strict=True))
    return float((weights * (up + down)).sum() / 2)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from([1, 2, 4])), min_size=1, max_size=30),
    st.floats(0.05, 0.95),
)
def test_the_capital_is_that_of_its_definition(rows, mean):
    counts = np.array([n for _, n in rows], dtype=float)
    sums = np.array([share for share, _ in rows]) * counts
    logs = log_capital(sums, mean, counts, largest=4)
    for k in (1, len(rows)):
        expected = log(slow_capital(sums[:k], counts[:k], mean, 4))
        assert logs[k - 1] == pytest.approx(expected, rel=0.02, abs=0.05)


@given(st.lists(st.floats(-1, 3), min_size=1, max_size=60), st.sampled_from([0.8, 0.95, 0.999]))
def test_the_interval_holds_the_means_whose_capital_is_below_the_limit(values, confidence):
    values = np.array(values)
    low, high = mean_sequence(values, ends=(-1, 3), confidence=confidence)
    limit = -log(1 - confidence)

    def capital(mean):
        return log_capital(values, mean, ends=(-1, 3))[-1]

    assert -1 <= low <= values.mean() + 1e-9
    assert values.mean() - 1e-9 <= high <= 3
    for bound, step in ((low, 1e-6), (high, -1e-6)):
        if low < bound + step < high:
            assert capital(bound + step) < limit
        if -1 < bound - step < 3:
            assert capital(bound - step) >= limit
    assert mean_sequence(values[::-1], ends=(-1, 3), confidence=confidence) == pytest.approx((low, high))


@pytest.mark.parametrize(("share", "enough"), [(0.5, 970), (0.8, 662), (0.95, 226)])
def test_the_observations_that_a_width_of_a_tenth_takes(share, enough):
    def width(n):
        values = np.zeros(n)
        values[: round(n * share)] = 1
        low, high = mean_sequence(values)
        return high - low

    assert width(enough) <= 0.1 < width(enough - 12)


SITUATIONS = {
    "shares of 0.5": lambda r, n: (r.integers(0, 2, n).astype(float), None, 0.5, (0, 1), 1),
    "rare": lambda r, n: ((r.random(n) < 0.03).astype(float), None, 0.03, (0, 1), 1),
    "with ties": lambda r, n: (r.choice([0, 0.5, 1], n, p=[0.2, 0.2, 0.6]), None, 0.7, (0, 1), 1),
    "differences": lambda r, n: (r.choice([-1, 0, 1], n, p=[0.05, 0.9, 0.05]).astype(float), None, 0.0, (-1, 1), 1),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_at_most_five_percent_of_runs_ever_miss_the_mean(name):
    generator = np.random.default_rng(7)
    ever = 0
    for _ in range(400):
        sums, counts, mean, ends, largest = SITUATIONS[name](generator, 400)
        ever += bool((log_capital(sums, mean, counts, ends=ends, largest=largest) >= LIMIT).any())
    assert ever / 400 <= 0.05
    if name == "shares of 0.5":
        values = generator.integers(0, 2, (400, 400)).cumsum(axis=1)[:, 20:] / np.arange(21, 401)
        wald = np.abs(values - 0.5) > 1.96 * 0.5 / np.sqrt(np.arange(21, 401))
        assert wald.any(axis=1).mean() > 0.25


def test_clusters_whose_size_and_share_depend_on_each_other():
    """Large clusters have lower shares: the mean is that of all values, not of the clusters' shares."""
    generator = np.random.default_rng(3)
    ever, widths = 0, []
    for _ in range(300):
        counts = generator.choice([1.0, 4.0], 300)
        sums = np.where(counts == 1, generator.random(300) < 0.9, generator.binomial(4, 0.3, 300)).astype(float)
        mean = (0.9 + 4 * 0.3) / 5
        ever += bool((log_capital(sums, mean, counts, largest=4) >= LIMIT).any())
        widths.append(mean_sequence(sums, counts, largest=4))
    assert ever / 300 <= 0.05
    assert all(low < sums.sum() / counts.sum() < high for low, high in widths[-1:])
    assert np.mean([high - low for low, high in widths]) < 0.25


def test_nothing_seen_and_only_extremes():
    assert mean_sequence(np.zeros(0)) == (0, 1)
    assert mean_sequence(np.zeros(2), np.zeros(2), ends=(-1, 1)) == (-1, 1)
    low, high = mean_sequence(np.zeros(100))
    assert low == 0
    assert 0.03 < high < 0.08
    assert mean_sequence(np.ones(100)) == pytest.approx((1 - high, 1))


@pytest.mark.parametrize(("values", "counts"), [([1.1], None), ([-0.1], None), ([2.0], [3.0]), ([1.5], [1.0])])
def test_what_is_beyond_the_declared_bounds_is_refused(values, counts):
    with pytest.raises(ValueError, match="beyond its ends"):
        mean_sequence(np.array(values), None if counts is None else np.array(counts), largest=2 if counts else 1)
