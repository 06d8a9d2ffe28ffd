"""Findings on verdicts that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import interval, percent
from evalkit.core.translation import Text, gettext
from evalkit.core.types import Metric
from evalkit.report.findings.finding import Finding, RunFacts, Tone, finding
from evalkit.scoring.decision import Metrics, known, side

CONSISTENT = (
    "pointwise",
    "checklist",
    "listwise",
)  # one score or one ranking cannot have a cycle, so that there is none means nothing


def conflict_findings(metrics: Metrics, run: RunFacts) -> Iterator[Finding]:
    """Yield how often verdicts contradict each other."""
    rate = known(metrics, "conflict/rate")
    if rate is not None and (rate.value or run.mode not in CONSISTENT):
        yield _cycles(
            rate,
            known(metrics, "conflict/chance_rate"),
            known(metrics, "conflict/ratio"),
        )
    if (weak := known(metrics, "conflict/weak_rate")) is not None and weak.value:
        text = gettext(
            "Ties are not transitive (A = B, B = C, but A > C) in {rate} of cases."
        )
        yield finding(weak, "info", text)


def _cycles(rate: Metric, chance: Metric | None, ratio: Metric | None) -> Finding:
    """Return how often verdicts are cyclic, and whether that differs from random verdicts."""
    tone: Tone = "warn" if rate.value else "info"
    if rate.value:
        if rate.n:
            text = gettext(
                "Contradicts itself (A > B > C > A) in {rate} of {n:,} cases"
            )
        else:
            text = gettext("Contradicts itself (A > B > C > A) in {rate} of cases")
    else:
        if rate.n:
            text = gettext(
                "No contradiction (A > B > C > A) was found: {rate} of {n:,} cases"
            )
        else:
            text = gettext(
                "No contradiction (A > B > C > A) was found: {rate} of cases"
            )
    text = text.fill(rate=percent(rate), n=rate.n)
    if chance is None or chance.value is None:
        return finding("conflict/rate", tone, gettext("{finding}.", finding=text))
    if ratio is not None and ratio.low is not None:
        where = side(ratio, 1.0)
    else:
        where = side(rate, chance.value)
    expected: Text | str = f"{100 * chance.value:.0f}%"
    if where != "unknown" and ratio is not None and ratio.low is not None:
        expected = gettext(
            "{rate}; ratio {ratio}", rate=expected, ratio=interval(ratio)
        )
    chance_text = {
        "below": gettext("fewer than random verdicts would have ({expected})"),
        "above": gettext("more than random verdicts would have ({expected})"),
        "unclear": gettext("not shown to differ from random verdicts ({expected})"),
        "unknown": gettext("random verdicts would have {expected}"),
    }[where]
    tone = "good" if where == "below" and not rate.value else tone
    text = gettext(
        "{finding}; {chance}.", finding=text, chance=chance_text.fill(expected=expected)
    )
    return finding("conflict/rate", tone, text)
