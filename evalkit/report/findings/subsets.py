"""Findings on subsets of a panel: which of its judges are enough."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import dollars, percent, points
from evalkit.core.translation import gettext, joined, pgettext
from evalkit.report.findings.finding import Finding, RunFacts, finding
from evalkit.scoring.decision import Metrics, decide, known
from evalkit.scoring.metrics.subsets import ACCURACY, LEAD


def subset_findings(metrics: Metrics, run: RunFacts) -> Iterator[Finding]:
    """Yield which judges of a panel are enough."""
    table = run.details.get("panel") or {}
    accuracy = known(metrics, ACCURACY)
    lead = known(metrics, LEAD)
    if accuracy is None or lead is None or lead.low is None or not table:
        return
    if not decide(metrics, run.confidence).trusted:
        return  # a cheaper panel that nobody should use is no advice
    chosen = next(row for row in table["subsets"] if row["chosen"])
    whole = max(table["subsets"], key=lambda row: len(row["judges"]))
    facts = {
        "judges": len(whole["judges"]),
        "margin": f"{100 * table['margin']:g}",
        "n": accuracy.n,
    }
    enough = lead.low >= -table["margin"]
    if chosen is whole:
        text = gettext(
            "On {n:,} labels, no smaller panel is within {margin} points of the accuracy of the"
            " best one, which has all {judges} judges."
        )
        yield finding(LEAD, "info", text.fill(**facts))
        return
    if enough:
        text = gettext(
            "{names} can replace all {judges} judges: at most {margin} points less accurate."
        )
    else:
        text = gettext(
            "It is open whether {names} can replace all {judges} judges within {margin} points of"
            " accuracy."
        )
    text = gettext(
        "{finding} Right in {accuracy} of {n:,} labels, a lead of {lead} points over all judges,"
        " each for a subset chosen on other labels.",
        finding=text.fill(
            names=joined(chosen["judges"], pgettext("names", ", ")), **facts
        ),
        accuracy=percent(accuracy),
        n=accuracy.n,
        lead=points(lead),
    )
    if chosen["cost_usd"] is not None and whole["cost_usd"]:
        cost = dollars(chosen["cost_usd"])
        full = dollars(whole["cost_usd"])
        text = gettext(
            "{finding} Cost per case: {cost} instead of {full}.",
            finding=text,
            cost=cost,
            full=full,
        )
    yield finding(LEAD, "good" if enough else "info", text)
