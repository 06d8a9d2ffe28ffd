"""Findings on repeated answers to one question."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.translation import ngettext
from evalkit.report.findings.finding import Finding, RunFacts, finding
from evalkit.scoring.decision import Metrics, known


def repeat_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield how often two answers to one question differ."""
    if (rate := known(metrics, "samples/flip_rate")) is not None:
        text = ngettext(
            "Two answers to one question differ in {rate} of cases ({n:,} repeated question).",
            "Two answers to one question differ in {rate} of cases ({n:,} repeated questions).",
            rate.n,
        )
        yield finding(rate, "info", text)
