"""Conflicts among the responses of a case: cycles of wins, and indifference that is not transitive.

What counts as an edge is a matter of `scoring.conflict_edges`. A case counts when it has at least three responses and
every pair of them has an outcome under that rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalkit.scoring.bootstrap import Bounds, Statistic, Tally, divide
from evalkit.scoring.chance import chance_rate, chance_rate_both_ways, in_cycle
from evalkit.scoring.columns import NONE, TIE, Bools, Floats, Ints
from evalkit.scoring.edges import Edges, matrices
from evalkit.scoring.values import tidy
from evalkit.types import Metric

AMONG = "of the cases with at least three responses and a verdict on every pair"
NO_CASE = "no case has at least three responses and a verdict on every pair"
BY_SCORE = "0 by construction: one score for each response cannot make a cycle"


@dataclass(frozen=True, slots=True)
class Tournaments:
    """Cases with at least three responses: `size` of each, and columns over all cases of what was found in them."""

    size: Ints
    whole: Bools
    nodes: Ints
    triads: Ints
    weak: Bools
    ties: Ints
    lacking: Ints
    both_ways: bool

    @classmethod
    def of(cls, edges: Edges) -> Tournaments:
        """Look at every case's edges."""
        sizes = edges.pairs.sizes
        whole, weak = np.zeros(len(sizes), dtype=bool), np.zeros(len(sizes), dtype=bool)
        nodes, triads, ties, lacking = (np.zeros(len(sizes), dtype=np.int64) for _ in range(4))
        for case, winners in edges.groups():
            complete = (winners != NONE).all(axis=1)
            whole[case], lacking[case] = complete, ~complete
            used, (wins, tied) = case[complete], matrices(winners[complete])
            beats = wins | tied if edges.both_ways else wins
            nodes[used] = in_cycle(beats).sum(axis=1)
            triads[used] = cyclic_triads(beats)
            weak[used] = weak_violation(wins, tied)
            ties[used] = (winners[complete] == TIE).sum(axis=1)
        return cls(sizes, whole, nodes, triads, weak, ties, lacking, edges.both_ways)


