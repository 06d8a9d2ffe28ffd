"""Agreement among annotators of the same items, and of the judge as one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evalkit.core.annotations import annotation_grades, choices_in
from evalkit.scoring.columns.cases import CODES, NONE, TIE, A, B, PairColumns, sign
from evalkit.scoring.columns.classes import ClassColumns
from evalkit.scoring.columns.verdicts import ScoreColumns, VerdictColumns
from evalkit.scoring.metrics.agreement import (
    coincidences,
    interval_alpha,
    interval_columns,
    interval_reach,
    nominal_alpha,
    nominal_columns,
)
from evalkit.scoring.metrics.correlation import pearson_r
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, divide, round_metric
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.stats.bounded_intervals import mixed
from evalkit.scoring.stats.clusters import Clusters
from evalkit.types import Case, Metric

CLASSES = (A, TIE, B)


@dataclass(frozen=True, slots=True)
class Annotations:
    """One row for each label by an annotator.

    Attributes:
        item: (labels,) the labeled item, a pair or a response.
        annotator: (labels,) the annotator, an index into `names`.
        value: (labels,) the choice (A, TIE, B as numbers) if `chosen`, otherwise the grade.
        judge: (labels,) the judge's value for the item; NaN if missing.
        case: (items,) the case of each item.
        cases: the number of cases.
        names: the names of the annotators.
        chosen: whether values are choices.
        classes: the possible choices.
    """

    item: Ints
    annotator: Ints
    value: Floats
    judge: Floats
    case: Ints
    cases: int
    names: tuple[str, ...]
    chosen: bool
    classes: tuple[int, ...] = CLASSES

    @property
    def counts(self) -> Floats:
        """The number of annotators who chose each class for each item, (items, classes)."""
        counted = [np.bincount(self.item[self.value == c], minlength=len(self.case)) for c in self.classes]
        return np.stack(counted, axis=1).astype(np.float64)


def read_annotations(
    cases: Sequence[Case], verdicts: VerdictColumns, scored: ScoreColumns | None
) -> Annotations | None:
    """Return the labels by annotator, or `None` if no case has any.

    Grades are compared with scores if responses were scored. Otherwise each annotator's grades are read as choices
    between the responses of a case, like the judge's verdicts.
    """
    graded = any(annotation_grades(label) for case in cases for label in case.labels.values())
    if scored is not None and graded:
        rows = list(_grades(cases, scored.offset))
        judge, case = scored.score, scored.case
    else:
        rows = list(_choices(cases, verdicts.pairs))
        judge = np.where(verdicts.winner == NONE, np.nan, verdicts.winner.astype(np.float64))
        case = verdicts.pairs.case
    if not rows:
        return None
    names = tuple(sorted({name for _, name, _ in rows}))
    item = np.array([row[0] for row in rows], dtype=np.int64)
    annotator = np.array([names.index(row[1]) for row in rows], dtype=np.int64)
    value = np.array([row[2] for row in rows], dtype=np.float64)
    by_grade = scored is not None and graded
    return Annotations(item, annotator, value, judge[item], case, len(cases), names, not by_grade)


def read_class_annotations(columns: ClassColumns, rows: Bools) -> Annotations | None:
    """Return the selected responses' classes by annotator, or `None` if there are none."""
    names = tuple(sorted(columns.annotators))
    given = [np.flatnonzero(rows & (columns.annotators[name] >= 0)) for name in names]
    if not sum(map(len, given)):
        return None
    item = np.concatenate(given)
    return Annotations(
        item,
        np.repeat(np.arange(len(names)), [len(one) for one in given]),
        np.concatenate([columns.annotators[name][own] for name, own in zip(names, given, strict=True)]).astype(float),
        np.where(columns.decided, columns.verdicts, np.nan)[item],
        columns.case,
        columns.cases,
        names,
        chosen=True,
        classes=tuple(range(len(columns.names))),
    )


def class_annotator_results(
    columns: ClassColumns, clusters: Clusters, epsilon: float
) -> tuple[list[Statistic | Metric], list[dict[str, Any]]]:
    """Return the metrics of annotators' classes, and the table of annotators; empty without annotators.

    The judge is compared with annotators where its answers name a class.

    Args:
        columns: the class verdicts.
        clusters: the clusters of the cases.
        epsilon: the advantage that an annotator's label may have in the alternative annotator test.
    """
    every = read_class_annotations(columns, np.ones(len(columns), dtype=bool))
    if every is None:
        return [], []
    found = read_class_annotations(columns, ~columns.undecided)
    if found is None:
        return [annotators_alpha(every)], []
    contest = Contest.of(found, clusters)
    metrics = [annotators_alpha(every), *leave_one_out(found), *alternative_statistics(contest, epsilon)]
    return metrics, annotator_table(contest, epsilon)


