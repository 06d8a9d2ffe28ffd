"""Statistics as functions of per-case sums, and their intervals by resampling clusters of cases.

A cluster is drawn whole, with all its cases and their pairs, orders, samples and responses: rows of one case are not
independent, nor are cases of one cluster. Since a statistic needs only the totals of its columns over clusters, one
resample is one product of weights and columns.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import blake2b
from math import cos, isnan, pi, sin, sqrt, tan
from statistics import NormalDist
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalkit.config import ScoringConfig
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, divide, round_metric
from evalkit.scoring.stats.bounded_intervals import FEW, bounded_mean, inverted, noise_of, without_noise
from evalkit.scoring.stats.clusters import Clusters
from evalkit.types import Metric

FLOATS = 2**20
"""So many numbers at most are made floats at once to be summed."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Table:
    """Columns with a number for each of `cases`: bytes where all are whole and small, as most counts are, else floats.

    One array makes one table, for as long as both are there.
    """

    columns: tuple[NDArray[Any], ...]
    cases: int

    _known: ClassVar[dict[int, tuple[weakref.ref[Any], weakref.ref[Table]]]] = {}

    @classmethod
    def of(cls, columns: Floats | Table) -> Table:
        """Return columns, given as an array of (cases, columns), as a table."""
        if isinstance(columns, Table):
            return columns
        array, table = cls._known.get(id(columns), (None, None))
        if array is not None and table is not None and array() is columns and (found := table()) is not None:
            return found
        made = cls(tuple(_least(column) for column in columns.T), len(columns))
        cls._known[id(columns)] = weakref.ref(columns), weakref.ref(made)
        weakref.finalize(columns, cls._known.pop, id(columns), None)
        return made

    def totals(self, weights: Floats) -> Floats:
        """Return the columns' sums under each row of weights."""
        return totals_of(self.columns, weights)


def _least(column: Floats) -> NDArray[Any]:
    with np.errstate(invalid="ignore"):
        small = column.astype(np.uint8)
    return small if np.array_equal(small, column) else np.array(column, dtype=np.float64)


