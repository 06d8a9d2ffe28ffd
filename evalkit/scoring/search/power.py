"""How bad a slice must be to be found."""

from __future__ import annotations

from math import comb
from typing import Final

import numpy as np

from evalkit.core.types import Metric
from evalkit.scoring.search.family import FamilyTest
from evalkit.scoring.search.outcomes import Outcomes
from evalkit.scoring.stats.arrays import Floats, round_metric

SIZES: Final = (30, 100, 300)
POWER: Final = 0.8
"""The probability that a slice so bad is found."""
SMALLEST: Final = 1e-9
"""A smaller part of a number is rounding."""
FOUND: Final = "slices/found_below/"
ERROR: Final = "slices/found_error/"


def power_metrics(outcomes: Outcomes, tested: FamilyTest) -> dict[str, Metric]:
    """Return, for slices of some sizes, the accuracy below which one is found with
    probability `POWER`.

    For scores it is the mean error, in multiples of that of all responses, above which one is
    found.

    Args:
        outcomes: verdicts next to labels.
        tested: the test.
    """
    total = float(outcomes.units.sum())
    metrics = {}
    for size in SIZES:
        if size > total / 2:
            continue
        if outcomes.counted:
            name = f"{FOUND}{size}"
            value = _accuracy(outcomes, tested.critical, size)
        else:
            name = f"{ERROR}{size}"
            value = _error(outcomes, tested.critical, size)
        if value is not None:
            metrics[name] = Metric(name, round_metric(value), n=size)
    return metrics


def _accuracy(outcomes: Outcomes, critical: float, size: int) -> float | None:
    """Return the accuracy of a slice whose wrong verdicts exceed the critical value
    often enough.
    """
    total = outcomes.units.sum()
    usual = outcomes.wrong.sum() / total
    if not 0 < usual < 1:
        return None
    # every possible number of wrong verdicts in the slice
    wrong = np.arange(size + 1)
    right = size - wrong
    expected = size * usual
    with np.errstate(divide="ignore", invalid="ignore"):
        of_wrong = wrong * np.log(wrong / expected)
        expected_right = size * (1 - usual)
        of_right = right * np.log(right / expected_right)
    # 0 log 0 is 0.
    of_wrong = np.where(wrong > 0, of_wrong, 0.0)
    of_right = np.where(right > 0, of_right, 0.0)
    deviance = 2 * (of_wrong + of_right)
    # The slice is part of the total that it is compared with.
    outside = 1 - size / total
    correction = np.sqrt(outside)
    root = np.sqrt(np.maximum(deviance, 0))
    statistic = np.sign(wrong - expected) * root / correction
    exceeding = np.flatnonzero(statistic > critical)
    if not len(exceeding):
        return None
    rates = np.linspace(usual, 1, 1001)
    least = int(exceeding[0])
    power = _at_least(least, size, rates)
    # The lowest rate of errors with enough power: the first that is True.
    lowest = (power >= POWER).argmax()
    return 1 - float(rates[lowest])


def _at_least(least: int, size: int, rates: Floats) -> Floats:
    """Return the probability of at least `least` of `size` for each rate, (rates,)."""
    counts = np.arange(least, size + 1)
    binomials = [float(comb(size, int(count))) for count in counts]
    ways = np.array(binomials)
    rate = rates[:, None]
    misses = size - counts
    chances = ways * rate**counts * (1 - rate) ** misses
    return np.asarray(chances.sum(axis=1))


def _error(outcomes: Outcomes, critical: float, size: int) -> float | None:
    """Return the mean error of a slice that exceeds the critical value often enough, in
    multiples of the usual one.
    """
    total = outcomes.units.sum()
    usual = outcomes.wrong.sum() / total
    if usual <= 0:
        return None
    squares = (outcomes.residuals**2).sum()
    spread = np.sqrt(squares / total)
    # Where all errors are equal, these are rounding, and nothing is known of larger ones.
    if spread <= SMALLEST * usual:
        return None
    # The standard error of a mean, for a slice that is part of the total.
    error = np.sqrt((1 - size / total) / size)
    needed = critical + 0.84
    step = needed * spread * error
    return float(1 + step / usual)
