"""Conflicts among the responses of a case: cycles of wins, and indifference that is not transitive.

What counts as an edge is a matter of `scoring.conflict_edges`. A case counts when it has at least three responses and
every pair of them has an outcome under that rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice, product
from math import comb, exp, lgamma, log
from typing import Any, Literal, TypeAlias

import numpy as np

from evalkit.scoring.columns.cases import PairColumns
from evalkit.scoring.columns.codes import NONE, TIE, A, B, sign
from evalkit.scoring.columns.judgments import JudgmentColumns
from evalkit.scoring.columns.verdicts import PassColumns, VerdictColumns
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, Ints, divide, round_metric
from evalkit.scoring.stats.bootstrap import Bounds, Statistic, Tally
from evalkit.scoring.verdicts.pairs import by_criterion
from evalkit.types import Case, Metric, Verdict

Rule: TypeAlias = Literal["verdict", "net", "both", "single", "ties"]


@dataclass(frozen=True, slots=True)
class Edges:
    """Who beats whom in each pair under one rule; with `both_ways` a tie is an edge in either direction."""

    pairs: PairColumns
    winner: Codes
    margin: Floats
    both_ways: bool = False

    def groups(self) -> Iterator[tuple[Ints, Codes]]:
        """Yield the cases of each size of at least three, with the winners of their pairs (cases × pairs)."""
        return groups(self.pairs, self.winner)


def edges_of(rule: Rule, verdicts: VerdictColumns, passes: PassColumns | None = None) -> Edges:
    """Return the edges under `rule`; verdicts implied by scores (no `shown`) have no orders to tell apart."""
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


EXACT = 5
"""Up to so many responses every outcome is enumerated: 59,049 of them at 5."""
WORK = 4 * 10**8


def closure(wins: Bools) -> Bools:
    """Return who reaches whom along wins, for a stack of (n, n) matrices (Warshall 1962, J. ACM 9, 11-12)."""
    reach = wins.copy()
    for middle in range(wins.shape[-1]):
        reach |= reach[..., :, middle, None] & reach[..., None, middle, :]
    return reach


def in_cycle(wins: Bools) -> Bools:
    """Return which nodes lie in a strongly connected component of more than one, for a stack of matrices."""
    return np.asarray(np.diagonal(closure(wins), axis1=-2, axis2=-1))


def chance_rate(n: int, tie_rate: Floats) -> Floats:
    """Return P(some cycle) among `n` responses when each pair ties with `tie_rate` and else is a fair coin.

    Exact for n of at most 5; beyond, from a seeded simulation of when, as random outcomes arrive pair by pair, the
    first cycle closes (mixed exactly over how many pairs are decided, so that it is smooth in the tie rate).
    """
    from scipy.special import gammaln, xlogy

    cyclic = cyclic_shares(n)
    pairs = len(cyclic) - 1
    k = np.arange(pairs + 1)
    ways = gammaln(pairs + 1) - gammaln(k + 1) - gammaln(pairs - k + 1)
    ties = np.asarray(tie_rate, dtype=np.float64)[..., None]
    return np.asarray(np.exp(ways + xlogy(k, 1 - ties) + xlogy(pairs - k, ties)) @ cyclic)


def chance_rate_both_ways(n: int, tie_rate: Floats) -> Floats:
    """Return P(some cycle) among `n` responses when a tie is an edge both ways: only the n! orders have none."""
    pairs = n * (n - 1) // 2
    orders = exp(lgamma(n + 1) - pairs * log(2))
    return np.asarray(1 - (1 - np.asarray(tie_rate, dtype=np.float64)) ** pairs * orders)


@cache
def cyclic_shares(n: int) -> Floats:
    """Return, for each number of decided pairs, the share of random outcomes among `n` responses that have a cycle."""
    return enumerate_shares(n) if n <= EXACT else simulate_shares(n)


def enumerate_shares(n: int) -> Floats:
    """Return the shares by going through every outcome of every pair."""
    i, j = np.triu_indices(n, 1)
    outcomes = np.array(list(product((1, 0, -1), repeat=len(i))), dtype=np.int8)
    wins = np.zeros((len(outcomes), n, n), dtype=bool)
    wins[:, i, j], wins[:, j, i] = outcomes == 1, outcomes == -1
    cyclic = in_cycle(wins).any(axis=1)
    decided = np.count_nonzero(outcomes, axis=1)
    every = [comb(len(i), k) * 2**k for k in range(len(i) + 1)]
    return np.asarray(np.bincount(decided, weights=cyclic, minlength=len(i) + 1) / every)


def simulate_shares(n: int) -> Floats:
    """Return the shares by adding random wins pair by pair and watching for the first cycle; always the same ones."""
    i, j = np.triu_indices(n, 1)
    pairs = len(i)
    runs = max(200, min(20_000, WORK // (n * n * pairs)))
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
    tie_rate = round_metric(found.ties.sum() / max(1, pairs.sum()))
    note = (
        f"random outcomes among {', '.join(map(str, sizes))} responses at a tie rate of {tie_rate:.3g}" if n else None
    )
    why = "random outcomes would make no cycle either" if n else NO_CASE
    return [
        Statistic("conflict/chance_rate", columns, chance, n=n, missing=missing, note=note, why=NO_CASE),
        Statistic("conflict/ratio", columns, ratio, n=n, missing=missing, why=why),
    ]


NONE_GIVEN = "no case has at least three responses and a winner or tie by this criterion for every pair"


@dataclass(frozen=True, slots=True)
class CriterionCycles:
    """What was found in each criterion's own outcomes: the sign of its margin, samples combined, the orders' mean."""

    names: tuple[str, ...]
    found: tuple[Tournaments, ...]

    @classmethod
    def of(cls, judgments: JudgmentColumns, pairs: PairColumns, how: str = "mean") -> CriterionCycles:
        """Look at every criterion; at none where there is only one, which the verdict itself then is."""
        place = pairs.find(judgments.case, judgments.i, judgments.j)
        names = judgments.names if len(judgments.names) > 1 else ()
        margins = by_criterion(judgments, place, len(pairs), how)[: len(names)]
        return cls(names, tuple(Tournaments.of(Edges(pairs, sign(margin), margin)) for margin in margins))

    def listed(self, cases: Sequence[Case]) -> dict[str, list[str]]:
        """Return the ids of the cases in which each criterion's outcomes make a cycle."""
        return {
            name: [cases[k].id for k in np.flatnonzero(found.nodes > 0).tolist()]
            for name, found in zip(self.names, self.found, strict=True)
        }


