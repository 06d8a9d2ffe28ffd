"""Confidence sequences: intervals of a mean that hold at every look, however often and
for whatever reason one looks.

An ordinary 95% interval is valid at one sample size, chosen in advance. Whoever computes it after
each batch and stops at the first one that excludes a value is wrong far more often than in 5% of
runs. The intervals here are valid at all sizes at once: with probability `confidence`, none of
them, over any number of looks, misses the mean. So a loop may look after each cluster or after each
hundred, stop when it has seen enough or when its budget ends, and report the last interval. Nothing
is kept between looks: pass all observations so far.

They bet against each mean m (Waudby-Smith and Ramdas 2024, J. R. Stat. Soc. B 86, 1-27, section 4).
Capital starts at 1 and is multiplied by 1 + c (x - m) / m or 1 + c (m - x) / (1 - m) with each
observation x in [0, 1]. If m is the mean, no bet gains on average, so the capital ever exceeds 1 /
a with probability at most a (Ville's inequality). The interval holds each m for which neither half
of the capital, on values above and below m, has reached 1 / a. Instead of adapting c, the capital
is spread over 40 values of it (section B.3 there), so it does not depend on the order of the
observations, and each half is a monotonic function of m. A half only falls if a value moves against
its bets. So where values are missing, the low end of the least values and the high end of the
largest ones hold, whatever they are.

Clusters have to arrive in random order. To reach a width of 0.1 at 95%, shares of 0.5, 0.8 and 0.95
take 970, 662 and 226 observations. An interval at one fixed size (Wald) takes 385, 246 and 73.
"""

from __future__ import annotations

from math import log

import numpy as np

from evalkit.scoring.stats.arrays import Floats, bisect, fewest
from evalkit.scoring.stats.bounded_intervals import STEPS

_EDGES = np.geomspace(5e-4, 1, 41)
_BETS = (_EDGES[1:] + _EDGES[:-1]) / 2
"""Shares of the capital that are bet."""
_WIDTHS = np.diff(_EDGES)
_NARROW = _WIDTHS * np.exp(-((_BETS / 0.1) ** 2) / 2)
_WEIGHTS = 0.75 * _NARROW / _NARROW.sum() + 0.25 * _WIDTHS / _WIDTHS.sum()
"""How the capital is spread over them: small bets win for shares near 0.5, large ones for shares
near 0 or 1."""
_SMALLEST = 1e-12
MOST = 10**9


def mean_sequence(
    sums: Floats,
    counts: Floats | None = None,
    *,
    most: Floats | None = None,
    ends: tuple[float, float] = (0.0, 1.0),
    largest: float = 1.0,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Return the interval of a mean of bounded values, valid at any stopping time.

    The mean is the expected sum of a cluster divided by its expected count. If values are missing,
    the interval holds whatever they are: its low end is that of the least sums, its high end that
    of the most.

    Args:
        sums: (clusters,) the sum of the values of each cluster so far, in any order; the least if
            some are missing.
        counts: (clusters,) the number of values of each cluster; `None` if it is 1.
        most: (clusters,) the largest possible sums; `None` if no value is missing.
        ends: the lowest and highest possible value.
        largest: the largest possible count of a cluster, known before the first look.
        confidence: the confidence that no look misses the mean.

    Raises:
        ValueError: if a value is beyond `ends` or a count beyond `largest`.
    """
    shares = _cluster_shares(sums, counts, ends, largest)
    rows, times = _grouped(shares)
    low = _bound_by_bets(rows, times, 0.0, confidence)
    if most is not None:
        shares = _cluster_shares(most, counts, ends, largest)
        rows, times = _grouped(shares)
    high = _bound_by_bets(rows, times, 1.0, confidence)
    # From shares back to the values' range.
    bottom, top = ends
    span = top - bottom
    low = bottom + span * low
    high = bottom + span * high
    return low, high


def clusters_needed(width: float, confidence: float, share: float = 0.5) -> int:
    """Return the fewest clusters of one value, a `share` of them 1 and the others 0,
    whose interval is so narrow.

    A share of 0.5 takes the most, of 0 the fewest.
    """

    def is_narrow(clusters: int) -> bool:
        return _width(clusters, share, confidence) <= width

    return fewest(is_narrow, MOST)


def width_of(clusters: int, confidence: float) -> float:
    """Return the width of the interval of so many clusters of one value, half of them 1
    and the others 0.
    """
    return _width(clusters, 0.5, confidence)


def _width(clusters: int, share: float, confidence: float) -> float:
    # A row is the sum and the count of a cluster: one value, which is 0 or 1.
    rows = np.array([[0.0, 1.0], [1.0, 1.0]])
    ones = share * clusters
    zeros = (1 - share) * clusters
    times = np.array([zeros, ones])
    low = _bound_by_bets(rows, times, 0.0, confidence)
    high = _bound_by_bets(rows, times, 1.0, confidence)
    return high - low


def _cluster_shares(
    sums: Floats,
    counts: Floats | None,
    ends: tuple[float, float],
    largest: float,
) -> Floats:
    """Return (clusters, 2): sums of values scaled to [0, 1] and counts, both as shares
    of the largest count.
    """
    sizes = counts
    if sizes is None:
        sizes = np.ones(len(sums))
    bottom, top = ends
    scaled = (sums - bottom * sizes) / (top - bottom)
    shares = np.stack([scaled, sizes], axis=1) / largest
    fuzz = 1e-9
    too_many = sizes > largest
    below = shares[:, 0] < -fuzz
    above = shares[:, 0] > shares[:, 1] + fuzz
    if (too_many | below | above).any():
        raise ValueError(
            "a value is beyond its ends, or a cluster is larger than the largest"
        )
    # A sum that is beyond its count by a rounding error would make the log of a capital undefined.
    shares[:, 0] = np.clip(shares[:, 0], 0, shares[:, 1])
    return shares


def _grouped(shares: Floats) -> tuple[Floats, Floats]:
    """Return the different rows, and how often each occurs."""
    rows, times = np.unique(shares, axis=0, return_counts=True)
    return rows, times.astype(np.float64)


def _bound_by_bets(rows: Floats, times: Floats, end: float, confidence: float) -> float:
    """Return the mean between the observed one and an end of [0, 1] at which the bets
    toward the data win enough.
    """
    limit = -log(1 - confidence)
    if not len(rows):
        return end
    # Column 0 of a row is its sum, column 1 its count.
    sums = rows[:, 0]
    counts = rows[:, 1]
    total = float(times @ counts)
    if not total:
        return end
    observed = float(times @ sums) / total

    def is_refuted(mean: float) -> bool:
        return _log_capital(rows, times, mean, above=end == 0.0) >= limit

    _, bound = bisect(is_refuted, observed, end, STEPS)
    return bound


def _log_capital(rows: Floats, times: Floats, mean: float, *, above: bool) -> float:
    """Return the log of the half of the capital that bets on values above, or below, a
    mean in [0, 1].
    """
    # At 0 and 1 the odds of a bet are not finite.
    m = float(np.clip(mean, _SMALLEST, 1 - _SMALLEST))
    sums = rows[:, 0]
    counts = rows[:, 1]
    if above:
        gains = sums / m - counts
    else:
        gains = (counts - sums) / (1 - m) - counts
    # shape (bets, rows), then (bets,): rows that occur several times multiply as often
    growth = np.log1p(_BETS[:, None] * gains)
    capital = growth @ times
    log_weights = np.log(_WEIGHTS / 2)
    return float(np.logaddexp.reduce(capital + log_weights))
