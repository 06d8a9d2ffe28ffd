"""The report of a run: its findings in words, and one self-contained HTML page."""

from __future__ import annotations

from evalkit.report.asked import Asked, asking
from evalkit.report.files import run_files
from evalkit.report.finding import Finding
from evalkit.report.findings import findings
from evalkit.report.page import render_report
from evalkit.report.sweep import SweepFacts, render_sweep

__all__ = ["Asked", "Finding", "SweepFacts", "asking", "findings", "render_report", "render_sweep", "run_files"]
