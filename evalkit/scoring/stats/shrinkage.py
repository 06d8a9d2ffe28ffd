"""Estimates of the slices of a column, moved toward their mean, with simultaneous intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist
from typing import TypeAlias

import numpy as np

from evalkit.core.values import Json, JsonObject
from evalkit.scoring.stats.arrays import Bounds, Floats, round_metric
from evalkit.scoring.stats.quantiles import expanded_quantile

Basis: TypeAlias = tuple[int, Bounds]
"""The number of clusters of an estimate, and the limits of its metric."""


def shrink(
    rows: Sequence[JsonObject], bases: Sequence[Basis], confidence: float
) -> None:
    """Set each row's `shrunk`: its estimate moved toward the mean of its column, with an interval.

    The estimate is empirical Bayes with the variance between slices of DerSimonian and Laird (1986,
    Control. Clin. Trials 7, 177-188), in columns of at least three slices. It moves by at most one
    standard error, so that one bad slice among many good ones is not hidden (limited translation:
    Efron and Morris 1972, J. Am. Stat. Assoc. 67, 130-139). The interval is that of the estimate
    itself, widened so that it holds for all slices of all columns at once (Bonferroni): then it
    holds for the one that a reader picks because it is the lowest. An interval around the shrunk
    estimate does not, unless slices are as alike as the variance says.

    Args:
        rows: the table of slices.
        bases: the number of clusters of each row, and the limits of its metric.
        confidence: the confidence of all intervals of a metric together.
    """
    # The quantile of a two-sided interval.
    probability = (1 + confidence) / 2
    z = NormalDist().inv_cdf(probability)
    estimated = [
        (row, basis)
        for row, basis in zip(rows, bases, strict=True)
        if row["low"] is not None
    ]
    # By metric, because all slices of one metric are compared by a reader.
    count = Counter(row["metric"] for row, _ in estimated)
    columns: dict[tuple[str, str], list[tuple[JsonObject, Basis]]] = {}
    for row, basis in estimated:
        key = (row["metric"], row["column"])
        columns.setdefault(key, []).append((row, basis))
    for (metric, _), column in columns.items():
        # Arrays are (slices,), in the order of the column.
        estimates = [row["estimate"] for row, _ in column]
        values = np.array(estimates)
        # The standard error of each estimate, from the length of its interval.
        lengths = [row["high"] - row["low"] for row, _ in column]
        standard_errors = np.array([length / 2 / z for length in lengths])
        variances = standard_errors**2
        if len(column) < 3 or not variances.all():
            continue
        centers = _centers(values, variances)
        # Bonferroni over all slices of the metric.
        slices = count[metric]
        every = 1 - (1 - confidence) / slices
        with_centers = zip(column, centers.tolist(), strict=True)
        for (row, basis), center in with_centers:
            clusters, limits = basis
            # At least 2: the expanded quantile has one degree of freedom less.
            clusters = max(clusters, 2)
            usual = expanded_quantile(clusters, confidence)
            widest = expanded_quantile(clusters, every)
            factor = widest / usual
            low, high = widened(row, limits, factor)
            # The moved estimate stays within its own interval.
            value = min(max(center, low), high)
            row["shrunk"] = {
                "value": round_metric(value),
                "low": round_metric(low),
                "high": round_metric(high),
            }


def _centers(values: Floats, variances: Floats) -> Floats:
    """Return values moved toward their mean, but by at most one standard error, (slices,)."""
    mean, between = random_effects(values, variances)
    errors = np.sqrt(variances)
    kept = between / (between + variances)
    deviations = values - mean
    shrunk = mean + kept * deviations
    lowest = values - errors
    highest = values + errors
    return np.asarray(np.clip(shrunk, lowest, highest))


def widened(row: Json, limits: Bounds, factor: float) -> tuple[float, float]:
    """Return a row's interval, each side longer by a factor, within limits."""
    least, most = limits
    value = row["estimate"]
    below = value - row["low"]
    above = row["high"] - value
    low = value - factor * below
    high = value + factor * above
    if least is not None:
        low = max(low, least)
    if most is not None:
        high = min(high, most)
    return low, high


def random_effects(values: Floats, variances: Floats) -> tuple[float, float]:
    """Return the mean and the variance between values with known variances.

    It is the estimate of DerSimonian and Laird (1986).
    """
    weights = 1 / variances
    mean = (weights * values).sum() / weights.sum()
    # Cochran's Q less its expectation if the values were equal.
    squares = (values - mean) ** 2
    cochran = (weights * squares).sum()
    expected = len(values) - 1
    excess = cochran - expected
    total = weights.sum()
    of_squares = (weights**2).sum() / total
    scale = total - of_squares
    # Negative estimates of a variance are 0.
    between = max(0.0, float(excess / scale))
    weights = 1 / (variances + between)
    mean = (weights * values).sum() / weights.sum()
    return float(mean), between