def criteria_statistics(criteria: CriterionCycles, verdicts: Tournaments) -> list[Statistic]:
    """Return `conflict/rate/<criterion>` for each criterion, and `conflict/condorcet`.

    The latter is the share of cases whose verdicts make a cycle though no criterion's outcomes do: Condorcet's paradox
    (Condorcet 1785, Essai), in which criteria stand for voters.
    """
    rates = [
        _rate(f"conflict/rate/{name}", found.nodes > 0, found.whole, found.lacking > 0)
        for name, found in zip(criteria.names, criteria.found, strict=True)
    ]
    return [*rates, _paradox(criteria, verdicts)] if rates else []


def _paradox(criteria: CriterionCycles, verdicts: Tournaments) -> Statistic:
    whole = np.logical_and.reduce([verdicts.whole, *(found.whole for found in criteria.found)])
    consistent = np.logical_and.reduce([found.nodes == 0 for found in criteria.found])
    lost = (verdicts.whole | (verdicts.lacking > 0)) & ~whole
    return _rate("conflict/condorcet", consistent & (verdicts.nodes > 0), whole, lost)


def _rate(name: str, hit: Bools, among: Bools, lost: Bools) -> Statistic:
    return case_rate(name, hit, among, lost, why=NONE_GIVEN)


MOST = 12
"""Knots of up to so many responses are solved exactly: 4,096 sets of them at 12."""
CHUNK = 2**22


