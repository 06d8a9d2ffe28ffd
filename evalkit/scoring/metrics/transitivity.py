"""Conflicts among the responses of a case: cycles of wins, and ties that are not transitive.

`scoring.conflict_edges` defines what counts as an edge. A case counts if it has at least three
responses and every pair of them has an outcome under that rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice, product
from math import comb, exp, lgamma, log

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.display import visible
from evalkit.core.types import Case, Metric, Verdict
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.columns import NONE, TIE, A, B, PairColumns, VerdictColumns, sign
from evalkit.scoring.judgments import JudgmentColumns
from evalkit.scoring.stats.arrays import (
    Bools,
    Codes,
    Floats,
    Ints,
    divide,
    round_metric,
)
from evalkit.scoring.stats.bootstrap import (
    Measures,
    Statistic,
    Table,
    Tabled,
    Tally,
    mean_of,
    ratio,
)
from evalkit.scoring.verdicts.pairs import by_criterion


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
    """Yield the cases of each size of at least three, with the winners of their pairs (cases, pairs)."""
    for n in np.unique(pairs.sizes[pairs.sizes >= 3]):
        case = np.flatnonzero(pairs.sizes == n)
        yield case, winners[pairs.start[case][:, None] + np.arange(n * (n - 1) // 2)]


def matrices(winners: Codes) -> tuple[Bools, Bools]:
    """Return wins (row beats column) and ties as (cases, n, n) matrices."""
    # the n with n (n - 1) / 2 pairs
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

    It is exact for n up to 5. Beyond, it comes from a seeded simulation of when the first cycle
    closes as random outcomes are added pair by pair, mixed exactly over the number of decided
    pairs, so that it is smooth in the tie rate.
    """
    from scipy.special import gammaln, xlogy

    cyclic = cyclic_shares(n)
    pairs = len(cyclic) - 1
    k = np.arange(pairs + 1)
    ways = gammaln(pairs + 1) - gammaln(k + 1) - gammaln(pairs - k + 1)
    ties = np.asarray(tie_rate, dtype=np.float64)[..., None]
    return np.asarray(
        np.exp(ways + xlogy(k, 1 - ties) + xlogy(pairs - k, ties)) @ cyclic
    )


def chance_rate_both_ways(n: int, tie_rate: Floats) -> Floats:
    """Return P(some cycle) among `n` responses if a tie is an edge in both directions: only the n! orders have none."""
    pairs = n * (n - 1) // 2
    orders = exp(lgamma(n + 1) - pairs * log(2))
    return np.asarray(
        1 - (1 - np.asarray(tie_rate, dtype=np.float64)) ** pairs * orders
    )


@cache
def cyclic_shares(n: int) -> Floats:
    """Return, for each number of decided pairs, the share of random outcomes among `n` responses with a cycle."""
    if n <= EXACT_SIZE:
        return enumerate_shares(n)
    return simulate_shares(n)


def enumerate_shares(n: int) -> Floats:
    """Return the shares by enumerating every outcome of every pair."""
    pairs = n * (n - 1) // 2
    # shape (outcomes, pairs)
    outcomes = np.array(list(product((A, TIE, B), repeat=pairs)), dtype=np.int8)
    # shape (outcomes,)
    cyclic = in_cycle(matrices(outcomes)[0]).any(axis=1)
    decided = np.count_nonzero(outcomes, axis=1)
    # decided pairs -> number of outcomes: which are decided, and who wins each
    every = [comb(pairs, k) * 2**k for k in range(pairs + 1)]
    return np.asarray(np.bincount(decided, weights=cyclic, minlength=pairs + 1) / every)


