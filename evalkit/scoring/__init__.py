"""Scoring of stored judgments: verdicts and metrics with intervals, without IO, judges or a clock.

Everything that can be decided after judging is decided here, so that it can be changed at no cost.

Imports go one way, from high to low:

    gate_rules | drift → compare → leaderboard | pipeline → run_metrics → frontier → metrics →
    verdicts → columns → judgments → stats
"""

from __future__ import annotations

from evalkit.scoring.metrics.rates import FrontierPoint
from evalkit.scoring.pipeline import (
    Scores,
    calibrated,
    escalated,
    score_run,
    verdicts_by_judge,
    verdicts_of,
)
from evalkit.scoring.verdicts.panel import check_names

__all__ = [
    "FrontierPoint",
    "Scores",
    "calibrated",
    "check_names",
    "escalated",
    "score_run",
    "verdicts_by_judge",
    "verdicts_of",
]
