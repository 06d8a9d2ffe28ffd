"""Findings on annotators: whether the judge agrees with them as they do with each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from evalkit.core.display import interval
from evalkit.core.translation import gettext
from evalkit.report.findings.finding import Finding, RunFacts, Tone, finding
from evalkit.scoring.decision import (
    FEW_LABELS,
    IDENTICAL,
    Metrics,
    decide,
    known,
    labels_at_hand,
    side,
)

_EPSILON: Final = re.compile(r"at epsilon ([0-9.]+)")


def annotator_findings(metrics: Metrics, run: RunFacts) -> Iterator[Finding]:
    """Yield how the judge compares with annotators."""
    yield from _people(metrics)
    yield from _alt_test(metrics)
    yield from _second_annotator(metrics, run.confidence)


def _people(metrics: Metrics) -> Iterator[Finding]:
    gap, ceiling, judge = (
        known(metrics, f"human/{name}") for name in ("gap", "ceiling", "judge")
    )
    # All three come together; a gap without an interval decides nothing.
    if gap is None or gap.low is None or ceiling is None or judge is None:
        return
    # 0: the judge agrees with the others as well as an annotator.
    where = side(gap, 0.0)
    tones: dict[str, Tone] = {"above": "good", "below": "bad"}
    tone = tones.get(where, "info")
    if where in ("unclear", "unknown"):
        sentence = gettext(
            "On {n:,} labels of items with several annotators, it is open whether the judge agrees"
            " with the other annotators as well as an annotator does"
        )
    elif where == "above":
        sentence = gettext(
            "On {n:,} labels of items with several annotators, the judge agrees with the other"
            " annotators better than an annotator does"
        )
    else:
        sentence = gettext(
            "On {n:,} labels of items with several annotators, the judge agrees with the other"
            " annotators less well than an annotator does"
        )
    text = gettext(
        "{finding}: {judge} versus {ceiling}, a difference of {gap}.",
        finding=sentence.fill(n=gap.n),
        judge=interval(judge),
        ceiling=interval(ceiling),
        gap=interval(gap),
    )
    yield finding(gap, tone, text)


def _alt_test(metrics: Metrics) -> Iterator[Finding]:
    test = known(metrics, "human/alt_test")
    if test is None:
        return
    share = test.value or 0.0
    # The note of the metric has the epsilon of its run.
    epsilon = _EPSILON.search(test.note or "")
    text = gettext(
        "By the alternative annotator test, the judge could replace {passed} of {n:,} annotators."
        " The test lets it be worse than an annotator by {epsilon} (scoring.alt_test_epsilon).",
        passed=round(share * test.n),
        n=test.n,
        epsilon=epsilon[1] if epsilon else "?",
    )
    gap = known(metrics, "human/gap")
    where = "unknown" if gap is None else side(gap, 0.0)
    # The test and the gap can point in different ways; the sentence says why.
    if where == "below" and share > 0:
        text = gettext(
            "{finding} So it can pass and still agree less well than an annotator does.",
            finding=text,
        )
    elif where == "above" and share < 1:
        text = gettext(
            "{finding} It tests each annotator alone, with fewer labels, so a judge that agrees"
            " better with all of them can fail.",
            finding=text,
        )
    yield finding(test, "info", text)


ENOUGH_TO_SHOW: Final = 50
"""So many cases of a second annotator show how much agreement is reachable."""
CEILING_MATTERS: Final = 0.9
"""Agreement above this is not limited by the labels."""


def _second_annotator(metrics: Metrics, confidence: float) -> Iterator[Finding]:
    """Yield once that a second annotator would show how much agreement is reachable."""
    decision = decide(metrics, confidence)
    agreement = decision.metric
    source = known(metrics, IDENTICAL)
    # Several annotators are known already.
    if any(known(metrics, f"human/{name}") for name in ("alpha", "ceiling")):
        return
    # Labels of a model or of a key are not those of an annotator.
    if source is not None and source.note not in (None, "annotators"):
        return
    if (
        agreement is None
        or agreement.value is None
        or agreement.value >= CEILING_MATTERS
        or labels_at_hand(metrics) < FEW_LABELS
    ):
        return
    text = gettext(
        "Each label is of one annotator, as far as the data says. Labels of a second one on {n}"
        " of these cases would show how much agreement is reachable.",
        n=ENOUGH_TO_SHOW,
    )
    yield finding(agreement, "info", text)
