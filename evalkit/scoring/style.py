"""Ratings of systems at equal length of their responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evalkit.scoring.columns import TIE, A, B, Floats
from evalkit.scoring.davidson import FAR, chances
from evalkit.scoring.systems import Games

STEPS = 100


@dataclass(frozen=True, slots=True)
class Controlled:
    """Ratings in natural units, of mean 0, at equal length; `effect` is that of one standard deviation of difference.

    The deviation is that of the differences of log-lengths between the two responses of a game. Errors are standard
    errors that hold games of one cluster together.
    """

    ratings: Floats
    errors: Floats
    effect: float
    effect_error: float


@dataclass(frozen=True, slots=True)
class _Fit:
    """The likelihood of games under Davidson's model with a covariate: `design` is sparse, a row for each game."""

    design: Any
    lead: Floats
    tied: Floats
    ties: bool

    def expected(self, at: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return each game's residual lead and tie, and what the information is made of."""
        tie = np.full(len(self.lead), at[-1] if self.ties else -np.inf)
        first, both, second = chances(self.design @ at[:-1], tie)
        mean = (first - second) / 2
        return self.lead - mean, self.tied - both, (first + second) / 4 - mean**2, both

    def information(self, lead: Floats, spread: Floats, both: Floats) -> Floats:
        """Return minus the second derivatives of the log-likelihood, fixed along the ratings' common constant."""
        size = self.design.shape[1]
        matrix = np.zeros((size + 1, size + 1))
        matrix[:size, :size] = (self.design.T @ self.design.multiply(spread[:, None])).toarray()
        matrix[: size - 1, : size - 1] += 1.0 / (size - 1)
        cross = self.design.T @ (-both * (self.lead - lead))
        matrix[:size, size] = matrix[size, :size] = cross if self.ties else 0.0
        matrix[size, size] = (both * (1 - both)).sum() if self.ties else 1.0
        return matrix


def at_equal_length(games: Games) -> Controlled | None:
    """Return ratings and the effect of length, estimated together; none where the games do not determine them.

    The log-odds of a game gain the effect times the standardised difference of log-lengths, the idea of AlpacaEval 2
    (arXiv 2404.04475) for any number of systems. Errors are sandwich ones (White 1982, Econometrica 50, 1-25).
    """
    deviation = float(np.std(games.longer))
    if deviation < 1e-9:
        return None
    model = _Fit(
        _design(games, games.longer / deviation),
        np.select([games.winner == A, games.winner == B], [0.5, -0.5], 0.0),
        (games.winner == TIE).astype(np.float64),
        bool((games.winner == TIE).any()),
    )
    estimate = _climb(model)
    return None if estimate is None else _controlled(games, model, estimate)


def _design(games: Games, length: Floats) -> Any:
    from scipy.sparse import csr_array

    rows = np.arange(len(games))
    values = np.concatenate([np.ones(len(games)), -np.ones(len(games)), length])
    columns = np.concatenate([games.i, games.j, np.full(len(games), len(games.names))])
    return csr_array((values, (np.tile(rows, 3), columns)), shape=(len(games), len(games.names) + 1))


def _climb(model: _Fit) -> Floats | None:
    """Return the estimate (ratings, effect, log v), or none if it is on its way to infinity or not unique."""
    at = np.zeros(model.design.shape[1] + 1)
    for _ in range(STEPS):
        lead, tied, spread, both = model.expected(at)
        information = model.information(lead, spread, both)
        gradient = np.append(model.design.T @ lead, tied.sum() if model.ties else 0.0)
        if np.linalg.cond(information) > 1e10 or np.abs(at).max() > FAR:
            return None
        step = np.linalg.solve(information, gradient)
        at = at + step / max(1.0, float(np.abs(step).max()) / 2)
        if np.abs(step).max() < 1e-9:
            return at
    return None


def _controlled(games: Games, model: _Fit, at: Floats) -> Controlled:
    from scipy.sparse import csr_array

    lead, tied, spread, both = model.expected(at)
    bread = np.linalg.inv(model.information(lead, spread, both))
    shape = (games.clusters.count, len(games))
    cluster = csr_array((np.ones(len(games)), (games.cluster, np.arange(len(games)))), shape=shape)
    scores = np.column_stack([(cluster @ model.design.multiply(lead[:, None])).toarray(), cluster @ tied * model.ties])
    errors = np.sqrt(np.diag(bread @ (scores.T @ scores) @ bread))
    size = len(games.names)
    return Controlled(at[:size] - at[:size].mean(), errors[:size], float(at[size]), float(errors[size]))
