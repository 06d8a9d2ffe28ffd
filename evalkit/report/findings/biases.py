"""Findings on biases: position, length, order, and the judge's own family."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import estimate
from evalkit.core.translation import gettext, ngettext
from evalkit.core.types import Metric
from evalkit.report.findings.finding import Finding, RunFacts, Tone, finding
from evalkit.report.findings.rates import MANY_TIES
from evalkit.scoring.decision import FIRST as FIRST_RATE
from evalkit.scoring.decision import (
    Metrics,
    known,
    one_order,
    side,
)


def position_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield which position the judge prefers, and how often it keeps its verdict in the
    other order.
    """
    consistency = known(metrics, "position/consistency")
    if (first := known(metrics, FIRST_RATE)) is not None:
        always = (
            consistency is not None and consistency.value == 1 and first.value == 0.5
        )
        if one_order(metrics):
            yield _confounded(first)
        # then each pair favors each position once, and consistency says all there is
        elif not always:
            yield _preference(first)
    if consistency is not None:
        yield _consistency(consistency, known(metrics, "tie_rate/judged"))


def _consistency(consistency: Metric, judged: Metric | None) -> Finding:
    high = consistency.low is not None and consistency.low >= 0.8
    tied = judged is not None and (judged.value or 0) >= MANY_TIES
    if tied:
        text = ngettext(
            "Keeps its verdict when the order of the only pair is swapped, but the verdict is a"
            " tie.",
            "Keeps its verdict in {rate} of {n:,} pairs when the order is swapped, but most of"
            " these verdicts are ties.",
            consistency.n,
        )
    else:
        text = ngettext(
            "Keeps its verdict in {rate} of {n:,} pair when the order is swapped.",
            "Keeps its verdict in {rate} of {n:,} pairs when the order is swapped.",
            consistency.n,
        )
    return finding(consistency, "good" if high and not tied else "warn", text)


def _confounded(first: Metric) -> Finding:
    text = ngettext(
        "Only {n:,} pair is decided, and it was shown in one order only: position and quality"
        " cannot be separated.",
        "The answer shown first wins {rate} of {n:,} decided pairs; each pair was shown in one"
        " order only, so position and quality cannot be separated.",
        first.n,
    )
    return finding(first, "info", text)


def _preference(rate: Metric) -> Finding:
    where = side(rate, 0.5)
    text = {
        "unknown": ngettext(
            "Only {n:,} pass (a pair in one order) is decided: too few to show a preference for a"
            " position.",
            "The answer shown first wins {rate} of {n:,} decided passes (a pair in one order): too"
            " few to show a preference.",
            rate.n,
        ),
        "unclear": gettext(
            "No clear preference for the answer shown first: it wins {rate} of {n:,} decided passes"
            " (a pair in one order)."
        ),
        "above": gettext(
            "Prefers the answer shown first by {lead} points: the answer shown first wins {rate} of"
            " {n:,} decided passes (a pair in one order)."
        ),
        "below": gettext(
            "Prefers the answer shown second by {lead} points: the answer shown first wins {rate}"
            " of {n:,} decided passes (a pair in one order)."
        ),
    }[where]
    return finding(
        rate,
        "warn" if where in ("above", "below") else "info",
        text.fill(lead=_lead(rate)),
    )


def _lead(metric: Metric) -> str:
    """Return the lead of one of two outcomes in points, from its share: 0.56 against
    0.44 is 12 points.
    """
    points = [
        None if x is None else abs(200 * x - 100)
        for x in (metric.value, metric.low, metric.high)
    ]
    value, *ends = points
    low, high = (
        sorted(end for end in ends if end is not None)
        if None not in ends
        else (None, None)
    )
    return estimate(value, low, high, "{:.0f}".format)


def length_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield how often the longer answer wins; that alone is not a preference, because
    it may be better.
    """
    longer = known(metrics, "length/longer_rate")
    if longer is None or length_at_label(metrics) is not None or longer.n < 2:
        return
    labeled = known(metrics, "agreement/accuracy") is not None
    if labeled:
        text = gettext(
            "The longer answer wins {rate} of {n:,} decided pairs; the labels do not show whether"
            " that is a preference for length."
        )
    else:
        text = gettext(
            "The longer answer wins {rate} of {n:,} decided pairs; without labels, this does not"
            " show whether that is a preference for length."
        )
    clear = side(longer, 0.5) in ("above", "below")
    yield finding(longer, "warn" if clear else "info", text)


def length_at_label(metrics: Metrics) -> Metric | None:
    """Return the slope of verdicts on length at equal label, `None` where the labels do
    not determine it.
    """
    slope = known(metrics, "length/slope_at_label")
    if slope is None or side(slope, 0.0) == "unknown":
        return None
    return slope


def label_length_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield whether length sways the judge at equal label."""
    slope = length_at_label(metrics)
    if slope is None:
        return
    where = side(slope, 0.0)
    if where == "unclear":
        lean = gettext(
            "No clear preference for longer or shorter answers at equal label"
        )
    elif where == "above":
        lean = gettext("Prefers longer answers beyond what the labels explain")
    else:
        lean = gettext("Prefers shorter answers beyond what the labels explain")
    text = gettext(
        "{lean}: {value} log odds per standard deviation of length.", lean=lean
    )
    yield finding(slope, "info" if where == "unclear" else "warn", text)


def identical_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield how often it prefers one of two identical answers."""
    if (
        rate := known(metrics, "position/identical_preference")
    ) is not None and rate.value:
        yield finding(
            rate,
            "bad",
            gettext(
                "Prefers one of two identical answers in {rate} of {n:,} comparisons."
            ),
        )


def family_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield whether it favors its own model family at equal label."""
    preference = known(metrics, "self/preference")
    if preference is None or (where := side(preference, 0.0)) == "unknown":
        return
    tone: Tone = "info" if where == "unclear" else "warn"
    text = {
        "above": gettext(
            "Favors answers of its own model family at equal label: {points} points."
        ),
        "below": gettext(
            "Disfavors answers of its own model family at equal label: {points} points."
        ),
        "unclear": gettext(
            "No clear preference for answers of its own model family at equal label: {points}"
            " points."
        ),
    }[where]
    yield finding(preference, tone, text)
