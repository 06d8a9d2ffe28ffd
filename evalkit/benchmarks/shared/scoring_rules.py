"""Building blocks of benchmark rules: a view of a run, and means, blends and rates with bounds."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.config import RunConfig
from evalkit.core.display import slug
from evalkit.core.types import Case, Metric
from evalkit.core.values import frozen
from evalkit.scoring.columns import (
    NONE,
    PairColumns,
    ScoreColumns,
    VerdictColumns,
    sign,
)
from evalkit.scoring.metrics.correlation import correlation_statistics
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, Ints, group_mean
from evalkit.scoring.stats.statistic import Measures, Statistic, Table, Tally
from evalkit.scoring.verdicts.pairs import combine_samples, over_orders, pair_margins

UNREAD = "no labeled pair has a readable verdict"

ONE_ORDER = "each pair was judged in one order: set swap=both"

NEEDS_SCORES = "responses have no scores: set mode=pointwise"

SUBSET = "subset"


@frozen
class View:
    """The outcome of a run on a benchmark.

    Rows are pairs, in the order of `pairs`, unless stated otherwise.
    """

    config: RunConfig
    cases: Sequence[Case]
    outcome: VerdictColumns

    @property
    def pairs(self) -> PairColumns:
        """Every pair of every case."""
        return self.outcome.pairs

    @property
    def tally(self) -> Tally:
        """Sums of pairs by case."""
        return Tally(self.pairs.case, len(self.cases))

    @property
    def cases_tally(self) -> Tally:
        """Sums of values by case."""
        return Tally.each(len(self.cases))

    @property
    def labeled(self) -> Bools:
        """Which pairs have a label."""
        return self.outcome.labeled

    @property
    def systems(self) -> NDArray[np.object_]:
        """The model of each response of every case, empty if it has none."""
        return np.array(
            [
                response.model or ""
                for case in self.cases
                for response in case.responses
            ],
            dtype=object,
        )

    @property
    def read(self) -> Bools:
        """Which pairs have a readable verdict in every order."""
        # (pairs, orders) to (pairs,): a pair is read only if all its orders are.
        return np.asarray((self.passes != NONE).all(axis=1))

    def lost(self, read: Bools) -> Bools:
        """Return which pairs were not read, without those whose verdict is withheld."""
        return np.asarray(~read & ~self.outcome.withheld)

    @property
    def whole(self) -> Bools:
        """Which cases have no pair whose verdict is withheld, (cases,)."""
        # (cases,) the number of withheld pairs of each case.
        return np.asarray(self.tally(self.outcome.withheld) == 0)

    @property
    def passes(self) -> Codes:
        """The winner of each order: (pairs, 2) if both orders are judged, otherwise
        (pairs, 1), without tie thresholds.

        For scores, there is one: the sign of their difference.
        """
        passes = self.outcome.passes
        if passes is None:
            # Scores have one order: a last axis of 1 keeps the shape (pairs, orders).
            return self.outcome.lean[:, None]
        if passes.both:
            return passes.winner
        # One order was judged, which may be the first or the second: keep the one that was read.
        return np.where(
            passes.read[:, :1], passes.winner[:, :1], passes.winner[:, 1:]
        ).astype(np.int8)

    @property
    def both(self) -> bool:
        """Whether each pair was judged in both orders."""
        return self.outcome.passes is not None and self.outcome.passes.both

    def order_margins(self) -> Floats:
        """Return each pair's margin in both orders, each the mean of its samples,
        (pairs, 2); NaN if not readable.
        """
        columns = self.outcome.judgments
        return combine_samples(
            columns, pair_margins(self.config, columns), self.pairs, "mean"
        ).margin

    def mean_margin(self) -> Floats:
        """Return each pair's mean margin over orders; NaN if none is readable."""
        if self.outcome.passes is None:
            return self.outcome.margin
        return over_orders(self.order_margins())

    def of_first(self, values: NDArray[Any], missing: float) -> NDArray[Any]:
        """Return the values of each case's first two responses, from those of all pairs."""
        # The remaining axes of `values` are kept: (cases, ...).
        first_values = np.full(
            (len(self.cases), *values.shape[1:]), missing, dtype=values.dtype
        )
        # Indices of responses: the pair of the first two.
        first = (self.pairs.i == 0) & (self.pairs.j == 1)
        first_values[self.pairs.case[first]] = values[first]
        return first_values

    def of_cases(self, key: str) -> list[Any]:
        """Return the metadata value of each case for a key; `None` if missing."""
        return [case.metadata.get(key) for case in self.cases]

    def subsets(self, *keys: str) -> dict[str, Bools]:
        """Return the cases of each subset, by its name in metrics, sorted.

        The name is the metadata value of the first of `keys` that a case has, by default `subset`.
        """
        # (cases,) the name of each case's subset, empty if it has none.
        subset_names = [
            next(
                (
                    case.metadata[key]
                    for key in keys or (SUBSET,)
                    if case.metadata.get(key)
                ),
                "",
            )
            for case in self.cases
        ]
        return by_name([slug(str(name)) for name in subset_names])

    def scores(self) -> Floats | None:
        """Return each response's score before normalization, NaN if missing; `None` if
        there are no scores.
        """
        if self.outcome.scores is None:
            return None
        return self.outcome.scores.raw

    def criterion_scores(self, name: str) -> Floats | None:
        """Return each response's score on one criterion, the mean of its samples;
        `None` if it was not judged.
        """
        scored = self.outcome.scores
        columns = self.outcome.ranks or self.outcome.judgments
        if scored is None or name not in columns.names:
            return None
        # (judgments, criteria) to the column of this criterion.
        values = columns.criteria[:, columns.names.index(name)]
        # The offset of a case plus the index in it is the row of the response, from 0.
        return group_mean(
            scored.offset[columns.case] + columns.i, values, len(scored.case)
        )

    def comparisons(self, case: Ints, i: Ints, j: Ints) -> Codes:
        """Return the winner of each comparison of two responses, `i` < `j`, by score or
        else as judged.
        """
        scored = self.outcome.scores
        if scored is None:
            # The judged pair is looked up by its case and its two indices.
            return self.outcome.lean[self.pairs.find(case, i, j)]
        # the index of each case's first response
        start = scored.offset[case]
        return sign(scored.raw[start + i] - scored.raw[start + j])


