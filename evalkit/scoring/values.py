"""What scoring hands out, and how it rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from evalkit.scoring.clusters import Clusters
from evalkit.types import Metric, Verdict

# Sums of floats differ in their last bits between machines; what is handed out must not.
DECIMALS = 12


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


@dataclass(frozen=True, slots=True)
class Scores:
    """Everything that follows from judgments: verdicts in case order, metrics by name, the tie threshold's frontier.

    `details` holds what is more than a number, by the name of the run folder's file that holds it: JSON values.
    `notes` say how the settings were understood.
    `clusters` are what was resampled.
    """

    verdicts: Sequence[Verdict]
    metrics: Mapping[str, Metric]
    frontier: tuple[FrontierPoint, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    clusters: Clusters = field(default_factory=lambda: Clusters.each(0))


def round_metric(value: float) -> float | None:
    """Return `value` as a plain float rounded to 12 decimals, never -0.0; none if it is not a finite number."""
    return round(float(value), DECIMALS) + 0.0 if isfinite(value) else None
