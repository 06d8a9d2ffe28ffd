"""The report of a run: findings in words, and a self-contained HTML page."""

from __future__ import annotations

from evalkit.core.shown import Shown
from evalkit.report.case_list import Asked, render_prompts
from evalkit.report.findings import findings
from evalkit.report.findings.finding import Finding
from evalkit.report.notebook import html_of
from evalkit.report.page import render_report, run_files
from evalkit.report.sweep_page import SweepFacts, render_sweep

__all__ = [
    "Asked",
    "Finding",
    "SweepFacts",
    "findings",
    "render_prompts",
    "render_report",
    "render_sweep",
    "run_files",
]

Shown.renderer = html_of
