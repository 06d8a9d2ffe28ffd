"""Statistics as functions of per-case sums, and their intervals by resampling clusters of cases.

A cluster is resampled as a whole, with all its cases and their pairs, orders, samples and
responses. Rows of one case are dependent, and so are cases of one cluster. A statistic depends only
on column totals over clusters, so one resample is one product of weights and columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isnan
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalkit.config import ScoringConfig
from evalkit.core.types import Metric
from evalkit.scoring.stats.arrays import (
    Bools,
    Floats,
    round_metric,
)
from evalkit.scoring.stats.bounded_intervals import (
    FEW,
    PseudoCounts,
    bounded_mean,
    invert_test,
    kinds,
    unlike_share,
)
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.quantiles import (
    bayesian_quantile,
    expanded_quantile,
    percentiles,
    tail_of,
)
from evalkit.scoring.stats.share_intervals import exact_interval
from evalkit.scoring.stats.statistic import Statistic, Table, totals_of

FEWEST = 5
"""Resamples of at most so many clusters reach too little beyond the value: the interval also holds
Student's."""
MANY = 2**12
"""From this number of clusters, those of a few kinds are resampled by kind."""


UNVARYING = "the same in every resample"
"""Begins the note of a metric that does not vary."""


Interval: TypeAlias = tuple[float, float]
"""The lower and the upper end."""
_NotedInterval: TypeAlias = tuple[float | None, float | None, str | None]
"""The lower and the upper end, `None` without an interval, and a note on how it was found."""


def measure(
    statistics: Sequence[Statistic], scoring: ScoringConfig, clusters: Clusters
) -> dict[str, Metric]:
    """Return each statistic as a Metric with its percentile interval.

    Efron 1979, Ann. Statist. 7, 1-26. The percentiles are expanded for the number of
    clusters (`tail_of`). A statistic that does not
    vary between resamples, such as a proportion or a coefficient of exactly 1, has the interval
    that follows from the exact bound of the share of clusters that could differ (`unlike_share`,
    `Statistic.bounds`); for a proportion of 0 or 1 it is the exact binomial interval over clusters.
    """
    return measure_with_draws(statistics, scoring, clusters, paired=False)[0]


def measure_with_draws(
    statistics: Sequence[Statistic],
    scoring: ScoringConfig,
    clusters: Clusters,
    *,
    paired: bool = True,
) -> tuple[dict[str, Metric], Floats]:
    """Return the metrics as `measure` does, and the value of each statistic (rows) in
    each resample (columns).
    """
    parts = [part for statistic in statistics for part in statistic.parts()]
    # statistics by resamples; below them the parts of those with gaps
    rows = resample([*statistics, *parts], scoring, clusters, paired=paired)
    draws = rows[: len(statistics)]
    part_rows = rows[len(statistics) :]
    metrics = {}
    for statistic, values in zip(statistics, draws, strict=True):
        value = statistic.estimate(clusters)
        metric = as_metric(statistic, value, values, scoring, clusters)
        gap_draws = part_rows[: statistic.gaps]
        part_rows = part_rows[statistic.gaps :]
        metrics[statistic.name] = _special_interval(
            statistic, metric, gap_draws, scoring, clusters
        )
        if statistic.gaps:
            # In place, in the draws that are returned: differences of two runs are then
            # differences of their estimates.
            values += value - statistic.observed()
    return metrics, draws


