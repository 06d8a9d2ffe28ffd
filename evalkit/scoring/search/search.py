"""The search for slices in which a judge is worse than the decision about it says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Final

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.core.types import Metric
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.decision import (
    FEW,
    FLOOR,
    FOLLOWS,
    LABELED_SHARE,
    LEAN_WHERE,
    SLOPE,
    SLOPES,
    SPREAD,
    SPREAD_WHERE,
    SUBSTANTIAL,
    USES,
    WHERE,
    WITHIN,
    Decision,
    Use,
)
from evalkit.scoring.search.cells import CROSS
from evalkit.scoring.search.columns import SearchedColumns, says_who_is_right
from evalkit.scoring.search.family import FamilyTest, compare_slices
from evalkit.scoring.search.missing import cases_to_answer, missing_in
from evalkit.scoring.search.outcomes import KAPPAS, MOMENTS, Outcomes, outcomes_of
from evalkit.scoring.search.power import power_metrics
from evalkit.scoring.search.row_ranges import places, runs_of_parts
from evalkit.scoring.search.strata import Followed, Within, agreement_within, followed
from evalkit.scoring.search.unlabeled import unlabeled_slices
from evalkit.scoring.search.variation import Groups, varying
from evalkit.scoring.slice_metrics import part_of
from evalkit.scoring.slices import Slices, slice_name
from evalkit.scoring.stats.arrays import Bools, round_metric
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import Statistic

TESTED: Final = "slices/tested"
MOST_FOUND: Final = 10
"""At most this many slices are withdrawn: a judge that is wrong in more is wrong."""
AGREEMENTS: Final = (*KAPPAS, "agreement/spearman", "agreement/kendall", MOMENTS)
CONCORDANCE: Final = "agreement/kappa_quadratic"
LEANS: Final = "decision/lean/"
RATE_LEANS: Final = tuple(f"{LEANS}{kind}" for kind in ("a", "score", "met", "class/"))
MOST_NAMED: Final = 3
"""At most so many small slices, and columns that are not searched, are named."""
LEAN: Final = 0.1
"""The largest difference of rates in a slice for which its rates need no correction."""


def search_slices(
    scoring: ScoringConfig,
    columns: SearchedColumns,
    statistics: Mapping[str, Statistic],
    decision: Decision,
    clusters: Clusters,
) -> dict[str, Metric]:
    """Return what the slices of the data show about a judge, as metrics that its decision reads.

    A slice is withdrawn from a use if it has more wrong verdicts than its labels explain
    (`compare_slices`), and its agreement with the labels is below what the use needs. Slices are
    found one after the other, each among the cases of no slice found before, so that a column that
    is only related to the cause is not named.

    Args:
        scoring: the settings of scoring.
        columns: the columns.
        statistics: the statistics of the judge, by name.
        decision: the decision about the judge without them.
        clusters: the clusters of the cases.
    """
    outcomes = outcomes_of(statistics)
    if decision.metric is None:
        agreement = None
    else:
        agreement = statistics.get(decision.metric.name)
    if not scoring.bootstrap or outcomes is None:
        return {}
    if agreement is None or agreement.name not in AGREEMENTS:
        return {}
    slices = _flat(columns, outcomes, clusters.cases)
    judge = _Judge(scoring, statistics, agreement, columns, outcomes, clusters)
    if decision.reason == "missing" and slices is not None:
        return judge.unanswered(slices)
    if not decision.trusted:
        return {}
    if slices is None:
        return judge.within(()) | judge.varying(())
    return judge.within(slices.columns) | judge.worse(slices, decision)


@frozen
class _FlatSlices:
    """The slices of all columns, one after the other.

    Attributes:
        columns: the columns, without pairs of them.
        simple: how many slices are not of pairs of columns; they come first.
        placed: how many are places in the data; they come last.
        of: for each slice, its column and its number there.
        members: (cases, slices) which cases are in each slice.
    """

    columns: Sequence[Slices]
    simple: int
    placed: int
    of: Sequence[tuple[Slices, int]]
    members: Bools

    def containing(self, index: int) -> Iterator[int]:
        """Yield the slices of one column that a slice of two columns is part of."""
        crossed, _ = self.of[index]
        parts = crossed.column.split(CROSS)
        if len(parts) == 1:
            return
        inside = self.members[:, index]
        for other, (slices, _) in enumerate(self.of):
            if slices.column in parts and self.members[inside, other].all():
                yield other

    def with_places(self, of_places: Slices) -> _FlatSlices:
        """Return the slices with other places in the data."""
        first = len(self.of) - self.placed
        kept = self.of[:first]
        placed = [(of_places, index) for index in range(len(of_places.values))]
        # shape (cases, slices)
        members_kept = self.members[:, :first]
        members = np.concatenate([members_kept, of_places.members], axis=1)
        of = [*kept, *placed]
        return replace(self, placed=len(placed), of=of, members=members)

    def is_crossed(self, index: int) -> bool:
        """Return whether a slice is of two columns."""
        slices, _ = self.of[index]
        return CROSS in slices.column


def _flat(
    columns: SearchedColumns, outcomes: Outcomes, cases: int
) -> _FlatSlices | None:
    """Return the slices, without those of columns that say which verdicts are right."""
    units = np.bincount(outcomes.case, outcomes.units, cases)
    wrong = np.bincount(outcomes.case, outcomes.wrong, cases)
    used = []
    for column in columns.slices:
        tells = outcomes.counted and says_who_is_right(column, units, wrong)
        if not tells:
            used.append(column)
    names = {column.column for column in used}
    pairs = [
        column
        for column in columns.crossed
        if names.issuperset(column.column.split(CROSS))
    ]
    without = [column for column in columns.without if column.column in names]
    simple = sum(len(column.values) for column in (*used, *without))
    by_place = []
    if columns.placed:
        slices = places(outcomes, cases)
        if slices is not None:
            by_place.append(slices)
    every = [*used, *without, *columns.derived, *pairs, *by_place]
    if not every:
        return None
    placed = sum(len(column.values) for column in by_place)
    of = []
    for column in every:
        of += [(column, index) for index in range(len(column.values))]
    # shape (cases, slices)
    members = np.concatenate([column.members for column in every], axis=1)
    return _FlatSlices(used, simple, placed, of, members)


def _facts(slices: _FlatSlices, index: int) -> JsonObject:
    """Return which cases are in a slice."""
    column, number = slices.of[index]
    return _facts_of(column, number)


def _facts_of(column: Slices, number: int) -> JsonObject:
    """Return which cases are in a slice of a column."""
    facts: JsonObject = {"column": column.column, "value": column.values[number]}
    if column.ends:
        start, end = column.ends[number]
        facts["from"] = start
        facts["below"] = end
    if column.computed:
        facts["computed"] = True
    return facts


def _name(slices: _FlatSlices, index: int) -> str:
    """Return a slice as names of metrics have it."""
    column, number = slices.of[index]
    return _named(column.column, column.values[number])


def _named(column: str, value: str) -> str:
    """Return a value of a column as names of metrics have it."""
    name = slice_name(column, value, "")
    return name.removeprefix("slice/").rstrip("/")


def _is_beyond(inside: Metric, outside: Metric) -> bool:
    """Return whether a lean in a slice is farther from 0 than elsewhere, by the margin
    and by whole intervals.
    """
    ends = (inside.low, inside.high, outside.low, outside.high)
    if inside.value is None or outside.value is None or None in ends:
        return False
    if abs(inside.value) < abs(outside.value):
        return False
    difference = inside.value - outside.value
    if difference > LEAN:
        return (inside.low or 0.0) > (outside.high or 0.0)
    if difference < -LEAN:
        return (inside.high or 0.0) < (outside.low or 0.0)
    return False


def _is_outside(ratio: float) -> bool:
    """Return whether a slope or a ratio of spreads is not that of grades; no if it is undefined."""
    return ratio < SLOPES[0] or ratio > SLOPES[1]


def _is_rescaled(spread: Metric) -> bool:
    """Return whether scores are compressed or expanded, by the whole interval."""
    if spread.low is None or spread.high is None:
        return False
    return spread.high < SLOPES[0] or spread.low > SLOPES[1]


@frozen
class _Judge:
    """A judge whose slices are searched.

    Attributes:
        scoring: the settings of scoring.
        statistics: its statistics, by name.
        agreement: the one that decides about it.
        columns: the columns that are searched.
        outcomes: its verdicts next to labels.
        clusters: the clusters of the cases.
    """

    scoring: ScoringConfig
    statistics: Mapping[str, Statistic]
    agreement: Statistic
    columns: SearchedColumns
    outcomes: Outcomes
    clusters: Clusters

    def within(self, columns: Sequence[Slices]) -> dict[str, Metric]:
        """Return the lowest agreement within strata, and the column that the verdicts
        may follow alone.

        The interval is that of the lowest of so many. The systems count without any column, too.

        Args:
            columns: the columns that are slices.
        """
        counts = self.agreement
        if counts.name not in KAPPAS:
            counts = self.statistics[MOMENTS]
        pooled = []
        followed_alone: list[Followed] = []
        narrow = [column for column in self.columns.strata if column.ends]
        systems = [column for column in self.columns.strata if not column.ends]
        crossed = (*self.columns.crossed, *self.columns.prompts)
        for column in (*columns, *systems, *narrow, *crossed):
            is_pair = any(column is pair for pair in crossed)
            if followed_alone and is_pair:
                continue  # a pair of columns shows what one of them does
            followed_column = followed(column, counts, self.scoring.confidence)
            is_followed = followed_column is not None
            is_narrow = any(column is bins for bins in narrow)
            if not is_followed and (is_narrow or is_pair):
                continue  # quarters of the same numbers show the same, with less noise
            inside = agreement_within(column, counts, is_followed=is_followed)
            if inside is not None:
                pooled.append(inside.statistic)
            if followed_column is not None and not self._is_shown(inside):
                followed_alone.append(followed_column)
        return self._lowest(pooled) | self._followed(followed_alone)

    def _is_shown(self, inside: Within | None) -> bool:
        """Return whether agreement within a column is shown to be above the floor."""
        if inside is None:
            return False
        measured = measure([inside.statistic], self.scoring, self.clusters)[WITHIN]
        return measured.low is not None and measured.low > FLOOR

    def _followed(self, columns: Sequence[Followed]) -> dict[str, Metric]:
        """Return the column that determines most verdicts, first of those that are no label."""
        if not columns:
            return {}
        most = max(columns, key=lambda column: (not column.is_label, column.share))
        return {FOLLOWS: most.metric()}

    def _lowest(self, pooled: Sequence[Statistic]) -> dict[str, Metric]:
        """Return the lowest agreement within strata, with an interval for the lowest of so many."""
        if not pooled:
            return {}
        lowest = min(pooled, key=lambda statistic: statistic.observed())
        confidence = 1 - (1 - self.scoring.confidence) / len(pooled)
        scoring = self.scoring.model_copy(update={"confidence": confidence})
        metric = measure([lowest], scoring, self.clusters)[WITHIN]
        return {WITHIN: replace(metric, note=lowest.note)}

    def worse(self, slices: _FlatSlices, decision: Decision) -> dict[str, Metric]:
        """Return the slices that are withdrawn, and what was searched."""
        remaining = np.ones(len(slices.members), dtype=bool)
        first = self._test(slices, remaining)
        metrics = self._searched(slices, first) | self.varying(slices.columns)
        metrics |= self.unanswered(slices)
        tested = first
        for _ in range(MOST_FOUND):
            worst = self._worst(slices, tested, remaining, decision.use)
            if worst is None:
                break
            index, use, statistic = worst
            metric = self._where(slices, index, use, statistic)
            metrics[metric.name] = metric
            remaining &= ~slices.members[:, index]
            tested = self._test(slices, remaining)
        metrics |= self.unlabeled(slices)
        if decision.use == "rates_corrected":
            metrics |= self._shifted(slices, tested, remaining)
        if decision.use != "single":
            metrics |= self._rescaled(slices, tested, remaining)
        return metrics

    def unlabeled(self, slices: _FlatSlices) -> dict[str, Metric]:
        """Return the slices about which the labels say nothing, as they are of other cases."""
        to_answer = cases_to_answer(self.statistics)
        labeled = np.unique(self.outcomes.case)
        if to_answer is not None:
            labeled = np.union1d(labeled, to_answer)
        metrics = {}
        confidence = self.scoring.confidence
        for unlabeled in unlabeled_slices(
            slices.columns, labeled, self.clusters, confidence
        ):
            facts = _facts_of(unlabeled.slices, unlabeled.number)
            facts |= {"allows": "unknown", "metric": LABELED_SHARE}
            value = unlabeled.slices.values[unlabeled.number]
            name = WHERE + _named(unlabeled.slices.column, value)
            share = round_metric(unlabeled.labeled / unlabeled.cases)
            note = json.dumps(facts, ensure_ascii=False)
            metrics[name] = Metric(name, share, n=unlabeled.cases, note=note)
        return metrics

    def unanswered(self, slices: _FlatSlices) -> dict[str, Metric]:
        """Return the slice in which most answers are missing, if chance does not
        explain it; nothing for clusters.
        """
        if self.clusters.count < self.clusters.cases:
            return {}
        labeled = cases_to_answer(self.statistics)
        if labeled is not None and slices.placed:
            # Parts with as many labeled cases each, and not as many answers.
            slices = slices.with_places(runs_of_parts(labeled, self.clusters.cases))
        confidence = self.scoring.confidence
        missing = missing_in(self.statistics, slices.members, confidence)
        if missing is None:
            return {}
        index, share = missing
        note = json.dumps(_facts(slices, index), ensure_ascii=False)
        metric = replace(share, name=share.name + _name(slices, index), note=note)
        return {metric.name: metric}

    def _shifted(
        self, slices: _FlatSlices, tested: FamilyTest, remaining: Bools
    ) -> dict[str, Metric]:
        """Return the lean of the slice in which rates are off by far more than
        elsewhere, if one is shown to be.

        Corrected rates of all cases are right all the same, and those of the slice are not.
        """
        differing = self._differing(slices, tested, remaining)
        # A column before a pair of columns, of whose many values one differs by chance.
        for index in sorted(differing, key=slices.is_crossed):
            members = slices.members[:, index] & remaining
            others = remaining & ~members
            leans = []
            for name, lean in self.statistics.items():
                if not name.startswith(RATE_LEANS):
                    continue
                inside = self._measured(lean, members)
                outside = self._measured(lean, others)
                if _is_beyond(inside, outside):
                    leans.append((inside.value or 0.0, name, inside))
            if not leans:
                continue
            # Of two classes, the one that is named too often.
            _, name, most = max(
                leans, key=lambda lean: (round(abs(lean[0]), 6), lean[0])
            )
            facts = _facts(slices, index) | {"lean": name.removeprefix(LEANS)}
            note = json.dumps(facts, ensure_ascii=False)
            full_name = LEAN_WHERE + _name(slices, index)
            return {full_name: replace(most, name=full_name, missing=0, note=note)}
        return {}

    def _rescaled(
        self, slices: _FlatSlices, tested: FamilyTest, remaining: Bools
    ) -> dict[str, Metric]:
        """Return the spread of scores in the slice in which they are compressed or
        expanded, if only they are.
        """
        spread = self.statistics.get(SPREAD)
        if spread is None or self.agreement.name in KAPPAS:
            return {}
        differing = self._differing(slices, tested, remaining)
        for index in sorted(differing, key=slices.is_crossed):
            members = slices.members[:, index] & remaining
            others = remaining & ~members
            inside = self._measured(spread, members)
            outside = self._measured(spread, others)
            if not _is_rescaled(inside) or _is_rescaled(outside):
                continue
            name = SPREAD_WHERE + _name(slices, index)
            note = json.dumps(_facts(slices, index), ensure_ascii=False)
            return {name: replace(inside, name=name, missing=0, note=note)}
        return {}

    def _measured(self, statistic: Statistic, rows: Bools) -> Metric:
        part = part_of(statistic, rows)
        return measure([part], self.scoring, self.clusters)[statistic.name]

    def _differing(
        self, slices: _FlatSlices, tested: FamilyTest, remaining: Bools
    ) -> list[int]:
        """Return the slices that are shown to be worse, worst first; a place only for
        what no column shows.
        """
        level = 1 - self.scoring.confidence + 1e-12
        differs = tested.enough & (tested.p <= level)
        order = np.argsort(-tested.statistic, kind="stable")
        worst_first = order[differs[order]]
        indices = [int(index) for index in worst_first]
        first_place = len(slices.of) - slices.placed
        placed = [index for index in indices if index >= first_place]
        if not placed:
            return indices
        # Columns, then the places, and then columns that only go with the place, as lengths may.
        place = slices.members[:, placed[0]]
        columns = [index for index in indices if index < first_place]
        only_placed = [
            index
            for index in columns
            if self._goes_with(slices.members[:, index], place, remaining)
        ]
        named = [index for index in columns if index not in only_placed]
        return [*named, *placed, *only_placed]

    def _goes_with(self, slice_: Bools, place: Bools, remaining: Bools) -> bool:
        """Return whether a slice is worse only in a place, which is worse outside the
        slice, too, if any of it is.
        """
        of_slice = slice_ & remaining
        of_place = place & remaining
        both = self._excess(of_slice & of_place)
        elsewhere = self._excess(of_slice & ~place)
        others = self._excess(of_place & ~slice_)
        if both is None or elsewhere is None or 2 * elsewhere >= both:
            return False
        return others is None or both <= 2 * others

    def _excess(self, rows: Bools) -> float | None:
        """Return the errors of a unit beyond those that labels explain, in some rows;
        `None` for few units.
        """
        units = self._units(rows)
        if units < FEW:
            return None
        inside = rows[self.outcomes.case]
        residuals = self.outcomes.residuals[inside]
        errors = float(residuals.sum())
        return errors / units

    def varying(self, columns: Sequence[Slices]) -> dict[str, Metric]:
        """Return the column between whose small groups the judge is not equally good;
        nothing for clusters.

        Args:
            columns: the columns that are slices.
        """
        if self.clusters.count < self.clusters.cases:
            return {}
        of_slices = [Groups.of_slices(column) for column in columns]
        groups = [column for column in of_slices if column is not None]
        return varying(
            [*groups, *self.columns.groups],
            self.outcomes,
            self.scoring.confidence,
            self.scoring.seed,
        )

    def _test(self, slices: _FlatSlices, remaining: Bools) -> FamilyTest:
        cluster = self.clusters.of_rows(np.arange(self.clusters.cases))
        return compare_slices(
            self.outcomes.where(remaining),
            slices.members,
            cluster,
            self.scoring.bootstrap,
            self.scoring.confidence,
            self.scoring.seed,
        )

    def _worst(
        self, slices: _FlatSlices, tested: FamilyTest, remaining: Bools, use: Use
    ) -> tuple[int, Use, Statistic] | None:
        """Return the slice that differs most and allows less than a use, what it
        allows, and why.
        """
        differing = self._differing(slices, tested, remaining)
        for index in differing:
            members = slices.members[:, index] & remaining
            allowed, statistic = self._allowed(members)
            if USES.index(allowed) >= USES.index(use):
                continue
            # A value is named instead of a pair of values if its other cases are as bad.
            for whole in slices.containing(index):
                every = slices.members[:, whole] & remaining
                outside = every & ~members
                if whole in differing and self._is_weak(outside, use):
                    return whole, *self._allowed(every)
            return index, allowed, statistic
        return None

    def _is_weak(self, rows: Bools, use: Use) -> bool:
        """Return whether enough units are in some rows, given as a mask, and they allow
        less than a use.
        """
        are_enough = self._units(rows) >= FEW
        return are_enough and self._allows_less(rows, use)

    def _allows_less(self, rows: Bools, use: Use) -> bool:
        allowed, _ = self._allowed(rows)
        return USES.index(allowed) < USES.index(use)

    def _units(self, rows: Bools) -> float:
        """Return how many labeled units are in some rows, given as a mask."""
        is_in_rows = rows[self.outcomes.case]
        units = self.outcomes.units[is_in_rows]
        return float(units.sum())

    def _allowed(self, members: Bools) -> tuple[Use, Statistic]:
        """Return what the estimates in a slice allow, and the statistic that allows no more."""
        agreement = part_of(self.agreement, members)
        value = agreement.observed()
        concordance = self.statistics.get(CONCORDANCE)
        # A correlation that is not defined shows no agreement: all scores are equal.
        if np.isnan(value) and concordance is not None:
            return "none", concordance
        if not value >= FLOOR:
            return "none", self.agreement
        for name, lean in self.statistics.items():
            if name.startswith(RATE_LEANS):
                difference = part_of(lean, members).observed()
                if abs(difference) > LEAN:
                    return "rates_corrected", lean
        if not value >= SUBSTANTIAL:
            return "rates", self.agreement
        if self.agreement.name in KAPPAS:
            return "single", self.agreement
        if concordance is not None:
            concordant = part_of(concordance, members).observed()
            # It is not defined if scores and grades have different scales.
            if concordant < SUBSTANTIAL:
                return "rates", concordance
        for name in (SLOPE, SPREAD):
            ratio = self.statistics.get(name)
            if ratio is None:
                continue
            observed = part_of(ratio, members).observed()
            if _is_outside(observed):
                return "rates", ratio
        return "single", self.agreement

    def _where(
        self, slices: _FlatSlices, index: int, use: Use, statistic: Statistic
    ) -> Metric:
        """Return a slice as a metric whose note says which cases are in it."""
        measured = self._measured(statistic, slices.members[:, index])
        if measured.value is None:
            measured = replace(measured, value=0.0)
        facts = _facts(slices, index) | {"allows": use, "metric": statistic.name}
        inside = slices.members[self.outcomes.case, index]
        units_inside = self.outcomes.units[inside]
        units = round(float(units_inside.sum()))
        text = json.dumps(facts, ensure_ascii=False)
        return replace(
            measured,
            name=WHERE + _name(slices, index),
            n=units,
            missing=0,
            note=text,
        )

    def _searched(self, slices: _FlatSlices, tested: FamilyTest) -> dict[str, Metric]:
        """Return how many slices have enough labels, and how bad one must be to be found."""
        total = len(slices.of)
        count = int(tested.enough.sum())
        small: list[JsonObject] = []
        for index in self._small(slices, tested):
            column, number = slices.of[index]
            small.append(
                {
                    "column": column.column,
                    "value": column.values[number],
                    "n": round(float(tested.units[index])),
                }
            )
        facts = {"small": small, "omitted": [*self.columns.omitted[:MOST_NAMED]]}
        text = None
        if any(facts.values()):
            text = json.dumps(facts, ensure_ascii=False)
        metrics = {TESTED: Metric(TESTED, float(count), n=total, note=text)}
        if count:
            metrics |= power_metrics(self.outcomes, tested)
        return metrics

    def _small(self, slices: _FlatSlices, tested: FamilyTest) -> list[int]:
        """Return the slices without enough labels that seem worse, by a test of all of
        them (Bonferroni).
        """
        outcomes = self.outcomes
        # Pairs of columns have many small slices, which would hide those of the columns.
        simple = np.arange(len(slices.of)) < slices.simple
        small = np.flatnonzero(~tested.enough & simple & (tested.units >= FEW))
        if not len(small):
            return []
        # shape (units, small slices)
        members_of_unit = slices.members[outcomes.case]
        inside = members_of_unit[:, small].astype(np.float64)
        squares = outcomes.residuals**2
        variance = squares.sum() / outcomes.units.sum()
        total = outcomes.residuals @ inside
        variances = tested.units[small] * variance
        scale = np.sqrt(np.maximum(variances, 1e-12))
        alpha = 1 - self.scoring.confidence
        limit = NormalDist().inv_cdf(1 - alpha / len(small))
        order = np.argsort(-total / scale, kind="stable")
        suspects = [
            index for index in order.tolist() if total[index] > limit * scale[index]
        ]
        return [int(small[index]) for index in suspects[:MOST_NAMED]]
