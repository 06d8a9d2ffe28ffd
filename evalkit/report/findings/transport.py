"""Findings on whether a correction can be carried over to systems without labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalkit.core.display import fixed, interval
from evalkit.core.translation import Message, gettext, joined, pgettext
from evalkit.core.values import Json
from evalkit.report.findings.finding import NAMED, Finding, RunFacts, Tone, finding
from evalkit.scoring.decision import Metrics, known
from evalkit.scoring.metrics.transport import GAP, MEAN

RESULTS = {
    "pass": gettext("it holds for {systems}"),
    "fail": gettext("it is off by more for {systems}"),
    "undecided": gettext("the labels do not decide for {systems}"),
}


def transport_findings(metrics: Metrics, run: RunFacts) -> Iterator[Finding]:
    """Yield how the correction did on each labeled system, and its means of the others."""
    table = run.details.get("transport") or {}
    rows: Sequence[Json] = table.get("systems") or ()
    if not rows or known(metrics, "labels/picked") is not None:
        return
    # {result: systems}, also for systems without labels.
    by = {
        name: [row["system"] for row in rows if row["result"] == name]
        for name in (*RESULTS, "untested", "refused")
    }
    parts = [
        text.fill(systems=_names(by[name], metrics, GAP))
        for name, text in RESULTS.items()
        if by[name]
    ]
    text = gettext(
        "A correction of scores by labels of other systems was tested on {n} labeled systems, with"
        # Only systems that were tested count; the others follow in sentences of their own.
        " a margin of {margin}: {results}.",
        n=sum(len(by[name]) for name in RESULTS),
        margin=fixed(table["margin"], 2),
        results=joined(parts, gettext("; ")),
    )
    # One failure is bad news, however many systems pass.
    tone: Tone = "info" if by["undecided"] else "good"
    if by["fail"]:
        tone = "bad"
    yield finding(GAP + rows[0]["system"], tone, text)
    if by["untested"]:
        text = gettext(
            "Mean scores corrected in this way, untested on these systems (intervals hold sampling"
            " error only): {systems}.",
            systems=_names(by["untested"], metrics, MEAN),
        )
        yield finding(MEAN + by["untested"][0], "warn" if by["fail"] else "info", text)
    if by["refused"]:
        text = gettext(
            "No corrected mean for {systems}: more than 5% of the scores are outside the range of"
            " labeled scores.",
            systems=_names(by["refused"], metrics, MEAN),
        )
        yield finding(MEAN + by["refused"][0], "warn", text)


def _names(systems: Sequence[str], metrics: Metrics, group: str) -> Message:
    entries = []
    for system in systems[:NAMED]:
        metric = known(metrics, group + system)
        entries.append(system if metric is None else f"{system} {interval(metric)}")
    names = joined(entries, pgettext("names", ", "))
    unnamed = len(systems) - NAMED
    if unnamed > 0:
        return gettext(
            "{names} and {more} more", names=names, more=unnamed, all=len(systems)
        )
    return names