def _special_interval(
    statistic: Statistic,
    metric: Metric,
    gaps: Floats,
    scoring: ScoringConfig,
    clusters: Clusters,
) -> Metric:
    """Return the metric with a special interval where percentiles of resamples are not
    accurate enough: the first of four kinds that the statistic has.

    Args:
        statistic: the statistic.
        metric: its metric, with the interval of percentiles.
        gaps: (gaps, resamples) the resampled parts of a statistic that is a sum of gaps.
        scoring: the confidence and the number of resamples.
        clusters: the clusters that were resampled.
    """
    value = metric.value
    if value is None:
        return metric
    if statistic.gaps:
        metric = _with_estimated_bounds(statistic, metric, value)
    count = statistic.clusters(clusters)
    if not scoring.bootstrap or not count:
        return metric
    # A proportion of 0 or 1 has its exact interval already.
    is_exact = statistic.proportion and value in (0.0, 1.0)
    interval: Interval | None = None
    if statistic.own is not None:
        interval = statistic.own(clusters, scoring.confidence)
        if count < statistic.n:
            interval = _not_narrower(interval, metric)
    elif statistic.gaps:
        if count >= 2 and UNVARYING not in (metric.note or ""):
            interval = _gap_interval(statistic, gaps, scoring, count)
    elif statistic.ends is not None and count <= FEW:
        interval = _bounded_interval(statistic, statistic.ends, scoring, clusters)
    elif statistic.pseudo is not None and not is_exact:
        interval = _pseudo_interval(statistic, statistic.pseudo, scoring, clusters)
    if interval is None:
        return metric
    low, high = interval
    return replace(
        metric,
        low=round_metric(min(low, value)),
        high=round_metric(max(high, value)),
        note=statistic.note,
    )


def _with_estimated_bounds(
    statistic: Statistic, metric: Metric, value: float
) -> Metric:
    """Return a metric whose worst-case bounds have the bias of what was observed removed, as
    its value has.
    """
    bias = statistic.observed() - value
    worst = [
        None if end is None else round_metric(max(0.0, end - bias))
        for end in statistic.worst
    ]
    return replace(metric, worst_low=worst[0], worst_high=worst[1])


def _not_narrower(interval: Interval, metric: Metric) -> Interval:
    """Return an interval that contains the one of percentiles, which resample clusters."""
    if metric.low is None or metric.high is None:
        return interval
    return min(interval[0], metric.low), max(interval[1], metric.high)


def _gap_interval(
    statistic: Statistic, gaps: Floats, scoring: ScoringConfig, count: int
) -> Interval:
    """Return the interval of a sum of gaps, each of which is at least 0, by inverting a test."""
    observed = np.array([part.observed() for part in statistic.parts()])
    # shape (resamples, gaps), without resamples in which a gap is undefined
    defined = gaps[:, np.isfinite(gaps).all(axis=0)].T
    normal = NormalDist().inv_cdf((1 - scoring.confidence) / 2)
    wider = expanded_quantile(count, scoring.confidence) / normal
    low, high = invert_test(observed, (defined - observed) * wider, scoring.confidence)
    most = statistic.possible[1]
    return low, high if most is None else min(high, most)


def _bounded_interval(
    statistic: Statistic,
    ends: tuple[float, float],
    scoring: ScoringConfig,
    clusters: Clusters,
) -> Interval:
    """Return the interval of a mean of values between two ends, of few clusters."""
    sums, counts = (clusters.sums(column) for column in statistic.table.columns)
    count = statistic.clusters(clusters)
    unweighted = statistic.weights is None
    several = 1 < count < statistic.n and unweighted and statistic.squares is not None
    return bounded_mean(
        sums,
        counts,
        ends,
        scoring.bootstrap,
        scoring.confidence,
        scoring.seed,
        squares=statistic.squares if several else None,
        widest=bayesian_quantile(count, scoring.confidence) if several else None,
    )


def _pseudo_interval(
    statistic: Statistic,
    pseudo: PseudoCounts,
    scoring: ScoringConfig,
    clusters: Clusters,
) -> Interval | None:
    """Return the interval with pseudo-counts; `None` if too many resamples are
    undefined, or clusters too different.
    """
    columns = statistic.table.columns
    sums = (
        columns
        if clusters.number is None
        else [clusters.sums(column) for column in columns]
    )
    count = statistic.clusters(clusters)
    several = count < statistic.n
    # shape (resamples, columns)
    totals = pseudo.resample(
        sums, scoring.bootstrap, scoring.seed, statistic.value if several else None
    )
    if totals is None:
        return None
    draws = statistic.value(totals)
    defined = draws[np.isfinite(draws)]
    tail = (1 - scoring.confidence) / 2
    if not len(defined) or (statistic.strict and 1 - len(defined) / len(draws) > tail):
        return None
    if several and count > 1:
        # The quantile is negative, and lower for fewer clusters: the tail is smaller.
        tail = NormalDist().cdf(bayesian_quantile(count, scoring.confidence))
    low, high = percentiles(defined, tail, 1 - tail)
    # Very few clusters: at least the width by their standard error, within the possible values.
    if several and 1 < count <= FEWEST:
        half = -bayesian_quantile(count, scoring.confidence) * defined.std()
        least, most = np.array(statistic.possible, dtype=np.float64)
        value = statistic.observed()
        low = np.fmin(low, np.fmax(value - half, least))
        high = np.fmax(high, np.fmin(value + half, most))
    return float(low), float(high)


