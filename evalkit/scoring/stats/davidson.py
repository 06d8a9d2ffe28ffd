"""Davidson's model of games with ties, fitted by Newton steps to many tables at once."""

from __future__ import annotations

import numpy as np

from evalkit.scoring.stats.arrays import Bools, Floats, Ints

_STEPS = 60
MAX_RATING = 12.0
"""Ratings beyond this (odds of 160,000) are diverging, because some system won or lost every
game."""


class Davidson:
    """Davidson's (1970) model of games with ties.

    The log odds of a win are linear in ratings and covariates.
    """

    def __init__(self, columns: Ints, values: Floats, systems: int) -> None:
        """Hold the design: the effects of each kind of game and their factors.

        Args:
            columns: (kinds, effects of a kind) the effects: the two systems, and then
                covariates, which are numbered after the systems.
            values: (kinds, effects of a kind) their factors, such as 1 and -1.
            systems: the number of systems.
        """
        # Imported late: SciPy takes long to load.
        from scipy.sparse import csr_array

        self.effects = int(columns.max()) + 1
        self._systems = systems
        # One row of the design for each kind of game: only its two systems and covariates are not
        # 0.
        count = len(columns)
        kinds = np.arange(count)[:, None]
        # Sparse arrays take flat values, and the row and the column of each.
        row_of_value = np.broadcast_to(kinds, columns.shape)
        factors = values.ravel()
        positions = (row_of_value.ravel(), columns.ravel())
        shape = (count, self.effects)
        self.design = csr_array((factors, positions), shape=shape)
        # The outer product of each row with itself, flattened: weighted sums of these rows are
        # the information matrix.
        first = columns[:, :, None]
        second = columns[:, None, :]
        # (kinds, effects of a kind, effects of a kind): [a, b] of a flat matrix is a * effects + b
        squares = first * self.effects + second
        squares = squares.reshape(count, -1)
        row_factors = values[:, :, None]
        column_factors = values[:, None, :]
        factors = row_factors * column_factors
        factors = factors.ravel()
        row_of_product = np.broadcast_to(kinds, squares.shape)
        positions = (row_of_product.ravel(), squares.ravel())
        shape = (count, self.effects**2)
        self._products = csr_array((factors, positions), shape=shape)

    def residuals(
        self,
        at: Floats,
        results: Floats,
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the residuals of outcomes (1/2, 0, -1/2) and of ties.

        Also return each kind's probability of a tie and mean outcome.

        Args:
            at: (rows, effects + 1) the estimates, and log v, which is -inf without ties.
            results: (3, rows, kinds) the number of games won, tied and lost by the first system.
        """
        estimates = at[:, :-1]
        log_v = at[:, -1:]
        # (rows, kinds): the difference of ratings, with covariates
        difference = estimates @ self.design.T
        first, both, second = chances(difference, log_v)
        # (rows, kinds) each
        won, tied, lost = results
        games = results.sum(axis=0)
        mean = (first - second) / 2
        observed = (won - lost) / 2
        expected = games * mean
        outcome = observed - expected
        expected_ties = games * both
        excess_ties = tied - expected_ties
        return outcome, excess_ties, both, mean

    def derivatives(self, at: Floats, results: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives of the log-likelihood.

        These are the gradient (rows, effects + 1), and minus the second derivatives
        (rows, effects + 1, effects + 1).
        """
        outcome, tied, both, mean = self.residuals(at, results)
        games = results.sum(axis=0)
        # Effects are numbered before `last`, which is log v.
        last = self.effects
        by_effect = outcome @ self.design
        by_log_v = tied.sum(axis=1)
        gradient = np.column_stack([by_effect, by_log_v])
        size = last + 1
        information = np.zeros((len(at), size, size))
        # The variance of an outcome of 1/2, 0 or -1/2, times the number of games.
        second_moment = (1 - both) / 4
        variance = second_moment - mean**2
        spread = games * variance
        of_effects = spread @ self._products
        information[:, :last, :last] = of_effects.reshape(-1, last, last)
        # Ratings are identified up to a constant; this keeps their mean.
        systems = self._systems
        information[:, :systems, :systems] += 1.0 / systems
        # Outcomes and ties vary together: an outcome of a tie is 0.
        expected_ties = games * both
        expected_outcome = expected_ties * mean
        covariance = -expected_outcome
        mixed = covariance @ self.design
        information[:, :last, last] = mixed
        information[:, last, :last] = mixed
        # Where log v stays at its limit, its equation is solved by a step of 0.
        log_v = at[:, -1]
        at_limit = np.isinf(log_v)
        variance_of_ties = expected_ties * (1 - both)
        of_ties = variance_of_ties.sum(axis=1)
        information[:, last, last] = np.where(at_limit, 1.0, of_ties)
        gradient[at_limit, last] = 0.0
        return gradient, information

    def fit(self, results: Floats, active: Ints) -> Floats:
        """Return the estimates and log v, (rows, effects + 1), NaN in rows without a
        finite maximum.

        Args:
            results: (3, rows, kinds) the number of games won, tied and lost by the first system.
            active: the rows whose systems are connected by games.
        """
        width = self.effects + 1
        ridge = 1e-12 * np.eye(width)
        # (rows, effects + 1): log v is the last column
        rows = results.shape[1]
        at = np.zeros((rows, width))
        # Without any tie the likelihood grows as log v falls, so it stays at its limit.
        tied = results[1]
        has_ties = tied.any(axis=1)
        at[~has_ties, -1] = -np.inf
        converged = np.zeros(len(at), dtype=bool)
        for _ in range(_STEPS):
            current = at[active]
            games = results[:, active]
            gradient, information = self.derivatives(current, games)
            left_side = information + ridge
            right_side = gradient[:, :, None]
            steps = np.linalg.solve(left_side, right_side)
            step = steps[:, :, 0]
            # A Newton step moves no effect by more than 2: far from the maximum it would
            # overshoot.
            largest = np.abs(step).max(axis=1, initial=0.0)
            shrink = np.maximum(1.0, largest / 2)
            shortened = step / shrink[:, None]
            at[active] += shortened
            estimates = at[active, :-1]
            sizes = np.abs(estimates)
            too_large = sizes > MAX_RATING
            diverged = too_large.any(axis=1)
            # A step that is not a number is neither: its row is given up.
            is_small = largest < 1e-9
            is_large = largest >= 1e-9
            settled = is_small & ~diverged
            moving = is_large & ~diverged
            finished = active[settled]
            converged[finished] = True
            active = active[moving]
            if not len(active):
                break
        at[~converged] = np.nan
        return at


def fit(wins: Floats, ties: Floats) -> tuple[Floats, Floats]:
    """Return ratings (rows, systems) and log v (rows,) for stacks of tables.

    Ratings are in natural units and have mean 0. A row whose likelihood has no finite maximum, or
    whose systems are not connected by games, is NaN. Without any tie, log v is -inf.

    Args:
        wins: (rows, systems, systems) the wins of row over column.
        ties: (rows, systems, systems) the ties, symmetric.
    """
    size = wins.shape[1]
    # (kinds,): a kind of game is a pair of systems i < j
    i, j = np.triu_indices(size, 1)
    won = wins[:, i, j]
    tied = ties[:, i, j]
    lost = wins[:, j, i]
    results = np.stack([won, tied, lost])
    columns = np.stack([i, j], axis=1)
    factors = np.tile([1.0, -1.0], (len(i), 1))
    model = Davidson(columns, factors, size)
    decided = (won + lost).any(axis=1)
    connected = _connected(wins + ties)
    active = np.flatnonzero(decided & connected)
    at = model.fit(results, active)
    ratings = at[:, :-1]
    log_v = at[:, -1]
    return ratings, log_v


def _connected(games: Floats) -> Bools:
    """Return in which rows every system is connected to every other by games, (rows,)."""
    # reach[row, i, j]: whether a path of games leads from system i to j. Each product doubles the
    # length of the paths.
    size = games.shape[1]
    either_way = games + np.swapaxes(games, 1, 2)
    itself = np.eye(size, dtype=bool)
    reach = (either_way > 0) | itself
    doublings = int(np.ceil(np.log2(size)))
    for _ in range(max(1, doublings)):
        paths = reach.astype(np.float64)
        reach |= (paths @ paths) > 0
    return np.asarray(reach.all(axis=(1, 2)))


def chances(difference: Floats, tie: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the probabilities that the first wins, that they tie, and that the second wins.

    Args:
        difference: the rating of the first minus that of the second, in natural units.
        tie: log v of Davidson's model, -inf without ties.
    """
    # Each outcome has the weight exp(exponent), and its probability is its share of all weights.
    win_exponent = np.asarray(difference) / 2
    loss_exponent = -win_exponent
    # Less the largest exponent, which leaves the shares unchanged, so that no weight overflows.
    largest_exponent = np.maximum(np.abs(win_exponent), tie)
    win_weight = np.exp(win_exponent - largest_exponent)
    tie_weight = np.exp(tie - largest_exponent)
    loss_weight = np.exp(loss_exponent - largest_exponent)
    total_weight = win_weight + tie_weight + loss_weight
    first_wins = win_weight / total_weight
    they_tie = tie_weight / total_weight
    second_wins = loss_weight / total_weight
    return first_wins, they_tie, second_wins
