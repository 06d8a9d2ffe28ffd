"""Arrays of numbers: their types, sums by group, ratios, and how results are rounded."""

from __future__ import annotations

from math import isfinite
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int8]
Bools: TypeAlias = NDArray[np.bool_]
FUZZ = 1e-9
"""Margins closer than this are equal: weights such as 0.1 + 0.2 leave dust of 1e-16."""


# Sums of floats differ in their last bits between machines; what is handed out must not.
DECIMALS = 12


def round_metric(value: float) -> float | None:
    """Return `value` as a plain float rounded to 12 decimals, never -0.0; none if it is not a finite number."""
    return round(float(value), DECIMALS) + 0.0 if isfinite(value) else None


def divide(over: Floats, under: Floats) -> Floats:
    """Return `over` / `under`, NaN where `under` is 0."""
    return np.asarray(np.divide(over, under, out=np.full(np.shape(over), np.nan), where=under != 0))


def group_mean(place: Ints, values: Floats, size: int) -> Floats:
    """Return the mean of the values at each of `size` places, missing ones (NaN) left out; NaN where there is none."""
    there = np.isfinite(values)
    counts = np.bincount(place[there], minlength=size)
    sums = np.bincount(place[there], weights=values[there], minlength=size)
    return np.asarray(np.divide(sums, counts, out=np.full(size, np.nan), where=counts > 0))


def combine(how: str, place: Ints, values: Floats, size: int) -> Floats:
    """Return one number of the values at each of `size` places, missing ones (NaN) left out; NaN where there is none.

    Args:
        how: `mean`, `median` (of an even number, the mean of the middle two), or `majority`: the value that most have,
            and the mean of several such values.
        place: where each value stands.
        values: the values.
        size: how many places there are.
    """
    there = np.isfinite(values)
    order = np.lexsort((values[there], place[there]))
    place, values = place[there][order], values[there][order]
    if how == "median":
        return _median(place, values, size)
    if how == "majority":
        place, values, length = runs(place, values)
        most = np.zeros(size, dtype=np.int64)
        np.maximum.at(most, place, length)
        chosen = length == most[place]
        place, values = place[chosen], values[chosen]
    counts = np.bincount(place, minlength=size)
    sums = np.bincount(place, weights=values, minlength=size)
    return np.asarray(np.divide(sums, counts, out=np.full(size, np.nan), where=counts > 0))


def _median(place: Ints, values: Floats, size: int) -> Floats:
    counts = np.bincount(place, minlength=size)
    starts, filled = np.cumsum(counts) - counts, counts > 0
    found = np.full(size, np.nan)
    low, high = starts + (counts - 1) // 2, starts + counts // 2
    found[filled] = (values[low[filled]] + values[high[filled]]) / 2
    return found


def runs(place: Ints, values: Floats) -> tuple[Ints, Floats, Ints]:
    """Return the runs of equal values at one place, of values sorted by place and size: place, value and length."""
    new = np.ones(len(values), dtype=bool)
    new[1:] = (place[1:] != place[:-1]) | (np.diff(values) > FUZZ)
    starts = np.flatnonzero(new)
    return place[starts], values[starts], np.diff(np.append(starts, len(values)))