def resample(
    statistics: Sequence[Statistic],
    scoring: ScoringConfig,
    clusters: Clusters,
    *,
    paired: bool = False,
) -> Floats:
    """Return the value of each statistic (rows) in each of `scoring.bootstrap`
    resamples of the clusters (columns).

    Many clusters of a few kinds are resampled by kind: how often each kind is sampled is
    multinomial.

    Args:
        statistics: the statistics.
        scoring: the number of resamples and their seed.
        clusters: the clusters.
        paired: whether other calls must sample the same clusters.
    """
    out = np.full((len(statistics), scoring.bootstrap), np.nan)
    if not clusters.cases or not scoring.bootstrap:
        return out
    # indices: table -> its columns among the distinct ones
    distinct, indices = _distinct_columns(
        {id(statistic.table): statistic.table for statistic in statistics}
    )
    if clusters.number is None:
        summed = distinct
    else:
        summed = [clusters.sums(column) for column in distinct]
    # Counts of kinds do not say which cases were sampled. Weighted statistics need the cases,
    # and paired calls the same clusters.
    some_weighted = any(statistic.weighted for statistic in statistics)
    # a cluster of each kind, and how many are of that kind
    first, counts = kinds(
        [] if paired or some_weighted or clusters.count < MANY else summed
    )
    if not 0 < len(first) <= clusters.count // 16:
        draws = clusters.draw(scoring.bootstrap, scoring.seed)
    else:
        summed = [column[first] for column in summed]
        generator = np.random.default_rng(scoring.seed)
        shares = counts / clusters.count
        sampled = generator.multinomial(clusters.count, shares, size=scoring.bootstrap)
        draws = iter([(slice(None), sampled.astype(np.float64))])
    # rows: resamples of this chunk; weights: shape (resamples, clusters or kinds)
    for rows, weights in draws:
        sums = totals_of(summed, weights)
        totals = {name: sums[:, columns] for name, columns in indices.items()}
        # shape (resamples, cases)
        by_case = clusters.to_cases(weights) if some_weighted else weights
        for row, statistic in enumerate(statistics):
            out[row, rows] = statistic.value(
                by_case if statistic.weighted else totals[id(statistic.table)]
            )
    return out


def _distinct_columns(
    tables: Mapping[int, Table],
) -> tuple[list[NDArray[Any]], dict[int, list[int]]]:
    """Return the distinct columns of all tables, and the positions of each table's
    columns among them.

    Statistics share much of what they count: fewer than half of the columns of a large run are
    distinct. Equal columns of tables are the same array.
    """
    # id of a column -> its position among the kept ones
    kept_positions: dict[int, int] = {}
    kept: list[NDArray[Any]] = []
    positions: dict[int, list[int]] = {}
    for name, table in tables.items():
        positions[name] = []
        for column in table.columns:
            key = id(column)
            if key not in kept_positions:
                kept_positions[key] = len(kept)
                kept.append(column)
            positions[name].append(kept_positions[key])
    return kept, positions


def metric_of_draws(
    name: str,
    value: float,
    draws: Floats,
    covered: Bools,
    scoring: ScoringConfig,
    clusters: Clusters,
    **attributes: Any,
) -> Metric:
    """Return a number that was computed and resampled elsewhere as a Metric with its interval.

    Args:
        name: the metric's name.
        value: the observed value.
        draws: (resamples,) its values in resamples.
        covered: (cases,) the cases it depends on.
        scoring: the confidence and the number of resamples.
        clusters: the clusters that were resampled.
        attributes: other attributes of the statistic, such as `n` and `limits`.
    """
    statistic = Statistic(
        name,
        np.zeros((len(covered), 0)),
        lambda totals: np.full(len(totals), value),
        covered=covered,
        **attributes,
    )
    return as_metric(statistic, value, draws, scoring, clusters)


