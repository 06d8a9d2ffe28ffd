"""What each order of each pair says, samples combined, and what a third judgment says of those that disagree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalkit.scoring.columns import NONE, Bools, Codes, Floats, sign
from evalkit.scoring.samples import combine


@dataclass(frozen=True, slots=True)
class Third:
    """What the third judgment of each pair says, samples combined; NaN is missing."""

    margin: Floats
    confidence: Floats
    asked: Bools


@dataclass(frozen=True, slots=True)
class Passes:
    """What each order of each pair says: arrays of (pair, order), order 0 being the unit's own; NaN is missing."""

    margin: Floats
    confidence: Floats
    asked: Bools
    third: Third | None = None

    @property
    def winner(self) -> Codes:
        """Who won each pass, whatever `tie.threshold` is: thresholds are for the pair."""
        return sign(self.margin)

    @property
    def votes(self) -> Codes:
        """The winners as +1, 0 and -1, a missing pass being 0."""
        return np.where(self.winner == NONE, 0, self.winner).astype(np.int8)

    @property
    def complete(self) -> Bools:
        """Which pairs have both passes."""
        return np.asarray(np.isfinite(self.margin).all(axis=1))

    @property
    def differ(self) -> Bools:
        """Which pairs have two passes with different winners."""
        return np.asarray(self.complete & (self.winner[:, 0] != self.winner[:, 1]))


def over_orders(values: Floats) -> Floats:
    """Return the mean of each pair's two numbers, of the one that is there, or NaN."""
    return combine("mean", np.repeat(np.arange(len(values)), 2), values.ravel(), len(values))


def over_all(passes: Passes) -> Floats:
    """Return the mean margin of each pair over its two passes and the third judgment, of those that are there."""
    mean = over_orders(passes.margin)
    if passes.third is None:
        return mean
    return np.where(np.isfinite(passes.third.margin), (2 * mean + passes.third.margin) / 3, mean)