def cyclic_triads(beats: Bools) -> Ints:
    """Return how many triples beat one another in a circle, for a stack of matrices.

    A third of the closed walks of length three are circles; a triple all of whose edges go both ways holds two.
    """
    walks = [np.einsum("cij,cji->c", (m := edges.astype(np.int64)) @ m, m) for edges in (beats, beats & _turned(beats))]
    return np.asarray(walks[0] // 3 - walks[1] // 6)


def _turned(beats: Bools) -> Bools:
    return np.swapaxes(beats, 1, 2)


def weak_violation(wins: Bools, tied: Bools) -> Bools:
    """Return which cases have an intransitive indifference: A ~ B and B ~ C, and yet A > C."""
    found = np.zeros(len(wins), dtype=bool)
    for middle in range(wins.shape[-1]):
        found |= (wins & tied[:, :, middle, None] & tied[:, None, middle, :]).any(axis=(1, 2))
    return found


def conflict_statistics(edges: Edges, *, scored: bool) -> list[Statistic | Metric]:
    """Return the `conflict/` metrics; of verdicts implied by scores (`scored`) those on cycles of wins are 0."""
    found = Tournaments.of(edges)
    weak = _share("conflict/weak_rate", found, found.weak, f"A ~ B, B ~ C, yet A > C; {AMONG}")
    if scored and not edges.both_ways:
        return [*_impossible(found), weak]
    return [
        _share("conflict/rate", found, found.nodes > 0, _note(found)),
        _total("conflict/nodes", found, found.nodes, found.size),
        _total("conflict/triads", found, found.triads, _most_triads(found.size)),
        _zeta(found),
        *_against_chance(found),
        weak,
    ]


def reversal_statistic(edges: Edges, reversals: Ints) -> Statistic:
    """Return `conflict/reversals`: how many verdicts to reverse, at least, so that no case's wins make a cycle."""
    found = Tournaments.of(edges)
    return _total("conflict/reversals", found, reversals, found.size * (found.size - 1) // 2)


def _note(found: Tournaments) -> str:
    return f"a tie is an edge both ways, so that every tie is a cycle; {AMONG}" if found.both_ways else AMONG


def _impossible(found: Tournaments) -> list[Metric]:
    counted = {"rate": np.ones_like(found.size), "nodes": found.size, "triads": _most_triads(found.size)}
    return [
        _by_construction(f"conflict/{name}", int(most[found.whole].sum()), int(most[found.lacking > 0].sum()))
        for name, most in counted.items()
    ]


def _by_construction(name: str, n: int, missing: int) -> Metric:
    if not n:
        return Metric(name, None, missing=missing, note=NO_CASE)
    return Metric(name, 0.0, 0.0, 0.0, n, missing, 0.0, 0.0, BY_SCORE)


def _share(name: str, found: Tournaments, hit: Bools, note: str) -> Statistic:
    return case_rate(name, hit, found.whole, found.lacking > 0, note=note, why=NO_CASE)


def case_rate(name: str, hit: Bools, among: Bools, lost: Bools, *, why: str, note: str | None = None) -> Statistic:
    """Return the share of `hit` cases `among` those that are known; each `lost` one could have been either."""
    return Tally(np.arange(len(hit)), len(hit)).rate(name, hit, among, lost, note=note, why=why)


def _total(name: str, found: Tournaments, counts: Ints, most: Ints) -> Statistic:
    """Return a count summed over the cases, of as many as `most` in each."""
    columns = np.stack([counts, found.whole], axis=1).astype(np.float64)
    least, further = float(counts.sum()), float(most[found.lacking > 0].sum())
    worst: Bounds = (least, least + further) if found.whole.any() else (None, None)
    return Statistic(
        name,
        columns,
        lambda totals: np.where(totals[:, 1] > 0, totals[:, 0], np.nan),
        n=int(most[found.whole].sum()),
        missing=int(most[found.lacking > 0].sum()),
        worst=worst,
        note="a total, not a share",
        why=NO_CASE,
    )


def _most_triads(size: Ints) -> Ints:
    """Return the number of triples among n."""
    return size * (size - 1) * (size - 2) // 6


def _zeta(found: Tournaments) -> Statistic:
    """Return the coefficient of consistence: 1 less the cyclic triads as a share of the most that n responses can have.

    Kendall and Babington Smith 1940 (Biometrika 31, 324-345): that most is (n³ - n)/24 for odd and (n³ - 4n)/24 for
    even n. It is defined where every pair has a winner; cases with a tie are left out. Pooled over the cases' sizes.
    """
    most = (found.size**3 - np.where(found.size % 2, 1, 4) * found.size) // 24
    decided = found.whole & (found.ties == 0)
    columns = np.stack([np.where(decided, found.triads, 0), np.where(decided, most, 0)], axis=1).astype(np.float64)
    tied = int((found.whole & ~decided).sum())
    return Statistic(
        "conflict/zeta",
        columns,
        lambda totals: 1 - divide(totals[:, 0], totals[:, 1]),
        n=int(decided.sum()),
        covered=decided,
        missing=int(found.lacking.sum()),
        proportion=True,
        note=f"of the cases with a winner in every pair; {tied} with a tie are left out" if tied else None,
        why=f"every case has a tie, and zeta is defined without ({tied} cases)" if tied else NO_CASE,
    )


def _against_chance(found: Tournaments) -> list[Statistic]:
    """Return the chance of a cycle at each case's size and the pooled tie rate, and the conflict rate divided by it."""
    sizes = [int(n) for n in np.unique(found.size[found.whole])]
    pairs = np.where(found.whole, found.size * (found.size - 1) // 2, 0)
    kinds = [found.whole & (found.size == n) for n in sizes]
    random = chance_rate_both_ways if found.both_ways else chance_rate
    columns = np.stack([found.nodes > 0, found.ties, pairs, found.whole, *kinds], axis=1).astype(np.float64)

    def chance(totals: Floats) -> Floats:
        # A resample without any whole case has no tie rate; its number of cases, 0, makes the result undefined.
        tie_rate = np.nan_to_num(divide(totals[:, 1], totals[:, 2]))
        expected = sum((totals[:, 4 + k] * random(n, tie_rate) for k, n in enumerate(sizes)), np.zeros(len(totals)))
        return divide(expected, totals[:, 3])

    def ratio(totals: Floats) -> Floats:
        return divide(divide(totals[:, 0], totals[:, 3]), chance(totals))

    n, missing = int(found.whole.sum()), int(found.lacking.sum())
    tie_rate = tidy(found.ties.sum() / max(1, pairs.sum()))
    note = (
        f"random outcomes among {', '.join(map(str, sizes))} responses at a tie rate of {tie_rate:.3g}" if n else None
    )
    why = "random outcomes would make no cycle either" if n else NO_CASE
    return [
        Statistic("conflict/chance_rate", columns, chance, n=n, missing=missing, note=note, why=NO_CASE),
        Statistic("conflict/ratio", columns, ratio, n=n, missing=missing, why=why),
    ]
