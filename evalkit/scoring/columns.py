"""Judgments and cases as columns, one pass over the objects, in an order that does not depend on theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalkit.choices import FIRST, choices_in, majority
from evalkit.types import Annotation, Case, Unit, Winner

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int8]
Bools: TypeAlias = NDArray[np.bool_]

A, TIE, B, NONE = 1, 0, -1, -2
"""Winners as numbers: the sign of a margin, and a number that is no sign for a missing one."""
NAMES: dict[int, Winner] = {A: "A", TIE: "TIE", B: "B"}
CODES = {name: code for code, name in NAMES.items()} | {None: NONE}

FUZZ = 1e-9
"""Margins closer than this are equal: weights such as 0.1 + 0.2 leave dust of 1e-16."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Every pair of responses of every case: `case`, `i` < `j` are indices, `label` people's choice as a code.

    `longer` says which has more characters, and is NONE where a text is not there.
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
        """Return the place of one pair (i, j) of a case."""
        n = int(self.sizes[case])
        return int(self.start[case]) + i * n - i * (i + 1) // 2 + (j - i - 1)

    def find(self, case: Ints, i: Ints, j: Ints) -> Ints:
        """Return the place of each pair (i, j) of a case."""
        n = self.sizes[case]
        return np.asarray(self.start[case] + i * n - i * (i + 1) // 2 + (j - i - 1))


def all_pairs(cases: Sequence[Case]) -> Pairs:
    """Lay out the pairs of all cases, in case order and then by response index."""
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
    choice, further = _choices(cases)
    own = (i == 0) & (j == 1) & (choice[case] != NONE)
    label[own] = choice[case[own]]
    pairs = Pairs(case, i, j, label, sign(lengths[first] - lengths[second]), start, sizes)
    for number, said in further.items():
        _choose(pairs, number, said)
    return pairs


def _choose(pairs: Pairs, case: int, said: Sequence[Annotation]) -> None:
    """Label a case's further pairs with what most people chose of each, where no grade says which is better."""
    votes: dict[Unit, list[Winner]] = {}
    for annotation in said:
        for unit, winner in choices_in(annotation):
            votes.setdefault(unit, []).append(winner)
    for unit, winners in votes.items():
        most = majority(winners)
        if unit != FIRST and unit[1] < pairs.sizes[case] and most is not None:
            place = pairs.place(case, *unit)
            if pairs.label[place] == NONE:
                pairs.label[place] = CODES[most]


def _choices(cases: Sequence[Case]) -> tuple[Codes, dict[int, list[Annotation]]]:
    """Return each case's label of its first pair, and by its number what people said of cases' further pairs."""
    codes, further = [], {}
    for number, case in enumerate(cases):
        codes.append(CODES[case.label])
        if case.labels and any(isinstance(said, Mapping) for said in case.labels.values()):
            further[number] = list(case.labels.values())
    return np.array(codes, dtype=np.int8), further


def flat(cases: Sequence[Case], read: Callable[[Case], Sequence[float]]) -> Floats:
    """Return one number for each response of each case, in order."""
    return np.fromiter(chain.from_iterable(read(case) for case in cases), dtype=np.float64)


def grades(cases: Sequence[Case]) -> Floats:
    """Return people's grade of each response, NaN where nobody graded it."""
    return flat(cases, lambda c: [np.nan if r.grade is None else r.grade for r in c.responses])


def sign(values: Floats) -> Codes:
    """Return A, TIE or B for margins above, at and below 0, and NONE for NaN."""
    codes = np.where(np.abs(values) <= FUZZ, TIE, np.where(values > 0, A, B))
    return np.where(np.isnan(values), NONE, codes).astype(np.int8)


@dataclass(frozen=True, slots=True)
class Columns:
    """Judgments as columns, sorted by case, unit, order shown and sample; NaN where a judgment has no such number.

    `criteria` has a column for each of `names`; `swapped` says that the unit's second response was shown first.
    """

    case: Ints
    i: Ints
    j: Ints
    swapped: Bools
    value: Floats
    confidence: Floats
    criteria: Floats
    names: tuple[str, ...]
    judge: str

    def __len__(self) -> int:
        return len(self.case)


def join_columns(several: Sequence[Columns], judge: str) -> Columns:
    """Return the judgments of several judges as those of one, `judge`, in their order."""
    names = several[0].names

    def joined(name: str) -> Any:
        return np.concatenate([getattr(one, name) for one in several])

    parts = {name: joined(name) for name in ("case", "i", "j", "swapped", "value", "confidence", "criteria")}
    return Columns(**parts, names=names, judge=judge)
