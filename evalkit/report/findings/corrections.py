"""Findings on rates and means that are corrected by labels, and on whether such a correction can be carried over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalkit.core.display import fixed, interval, percent
from evalkit.core.translation import Message, gettext, joined, pgettext
from evalkit.decision import Metrics, known
from evalkit.report.findings.finding import NAMED, Finding, Tone, class_names, finding
from evalkit.scoring.metrics.corrections import RANDOM
from evalkit.scoring.metrics.transport import GAP, MEAN
from evalkit.types import Metric
from evalkit.values import Json

RATES = {
    "win_rate/a": gettext("Response A wins"),
    "win_rate/b": gettext("Response B wins"),
    "tie_rate": pgettext("finding", "Ties"),
}


def correction_findings(metrics: Metrics) -> Iterator[Finding]:
    """Yield the judge's rates corrected by the labeled cases, if other cases have no label."""
    for name, what in RATES.items():
        judged, right = known(metrics, name), known(metrics, f"corrected/{name}")
        if judged is None or right is None or right.low is None or RANDOM not in (right.note or ""):
            continue
        off = _beyond(judged, right)
        text = {
            "above": gettext(
                "{what}: {judged} as judged, {corrected} corrected by {n:,} labels; the judge gives this verdict too "
                "often."
            ),
            "below": gettext(
                "{what}: {judged} as judged, {corrected} corrected by {n:,} labels; the judge gives this verdict too "
                "rarely."
            ),
            None: gettext("{what}: {judged} as judged, {corrected} corrected by {n:,} labels."),
        }[off]
        text = text.fill(what=what, judged=percent(judged), corrected=percent(right))
        yield finding(right, "warn" if off else "info", text)


def _beyond(judged: Metric, right: Metric) -> str | None:
    """Return on which side of the corrected interval the judge's rate is; `None` if it is inside."""
    if judged.value is None or right.low is None or right.high is None or right.low <= judged.value <= right.high:
        return None
    return "above" if judged.value > right.high else "below"


def class_corrections(metrics: Metrics) -> Iterator[Finding]:
    """Yield each class's rate corrected by labels, if other responses have none, with Youden's J."""
    for name in class_names(metrics):
        judged, right = known(metrics, f"class/{name}/rate"), known(metrics, f"corrected/prediction_powered/{name}")
        if judged is None or right is None or right.low is None or RANDOM not in (right.note or ""):
            continue
        if right.low <= 0 and right.high is not None and right.high >= 1:
            text = gettext("'{name}': {judged} as judged; {n:,} labels do not determine the correct rate. Label more.")
            yield finding(right, "warn", text.fill(name=name, judged=percent(judged)))
            continue
        text = gettext("'{name}': {judged} as judged, {corrected} corrected by {n:,} labels")
        text = text.fill(name=name, judged=percent(judged), corrected=percent(right), n=right.n)
        if (errors := known(metrics, f"corrected/rate/{name}")) is not None:
            text = gettext("{finding}, {rate} corrected for the errors on them", finding=text, rate=percent(errors))
        else:
            text = gettext("{finding}; the errors on them do not determine a correction", finding=text)
        if (youden := known(metrics, f"class/{name}/youden_j")) is not None:
            text = gettext("{finding} (Youden's J {youden})", finding=text, youden=interval(youden))
        value = judged.value or 0.0
        off = right.high is not None and not right.low <= value <= right.high
        yield finding(right.name, "warn" if off else "info", gettext("{finding}.", finding=text))


RESULTS = {
    "pass": gettext("it holds for {systems}"),
    "fail": gettext("it is off by more for {systems}"),
    "undecided": gettext("the labels do not decide for {systems}"),
}


def transport_findings(metrics: Metrics, table: Json) -> Iterator[Finding]:
    """Yield how the correction did on each labeled system, and its means of the others, by the table of systems."""
    rows: Sequence[Json] = table.get("systems") or ()
    if not rows or known(metrics, "labels/picked") is not None:
        return
    by = {name: [row["system"] for row in rows if row["result"] == name] for name in (*RESULTS, "untested", "refused")}
    parts = [text.fill(systems=_names(by[name], metrics, GAP)) for name, text in RESULTS.items() if by[name]]
    text = gettext(
        "A correction of scores by labels of other systems was tested on {n} labeled systems, with a margin of "
        "{margin}: {results}.",
        n=sum(len(by[name]) for name in RESULTS),
        margin=fixed(table["margin"], 2),
        results=joined(parts, gettext("; ")),
    )
    tone: Tone = "bad" if by["fail"] else "info" if by["undecided"] else "good"
    yield finding(GAP + rows[0]["system"], tone, text)
    if by["untested"]:
        text = gettext(
            "Mean scores corrected in this way, untested on these systems (intervals hold sampling error only): "
            "{systems}.",
            systems=_names(by["untested"], metrics, MEAN),
        )
        yield finding(MEAN + by["untested"][0], "warn" if by["fail"] else "info", text)
    if by["refused"]:
        text = gettext(
            "No corrected mean for {systems}: more than 5% of the scores are outside the range of labeled scores.",
            systems=_names(by["refused"], metrics, MEAN),
        )
        yield finding(MEAN + by["refused"][0], "warn", text)


def _names(systems: Sequence[str], metrics: Metrics, group: str) -> Message:
    shown = []
    for system in systems[:NAMED]:
        metric = known(metrics, group + system)
        shown.append(system if metric is None else f"{system} {interval(metric)}")
    names = joined(shown, pgettext("names", ", "))
    more = len(systems) - NAMED
    return gettext("{names} and {more} more", names=names, more=more, all=len(systems)) if more > 0 else names
