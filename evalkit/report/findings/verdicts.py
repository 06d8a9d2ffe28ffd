"""Findings on verdicts and scores: missing ones, ties, contradictions, distinct scores, and stated confidence."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import interval, percent
from evalkit.core.translation import Text, gettext, joined, ngettext
from evalkit.decision import (
    Metrics,
    known,
    one_order,
    side,
)
from evalkit.report.findings.finding import Finding, Tone, finding
from evalkit.scoring.verdicts.pairs import WEIGHED
from evalkit.types import Metric

FAR_OFF = 0.1  # of a confidence, on average


CONSISTENT = (
    "pointwise",
    "checklist",
    "listwise",
)  # one score or one ranking cannot have a cycle, so that there is none means nothing


MANY_TIES, MANY_MISSING = 0.5, 0.2
"""At and above these shares, ties or missing answers come first: they explain every other number."""


CAUSES = {
    "swap_disagreement": gettext("because the two orders disagree"),
    "judged": gettext("because the judge calls them ties"),
    "equal_scores": gettext("because the two scores are equal"),
    "threshold": gettext("because of tie.threshold or tie.min_confidence"),
    "split": gettext("because votes or samples cancel out"),
    "criteria_cancel": gettext("because the weighted criteria cancel out, which scoring.aggregate=overall avoids"),
}


MISSING = {
    "unparseable": gettext("{n:,} unparseable"),
    "refused": gettext("{n:,} refused"),
    "failed": gettext("{n:,} failed"),
    "budget": gettext("{n:,} over the budget"),
}


def missing_findings(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield how many answers are missing, and most often why."""
    rates = {kind: m for kind in MISSING if (m := known(metrics, f"missing/{kind}")) is not None and m.n}
    if not rates:
        return
    counts = {kind: round((m.value or 0) * m.n) for kind, m in rates.items()}
    total, n = sum(counts.values()), max(m.n for m in rates.values())
    if not total:
        text = ngettext("The only answer is not missing.", "None of {n:,} answers is missing.", n)
        yield finding("missing/failed", "good", text)
        return
    kind = max(counts, key=lambda kind: counts[kind])
    text = ngettext(
        "{n:,} of {all:,} answers is missing ({share}): {why}. Metrics exclude them and have worst-case bounds.",
        "{n:,} of {all:,} answers are missing ({share}): {why}. Metrics exclude them and have worst-case bounds.",
        total,
        all=n,
        share=f"{100 * total / n:.1f}%",
        why=joined(MISSING[kind].fill(n=count) for kind, count in counts.items() if count),
    )
    yield finding(f"missing/{kind}", "bad" if total > 0.05 * n else "warn", text)