def as_metric(
    statistic: Statistic,
    value: float,
    draws: Floats,
    scoring: ScoringConfig,
    clusters: Clusters,
) -> Metric:
    """Return a statistic's observed value as a Metric, with its interval from its
    values in resamples.

    Args:
        statistic: the statistic.
        value: its observed value.
        draws: (resamples,) its values in resamples.
        scoring: the confidence and the number of resamples.
        clusters: the clusters that were resampled.
    """
    low, high, caveat = _interval(statistic, value, draws, scoring.confidence, clusters)
    notes = [statistic.why] if isnan(value) else [statistic.note, caveat]
    worst_low, worst_high = (
        None if bound is None else round_metric(bound) for bound in statistic.worst
    )
    return Metric(
        name=statistic.name,
        value=round_metric(value),
        low=low,
        high=high,
        n=statistic.n,
        missing=statistic.missing,
        worst_low=worst_low,
        worst_high=worst_high,
        note="; ".join(note for note in notes if note) or None,
    )


def _interval(
    statistic: Statistic,
    value: float,
    draws: Floats,
    confidence: float,
    clusters: Clusters,
) -> _NotedInterval:
    """Return the interval of a statistic, by the method that its values allow.

    Args:
        statistic: the statistic.
        value: its observed value, NaN if it is undefined.
        draws: (resamples,) its values in the resamples.
        confidence: the level of the interval.
        clusters: the clusters of the cases.
    """
    n = statistic.clusters(clusters)
    if isnan(value) or not len(draws) or not n:
        return None, None, None
    unit = "case" if clusters.number is None else "cluster"
    units = f"one {unit}" if n == 1 else f"{n} {unit}s"
    if statistic.proportion and value in (0.0, 1.0):
        low, high = exact_interval(value, n, confidence)
        agreed = units if n == 1 else f"all {units} agree"
        note = f"{agreed}: exact binomial interval"
        return round_metric(low), round_metric(high), note
    defined = draws[np.isfinite(draws)]
    undefined_share = 1 - len(defined) / len(draws)
    if statistic.strict and undefined_share > (1 - confidence) / 2:
        note = f"not defined in {undefined_share:.0%} of the resamples: no interval"
        return None, None, note
    if n < 2 or not len(defined) or np.ptp(defined) < 1e-12:
        return _interval_of_unvarying(statistic, value, n, units, confidence)
    return _resampled_interval(statistic, value, defined, n, units, confidence)


def _interval_of_unvarying(
    statistic: Statistic, value: float, n: int, units: str, confidence: float
) -> _NotedInterval:
    """Return the values that a statistic without variation could have if some of n
    units differed.
    """
    low, high = statistic.bounds(unlike_share(n, confidence), value)
    if low is None or high is None:
        return None, None, f"{UNVARYING}, and without limits: no interval"
    note = f"{UNVARYING}: exact bound on how many of {units} differ"
    return round_metric(low), round_metric(high), note


def _resampled_interval(
    statistic: Statistic,
    value: float,
    draws: Floats,
    n: int,
    units: str,
    confidence: float,
) -> _NotedInterval:
    """Return the percentiles of resamples, (resamples,), wider for few units and for
    unseen values.
    """
    tail = tail_of(n, confidence)
    low, high = percentiles(draws, tail, 1 - tail)
    if n <= FEWEST:
        half = -expanded_quantile(n, confidence) * draws.std()
        least, most = np.array(statistic.possible, dtype=np.float64)
        # `fmin` and `fmax` ignore a limit that is NaN: there is none.
        low = np.fmin(low, np.fmax(value - half, least))
        high = np.fmax(high, np.fmin(value + half, most))
    if statistic.unseen is None:
        return round_metric(low), round_metric(high), None
    bounds = statistic.bounds(unlike_share(n, confidence), value)
    lowest, highest = np.array(bounds, dtype=np.float64)
    caveat = None
    if lowest < low or highest > high:
        low = np.fmin(low, lowest)
        high = np.fmax(high, highest)
        caveat = (
            f"{statistic.unseen}: with the exact bound on how many of {units} differ"
        )
    return round_metric(low), round_metric(high), caveat
