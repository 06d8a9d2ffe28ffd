"""Findings on stated confidence."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import interval
from evalkit.core.translation import Text, gettext
from evalkit.decision import Metrics, known
from evalkit.report.findings.finding import Finding, RunFacts, finding
from evalkit.scoring.verdicts.pairs import WEIGHED
from evalkit.types import Metric

FAR_OFF = 0.1  # of a confidence, on average


def calibration_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield how far stated confidence is from accuracy."""
    ece = known(metrics, "calibration/ece")
    if ece is not None and ece.low is not None:  # one or two cases would show nothing
        value, low, high = (
            None if x is None else 100 * x for x in (ece.value, ece.low, ece.high)
        )
        points = Metric(ece.name, value, low, high)
        text = gettext(
            "Its confidence differs from its accuracy by {points} points on average",
            points=interval(points, 0),
        )
        if ece.low == 0 and (ece.high or 0) > FAR_OFF:
            text = gettext(
                "It is unknown whether its confidence is reliable (n = {n:,}): it differs from its"
                " accuracy by 0 to {high:.0f} points on average",
                n=ece.n,
                high=high,
            )
        yield finding(
            "calibration/ece",
            "warn" if ece.low > FAR_OFF else "info",
            _turned(metrics).fill(finding=text),
        )


def _turned(metrics: Metrics) -> Text:
    """Return how confidence counts if it was stated for another winner than the weighted one."""
    rate = known(metrics, "criteria/overall_disagreement")
    if rate is None or not rate.value or WEIGHED not in (rate.note or ""):
        return gettext("{finding}.")
    return gettext(
        "{finding}; where the overall winner is not the weighted one, a confidence c counts as 1 -"
        " c (0.5 if either is a tie)."
    )
