"""Statistics as sums over observations, which resampling weights, and the ratio that they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from hashlib import blake2b
from math import isnan
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from evalkit.core.types import Metric
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.stats.arrays import (
    Bools,
    Bounds,
    Floats,
    Ints,
    divide,
)
from evalkit.scoring.stats.bounded_intervals import (
    PseudoCounts,
    Reach,
    debiased_sum,
    mixed,
    standard_errors,
    toward,
)
from evalkit.scoring.stats.clusters import Clusters

FLOATS = 2**20
"""At most this many numbers are converted to floats at a time."""


@frozen
class Table:
    """Columns of per-case numbers: bytes if all values are small integers, as most
    counts are, else floats.

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
        object.__setattr__(self, "observed", self._observed())

    def _observed(self) -> Floats:
        # Sums of integers are exact, and need no copy of the columns as floats.
        if all(column.dtype == np.uint8 for column in self.columns):
            sums = [int(column.sum()) for column in self.columns]
            return np.array([sums], dtype=np.float64)
        # One row of weights, all 1: the sums over all cases as (1, columns).
        return self.totals(np.ones((1, self.cases)))

    @classmethod
    def of(cls, columns: Columns) -> Table:
        """Return an array of (cases, columns), or columns of (cases,), as a table."""
        if isinstance(columns, Table):
            return columns
        cases = len(columns) if isinstance(columns, np.ndarray) else len(columns[0])
        # An array is transposed to its columns; a sequence has them already.
        arrays = columns.T if isinstance(columns, np.ndarray) else columns
        # Casting NaN to an integer warns; the comparison then keeps the floats.
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


_HELD: Final = WeakValueDictionary[tuple[bytes, str], NDArray[Any]]()
"""The columns of all tables by their content."""


def _smallest_dtype(column: Floats) -> NDArray[Any]:
    """Return a column in the smallest type that has its values.

    Statistics share much of what they count, so equal columns are one array.
    """
    # Equal after the round trip through a byte: the column needs an eighth of the memory.
    held = column.astype(np.uint8)
    if not (held == column).all():
        held = np.array(column, dtype=np.float64)
    # A digest finds an equal column without a comparison with each.
    key = blake2b(held.data, digest_size=16).digest()
    return _HELD.setdefault((key, held.dtype.char), held)


