"""The figures of reports: SVG without a library or scripts; `listing` says which a run has, and in which order."""

from __future__ import annotations

from evalkit.report.figures.drawing import Figure
from evalkit.report.figures.listing import run_figures

__all__ = ["Figure", "run_figures"]