def simulate_shares(n: int) -> Floats:
    """Return the shares by adding random wins pair by pair until the first cycle, with a fixed seed."""
    i, j = np.triu_indices(n, 1)
    pairs = len(i)
    runs = max(200, min(20_000, SIMULATION_WORK // (n * n * pairs)))
    generator = np.random.default_rng(0)
    # shape (runs, pairs): a random order of the pairs
    order = np.argsort(generator.random((runs, pairs)), axis=1)
    flipped = generator.random((runs, pairs)) < 0.5
    winner = np.where(flipped, j[order], i[order])
    loser = np.where(flipped, i[order], j[order])
    # shape (runs, n, n): whether a path of wins leads from row to column, or they are equal
    reach = np.broadcast_to(np.eye(n, dtype=bool), (runs, n, n)).copy()
    cyclic = np.zeros(runs, dtype=bool)
    rows = np.arange(runs)
    shares = [0.0]
    for step in range(pairs):
        w = winner[:, step]
        v = loser[:, step]
        # The win closes a cycle if the loser already reaches the winner.
        cyclic |= reach[rows, v, w]
        reach |= reach[rows, :, w][:, :, None] & reach[rows, v, :][:, None, :]
        shares.append(float(cyclic.mean()))
    return np.array(shares)


AMONG = "over cases with at least three responses and a verdict on every pair"
NO_CASE = "no case has at least three responses and a verdict on every pair"
BY_RANKING = (
    "one ranking has no cycles: only rankings of different orders, samples or responses can"
    " form one"
)
BY_SCORE = "0 by construction: one score per response cannot make a cycle"


@frozen
class Tournaments:
    """What the edges of each case contain.

    Attributes:
        size: (cases,) the number of responses.
        complete: (cases,) whether it has at least three responses and an outcome for every pair.
        nodes: (cases,) the number of responses in cycles.
        triads: (cases,) the number of cyclic triples.
        weak: (cases,) whether its ties are intransitive.
        ties: (cases,) the number of ties.
        incomplete: (cases,) whether it has at least three responses and lacks an outcome, and none
            is withheld.
        both_ways: whether a tie is an edge in both directions.
    """

    size: Ints
    complete: Bools
    nodes: Ints
    triads: Ints
    weak: Bools
    ties: Ints
    incomplete: Bools
    both_ways: bool

    @classmethod
    def of(cls, edges: Edges) -> Tournaments:
        """Return the tournaments of the edges of every case."""
        sizes = edges.pairs.sizes
        complete, incomplete, weak = (
            np.zeros(len(sizes), dtype=bool) for _ in range(3)
        )
        nodes, triads, ties = (np.zeros(len(sizes), dtype=np.int64) for _ in range(3))
        for case, winners in groups(edges.pairs, edges.winner):
            decided = (winners != NONE).all(axis=1)
            # shape (cases of this size, pairs): rows of the pairs
            pairs = edges.pairs.start[case][:, None] + np.arange(winners.shape[1])
            complete[case], incomplete[case] = (
                decided,
                ~decided & ~edges.withheld[pairs].any(axis=1),
            )
            used = case[decided]
            wins, tied = matrices(winners[decided])
            beats = wins | tied if edges.both_ways else wins
            nodes[used], triads[used] = (
                in_cycle(beats).sum(axis=1),
                cyclic_triads(beats),
            )
            weak[used], ties[used] = (
                weak_violation(wins, tied),
                (winners[decided] == TIE).sum(axis=1),
            )
        return cls(
            sizes, complete, nodes, triads, weak, ties, incomplete, edges.both_ways
        )

    @property
    def pairs(self) -> Ints:
        """The number of pairs of responses of each case, (cases,)."""
        return self.size * (self.size - 1) // 2

    @property
    def triples(self) -> Ints:
        """The number of triples of responses of each case, (cases,)."""
        return self.pairs * (self.size - 2) // 3

    def rate(
        self, name: str, hit: Bools, note: str | None = None, why: str = NO_CASE
    ) -> Statistic:
        """Return the share of complete cases in `hit`."""
        return Tally.each(len(hit)).rate(
            name, hit, self.complete, self.incomplete, note=note, why=why
        )

    def total(self, name: str, counts: Ints, maximum: Ints) -> Statistic:
        """Return a count summed over cases.

        Args:
            name: the metric's name.
            counts: (cases,) the count of each case.
            maximum: (cases,) the largest possible count of each case.
        """
        n, missing = (
            int(maximum[rows].sum()) for rows in (self.complete, self.incomplete)
        )
        low = float(counts.sum())
        return Statistic(
            f"conflict/{name}",
            [counts, self.complete],
            lambda totals: np.where(totals[:, 1] > 0, totals[:, 0], np.nan),
            n=n,
            missing=missing,
            worst=(low, low + missing) if self.complete.any() else (None, None),
            limits=(0.0, float(n)),
            note="a total, not a share",
            why=NO_CASE,
        )


def cyclic_triads(beats: Bools) -> Ints:
    """Return the number of triples that beat one another in a cycle, for (cases, n, n) matrices.

    A third of the closed walks of length three are cycles; a triple with all edges in both
    directions contains two.
    """
    both = beats & np.swapaxes(beats, 1, 2)
    walks, there_and_back = (
        np.einsum("cij,cji->c", (m := edges.astype(np.int64)) @ m, m)
        for edges in (beats, both)
    )
    return np.asarray(walks // 3 - there_and_back // 6)


def weak_violation(wins: Bools, tied: Bools) -> Bools:
    """Return which cases have intransitive ties: A ~ B and B ~ C, but A > C."""
    violated = np.zeros(len(wins), dtype=bool)
    # wins and tied: shape (cases, n, n)
    for middle in range(wins.shape[-1]):
        violated |= (wins & tied[:, :, middle, None] & tied[:, None, middle, :]).any(
            axis=(1, 2)
        )
    return violated


def conflict_statistics(config: RunConfig, verdicts: VerdictColumns) -> Measures:
    """Return the `conflict/` metrics; for verdicts implied by scores, those on cycles of wins are 0."""
    edges = edges_of(config, verdicts)
    tournaments = Tournaments.of(edges)
    weak = tournaments.rate(
        "conflict/weak_rate", tournaments.weak, f"A ~ B and B ~ C, but A > C; {AMONG}"
    )
    if verdicts.passes is None and not edges.both_ways:
        maxima = {
            "rate": np.ones_like(tournaments.size),
            "nodes": tournaments.size,
            "triads": tournaments.triples,
        }
        zeros = []
        for name, maximum in maxima.items():
            n = int(maximum[tournaments.complete].sum())
            missing = int(maximum[tournaments.incomplete].sum())
            zero = Metric(
                f"conflict/{name}", 0.0, 0.0, 0.0, n, missing, 0.0, 0.0, BY_SCORE
            )
            zeros.append(
                zero
                if n
                else Metric(f"conflict/{name}", None, missing=missing, note=NO_CASE)
            )
        return [*zeros, weak]
    if edges.both_ways:
        note = f"a tie is an edge in both directions, so every tie is a cycle; {AMONG}"
    else:
        note = AMONG
    note += f"; {BY_RANKING}" if verdicts.listed else ""
    return [
        tournaments.rate("conflict/rate", tournaments.nodes > 0, note),
        tournaments.total("nodes", tournaments.nodes, tournaments.size),
        tournaments.total("triads", tournaments.triads, tournaments.triples),
        _zeta(tournaments),
        *_against_chance(tournaments),
        weak,
    ]


def _zeta(tournaments: Tournaments) -> Statistic:
    """Return Kendall's coefficient of consistence, pooled over case sizes.

    It is 1 minus the number of cyclic triads divided by its maximum, (n³ - n)/24 for odd and (n³ -
    4n)/24 for even n (Kendall and Babington Smith 1940, Biometrika 31, 324-345). It is defined if
    every pair has a winner; cases with a tie are omitted.
    """
    maximum = (
        tournaments.size**3 - np.where(tournaments.size % 2, 1, 4) * tournaments.size
    ) // 24
    decided = tournaments.complete & (tournaments.ties == 0)
    tied = int((tournaments.complete & ~decided).sum())
    return Statistic(
        "conflict/zeta",
        [np.where(decided, tournaments.triads, 0), np.where(decided, maximum, 0)],
        lambda totals: 1 - mean_of(totals),
        n=int(decided.sum()),
        covered=decided,
        missing=int(tournaments.incomplete.sum()),
        proportion=True,
        note=(
            f"over cases with a winner in every pair; {tied} with a tie are omitted"
            if tied
            else None
        ),
        why=(
            f"every case has a tie, and zeta needs cases without ties ({tied} cases)"
            if tied
            else NO_CASE
        ),
    )


def _against_chance(tournaments: Tournaments) -> list[Statistic]:
    """Return the probability of a cycle at each case's size and the pooled tie rate, and the conflict rate over it."""
    sizes = [int(n) for n in np.unique(tournaments.size[tournaments.complete])]
    pairs = np.where(tournaments.complete, tournaments.pairs, 0)
    random = chance_rate_both_ways if tournaments.both_ways else chance_rate
    by_size = [tournaments.complete & (tournaments.size == n) for n in sizes]
    table = Table.of(
        [tournaments.nodes > 0, tournaments.ties, pairs, tournaments.complete, *by_size]
    )

    def chance(totals: Floats) -> Floats:
        # A resample without complete cases has no tie rate; its number of cases, 0, makes the
        # result undefined.
        tie_rate = np.nan_to_num(ratio(1, 2, totals))
        # Columns 4 and up count the complete cases of each size.
        expected = sum(
            (totals[:, 4 + k] * random(n, tie_rate) for k, n in enumerate(sizes)),
            np.zeros(len(totals)),
        )
        return divide(expected, totals[:, 3])

    def over_chance(totals: Floats) -> Floats:
        return divide(ratio(0, 3, totals), chance(totals))

    n, missing = int(tournaments.complete.sum()), int(tournaments.incomplete.sum())
    tie_rate = round_metric(tournaments.ties.sum() / max(1, pairs.sum()))
    if n:
        note = (
            f"random outcomes among {', '.join(map(str, sizes))} responses at a tie rate of"
            f" {tie_rate:.3g}"
        )
    else:
        note = None
    why = "random outcomes would make no cycle either" if n else NO_CASE
    most = float(divide(np.ones(1), chance(table.sums[None]))[0])
    return [
        Statistic(
            "conflict/chance_rate",
            table,
            chance,
            n=n,
            missing=missing,
            note=note,
            why=NO_CASE,
        ),
        Statistic(
            "conflict/ratio",
            table,
            over_chance,
            n=n,
            missing=missing,
            limits=(0.0, most),
            why=why,
        ),
    ]


NO_CRITERION_CASE = (
    "no case has at least three responses and a "
    "winner or tie by this criterion for every pair"
)


def cycle_results(
    config: RunConfig,
    cases: Sequence[Case],
    compared: VerdictColumns,
    judgments: JudgmentColumns,
) -> Tabled:
    """Return the metrics of the verdicts to reverse and of cycles by criterion, and the content of conflicts.json.

    `conflict/reversals` is the minimum number of verdicts to reverse so that no case contains a
    cycle. With several criteria, `conflict/rate/<criterion>` is about the sign of each one's
    margin, samples combined and orders averaged, and `conflict/condorcet` is the share of cases
    whose verdicts contain a cycle although no criterion's outcomes do: Condorcet's paradox with
    criteria as voters (Condorcet 1785, Essai).

    Args:
        config: the run's config.
        cases: the cases.
        compared: the verdicts of a judge that compares; single scores have no cycles of wins.
        judgments: all judgments.
    """
    verdicts = compared
    rule = "mean" if len(judgments.by) > 1 else config.scoring.combine
    edges = edges_of(config, verdicts)
    judgments = verdicts.judgments
    pairs = verdicts.pairs
    counts, entries = list_conflicts(cases, edges)
    whole = Tournaments.of(edges)
    measures = [whole.total("reversals", counts, whole.pairs)]
    margins = by_criterion(judgments, pairs.rows(judgments), len(pairs), rule)
    criteria = {}  # a single criterion is the verdict itself
    for name, margin in (
        zip(judgments.names, margins, strict=False) if len(judgments.names) > 1 else ()
    ):
        criteria[name] = Tournaments.of(
            Edges(pairs, sign(margin), margin, verdicts.withheld)
        )
    listed = {
        name: [cases[k].id for k in np.flatnonzero(of.nodes > 0).tolist()]
        for name, of in criteria.items()
    }
    measures += [
        of.rate(f"conflict/rate/{visible(name)}", of.nodes > 0, why=NO_CRITERION_CASE)
        for name, of in criteria.items()
    ]
    if criteria:
        complete = np.logical_and.reduce(
            [of.complete for of in (whole, *criteria.values())]
        )
        consistent = np.logical_and.reduce([of.nodes == 0 for of in criteria.values()])
        every = replace(
            whole,
            complete=complete,
            incomplete=(whole.complete | whole.incomplete) & ~complete,
        )
        paradox = consistent & (whole.nodes > 0)
        measures.append(
            every.rate("conflict/condorcet", paradox, why=NO_CRITERION_CASE)
        )
    return measures, {
        "conflicts": {
            "edges": config.scoring.conflict_edges,
            "cases": entries,
            "criteria": listed,
        }
    }


MAX_EXACT_KNOT = 12
"""Strongly connected components of up to this size are solved exactly: 4,096 subsets for 12."""
CHUNK = 2**22


@frozen
class Reversals:
    """The wins of one case to reverse, as (winner, loser), and whether no smaller set exists."""

    wins: tuple[tuple[int, int], ...]
    exact: bool


def fewest_reversals(wins: Bools, margins: Floats) -> list[Reversals]:
    """Return the minimum set of wins to reverse for each case; ties are broken by the smallest margins.

    Strongly connected components ("knots") of up to 12 responses are solved exactly by dynamic
    programming over subsets: the best order of a set is the best order of the set without its last
    response (Lawler 1964, Manage. Sci. 11, 280-288). Larger ones are ordered by wins and improved
    by moving one response at a time, so their set may not be minimal.

    Args:
        wins: (cases, n, n) row beats column.
        margins: (cases, n, n) the margins.
    """
    size = np.abs(np.nan_to_num(margins))
    # The smaller the margins, the cheaper: they only break ties between equal numbers of wins.
    cost = np.where(wins, 1 + 1e-6 * size / max(1.0, float(size.max(initial=0.0))), 0.0)
    by_size: dict[int, list[tuple[int, list[int]]]] = {}
    for case, matrix in enumerate(wins):
        for knot in knots(matrix):
            by_size.setdefault(len(knot), []).append((case, knot))
    reversed_wins: list[list[tuple[int, int]]] = [[] for _ in wins]
    exact = [True] * len(wins)
    for members, occurrences in by_size.items():
        # shape (knots, members, members)
        block = np.stack([cost[case][np.ix_(knot, knot)] for case, knot in occurrences])
        orders = (
            _best_orders(block)
            if members <= MAX_EXACT_KNOT
            else [_local_optimum(matrix) for matrix in block]
        )
        for (case, knot), positions in zip(occurrences, orders, strict=True):
            exact[case] &= members <= MAX_EXACT_KNOT
            order = [knot[k] for k in positions]
            reversed_wins[case] += [
                (v, u)
                for k, v in enumerate(order)
                for u in order[:k]
                if cost[case][v, u] > 0
            ]
    return [
        Reversals(tuple(sorted(backward)), sure)
        for backward, sure in zip(reversed_wins, exact, strict=True)
    ]


def knots(wins: Bools) -> list[list[int]]:
    """Return the strongly connected components of more than one response of one case, in ascending order."""
    reach = closure(wins)
    mutual = reach & reach.T
    return [
        list(map(int, np.flatnonzero(row)))
        for k, row in enumerate(mutual)
        if row.any() and row.argmax() == k
    ]


def _best_orders(cost: Floats) -> Ints:
    """Return for each (k, k) cost matrix the order, best first, with the smallest cost of backward wins."""
    k = cost.shape[-1]
    step = max(1, CHUNK // (k << k))
    return np.concatenate(
        [_solve(cost[start : start + step]) for start in range(0, len(cost), step)]
    )


def _solve(cost: Floats) -> Ints:
    batch, k, _ = cost.shape
    rows = np.arange(batch)
    # shape (knots, responses, sets): bit v of a set stands for response v
    behind = np.zeros((batch, k, 1 << k))
    best = np.zeros((batch, 1 << k))
    last = np.zeros((batch, 1 << k), dtype=np.int64)
    for mask in range(1, 1 << k):
        members = np.array([v for v in range(k) if mask >> v & 1])
        # The cost of a response behind a set: its wins over the members.
        behind[:, :, mask] = behind[:, :, mask & (mask - 1)] + cost[:, :, members[0]]
        # the set without each of its members
        before = mask ^ (1 << members)
        # shape (knots, members)
        totals = best[:, before] + behind[:, members, before]
        choice = totals.argmin(axis=1)
        best[:, mask], last[:, mask] = totals[rows, choice], members[choice]
    order = np.zeros((batch, k), dtype=np.int64)
    remaining = np.full(batch, (1 << k) - 1)
    # Going back from the full set gives the order from its end.
    for position in reversed(range(k)):
        order[:, position] = last[rows, remaining]
        remaining ^= 1 << order[:, position]
    return order


def _local_optimum(cost: Floats) -> list[int]:
    """Return an order that no move of a single response improves."""
    order = [
        int(v) for v in np.argsort(cost.sum(axis=0) - cost.sum(axis=1), kind="stable")
    ]
    improved = True
    while improved:
        improved = any(_move(cost, order, v) for v in list(order))
    return order


def _move(cost: Floats, order: list[int], v: int) -> bool:
    """Move `v` to its cheapest position, and return whether that reduces the cost."""
    remaining = [u for u in order if u != v]
    # At position p, v's wins over rest[:p] are backward, and so are the wins of rest[p:] over v.
    costs = [
        cost[v, remaining[:p]].sum() + cost[remaining[p:], v].sum()
        for p in range(len(order))
    ]
    position = int(np.argmin(costs))
    if costs[position] >= costs[order.index(v)] - 1e-9:
        return False
    order[:] = [*remaining[:position], v, *remaining[position:]]
    return True


MAX_CYCLES = 100
"""At most this many cycles of one case are listed, shortest first; a knot of eight can contain
thousands."""
MAX_STEPS = 200_000
"""At most this many steps are taken to find them."""


def list_conflicts(
    cases: Sequence[Case], edges: Edges
) -> tuple[Ints, list[JsonObject]]:
    """Return the number of verdicts to reverse in each case, and an entry for each case with a cycle, in case order."""
    counts = np.zeros(len(cases), dtype=np.int64)
    entries: dict[int, JsonObject] = {}
    for case, winners in groups(edges.pairs, edges.winner):
        complete = (winners != NONE).all(axis=1)
        wins, _ = matrices(winners[complete])
        cyclic = in_cycle(wins).any(axis=1)
        used, wins, n = case[complete][cyclic], wins[cyclic], wins.shape[-1]
        # shape (cases, n, n)
        margins = np.zeros((len(used), n, n))
        i, j = np.triu_indices(n, 1)
        margins[:, i, j] = margins[:, j, i] = edges.margin[
            edges.pairs.start[used][:, None] + np.arange(len(i))
        ]
        for number, matrix, reversals in zip(
            used.tolist(), wins, fewest_reversals(wins, margins), strict=True
        ):
            cycles = shortest_cycles(matrix, MAX_CYCLES + 1)
            counts[number] = len(reversals.wins)
            entries[number] = {
                "case_id": cases[number].id,
                "responses": [int(k) for k in np.flatnonzero(in_cycle(matrix))],
                "models": [response.model for response in cases[number].responses],
                "cycles": [list(cycle) for cycle in cycles[:MAX_CYCLES]],
                "more_cycles": len(cycles) > MAX_CYCLES,
                "reverse": [list(pair) for pair in reversals.wins],
                "fewest": reversals.exact,
            }
    return counts, [entries[number] for number in sorted(entries)]


def cycles_among(
    verdicts: Sequence[Verdict], limit: int = MAX_CYCLES
) -> list[tuple[int, ...]]:
    """Return up to `limit` cycles of wins among one case's verdicts, shortest first, each as response indices."""
    won = [
        v.unit if v.winner == "A" else v.unit[::-1]
        for v in verdicts
        if len(v.unit) == 2 and v.winner in ("A", "B")
    ]
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


def _walk(
    wins: Bools, knot: list[int], path: tuple[int, ...], length: int
) -> Iterator[tuple[int, ...] | None]:
    """Yield the cycles of a length that extend a path, and `None` for each step of the search."""
    start = path[0]
    here = path[-1]
    if len(path) == length:
        yield path if wins[here, start] else None
        return
    yield None
    for ahead in knot:
        if ahead > start and wins[here, ahead] and ahead not in path:
            yield from _walk(wins, knot, (*path, ahead), length)