def by_name(names: Sequence[str]) -> dict[str, Bools]:
    """Return the rows of each name, sorted; empty names are omitted."""
    column = np.array(names, dtype=object)
    return {name: np.asarray(column == name) for name in sorted(set(names) - {""})}


NEEDS_CHECKLIST = "there are no answers to items: set mode=checklist"


def nothing(name: str, why: str) -> Metric:
    """Return a metric without a value, with the reason."""
    return Metric(name, None, note=why)


def mean(
    name: str,
    tally: Tally,
    values: Floats,
    among: Bools,
    lost: Bools,
    **attributes: Any,
) -> Statistic:
    """Return the mean of values in [0, 1] `among` rows; bounds allow any value for
    `lost` rows (see `Tally.mean`).
    """
    return tally.mean(
        name, values, among, lost, span=(0.0, 1.0), proportion=True, **attributes
    )


def blend(
    name: str,
    parts: Sequence[Statistic | Metric],
    weights: Sequence[float] | None = None,
    *,
    total: float = 1.0,
    proportion: bool = True,
    note: str | None = None,
    why: str = "nothing to count",
) -> Statistic | Metric:
    """Return the weighted mean of statistics, times `total`; undefined if one of them
    is, or has no value.
    """
    # Metrics without a value are in `parts` too, and make the blend undefined.
    statistics = [part for part in parts if isinstance(part, Statistic)]
    if not statistics or len(statistics) < len(parts):
        return nothing(
            name,
            next(
                (part.note for part in parts if isinstance(part, Metric) and part.note),
                why,
            ),
        )
    if weights is None:
        shares = np.ones(len(parts))
    else:
        shares = np.array(weights, dtype=np.float64)
    # The weights become shares with the sum `total`.
    shares *= total / shares.sum()
    # The columns of all parts are joined; `ends` are where those of each part begin and end.
    ends = np.cumsum([0, *(len(part.table.columns) for part in statistics)])
    # (parts,) @ (parts, 2): the bounds of the blend are the blend of the bounds.
    low, high = shares @ np.array([part.worst for part in statistics], dtype=np.float64)

    def value(totals: Floats) -> Floats:
        # (parts, resamples): each part reads only its own columns of the totals.
        values = [
            part.value(totals[:, ends[k] : ends[k + 1]])
            for k, part in enumerate(statistics)
        ]
        return np.asarray(shares @ np.stack(values))

    return Statistic(
        name,
        Table(
            tuple(column for part in statistics for column in part.table.columns),
            statistics[0].table.cases,
        ),
        value,
        n=sum(part.n for part in statistics),
        missing=sum(part.missing for part in statistics),
        # A part without bounds leaves the blend without them.
        worst=(None, None)
        if np.isnan(low) or np.isnan(high)
        else (float(low), float(high)),
        proportion=proportion,
        note=note,
        # The reason of the first part without a value.
        why=next((part.why for part in statistics if np.isnan(part.observed())), why),
    )


