"""What each useful tie threshold would give: ties against agreement and transitivity, at no cost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evalkit.scoring.columns import FUZZ, NONE, TIE, Bools, Codes, Floats
from evalkit.scoring.metrics.transitivity import groups, matrices, weak_violation
from evalkit.scoring.pairs import Resolution, at_threshold
from evalkit.scoring.values import FrontierPoint, round_metric

MOST = 101


def frontier(
    resolved: Resolution,
    min_confidence: float,
    winners_at: Callable[[float], Codes] | None = None,
    margins: Floats | None = None,
) -> tuple[FrontierPoint, ...]:
    """Return what each threshold at which something changes would give, ties allowed and all else as configured.

    Where the threshold is not for the margins that were resolved, `margins` are those that it is for, and `winners_at`
    what it makes of them.
    """

    def of_margins(threshold: float) -> Codes:
        return at_threshold(resolved, threshold, min_confidence)[0]

    winners = winners_at or of_margins
    thresholds = useful_thresholds(resolved.margin if margins is None else margins)
    return tuple(_point(resolved, threshold, winners(threshold)) for threshold in thresholds)


def useful_thresholds(margins: Floats) -> list[float]:
    """Return 0 and each distinct absolute margin, at most 101 of them, spread evenly over the list of distinct ones."""
    sizes = np.unique(np.round(np.abs(margins[np.isfinite(margins)]), 9))
    if not len(sizes):
        return []
    sizes = np.concatenate([[0.0], sizes[sizes > FUZZ]])
    chosen = np.unique(np.linspace(0, len(sizes) - 1, min(MOST, len(sizes))).round().astype(int))
    return [float(size) for size in sizes[chosen]]


def _point(resolved: Resolution, threshold: float, winner: Codes) -> FrontierPoint:
    present, decided = winner != NONE, (winner != NONE) & (winner != TIE)
    right = winner == resolved.pairs.label
    return FrontierPoint(
        threshold=threshold,
        tie_rate=_mean(winner == TIE, present) or 0.0,
        accuracy=_mean(right, resolved.labelled & present),
        decided_accuracy=_mean(right, resolved.labelled & decided),
        weak_rate=_weak_rate(resolved, winner),
    )


def _mean(hit: Bools, among: Bools) -> float | None:
    return round_metric(hit[among].mean()) if among.any() else None


def _weak_rate(resolved: Resolution, winner: Codes) -> float | None:
    found = []
    for _, winners in groups(resolved.pairs, winner):
        whole = winners[(winners != NONE).all(axis=1)]
        found.append(weak_violation(*matrices(whole)))
    every = np.concatenate([np.zeros(0, dtype=bool), *found])
    return round_metric(every.mean()) if len(every) else None
