"""Building blocks of benchmark rules: a view of a run, and means, blends and rates with bounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evalkit.config import RunConfig
from evalkit.scoring.columns import PairColumns, ScoreColumns, VerdictColumns, sign
from evalkit.scoring.metrics.correlation import correlation_statistics
from evalkit.scoring.stats.arrays import Bools, Bounds, Codes, Floats, Ints, divide, group_mean
from evalkit.scoring.stats.bootstrap import Statistic, Table, Tally
from evalkit.scoring.verdicts.pairs import combine_samples, over_orders, pair_margins
from evalkit.types import Case, Metric

UNREAD = "no labeled pair has a readable verdict"

ONE_ORDER = "each pair was judged in one order: set swap=both"

NEEDS_SCORES = "responses have no scores: set mode=pointwise"

SUBSET = "subset"


@dataclass(frozen=True, slots=True)
class View:
    """The outcome of a run on a benchmark. Rows are pairs, in the order of `pairs`, unless stated otherwise."""

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
        return Tally(np.arange(len(self.cases)), len(self.cases))

    @property
    def labeled(self) -> Bools:
        """Which pairs have a label."""
        return self.outcome.labeled

    @property
    def passes(self) -> Codes:
        """The winner of each order: (pairs, 2) if both orders are judged, otherwise (pairs, 1), without tie thresholds.

        For scores, there is one: the sign of their difference.
        """
        shown = self.outcome.passes
        if shown is None:
            return self.outcome.lean[:, None]
        if shown.both:
            return shown.winner
        return np.where(shown.read[:, :1], shown.winner[:, :1], shown.winner[:, 1:]).astype(np.int8)

    @property
    def both(self) -> bool:
        """Whether each pair was judged in both orders."""
        return self.outcome.passes is not None and self.outcome.passes.both

    def mean_margin(self) -> Floats:
        """Return each pair's mean margin over orders, each the mean of its samples; NaN if none is readable."""
        if self.outcome.passes is None:
            return self.outcome.margin
        columns = self.outcome.judgments
        passes = combine_samples(columns, pair_margins(self.config, columns), self.pairs, "mean")
        return over_orders(passes.margin)

    def of_cases(self, key: str) -> list[Any]:
        """Return the metadata value of each case for a key; `None` if missing."""
        return [case.metadata.get(key) for case in self.cases]

    def subsets(self, *keys: str) -> dict[str, Bools]:
        """Return the cases of each subset, by its name in metrics, sorted.

        The name is the metadata value of the first of `keys` that a case has, by default `subset`.
        """
        found = [
            next((case.metadata[key] for key in keys or (SUBSET,) if case.metadata.get(key)), "") for case in self.cases
        ]
        return by_name([slug(str(name)) for name in found])

    def scores(self) -> Floats | None:
        """Return each response's score before normalization, NaN if missing; `None` if there are no scores."""
        return None if self.outcome.scores is None else self.outcome.scores.raw

    def criterion_scores(self, name: str) -> Floats | None:
        """Return each response's score on one criterion, the mean of its samples; `None` if it was not judged."""
        scored, columns = self.outcome.scores, self.outcome.ranks or self.outcome.judgments
        if scored is None or name not in columns.names:
            return None
        values = columns.criteria[:, columns.names.index(name)]
        return group_mean(scored.offset[columns.case] + columns.i, values, len(scored.case))

    def comparisons(self, case: Ints, i: Ints, j: Ints) -> Codes:
        """Return the winner of each comparison of two responses, `i` < `j`, by score or else as judged."""
        scored = self.outcome.scores
        if scored is None:
            return self.outcome.lean[self.pairs.find(case, i, j)]
        place = scored.offset[case]
        return sign(scored.raw[place + i] - scored.raw[place + j])


def by_name(names: Sequence[str]) -> dict[str, Bools]:
    """Return the rows of each name, sorted; empty names are omitted."""
    column = np.array(names, dtype=object)
    return {name: np.asarray(column == name) for name in sorted(set(names) - {""})}


