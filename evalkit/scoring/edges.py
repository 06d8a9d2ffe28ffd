"""What counts as an edge between two responses of a case, by the rule that `scoring.conflict_edges` names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from evalkit.scoring.columns import NONE, TIE, A, B, Bools, Codes, Floats, Ints, Pairs
from evalkit.scoring.ties import Resolved, Shown

Rule: TypeAlias = Literal["verdict", "net", "both", "single", "ties"]


@dataclass(frozen=True, slots=True)
class Edges:
    """Who beats whom in each pair under one rule; with `both_ways` a tie is an edge in either direction."""

    pairs: Pairs
    winner: Codes
    margin: Floats
    both_ways: bool = False

    def groups(self) -> Iterator[tuple[Ints, Codes]]:
        """Yield the cases of each size of at least three, with the winners of their pairs (cases × pairs)."""
        return groups(self.pairs, self.winner)


def edges_of(rule: Rule, resolved: Resolved, shown: Shown | None = None) -> Edges:
    """Return the edges under `rule`; verdicts implied by scores (no `shown`) have no orders to tell apart."""
    both_ways = rule == "ties"
    if shown is None or rule in ("verdict", "ties"):
        return Edges(resolved.pairs, resolved.winner, resolved.margin, both_ways)
    return Edges(resolved.pairs, _by_passes(rule, shown), resolved.margin)


def _by_passes(rule: Rule, shown: Shown) -> Codes:
    if not shown.both:
        return np.where(shown.read[:, 0], shown.winner[:, 0], shown.winner[:, 1]).astype(np.int8)
    first, second = shown.winner.T
    if rule == "single":
        return np.asarray(first)
    complete = shown.read.all(axis=1)
    agreed = np.where(first == second, first, TIE)
    found = np.sign(first + second) if rule == "net" else agreed
    return np.where(complete, found, NONE).astype(np.int8)


def groups(pairs: Pairs, winners: Codes) -> Iterator[tuple[Ints, Codes]]:
    """Yield the cases of each size of at least three, with the winners of their pairs (cases × pairs)."""
    for n in np.unique(pairs.sizes[pairs.sizes >= 3]):
        case = np.flatnonzero(pairs.sizes == n)
        yield case, winners[pairs.start[case][:, None] + np.arange(n * (n - 1) // 2)]


def matrices(winners: Codes) -> tuple[Bools, Bools]:
    """Return wins (row beats column) and ties as stacks of (n, n) matrices."""
    n = round((1 + (1 + 8 * winners.shape[1]) ** 0.5) / 2)
    i, j = np.triu_indices(n, 1)
    wins, tied = (np.zeros((len(winners), n, n), dtype=bool) for _ in range(2))
    wins[:, i, j], wins[:, j, i] = winners == A, winners == B
    tied[:, i, j] = tied[:, j, i] = winners == TIE
    return wins, tied
