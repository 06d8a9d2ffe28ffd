"""Several people's labels of the same items: how far they agree, and how the judge would do as one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evalkit.core.annotations import annotation_grades, choices_in
from evalkit.scoring.columns.cases import PairColumns
from evalkit.scoring.columns.codes import CODES, NONE, TIE, A, B, sign
from evalkit.scoring.columns.verdicts import ScoreColumns, VerdictColumns
from evalkit.scoring.metrics.agreement import interval_alpha, interval_columns, nominal_alpha, nominal_columns
from evalkit.scoring.metrics.correlation import of_moments
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, divide, round_metric
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.stats.clusters import Clusters
from evalkit.types import Case, Metric

CLASSES = (A, TIE, B)


@dataclass(frozen=True, slots=True)
class Annotations:
    """One row for each label that a person gave: the item, the person, the value, and what the judge said of the item.

    Values are choices (A, TIE, B as numbers) if `chosen`, else grades. `case` is each item's case; items are pairs or
    responses. The judge's value is NaN where it is missing.
    """

    item: Ints
    person: Ints
    value: Floats
    judge: Floats
    case: Ints
    cases: int
    names: tuple[str, ...]
    chosen: bool

    @property
    def counts(self) -> Floats:
        """How many people gave each item each class."""
        counted = [np.bincount(self.item[self.value == c], minlength=len(self.case)) for c in CLASSES]
        return np.stack(counted, axis=1).astype(np.float64)


def read_annotations(
    cases: Sequence[Case], verdicts: VerdictColumns, scored: ScoreColumns | None
) -> Annotations | None:
    """Return the labels of single people, none where no case has any.

    Grades are compared with scores where responses were scored; otherwise every person's grades are read as choices
    between the responses of a case, as the judge's verdicts are.
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
    person = np.array([names.index(row[1]) for row in rows], dtype=np.int64)
    value = np.array([row[2] for row in rows], dtype=np.float64)
    by_grade = scored is not None and graded
    return Annotations(item, person, value, judge[item], case, len(cases), names, not by_grade)


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
    return [_alpha(found), *_leave_one_out(found)]


def _alpha(found: Annotations) -> Statistic:
    """Return Krippendorff's alpha among people: nominal of choices, interval of grades."""
    tally = Tally(found.case, found.cases)
    units = len(found.case)
    size = np.bincount(found.item, minlength=units)
    if found.chosen:
        columns, value = nominal_columns(found.counts, tally), nominal_alpha
    else:
        columns, value = interval_columns(found.value, found.item, units, tally), interval_alpha
    several = size > 1
    why = "all labels are equal" if several.any() else "no item was labelled by two people"
    return Statistic("human/alpha", columns, value, int(size[several].sum()), why=why)


def _leave_one_out(found: Annotations) -> list[Statistic]:
    """Return how each person, and how the judge, agrees with the other people, and the judge's lead.

    Choices: the share equal to the most frequent choice of the others, where there is one. Grades: Pearson's r with the
    mean of the others. The judge is held against the same others, so that the ceiling is what a person reaches (the
    leave-one-out ceiling of Nili et al. 2014, PLoS Comput. Biol. 10, e1003553).
    """
    reference = _majority(found) if found.chosen else _mean(found)
    defined = np.isfinite(reference)
    used = defined & np.isfinite(found.judge)
    ceiling, judge = _sums(found, found.value, reference, defined), _sums(found, found.judge, reference, used)
    gap = np.hstack([judge, _sums(found, found.value, reference, used)])
    read, width, lost = _share if found.chosen else of_moments, judge.shape[1], int((defined & ~used).sum())

    def lead(totals: Floats) -> Floats:
        return read(totals[:, :width]) - read(totals[:, width:])

    return [
        _statistic(found, "human/ceiling", ceiling, read, defined, 0),
        _statistic(found, "human/judge", judge, read, used, lost),
        _statistic(found, "human/gap", gap, lead, used, lost),
    ]


def _statistic(
    found: Annotations, name: str, columns: Floats, value: Callable[[Floats], Floats], rows: Bools, missing: int
) -> Statistic:
    notes = [] if found.chosen else ["Pearson correlation with the mean of the others"]
    notes += ["missing answers are left out and not bounded"] if missing else []
    return Statistic(
        name,
        columns,
        value,
        n=int(rows.sum()),
        missing=missing,
        proportion=found.chosen and name != "human/gap",
        note="; ".join(notes) or None,
        why="no item has enough labels of others that differ",
    )