def totals_of(columns: Sequence[NDArray[Any]], weights: Floats) -> Floats:
    """Return the sums of columns, (rows, columns), under each row of weights, (rows, cases)."""
    width = max(1, FLOATS // max(1, weights.shape[1]))
    parts = [columns[start : start + width] for start in range(0, len(columns), width)]
    sums = [weights @ np.stack(part, axis=1, dtype=np.float64, casting="safe") for part in parts]
    return np.concatenate(sums, axis=1) if sums else np.zeros((len(weights), 0))


UNVARYING = "the same in every resample: no interval"
Bounds: TypeAlias = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Statistic:
    """One number of a run, in a form that can be resampled.

    `columns` has a row for each case, and is held as a `Table`; `value` maps their totals, or for `weighted` statistics
    the weights of the cases themselves, to one number for each row: NaN where it is not defined, which `why` then
    explains. It rests on the cases that are `covered`, by default those with a number other than 0 in a column; a
    `proportion` lies in [0, 1]. Resamples in which it is not defined are left out; for a `strict` one, which is
    undefined where it would be extreme, too many of them leave no interval.

    Of one with `gaps`, so many columns' absolute totals are summed and divided by the last column's: its value is
    without the bias of their noise, and its interval inverts a test. One with `ends` is the mean of values between
    them, the first column over the second.
    """

    name: str
    columns: Floats | Table
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", Table.of(self.columns))

    @property
    def table(self) -> Table:
        """The columns."""
        return Table.of(self.columns)

    def clusters(self, clusters: Clusters) -> int:
        """Return how many clusters it rests on."""
        if self.covered is not None:
            return clusters.covered(self.covered)
        table = self.table
        some = np.zeros(table.cases, dtype=bool)
        for column in table.columns:
            some |= column != 0
        return clusters.covered(some)

    def observed(self) -> float:
        """Return the value on the cases as they are, each once."""
        weights = np.ones((1, self.table.cases))
        return float(self.value(weights if self.weighted else self.table.totals(weights))[0])

    def estimate(self, clusters: Clusters) -> float:
        """Return the observed value, without the bias of noise where it is a sum of absolute values."""
        observed = self.observed()
        if not self.gaps or isnan(observed):
            return observed
        columns = np.stack(self.table.columns, axis=1, dtype=np.float64)
        values, of = columns[:, : self.gaps], columns[:, -1]
        return without_noise(values.sum(axis=0) / of.sum(), noise_of(values, of, clusters))

    def parts(self) -> list[Statistic]:
        """Return the gaps as statistics of their own."""
        return [replace(self, value=partial(_gap, place), gaps=0) for place in range(self.gaps)]


def _gap(place: int, totals: Floats) -> Floats:
    return divide(totals[:, place], totals[:, -1])


class SharedStatistic:
    """Several numbers that one computation gives: it is done once for each block of resamples.

    Statistics that use it must hold the same array of columns, so that they are handed the same array of totals.
    """

    def __init__(self, compute: Callable[[Floats], Floats]) -> None:
        self._compute = compute
        self._totals: Floats | None = None
        self._found: Floats | None = None

    def __getitem__(self, place: int) -> Callable[[Floats], Floats]:
        """Return the function from totals to the number at `place`."""

        def pick(totals: Floats) -> Floats:
            if self._found is None or totals is not self._totals:
                self._totals, self._found = totals, self._compute(totals)
            return np.asarray(self._found[:, place])

        return pick


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts rows by case: `case` holds each row's case, `cases` how many there are."""

    case: Ints
    cases: int

    def __call__(self, values: Bools | Floats) -> Floats:
        """Return the sum of `values` for each case."""
        return np.asarray(np.bincount(self.case, weights=values, minlength=self.cases), dtype=np.float64)

    def rate(
        self,
        name: str,
        hit: Bools,
        among: Bools,
        lost: Bools,
        *,
        note: str | None = None,
        why: str = "nothing to count",
    ) -> Statistic:
        """Return the share of `hit` rows `among` rows that were read; each `lost` row could have been either."""
        n, hits, missing = int(among.sum()), int((hit & among).sum()), int(lost.sum())
        return Statistic(
            name,
            np.stack([self(hit & among), self(among)], axis=1),
            lambda totals: divide(totals[:, 0], totals[:, 1]),
            n=n,
            missing=missing,
            worst=share(hits, n + missing, missing),
            proportion=True,
            note=note,
            why=why,
        )


def share(hits: float, of: float, open_: float) -> Bounds:
    """Return the least and the largest share of `of` when `open_` of them may be hits beside the `hits`."""
    return (hits / of, (hits + open_) / of) if of else (None, None)


def measure(statistics: Sequence[Statistic], scoring: ScoringConfig, clusters: Clusters) -> dict[str, Metric]:
    """Return each statistic as a Metric with its percentile interval (Efron 1979, Ann. Statist. 7, 1-26).

    The percentiles are expanded for the number of clusters, see `tail_of`.
    A proportion of exactly 0 or 1 is the same in every resample; it gets the exact binomial interval over clusters
    instead (`all_alike`). Anything else that never varies has no interval, and says so.
    """
    return measure_with_draws(statistics, scoring, clusters)[0]


def measure_with_draws(
    statistics: Sequence[Statistic], scoring: ScoringConfig, clusters: Clusters
) -> tuple[dict[str, Metric], Floats]:
    """Return what `measure` does, and the value of each statistic (rows) in each resample (columns)."""
    parts = [part for statistic in statistics for part in statistic.parts()]
    rows = resample([*statistics, *parts], scoring, clusters)
    draws, rest, found = rows[: len(statistics)], rows[len(statistics) :], {}
    for statistic, values in zip(statistics, draws, strict=True):
        value = statistic.estimate(clusters)
        metric = as_metric(statistic, value, values, scoring, clusters)
        own, rest = rest[: statistic.gaps], rest[statistic.gaps :]
        found[statistic.name] = _better(statistic, metric, own, scoring, clusters)
        # So that differences of two runs are those of their estimates.
        values += value - statistic.observed() if statistic.gaps else 0.0
    return found, draws


def _better(statistic: Statistic, metric: Metric, gaps: Floats, scoring: ScoringConfig, clusters: Clusters) -> Metric:
    """Return a metric with an interval that percentiles of resamples are not good enough for; else as it is."""
    n, value = statistic.clusters(clusters), metric.value
    if value is None:
        return metric
    if statistic.gaps:
        bias = statistic.observed() - value
        worst = [None if end is None else round_metric(max(0.0, end - bias)) for end in statistic.worst]
        metric = replace(metric, worst_low=worst[0], worst_high=worst[1])
    if n < 2 or not scoring.bootstrap:
        return metric
    if statistic.gaps:
        seen = np.array([part.observed() for part in statistic.parts()])
        defined = gaps[:, np.isfinite(gaps).all(axis=0)].T
        wider = _further(n, scoring.confidence) / NormalDist().inv_cdf((1 - scoring.confidence) / 2)
        low, high = inverted(seen, (defined - seen) * wider, scoring.confidence)
    elif statistic.ends is not None and n <= FEW:
        sums, counts = (clusters.sums(column) for column in statistic.table.columns)
        low, high = bounded_mean(sums, counts, statistic.ends, scoring.bootstrap, scoring.confidence, scoring.seed)
    else:
        return metric
    return replace(metric, low=round_metric(min(low, value)), high=round_metric(max(high, value)), note=statistic.note)


def resample(statistics: Sequence[Statistic], scoring: ScoringConfig, clusters: Clusters) -> Floats:
    """Return the value of each statistic (rows) in each of `scoring.bootstrap` resamples of the clusters (columns)."""
    out = np.full((len(statistics), scoring.bootstrap), np.nan)
    if not clusters.cases:
        return out
    different, places = _different_columns({id(statistic.table): statistic.table for statistic in statistics})
    summed = different if clusters.number is None else [clusters.sums(column) for column in different]
    some_weighted = any(statistic.weighted for statistic in statistics)
    for rows, weights in clusters.draw(scoring.bootstrap, scoring.seed):
        sums = totals_of(summed, weights)
        totals = {name: sums[:, columns] for name, columns in places.items()}
        by_case = clusters.spread(weights) if some_weighted else weights
        for row, statistic in enumerate(statistics):
            out[row, rows] = statistic.value(by_case if statistic.weighted else totals[id(statistic.table)])
    return out


def _different_columns(tables: Mapping[int, Table]) -> tuple[list[NDArray[Any]], dict[int, list[int]]]:
    """Return the tables' columns, each of them once, and where among them each table's columns stand.

    Statistics share much of what they count: of a million judgments' columns, less than half are different ones.
    """
    known: dict[bytes, int] = {}
    kept: list[NDArray[Any]] = []
    places: dict[int, list[int]] = {}
    for name, table in tables.items():
        places[name] = []
        for column in table.columns:
            key = blake2b(column.data, digest_size=16).digest()
            if key not in known:
                known[key] = len(kept)
                kept.append(column)
            places[name].append(known[key])
    return kept, places


def as_metric(statistic: Statistic, value: float, draws: Floats, scoring: ScoringConfig, clusters: Clusters) -> Metric:
    """Return a statistic's observed value with its interval from its values in resamples, as `measure` does."""
    low, high, caveat = _interval(statistic, value, draws, scoring.confidence, clusters)
    notes = [statistic.why] if isnan(value) else [statistic.note, caveat]
    worst_low, worst_high = (None if bound is None else round_metric(bound) for bound in statistic.worst)
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
    statistic: Statistic, value: float, draws: Floats, confidence: float, clusters: Clusters
) -> tuple[float | None, float | None, str | None]:
    if isnan(value) or not len(draws):
        return None, None, None
    n, unit = statistic.clusters(clusters), "case" if clusters.number is None else "cluster"
    if n < 2:
        return None, None, f"one {unit}: no interval"
    if statistic.proportion and value in (0.0, 1.0):
        low, high = all_alike(value, n, confidence)
        return round_metric(low), round_metric(high), f"all {n} {unit}s agree: exact binomial interval"
    defined = draws[np.isfinite(draws)]
    if statistic.strict and 1 - len(defined) / len(draws) > (1 - confidence) / 2:
        return None, None, f"not defined in {1 - len(defined) / len(draws):.0%} of the resamples: no interval"
    if not len(defined) or np.ptp(defined) < 1e-12:
        return None, None, UNVARYING
    tail = tail_of(n, confidence)
    low, high = np.quantile(defined, [tail, 1 - tail], method="weibull")
    return round_metric(low), round_metric(high), None


