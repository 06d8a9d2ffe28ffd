"""The report of a run: its findings in words, and one self-contained HTML page."""

from __future__ import annotations

from evalkit.report.finding import Finding
from evalkit.report.findings import findings
from evalkit.report.page import render_report

__all__ = ["Finding", "findings", "render_report"]