def _share(totals: Floats) -> Floats:
    return divide(totals[:, 0], totals[:, 1])


def _sums(found: Annotations, values: Floats, reference: Floats, rows: Bools) -> Floats:
    """Return by case what `_share`, or `of_moments`, reads the agreement of `values` with `reference` from."""
    tally = Tally(found.case[found.item][rows], found.cases)
    x, y = values[rows], reference[rows]
    ones = np.ones(len(x))
    if found.chosen:
        return np.stack([tally(x == y), tally(ones)], axis=1)
    centre = float(y.mean()) if len(y) else 0.0
    x, y = x - centre, y - centre
    return np.stack([tally(part) for part in (ones, x, y, x * x, y * y, x * y)], axis=1)


def others(found: Annotations) -> Floats:
    """Return by row how many other people gave its item each class."""
    own = np.stack([found.value == c for c in CLASSES], axis=1)
    return np.asarray(found.counts[found.item] - own)


def others_count(found: Annotations) -> Floats:
    """Return by row how many other people labelled its item."""
    return np.asarray(np.bincount(found.item, minlength=len(found.case))[found.item] - 1, dtype=np.float64)


def _majority(found: Annotations) -> Floats:
    """Return by row the most frequent choice of the other people, NaN where there are none or it is shared."""
    counts = others(found)
    most = counts.max(axis=1)
    alone = (most > 0) & ((counts == most[:, None]).sum(axis=1) == 1)
    return np.where(alone, np.array(CLASSES, dtype=np.float64)[counts.argmax(axis=1)], np.nan)


def _mean(found: Annotations) -> Floats:
    """Return by row the mean grade of the other people, NaN where there are none."""
    total = np.bincount(found.item, weights=found.value, minlength=len(found.case))[found.item] - found.value
    return divide(total, others_count(found))


LEAST_CASES = 30
"""A person who labelled fewer clusters of cases is not tested (section 3.2 of the paper)."""
LEAST_PEOPLE = 3
FALSE_DISCOVERIES = 0.05


@dataclass(frozen=True, slots=True)
class Contest:
    """Judge against each person, at being like the others; rows are labels as in Annotations.

    `judge_wins` and `person_wins` say who is at least as close to the other people as the other; `used` which rows
    have others and a judge. `cluster` is each row's, and `tested` are the people with enough clusters.
    """

    found: Annotations
    judge_wins: Bools
    person_wins: Bools
    used: Bools
    cluster: Ints
    tested: tuple[int, ...]

    @classmethod
    def of(cls, found: Annotations, clusters: Clusters) -> Contest:
        """Hold the judge against every person on every item."""
        judge, person, rest = _closeness(found)
        used = (rest > 0) & np.isfinite(found.judge)
        cluster = clusters.of_rows(found.case[found.item])
        people = range(len(found.names))
        tested = tuple(p for p in people if len(np.unique(cluster[used & (found.person == p)])) >= LEAST_CASES)
        fuzz = 1e-12
        return cls(found, used & (judge >= person - fuzz), used & (person >= judge - fuzz), used, cluster, tested)

    @property
    def why(self) -> str:
        """Why there is no test; empty if there is one."""
        if len(self.tested) >= LEAST_PEOPLE:
            return ""
        return f"fewer than {LEAST_PEOPLE} people labelled {LEAST_CASES} judged cases together with others"


def _closeness(found: Annotations) -> tuple[Floats, Floats, Floats]:
    """Return by row how close judge and person are to the others' labels, and how many others there are.

    Choices: the share of others who chose the same. Grades: minus the root mean square distance from theirs.
    """
    items = len(found.case)
    size = others_count(found)
    if found.chosen:
        counts = others(found)
        same = [(counts * np.stack([v == c for c in CLASSES], axis=1)).sum(axis=1) for v in (found.judge, found.value)]
        return divide(same[0], size), divide(same[1], size), size
    once = np.bincount(found.item, weights=found.value, minlength=items)[found.item] - found.value
    twice = np.bincount(found.item, weights=found.value**2, minlength=items)[found.item] - found.value**2
    apart = [divide(twice - 2 * v * once, size) + v * v for v in (found.judge, found.value)]
    judge, person = (np.asarray(-np.sqrt(np.maximum(distance, 0.0))) for distance in apart)
    return judge, person, size


