"""Findings on the turns and steps of conversations."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.config import CHECKLIST
from evalkit.core.display import percent, points
from evalkit.core.translation import gettext
from evalkit.report.findings.finding import Finding, RunFacts, finding
from evalkit.scoring.decision import Metrics, known, side
from evalkit.scoring.metrics.turns import (
    EARLY,
    EXACT,
    LATE,
    NEAR,
    NONE,
    RECOVERED,
    SLOPE,
)


def turn_findings(metrics: Metrics, run: RunFacts) -> Iterator[Finding]:
    """Yield what changes along conversations, and whether failures are found where they are."""
    yield from _by_position(metrics, run.mode)
    # All three metrics come together, or the data have no labeled failures.
    exact, near, none = (known(metrics, name) for name in (EXACT, NEAR, NONE))
    if exact is not None and near is not None and none is not None:
        text = gettext(
            "In {exact} of {n:,} conversations, the first turn or step that fails is the labeled"
            " one, or none fails by either; within one turn or step in {near}. A judge that passes"
            " everything would be right in {none} of {labeled:,} labeled ones.",
            exact=percent(exact),
            labeled=none.n,
            near=percent(near),
            none=percent(none),
        )
        # Intervals that do not overlap: better than a judge that passes everything.
        better = (
            exact.low is not None and none.high is not None and exact.low > none.high
        )
        yield finding(exact, "good" if better else "info", text)
    if (after := known(metrics, RECOVERED)) is not None:
        text = gettext(
            "Of {n:,} conversations in which a turn or step before the last fails by the verdicts,"
            " the last one passes in {rate}. The agent may have recovered, or a verdict may be"
            " wrong, so the last one does not stand for the whole."
        )
        yield finding(after, "info", text)


def _by_position(metrics: Metrics, mode: str) -> Iterator[Finding]:
    # The slope is in points from the first to the last turn.
    slope, early, late = (known(metrics, name) for name in (SLOPE, EARLY, LATE))
    if slope is None or early is None or late is None or slope.low is None:
        return
    text = gettext(
        "No clear change of agreement with labels along conversations: {early} in the first half"
        " and {late} in the second; {slope} points from the first to the last turn or step."
    )
    # 0: agreement does not change along conversations.
    where = side(slope, 0.0)
    if where == "below":
        text = gettext(
            "Agreement with labels is lower late in conversations: {early} in the first half and"
            " {late} in the second; {slope} points from the first to the last turn or step. Late"
            " ones may also be harder to judge."
        )
    elif where == "above":
        text = gettext(
            "Agreement with labels is higher late in conversations: {early} in the first half and"
            " {late} in the second; {slope} points from the first to the last turn or step. Late"
            " ones may also be easier to judge."
        )
    text = text.fill(early=percent(early), late=percent(late), slope=points(slope))
    # Scores have no right and wrong, so agreement has another meaning.
    if "score/mean" in metrics and mode != CHECKLIST:
        text = gettext(
            "{finding} Agreement is here 1 minus the distance of score and grade as a share of the"
            " scale, which chance alone can make high.",
            finding=text,
        )
    yield finding(SLOPE, "warn" if where == "below" else "info", text)
