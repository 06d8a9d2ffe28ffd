"""Elo's ratings: what a run of games in some order makes of them, over many orders."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalkit.scoring.columns import Floats, Ints
from evalkit.scoring.systems import Games

Places: TypeAlias = NDArray[np.integer[Any]]

STEP = 16.0
SCALE = 400.0
ORDERS = 200
WORK = 4_000_000
"""So many games are played over all orders; with more, each order is a random part of them."""


def elo(systems: int, i: Places, j: Places, score: NDArray[Any], *, step: float = STEP) -> Floats:
    """Return Elo's ratings, of mean 0, after games played from left to right, a row for each sequence.

    `score` is 1 where i won, 0.5 for a tie; NaN is no game. After each, step × (score - expected) moves from one to the
    other, expected being 1/(1 + 10^((r_j - r_i)/400)) (Elo 1978, The Rating of Chessplayers, section 1.6).
    """
    ratings = np.zeros((len(i), systems))
    row = np.arange(len(i))
    for first, second, result in zip(i.T, j.T, score.T, strict=True):
        expected = 1 / (1 + 10 ** ((ratings[row, second] - ratings[row, first]) / SCALE))
        move = np.where(np.isnan(result), 0.0, step * (result - expected))
        ratings[row, first] += move
        ratings[row, second] -= move
    return ratings


def elo_over_orders(games: Games, *, resampled: bool, seed: int, orders: int = ORDERS) -> Floats:
    """Return the ratings after each of many random orders of all games, or of the games of resampled clusters."""
    generator = np.random.default_rng(seed)
    again = deepcopy(generator)
    clusters, place = np.unique(games.cluster, return_inverse=True)

    def drawn(source: np.random.Generator) -> Ints:
        """Return the games of as many clusters, drawn with replacement, as have games; or all of them."""
        if not resampled:
            return np.arange(len(games))
        times = np.bincount(source.integers(0, len(clusters), len(clusters)), minlength=len(clusters))
        return np.repeat(np.arange(len(games)), times[place])

    # Drawn twice over, so that not all of all orders is held at once.
    longest = max(len(drawn(generator)) for _ in range(orders))
    most = min(longest, max(1, WORK // orders))
    table = np.full((orders, most), -1, dtype=np.int32)
    for row in table:
        chosen = generator.permutation(drawn(again))[:most]
        row[: len(chosen)] = chosen
    score = np.where(table < 0, np.nan, (games.winner.astype(np.float32)[table] + 1) / 2)
    i, j = (side.astype(np.int32)[table] for side in (games.i, games.j))
    return elo(len(games.names), i, j, score)