def alternative_statistics(contest: Contest, epsilon: float) -> list[Statistic | Metric]:
    """Return `human/advantage`, with its interval over cases, and `human/alt_test`, the winning rate.

    The advantage is the mean over people of how often the judge is at least as close to the others as the person. The
    winning rate is the share of people against whom the test finds the judge no worse, `epsilon` being what a person's
    label may be worth more (0.2 for experts, 0.1 for crowd workers); from 0.5 on the judge may stand in for them.
    """
    return [_advantage(contest), _winning_rate(contest, epsilon)]


def _advantage(contest: Contest) -> Statistic:
    found, why = contest.found, contest.why
    case, columns = found.case[found.item], []
    for person in contest.tested:
        own = contest.used & (found.person == person)
        columns += [np.bincount(case[rows], minlength=found.cases) for rows in (own & contest.judge_wins, own)]
    table = np.stack(columns, axis=1).astype(np.float64) if columns else np.zeros((found.cases, 0))

    def advantage(totals: Floats) -> Floats:
        if why:
            return np.full(len(totals), np.nan)
        return np.asarray(divide(totals[:, 0::2], totals[:, 1::2]).mean(axis=1))

    rows = contest.used & np.isin(found.person, contest.tested)
    lost = int((np.isin(found.person, contest.tested) & ~np.isfinite(found.judge)).sum())
    note = "missing answers are left out and not bounded" if lost else None
    return Statistic("human/advantage", table, advantage, int(rows.sum()), lost, proportion=True, note=note, why=why)


def _winning_rate(contest: Contest, epsilon: float) -> Metric:
    if contest.why:
        return Metric("human/alt_test", None, note=contest.why)
    rejected = _rejected(np.array([p_value(contest, person, epsilon) for person in contest.tested]))
    note = f"share of {len(rejected)} people at epsilon {epsilon:g}; a count of tests: no interval"
    return Metric("human/alt_test", round_metric(rejected.mean()), n=len(rejected), note=note)


def p_value(contest: Contest, person: int, epsilon: float) -> float:
    """Return the p-value of "this person's label is worth `epsilon` more than the judge's", by a one-sided t-test.

    Tested are the clusters' means of the person's wins less the judge's: with one item a cluster, the paper's test.
    """
    from scipy.special import stdtr

    found = contest.found
    own = contest.used & (found.person == person)
    cluster = contest.cluster[own]
    lead = contest.person_wins[own].astype(np.float64) - contest.judge_wins[own]
    size = np.bincount(cluster)
    leads = np.bincount(cluster, weights=lead)[size > 0] / size[size > 0]
    spread, distance = float(leads.std(ddof=1)), float(leads.mean()) - epsilon
    if spread < 1e-12:
        return 0.0 if distance < 0 else 1.0
    return float(stdtr(len(leads) - 1, distance / (spread / np.sqrt(len(leads)))))


def _rejected(p: Floats) -> Bools:
    """Return which tests are rejected at a false discovery rate of 0.05 under any dependence.

    Benjamini and Yekutieli 2001, Ann. Statist. 29, 1165-1188, theorem 1.3.
    """
    m = len(p)
    limits = np.arange(1, m + 1) / m * FALSE_DISCOVERIES / (1 / np.arange(1, m + 1)).sum()
    order = np.argsort(p, kind="stable")
    passed = np.flatnonzero(p[order] <= limits)
    rejected = np.zeros(m, dtype=bool)
    rejected[order[: passed[-1] + 1 if len(passed) else 0]] = True
    return rejected


def annotator_table(contest: Contest, epsilon: float) -> list[dict[str, Any]]:
    """Return each person's labels, the judge's advantage over them and the test's p-value, none where not tested."""
    return [_entry(contest, person, name, epsilon) for person, name in enumerate(contest.found.names)]


def _entry(contest: Contest, person: int, name: str, epsilon: float) -> dict[str, Any]:
    own = contest.used & (contest.found.person == person)
    tested = person in contest.tested
    return {
        "annotator": name,
        "labels": int((contest.found.person == person).sum()),
        "compared": int(own.sum()),
        "advantage": round_metric(contest.judge_wins[own].mean()) if own.any() else None,
        "p": round_metric(p_value(contest, person, epsilon)) if tested else None,
        "note": None if tested else f"fewer than {LEAST_CASES} cases: not tested",
    }
