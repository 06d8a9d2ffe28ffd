"""Intervals of what the percentile interval is wrong for: sums of absolute values, and means close to an end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evalkit.scoring.stats.arrays import Floats
from evalkit.scoring.stats.clusters import Clusters

STEPS = 40
FEW = 1000
"""With more clusters than this the end of the range no longer matters to the mean's interval."""


def without_noise(gaps: Floats, errors: Floats) -> float:
    """Return the sum of absolute gaps without what their noise adds to it.

    Noise alone makes absolute values large: of normal gaps t d with standard errors s, the sum is expected to be that
    of folded normals. Returned is t times the observed sum, for the t at which as much is expected as was observed, and
    0 where noise alone would give more (MacKinnon and Smith 1998, J. Econometrics 85, 205-230: a nonlinear correction
    of bias; for calibration errors compare Roelofs et al. 2022, arXiv 2012.08668).
    """
    from scipy.special import ndtr

    noisy = errors > 1e-12
    unit = np.where(noisy, errors, 1.0)

    def expected(t: float) -> float:
        size = np.abs(t * gaps)
        z = size / unit
        folded = size * (1 - 2 * ndtr(-z)) + unit * np.sqrt(2 / np.pi) * np.exp(-z * z / 2)
        return float(np.where(noisy, folded, size).sum())

    seen = float(np.abs(gaps).sum())
    return _smallest(expected, seen) * seen


def inverted(gaps: Floats, noise: Floats, confidence: float) -> tuple[float, float]:
    """Return the interval of the sum of absolute gaps by inverting a test (Carpenter 1999, J. R. Stat. Soc. B 61, 159).

    Asked of each t is whether the observed sum would be unusual if the gaps were t times those observed, with the
    `noise` (resamples, gaps) that resampling found; not rejected are the t of the interval.
    """
    seen, tail = float(np.abs(gaps).sum()), (1 - confidence) / 2

    def quantile(of: float) -> Callable[[float], float]:
        return lambda t: float(np.quantile(np.abs(t * gaps + noise).sum(axis=1), of, method="weibull"))

    low, high = (_smallest(quantile(of), seen) * seen for of in (1 - tail, tail))
    return low, high


def _smallest(increasing: Callable[[float], float], seen: float) -> float:
    """Return the t of 0 or more at which a function of it first reaches what was seen."""
    if seen <= 0 or increasing(0.0) >= seen:
        return 0.0
    low, high = 0.0, 1.0
    while increasing(high) < seen and high < 1e6:
        low, high = high, 2 * high
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if increasing(middle) < seen else (low, middle)
    return high


def bounded_mean(
    sums: Floats, counts: Floats, ends: tuple[float, float], resamples: int, confidence: float, seed: int
) -> tuple[float, float]:
    """Return the interval of a mean of values that lie between `ends`, from sums and counts by cluster.

    The Bayesian bootstrap (Rubin 1981, Ann. Statist. 9, 130-134) with half a cluster more at the end that an interval
    limit looks to. With a whole one it is Gaffke's interval (2005), which never covers too rarely (Learned-Miller and
    Thomas 2019, arXiv 1905.06208), and of shares of ones Clopper and Pearson's; half a one is Jeffreys' (Brown, Cai and
    DasGupta 2001, Statist. Sci. 16, 101-133), less wide. Few correlations, most of them high, have no tail to resample.
    """
    there = counts > 0
    sums, counts = sums[there], counts[there]
    generator, tail = np.random.default_rng(seed), (1 - confidence) / 2
    weights = generator.standard_gamma(1.0, size=(resamples, len(sums)))
    extra = generator.standard_gamma(0.5, size=resamples) * counts.mean()
    over, under = weights @ sums, weights @ counts + extra
    low, high = (
        float(np.quantile((over + extra * end) / under, of)) for end, of in zip(ends, (tail, 1 - tail), strict=True)
    )
    return low, high


def noise_of(values: Floats, of: Floats, clusters: Clusters) -> Floats:
    """Return the standard errors of columns' totals over the total of `of`, both given by case."""
    shares = np.stack([clusters.sums(column) for column in values.T], axis=1)
    counts = clusters.sums(of)
    shares, counts = shares[counts > 0], counts[counts > 0]
    n, total = len(counts), float(counts.sum())
    if n < 2:
        return np.zeros(values.shape[1])
    apart = shares - counts[:, None] * shares.sum(axis=0) / total
    return np.asarray(np.sqrt((apart**2).sum(axis=0) * n / (n - 1)) / total)