_CORNISH_FISHER = (
    ((1, 1), 4),
    ((5, 16, 3), 96),
    ((3, 19, 17, -15), 384),
    ((79, 776, 1482, -1920, -945), 92160),
)


@cache
def tail_of(n: int, confidence: float) -> float:
    """Return the share of resamples beyond each end of an interval from so many clusters, two or more.

    The plain percentile interval is too short by what separates Student's t from the normal distribution, and the
    resamples' own variance from an unbiased one: both are put right by taking percentiles further out, those of
    sqrt(n / (n - 1)) t (Hesterberg 2015, Am. Stat. 69, 371-386, "expanded percentile interval"). A
    percentile p of B resamples stands at place p (B + 1) among them, so that p is the chance of a further one below it
    (Davison and Hinkley 1997, Bootstrap Methods and their Application, ch. 2).
    """
    return NormalDist().cdf(_further(n, confidence))


def _further(n: int, confidence: float) -> float:
    return sqrt(n / (n - 1)) * student((1 - confidence) / 2, n - 1)


def student(p: float, degrees: int) -> float:
    """Return the quantile of Student's t (Abramowitz and Stegun 1964, 26.7.3, 26.7.4, and beyond a thousand 26.7.5).

    SciPy knows it too, but takes an eighth of a whole run's work to be imported, and every run needs this quantile.
    """
    if degrees > 1000:
        z = NormalDist().inv_cdf(p)
        terms = [float(np.polyval(one, z * z)) / divisor for one, divisor in _CORNISH_FISHER]
        return z * (1 + sum(term / float(degrees) ** power for power, term in enumerate(terms, 1)))
    odd = degrees % 2
    k = np.arange(1, (degrees - odd) // 2)
    ratios = 2 * k / (2 * k + 1) if odd else (2 * k - 1) / (2 * k)
    factors = np.cumprod([1.0, *ratios]) if degrees > 1 else np.zeros(0)
    powers = 2 * np.arange(len(factors)) + odd
    low, high = -pi / 2, pi / 2
    for _ in range(80):  # halves the interval to the last bit
        angle = (low + high) / 2
        sides = sin(angle) * float(factors @ cos(angle) ** powers)
        inside = 2 / pi * (angle + sides) if odd else sides
        low, high = (angle, high) if (1 + inside) / 2 < p else (low, angle)
    return sqrt(degrees) * tan((low + high) / 2)


def all_alike(p: float, n: int, confidence: float) -> tuple[float, float]:
    """Return the exact interval of a proportion `p` of 0 or 1 among `n` (Clopper and Pearson 1934, Biometrika 26, 404).

    Of a judge that prefers either with chance 1/2, four cases in a row agree one time in eight: Wilson's interval would
    call that a preference, at a confidence of 0.95.
    """
    far = 1 - ((1 - confidence) / 2) ** (1 / n)
    return (0.0, far) if p == 0.0 else (1 - far, 1.0)


def of_share(p: float, n: int, confidence: float) -> tuple[float, float]:
    """Return the interval of a share `p` of `n` by itself: exact where all are alike, else Wilson's."""
    return all_alike(p, n, confidence) if p in (0.0, 1.0) else wilson(p, n, confidence)


def wilson(p: float, n: int, confidence: float) -> tuple[float, float]:
    """Return the score interval of a proportion `p` of `n` (Wilson 1927, J. Am. Stat. Assoc. 22, 209-212)."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)