def _grades(cases: Sequence[Case], offset: Ints) -> Iterator[tuple[int, str, float]]:
    for place, case in enumerate(cases):
        for name, label in case.labels.items():
            for index, grade in enumerate(annotation_grades(label)):
                if grade is not None:
                    yield int(offset[place]) + index, name, grade


def _choices(cases: Sequence[Case], pairs: PairColumns) -> Iterator[tuple[int, str, float]]:
    for place, case in enumerate(cases):
        for name, label in case.labels.items():
            for (i, j), winner in choices_in(label):
                yield pairs.place(place, i, j), name, float(CODES[winner])
            for (i, one), (j, two) in combinations(enumerate(annotation_grades(label)), 2):
                if one is not None and two is not None:
                    yield pairs.place(place, i, j), name, float(sign(np.array([one - two]))[0])


def annotator_statistics(found: Annotations) -> list[Statistic]:
    """Return `human/alpha`, `human/ceiling`, `human/judge` and `human/gap`."""
    return [annotators_alpha(found), *leave_one_out(found)]


def annotators_alpha(found: Annotations) -> Statistic:
    """Return Krippendorff's alpha among annotators: nominal for choices, interval for grades."""
    tally = Tally(found.case, found.cases)
    units = len(found.case)
    size = np.bincount(found.item, minlength=units)
    if found.chosen:
        columns, value = nominal_columns(found.counts, tally), nominal_alpha
        reach = mixed(value, columns.sum(axis=0), coincidences(found.counts.shape[1]), float(columns.sum()))
    else:
        columns, value = interval_columns(found.value, found.item, units, tally), interval_alpha
        ends = np.array([found.value.min(initial=np.inf), found.value.max(initial=-np.inf)])
        reach = interval_reach(columns, ends if len(found.value) else np.zeros(2))
    several = size > 1
    why = "all labels are equal" if several.any() else "no item was labeled by two annotators"
    return Statistic("human/alpha", columns, value, int(size[several].sum()), reach=reach, why=why)


def leave_one_out(found: Annotations) -> list[Statistic]:
    """Return the agreement of each annotator, and of the judge, with the other annotators, and the difference.

    For choices it is the share equal to the most frequent choice of the others, if there is one. For grades it is
    Pearson's r with the mean of the others. The judge is compared with the same others, so the ceiling is what an
    annotator reaches (the leave-one-out ceiling of Nili et al. 2014, PLoS Comput. Biol. 10, e1003553).
    """
    reference = _majority(found) if found.chosen else _mean(found)
    defined = np.isfinite(reference)
    answered = defined & np.isfinite(found.judge)
    ceiling, judge = _sums(found, found.value, reference, defined), _sums(found, found.judge, reference, answered)
    gap = np.hstack([judge, _sums(found, found.value, reference, answered)])
    read, width, unanswered = _share if found.chosen else pearson_r, judge.shape[1], int((defined & ~answered).sum())

    def leads(totals: Floats) -> Floats:
        return read(totals[:, :width]) - read(totals[:, width:])

    return [
        _statistic(found, "human/ceiling", ceiling, read, defined, 0),
        _statistic(found, "human/judge", judge, read, answered, unanswered),
        _statistic(found, "human/gap", gap, leads, answered, unanswered),
    ]


def _statistic(
    found: Annotations, name: str, columns: Floats, value: Callable[[Floats], Floats], rows: Bools, missing: int
) -> Statistic:
    notes = [] if found.chosen else ["Pearson correlation with the mean of the others"]
    notes += ["missing answers are omitted and not bounded"] if missing else []
    return Statistic(
        name,
        columns,
        value,
        n=int(rows.sum()),
        missing=missing,
        proportion=found.chosen and name != "human/gap",
        note="; ".join(notes) or None,
        why="no item has enough labels by other annotators that differ",
    )


def _share(totals: Floats) -> Floats:
    return divide(totals[:, 0], totals[:, 1])


