"""Krippendorff's alpha, from sums that cases add up to, so that cases can be resampled.

Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", sections B and C: units with fewer than two values say
nothing and are left out; a unit's pairs of values weigh 1 / (values - 1).
"""

from __future__ import annotations

import numpy as np

from evalkit.scoring.bootstrap import Tally, divide
from evalkit.scoring.columns import Floats, Ints


def nominal_columns(counts: Floats, tally: Tally) -> Floats:
    """Return the coincidences of classes by case; `counts` holds how often each unit (row) was given each class."""
    size = counts.sum(axis=1)
    weight = np.where(size > 1, 1 / np.maximum(size - 1, 1), 0.0)
    classes = range(counts.shape[1])
    cells = [counts[:, a] * (counts[:, b] - (a == b)) * weight for a in classes for b in classes]
    return np.stack([tally(cell) for cell in cells], axis=1)


def nominal_alpha(totals: Floats) -> Floats:
    """Return alpha of coincidence matrices given flat (rows); NaN where only one class was ever given."""
    k = round(totals.shape[1] ** 0.5)
    table = totals.reshape(-1, k, k)
    margin = table.sum(axis=2)
    n = margin.sum(axis=1)
    observed = n - np.trace(table, axis1=1, axis2=2)
    expected = n * n - (margin * margin).sum(axis=1)
    return np.asarray(1 - (n - 1) * divide(observed, np.where(expected > 1e-9, expected, 0.0)))


def interval_columns(values: Floats, unit: Ints, units: int, tally: Tally) -> Floats:
    """Return by case what interval alpha needs; `values` are given to `unit`s, `tally` counts units by case."""
    size = np.bincount(unit, minlength=units).astype(np.float64)
    once = np.bincount(unit, weights=values, minlength=units)
    twice = np.bincount(unit, weights=values * values, minlength=units)
    paired = size > 1
    apart = np.where(paired, 2 * (size * twice - once * once) / np.maximum(size - 1, 1), 0.0)
    return np.stack([tally(apart), *(tally(np.where(paired, part, 0.0)) for part in (size, once, twice))], axis=1)


def interval_alpha(totals: Floats) -> Floats:
    """Return alpha for differences on an interval scale; NaN where all values are equal."""
    apart, n, once, twice = totals.T
    expected = 2 * (n * twice - once * once)
    return np.asarray(1 - (n - 1) * divide(apart, np.where(expected > 1e-9 * n, expected, 0.0)))