@dataclass(frozen=True, slots=True)
class Reversals:
    """Which wins of one case to reverse, as (winner, loser), and whether no smaller set would do."""

    wins: tuple[tuple[int, int], ...]
    exact: bool


def fewest_reversals(wins: Bools, margins: Floats) -> list[Reversals]:
    """Return for each case (cases, n, n) the fewest wins to reverse; among equally few, those of least margin.

    Exact by dynamic programming over the sets of responses of each knot (strongly connected component): the best order
    of a set is the best order of it less its last response (Lawler 1964, Manage. Sci. 11, 280-288). A knot of more
    than 12 is ordered by wins and improved by moving one response at a time: its set may not be the smallest.
    """
    cost = np.where(wins, 1 + 1e-6 * _scaled(margins), 0.0)
    found: list[list[tuple[int, int]]] = [[] for _ in wins]
    exact = [True] * len(wins)
    for members, places in _knots(wins).items():
        inside = np.array([place[1] for place in places])
        block = cost[np.array([place[0] for place in places])[:, None, None], inside[:, :, None], inside[:, None, :]]
        orders = _best_orders(block) if members <= MOST else np.stack([_good_order(matrix) for matrix in block])
        for (case, knot), order in zip(places, orders, strict=True):
            exact[case] &= members <= MOST
            found[case] += _backward(cost[case], [knot[k] for k in order])
    return [Reversals(tuple(sorted(wins_)), sure) for wins_, sure in zip(found, exact, strict=True)]


def _scaled(margins: Floats) -> Floats:
    size = np.abs(np.nan_to_num(margins))
    return size / max(1.0, float(size.max(initial=0.0)))


def knots(wins: Bools) -> list[list[int]]:
    """Return the strongly connected components of more than one response of one case, each ascending."""
    reach = closure(wins)
    mutual = reach & reach.T
    return [list(map(int, np.flatnonzero(row))) for k, row in enumerate(mutual) if row.any() and row.argmax() == k]


def _knots(wins: Bools) -> dict[int, list[tuple[int, list[int]]]]:
    """Return (case, members) of every knot, by size."""
    found: dict[int, list[tuple[int, list[int]]]] = {}
    for case, matrix in enumerate(wins):
        for knot in knots(matrix):
            found.setdefault(len(knot), []).append((case, knot))
    return found


