"""Intervals of a mean that hold at every look: against a slow version, and by simulation over many looks."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.scoring.stats.sequences import clusters_needed, mean_sequence, width_of

LIMIT = log(20)


def halves(sums, counts, mean, *, ends=(0, 1), largest=1, steps=20_000):
    """Return (2, clusters): the log capital that bets on values above and below `mean`, by its definition.

    The bets are integrated over their density by many steps.
    """
    counts = np.ones(len(sums)) if counts is None else np.asarray(counts, dtype=float)
    shares, size = (np.asarray(sums) - ends[0] * counts) / (ends[1] - ends[0]), np.asarray(counts) / largest
    m = (mean - ends[0]) / (ends[1] - ends[0])
    gain = shares / largest - m * size
    bets = (np.arange(steps) + 0.5) / steps
    density = np.where(bets > 5e-4, 1.0, 0.0)
    narrow = density * np.exp(-((bets / 0.1) ** 2) / 2)
    weights = np.log(np.maximum(0.75 * narrow / narrow.sum() + 0.25 * density / density.sum(), 1e-300) / 2)
    up = np.cumsum(np.log1p(np.outer(bets / m, gain)), axis=1)
    down = np.cumsum(np.log1p(np.outer(-bets / (1 - m), gain)), axis=1)
    return np.stack([np.logaddexp.reduce(part + weights[:, None], axis=0) for part in (up, down)])


@given(
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from([1, 2, 4])), min_size=1, max_size=30),
    st.sampled_from([0.8, 0.95, 0.999]),
)
def test_the_interval_holds_the_means_against_which_no_bets_have_won(rows, confidence):
    counts = np.array([n for _, n in rows], dtype=float)
    sums = (np.array([share for share, _ in rows]) * 4 - 1) * counts
    low, high = mean_sequence(sums, counts, ends=(-1, 3), largest=4, confidence=confidence)
    limit, mean = -log(1 - confidence), sums.sum() / counts.sum()
    assert -1 <= low <= mean + 1e-9
    assert mean - 1e-9 <= high <= 3
    for bound, side, step in ((low, 0, 0.02), (high, 1, -0.02)):
        for value, wins in ((bound - step, True), (bound + step, False)):
            if -0.99 < value < 2.99 and (value - mean) * step < 0:
                won = halves(sums, counts, value, ends=(-1, 3), largest=4)[side, -1]
                assert won >= limit - 0.05 if wins else won < limit + 0.05
    order = slice(None, None, -1)
    again = mean_sequence(sums[order], counts[order], ends=(-1, 3), largest=4, confidence=confidence)
    assert again == pytest.approx((low, high))


@given(st.lists(st.sampled_from([0.0, 1.0, None]), min_size=1, max_size=200), st.randoms(use_true_random=False))
def test_missing_values_widen_the_interval_whatever_they_are(values, random):
    least, most = (np.array([end if one is None else one for one in values]) for end in (0.0, 1.0))
    low, high = mean_sequence(least, most=most)
    filled = np.array([random.random() if one is None else one for one in values])
    inside = mean_sequence(filled)
    assert low <= inside[0] + 1e-12
    assert inside[1] <= high + 1e-12
    assert (low, high) == (mean_sequence(least)[0], mean_sequence(most)[1])


def test_the_clusters_that_a_width_takes():
    assert [clusters_needed(width, 0.95) for width in (0.2, 0.1, 0.05)] == [245, 970, 4216]
    assert [clusters_needed(0.1, 0.95, share) for share in (0.0, 0.05, 0.2)] == [67, 231, 663]
    assert width_of(970, 0.95) <= 0.1 < width_of(968, 0.95)
    low, high = mean_sequence(np.zeros(67))
    assert high - low <= 0.1 < np.diff(mean_sequence(np.zeros(66)))[0]


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
    for _ in range(200):
        sums, counts, mean, ends, largest = SITUATIONS[name](generator, 400)
        ever += bool((halves(sums, counts, mean, ends=ends, largest=largest, steps=150) >= LIMIT).any())
    assert ever / 200 <= 0.05
    if name == "shares of 0.5":
        values = generator.integers(0, 2, (400, 400)).cumsum(axis=1)[:, 20:] / np.arange(21, 401)
        wald = np.abs(values - 0.5) > 1.96 * 0.5 / np.sqrt(np.arange(21, 401))
        assert wald.any(axis=1).mean() > 0.25


def test_clusters_whose_size_and_share_depend_on_each_other():
    """Large clusters have lower shares: the mean is that of all values, not of the clusters' shares."""
    generator = np.random.default_rng(3)
    ever, widths = 0, []
    for _ in range(150):
        counts = generator.choice([1.0, 4.0], 300)
        sums = np.where(counts == 1, generator.random(300) < 0.9, generator.binomial(4, 0.3, 300)).astype(float)
        mean = (0.9 + 4 * 0.3) / 5
        ever += bool((halves(sums, counts, mean, largest=4, steps=150) >= LIMIT).any())
        widths.append(mean_sequence(sums, counts, largest=4))
    assert ever / 150 <= 0.05
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