def tie_findings(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield how many pairs are ties and why, and whether all verdicts are the same."""
    if (rate := known(metrics, "tie_rate")) is None:
        return
    parts = {name: m for name in CAUSES if (m := known(metrics, f"tie_rate/{name}")) is not None}
    main = max(parts, key=lambda name: parts[name].value or 0, default="")
    made = parts[main].value or 0 if main else 0
    text = gettext("{rate} of pairs are ties.")
    if made > 0.5 * (rate.value or 0):
        text = gettext("{rate} of pairs are ties, most of them {because} ({part}).")
        if made > (rate.value or 0) - 1e-9:
            text = gettext("{rate} of pairs are ties {because}.")
        text = text.fill(because=CAUSES[main], part=percent(parts[main]))
    bad = (rate.value or 0) >= MANY_TIES or (main == "swap_disagreement" and made > 0.5 * (rate.value or 0))
    if main == "equal_scores" and has_two_scores(metrics):  # then many pairs are equal under any judge
        bad = False
    yield finding(rate, "warn" if bad else "info", text)
    yield from _one_winner(metrics)


def _one_winner(metrics: Metrics) -> Iterator[Finding]:
    """Yield that all verdicts are the same; if all labels are of one class too, they may be right."""
    kappa = metrics.get("agreement/kappa")
    if one_order(metrics) or (kappa is not None and kappa.value is None and kappa.n):
        return
    for name, winner in (("win_rate/a", "A"), ("win_rate/b", "B")):
        wins = known(metrics, name)
        if wins is not None and wins.value == 1 and wins.n > 2:
            yield finding(wins, "warn", gettext("All {n:,} verdicts are {winner}.", winner=winner))


def aggregate_findings(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield how often the judge's overall winner is not that of the weighted criteria."""
    rate = known(metrics, "criteria/overall_disagreement")
    if rate is None or not rate.value:
        return
    weighed = WEIGHED in (rate.note or "")
    text = (
        gettext(
            "Verdicts follow the weighted criteria; in {rate} of judgments, the judge's overall winner is a different "
            "one."
        )
        if weighed
        else gettext(
            "Verdicts follow the judge's overall winner; in {rate} of judgments, the weighted criteria have a "
            "different winner."
        )
    )
    yield finding(rate, "info", text)


def conflict_findings(metrics: Metrics, mode: str) -> Iterator[Finding]:
    """Yield how often verdicts contradict each other."""
    rate = known(metrics, "conflict/rate")
    if rate is not None and (rate.value or mode not in CONSISTENT):
        yield _cycles(rate, known(metrics, "conflict/chance_rate"), known(metrics, "conflict/ratio"))
    if (weak := known(metrics, "conflict/weak_rate")) is not None and weak.value:
        text = gettext("Ties are not transitive (A = B, B = C, but A > C) in {rate} of cases.")
        yield finding(weak, "info", text)


def _cycles(rate: Metric, chance: Metric | None, ratio: Metric | None) -> Finding:
    """Return how often verdicts are cyclic, and whether that differs from random verdicts."""
    tone: Tone = "warn" if rate.value else "info"
    if rate.value:
        text = (
            gettext("Contradicts itself (A > B > C > A) in {rate} of {n:,} cases")
            if rate.n
            else gettext("Contradicts itself (A > B > C > A) in {rate} of cases")
        )
    else:
        text = (
            gettext("No contradiction (A > B > C > A) was found: {rate} of {n:,} cases")
            if rate.n
            else gettext("No contradiction (A > B > C > A) was found: {rate} of cases")
        )
    text = text.fill(rate=percent(rate), n=rate.n)
    if chance is None or chance.value is None:
        return finding("conflict/rate", tone, gettext("{finding}.", finding=text))
    where = side(ratio, 1.0) if ratio is not None and ratio.low is not None else side(rate, chance.value)
    expected: Text | str = f"{100 * chance.value:.0f}%"
    if where != "unknown" and ratio is not None and ratio.low is not None:
        expected = gettext("{rate}; ratio {ratio}", rate=expected, ratio=interval(ratio))
    chance_text = {
        "below": gettext("fewer than random verdicts would have ({expected})"),
        "above": gettext("more than random verdicts would have ({expected})"),
        "unclear": gettext("not shown to differ from random verdicts ({expected})"),
        "unknown": gettext("random verdicts would have {expected}"),
    }[where]
    tone = "good" if where == "below" and not rate.value else tone
    text = gettext("{finding}; {chance}.", finding=text, chance=chance_text.fill(expected=expected))
    return finding("conflict/rate", tone, text)


def score_findings(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield how many different scores the judge uses."""
    if (distinct := known(metrics, "score/distinct")) is not None and distinct.n != 1:
        few = distinct.n > 2 and (distinct.value or 0) <= (1 if has_two_scores(metrics) else 2)
        if distinct.value == 1:
            text = gettext("All {n:,} scores are equal", n=distinct.n)
        else:
            text = gettext("Uses {count} different scores", count=f"{distinct.value:.0f}")
        end = gettext("{finding}, so it hardly separates responses.") if few else gettext("{finding}.")
        yield finding("score/distinct", "bad" if few else "info", end.fill(finding=text))


def has_two_scores(metrics: Metrics) -> bool:
    """Return whether the rubric's scale has only two scores."""
    distinct = metrics.get("score/distinct")
    return distinct is not None and (distinct.note or "").startswith("of the 2 ")


def calibration_findings(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield how far stated confidence is from accuracy."""
    ece = known(metrics, "calibration/ece")
    if ece is not None and ece.low is not None:  # one or two cases would show nothing
        value, low, high = (None if x is None else 100 * x for x in (ece.value, ece.low, ece.high))
        points = Metric(ece.name, value, low, high)
        text = gettext(
            "Its confidence differs from its accuracy by {points} points on average", points=interval(points, 0)
        )
        if ece.low == 0 and (ece.high or 0) > FAR_OFF:
            text = gettext(
                "It is unknown whether its confidence is reliable (n = {n:,}): it differs from its accuracy by 0 to "
                "{high:.0f} points on average",
                n=ece.n,
                high=high,
            )
        yield finding("calibration/ece", "warn" if ece.low > FAR_OFF else "info", _turned(metrics).fill(finding=text))


def _turned(metrics: Metrics) -> Text:
    """Return how confidence counts if it was stated for another winner than the weighted one."""
    rate = known(metrics, "criteria/overall_disagreement")
    if rate is None or not rate.value or WEIGHED not in (rate.note or ""):
        return gettext("{finding}.")
    return gettext(
        "{finding}; where the overall winner is not the weighted one, a confidence c counts as 1 - c (0.5 if either "
        "is a tie)."
    )
