"""The figures of reports: SVG without a library or scripts; `figure_registry` says
which a run has, in their order.
"""

from __future__ import annotations

from evalkit.report.figures.drawing import Figure
from evalkit.report.figures.figure_registry import run_figures

__all__ = ["Figure", "run_figures"]