def with_all(rows: int, parts: Mapping[str, Bools]) -> dict[str, Bools]:
    """Return all rows, and those of each part, by the suffix of their metrics' names."""
    # The empty suffix is the metric over all rows.
    return {
        "": np.ones(rows, dtype=bool),
        **{f"/{name}": part for name, part in parts.items()},
    }


def by_model(names: Sequence[str] | NDArray[np.object_]) -> dict[str, Bools]:
    """Return the rows of each model by the suffix of its metrics' names; for a single
    model, all that have one.
    """
    models = by_name(list(names))
    # One model needs no suffix, but rows without a model are not its rows.
    if len(models) < 2:
        return {"": np.array(names, dtype=object) != ""}
    return {f"/{slug(name)}": rows for name, rows in models.items()}


def without(names: Iterable[str], present: Container[str]) -> str | None:
    """Return a note on the parts that are missing from a mean."""
    missing = ", ".join(name for name in names if name not in present)
    if missing:
        return f"without {missing}"
    return None


def rates(
    name: str,
    tally: Tally,
    hit: Bools,
    among: Bools,
    lost: Bools,
    subsets: Mapping[str, Bools],
    *,
    why: str = "",
) -> list[Statistic]:
    """Return the share of hits among all rows, and in each subset of cases."""
    # (cases,) to the rows of the tally, which may be pairs or responses.
    parts = {
        end: cases[tally.case] for end, cases in with_all(tally.cases, subsets).items()
    }
    return [
        tally.rate(
            name + end, hit, among & rows, lost & rows, why=why or "nothing to count"
        )
        for end, rows in parts.items()
    ]


def labeled_rates(
    view: View,
    name: str,
    hit: Bools,
    read: Bools,
    subsets: Mapping[str, Bools] = MappingProxyType({}),
) -> list[Statistic]:
    """Return the share of hits among labeled pairs, and in each subset of cases; those
    that were not read are lost.
    """
    return rates(
        name,
        view.tally,
        hit,
        view.labeled & read,
        view.labeled & view.lost(read),
        subsets,
        why=UNREAD,
    )


def orders_agree(
    view: View,
    name: str,
    subsets: Mapping[str, Bools] = MappingProxyType({}),
    *,
    agree: bool = True,
) -> Measures:
    """Return the share of pairs whose two orders have the same verdict, or different
    ones unless they `agree`.
    """
    if not view.both:
        return [nothing(name, ONE_ORDER)]
    # True if both orders have the same winner, or different ones if those are counted.
    same = (view.passes[:, 0] == view.passes[:, 1]) == agree
    return [
        *rates(
            name, view.tally, same, view.read, view.lost(view.read), subsets, why=UNREAD
        )
    ]


Build = Callable[[View, str, ScoreColumns], Sequence[Statistic | Metric]]


def by_dimension(
    view: View, benchmark: str, names: Sequence[str], build: Build
) -> Measures:
    """Return the metrics of `build` for scores and grades on each dimension, or why
    there are none.
    """
    measures: Measures = []
    for name in names:
        where = f"{benchmark}/{name}"
        # (responses,) the human grades on this dimension, not those of the case.
        grades = grades_of(view, name)
        scored = view.outcome.scores
        scores = view.criterion_scores(name)
        # A run without a criterion `overall` has the weighted mean of all.
        if scores is None and name == "overall":
            scores = view.scores()
        if scored is None:
            measures.append(nothing(where, NEEDS_SCORES))
        elif scores is None:
            measures.append(
                nothing(
                    where, f"no criterion '{name}' was judged: set criteria={benchmark}"
                )
            )
        else:
            # The rule works on scores of this dimension as if they were those of the run.
            measures += build(
                view, where, replace(scored, score=scores, raw=scores, grade=grades)
            )
    return measures


def grades_of(view: View, name: str) -> Floats:
    """Return the human grade of each response on one criterion, NaN if there is none."""
    grades: list[float] = []
    for case in view.cases:
        case_grades = (case.metadata.get("grades") or {}).get(name) or []
        # A list of another length cannot be assigned to responses.
        if len(case_grades) != len(case.responses):
            case_grades = [None] * len(case.responses)
        grades += [
            float("nan") if grade is None else float(grade) for grade in case_grades
        ]
    return np.array(grades, dtype=np.float64)


def pooled(_: View, name: str, scored: ScoreColumns) -> list[Statistic]:
    """Return the correlations of scores and grades over all responses together."""
    statistics = correlation_statistics(scored)
    return [
        replace(statistic, name=f"{name}/{statistic.name.rpartition('/')[2]}")
        for statistic in statistics
    ]