def _best_orders(cost: Floats) -> Ints:
    """Return for each (k, k) matrix of costs the order, best first, whose backward wins cost least."""
    k = cost.shape[-1]
    step = max(1, CHUNK // (k << k))
    return np.concatenate([_solve(cost[start : start + step]) for start in range(0, len(cost), step)])


def _solve(cost: Floats) -> Ints:
    batch, k, _ = cost.shape
    behind = _summed(cost)
    best = np.full((batch, 1 << k), np.inf)
    best[:, 0] = 0.0
    last = np.zeros((batch, 1 << k), dtype=np.int64)
    for mask in range(1, 1 << k):
        inside = np.array([v for v in range(k) if mask >> v & 1])
        before = mask ^ (1 << inside)
        totals = best[:, before] + behind[:, inside, before]
        choice = totals.argmin(axis=1)
        best[:, mask], last[:, mask] = totals[np.arange(batch), choice], inside[choice]
    return _unwound(last, k)


def _summed(cost: Floats) -> Floats:
    """Return the cost of putting response v behind each set: the sum of its wins over the set's members."""
    batch, k, _ = cost.shape
    sums = np.zeros((batch, k, 1 << k))
    for mask in range(1, 1 << k):
        low = (mask & -mask).bit_length() - 1
        sums[:, :, mask] = sums[:, :, mask & (mask - 1)] + cost[:, :, low]
    return sums


def _unwound(last: Ints, k: int) -> Ints:
    batch = len(last)
    order = np.zeros((batch, k), dtype=np.int64)
    mask = np.full(batch, (1 << k) - 1)
    for place in reversed(range(k)):
        order[:, place] = last[np.arange(batch), mask]
        mask ^= 1 << order[:, place]
    return order


def _good_order(cost: Floats) -> Ints:
    """Return an order that no move of a single response improves."""
    order = [int(v) for v in np.argsort(cost.sum(axis=0) - cost.sum(axis=1), kind="stable")]
    improved = True
    while improved:
        improved = any(_moved(cost, order, v) for v in list(order))
    return np.array(order)


def _moved(cost: Floats, order: list[int], v: int) -> bool:
    """Move `v` to its cheapest place; say whether that saves anything."""
    now = order.index(v)
    rest = [u for u in order if u != v]
    # Before place p stand rest[:p], over which v's wins go backward; behind it, those whose wins over v do.
    costs = [cost[v, rest[:p]].sum() + cost[rest[p:], v].sum() for p in range(len(order))]
    place = int(np.argmin(costs))
    if costs[place] >= costs[now] - 1e-9:
        return False
    order[:] = [*rest[:place], v, *rest[place:]]
    return True


def _backward(cost: Floats, order: list[int]) -> list[tuple[int, int]]:
    return [(v, u) for place, v in enumerate(order) for u in order[:place] if cost[v, u] > 0]


LISTED = 100
"""So many cycles of one case are listed, shortest first; a knot of eight can hold thousands."""
STEPS = 200_000
"""So many steps are taken in search of them."""


def cyclic_cases(edges: Edges) -> Iterator[tuple[Ints, Bools, Floats]]:
    """Yield, by size, the cases whose strict wins make a cycle, their wins and the sizes of the margins behind them."""
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
    """Return how many verdicts of each case to reverse, and an entry for each case with a cycle, in case order."""
    counts = np.zeros(len(cases), dtype=np.int64)
    found: dict[int, dict[str, Any]] = {}
    for used, wins, margins in cyclic_cases(edges):
        for case, matrix, reversals in zip(used.tolist(), wins, fewest_reversals(wins, margins), strict=True):
            counts[case] = len(reversals.wins)
            found[case] = _entry(cases[case], matrix, reversals)
    return counts, [found[case] for case in sorted(found)]


def _entry(case: Case, wins: Bools, reversals: Reversals) -> dict[str, Any]:
    cycles = shortest_cycles(wins, LISTED + 1)
    return {
        "case_id": case.id,
        "responses": [int(k) for k in np.flatnonzero(in_cycle(wins))],
        "models": [response.model for response in case.responses],
        "cycles": [list(cycle) for cycle in cycles[:LISTED]],
        "more_cycles": len(cycles) > LISTED,
        "reverse": [list(pair) for pair in reversals.wins],
        "fewest": reversals.exact,
    }


def cycles_among(verdicts: Sequence[Verdict], most: int = LISTED) -> list[tuple[int, ...]]:
    """Return up to `most` cycles of wins among one case's verdicts, shortest first, each by response indices."""
    won = [v.unit if v.winner == "A" else v.unit[::-1] for v in verdicts if len(v.unit) == 2 and v.winner in ("A", "B")]
    wins = np.zeros((1 + max((max(pair) for pair in won), default=0),) * 2, dtype=bool)
    for better, worse in won:
        wins[better, worse] = True
    return shortest_cycles(wins, most)


def shortest_cycles(wins: Bools, most: int) -> list[tuple[int, ...]]:
    """Return up to `most` cycles without repeated responses, shortest first, each from its smallest response on."""
    walks = chain.from_iterable(
        _walk(wins, knot, (start,), length)
        for length in range(3, len(wins) + 1)
        for knot in knots(wins)
        if length <= len(knot)
        for start in knot
    )
    cycles = (cycle for cycle in islice(walks, STEPS) if cycle is not None)
    return list(islice(cycles, most))


def _walk(wins: Bools, knot: list[int], path: tuple[int, ...], length: int) -> Iterator[tuple[int, ...] | None]:
    """Yield the cycles of a length that continue a path, and none for each step on the way."""
    start, here = path[0], path[-1]
    if len(path) == length:
        yield path if wins[here, start] else None
        return
    yield None
    for ahead in knot:
        if ahead > start and wins[here, ahead] and ahead not in path:
            yield from _walk(wins, knot, (*path, ahead), length)
