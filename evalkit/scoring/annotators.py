"""Several people's labels of the same items: how far they agree, and how the judge would do as one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from evalkit.choices import choices_in, grades_of
from evalkit.scoring.alpha import interval_alpha, interval_columns, nominal_alpha, nominal_columns
from evalkit.scoring.bootstrap import Statistic, Tally, divide
from evalkit.scoring.columns import CODES, NONE, TIE, A, B, Bools, Floats, Ints, Pairs, sign
from evalkit.scoring.correlation import of_moments
from evalkit.scoring.pointwise import Scored
from evalkit.scoring.ties import Resolved
from evalkit.types import Case

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


def read_annotations(cases: Sequence[Case], resolved: Resolved, scored: Scored | None) -> Annotations | None:
    """Return the labels of single people, none where no case has any.

    Grades are compared with scores where responses were scored; otherwise every person's grades are read as choices
    between the responses of a case, as the judge's verdicts are.
    """
    graded = any(grades_of(label) for case in cases for label in case.labels.values())
    if scored is not None and graded:
        rows = list(_grades(cases, scored.offset))
        judge, case = scored.score, scored.case
    else:
        rows = list(_choices(cases, resolved.pairs))
        judge = np.where(resolved.winner == NONE, np.nan, resolved.winner.astype(np.float64))
        case = resolved.pairs.case
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
            for index, grade in enumerate(grades_of(label)):
                if grade is not None:
                    yield int(offset[place]) + index, name, grade


def _choices(cases: Sequence[Case], pairs: Pairs) -> Iterator[tuple[int, str, float]]:
    for place, case in enumerate(cases):
        for name, label in case.labels.items():
            for (i, j), winner in choices_in(label):
                yield pairs.place(place, i, j), name, float(CODES[winner])
            for (i, one), (j, two) in combinations(enumerate(grades_of(label)), 2):
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
