"""The findings of runs, sweeps and comparisons: pure functions from metrics to
sentences, for reports and the terminal.

`finding_registry` says which findings a run has, and in which order. Each other module holds those
on one subject; `decisions` has the sentence on the judge, which comes first.
"""

from __future__ import annotations

from evalkit.report.findings.corrections import corrections
from evalkit.report.findings.decisions import conclusion
from evalkit.report.findings.finding import Finding
from evalkit.report.findings.finding_registry import TABLES, findings, findings_of

__all__ = ["TABLES", "Finding", "conclusion", "corrections", "findings", "findings_of"]
