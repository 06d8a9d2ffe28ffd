"""Findings on checklists."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.config import CHECKLIST
from evalkit.core.display import percent
from evalkit.core.translation import gettext, ngettext
from evalkit.report.findings.finding import Finding, RunFacts, finding
from evalkit.scoring.decision import Metrics, known


def checklist_findings(metrics: Metrics, run: RunFacts) -> Iterator[Finding]:
    """Yield what is notable of a checklist."""
    if run.mode != CHECKLIST:
        return
    if (
        met := known(metrics, "checklist/met_rate")
    ) is not None and met.value is not None:
        yield finding(
            met,
            "info",
            gettext(
                "Of {n:,} items met or not met, {share} are met.", share=percent(met)
            ),
        )
    mean = metrics.get("score/mean")
    if (
        mean is None
        or not mean.missing
        or mean.worst_low is None
        or mean.worst_high is None
    ):
        return
    text = ngettext(
        "{missing:,} of {all:,} responses has no score, because items without an answer could"
        " change it. The mean score of all of them is between {low:.2f} and {high:.2f}.",
        "{missing:,} of {all:,} responses have no score, because items without an answer could"
        " change it. The mean score of all of them is between {low:.2f} and {high:.2f}.",
        mean.missing,
        missing=mean.missing,
        all=mean.n + mean.missing,
        low=mean.worst_low,
        high=mean.worst_high,
    )
    yield finding("score/mean", "warn", text)