def _sums(found: Annotations, values: Floats, reference: Floats, rows: Bools) -> Floats:
    """Return the sums by case from which `_share` or `pearson_r` computes the agreement of values and reference."""
    tally = Tally(found.case[found.item][rows], found.cases)
    x, y = values[rows], reference[rows]
    ones = np.ones(len(x))
    if found.chosen:
        return np.stack([tally(x == y), tally(ones)], axis=1)
    center = float(y.mean()) if len(y) else 0.0
    x, y = x - center, y - center
    return np.stack([tally(part) for part in (ones, x, y, x * x, y * y, x * y)], axis=1)


def others(found: Annotations) -> Floats:
    """Return the number of other annotators who chose each class for each row's item, (labels, classes)."""
    own = np.stack([found.value == c for c in found.classes], axis=1)
    return np.asarray(found.counts[found.item] - own)


def others_count(found: Annotations) -> Floats:
    """Return the number of other annotators of each row's item, (labels,)."""
    return np.asarray(np.bincount(found.item, minlength=len(found.case))[found.item] - 1, dtype=np.float64)


def _majority(found: Annotations) -> Floats:
    """Return the most frequent choice of the other annotators by row, NaN if there is none or it is not unique."""
    counts = others(found)
    most = counts.max(axis=1)
    alone = (most > 0) & ((counts == most[:, None]).sum(axis=1) == 1)
    return np.where(alone, np.array(found.classes, dtype=np.float64)[counts.argmax(axis=1)], np.nan)


def _mean(found: Annotations) -> Floats:
    """Return the mean grade of the other annotators by row, NaN without others."""
    total = np.bincount(found.item, weights=found.value, minlength=len(found.case))[found.item] - found.value
    return divide(total, others_count(found))


MIN_CASES = 30
"""An annotator who labeled fewer clusters of cases is not tested (Calderon et al. 2025, section 3.2)."""
MIN_ANNOTATORS = 3
FALSE_DISCOVERY_RATE = 0.05


@dataclass(frozen=True, slots=True)
class Contest:
    """The judge against each annotator in closeness to the other annotators; rows are labels as in `Annotations`.

    Attributes:
        found: the labels.
        judge_wins: (labels,) whether the judge is at least as close to the others as the annotator.
        annotator_wins: (labels,) whether the annotator is at least as close as the judge.
        answered: (labels,) whether there are other annotators and an answer by the judge.
        cluster: (labels,) the cluster of each label.
        tested: the annotators with enough clusters.
    """

    found: Annotations
    judge_wins: Bools
    annotator_wins: Bools
    answered: Bools
    cluster: Ints
    tested: tuple[int, ...]

    @classmethod
    def of(cls, found: Annotations, clusters: Clusters) -> Contest:
        """Compare the judge with every annotator on every item."""
        judge, annotator, others_total = _closeness(found)
        answered = (others_total > 0) & np.isfinite(found.judge)
        cluster = clusters.of_rows(found.case[found.item])
        annotators = range(len(found.names))
        tested = tuple(p for p in annotators if len(np.unique(cluster[answered & (found.annotator == p)])) >= MIN_CASES)
        tolerance = 1e-12
        return cls(
            found,
            answered & (judge >= annotator - tolerance),
            answered & (annotator >= judge - tolerance),
            answered,
            cluster,
            tested,
        )

    @property
    def why(self) -> str:
        """The reason why there is no test; empty if there is one."""
        if len(self.tested) >= MIN_ANNOTATORS:
            return ""
        return f"fewer than {MIN_ANNOTATORS} annotators labeled {MIN_CASES} judged cases together with others"


def _closeness(found: Annotations) -> tuple[Floats, Floats, Floats]:
    """Return by row how close judge and annotator are to the other labels, and the number of other annotators.

    For choices it is the share of others with the same choice. For grades it is minus the root mean squared distance
    from the others' grades.
    """
    items = len(found.case)
    size = others_count(found)
    if found.chosen:
        counts = others(found)
        same = [
            (counts * np.stack([v == c for c in found.classes], axis=1)).sum(axis=1) for v in (found.judge, found.value)
        ]
        return divide(same[0], size), divide(same[1], size), size
    sums = np.bincount(found.item, weights=found.value, minlength=items)[found.item] - found.value
    squares = np.bincount(found.item, weights=found.value**2, minlength=items)[found.item] - found.value**2
    distances = [divide(squares - 2 * v * sums, size) + v * v for v in (found.judge, found.value)]
    judge, annotator = (np.asarray(-np.sqrt(np.maximum(distance, 0.0))) for distance in distances)
    return judge, annotator, size


