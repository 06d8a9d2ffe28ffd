"""Which figures the report of a run has, in their order: each comes from a function of
a module of this package.
"""

from __future__ import annotations

from dataclasses import replace

from evalkit.core.values import Json
from evalkit.report.counts import RunCounts
from evalkit.report.figures.curves import (
    frontier,
    histogram,
    lengths,
    reliability,
    sequence,
)
from evalkit.report.figures.drawing import Figure
from evalkit.report.figures.forest import main_figures
from evalkit.report.figures.systems import corrected, costs, cycles, ranking
from evalkit.report.figures.tables import confusion, passes, slices
from evalkit.report.texts import FIGURES
from evalkit.runs.results import RunResult


def run_figures(result: RunResult, counts: RunCounts, details: Json) -> list[Figure]:
    """Return every figure that a run has data for, in the order of the page.

    Args:
        result: the run.
        counts: the counts over its cases.
        details: the content of the run folder's detail files, by name without suffix.
    """
    figures = [
        *main_figures(result.metrics),
        sequence(details.get("sequence") or {}),
        ranking(details.get("ranking") or {}),
        confusion(details.get("confusion") or {}),
        slices(details.get("slices") or [], result.config.scoring.confidence),
        passes(counts.passes),
        lengths(counts.lengths, result.config.scoring.confidence),
        reliability(details.get("reliability") or {}),
        frontier(details.get("frontier") or [], result.config.tie.threshold),
        histogram(counts.scores, counts.grades),
        cycles(details.get("conflicts") or {}),
        corrected(result.metrics),
        costs(counts.judges, len(result.cases)),
    ]
    stopped = FIGURES["rates_stopped"][1] if details.get("sequence") else None
    return [
        replace(figure, caption=stopped)
        if stopped and figure.name == "rates"
        else figure
        for figure in figures
        if figure is not None
    ]
