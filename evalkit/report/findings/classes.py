"""Findings on a judge that chooses classes."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import interval, percent
from evalkit.core.translation import gettext, ngettext
from evalkit.report.findings.agreement import agreement_numbers
from evalkit.report.findings.finding import (
    Finding,
    RunFacts,
    Tone,
    finding,
    has_classes,
)
from evalkit.scoring.decision import (
    SOME_ABSTAINED,
    Metrics,
    known,
    missed_classes,
    side,
)

ABSTAINED = "class/abstained"


def class_findings(metrics: Metrics, run: RunFacts) -> Iterator[Finding]:
    """Yield how classes agree with labels, by which class, and how often the judge abstains."""
    if not has_classes(metrics):
        return
    yield from agreement_numbers(metrics, run)
    yield from _by_class(metrics, run.positive)
    if (abstained := known(metrics, ABSTAINED)) is not None and abstained.value:
        text = gettext(
            "Abstains in {rate} of {n:,} answers; all other numbers are about the rest."
        )
        tone: Tone = "warn" if abstained.value >= SOME_ABSTAINED else "info"
        yield finding(abstained, tone, text)


def _by_class(metrics: Metrics, positive: str | None) -> Iterator[Finding]:
    tpr, tnr, youden = (
        known(metrics, f"class/{name}") for name in ("tpr", "tnr", "youden_j")
    )
    if (
        positive is not None
        and tpr is not None
        and tnr is not None
        and youden is not None
    ):
        of = ngettext(
            "Of {n:,} response labeled '{name}' it finds {rate}",
            "Of {n:,} responses labeled '{name}' it finds {rate}",
            tpr.n,
        )
        excluded = ngettext(
            "of {n:,} other it excludes {rate}",
            "of {n:,} others it excludes {rate}",
            tnr.n,
        )
        text = gettext(
            "{found}, and {excluded}: Youden's J {youden}.",
            found=of.fill(name=positive, rate=percent(tpr)),
            excluded=excluded.fill(rate=percent(tnr)),
            youden=interval(youden),
        )
        yield finding(
            "class/youden_j", "info" if side(youden, 0.0) == "above" else "warn", text
        )
    for limit in missed_classes(metrics):
        text = gettext("Finds only {recall} of {n:,} responses labeled '{name}'.")
        yield finding(
            limit.metric,
            "warn",
            text.fill(name=limit.subject, recall=percent(limit.metric)),
        )
