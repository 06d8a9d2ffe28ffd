"""Findings on stated confidence."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import interval
from evalkit.core.translation import Text, gettext
from evalkit.core.types import Metric
from evalkit.report.findings.finding import Finding, RunFacts, Tone, finding
from evalkit.scoring.decision import Metrics, known
from evalkit.scoring.verdicts.pairs import WEIGHED

FAR_OFF = 0.1  # of a confidence, on average


def calibration_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield how far stated confidence is from accuracy."""
    ece = known(metrics, "calibration/ece")
    if ece is not None and ece.low is not None:  # one or two cases would show nothing
        value, low, high = (
            None if x is None else 100 * x for x in (ece.value, ece.low, ece.high)
        )
        points = Metric(ece.name, value, low, high)
        text = gettext(
            "Its confidence differs from its accuracy by {points} points on average",
            points=interval(points, 0),
        )
        if ece.low == 0 and (ece.high or 0) > FAR_OFF:
            text = gettext(
                "It is unknown whether its confidence is reliable (n = {n:,}): it differs from its"
                " accuracy by 0 to {high:.0f} points on average",
                n=ece.n,
                high=high,
            )
        yield finding(
            "calibration/ece",
            "warn" if ece.low > FAR_OFF else "info",
            _turned(metrics).fill(finding=text),
        )


REFUTED = 0.05
"""The p-value below which the claim of calibration is refuted."""
FEWEST = 10
"""Verdicts from which on the accuracy at a stated confidence is a finding."""


def claim_findings(metrics: Metrics, _: RunFacts) -> Iterator[Finding]:
    """Yield what a stated confidence is worth, whether the claim holds, and from where
    verdicts are right.
    """
    for level in (90, 80, 70):
        right = known(metrics, f"calibration/right_at_{level}")
        if right is not None and right.n >= FEWEST:
            text = gettext(
                "When it says {level}% or more, it is right in {rate} of {n:,} verdicts.",
                level=level,
            )
            below = right.high is not None and right.high < level / 100
            yield finding(right, "warn" if below else "info", text)
            break
    claim = known(metrics, "calibration/claim")
    excess = known(metrics, "calibration/excess")
    if claim is not None and excess is not None and claim.n >= FEWEST:
        yield finding("calibration/claim", *_claim(claim, excess))
    yield from _threshold(metrics)


def _claim(claim: Metric, excess: Metric) -> tuple[Tone, Text]:
    """Return whether a judge's probabilities are what they claim."""
    p = f"{claim.value:.3f}"
    if (claim.value or 0.0) >= REFUTED:
        return "info", gettext(
            "Nothing shows that its confidence is not what it claims (p = {p}, n = {n:,}).",
            p=p,
            n=claim.n,
        )
    values = {"p": p, "n": claim.n, "points": f"{abs(100 * (excess.value or 0)):.0f}"}
    if excess.low is not None and excess.low > 0:
        text = gettext(
            "Its confidence is not what it claims: it is overconfident by {points} points on"
            " average (p = {p}, n = {n:,})."
        )
    elif excess.high is not None and excess.high < 0:
        text = gettext(
            "Its confidence is not what it claims: it is underconfident by {points} points on"
            " average (p = {p}, n = {n:,})."
        )
    else:
        text = gettext(
            "Its confidence is not what it claims: too high in places and too low in others"
            " (p = {p}, n = {n:,})."
        )
    return "warn", text.fill(**values)


def _threshold(metrics: Metrics) -> Iterator[Finding]:
    """Yield the threshold of the highest accuracy that is proved, and how much it covers."""
    for target in (95, 90, 80):
        threshold = known(metrics, f"calibration/threshold_{target}")
        covered = known(metrics, f"calibration/covered_{target}")
        if threshold is None or covered is None or threshold.value is None:
            continue
        text = gettext(
            "Its verdicts with a confidence of at least {threshold} are right in {target}% or more:"
            " {rate} of its verdicts.",
            threshold=f"{threshold.value:.1%}",
            target=target,
        )
        yield finding(covered, "good", text)
        return


def _turned(metrics: Metrics) -> Text:
    """Return how confidence counts if it was stated for another winner than the weighted one."""
    rate = known(metrics, "criteria/overall_disagreement")
    if rate is None or not rate.value or WEIGHED not in (rate.note or ""):
        return gettext("{finding}.")
    return gettext(
        "{finding}; where the overall winner is not the weighted one, a confidence c counts as 1 -"
        " c (0.5 if either is a tie)."
    )
