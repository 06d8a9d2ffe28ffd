"""Cases as columns: every pair of responses with its label, and numbers for each response."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from evalkit.core.annotations import FIRST, choices_in, majority
from evalkit.scoring.columns.codes import CODES, NONE, sign
from evalkit.scoring.stats.arrays import Codes, Floats, Ints
from evalkit.types import Annotation, Case, Unit, Winner


@dataclass(frozen=True, slots=True)
class PairColumns:
    """Every pair of responses of every case, in case order and then by response.

    Attributes:
        case: (pairs,) the place of its case.
        i: (pairs,) the place of its first response in the case.
        j: (pairs,) the place of its second response, above `i`.
        label: (pairs,) what people chose, A, TIE or B; NONE where nobody did.
        longer: (pairs,) which response has more characters, A, TIE or B; NONE where a text is not there.
        start: (cases,) the place of each case's first pair.
        sizes: (cases,) how many responses each case has.
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


def all_pairs(cases: Sequence[Case]) -> PairColumns:
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
    pairs = PairColumns(case, i, j, label, sign(lengths[first] - lengths[second]), start, sizes)
    for number, said in further.items():
        _choose(pairs, number, said)
    return pairs


def _choose(pairs: PairColumns, case: int, said: Sequence[Annotation]) -> None:
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
