"""Davidson's model of games with ties, fitted by Newton steps to many tables at once."""

from __future__ import annotations

import numpy as np

from evalkit.scoring.stats.arrays import Bools, Floats, Ints

_STEPS = 60
MAX_RATING = 12.0
"""Ratings beyond this (odds of 160,000) are diverging, because some system won or lost every
game."""


class Davidson:
    """Davidson's (1970) model of games with ties: the log odds of a win are linear in ratings and covariates."""

    def __init__(self, columns: Ints, values: Floats, systems: int) -> None:
        """Hold the design: the effects of each kind of game and their factors, (kinds, effects of a kind).

        Args:
            columns: the effects: the two systems, and then covariates, which are numbered after the
                systems.
            values: their factors, such as 1 and -1.
            systems: the number of systems.
        """
        from scipy.sparse import csr_array

        self.effects = int(columns.max()) + 1
        self._systems = systems
        # One row of the design for each kind of game: only its two systems and covariates are not
        # 0.
        kinds = np.arange(len(columns))[:, None]
        shape = (len(columns), self.effects)
        self.design = csr_array(
            (values.ravel(), ((kinds + 0 * columns).ravel(), columns.ravel())),
            shape=shape,
        )
        # The outer product of each row with itself, flattened: weighted sums of these rows are
        # the information matrix.
        squares = (columns[:, :, None] * self.effects + columns[:, None, :]).reshape(
            len(columns), -1
        )
        products = (values[:, :, None] * values[:, None, :]).reshape(len(columns), -1)
        indices = ((kinds + 0 * squares).ravel(), squares.ravel())
        self._products = csr_array(
            (products.ravel(), indices), shape=(len(columns), self.effects**2)
        )

    def residuals(
        self, at: Floats, results: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the residuals of outcomes (1/2, 0, -1/2) and ties, and each kind's tie probability and mean outcome.

        Args:
            at: (rows, effects + 1) the estimates, and log v, which is -inf without ties.
            results: (3, rows, kinds) the number of games won, tied and lost by the first system.
        """
        first, both, second = chances(at[:, :-1] @ self.design.T, at[:, -1:])
        games = results.sum(axis=0)
        mean = (first - second) / 2
        return (
            (results[0] - results[2]) / 2 - games * mean,
            results[1] - games * both,
            both,
            mean,
        )

    def derivatives(self, at: Floats, results: Floats) -> tuple[Floats, Floats]:
        """Return the gradient (rows, effects + 1) and minus the second derivatives of the log-likelihood."""
        outcome, tied, both, mean = self.residuals(at, results)
        games = results.sum(axis=0)
        last = self.effects
        gradient = np.concatenate(
            [outcome @ self.design, tied.sum(axis=1)[:, None]], axis=1
        )
        information = np.zeros((len(at), last + 1, last + 1))
        # The variance of an outcome of 1/2, 0 or -1/2, times the number of games.
        spread = games * ((1 - both) / 4 - mean**2)
        information[:, :last, :last] = (spread @ self._products).reshape(-1, last, last)
        # Ratings are identified up to a constant; this keeps their mean.
        information[:, : self._systems, : self._systems] += 1.0 / self._systems
        information[:, :last, last] = information[:, last, :last] = (
            -(games * both * mean) @ self.design
        )
        information[:, last, last] = np.where(
            np.isinf(at[:, -1]), 1.0, (games * both * (1 - both)).sum(axis=1)
        )
        gradient[np.isinf(at[:, -1]), last] = 0.0
        return gradient, information

    def fit(self, results: Floats, active: Ints) -> Floats:
        """Return the estimates and log v, (rows, effects + 1), NaN in rows without a finite maximum.

        Args:
            results: (3, rows, kinds) the number of games won, tied and lost by the first system.
            active: the rows whose systems are connected by games.
        """
        at = np.zeros((results.shape[1], self.effects + 1))
        # Without any tie the likelihood grows as log v falls, so it stays at its limit.
        at[~results[1].any(axis=1), -1] = -np.inf
        converged = np.zeros(len(at), dtype=bool)
        for _ in range(_STEPS):
            gradient, information = self.derivatives(at[active], results[:, active])
            step = np.linalg.solve(
                information + 1e-12 * np.eye(self.effects + 1), gradient[:, :, None]
            )[:, :, 0]
            # A Newton step moves no effect by more than 2: far from the maximum it would
            # overshoot.
            largest = np.abs(step).max(axis=1, initial=0.0)
            at[active] += step / np.maximum(1.0, largest / 2)[:, None]
            diverged = (np.abs(at[active, :-1]) > MAX_RATING).any(axis=1)
            converged[active[(largest < 1e-9) & ~diverged]] = True
            active = active[(largest >= 1e-9) & ~diverged]
            if not len(active):
                break
        at[~converged] = np.nan
        return at


def fit(wins: Floats, ties: Floats) -> tuple[Floats, Floats]:
    """Return ratings in natural units with mean 0, (rows, systems), and log v, (rows,), for stacks of tables.

    A row whose likelihood has no finite maximum, or whose systems are not connected by games, is
    NaN. Without any tie, log v is -inf.

    Args:
        wins: (rows, systems, systems) the wins of row over column.
        ties: (rows, systems, systems) the ties, symmetric.
    """
    size = wins.shape[1]
    i, j = np.triu_indices(size, 1)
    results = np.stack([wins[:, i, j], ties[:, i, j], wins[:, j, i]])
    model = Davidson(np.stack([i, j], axis=1), np.tile([1.0, -1.0], (len(i), 1)), size)
    at = model.fit(
        results,
        np.flatnonzero((results[0] + results[2]).any(axis=1) & _connected(wins + ties)),
    )
    return at[:, :-1], at[:, -1]


def _connected(games: Floats) -> Bools:
    """Return in which rows every system is connected to every other by games, (rows,)."""
    # reach[row, i, j]: whether a path of games leads from system i to j. Each product doubles the
    # length of the paths.
    reach = (games + np.swapaxes(games, 1, 2) > 0) | np.eye(games.shape[1], dtype=bool)
    for _ in range(max(1, int(np.ceil(np.log2(games.shape[1]))))):
        reach |= (reach.astype(np.float64) @ reach.astype(np.float64)) > 0
    return np.asarray(reach.all(axis=(1, 2)))


def chances(difference: Floats, tie: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the probabilities that the first wins, that they tie, and that the second wins.

    Args:
        difference: the rating of the first minus that of the second, in natural units.
        tie: log v of Davidson's model.
    """
    half = np.asarray(difference) / 2
    # The largest exponent is subtracted from all, so that none overflows.
    top = np.maximum(np.abs(half), tie)
    first = np.exp(half - top)
    both = np.exp(tie - top)
    second = np.exp(-half - top)
    total = first + both + second
    return first / total, both / total, second / total
