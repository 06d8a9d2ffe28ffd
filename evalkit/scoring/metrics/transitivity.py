"""Conflicts among the responses of a case: cycles of wins, and ties that are not transitive.

`scoring.conflict_edges` defines what counts as an edge. A case counts if it has at least three responses and every pair
of them has an outcome under that rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice, product
from math import comb, exp, lgamma, log
from typing import Any, Literal, TypeAlias

import numpy as np

from evalkit.scoring.columns.cases import NONE, TIE, A, B, PairColumns, sign
from evalkit.scoring.columns.judgments import JudgmentColumns
from evalkit.scoring.columns.verdicts import PassColumns, VerdictColumns
from evalkit.scoring.stats.arrays import Bools, Bounds, Codes, Floats, Ints, divide, round_metric
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.verdicts.pairs import by_criterion
from evalkit.types import Case, Metric, Verdict

Rule: TypeAlias = Literal["verdict", "net", "both", "single", "ties"]


@dataclass(frozen=True, slots=True)
class Edges:
    """The winner of each pair under one rule.

    Attributes:
        pairs: the pairs.
        winner: (pairs,) the winners.
        margin: (pairs,) the margins.
        both_ways: whether a tie is an edge in both directions.
    """

    pairs: PairColumns
    winner: Codes
    margin: Floats
    both_ways: bool = False

    def groups(self) -> Iterator[tuple[Ints, Codes]]:
        """Yield the cases of each size of at least three, with the winners of their pairs (cases, pairs)."""
        return groups(self.pairs, self.winner)


def edges_of(rule: Rule, verdicts: VerdictColumns, passes: PassColumns | None = None) -> Edges:
    """Return the edges under `rule`; for verdicts implied by scores, every rule but `ties` is `verdict`."""
    both_ways = rule == "ties"
    if passes is None or rule in ("verdict", "ties"):
        return Edges(verdicts.pairs, verdicts.winner, verdicts.margin, both_ways)
    return Edges(verdicts.pairs, _by_passes(rule, passes), verdicts.margin)


def _by_passes(rule: Rule, passes: PassColumns) -> Codes:
    if not passes.both:
        return np.where(passes.read[:, 0], passes.winner[:, 0], passes.winner[:, 1]).astype(np.int8)
    first, second = passes.winner.T
    if rule == "single":
        return np.asarray(first)
    complete = passes.read.all(axis=1)
    agreed = np.where(first == second, first, TIE)
    found = np.sign(first + second) if rule == "net" else agreed
    return np.where(complete, found, NONE).astype(np.int8)


def groups(pairs: PairColumns, winners: Codes) -> Iterator[tuple[Ints, Codes]]:
    """Yield the cases of each size of at least three, with the winners of their pairs (cases, pairs)."""
    for n in np.unique(pairs.sizes[pairs.sizes >= 3]):
        case = np.flatnonzero(pairs.sizes == n)
        yield case, winners[pairs.start[case][:, None] + np.arange(n * (n - 1) // 2)]


def matrices(winners: Codes) -> tuple[Bools, Bools]:
    """Return wins (row beats column) and ties as (cases, n, n) matrices."""
    n = round((1 + (1 + 8 * winners.shape[1]) ** 0.5) / 2)
    i, j = np.triu_indices(n, 1)
    wins, tied = (np.zeros((len(winners), n, n), dtype=bool) for _ in range(2))
    wins[:, i, j], wins[:, j, i] = winners == A, winners == B
    tied[:, i, j] = tied[:, j, i] = winners == TIE
    return wins, tied


EXACT_SIZE = 5
"""Up to this number of responses every outcome is enumerated: 59,049 outcomes for 5."""
SIMULATION_WORK = 4 * 10**8


def closure(wins: Bools) -> Bools:
    """Return the transitive closure of wins, (..., n, n) (Warshall 1962, J. ACM 9, 11-12)."""
    reach = wins.copy()
    for middle in range(wins.shape[-1]):
        reach |= reach[..., :, middle, None] & reach[..., None, middle, :]
    return reach


def in_cycle(wins: Bools) -> Bools:
    """Return which responses are in a strongly connected component of more than one, (..., n)."""
    return np.asarray(np.diagonal(closure(wins), axis1=-2, axis2=-1))


def chance_rate(n: int, tie_rate: Floats) -> Floats:
    """Return P(some cycle) among `n` responses if each pair is a tie with `tie_rate` and otherwise a fair coin toss.

    It is exact for n up to 5. Beyond, it comes from a seeded simulation of when the first cycle closes as random
    outcomes are added pair by pair, mixed exactly over the number of decided pairs, so that it is smooth in the tie
    rate.
    """
    from scipy.special import gammaln, xlogy

    cyclic = cyclic_shares(n)
    pairs = len(cyclic) - 1
    k = np.arange(pairs + 1)
    ways = gammaln(pairs + 1) - gammaln(k + 1) - gammaln(pairs - k + 1)
    ties = np.asarray(tie_rate, dtype=np.float64)[..., None]
    return np.asarray(np.exp(ways + xlogy(k, 1 - ties) + xlogy(pairs - k, ties)) @ cyclic)


def chance_rate_both_ways(n: int, tie_rate: Floats) -> Floats:
    """Return P(some cycle) among `n` responses if a tie is an edge in both directions: only the n! orders have none."""
    pairs = n * (n - 1) // 2
    orders = exp(lgamma(n + 1) - pairs * log(2))
    return np.asarray(1 - (1 - np.asarray(tie_rate, dtype=np.float64)) ** pairs * orders)


@cache
def cyclic_shares(n: int) -> Floats:
    """Return, for each number of decided pairs, the share of random outcomes among `n` responses with a cycle."""
    return enumerate_shares(n) if n <= EXACT_SIZE else simulate_shares(n)


def enumerate_shares(n: int) -> Floats:
    """Return the shares by enumerating every outcome of every pair."""
    i, j = np.triu_indices(n, 1)
    outcomes = np.array(list(product((1, 0, -1), repeat=len(i))), dtype=np.int8)
    wins = np.zeros((len(outcomes), n, n), dtype=bool)
    wins[:, i, j], wins[:, j, i] = outcomes == 1, outcomes == -1
    cyclic = in_cycle(wins).any(axis=1)
    decided = np.count_nonzero(outcomes, axis=1)
    every = [comb(len(i), k) * 2**k for k in range(len(i) + 1)]
    return np.asarray(np.bincount(decided, weights=cyclic, minlength=len(i) + 1) / every)


def simulate_shares(n: int) -> Floats:
    """Return the shares by adding random wins pair by pair until the first cycle, with a fixed seed."""
    i, j = np.triu_indices(n, 1)
    pairs = len(i)
    runs = max(200, min(20_000, SIMULATION_WORK // (n * n * pairs)))
    generator = np.random.default_rng(0)
    order = np.argsort(generator.random((runs, pairs)), axis=1)
    flipped = generator.random((runs, pairs)) < 0.5
    winner, loser = np.where(flipped, j[order], i[order]), np.where(flipped, i[order], j[order])
    reach = np.broadcast_to(np.eye(n, dtype=bool), (runs, n, n)).copy()
    cyclic, rows, shares = np.zeros(runs, dtype=bool), np.arange(runs), [0.0]
    for step in range(pairs):
        w, v = winner[:, step], loser[:, step]
        cyclic |= reach[rows, v, w]
        reach |= reach[rows, :, w][:, :, None] & reach[rows, v, :][:, None, :]
        shares.append(float(cyclic.mean()))
    return np.array(shares)


AMONG = "over cases with at least three responses and a verdict on every pair"
NO_CASE = "no case has at least three responses and a verdict on every pair"
BY_SCORE = "0 by construction: one score per response cannot make a cycle"


@dataclass(frozen=True, slots=True)
class Tournaments:
    """What the edges of each case contain.

    Attributes:
        size: (cases,) the number of responses.
        complete: (cases,) whether it has at least three responses and an outcome for every pair.
        nodes: (cases,) the number of responses in cycles.
        triads: (cases,) the number of cyclic triples.
        weak: (cases,) whether its ties are intransitive.
        ties: (cases,) the number of ties.
        incomplete: (cases,) 1 if it has at least three responses and lacks an outcome.
        both_ways: whether a tie is an edge in both directions.
    """

    size: Ints
    complete: Bools
    nodes: Ints
    triads: Ints
    weak: Bools
    ties: Ints
    incomplete: Ints
    both_ways: bool

    @classmethod
    def of(cls, edges: Edges) -> Tournaments:
        """Return the tournaments of the edges of every case."""
        sizes = edges.pairs.sizes
        complete, weak = np.zeros(len(sizes), dtype=bool), np.zeros(len(sizes), dtype=bool)
        nodes, triads, ties, incomplete = (np.zeros(len(sizes), dtype=np.int64) for _ in range(4))
        for case, winners in edges.groups():
            decided = (winners != NONE).all(axis=1)
            complete[case], incomplete[case] = decided, ~decided
            used, (wins, tied) = case[decided], matrices(winners[decided])
            beats = wins | tied if edges.both_ways else wins
            nodes[used] = in_cycle(beats).sum(axis=1)
            triads[used] = cyclic_triads(beats)
            weak[used] = weak_violation(wins, tied)
            ties[used] = (winners[decided] == TIE).sum(axis=1)
        return cls(sizes, complete, nodes, triads, weak, ties, incomplete, edges.both_ways)


def cyclic_triads(beats: Bools) -> Ints:
    """Return the number of triples that beat one another in a cycle, for (cases, n, n) matrices.

    A third of the closed walks of length three are cycles; a triple with all edges in both directions contains two.
    """
    walks = [
        np.einsum("cij,cji->c", (m := edges.astype(np.int64)) @ m, m) for edges in (beats, beats & _reversed(beats))
    ]
    return np.asarray(walks[0] // 3 - walks[1] // 6)


def _reversed(beats: Bools) -> Bools:
    return np.swapaxes(beats, 1, 2)


def weak_violation(wins: Bools, tied: Bools) -> Bools:
    """Return which cases have intransitive ties: A ~ B and B ~ C, but A > C."""
    found = np.zeros(len(wins), dtype=bool)
    for middle in range(wins.shape[-1]):
        found |= (wins & tied[:, :, middle, None] & tied[:, None, middle, :]).any(axis=(1, 2))
    return found


def conflict_statistics(edges: Edges, *, scored: bool) -> list[Statistic | Metric]:
    """Return the `conflict/` metrics; for verdicts implied by scores (`scored`), those on cycles of wins are 0."""
    found = Tournaments.of(edges)
    weak = _share("conflict/weak_rate", found, found.weak, f"A ~ B and B ~ C, but A > C; {AMONG}")
    if scored and not edges.both_ways:
        return [*_zero_by_construction(found), weak]
    return [
        _share("conflict/rate", found, found.nodes > 0, _note(found)),
        _total("conflict/nodes", found, found.nodes, found.size),
        _total("conflict/triads", found, found.triads, _triples(found.size)),
        _zeta(found),
        *_against_chance(found),
        weak,
    ]


def reversal_statistic(edges: Edges, reversals: Ints) -> Statistic:
    """Return `conflict/reversals`: the minimum number of verdicts to reverse so that no case contains a cycle."""
    found = Tournaments.of(edges)
    return _total("conflict/reversals", found, reversals, found.size * (found.size - 1) // 2)


def _note(found: Tournaments) -> str:
    return f"a tie is an edge in both directions, so every tie is a cycle; {AMONG}" if found.both_ways else AMONG


def _zero_by_construction(found: Tournaments) -> list[Metric]:
    counted = {"rate": np.ones_like(found.size), "nodes": found.size, "triads": _triples(found.size)}
    return [
        _by_construction(
            f"conflict/{name}", int(maximum[found.complete].sum()), int(maximum[found.incomplete > 0].sum())
        )
        for name, maximum in counted.items()
    ]


def _by_construction(name: str, n: int, missing: int) -> Metric:
    if not n:
        return Metric(name, None, missing=missing, note=NO_CASE)
    return Metric(name, 0.0, 0.0, 0.0, n, missing, 0.0, 0.0, BY_SCORE)


def _share(name: str, found: Tournaments, hit: Bools, note: str) -> Statistic:
    return case_rate(name, hit, found.complete, found.incomplete > 0, note=note, why=NO_CASE)


def case_rate(name: str, hit: Bools, among: Bools, unknown: Bools, *, why: str, note: str | None = None) -> Statistic:
    """Return the share of cases in `among` that are also in `hit`; each case in `unknown` could be either.

    Args:
        name: the metric's name.
        hit: (cases,) which cases count.
        among: (cases,) which cases are known.
        unknown: (cases,) which cases are not.
        why: why the value is undefined, if it is.
        note: a remark on the value.
    """
    return Tally(np.arange(len(hit)), len(hit)).rate(name, hit, among, unknown, note=note, why=why)


def _total(name: str, found: Tournaments, counts: Ints, maximum: Ints) -> Statistic:
    """Return a count summed over cases.

    Args:
        name: the metric's name.
        found: the tournaments.
        counts: (cases,) the count of each case.
        maximum: (cases,) the largest possible count of each case.
    """
    columns = np.stack([counts, found.complete], axis=1).astype(np.float64)
    low, extra = float(counts.sum()), float(maximum[found.incomplete > 0].sum())
    worst: Bounds = (low, low + extra) if found.complete.any() else (None, None)
    return Statistic(
        name,
        columns,
        lambda totals: np.where(totals[:, 1] > 0, totals[:, 0], np.nan),
        n=int(maximum[found.complete].sum()),
        missing=int(maximum[found.incomplete > 0].sum()),
        worst=worst,
        limits=(0.0, float(maximum[found.complete].sum())),
        note="a total, not a share",
        why=NO_CASE,
    )


def _triples(size: Ints) -> Ints:
    """Return the number of triples of responses of each case."""
    return size * (size - 1) * (size - 2) // 6


def _zeta(found: Tournaments) -> Statistic:
    """Return Kendall's coefficient of consistence, pooled over case sizes.

    It is 1 minus the number of cyclic triads divided by its maximum, (n³ - n)/24 for odd and (n³ - 4n)/24 for even n
    (Kendall and Babington Smith 1940, Biometrika 31, 324-345). It is defined if every pair has a winner; cases with a
    tie are omitted.
    """
    maximum = (found.size**3 - np.where(found.size % 2, 1, 4) * found.size) // 24
    decided = found.complete & (found.ties == 0)
    columns = np.stack([np.where(decided, found.triads, 0), np.where(decided, maximum, 0)], axis=1).astype(np.float64)
    tied = int((found.complete & ~decided).sum())
    return Statistic(
        "conflict/zeta",
        columns,
        lambda totals: 1 - divide(totals[:, 0], totals[:, 1]),
        n=int(decided.sum()),
        covered=decided,
        missing=int(found.incomplete.sum()),
        proportion=True,
        note=f"over cases with a winner in every pair; {tied} with a tie are omitted" if tied else None,
        why=f"every case has a tie, and zeta needs cases without ties ({tied} cases)" if tied else NO_CASE,
    )


def _against_chance(found: Tournaments) -> list[Statistic]:
    """Return the probability of a cycle at each case's size and the pooled tie rate, and the conflict rate over it."""
    sizes = [int(n) for n in np.unique(found.size[found.complete])]
    pairs = np.where(found.complete, found.size * (found.size - 1) // 2, 0)
    groups_by_size = [found.complete & (found.size == n) for n in sizes]
    random = chance_rate_both_ways if found.both_ways else chance_rate
    columns = np.stack([found.nodes > 0, found.ties, pairs, found.complete, *groups_by_size], axis=1).astype(np.float64)

    def chance(totals: Floats) -> Floats:
        # A resample without complete cases has no tie rate; its number of cases, 0, makes the result undefined.
        tie_rate = np.nan_to_num(divide(totals[:, 1], totals[:, 2]))
        expected = sum((totals[:, 4 + k] * random(n, tie_rate) for k, n in enumerate(sizes)), np.zeros(len(totals)))
        return divide(expected, totals[:, 3])

    def ratio(totals: Floats) -> Floats:
        return divide(divide(totals[:, 0], totals[:, 3]), chance(totals))

    n, missing = int(found.complete.sum()), int(found.incomplete.sum())
    tie_rate = round_metric(found.ties.sum() / max(1, pairs.sum()))
    note = (
        f"random outcomes among {', '.join(map(str, sizes))} responses at a tie rate of {tie_rate:.3g}" if n else None
    )
    why = "random outcomes would make no cycle either" if n else NO_CASE
    most = float(divide(np.ones(1), chance(columns.sum(axis=0)[None]))[0])
    return [
        Statistic("conflict/chance_rate", columns, chance, n=n, missing=missing, note=note, why=NO_CASE),
        Statistic("conflict/ratio", columns, ratio, n=n, missing=missing, limits=(0.0, most), why=why),
    ]


NO_CRITERION_CASE = "no case has at least three responses and a winner or tie by this criterion for every pair"


@dataclass(frozen=True, slots=True)
class CriterionCycles:
    """The tournaments of each criterion's outcomes: the sign of its margin, samples combined and orders averaged.

    Attributes:
        names: the criteria.
        found: the tournaments of each criterion.
    """

    names: tuple[str, ...]
    found: tuple[Tournaments, ...]

    @classmethod
    def of(cls, judgments: JudgmentColumns, pairs: PairColumns, how: str = "mean") -> CriterionCycles:
        """Return the cycles of every criterion; empty if there is only one, which is the verdict itself."""
        place = pairs.find(judgments.case, judgments.i, judgments.j)
        names = judgments.names if len(judgments.names) > 1 else ()
        margins = by_criterion(judgments, place, len(pairs), how)[: len(names)]
        return cls(names, tuple(Tournaments.of(Edges(pairs, sign(margin), margin)) for margin in margins))

    def listed(self, cases: Sequence[Case]) -> dict[str, list[str]]:
        """Return the ids of the cases with a cycle in each criterion's outcomes."""
        return {
            name: [cases[k].id for k in np.flatnonzero(found.nodes > 0).tolist()]
            for name, found in zip(self.names, self.found, strict=True)
        }


def criteria_statistics(criteria: CriterionCycles, verdicts: Tournaments) -> list[Statistic]:
    """Return `conflict/rate/<criterion>` for each criterion, and `conflict/condorcet`.

    The latter is the share of cases whose verdicts contain a cycle although no criterion's outcomes do: Condorcet's
    paradox with criteria as voters (Condorcet 1785, Essai).
    """
    rates = [
        _rate(f"conflict/rate/{name}", found.nodes > 0, found.complete, found.incomplete > 0)
        for name, found in zip(criteria.names, criteria.found, strict=True)
    ]
    return [*rates, _paradox(criteria, verdicts)] if rates else []


def _paradox(criteria: CriterionCycles, verdicts: Tournaments) -> Statistic:
    complete = np.logical_and.reduce([verdicts.complete, *(found.complete for found in criteria.found)])
    consistent = np.logical_and.reduce([found.nodes == 0 for found in criteria.found])
    unknown = (verdicts.complete | (verdicts.incomplete > 0)) & ~complete
    return _rate("conflict/condorcet", consistent & (verdicts.nodes > 0), complete, unknown)


def _rate(name: str, hit: Bools, among: Bools, unknown: Bools) -> Statistic:
    return case_rate(name, hit, among, unknown, why=NO_CRITERION_CASE)


MAX_EXACT_KNOT = 12
"""Strongly connected components of up to this size are solved exactly: 4,096 subsets for 12."""
CHUNK = 2**22


@dataclass(frozen=True, slots=True)
class Reversals:
    """The wins of one case to reverse, as (winner, loser), and whether no smaller set exists."""

    wins: tuple[tuple[int, int], ...]
    exact: bool


def fewest_reversals(wins: Bools, margins: Floats) -> list[Reversals]:
    """Return the minimum set of wins to reverse for each case; ties are broken by the smallest margins.

    Strongly connected components ("knots") of up to 12 responses are solved exactly by dynamic programming over
    subsets: the best order of a set is the best order of the set without its last response (Lawler 1964, Manage. Sci.
    11, 280-288). Larger ones are ordered by wins and improved by moving one response at a time, so their set may not be
    minimal.

    Args:
        wins: (cases, n, n) row beats column.
        margins: (cases, n, n) the margins.
    """
    cost = np.where(wins, 1 + 1e-6 * _scaled(margins), 0.0)
    found: list[list[tuple[int, int]]] = [[] for _ in wins]
    exact = [True] * len(wins)
    for members, places in _knots_by_size(wins).items():
        members_of = np.array([place[1] for place in places])
        block = cost[
            np.array([place[0] for place in places])[:, None, None], members_of[:, :, None], members_of[:, None, :]
        ]
        orders = (
            _best_orders(block) if members <= MAX_EXACT_KNOT else np.stack([_local_optimum(matrix) for matrix in block])
        )
        for (case, knot), order in zip(places, orders, strict=True):
            exact[case] &= members <= MAX_EXACT_KNOT
            found[case] += _backward_wins(cost[case], [knot[k] for k in order])
    return [Reversals(tuple(sorted(wins_)), exact) for wins_, exact in zip(found, exact, strict=True)]


def _scaled(margins: Floats) -> Floats:
    size = np.abs(np.nan_to_num(margins))
    return size / max(1.0, float(size.max(initial=0.0)))


def knots(wins: Bools) -> list[list[int]]:
    """Return the strongly connected components of more than one response of one case, in ascending order."""
    reach = closure(wins)
    mutual = reach & reach.T
    return [list(map(int, np.flatnonzero(row))) for k, row in enumerate(mutual) if row.any() and row.argmax() == k]


def _knots_by_size(wins: Bools) -> dict[int, list[tuple[int, list[int]]]]:
    """Return (case, members) of every knot, by size."""
    found: dict[int, list[tuple[int, list[int]]]] = {}
    for case, matrix in enumerate(wins):
        for knot in knots(matrix):
            found.setdefault(len(knot), []).append((case, knot))
    return found


def _best_orders(cost: Floats) -> Ints:
    """Return for each (k, k) cost matrix the order, best first, with the smallest cost of backward wins."""
    k = cost.shape[-1]
    step = max(1, CHUNK // (k << k))
    return np.concatenate([_solve(cost[start : start + step]) for start in range(0, len(cost), step)])


def _solve(cost: Floats) -> Ints:
    batch, k, _ = cost.shape
    cost_behind = _subset_costs(cost)
    best = np.full((batch, 1 << k), np.inf)
    best[:, 0] = 0.0
    last = np.zeros((batch, 1 << k), dtype=np.int64)
    for mask in range(1, 1 << k):
        members_of = np.array([v for v in range(k) if mask >> v & 1])
        before = mask ^ (1 << members_of)
        totals = best[:, before] + cost_behind[:, members_of, before]
        choice = totals.argmin(axis=1)
        best[:, mask], last[:, mask] = totals[np.arange(batch), choice], members_of[choice]
    return _backtrack(last, k)


def _subset_costs(cost: Floats) -> Floats:
    """Return the cost of placing response v behind each subset, (batch, k, 2^k): its wins over the members."""
    batch, k, _ = cost.shape
    sums = np.zeros((batch, k, 1 << k))
    for mask in range(1, 1 << k):
        low = (mask & -mask).bit_length() - 1
        sums[:, :, mask] = sums[:, :, mask & (mask - 1)] + cost[:, :, low]
    return sums


def _backtrack(last: Ints, k: int) -> Ints:
    batch = len(last)
    order = np.zeros((batch, k), dtype=np.int64)
    mask = np.full(batch, (1 << k) - 1)
    for place in reversed(range(k)):
        order[:, place] = last[np.arange(batch), mask]
        mask ^= 1 << order[:, place]
    return order


def _local_optimum(cost: Floats) -> Ints:
    """Return an order that no move of a single response improves."""
    order = [int(v) for v in np.argsort(cost.sum(axis=0) - cost.sum(axis=1), kind="stable")]
    improved = True
    while improved:
        improved = any(_move(cost, order, v) for v in list(order))
    return np.array(order)


def _move(cost: Floats, order: list[int], v: int) -> bool:
    """Move `v` to its cheapest position, and return whether that reduces the cost."""
    now = order.index(v)
    rest = [u for u in order if u != v]
    # At position p, v's wins over rest[:p] are backward, and so are the wins of rest[p:] over v.
    costs = [cost[v, rest[:p]].sum() + cost[rest[p:], v].sum() for p in range(len(order))]
    place = int(np.argmin(costs))
    if costs[place] >= costs[now] - 1e-9:
        return False
    order[:] = [*rest[:place], v, *rest[place:]]
    return True


def _backward_wins(cost: Floats, order: list[int]) -> list[tuple[int, int]]:
    return [(v, u) for place, v in enumerate(order) for u in order[:place] if cost[v, u] > 0]


MAX_CYCLES = 100
"""At most this many cycles of one case are listed, shortest first; a knot of eight can contain thousands."""
MAX_STEPS = 200_000
"""At most this many steps are taken to find them."""


def cyclic_cases(edges: Edges) -> Iterator[tuple[Ints, Bools, Floats]]:
    """Yield, by size, the cases whose wins contain a cycle, with their wins and margins (cases, n, n)."""
    for case, winners in edges.groups():
        complete = (winners != NONE).all(axis=1)
        wins, _ = matrices(winners[complete])
        cyclic = in_cycle(wins).any(axis=1)
        used = case[complete][cyclic]
        n = wins.shape[-1]
        margins = np.zeros((len(used), n, n))
        i, j = np.triu_indices(n, 1)
        each = edges.margin[edges.pairs.start[used][:, None] + np.arange(len(i))]
        margins[:, i, j] = margins[:, j, i] = each
        yield used, wins[cyclic], margins


def list_conflicts(cases: Sequence[Case], edges: Edges) -> tuple[Ints, list[dict[str, Any]]]:
    """Return the number of verdicts to reverse in each case, and an entry for each case with a cycle, in case order."""
    counts = np.zeros(len(cases), dtype=np.int64)
    found: dict[int, dict[str, Any]] = {}
    for used, wins, margins in cyclic_cases(edges):
        for case, matrix, reversals in zip(used.tolist(), wins, fewest_reversals(wins, margins), strict=True):
            counts[case] = len(reversals.wins)
            found[case] = _entry(cases[case], matrix, reversals)
    return counts, [found[case] for case in sorted(found)]


def _entry(case: Case, wins: Bools, reversals: Reversals) -> dict[str, Any]:
    cycles = shortest_cycles(wins, MAX_CYCLES + 1)
    return {
        "case_id": case.id,
        "responses": [int(k) for k in np.flatnonzero(in_cycle(wins))],
        "models": [response.model for response in case.responses],
        "cycles": [list(cycle) for cycle in cycles[:MAX_CYCLES]],
        "more_cycles": len(cycles) > MAX_CYCLES,
        "reverse": [list(pair) for pair in reversals.wins],
        "fewest": reversals.exact,
    }


def cycles_among(verdicts: Sequence[Verdict], limit: int = MAX_CYCLES) -> list[tuple[int, ...]]:
    """Return up to `limit` cycles of wins among one case's verdicts, shortest first, each as response indices."""
    won = [v.unit if v.winner == "A" else v.unit[::-1] for v in verdicts if len(v.unit) == 2 and v.winner in ("A", "B")]
    wins = np.zeros((1 + max((max(pair) for pair in won), default=0),) * 2, dtype=bool)
    for better, worse in won:
        wins[better, worse] = True
    return shortest_cycles(wins, limit)


def shortest_cycles(wins: Bools, limit: int) -> list[tuple[int, ...]]:
    """Return up to `limit` simple cycles, shortest first, each starting at its smallest response."""
    walks = chain.from_iterable(
        _walk(wins, knot, (start,), length)
        for length in range(3, len(wins) + 1)
        for knot in knots(wins)
        if length <= len(knot)
        for start in knot
    )
    cycles = (cycle for cycle in islice(walks, MAX_STEPS) if cycle is not None)
    return list(islice(cycles, limit))


def _walk(wins: Bools, knot: list[int], path: tuple[int, ...], length: int) -> Iterator[tuple[int, ...] | None]:
    """Yield the cycles of a length that extend a path, and `None` for each step of the search."""
    start, here = path[0], path[-1]
    if len(path) == length:
        yield path if wins[here, start] else None
        return
    yield None
    for ahead in knot:
        if ahead > start and wins[here, ahead] and ahead not in path:
            yield from _walk(wins, knot, (*path, ahead), length)