def alternative_statistics(contest: Contest, epsilon: float) -> list[Statistic | Metric]:
    """Return `human/advantage`, with its interval over cases, and `human/alt_test`, the winning rate.

    The advantage is the mean over annotators of how often the judge is at least as close to the others as the
    annotator. The winning rate is the share of annotators for whom the test finds the judge no worse. `epsilon` is the
    advantage that an annotator's label may have (0.2 for experts, 0.1 for crowd workers). At 0.5 or more, the judge may
    replace annotators.
    """
    return [_advantage(contest), _winning_rate(contest, epsilon)]


def _advantage(contest: Contest) -> Statistic:
    found, why = contest.found, contest.why
    case, columns = found.case[found.item], []
    for annotator in contest.tested:
        own = contest.answered & (found.annotator == annotator)
        columns += [np.bincount(case[rows], minlength=found.cases) for rows in (own & contest.judge_wins, own)]
    table = np.stack(columns, axis=1).astype(np.float64) if columns else np.zeros((found.cases, 0))

    def advantage(totals: Floats) -> Floats:
        if why:
            return np.full(len(totals), np.nan)
        return np.asarray(divide(totals[:, 0::2], totals[:, 1::2]).mean(axis=1))

    rows = contest.answered & np.isin(found.annotator, contest.tested)
    unanswered = int((np.isin(found.annotator, contest.tested) & ~np.isfinite(found.judge)).sum())
    note = "missing answers are omitted and not bounded" if unanswered else None
    return Statistic(
        "human/advantage", table, advantage, int(rows.sum()), unanswered, proportion=True, note=note, why=why
    )


def _winning_rate(contest: Contest, epsilon: float) -> Metric:
    if contest.why:
        return Metric("human/alt_test", None, note=contest.why)
    rejected = _rejected(np.array([p_value(contest, annotator, epsilon) for annotator in contest.tested]))
    note = f"share of {len(rejected)} annotators at epsilon {epsilon:g}; a count of tests: no interval"
    return Metric("human/alt_test", round_metric(rejected.mean()), n=len(rejected), note=note)


def p_value(contest: Contest, annotator: int, epsilon: float) -> float:
    """Return the p-value of the hypothesis that an annotator's label is worth `epsilon` more than the judge's.

    It is a one-sided t-test of the clusters' mean wins of the annotator minus those of the judge. With one item per
    cluster it is the test of Calderon et al. 2025, arXiv 2501.10970, section 3.
    """
    from scipy.special import stdtr

    found = contest.found
    own = contest.answered & (found.annotator == annotator)
    cluster = contest.cluster[own]
    difference = contest.annotator_wins[own].astype(np.float64) - contest.judge_wins[own]
    size = np.bincount(cluster)
    leads = np.bincount(cluster, weights=difference)[size > 0] / size[size > 0]
    spread, distance = float(leads.std(ddof=1)), float(leads.mean()) - epsilon
    if spread < 1e-12:
        return 0.0 if distance < 0 else 1.0
    return float(stdtr(len(leads) - 1, distance / (spread / np.sqrt(len(leads)))))


def _rejected(p: Floats) -> Bools:
    """Return which tests are rejected at a false discovery rate of 0.05 under any dependence.

    Benjamini and Yekutieli 2001, Ann. Statist. 29, 1165-1188, theorem 1.3.
    """
    m = len(p)
    limits = np.arange(1, m + 1) / m * FALSE_DISCOVERY_RATE / (1 / np.arange(1, m + 1)).sum()
    order = np.argsort(p, kind="stable")
    passed = np.flatnonzero(p[order] <= limits)
    rejected = np.zeros(m, dtype=bool)
    rejected[order[: passed[-1] + 1 if len(passed) else 0]] = True
    return rejected


def annotator_table(contest: Contest, epsilon: float) -> list[dict[str, Any]]:
    """Return each annotator's number of labels, the judge's advantage and the test's p-value, `None` if not tested."""
    return [_entry(contest, annotator, name, epsilon) for annotator, name in enumerate(contest.found.names)]


def _entry(contest: Contest, annotator: int, name: str, epsilon: float) -> dict[str, Any]:
    own = contest.answered & (contest.found.annotator == annotator)
    tested = annotator in contest.tested
    return {
        "annotator": name,
        "labels": int((contest.found.annotator == annotator).sum()),
        "compared": int(own.sum()),
        "advantage": round_metric(contest.judge_wins[own].mean()) if own.any() else None,
        "p": round_metric(p_value(contest, annotator, epsilon)) if tested else None,
        "note": None if tested else f"fewer than {MIN_CASES} cases: not tested",
    }
