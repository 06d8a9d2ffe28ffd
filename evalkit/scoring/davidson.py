"""Bradley-Terry with ties, by maximum likelihood, for many resamples at once.

Davidson's model (Davidson 1970, J. Am. Stat. Assoc. 65, 317-328): with strengths p = exp(rating), of i and j the first
wins in proportion to p_i, the second in proportion to p_j, and they tie in proportion to v sqrt(p_i p_j).
"""

from __future__ import annotations

import numpy as np

from evalkit.scoring.columns import Bools, Floats

STEPS = 60
FAR = 12.0
"""Ratings as far apart as this, odds of 160,000, are on their way to infinity: some system won, or lost, throughout."""


def fit(wins: Floats, ties: Floats) -> tuple[Floats, Floats]:
    """Return ratings in natural units, of mean 0, and log v, for stacks of tables: (rows, systems) and (rows,).

    `wins[r, i, j]` counts wins of i over j, `ties[r, i, j]` ties of both. A row whose likelihood has no finite maximum,
    or in which the systems do not hang together, is NaN; without any tie log v is -inf.
    """
    rows, size, _ = wins.shape
    ratings, tie = np.zeros((rows, size)), np.zeros(rows)
    games = wins + np.swapaxes(wins, 1, 2) + ties
    tied = ties.sum(axis=(1, 2)) / 2
    tie[tied == 0] = -np.inf
    scores = wins.sum(axis=2) + ties.sum(axis=2) / 2
    active = np.arange(rows)[(wins.sum(axis=(1, 2)) > 0) & _connected(games)]
    settled = np.zeros(rows, dtype=bool)
    for _ in range(STEPS):
        step = _newton(ratings[active], tie[active], games[active], scores[active], tied[active])
        ratings[active] += step[:, :size]
        tie[active] += np.where(tied[active] > 0, step[:, size], 0.0)
        far = (np.abs(ratings[active]) > FAR).any(axis=1)
        done = np.abs(step).max(axis=1, initial=0.0) < 1e-9
        settled[active[done & ~far]] = True
        active = active[~done & ~far]
        if not len(active):
            break
    ratings[~settled], tie[~settled] = np.nan, np.nan
    return ratings, tie


def _connected(games: Floats) -> Bools:
    """Return in which rows every system is linked to every other by games."""
    reach = games > 0
    for _ in range(max(1, int(np.ceil(np.log2(games.shape[1]))))):
        reach |= (reach.astype(np.float64) @ reach.astype(np.float64)) > 0
    size = games.shape[1]
    return np.asarray((reach | np.eye(size, dtype=bool)).all(axis=(1, 2)))


def chances(difference: Floats, tie: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the probabilities that the first wins, that they tie, and that the second wins."""
    half = np.asarray(difference) / 2
    top = np.maximum(np.abs(half), tie)
    first, both, second = np.exp(half - top), np.exp(tie - top), np.exp(-half - top)
    total = first + both + second
    return first / total, both / total, second / total


def _newton(ratings: Floats, tie: Floats, games: Floats, scores: Floats, tied: Floats) -> Floats:
    """Return one Newton step, shortened to at most 2, of the concave log-likelihood."""
    size = ratings.shape[1]
    difference = ratings[:, :, None] - ratings[:, None, :]
    first, both, second = chances(difference, np.broadcast_to(tie[:, None, None], difference.shape))
    gradient = np.concatenate(
        [scores - (games * (first + both / 2)).sum(axis=2), (tied - (games * both).sum(axis=(1, 2)) / 2)[:, None]],
        axis=1,
    )
    spread = games * ((first + second) / 4 - ((first - second) / 2) ** 2)
    mixed = (games * both * (first - second) / 2).sum(axis=2)
    curve = np.zeros((len(ratings), size + 1, size + 1))
    curve[:, :size, :size] = -spread
    index = np.arange(size)
    curve[:, index, index] += spread.sum(axis=2)
    # Ratings are known up to a constant: this keeps their mean where it is.
    curve[:, :size, :size] += 1.0 / size
    curve[:, :size, size] = curve[:, size, :size] = -mixed
    curve[:, size, size] = (games * both * (1 - both)).sum(axis=(1, 2)) / 2
    without = tied == 0
    curve[without, size, :] = curve[without, :, size] = 0.0
    curve[without, size, size], gradient[without, size] = 1.0, 0.0
    step = np.linalg.solve(curve + 1e-12 * np.eye(size + 1), gradient[:, :, None])[:, :, 0]
    return np.asarray(step / np.maximum(1.0, np.abs(step).max(axis=1, initial=0.0) / 2)[:, None])
