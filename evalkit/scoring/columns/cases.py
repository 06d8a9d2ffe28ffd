"""Cases as columns: every pair of responses with its label, and per-response numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.core.annotations import FIRST, choices_in, majority
from evalkit.scoring.stats.arrays import FUZZ, Codes, Floats, Ints
from evalkit.types import Annotation, Case, Judgment, Reason, Unit, Winner

A, TIE, B, NONE = 1, 0, -1, -2
"""Winners as numbers: the sign of a margin, and -2 for a missing winner."""
NAMES: dict[int, Winner] = {A: "A", TIE: "TIE", B: "B"}
CODES: dict[str | None, int] = {**{name: code for code, name in NAMES.items()}, None: NONE}


def sign(values: Floats) -> Codes:
    """Return A, TIE or B for margins above, at and below 0, and NONE for NaN."""
    codes = np.where(np.abs(values) <= FUZZ, TIE, np.where(values > 0, A, B))
    return np.where(np.isnan(values), NONE, codes).astype(np.int8)


KINDS = ("unparseable", "refused", "failed", "budget", "ok", "repaired")
"""Kinds of answers; `budget` is a call that was not made because the budget was used up."""
READABLE = KINDS.index("ok")
"""The first kind that is readable."""


STATED, RANKING, IMPLIED = range(3)
"""Origins of a row of judgments: a judgment of a pair or response, a ranking, or an implication of a ranking."""


def kind_of(judgment: Judgment) -> str:
    """Return the reason why a judgment has no value, or its status if it has one."""
    cut_off = judgment.status == "failed" and judgment.error_kind == "budget"
    return "budget" if cut_off else judgment.status


JUDGED, THRESHOLD, DISAGREEMENT, FORCED, MISSING, SPLIT, EQUAL, ABSTENTION, CANCELED = range(9)
REASONS: tuple[Reason, ...] = (
    "judged",
    "threshold",
    "swap_disagreement",
    "forced",
    "missing",
    "split",
    "equal_scores",
    "abstained",
    "criteria_cancel",
)


@dataclass(frozen=True, slots=True)
class PairColumns:
    """Every pair of responses of every case, ordered by case and then by response.

    Attributes:
        case: (pairs,) the index of its case.
        i: (pairs,) the index of its first response in the case.
        j: (pairs,) the index of its second response, greater than `i`.
        label: (pairs,) the label, A, TIE or B, or the code NONE.
        longer: (pairs,) the response with more characters, A, TIE or B, or the code NONE.
        start: (cases,) the index of each case's first pair.
        sizes: (cases,) the number of responses of each case.
    """

    case: Ints
    i: Ints
    j: Ints
    label: Codes
    longer: Codes
    start: Ints
    sizes: Ints

    def __len__(self) -> int:
        return len(self.case)

    def place(self, case: int, i: int, j: int) -> int:
        """Return the index of the pair (i, j) of a case."""
        n = int(self.sizes[case])
        return int(self.start[case]) + i * n - i * (i + 1) // 2 + (j - i - 1)

    def find(self, case: Ints, i: Ints, j: Ints) -> Ints:
        """Return the index of each pair (i, j) of a case, for arrays of the same shape."""
        n = self.sizes[case]
        return np.asarray(self.start[case] + i * n - i * (i + 1) // 2 + (j - i - 1))

    def sides(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a value of each response, (responses,), for the first and the second response of each pair."""
        offset = (np.cumsum(self.sizes) - self.sizes)[self.case]
        return values[offset + self.i], values[offset + self.j]


def all_pairs(cases: Sequence[Case]) -> PairColumns:
    """Return the pairs of all cases, ordered by case and then by response."""
    sizes = np.array([len(case.responses) for case in cases], dtype=np.int64)
    counts = sizes * (sizes - 1) // 2
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)[: len(cases)]
    triangles = {int(n): np.triu_indices(int(n), 1) for n in np.unique(sizes)}
    i, j = (
        np.concatenate([np.zeros(0, np.int64), *(triangles[int(n)][axis] for n in sizes)]).astype(np.int64)
        for axis in (0, 1)
    )
    case = np.repeat(np.arange(len(cases)), counts)
    offsets = np.cumsum(sizes) - sizes
    first, second = offsets[case] + i, offsets[case] + j
    lengths = flat(cases, lambda c: [len(r.text) or np.nan for r in c.responses])
    graded = grades(cases)
    label = sign(graded[first] - graded[second])
    choice, annotator_labels = _choices(cases)
    own = (i == 0) & (j == 1) & (choice[case] != NONE)
    label[own] = choice[case[own]]
    pairs = PairColumns(case, i, j, label, sign(lengths[first] - lengths[second]), start, sizes)
    for number, labels in annotator_labels.items():
        _label_pairs(pairs, number, labels)
    return pairs


def _label_pairs(pairs: PairColumns, case: int, labels: Sequence[Annotation]) -> None:
    """Label the other pairs of a case with the annotators' majority choice, unless grades already do."""
    votes: dict[Unit, list[Winner]] = {}
    for annotation in labels:
        for unit, winner in choices_in(annotation):
            votes.setdefault(unit, []).append(winner)
    for unit, winners in votes.items():
        most: Winner | None = majority(winners)
        if unit != FIRST and unit[1] < pairs.sizes[case] and most is not None:
            place = pairs.place(case, *unit)
            if pairs.label[place] == NONE:
                pairs.label[place] = CODES[most]


def _choices(cases: Sequence[Case]) -> tuple[Codes, dict[int, list[Annotation]]]:
    """Return each case's label of its first pair, and the annotations that label other pairs, by case index."""
    codes, annotator_labels = [], {}
    for number, case in enumerate(cases):
        codes.append(CODES[case.label])
        if case.labels and any(isinstance(labels, Mapping) for labels in case.labels.values()):
            annotator_labels[number] = list(case.labels.values())
    return np.array(codes, dtype=np.int8), annotator_labels


def flat(cases: Sequence[Case], read: Callable[[Case], Sequence[float]]) -> Floats:
    """Return one number for each response of each case, in order."""
    return np.fromiter(chain.from_iterable(read(case) for case in cases), dtype=np.float64)


def system_codes(cases: Sequence[Case]) -> tuple[tuple[str, ...], Ints]:
    """Return the names of the systems that wrote responses, and each response's system as an index, -1 if unknown."""
    systems = [response.model or "" for case in cases for response in case.responses]
    names = tuple(sorted({*systems} - {""}))
    codes = {name: code for code, name in enumerate(names)}
    return names, np.array([codes.get(name, -1) for name in systems], dtype=np.int64)


def grades(cases: Sequence[Case]) -> Floats:
    """Return the annotators' grade of each response, NaN without a grade."""
    return flat(cases, lambda c: [np.nan if r.grade is None else r.grade for r in c.responses])
