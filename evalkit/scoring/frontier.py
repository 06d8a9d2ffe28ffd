"""What each useful tie threshold would give: ties against agreement and transitivity, at no cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evalkit.scoring.columns.codes import NONE, TIE
from evalkit.scoring.columns.verdicts import VerdictColumns
from evalkit.scoring.metrics.transitivity import groups, matrices, weak_violation
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, round_metric
from evalkit.scoring.verdicts.pairs import at_threshold, useful_thresholds


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """What one tie threshold would give, all else as configured.

    `threshold` is in the units of `tie.threshold`. `tie_rate` is over the pairs that have a margin; `accuracy` counts a
    tie against a label A or B as wrong, `decided_accuracy` leaves ties out; `weak_rate` is as `conflict/weak_rate`.
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
    """Return what each threshold at which something changes would give, ties allowed and all else as configured.

    Where the threshold is not for the margins that were resolved, `margins` are those that it is for, and `winners_at`
    what it makes of them.
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
        accuracy=_mean(right, verdicts.labelled & present),
        decided_accuracy=_mean(right, verdicts.labelled & decided),
        weak_rate=_weak_rate(verdicts, winner),
    )


def _mean(hit: Bools, among: Bools) -> float | None:
    return round_metric(hit[among].mean()) if among.any() else None


def _weak_rate(verdicts: VerdictColumns, winner: Codes) -> float | None:
    found = []
    for _, winners in groups(verdicts.pairs, winner):
        whole = winners[(winners != NONE).all(axis=1)]
        found.append(weak_violation(*matrices(whole)))
    every = np.concatenate([np.zeros(0, dtype=bool), *found])
    return round_metric(every.mean()) if len(every) else None
