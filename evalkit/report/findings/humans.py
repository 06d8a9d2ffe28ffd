"""Findings on annotators: whether the judge agrees with them as they do with each other."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import interval
from evalkit.core.translation import gettext
from evalkit.decision import (
    Metrics,
    known,
    side,
)
from evalkit.report.findings.finding import Finding, RunFacts, Tone, finding


def annotator_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield how the judge compares with annotators."""
    yield from _people(metrics)
    yield from _alt_test(metrics)


def _people(metrics: Metrics) -> Iterator[Finding]:
    gap, ceiling, judge = (
        known(metrics, f"human/{name}") for name in ("gap", "ceiling", "judge")
    )
    if gap is None or gap.low is None or ceiling is None or judge is None:
        return
    where = side(gap, 0.0)
    tone: Tone = "good" if where == "above" else "bad" if where == "below" else "info"
    if where in ("unclear", "unknown"):
        what = gettext(
            "On {n:,} labels of items with several annotators, it is open whether the judge agrees"
            " with the other annotators as well as an annotator does"
        )
    elif where == "above":
        what = gettext(
            "On {n:,} labels of items with several annotators, the judge agrees with the other"
            " annotators better than an annotator does"
        )
    else:
        what = gettext(
            "On {n:,} labels of items with several annotators, the judge agrees with the other"
            " annotators less well than an annotator does"
        )
    text = gettext(
        "{finding}: {judge} versus {ceiling}, a difference of {gap}.",
        finding=what.fill(n=gap.n),
        judge=interval(judge),
        ceiling=interval(ceiling),
        gap=interval(gap),
    )
    yield finding(gap, tone, text)


def _alt_test(metrics: Metrics) -> Iterator[Finding]:
    if (test := known(metrics, "human/alt_test")) is not None:
        text = gettext(
            "By the alternative annotator test, the judge could replace {passed} of {n:,}"
            " annotators."
        )
        yield finding(
            test, "info", text.fill(passed=round((test.value or 0.0) * test.n))
        )
