"""The systems behind the responses, and what each pair of them played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evalkit.scoring.clusters import Clusters
from evalkit.scoring.columns import NONE, TIE, A, B, Codes, Floats, Ints, flat
from evalkit.scoring.ties import Resolved
from evalkit.types import Case


@dataclass(frozen=True, slots=True)
class Games:
    """Comparisons of two systems, `i` < `j` by place in `names`; `winner` is A where i won; `cluster` is each one's.

    `longer` is the difference of the log-lengths of their responses (characters plus one); `pair` the comparison's
    place among the pairs of all cases, `turn` -1 where its two sides are the other way round there; `missing` counts
    comparisons without a verdict.
    """

    names: tuple[str, ...]
    cluster: Ints
    i: Ints
    j: Ints
    winner: Codes
    longer: Floats
    pair: Ints
    turn: Codes
    clusters: Clusters
    missing: int

    def __len__(self) -> int:
        return len(self.cluster)

    @property
    def met(self) -> bool:
        """Whether any two systems were compared."""
        return len(self) > 0

    def codes(self) -> Ints:
        """Return each game's place in a flat table of wins (row beats column) and the flat table of ties behind it."""
        size = len(self.names)
        own, other = self.i * size + self.j, self.j * size + self.i
        return np.select([self.winner == TIE, self.winner == A], [size * size + own, own], other)

    def tables(self, winner: Codes | None = None) -> tuple[Floats, Floats]:
        """Return wins (row beats column) and ties (symmetric) as (systems, systems) tables."""
        size = len(self.names)
        who = self.winner if winner is None else winner
        wins, ties = np.zeros((size, size)), np.zeros((size, size))
        for code, first, second in ((A, self.i, self.j), (B, self.j, self.i)):
            np.add.at(wins, (first[who == code], second[who == code]), 1.0)
        np.add.at(ties, (self.i[who == TIE], self.j[who == TIE]), 1.0)
        return wins, ties + ties.T


def games_of(cases: Sequence[Case], resolved: Resolved, clusters: Clusters) -> Games:
    """Return every comparison between two named systems; pairs of one system, or of an unknown one, are none."""
    named = [response.model for case in cases for response in case.responses]
    names = tuple(sorted({name for name in named if name is not None}))
    numbers = {name: k for k, name in enumerate(names)} | {None: -1}
    system = np.array([numbers[name] for name in named], dtype=np.int64)
    lengths = np.log1p(flat(cases, lambda case: [len(response.text) for response in case.responses]))
    pairs = resolved.pairs
    offset = (np.cumsum(pairs.sizes) - pairs.sizes)[pairs.case]
    first, second = system[offset + pairs.i], system[offset + pairs.j]
    apart = (first >= 0) & (second >= 0) & (first != second)
    used = np.flatnonzero(apart & (resolved.winner != NONE))
    turn = np.where(first < second, 1, -1)[used].astype(np.int8)
    longer = (lengths[offset + pairs.i] - lengths[offset + pairs.j])[used] * turn
    low, high = np.minimum(first, second)[used], np.maximum(first, second)[used]
    winner = (resolved.winner[used] * turn).astype(np.int8)
    missing = int((apart & (resolved.winner == NONE)).sum())
    met, (low, high) = _renumbered(low, high)
    kept = tuple(names[k] for k in met.tolist())
    return Games(kept, clusters.of_rows(pairs.case[used]), low, high, winner, longer, used, turn, clusters, missing)


def _renumbered(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return the systems that met another, and both sides of each game by place among them."""
    met, places = np.unique(np.concatenate([low, high]), return_inverse=True)
    return met, places.reshape(2, -1)
