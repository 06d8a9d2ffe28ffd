"""Elo's ratings: what a run of games in some order makes of them, over many orders."""

from __future__ import annotations

import numpy as np

from evalkit.scoring.columns import Floats, Ints
from evalkit.scoring.systems import Games

STEP = 16.0
SCALE = 400.0
ORDERS = 200
WORK = 4_000_000
"""So many games are played over all orders; with more, each order is a random part of them."""


def elo(systems: int, i: Ints, j: Ints, score: Floats, *, step: float = STEP) -> Floats:
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
    """Return the ratings after each of many random orders of all games, or of the games of resampled cases."""
    generator = np.random.default_rng(seed)
    drawn = [_drawn(games, generator) if resampled else np.arange(len(games)) for _ in range(orders)]
    most = min(max(map(len, drawn)), max(1, WORK // orders))
    chosen = [generator.permutation(places)[:most] for places in drawn]
    table = np.full((orders, most), -1)
    for row, places in enumerate(chosen):
        table[row, : len(places)] = places
    score = np.where(table < 0, np.nan, (games.winner[table] + 1) / 2)
    return elo(len(games.names), games.i[table], games.j[table], score)


def _drawn(games: Games, generator: np.random.Generator) -> Ints:
    """Return the games of as many cases, drawn with replacement, as there are with games."""
    cases = np.unique(games.case)
    times = np.bincount(generator.integers(0, len(cases), len(cases)), minlength=len(cases))
    return np.repeat(np.arange(len(games)), times[np.searchsorted(cases, games.case)])
