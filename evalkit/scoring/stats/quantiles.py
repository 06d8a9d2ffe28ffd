"""Quantiles of resampled values, expanded for few observations as Student's distribution is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from math import atan, copysign, cos, log1p, pi, sin, sqrt, tan
from statistics import NormalDist

import numpy as np

from evalkit.scoring.stats.arrays import Floats, bisect

_CORNISH_FISHER = (
    ((1, 1), 4),
    ((5, 16, 3), 96),
    ((3, 19, 17, -15), 384),
    ((79, 776, 1482, -1920, -945), 92160),
)


@cache
def tail_of(n: int, confidence: float) -> float:
    """Return the share of resamples beyond each end of an interval, for `n` clusters, at least two.

    The plain percentile interval is too narrow by the ratio of Student's t to the normal quantile
    and by the bias of the resamples' variance. Both are corrected by more extreme percentiles,
    those of sqrt(n / (n - 1)) t (Hesterberg 2015, Am. Stat. 69, 371-386, "expanded percentile
    interval"). The percentile p of B resamples is at rank p (B + 1), so that p is the probability
    that a new value is below it (Davison and Hinkley 1997, Bootstrap Methods and their Application,
    ch. 2).
    """
    return NormalDist().cdf(expanded_quantile(n, confidence))


def percentiles(values: Floats, *shares: float) -> tuple[float, ...]:
    """Return the values at the ranks p (n + 1) of n finite values, between neighbors by their
    distance.

    This is `numpy.quantile` with the method "weibull", to the last digit, in a tenth of the time:
    every interval of every metric calls it.

    Args:
        values: (n,) at least one finite value.
        shares: each p, between 0 and 1.
    """
    ordered = np.sort(values)
    return tuple(_at_share(ordered, share) for share in shares)


def _at_share(ordered: Floats, share: float) -> float:
    """Return the value at the rank of a share in sorted values."""
    count = len(ordered)
    position = count * share + share - 1
    if position < 0:
        return float(ordered[0])
    if position >= count - 1:
        return float(ordered[-1])
    index = int(position)
    fraction = position - index
    below = float(ordered[index])
    above = float(ordered[index + 1])
    # From the nearer neighbor, as NumPy does.
    if fraction < 0.5:
        return below + (above - below) * fraction
    return above - (above - below) * (1 - fraction)


@cache
def bayesian_quantile(n: int, confidence: float) -> float:
    """Return the lower quantile of t that expands the resamples of a Bayesian
    bootstrap, as `expanded_quantile`.

    Their variance is too small by the factor (n - 1) / (n + 1). For single units, the pseudo-counts
    make up for that; for clusters of several units they are too light.
    """
    widening = sqrt((n + 1) / (n - 1))
    return widening * student_quantile((1 - confidence) / 2, n - 1)


def expanded_quantile(n: int, confidence: float) -> float:
    """Return the lower quantile of sqrt(n / (n - 1)) t for `n` clusters, at least two."""
    return sqrt(n / (n - 1)) * student_quantile((1 - confidence) / 2, n - 1)


@lru_cache(maxsize=4096)
def student_quantile(p: float, degrees: int) -> float:
    """Return the quantile of Student's t (Abramowitz and Stegun 1964, 26.7.3, 26.7.4;
    above 1000 degrees 26.7.5).

    SciPy has it too, but importing SciPy takes an eighth of the time of a whole run, and every run
    needs this quantile.
    """
    if degrees > 1000:
        z = NormalDist().inv_cdf(p)
        terms = [
            float(np.polyval(polynomial, z * z)) / divisor
            for polynomial, divisor in _CORNISH_FISHER
        ]
        corrections = [
            term / float(degrees) ** power for power, term in enumerate(terms, 1)
        ]
        return z * (1 + sum(corrections))
    inside = _student_inside(degrees)

    def reaches(angle: float) -> bool:
        return (1 + inside(angle)) / 2 >= p

    # 80 steps: to the last bit
    low, high = bisect(reaches, -pi / 2, pi / 2, 80)
    angle = (low + high) / 2
    return sqrt(degrees) * tan(angle)


def student_share(t: float, degrees: int) -> float:
    """Return the share of Student's t below `t`, as `student_quantile`.

    Above 1000 degrees it is Wallace's (1959, Ann. Math. Statist. 30, 1124-1130), with an error of
    about 1e-8.
    """
    if degrees > 1000:
        z = (
            (8 * degrees + 1)
            / (8 * degrees + 3)
            * sqrt(degrees * log1p(t * t / degrees))
        )
        return NormalDist().cdf(copysign(z, t))
    inside = _student_inside(degrees)
    angle = atan(t / sqrt(degrees))
    return (1 + inside(angle)) / 2


def _student_inside(degrees: int) -> Callable[[float], float]:
    """Return the function from an angle to the share of |t| below sqrt(degrees)
    tan(angle), with the angle's sign.
    """
    odd = degrees % 2
    k = np.arange(1, (degrees - odd) // 2)
    even_numbers = 2 * k
    if odd:
        ratios = even_numbers / (even_numbers + 1)
    else:
        ratios = (even_numbers - 1) / even_numbers
    if degrees > 1:
        factors = np.cumprod([1.0, *ratios])
    else:
        factors = np.zeros(0)
    powers = 2 * np.arange(len(factors)) + odd

    def inside(angle: float) -> float:
        sides = sin(angle) * float(factors @ cos(angle) ** powers)
        if odd:
            return 2 / pi * (angle + sides)
        return sides

    return inside
