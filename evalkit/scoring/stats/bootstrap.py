"""Statistics as functions of per-case sums, and their intervals by resampling clusters of cases.

A cluster is resampled as a whole, with all its cases and their pairs, orders, samples and
responses. Rows of one case are dependent, and so are cases of one cluster. A statistic depends only
on column totals over clusters, so one resample is one product of weights and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, lru_cache, partial
from hashlib import blake2b
from math import atan, copysign, cos, isnan, log1p, pi, sin, sqrt, tan
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalkit.config import ScoringConfig
from evalkit.core.types import Metric
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.stats.arrays import (
    Bools,
    Bounds,
    Floats,
    Ints,
    bisect,
    divide,
    round_metric,
)
from evalkit.scoring.stats.bounded_intervals import (
    FEW,
    PseudoCounts,
    Reach,
    bounded_mean,
    debiased_sum,
    invert_test,
    kinds,
    mixed,
    standard_errors,
    toward,
    unlike_share,
)
from evalkit.scoring.stats.clusters import Clusters

FEWEST = 5
"""Resamples of at most so many clusters reach too little beyond the value: the interval also holds
Student's."""
MANY = 2**12
"""From this number of clusters, those of a few kinds are resampled by kind."""
FLOATS = 2**20
"""At most this many numbers are converted to floats at a time."""


@frozen
class Table:
    """Columns of per-case numbers: bytes if all values are small integers, as most counts are, else floats.

    Attributes:
        columns: each (cases,).
        cases: the number of cases.
        observed: (1, columns) the column sums over all cases; always the same array, see
            `SharedStatistic`.
    """

    columns: tuple[NDArray[Any], ...]
    cases: int
    observed: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "observed", self.totals(np.ones((1, self.cases))))

    @classmethod
    def of(cls, columns: Columns) -> Table:
        """Return an array of (cases, columns), or columns of (cases,), as a table."""
        if isinstance(columns, Table):
            return columns
        cases = len(columns) if isinstance(columns, np.ndarray) else len(columns[0])
        arrays = columns.T if isinstance(columns, np.ndarray) else columns
        with np.errstate(invalid="ignore"):
            return cls(tuple(_smallest_dtype(column) for column in arrays), cases)

    def totals(self, weights: Floats) -> Floats:
        """Return the column sums (rows, columns) under each row of weights (rows, cases)."""
        return totals_of(self.columns, weights)

    @property
    def sums(self) -> Floats:
        """The column sums over all cases, (columns,)."""
        return np.asarray(self.observed[0])


Columns: TypeAlias = Floats | Sequence[NDArray[Any]] | Table


def _smallest_dtype(column: Floats) -> NDArray[Any]:
    small = column.astype(np.uint8)
    if (small == column).all():
        return small
    return np.array(column, dtype=np.float64)


