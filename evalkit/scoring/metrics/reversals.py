"""Which preferences contradict each other: the fewest to reverse, and the shortest cycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import numpy as np

from evalkit.core.types import Case, Verdict
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.columns import NONE
from evalkit.scoring.metrics.preference_graphs import (
    Edges,
    closure,
    groups,
    in_cycle,
    matrices,
)
from evalkit.scoring.stats.arrays import (
    Bools,
    Floats,
    Ints,
)

MAX_EXACT_KNOT = 12
"""Strongly connected components of up to this size are solved exactly: 4,096 subsets for 12."""
CHUNK = 2**22


@frozen
class Reversals:
    """The wins of one case to reverse, as (winner, loser), and whether no smaller set exists."""

    wins: tuple[tuple[int, int], ...]
    exact: bool


def fewest_reversals(wins: Bools, margins: Floats) -> list[Reversals]:
    """Return the minimum set of wins to reverse for each case.

    Ties are broken by the smallest margins.

    Strongly connected components ("knots") of up to 12 responses are solved exactly by dynamic
    programming over subsets: the best order of a set is the best order of the set without its last
    response (Lawler 1964, Manage. Sci. 11, 280-288). Larger ones are ordered by wins and improved
    by moving one response at a time, so their set may not be minimal.

    Args:
        wins: (cases, n, n) row beats column.
        margins: (cases, n, n) the margins.
    """
    size = np.abs(np.nan_to_num(margins))
    largest = max(1.0, float(size.max(initial=0.0)))
    # The smaller the margins, the cheaper: they only break ties between equal numbers of wins.
    cost_of_win = 1 + 1e-6 * size / largest
    cost = np.where(wins, cost_of_win, 0.0)
    by_size: dict[int, list[tuple[int, list[int]]]] = {}
    for case, matrix in enumerate(wins):
        for knot in knots(matrix):
            by_size.setdefault(len(knot), []).append((case, knot))
    reversed_wins: list[list[tuple[int, int]]] = [[] for _ in wins]
    exact = [True] * len(wins)
    for members, occurrences in by_size.items():
        costs = []
        for case, knot in occurrences:
            within_knot = np.ix_(knot, knot)
            costs.append(cost[case][within_knot])
        # shape (knots, members, members)
        block = np.stack(costs)
        is_exact = members <= MAX_EXACT_KNOT
        orders: Iterable[Iterable[int]]
        if is_exact:
            orders = _best_orders(block)
        else:
            orders = [_local_optimum(matrix) for matrix in block]
        with_orders = zip(occurrences, orders, strict=True)
        for (case, knot), positions in with_orders:
            exact[case] &= is_exact
            # position in the knot -> response of the case
            order = [knot[k] for k in positions]
            reversed_wins[case] += _backward(cost[case], order)
    return [
        Reversals(tuple(sorted(backward)), sure)
        for backward, sure in zip(reversed_wins, exact, strict=True)
    ]


def _backward(cost: Floats, order: Sequence[int]) -> list[tuple[int, int]]:
    """Return the wins over a response that is earlier in an order, as (winner, loser)."""
    backward: list[tuple[int, int]] = []
    for position, winner in enumerate(order):
        # A win has a cost, and nothing else has.
        earlier = order[:position]
        beaten = [loser for loser in earlier if cost[winner, loser] > 0]
        backward += [(winner, loser) for loser in beaten]
    return backward


def knots(wins: Bools) -> list[list[int]]:
    """Return the strongly connected components of one case with more than one response,
    ascending.
    """
    reach = closure(wins)
    mutual = reach & reach.T
    components = []
    for k, row in enumerate(mutual):
        # Each component once: by the row of its first response.
        is_first = row.argmax() == k
        if row.any() and is_first:
            members = np.flatnonzero(row)
            components.append(members.tolist())
    return components


def _best_orders(cost: Floats) -> Ints:
    """Return the order with the smallest cost of backward wins for each matrix, best first.

    Args:
        cost: (knots, k, k) the cost of a win of row over column.
    """
    k = cost.shape[-1]
    # Each knot needs k numbers for each of 2^k sets.
    numbers = k << k
    step = max(1, CHUNK // numbers)
    orders = []
    for start in range(0, len(cost), step):
        chunk = cost[start : start + step]
        orders.append(_solve(chunk))
    return np.concatenate(orders)


def _solve(cost: Floats) -> Ints:
    """Return the best orders of a batch of knots, (knots, k), by dynamic programming
    over subsets.
    """
    batch, k, _ = cost.shape
    rows = np.arange(batch)
    # Bit v of a set stands for response v.
    sets = 1 << k
    # shape (knots, responses, sets): the cost of a response behind all of a set
    behind = np.zeros((batch, k, sets))
    # shape (knots, sets): the lowest cost of an order of a set, and the last response of that order
    best = np.zeros((batch, sets))
    last = np.zeros((batch, sets), dtype=np.int64)
    for mask in range(1, sets):
        bits = [v for v in range(k) if mask >> v & 1]
        members = np.array(bits)
        # The cost of a response behind a set: its wins over the members.
        without_first = mask & (mask - 1)
        over_first = cost[:, :, members[0]]
        behind[:, :, mask] = behind[:, :, without_first] + over_first
        # the set without each of its members
        member_bits = 1 << members
        before = mask ^ member_bits
        # shape (knots, members)
        cost_behind = behind[:, members, before]
        totals = best[:, before] + cost_behind
        choice = totals.argmin(axis=1)
        best[:, mask] = totals[rows, choice]
        last[:, mask] = members[choice]
    order = np.zeros((batch, k), dtype=np.int64)
    remaining = np.full(batch, sets - 1)
    # Going back from the full set gives the order from its end.
    for position in reversed(range(k)):
        response = last[rows, remaining]
        order[:, position] = response
        remaining ^= 1 << response
    return order


def _local_optimum(cost: Floats) -> list[int]:
    """Return an order that no move of a single response improves."""
    lost = cost.sum(axis=0)
    won = cost.sum(axis=1)
    balance = lost - won
    by_balance = np.argsort(balance, kind="stable")
    order: list[int] = by_balance.tolist()
    improved = True
    while improved:
        improved = any(_move(cost, order, v) for v in list(order))
    return order


def _move(cost: Floats, order: list[int], v: int) -> bool:
    """Move `v` to its cheapest position, and return whether that reduces the cost."""
    remaining = [u for u in order if u != v]
    # At position p, v's wins over rest[:p] are backward, and so are the wins of rest[p:] over v.
    costs = []
    for p in range(len(order)):
        wins_of_v = cost[v, remaining[:p]].sum()
        wins_over_v = cost[remaining[p:], v].sum()
        costs.append(wins_of_v + wins_over_v)
    position = int(np.argmin(costs))
    current = costs[order.index(v)]
    if costs[position] >= current - 1e-9:
        return False
    remaining.insert(position, v)
    order[:] = remaining
    return True


MAX_CYCLES = 100
"""At most this many cycles of one case are listed, shortest first; a knot of eight can contain
thousands."""


MAX_STEPS = 200_000
"""At most this many steps are taken to find them."""


def list_conflicts(
    cases: Sequence[Case], edges: Edges
) -> tuple[Ints, list[JsonObject]]:
    """Return the number of verdicts to reverse in each case, and an entry for each case
    with a cycle.

    Entries are in the order of the cases.
    """
    counts = np.zeros(len(cases), dtype=np.int64)
    entries: dict[int, JsonObject] = {}
    for case, winners in groups(edges.pairs, edges.winner):
        complete = (winners != NONE).all(axis=1)
        wins, _ = matrices(winners[complete])
        # shape (complete cases,)
        cyclic = in_cycle(wins).any(axis=1)
        complete_cases = case[complete]
        used = complete_cases[cyclic]
        wins = wins[cyclic]
        n = wins.shape[-1]
        # shape (cases, n, n)
        margins = np.zeros((len(used), n, n))
        i, j = np.triu_indices(n, 1)
        # (cases, pairs): the pairs of a case follow each other.
        start = edges.pairs.start[used]
        pair = start[:, None] + np.arange(len(i))
        margin = edges.margin[pair]
        margins[:, i, j] = margin
        margins[:, j, i] = margin
        all_reversals = fewest_reversals(wins, margins)
        for number, matrix, reversals in zip(
            used.tolist(),
            wins,
            all_reversals,
            strict=True,
        ):
            counts[number] = len(reversals.wins)
            entries[number] = _case_entry(cases[number], matrix, reversals)
    return counts, [entries[number] for number in sorted(entries)]


def _case_entry(case: Case, wins: Bools, reversals: Reversals) -> JsonObject:
    """Return the entry of a case with a cycle: who is in one, the cycles, and what to reverse.

    Args:
        case: the case.
        wins: (n, n) row beats column.
        reversals: the wins to reverse.
    """
    in_cycles = np.flatnonzero(in_cycle(wins))
    # One more than are listed shows whether there are more.
    cycles = shortest_cycles(wins, MAX_CYCLES + 1)
    listed = cycles[:MAX_CYCLES]
    return {
        "case_id": case.id,
        "responses": in_cycles.tolist(),
        "models": [response.model for response in case.responses],
        "cycles": [list(cycle) for cycle in listed],
        "more_cycles": len(cycles) > MAX_CYCLES,
        "reverse": [list(pair) for pair in reversals.wins],
        "fewest": reversals.exact,
    }


def cycles_among(
    verdicts: Sequence[Verdict], limit: int = MAX_CYCLES
) -> list[tuple[int, ...]]:
    """Return up to `limit` cycles of wins among one case's verdicts, shortest first.

    A cycle is a tuple of response indices.
    """
    # (better, worse) responses
    won = []
    for verdict in verdicts:
        if len(verdict.unit) != 2:
            continue
        if verdict.winner == "A":
            won.append(verdict.unit)
        elif verdict.winner == "B":
            won.append(verdict.unit[::-1])
    last = max((max(pair) for pair in won), default=0)
    size = 1 + last
    wins = np.zeros((size, size), dtype=bool)
    for better, worse in won:
        wins[better, worse] = True
    return shortest_cycles(wins, limit)


def shortest_cycles(wins: Bools, limit: int) -> list[tuple[int, ...]]:
    """Return up to `limit` simple cycles, shortest first, each starting at its smallest
    response.
    """
    walks = chain.from_iterable(
        _extend_path(wins, knot, (start,), length)
        for length in range(3, len(wins) + 1)
        for knot in knots(wins)
        if length <= len(knot)
        for start in knot
    )
    cycles = (cycle for cycle in islice(walks, MAX_STEPS) if cycle is not None)
    return list(islice(cycles, limit))


def _extend_path(
    wins: Bools, knot: list[int], path: tuple[int, ...], length: int
) -> Iterator[tuple[int, ...] | None]:
    """Yield the cycles of a length that extend a path, and `None` for each step of the search."""
    start = path[0]
    end = path[-1]
    if len(path) == length:
        closes = wins[end, start]
        yield path if closes else None
        return
    yield None
    for ahead in knot:
        if ahead <= start or ahead in path:
            continue
        if wins[end, ahead]:
            yield from _extend_path(wins, knot, (*path, ahead), length)
