"""Findings of checklists: how many items are met, which scores are not determined, and agreement with annotators."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.config import CHECKLIST
from evalkit.core.display import estimate, percent
from evalkit.core.translation import gettext
from evalkit.report.counts import Finding, Metrics, finding, known

AGREED, KAPPA = "checklist/accuracy", "checklist/kappa"
SUBSTANTIAL = 0.6  # Landis and Koch 1977, Biometrics 33, 159-174


def checklist_headline(metrics: Metrics, mode: str) -> Finding | None:
    """Return what to do with the judge of a checklist; `None` in other modes."""
    if mode != CHECKLIST:
        return None
    kappa = known(metrics, KAPPA)
    if kappa is None or kappa.value is None:
        text = gettext("Label some items first: without labels, nothing shows whether to trust this judge.")
        return finding(AGREED, "warn", text)
    shown = estimate(kappa.value, kappa.low, kappa.high, "{:.2f}".format)
    if kappa.low is None or kappa.high is None or kappa.low <= 0:
        text = gettext(
            "Do not trust this judge yet: its answers to items are not shown to agree with annotators beyond chance "
            "(Cohen's kappa {kappa}, {n:,} labeled items).",
            kappa=shown,
            n=kappa.n,
        )
        return finding(KAPPA, "warn", text)
    text = gettext(
        "The judge's answers to items agree with annotators beyond chance: Cohen's kappa {kappa} on {n:,} labeled "
        "items.",
        kappa=shown,
        n=kappa.n,
    )
    return finding(KAPPA, "good" if kappa.low >= SUBSTANTIAL else "info", text)


def checklist_findings(metrics: Metrics, mode: str) -> Iterator[Finding]:
    """Yield what is notable of a checklist."""
    if mode != CHECKLIST:
        return
    if (agreed := known(metrics, AGREED)) is not None and agreed.value is not None:
        text = gettext(
            "On {n:,} labeled items, the judge gives the annotators' answer to {share}.",
            n=agreed.n,
            share=percent(agreed),
        )
        yield finding(AGREED, "info", text)
    if (met := known(metrics, "checklist/met_rate")) is not None and met.value is not None:
        text = gettext("Of {n:,} items met or not met, {share} are met.", n=met.n, share=percent(met))
        yield finding("checklist/met_rate", "info", text)
    mean = metrics.get("score/mean")
    if mean is None or not mean.missing or mean.worst_low is None or mean.worst_high is None:
        return
    text = gettext(
        "{missing:,} of {all:,} responses have no score, because items without an answer could change it. The mean "
        "score of all of them is between {low:.2f} and {high:.2f}.",
        missing=mean.missing,
        all=mean.n + mean.missing,
        low=mean.worst_low,
        high=mean.worst_high,
    )
    yield finding("score/mean", "warn", text)
