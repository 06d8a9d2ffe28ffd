"""Findings on the ranking of systems by a run's verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalkit.core.translation import Text, gettext, joined, ngettext, pgettext
from evalkit.core.values import Json
from evalkit.report.findings.finding import NAMED, Finding, RunFacts, finding
from evalkit.scoring.decision import Metrics, known


def ranking_findings(metrics: Metrics, run: RunFacts) -> Iterator[Finding]:
    """Yield which system ranks first, if that is certain, and how many pairs of systems
    differ significantly.
    """
    ranking = run.details.get("ranking") or {}
    systems: Sequence[Json] = ranking.get("systems") or ()
    separated = known(metrics, "ranking/separated")
    if separated is None:
        return
    apart = f"{round((separated.value or 0) * separated.n):,}"
    text = ngettext(
        "{apart} of {n:,} pair of systems differs significantly.",
        "{apart} of {n:,} pairs of systems differ significantly.",
        separated.n,
        apart=apart,
    )
    if first := _first(systems, 1 - float(ranking.get("confidence") or 0.95)):
        text = gettext("{first}; {rest}", first=first, rest=text)
    yield finding(separated, "info" if separated.value else "warn", text)


def _like_first(system: Json, alpha: float) -> bool:
    """Return whether a system does not differ significantly from the first, by Holm's
    test over all pairs.
    """
    p = system.get("p_holm_of_first")
    return p is not None and p > alpha


def _first(systems: Sequence[Json], alpha: float) -> Text | None:
    ranked = [
        system
        for system in systems
        if system["rank"]["value"] is not None and system["rank"].get("low") is not None
    ]
    if len(ranked) < 2:
        return None
    best = [
        str(system["system"])
        for system in ranked
        if system["rank"]["low"] <= 1 or _like_first(system, alpha)
    ]
    if len(best) == 1:
        return gettext("By its verdicts, {system} ranks first", system=best[0])
    names = joined(best[:NAMED], pgettext("names", ", "))
    if len(best) <= NAMED:
        return gettext("First place is open between {names}", names=names)
    return gettext(
        "First place is open between {names} and {more} more",
        names=names,
        more=len(best) - NAMED,
        all=len(best),
    )
