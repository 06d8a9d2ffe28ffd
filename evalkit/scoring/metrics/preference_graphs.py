"""Preferences among the responses of a case as a graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.values import frozen
from evalkit.scoring.columns import NONE, TIE, A, B, PairColumns, VerdictColumns
from evalkit.scoring.stats.arrays import (
    Bools,
    Codes,
    Floats,
    Ints,
)


@frozen
class Edges:
    """The winner of each pair under one rule.

    Attributes:
        pairs: the pairs.
        winner: (pairs,) the winners.
        margin: (pairs,) the margins.
        withheld: (pairs,) which pairs have no verdict by decision.
        both_ways: whether a tie is an edge in both directions.
    """

    pairs: PairColumns
    winner: Codes
    margin: Floats
    withheld: Bools
    both_ways: bool = False


def edges_of(config: RunConfig, verdicts: VerdictColumns) -> Edges:
    """Return the edges; for verdicts implied by scores, every rule but `ties` is `verdict`."""
    rule = config.scoring.conflict_edges
    passes = verdicts.passes
    both_ways = rule == "ties"
    if passes is None or rule in ("verdict", "ties"):
        return Edges(
            verdicts.pairs,
            verdicts.winner,
            verdicts.margin,
            verdicts.withheld,
            both_ways,
        )
    first, second = passes.winner.T
    if not passes.both:
        winner = np.where(passes.read[:, 0], first, second)
    elif rule == "single":
        winner = first
    else:
        if rule == "net":
            agreed = np.sign(first + second)
        else:
            agreed = np.where(first == second, first, TIE)
        winner = np.where(passes.complete, agreed, NONE)
    return Edges(
        verdicts.pairs, winner.astype(np.int8), verdicts.margin, verdicts.withheld
    )


def groups(pairs: PairColumns, winners: Codes) -> Iterator[tuple[Ints, Codes]]:
    """Yield the cases of each size of at least three, with the winners of their pairs
    (cases, pairs).
    """
    for n in np.unique(pairs.sizes[pairs.sizes >= 3]):
        case = np.flatnonzero(pairs.sizes == n)
        yield case, winners[pairs.start[case][:, None] + np.arange(n * (n - 1) // 2)]


def matrices(winners: Codes) -> tuple[Bools, Bools]:
    """Return wins (row beats column) and ties as (cases, n, n) matrices."""
    # the n with n (n - 1) / 2 pairs
    n = round((1 + (1 + 8 * winners.shape[1]) ** 0.5) / 2)
    i, j = np.triu_indices(n, 1)
    shape = (len(winners), n, n)
    wins = np.zeros(shape, dtype=bool)
    tied = np.zeros(shape, dtype=bool)
    wins[:, i, j] = winners == A
    wins[:, j, i] = winners == B
    tied[:, i, j] = winners == TIE
    tied[:, j, i] = winners == TIE
    return wins, tied


def closure(wins: Bools) -> Bools:
    """Return the transitive closure of wins, (..., n, n) (Warshall 1962, J. ACM 9, 11-12)."""
    reach = wins.copy()
    for middle in range(wins.shape[-1]):
        reach |= reach[..., :, middle, None] & reach[..., None, middle, :]
    return reach


def in_cycle(wins: Bools) -> Bools:
    """Return which responses are in a strongly connected component of more than one, (..., n)."""
    return np.asarray(np.diagonal(closure(wins), axis1=-2, axis2=-1))
