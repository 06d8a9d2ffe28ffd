"""Findings on panels: how their judges agree, and whether they err together."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import interval
from evalkit.core.translation import gettext, ngettext
from evalkit.report.findings.finding import Finding, RunFacts, finding
from evalkit.scoring.decision import FEW, Metrics, judges_of, known, side
from evalkit.scoring.metrics.panels import ALIKE, DISAGREEMENT, ERRORS, NO_LABEL, VOTES

RELIABLE_ALPHA = 0.8  # Krippendorff (2004), Hum. Commun. Res. 30, 411-433


def panel_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield how the judges of a panel agree, and whether they err on the same units."""
    if (alpha := known(metrics, "panel/alpha")) is not None:
        text = gettext(
            "The judges of the panel agree with an alpha of {alpha}; firm conclusions need 0.8.",
            alpha=interval(alpha),
        )
        relied = alpha.low is not None and alpha.low >= RELIABLE_ALPHA
        yield finding("panel/alpha", "good" if relied else "warn", text)
    yield from _effective_votes(metrics)


def _effective_votes(metrics: Metrics) -> Iterator[Finding]:
    errors = known(metrics, ERRORS)
    votes = known(metrics, VOTES)
    if errors is None or votes is None or errors.low is None or votes.low is None:
        yield from _without_errors(metrics)
        return
    judges = len(judges_of(metrics))
    text = gettext(
        "The judges are not shown to err on the same units (correlation of errors {errors}, {n:,}"
        " labels): {judges} judges count as {votes} independent votes."
    )
    shared = side(errors, 0.0) == "above"
    if shared:
        text = gettext(
            "The judges err on the same units (correlation of errors {errors}, {n:,} labels):"
            " {judges} judges count as {votes} independent votes."
        )
    elif votes.low < (1 + judges) / 2 or errors.n < FEW:
        text = ngettext(
            "{n:,} label is too few to show whether the judges err on the same units (correlation"
            " of errors {errors}): {judges} judges count as {votes} independent votes.",
            "{n:,} labels are too few to show whether the judges err on the same units (correlation"
            " of errors {errors}): {judges} judges count as {votes} independent votes.",
            errors.n,
        )
    text = text.fill(
        errors=interval(errors), n=errors.n, judges=judges, votes=interval(votes, 1)
    )
    yield finding(VOTES, "warn" if shared else "info", text)


def _without_errors(metrics: Metrics) -> Iterator[Finding]:
    """Yield that effective votes are unknown: no judge errs on some units only, or
    nothing has a label.
    """
    votes = metrics.get(VOTES)
    apart = known(metrics, DISAGREEMENT)
    if votes is not None and votes.note == ALIKE:
        text = gettext(
            "Whether the judges err on the same units is open: on {n:,} labels, each judge is"
            " always right or always wrong."
        )
        yield finding(votes, "info", text)
    if votes is None or votes.note != NO_LABEL:
        return
    text = gettext(
        "Without labels, it is unknown whether the judges err on the same units."
    )
    if apart is not None:
        text = gettext(
            "{finding} Correlation of their disagreement with the other judges: {value}, which"
            " errors of the others raise.",
            finding=text,
            value=interval(apart),
        )
    yield finding(VOTES, "info", text)