def slug(text: str) -> str:
    """Return a name for use in metrics: lower case, with `_` for anything but letters, digits, dots and dashes."""
    return re.sub(r"[^\w.-]+", "_", text.strip()).strip("_").lower()


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
    *,
    note: str | None = None,
    why: str = "nothing to count",
    weights: Floats | None = None,
) -> Statistic:
    """Return the (weighted) mean of values in [0, 1] `among` rows; bounds allow any value for `lost` rows."""
    weight = np.ones(len(values)) if weights is None else weights
    total, n, missing = float((values * weight)[among].sum()), int(among.sum()), int(lost.sum())
    every = float(weight[among].sum() + weight[lost].sum())
    open_ = float(weight[lost].sum())
    return Statistic(
        name,
        np.stack([tally(np.where(among, values * weight, 0.0)), tally(np.where(among, weight, 0.0))], axis=1),
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n,
        missing,
        worst=(total / every, (total + open_) / every) if every else (None, None),
        proportion=True,
        note=note,
        why=why,
    )


def blend(
    name: str,
    parts: Sequence[Statistic],
    weights: Sequence[float] | None = None,
    *,
    proportion: bool = True,
    note: str | None = None,
    why: str = "nothing to count",
) -> Statistic | Metric:
    """Return the weighted mean of statistics, unweighted by default; undefined if one of them is."""
    if not parts:
        return nothing(name, why)
    shares = [1 / len(parts)] * len(parts) if weights is None else [weight / sum(weights) for weight in weights]
    ends = np.cumsum([0, *(len(part.table.columns) for part in parts)])
    table = Table(tuple(column for part in parts for column in part.table.columns), parts[0].table.cases)

    def value(totals: Floats) -> Floats:
        found = [part.value(totals[:, ends[k] : ends[k + 1]]) for k, part in enumerate(parts)]
        return np.asarray(sum(share * one for share, one in zip(shares, found, strict=True)))

    return Statistic(
        name,
        table,
        value,
        n=sum(part.n for part in parts),
        missing=sum(part.missing for part in parts),
        worst=_blended([part.worst for part in parts], shares),
        proportion=proportion,
        note=note,
        why=next((part.why for part in parts if np.isnan(part.observed())), why),
    )


def _blended(bounds: Sequence[Bounds], shares: Sequence[float]) -> Bounds:
    low, high = 0.0, 0.0
    for (least, most), share in zip(bounds, shares, strict=True):
        if least is None or most is None:
            return None, None
        low, high = low + share * least, high + share * most
    return low, high


def rates(
    name: str, tally: Tally, hit: Bools, among: Bools, lost: Bools, subsets: Mapping[str, Bools], *, why: str = ""
) -> list[Statistic]:
    """Return the share of hits among all rows, and in each subset of cases."""
    said = why or "nothing to count"
    found = [tally.rate(name, hit, among, lost, why=said)]
    for subset, cases in subsets.items():
        rows = cases[tally.case]
        found.append(tally.rate(f"{name}/{subset}", hit, among & rows, lost & rows, why=said))
    return found


Build = Callable[[View, str, ScoreColumns], Sequence[Statistic | Metric]]


def by_dimension(view: View, benchmark: str, names: Sequence[str], build: Build) -> list[Statistic | Metric]:
    """Return the metrics of `build` for scores and grades on each dimension, or why there are none."""
    found: list[Statistic | Metric] = []
    for name in names:
        where, grades = f"{benchmark}/{name}", grades_of(view, name)
        scored, own = view.outcome.scores, view.criterion_scores(name)
        if own is None and name == "overall":
            own = view.scores()
        if scored is None:
            found.append(nothing(where, NEEDS_SCORES))
        elif own is None:
            found.append(nothing(where, f"no criterion '{name}' was judged: set criteria={benchmark}"))
        else:
            found += build(view, where, replace(scored, score=own, raw=own, grade=grades))
    return found


def grades_of(view: View, name: str) -> Floats:
    """Return the human grade of each response on one criterion, NaN if there is none."""
    grades: list[float] = []
    for case in view.cases:
        own = (case.metadata.get("grades") or {}).get(name) or []
        own = own if len(own) == len(case.responses) else [None] * len(case.responses)
        grades += [float("nan") if grade is None else float(grade) for grade in own]
    return np.array(grades, dtype=np.float64)


def pooled(view: View, name: str, scored: ScoreColumns) -> list[Statistic]:
    """Return the correlations of scores and grades over all responses together."""
    found = correlation_statistics(scored, len(view.cases))
    return [replace(one, name=f"{name}/{one.name.rpartition('/')[2]}") for one in found]
