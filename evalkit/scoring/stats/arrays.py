"""Array types, grouped sums, ratios, rounding and bisection."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from math import isfinite
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int8]
Bools: TypeAlias = NDArray[np.bool_]
Bounds: TypeAlias = tuple[float | None, float | None]
"""The lowest and the highest value; an end is `None` if it is unknown."""
FUZZ = 1e-9
"""Tolerance for equal margins: sums of weights such as 0.1 + 0.2 are off by 1e-16."""
DECIMALS = 12
"""Decimals of a reported number: the last bits of a sum of floats differ between machines."""


def round_metric(value: float) -> float | None:
    """Return `value` as a float rounded to 12 decimals and never -0.0, or `None` if it
    is not finite.
    """
    if not isfinite(value):
        return None
    rounded = round(float(value), DECIMALS)
    # -0.0 becomes 0.0.
    return rounded + 0.0


def divide(numerator: Floats, denominator: Floats) -> Floats:
    """Return `numerator` / `denominator` elementwise, NaN where the denominator is 0."""
    out = np.full(np.shape(numerator), np.nan)
    defined = denominator != 0
    quotient = np.divide(numerator, denominator, out=out, where=defined)
    return np.asarray(quotient)


def group_mean(group: Ints, values: Floats, size: int) -> Floats:
    """Return the mean of each group's values, ignoring NaN.

    Args:
        group: (n,) the group of each value, from 0.
        values: (n,) the values.
        size: the number of groups.

    Returns:
        (size,) the means, NaN for a group without values.
    """
    finite = np.isfinite(values)
    group = group[finite]
    values = values[finite]
    counts = np.bincount(group, minlength=size)
    sums = np.bincount(group, weights=values, minlength=size)
    out = np.full(size, np.nan)
    means = np.divide(sums, counts, out=out, where=counts > 0)
    return np.asarray(means)


def combine(rule: str, group: Ints, values: Floats, size: int) -> Floats:
    """Return one number for each group's values, ignoring NaN.

    Args:
        rule: `mean`, `median` (for an even number of values the mean of the middle two) or
            `majority` (the most frequent value, or the mean of several most frequent ones).
        group: (n,) the group of each value, from 0.
        values: (n,) the values.
        size: the number of groups.

    Returns:
        (size,) the combined values, NaN for a group without values.
    """
    finite = np.isfinite(values)
    group = group[finite]
    values = values[finite]
    # by group, then by value
    order = np.lexsort((values, group))
    group = group[order]
    values = values[order]
    if rule == "median":
        return _median_by_group(group, values, size)
    if rule == "majority":
        group, values, length = runs(group, values)
        # group -> the length of its longest run; `bincount` cannot take a maximum
        longest = np.zeros(size, dtype=np.int64)
        np.maximum.at(longest, group, length)
        chosen = length == longest[group]
        group = group[chosen]
        values = values[chosen]
    return group_mean(group, values, size)


def _median_by_group(group: Ints, values: Floats, size: int) -> Floats:
    """Return each group's median; `values` are sorted by group, then by value."""
    counts = np.bincount(group, minlength=size)
    # group -> the position of its first value
    starts = np.cumsum(counts) - counts
    filled = counts > 0
    medians = np.full(size, np.nan)
    # For an odd number of values both are the position of the middle one.
    low = starts + (counts - 1) // 2
    high = starts + counts // 2
    low = low[filled]
    high = high[filled]
    below = values[low]
    above = values[high]
    medians[filled] = (below + above) / 2
    return medians


def runs(group: Ints, values: Floats) -> tuple[Ints, Floats, Ints]:
    """Return the runs of equal values as (group, value, length), for values sorted by
    group and value.
    """
    # Whether a value begins a run: its group or its value differs from the one before.
    new = np.ones(len(values), dtype=bool)
    changes_group = group[1:] != group[:-1]
    changes_value = np.diff(values) > FUZZ
    new[1:] = changes_group | changes_value
    starts = np.flatnonzero(new)
    ends = np.append(starts, len(values))
    lengths = np.diff(ends)
    return group[starts], values[starts], lengths


def bisect(
    beyond: Callable[[float], bool], inside: float, outside: float, steps: int
) -> tuple[float, float]:
    """Return the numbers, closer by half with each step, between which a monotonic
    condition begins to hold.

    Args:
        beyond: the condition.
        inside: a number at which it does not hold.
        outside: a number at which it does, greater or less.
        steps: the number of steps.
    """
    # The condition holds at `outside` and not at `inside`, before and after each step.
    for _ in range(steps):
        middle = (inside + outside) / 2
        if beyond(middle):
            outside = middle
        else:
            inside = middle
    return inside, outside


def fewest(holds: Callable[[int], bool], most: int) -> int:
    """Return the smallest number, from 2 to about `most`, from which a condition holds."""
    high = 2
    while high < most and not holds(high):
        high *= 2
    # It does not hold at half of `high`, unless that is 1.
    first = high // 2 + 1
    candidates = range(first, high)
    return first + bisect_left(candidates, True, key=holds)
