"""How often random outcomes among n responses make a cycle: without it a conflict rate means nothing."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import comb, exp, lgamma, log

import numpy as np

from evalkit.scoring.columns import Bools, Floats

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
