"""The model of Dawid and Skene: truth and the errors of each judge, from votes alone.

Each judge has a matrix of errors: how often it votes for each code, given the true one (Dawid and
Skene 1979, Appl. Statist. 28, 20-28). Expectation maximization begins with the shares of votes, and
takes missing votes to be missing at random. No label is used.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from evalkit.core.values import frozen
from evalkit.scoring.stats.arrays import Bools, Floats, Ints

ROUNDS: Final = 1000
CONVERGED: Final = 1e-6
CELLS: Final = 2**22
"""Numbers held at a time."""
TINY: Final = 1e-10


@frozen
class VotePatterns:
    """The distinct combinations of the judges' votes.

    Attributes:
        hot: (judges, codes, patterns) whether the judge votes for the code.
        of: (units,) the pattern of each unit.
    """

    hot: Floats
    of: Ints

    @classmethod
    def read(cls, cast: Bools) -> VotePatterns:
        """Return the patterns of votes (codes, judges, units), each for at most one code."""
        # shape (judges, units): the code that each judge votes for, -1 without a vote
        has_vote = cast.any(axis=0)
        code = np.where(has_vote, cast.argmax(axis=0), -1)
        # shape (judges, patterns): units with the same votes have the same posterior
        patterns, of = np.unique(code, axis=1, return_inverse=True)
        codes = np.arange(len(cast))
        # -1 equals no code: a missing vote is 0 for each code and adds nothing to products.
        hot = patterns[:, None] == codes[:, None]
        return cls(
            hot.astype(np.float64),
            # NumPy 2.0 returns the inverse with as many axes as its input.
            of.reshape(-1),
        )

    def fit(self, counts: Floats) -> Floats:
        """Return the probability of each true code, (rows, codes, patterns).

        Args:
            counts: (rows, patterns) the number of units with each pattern.
        """
        # shape (codes, patterns)
        votes = self.hot.sum(axis=0)
        size = max(1, self.hot.size)
        step = max(1, CELLS // size)
        # Units without a vote say nothing about errors or shares.
        cast = votes.sum(axis=0)
        counts = counts * (cast > 0)
        # shape (rows, codes, patterns); the shares of votes are the start
        shares = votes / np.maximum(cast, 1.0)
        number = len(counts)
        posteriors = np.repeat(shares[None], number, axis=0)
        for start in range(0, number, step):
            end = min(start + step, number)
            rows = np.arange(start, end)
            for _ in range(ROUNDS):
                before = posteriors[rows]
                expected = before * counts[rows, None]
                chances = self._maximize(expected)
                change = chances - before
                moves = np.abs(change)
                moved = moves.max(axis=(1, 2), initial=0.0)
                posteriors[rows] = chances
                # Each row is a separate fit, and stops when it has converged.
                is_moving = moved >= CONVERGED
                rows = rows[is_moving]
                if not len(rows):
                    break
        return posteriors

    def _maximize(self, expected: Floats) -> Floats:
        """Return the probabilities after one step, (rows, codes, patterns).

        Args:
            expected: (rows, codes, patterns) the expected counts of true codes.
        """
        judges, codes, patterns = self.hot.shape
        hot = self.hot.reshape(judges * codes, patterns)
        # shape (rows, true code, judge, vote): the expected number of such votes
        errors = expected @ hot.T
        errors = errors.reshape(-1, codes, judges, codes)
        # For each judge and true code, the chances of its votes now sum to 1.
        of_judge = errors.sum(axis=3, keepdims=True)
        errors /= np.maximum(of_judge, TINY)
        # shape (rows, codes, 1): the expected number of units of each true code
        share = expected.sum(axis=2, keepdims=True)
        units = share.sum(axis=1, keepdims=True)
        share = share / np.maximum(units, TINY)
        logs = np.log(np.maximum(share, TINY))
        log_errors = np.log(np.maximum(errors, TINY))
        log_errors = log_errors.reshape(-1, codes, judges * codes)
        # Logs add over judges: votes are independent given the true code.
        of_votes = log_errors @ hot
        logs = logs + of_votes
        # The largest log becomes 0, so that the exponentials do not all underflow.
        largest = logs.max(axis=1, keepdims=True)
        chances = np.exp(logs - largest)
        total = chances.sum(axis=1, keepdims=True)
        return np.asarray(chances / total)


def true_codes(cast: Bools) -> Floats:
    """Return the probability of each true code of each unit, (codes, units); 0 without a vote.

    Args:
        cast: (codes, judges, units) whether the judge votes for the code.
    """
    patterns = VotePatterns.read(cast)
    number = patterns.hot.shape[2]
    units = np.bincount(patterns.of, minlength=number)
    counts = units.astype(np.float64)
    # One row of counts: the data as they are.
    [by_pattern] = patterns.fit(counts[None])
    by_unit = by_pattern[:, patterns.of]
    has_votes = cast.any(axis=(0, 1))
    probabilities = by_unit * has_votes
    return np.asarray(probabilities)