def totals_of(columns: Sequence[NDArray[Any]], weights: Floats) -> Floats:
    """Return the sums (rows, columns) of the columns under each row of weights (rows, cases)."""
    width = max(1, FLOATS // max(1, weights.shape[1]))
    parts = [columns[start : start + width] for start in range(0, len(columns), width)]
    sums = [
        weights @ np.stack(part, axis=1, dtype=np.float64, casting="safe")
        for part in parts
    ]
    if sums:
        return np.concatenate(sums, axis=1)
    return np.zeros((len(weights), 0))


UNVARYING = "the same in every resample"
"""Begins the note of a metric that does not vary."""
OwnInterval: TypeAlias = Callable[[Clusters, float], tuple[float, float]]
"""Maps clusters and a confidence to an interval."""


@frozen
class Statistic:
    """A number of a run, in a form that can be resampled.

    Attributes:
        name: the metric's name.
        columns: (cases, columns) the per-case numbers, or a list of columns, held as a `Table`.
        value: maps column totals (rows, columns) to one number for each row, NaN if undefined.
        n: the number of units behind it.
        missing: the number of missing units.
        worst: the lowest and highest value if every missing unit had counted against it, or for it.
        proportion: whether it lies in [0, 1].
        weighted: whether `value` takes the weights of cases (rows, cases) instead of totals.
        strict: whether it is undefined exactly where it would be extreme, so that too many
            undefined resamples leave no interval; otherwise undefined resamples are ignored.
        note: a remark on the value.
        why: why the value is undefined, if it is.
        covered: (cases,) the cases it depends on; by default those with a nonzero number in any
            column.
        gaps: the number of columns whose absolute totals are summed and divided by the total of the
            last column; the value is corrected for the bias of their noise, and the interval
            inverts a test.
        ends: the bounds of the values whose mean it is, the first column divided by the second.
        squares: the sum of the squared deviations of single values from the mean, if known.
        pseudo: what its interval adds to the resampled totals, for statistics that do not vary
            between resamples of few cases although another sample of cases would differ.
        weights: (cases,) the weights of cases that its columns include, if they differ: they count
            as fewer clusters.
        unread: (cases,) the missing units of each case, if it is a share.
        limits: the lowest and highest possible value; by default those of the catalog.
        reach: how far a share of clusters unlike those seen could move it, for the interval of a
            statistic that does not vary between resamples; or (alternatives, columns) what one of
            its `n` units could add to the columns in an unlike cluster (see `mixed`); by default
            that of a mean within `limits`.
        own: an interval of its own, instead of percentiles, or together with them if a cluster has
            several units.
        unseen: what no resample can have because no cluster has it, and other clusters could: the
            interval then also holds the `reach`, so that it does not end where the resamples do;
            `None` if there is nothing of the kind.
    """

    name: str
    columns: Columns
    value: Callable[[Floats], Floats]
    n: int
    missing: int = 0
    worst: Bounds = (None, None)
    proportion: bool = False
    weighted: bool = False
    strict: bool = False
    note: str | None = None
    why: str = "nothing to count"
    covered: Bools | None = None
    gaps: int = 0
    ends: tuple[float, float] | None = None
    squares: float | None = None
    pseudo: PseudoCounts | None = None
    weights: Floats | None = None
    unread: Floats | None = None
    limits: Bounds | None = None
    reach: Reach | Floats | None = None
    own: OwnInterval | None = None
    unseen: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", Table.of(self.columns))
        if isinstance(self.reach, np.ndarray):
            object.__setattr__(
                self,
                "reach",
                mixed(self.value, self.table.sums, self.reach, float(self.n)),
            )

    @property
    def table(self) -> Table:
        """The columns as a table."""
        return Table.of(self.columns)

    def clusters(self, clusters: Clusters) -> int:
        """Return the number of clusters it depends on: of weighted ones, the effective number (Kish 1965)."""
        table = self.table
        some = self.covered
        if some is None:
            some = np.zeros(table.cases, dtype=bool)
            for column in table.columns:
                some |= column != 0
        count = clusters.covered(some)
        if self.weights is None or not count:
            return count
        sums = clusters.sums(np.where(some, self.weights, 0.0))
        return max(min(2, count), int(sums.sum() ** 2 / (sums**2).sum() + 1e-9))

    def observed(self) -> float:
        """Return the value on the observed cases."""
        return float(
            self.value(
                np.ones((1, self.table.cases)) if self.weighted else self.table.observed
            )[0]
        )

    def estimate(self, clusters: Clusters) -> float:
        """Return the observed value, corrected for the bias of noise if it is a sum of absolute values."""
        observed = self.observed()
        if not self.gaps or isnan(observed):
            return observed
        columns = np.stack(self.table.columns, axis=1, dtype=np.float64)
        values = columns[:, : self.gaps]
        of = columns[:, -1]
        return debiased_sum(
            values.sum(axis=0) / of.sum(), standard_errors(values, of, clusters)
        )

    def bounds(self, share: float, value: float) -> Bounds:
        """Return the lowest and highest value if a `share` of the clusters were unlike those seen."""
        low, high = (
            self.reach(share)
            if callable(self.reach)
            else toward(value, self.possible)(share)
        )
        return None if low is None else min(low, value), None if high is None else max(
            high, value
        )

    @property
    def possible(self) -> Bounds:
        """The lowest and highest possible value."""
        if self.limits is not None:
            return self.limits
        if self.ends is not None:
            return self.ends
        spec = None if self.proportion else CATALOG.spec(self.name)
        if self.proportion:
            return (0.0, 1.0)
        if spec is None:
            return (None, None)
        return (spec.low, spec.high)

    def parts(self) -> list[Statistic]:
        """Return the gaps as separate statistics."""
        return [
            replace(self, value=partial(ratio, index, -1), gaps=0)
            for index in range(self.gaps)
        ]


Measures: TypeAlias = list[Statistic | Metric]
"""Statistics to resample, and metrics that have their value already."""
Tabled: TypeAlias = tuple[Sequence[Statistic | Metric], JsonObject]
"""Metrics, and tables as JSON values by the name of their file in the run folder."""


def ratio(top: int, bottom: int, totals: Floats) -> Floats:
    """Return one column of totals divided by another."""
    return divide(totals[:, top], totals[:, bottom])


def undefined(totals: Floats) -> Floats:
    """Return NaN for each row of totals."""
    return np.full(len(totals), np.nan)


mean_of = partial(ratio, 0, 1)
"""Returns a mean: the total of the values divided by that of their number."""


class SharedStatistic:
    """Several numbers from one computation, done once for each block of resamples.

    Statistics that use it must share one array of columns, so that they receive the same array of
    totals.
    """

    def __init__(self, compute: Callable[[Floats], Floats]) -> None:
        self._compute = compute
        self._totals: Floats | None = None
        self._found: Floats | None = None

    def __getitem__(self, index: int) -> Callable[[Floats], Floats]:
        """Return the function from totals to the number at `index`."""

        def pick(totals: Floats) -> Floats:
            if self._found is None or totals is not self._totals:
                self._totals, self._found = totals, self._compute(totals)
            return np.asarray(self._found[:, index])

        return pick


@frozen
class Tally:
    """Sums of rows by case.

    Attributes:
        case: (rows,) the case of each row.
        cases: the number of cases.
    """

    case: Ints
    cases: int

    @classmethod
    def each(cls, cases: int) -> Tally:
        """Return the sums of rows that are the cases themselves."""
        return cls(np.arange(cases), cases)

    def of(self, case: Ints) -> Tally:
        """Return the sums of other rows, each of the case (rows,), by the same cases."""
        return Tally(case, self.cases)

    def where(self, rows: Bools) -> Tally:
        """Return the sums of the selected rows."""
        return Tally(self.case[rows], self.cases)

    def __call__(self, values: Bools | Floats | Ints) -> Floats:
        """Return the sum of `values` for each case."""
        return np.asarray(
            np.bincount(self.case, weights=values, minlength=self.cases),
            dtype=np.float64,
        )

    def columns(self, *values: Bools | Floats | Ints) -> list[Floats]:
        """Return the sums of several columns of values."""
        return [self(column) for column in values]

    def mean(
        self,
        name: str,
        values: Bools | Floats,
        among: Bools,
        unread: Bools | int = 0,
        *,
        span: tuple[float, float] | None = None,
        each: Floats | float = 1.0,
        **attributes: Any,
    ) -> Statistic:
        """Return the mean value of the rows in `among`.

        Args:
            name: the metric's name.
            values: (rows,) the values.
            among: (rows,) which rows were read.
            unread: (rows,) which rows are missing, or how many.
            span: the lowest and highest value of a missing row; `None` if there are no such bounds.
            each: (rows,) how much each row counts; by default all alike.
            attributes: other attributes of the statistic.
        """
        weight = np.asarray(each, dtype=np.float64)
        used = np.where(among, values, 0.0) * weight
        counted = among * weight
        total = float(used.sum())
        lost = float(np.sum(unread * weight))
        worst: Bounds = (None, None)
        if span is not None and (whole := float(counted.sum()) + lost):
            worst = (total + lost * span[0]) / whole, (total + lost * span[1]) / whole
        if attributes.get("ends") is not None and among.any() and np.ndim(each) == 0:
            deviations = values[among] - values[among].mean()
            attributes["squares"] = float(np.square(deviations).sum())
        attributes = {
            "n": int(among.sum()),
            "missing": int(np.sum(unread)),
            "worst": worst,
            **attributes,
        }
        return Statistic(name, self.columns(used, counted), mean_of, **attributes)

    def rate(
        self,
        name: str,
        hit: Bools,
        among: Bools,
        unread: Bools | None = None,
        **attributes: Any,
    ) -> Statistic:
        """Return the share of rows in `among` that are also in `hit`; each row in `unread` could be either.

        Args:
            name: the metric's name.
            hit: (rows,) which rows count.
            among: (rows,) which rows were read.
            unread: (rows,) which rows are missing; none by default.
            attributes: other attributes of the statistic, such as `note` and `why`.
        """
        statistic = self.mean(
            name,
            hit,
            among,
            0 if unread is None else unread,
            span=(0.0, 1.0),
            proportion=True,
            **attributes,
        )
        if unread is None:
            return statistic
        return replace(statistic, unread=self(unread))


def weighted_sum(
    name: str,
    means: Sequence[Statistic],
    weights: tuple[float, float],
    **attributes: Any,
) -> Statistic:
    """Return a weighted sum of two means, such as their difference or their mean.

    Args:
        name: the metric's name.
        means: two means, as `Tally.mean` and `Tally.rate` return them.
        weights: the weight of each.
        attributes: other attributes of the statistic.
    """
    ends = [0.0, 0.0]
    for mean, weight in zip(means, weights, strict=True):
        for side, end in enumerate(mean.worst if weight > 0 else mean.worst[::-1]):
            ends[side] += np.nan if end is None else weight * end
    n = sum(mean.n for mean in means)
    missing = sum(mean.missing for mean in means)
    worst = (None, None) if np.isnan(ends).any() else tuple(ends)
    return Statistic(
        name,
        [column for mean in means for column in mean.table.columns],
        lambda totals: (
            weights[0] * ratio(0, 1, totals) + weights[1] * ratio(2, 3, totals)
        ),
        **{"n": n, "missing": missing, "worst": worst, **attributes},
    )


def share(hits: float, total: float, unknown: float) -> Bounds:
    """Return the lowest and highest share of hits in `total`, `unknown` of which may be hits in addition to `hits`."""
    if total:
        return (hits / total, (hits + unknown) / total)
    return (None, None)


def measure(
    statistics: Sequence[Statistic], scoring: ScoringConfig, clusters: Clusters
) -> dict[str, Metric]:
    """Return each statistic as a Metric with its percentile interval (Efron 1979, Ann.

    Statist. 7, 1-26).

    The percentiles are expanded for the number of clusters (`tail_of`). A statistic that does not
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
    """Return the metrics as `measure` does, and the value of each statistic (rows) in each resample (columns)."""
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
        # Differences of two runs are then differences of their estimates.
        values += value - statistic.observed() if statistic.gaps else 0.0
    return metrics, draws


def _special_interval(
    statistic: Statistic,
    metric: Metric,
    gaps: Floats,
    scoring: ScoringConfig,
    clusters: Clusters,
) -> Metric:
    """Return the metric with a special interval where percentiles of resamples are not accurate enough."""
    value = metric.value
    if value is None:
        return metric
    if statistic.gaps:
        bias = statistic.observed() - value
        worst = [
            None if end is None else round_metric(max(0.0, end - bias))
            for end in statistic.worst
        ]
        metric = replace(metric, worst_low=worst[0], worst_high=worst[1])
    if not scoring.bootstrap or not (n := statistic.clusters(clusters)):
        return metric
    if statistic.own is not None:
        low, high = statistic.own(clusters, scoring.confidence)
        if n < statistic.n and metric.low is not None and metric.high is not None:
            low = min(low, metric.low)
            high = max(high, metric.high)
    elif statistic.gaps:
        if n < 2 or UNVARYING in (metric.note or ""):
            return metric
        observed = np.array([part.observed() for part in statistic.parts()])
        # shape (resamples, gaps)
        defined = gaps[:, np.isfinite(gaps).all(axis=0)].T
        wider = expanded_quantile(n, scoring.confidence) / NormalDist().inv_cdf(
            (1 - scoring.confidence) / 2
        )
        low, high = invert_test(
            observed, (defined - observed) * wider, scoring.confidence
        )
        most = statistic.possible[1]
        high = min(high, most) if most is not None else high
    elif statistic.ends is not None and n <= FEW:
        sums, counts = (clusters.sums(column) for column in statistic.table.columns)
        unweighted = statistic.weights is None
        several = 1 < n < statistic.n and unweighted and statistic.squares is not None
        low, high = bounded_mean(
            sums,
            counts,
            statistic.ends,
            scoring.bootstrap,
            scoring.confidence,
            scoring.seed,
            squares=statistic.squares if several else None,
            widest=bayesian_quantile(n, scoring.confidence) if several else None,
        )
    elif statistic.pseudo is not None and not (
        statistic.proportion and value in (0.0, 1.0)
    ):
        interval = _pseudo_interval(statistic, statistic.pseudo, scoring, clusters)
        if interval is None:
            return metric
        low, high = interval
    else:
        return metric
    return replace(
        metric,
        low=round_metric(min(low, value)),
        high=round_metric(max(high, value)),
        note=statistic.note,
    )


def _pseudo_interval(
    statistic: Statistic,
    pseudo: PseudoCounts,
    scoring: ScoringConfig,
    clusters: Clusters,
) -> tuple[float, float] | None:
    """Return the interval with pseudo-counts; `None` if too many resamples are undefined, or clusters too different."""
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
        tail = NormalDist().cdf(bayesian_quantile(count, scoring.confidence))
    low, high = np.quantile(defined, [tail, 1 - tail], method="weibull")
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
    """Return the value of each statistic (rows) in each of `scoring.bootstrap` resamples of the clusters (columns).

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
    """Return the distinct columns of all tables, and the positions of each table's columns among them.

    Statistics share much of what they count: fewer than half of the columns of a large run are
    distinct.
    """
    # digest of a column -> its position among the kept ones
    kept_positions: dict[bytes, int] = {}
    kept: list[NDArray[Any]] = []
    positions: dict[int, list[int]] = {}
    for name, table in tables.items():
        positions[name] = []
        for column in table.columns:
            key = blake2b(column.data, digest_size=16).digest()
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
    """Return a statistic's observed value as a Metric, with its interval from its values in resamples.

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
        statistic.name,
        round_metric(value),
        low,
        high,
        statistic.n,
        statistic.missing,
        worst_low,
        worst_high,
        "; ".join(note for note in notes if note) or None,
    )


def _interval(
    statistic: Statistic,
    value: float,
    draws: Floats,
    confidence: float,
    clusters: Clusters,
) -> tuple[float | None, float | None, str | None]:
    if isnan(value) or not len(draws) or not (n := statistic.clusters(clusters)):
        return None, None, None
    unit = "case" if clusters.number is None else "cluster"
    units = f"one {unit}" if n == 1 else f"{n} {unit}s"
    if statistic.proportion and value in (0.0, 1.0):
        low, high = exact_interval(value, n, confidence)
        agreed = units if n == 1 else f"all {units} agree"
        return (
            round_metric(low),
            round_metric(high),
            f"{agreed}: exact binomial interval",
        )
    defined = draws[np.isfinite(draws)]
    if statistic.strict and 1 - len(defined) / len(draws) > (1 - confidence) / 2:
        return (
            None,
            None,
            f"not defined in {1 - len(defined) / len(draws):.0%} of the resamples: no interval",
        )
    if n < 2 or not len(defined) or np.ptp(defined) < 1e-12:
        ends = statistic.bounds(unlike_share(n, confidence), value)
        if ends[0] is None or ends[1] is None:
            return None, None, f"{UNVARYING}, and without limits: no interval"
        return (
            round_metric(ends[0]),
            round_metric(ends[1]),
            f"{UNVARYING}: exact bound on how many of {units} differ",
        )
    tail = tail_of(n, confidence)
    low, high = np.quantile(defined, [tail, 1 - tail], method="weibull")
    if n <= FEWEST:
        half = -expanded_quantile(n, confidence) * defined.std()
        limits = np.array(statistic.possible, dtype=np.float64)
        low = np.fmin(low, np.fmax(value - half, limits[0]))
        high = np.fmax(high, np.fmin(value + half, limits[1]))
    caveat = None
    if statistic.unseen is not None:
        reached = np.array(
            statistic.bounds(unlike_share(n, confidence), value), dtype=np.float64
        )
        if reached[0] < low or reached[1] > high:
            low = np.fmin(low, reached[0])
            high = np.fmax(high, reached[1])
            caveat = f"{statistic.unseen}: with the exact bound on how many of {units} differ"
    return round_metric(low), round_metric(high), caveat


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


@cache
def bayesian_quantile(n: int, confidence: float) -> float:
    """Return the lower quantile of t that expands the resamples of a Bayesian bootstrap, as `expanded_quantile`.

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
    """Return the quantile of Student's t (Abramowitz and Stegun 1964, 26.7.3, 26.7.4; above 1000 degrees 26.7.5).

    SciPy has it too, but importing SciPy takes an eighth of the time of a whole run, and every run
    needs this quantile.
    """
    if degrees > 1000:
        z = NormalDist().inv_cdf(p)
        terms = [
            float(np.polyval(polynomial, z * z)) / divisor
            for polynomial, divisor in _CORNISH_FISHER
        ]
        return z * (
            1
            + sum(term / float(degrees) ** power for power, term in enumerate(terms, 1))
        )
    inside = _student_inside(degrees)
    ends = bisect(
        lambda angle: (1 + inside(angle)) / 2 >= p, -pi / 2, pi / 2, 80
    )  # to the last bit
    return sqrt(degrees) * tan(sum(ends) / 2)


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
    return (1 + _student_inside(degrees)(atan(t / sqrt(degrees)))) / 2


def _student_inside(degrees: int) -> Callable[[float], float]:
    """Return the function from an angle to the share of |t| below sqrt(degrees) tan(angle), with the angle's sign."""
    odd = degrees % 2
    k = np.arange(1, (degrees - odd) // 2)
    ratios = 2 * k / (2 * k + 1) if odd else (2 * k - 1) / (2 * k)
    factors = np.cumprod([1.0, *ratios]) if degrees > 1 else np.zeros(0)
    powers = 2 * np.arange(len(factors)) + odd

    def inside(angle: float) -> float:
        sides = sin(angle) * float(factors @ cos(angle) ** powers)
        if odd:
            return 2 / pi * (angle + sides)
        return sides

    return inside


def exact_interval(p: float, n: int, confidence: float) -> tuple[float, float]:
    """Return the exact interval of a proportion `p` of 0 or 1 among `n` (Clopper and Pearson 1934, Biometrika 26, 404).

    If a judge prefers either response with probability 1/2, four cases in a row agree one time in
    eight. Wilson's interval would call that a preference at a confidence of 0.95.
    """
    far = unlike_share(n, confidence)
    if p == 0.0:
        return (0.0, far)
    return (1 - far, 1.0)


def clopper_pearson(p: float, n: int, confidence: float) -> tuple[float, float]:
    """Return the exact interval of a share `p` of `n` (Clopper and Pearson 1934, Biometrika 26, 404).

    Of values between 0 and 1 that are not only 0 or 1, the mean varies less than such a share.
    """
    from scipy.special import betaincinv  # see `student_quantile`

    tail = (1 - confidence) / 2
    hits = p * n
    low = 0.0 if hits <= 0 else float(betaincinv(hits, n - hits + 1, tail))
    high = 1.0 if hits >= n else float(betaincinv(hits + 1, n - hits, 1 - tail))
    return low, high


def share_interval(p: float, n: int, confidence: float) -> tuple[float, float]:
    """Return the interval of a single share `p` of `n`: exact for 0 and 1, otherwise Wilson's."""
    if p in (0.0, 1.0):
        return exact_interval(p, n, confidence)
    return wilson(p, n, confidence)


def wilson(p: float, n: int, confidence: float) -> tuple[float, float]:
    """Return the score interval of a proportion `p` of `n` (Wilson 1927, J. Am. Stat.

    Assoc. 22, 209-212).
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    center = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, center - half), min(1.0, center + half)