def totals_of(columns: Sequence[NDArray[Any]], weights: Floats) -> Floats:
    """Return the sums (rows, columns) of the columns under each row of weights (rows, cases)."""
    # So many columns at a time that the floats of a block fit.
    width = max(1, FLOATS // max(1, weights.shape[1]))
    parts = [columns[start : start + width] for start in range(0, len(columns), width)]
    # (rows, cases) @ (cases, width) = (rows, width) for each block of columns.
    sums = [
        weights @ np.stack(part, axis=1, dtype=np.float64, casting="safe")
        for part in parts
    ]
    if sums:
        return np.concatenate(sums, axis=1)
    return np.zeros((len(weights), 0))


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
        # The class is frozen, so fields are set through object.
        object.__setattr__(self, "columns", Table.of(self.columns))
        # An array of alternatives becomes a function of the share of unlike clusters.
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
        """Return the number of clusters it depends on: of weighted ones, the effective
        number (Kish 1965).
        """
        table = self.table
        some = self.covered
        if some is None:
            # A case that has only zeros in all columns does not affect the value.
            some = np.zeros(table.cases, dtype=bool)
            for column in table.columns:
                some |= column != 0
        count = clusters.covered(some)
        if self.weights is None or not count:
            return count
        # (clusters,) sums of weights. Kish: the square of the sum divided by the sum of squares.
        sums = clusters.sums(np.where(some, self.weights, 0.0))
        return max(min(2, count), int(sums.sum() ** 2 / (sums**2).sum() + 1e-9))

    def observed(self) -> float:
        """Return the value on the observed cases."""
        return float(
            self.value(
                # Weights of 1 for all cases, or the sums under them.
                np.ones((1, self.table.cases)) if self.weighted else self.table.observed
            )[0]
        )

    def estimate(self, clusters: Clusters) -> float:
        """Return the observed value, corrected for the bias of noise if it is a sum of
        absolute values.
        """
        observed = self.observed()
        if not self.gaps or isnan(observed):
            return observed
        columns = np.stack(self.table.columns, axis=1, dtype=np.float64)
        values = columns[:, : self.gaps]
        # The last column is the denominator of all gaps.
        of = columns[:, -1]
        return debiased_sum(
            values.sum(axis=0) / of.sum(), standard_errors(values, of, clusters)
        )

    def bounds(self, share: float, value: float) -> Bounds:
        """Return the lowest and highest value if a `share` of the clusters were unlike
        those seen.
        """
        reach = self.reach if callable(self.reach) else toward(value, self.possible)
        low, high = reach(share)
        # The observed value is always within its own bounds.
        if low is not None:
            low = min(low, value)
        if high is not None:
            high = max(high, value)
        return low, high

    @property
    def possible(self) -> Bounds:
        """The lowest and highest possible value."""
        # In order: limits of this statistic, ends of its mean, the unit interval, the catalog.
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
            # Column `index` divided by the last one.
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
            # The same array, by identity: a comparison of all numbers would cost a pass
            # over them.
            if self._found is None or totals is not self._totals:
                self._found = self._compute(totals)
                self._totals = totals
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
            # (cases,) sums; cases without a row have 0.
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
        # A scalar weight applies to all rows.
        weight = np.asarray(each, dtype=np.float64)
        # (rows,) values of the rows that count, 0 for the others.
        used = np.where(among, values, 0.0) * weight
        # (rows,) their weights: the denominator.
        counted = among * weight
        total = float(used.sum())
        lost = float(np.sum(unread * weight))
        worst: Bounds = (None, None)
        if span is not None and (whole := float(counted.sum()) + lost):
            # Every missing row at the lowest value, then every one at the highest.
            worst = (total + lost * span[0]) / whole, (total + lost * span[1]) / whole
        # Squares are needed for bounded means, and only without weights.
        if attributes.get("ends") is not None and among.any() and np.ndim(each) == 0:
            deviations = values[among] - values[among].mean()
            attributes["squares"] = float(np.square(deviations).sum())
        attributes = {
            "n": int(among.sum()),
            "missing": int(np.sum(unread)),
            "worst": worst,
            **attributes,
        }
        # Two columns by case: the sum of the values and the sum of the weights.
        return Statistic(name, self.columns(used, counted), mean_of, **attributes)

    def rate(
        self,
        name: str,
        hit: Bools,
        among: Bools,
        unread: Bools | None = None,
        **attributes: Any,
    ) -> Statistic:
        """Return the share of rows in `among` that are also in `hit`; each row in
        `unread` could be either.

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
        # A negative weight exchanges the bounds: the highest value gives the lowest sum.
        for side, end in enumerate(mean.worst if weight > 0 else mean.worst[::-1]):
            ends[side] += np.nan if end is None else weight * end
    n = sum(mean.n for mean in means)
    missing = sum(mean.missing for mean in means)
    worst = (None, None) if np.isnan(ends).any() else tuple(ends)
    return Statistic(
        name,
        # Columns 0 and 1 are sum and count of the first mean, 2 and 3 of the second.
        [column for mean in means for column in mean.table.columns],
        lambda totals: (
            weights[0] * ratio(0, 1, totals) + weights[1] * ratio(2, 3, totals)
        ),
        **{"n": n, "missing": missing, "worst": worst, **attributes},
    )


def share(hits: float, total: float, unknown: float) -> Bounds:
    """Return the lowest and highest share of hits in `total`, `unknown` of which may be
    hits in addition to `hits`.
    """
    if total:
        return (hits / total, (hits + unknown) / total)
    return (None, None)
