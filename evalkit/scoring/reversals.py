"""The fewest verdicts whose reversal leaves no cycle: the minimum feedback arc set of a case's wins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalkit.scoring.chance import closure
from evalkit.scoring.columns import Bools, Floats, Ints

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
