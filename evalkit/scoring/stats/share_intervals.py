"""Intervals of a share in closed form."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

from evalkit.scoring.stats.bounded_intervals import (
    unlike_share,
)


def exact_interval(p: float, n: int, confidence: float) -> tuple[float, float]:
    """Return the exact interval of a proportion `p` of 0 or 1 among `n` (Clopper and
    Pearson 1934, Biometrika 26, 404).

    If a judge prefers either response with probability 1/2, four cases in a row agree one time in
    eight. Wilson's interval would call that a preference at a confidence of 0.95.
    """
    far = unlike_share(n, confidence)
    low = 0.0
    high = 1.0
    if p == 0.0:
        high = far
    else:
        low = 1 - far
    return low, high


def clopper_pearson(p: float, n: int, confidence: float) -> tuple[float, float]:
    """Return the exact interval of a share `p` of `n` (Clopper and Pearson 1934,
    Biometrika 26, 404).

    Of values between 0 and 1 that are not only 0 or 1, the mean varies less than such a share.
    """
    # Imported late: SciPy takes long to load.
    from scipy.special import betaincinv  # see `student_quantile`

    tail = (1 - confidence) / 2
    hits = p * n
    misses = n - hits
    if hits <= 0:
        low = 0.0
    else:
        low = float(betaincinv(hits, misses + 1, tail))
    if hits >= n:
        high = 1.0
    else:
        high = float(betaincinv(hits + 1, misses, 1 - tail))
    return low, high


def share_interval(p: float, n: int, confidence: float) -> tuple[float, float]:
    """Return the interval of a single share `p` of `n`: exact for 0 and 1, otherwise Wilson's."""
    if p in (0.0, 1.0):
        return exact_interval(p, n, confidence)
    return wilson(p, n, confidence)


def wilson(p: float, n: int, confidence: float) -> tuple[float, float]:
    """Return the score interval of a proportion `p` of `n`.

    Wilson 1927, J. Am. Stat. Assoc. 22, 209-212.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    square = z * z
    scale = 1 + square / n
    center = (p + square / (2 * n)) / scale
    variance = p * (1 - p) / n
    half = z * sqrt(variance + square / (4 * n * n)) / scale
    low = max(0.0, center - half)
    high = min(1.0, center + half)
    return low, high
