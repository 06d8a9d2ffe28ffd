"""The figures of a run's report: SVG drawn by code of our own, no library and no script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalkit.report.counts import RunCounts
from evalkit.report.figures.costs import corrected, costs
from evalkit.report.figures.curves import frontier, histogram, lengths, reliability
from evalkit.report.figures.drawing import Figure
from evalkit.report.figures.forest import main_figures
from evalkit.report.figures.systems import cycles, ranking
from evalkit.report.figures.tables import confusion, passes
from evalkit.types import RunResult

__all__ = ["Figure", "run_figures"]


def run_figures(result: RunResult, tallies: RunCounts, further: Mapping[str, Any]) -> list[Figure]:
    """Return every figure that a run has data for, in the order in which they stand on the page.

    `further` holds what the run folder's further JSON files do, by name without suffix.
    """
    drawn = [
        *main_figures(result.metrics),
        ranking(further.get("ranking") or {}),
        confusion(further.get("confusion") or {}),
        passes(tallies.passes),
        lengths(tallies.lengths, result.config.scoring.confidence),
        reliability(further.get("reliability") or {}),
        frontier(further.get("frontier") or [], result.config.tie.threshold),
        histogram(tallies.scores, tallies.grades),
        cycles(further.get("conflicts") or {}),
        corrected(result.metrics),
        costs(tallies.judges, len(result.cases)),
    ]
    return [figure for figure in drawn if figure is not None]
