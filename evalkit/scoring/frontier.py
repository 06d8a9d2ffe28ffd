"""The trade-off of tie thresholds: ties against agreement and transitivity, without new calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evalkit.scoring.columns import NONE, TIE, VerdictColumns
from evalkit.scoring.metrics.transitivity import groups, matrices, weak_violation
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, round_metric
from evalkit.scoring.verdicts.pairs import at_threshold, useful_thresholds


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """The results of one tie threshold, with all other settings unchanged.

    Attributes:
        threshold: the threshold, in the units of `tie.threshold`.
        tie_rate: the share of ties among pairs with a margin.
        accuracy: the accuracy, a tie counting as wrong unless the label is a tie.
        decided_accuracy: the accuracy without ties.
        weak_rate: the share of cases with intransitive ties, as `conflict/weak_rate`.
    """

    threshold: float
    tie_rate: float
    accuracy: float | None
    decided_accuracy: float | None
    weak_rate: float | None


def frontier(
    verdicts: VerdictColumns,
    min_confidence: float,
    winners_at: Callable[[float], Codes] | None = None,
    margins: Floats | None = None,
) -> tuple[FrontierPoint, ...]:
    """Return the results of each threshold at which a verdict changes.

    Ties are allowed, and all other settings are unchanged.

    Args:
        verdicts: the verdicts.
        min_confidence: `tie.min_confidence`.
        winners_at: returns the winners under a threshold, if it applies before a panel's vote; by default it applies to
            the margins of the verdicts.
        margins: the margins that the threshold applies to, if not those of the verdicts.
    """

    def of_margins(threshold: float) -> Codes:
        return at_threshold(verdicts, threshold, min_confidence)[0]

    winners = winners_at or of_margins
    thresholds = useful_thresholds(verdicts.margin if margins is None else margins)
    return tuple(_point(verdicts, threshold, winners(threshold)) for threshold in thresholds)


def _point(verdicts: VerdictColumns, threshold: float, winner: Codes) -> FrontierPoint:
    present, decided = winner != NONE, (winner != NONE) & (winner != TIE)
    right = winner == verdicts.pairs.label
    return FrontierPoint(
        threshold=threshold,
        tie_rate=_mean(winner == TIE, present) or 0.0,
        accuracy=_mean(right, verdicts.labeled & present),
        decided_accuracy=_mean(right, verdicts.labeled & decided),
        weak_rate=_weak_rate(verdicts, winner),
    )


def _mean(hit: Bools, among: Bools) -> float | None:
    return round_metric(hit[among].mean()) if among.any() else None


def _weak_rate(verdicts: VerdictColumns, winner: Codes) -> float | None:
    parts = []
    for _, winners in groups(verdicts.pairs, winner):
        complete = winners[(winners != NONE).all(axis=1)]
        parts.append(weak_violation(*matrices(complete)))
    violations = np.concatenate([np.zeros(0, dtype=bool), *parts])
    return round_metric(violations.mean()) if len(violations) else None
