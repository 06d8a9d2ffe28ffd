"""The findings of runs, sweeps and comparisons: pure functions from metrics to sentences, for reports and the terminal.

`listing` says which findings a run has, and in which order. Each other module holds those on one subject; `decisions`
has the sentence on the judge, which comes first.
"""

from __future__ import annotations

from evalkit.report.findings.finding import Finding
from evalkit.report.findings.listing import TABLES, conclusion, corrections, findings, findings_of

__all__ = ["TABLES", "Finding", "conclusion", "corrections", "findings", "findings_of"]
