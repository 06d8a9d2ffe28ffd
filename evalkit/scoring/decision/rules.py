"""The rules of a decision about a judge, in their order.

The decision follows whole intervals, never estimates alone. Agreement with the labels is corrected
for chance: kappa, or the correlation of scores and grades. If its interval lies below `FLOOR`, the
judge is useless, however many labels show that it is better than chance; if it lies above, the
judge is useful; otherwise the labels do not decide. The floor is 0.2: up to there kappa is at best
"slight" (Landis and Koch 1977, Biometrics 33, 159-174, table 2) and a correlation "very weak"
(Evans 1996, Straightforward Statistics for the Behavioral Sciences, 146).
"""

from __future__ import annotations

import re
from dataclasses import replace
from statistics import NormalDist
from typing import Final

from evalkit.core.types import Metric
from evalkit.scoring.decision.decision_types import Decision, Limit, Reason, Use
from evalkit.scoring.decision.evidence import (
    CLOSE,
    CONCORDANCE,
    COPIED,
    IDENTICAL,
    LABELS_NEEDED,
    PAIRS,
    RIGHT,
    SAME_TOOL,
    SCORES,
    SLOPE,
    SPLIT,
    SPREAD,
    WRONG,
    Metrics,
    VerdictKind,
    beyond_chance,
    constant_verdict,
    deciding_agreement,
    judges_of,
    kind_of,
    known,
    labeled_metric,
    labels,
    labels_against,
    labels_at_hand,
    metrics_of,
    order_effect_is_small,
    units_differ,
    units_in_data,
)
from evalkit.scoring.decision.leans import Leans, leans_of
from evalkit.scoring.decision.limits import (
    gaps_and_biases,
    labels_by_verdict,
    mostly_missed,
    self_agreement,
)
from evalkit.scoring.decision.thresholds import (
    CLOSE_ENOUGH,
    CONSTANT_AFTER,
    EXACT,
    FEW,
    FLOOR,
    MANY_MISSING,
    NEGLIGIBLE_SHIFT,
    SLOPES,
    SOME_MISSING,
    SUBSTANTIAL,
)
from evalkit.scoring.decision.weak_slices import (
    FOLLOWS,
    LONGER,
    VARIES,
    WITHIN,
    is_label,
    places,
    stratum,
)


def decide(metrics: Metrics, confidence: float) -> Decision:
    """Return what may be concluded about a judge from its metrics; `metrics_of` selects
    one judge of a panel.

    In this order: can its answers be used; does it agree with itself more than a coin; are there
    labels that can show anything; is its agreement less than chance, no better, hardly better, or
    useful; does it lean to one side; is it good for rates, and for single verdicts.

    Args:
        metrics: the metrics of a run.
        confidence: the confidence of their intervals.
    """
    kind = kind_of(metrics)
    agreement = deciding_agreement(kind, metrics)
    share = None if kind.share is None else known(metrics, kind.share)
    leans = leans_of(kind, metrics, confidence)
    decision = (
        _unusable(kind, metrics)
        or _contradicts_itself(kind, metrics)
        or _split(kind, metrics)
        or _own_labels(kind, metrics, agreement)
        or _unlabeled(kind, metrics, agreement, confidence)
        or _constant(kind, metrics, agreement)
        or _only_stratum(kind, metrics, agreement, leans, confidence)
        or _zone(kind, metrics, agreement, leans, confidence)
    )
    decision = _copied_labels(decision, metrics)
    decision = replace(
        decision,
        share=share,
        metric=decision.metric or agreement,
        right=known(metrics, RIGHT),
        wrong=known(metrics, WRONG),
        order=_order(kind, decision, agreement, leans, confidence),
    )
    # A judge that is not good for rates may still put responses in order.
    if decision.order and decision.use in ("none", "unknown"):
        decision = replace(decision, use="order")
    further = gaps_and_biases(kind, metrics, decision, leans, confidence)
    limits = (*leans.limits, *further)
    if any(limit.kind in _SAYS_LENGTH for limit in limits):
        limits = tuple(
            limit for limit in limits if limit.kind not in ("longer", "shorter")
        )  # the same preference
    where = tuple(places(metrics, decision.use)) if decision.trusted else ()
    decision = replace(decision, limits=limits, where=where)
    return _with_labels_needed(decision, metrics)


_SAYS_LENGTH: Final = frozenset({"always_longer", "follows_length", "follows_brevity"})
_CLUSTERS: Final = re.compile(r"labels of (\d+) clusters")
_ASKS_FOR_LABELS: Final = frozenset({"no_labels", "undecided", "lean_unclear"})
"""Reasons that a number of labels would settle."""


def _with_labels_needed(decision: Decision, metrics: Metrics) -> Decision:
    """Return a decision with how many more labels would probably decide, if a number is
    known that would.
    """
    needed = known(metrics, LABELS_NEEDED)
    if needed is None or decision.reason not in _ASKS_FOR_LABELS:
        return decision
    needed_labels = max(1, round(needed.value or 0.0))
    units = units_in_data(metrics)
    ends = None
    if needed.low is not None and needed.high is not None:
        ends = (round(needed.low), round(needed.high))
    clusters = _CLUSTERS.search(needed.note or "")
    return replace(
        decision,
        clusters=None if clusters is None else int(clusters[1]),
        labels_needed=needed_labels,
        labels_range=ends,
        unlabeled=None if units is None else max(0, units - labels_at_hand(metrics)),
    )


_ORDER_IS_OPEN: Final = frozenset(
    {
        "missing",
        "split",
        "no_labels",
        "few_labels",
        "one_class",
        "picked",
        "label_source",
        "copied_labels",
        "orders_disagree",
        "samples_disagree",
        "stratum",
        "stratum_unclear",
        "stratum_followed",
    }
)
"""Reasons that leave open whether scores put responses in order."""


def _order(
    kind: VerdictKind,
    decision: Decision,
    agreement: Metric | None,
    leans: Leans,
    confidence: float,
) -> bool | None:
    """Return whether scores put responses in the order of the labels: a rank
    correlation above `SUBSTANTIAL`.

    Of scores that follow the length of responses, it is unknown: they keep the order only where the
    labels follow length, too.
    """
    if any(limit.kind in _SAYS_LENGTH for limit in leans.limits):
        return None
    if kind is not SCORES or agreement is None or agreement.low is None:
        return None
    if decision.reason in _ORDER_IS_OPEN or decision.reason == "constant":
        return None
    low, high, lowest, highest = _ends(agreement, confidence)
    if min(low, lowest) > SUBSTANTIAL:
        return True
    if max(high, highest) < SUBSTANTIAL:
        return False
    return None


def decide_for_judges(metrics: Metrics, confidence: float) -> dict[str, Decision]:
    """Return the decision about each judge of a panel, by name; empty without a panel."""
    return {
        judge: decide(metrics_of(metrics, judge), confidence)
        for judge in judges_of(metrics)
    }


def _decision(
    kind: VerdictKind,
    use: Use,
    reason: Reason,
    metric: Metric | None = None,
    possible: Use = "single",
) -> Decision:
    return Decision(
        use, reason, kind.unit, metric, possible="none" if use == "none" else possible
    )


def _unusable(kind: VerdictKind, metrics: Metrics) -> Decision | None:
    """Find that most answers are missing."""
    counted = labeled_metric(kind, metrics)
    if (
        counted is not None
        and counted.missing
        and counted.missing >= MANY_MISSING * labels(counted)
    ):
        return _decision(kind, "unknown", "missing", counted)
    # Missing answers to units without a label matter only where there are no labels.
    if counted is not None and labels(counted):
        return None
    lost = [
        metric
        for name, metric in metrics.items()
        if name.startswith("missing/") and metric.value is not None
    ]
    if lost and sum(metric.value or 0.0 for metric in lost) >= MANY_MISSING:
        return _decision(
            kind,
            "unknown",
            "missing",
            max(lost, key=lambda metric: metric.value or 0.0),
        )
    return None


def _contradicts_itself(kind: VerdictKind, metrics: Metrics) -> Decision | None:
    """Find that both orders, or samples of a question, agree little more than chance."""
    for reason, metric in self_agreement(metrics):
        if metric.high is not None and metric.high < FLOOR:
            return _decision(kind, "none", reason, metric)
    return None


def _unlabeled(
    kind: VerdictKind, metrics: Metrics, agreement: Metric | None, confidence: float
) -> Decision | None:
    """Find that no labels can show anything: none, picked ones, too few, or all of one class."""
    counted = labeled_metric(kind, metrics)
    if not labels(counted):
        return _decision(kind, "unknown", "no_labels")
    picked = known(metrics, "labels/picked")
    if picked is not None or labels_by_verdict(metrics, confidence) is not None:
        return _decision(kind, "unknown", "picked", agreement)
    few = labels(counted) < FEW
    if (
        agreement is not None
        and agreement.low is not None
        and agreement.high is not None
        and not few
    ):
        return None
    if (equal := _equal_scores(kind, metrics)) is not None:
        return equal
    return _decision(
        kind,
        "unknown",
        "few_labels" if few or agreement is not None else "one_class",
        agreement,
    )


def _only_stratum(
    kind: VerdictKind,
    metrics: Metrics,
    agreement: Metric | None,
    leans: Leans,
    confidence: float,
) -> Decision | None:
    """Find that a judge agrees with the labels no more than the values of a column do."""
    within = known(metrics, WITHIN)
    follows = known(metrics, FOLLOWS)
    # A limit says it better: the judge takes the longer response, with hardly an exception.
    if any(_is_exact(limit) for limit in leans.limits):
        within = _not_of(LONGER, within)
        follows = _not_of(LONGER, follows)
    if agreement is None or (within is None and follows is None):
        return None
    low, _, lowest, _ = _ends(beyond_chance(agreement), confidence)
    if min(low, lowest) <= FLOOR:  # not useful anyway, or not decided
        return None
    if within is not None:
        if within.high is not None and within.high < FLOOR:
            return _decision(kind, "none", "stratum", within)
        if (within.value or 0.0) < FLOOR:
            return _decision(kind, "unknown", "stratum_unclear", within)
    if follows is not None and not is_label(follows):
        return _decision(kind, "unknown", "stratum_followed", follows)
    return None


def _is_exact(limit: Limit) -> bool:
    """Return whether a limit says that the judge takes the longer response with hardly
    an exception.
    """
    return limit.kind == "always_longer" and (limit.metric.low or 0.0) >= EXACT


def _not_of(column: str, metric: Metric | None) -> Metric | None:
    """Return a metric about a column unless it is about this one."""
    if metric is None or stratum(metric) == column:
        return None
    return metric


def _equal_scores(kind: VerdictKind, metrics: Metrics) -> Decision | None:
    """Find that all scores are equal."""
    distinct = known(metrics, "score/distinct")
    if kind is not SCORES or distinct is None or distinct.value != 1 or distinct.n < 2:
        return None
    if distinct.n < CONSTANT_AFTER:
        return _decision(kind, "unknown", "few_labels", distinct)
    return _decision(kind, "none", "constant", distinct)


def _split(kind: VerdictKind, metrics: Metrics) -> Decision | None:
    """Find that most labeled units have votes that contradict each other."""
    split = known(metrics, SPLIT)
    if split is None or (split.value or 0.0) < MANY_MISSING:
        return None
    return _decision(kind, "unknown", "split", split)


def _own_labels(
    kind: VerdictKind, metrics: Metrics, agreement: Metric | None
) -> Decision | None:
    """Find that the labels are the judge's own word."""
    identical = known(metrics, IDENTICAL)
    if identical is not None and identical.note in (SAME_TOOL, "judge"):
        return _decision(kind, "unknown", "label_source", agreement)
    return None


def _copied_labels(decision: Decision, metrics: Metrics) -> Decision:
    """Return a decision without use if what shows the use are labels that an annotator may have
    copied from the judge; copies never show that a judge is useless.
    """
    copied = known(metrics, COPIED)
    if copied is None or not decision.trusted:
        return decision
    return replace(decision, use="unknown", reason="copied_labels", possible="single")


def _constant(
    kind: VerdictKind, metrics: Metrics, agreement: Metric | None
) -> Decision | None:
    """Find that a judge always gives the same verdict, although enough labels say
    something else.
    """
    constant = constant_verdict(metrics)
    if constant is None or constant[1].n < CONSTANT_AFTER:
        return None
    # With few labels against it, a constant verdict may be right.
    if labels_against(metrics, constant[0]) < FEW:
        return None
    return _decision(kind, "none", "constant", agreement)


def _zone(
    kind: VerdictKind,
    metrics: Metrics,
    agreement: Metric | None,
    leans: Leans,
    confidence: float,
) -> Decision:
    """Decide by the interval of the agreement, then by leans."""
    assert agreement is not None, "without agreement, nothing is labeled"
    low, high, lowest, highest = _ends(beyond_chance(agreement), confidence)
    best: Use = "single" if high >= SUBSTANTIAL else "rates"
    if (high < FLOOR <= highest) or (lowest <= FLOOR < low):
        reason: Reason = "missing" if _matters(agreement) else "undecided"
        return _decision(kind, "unknown", reason, agreement, best)
    if high < FLOOR:
        return _decision(kind, "none", _useless(metrics, low, high), agreement)
    if low <= FLOOR:
        return _decision(kind, "unknown", "undecided", agreement, best)
    if kind is SCORES and units_differ(metrics):
        return _decision(kind, "unknown", "units", agreement, "order")
    if leans.limits:
        return _decision(kind, "rates_corrected", "leans", agreement, "rates_corrected")
    if not leans.within:
        return _decision(kind, "rates_corrected", "lean_unclear", agreement, best)
    varies = known(metrics, VARIES)
    if lowest < SUBSTANTIAL or mostly_missed(metrics) or varies is not None:
        return _decision(kind, "rates", "moderate", agreement, best)
    if kind is SCORES and not _grades(metrics, confidence):
        return _decision(kind, "rates", "moderate", agreement, best)
    if kind is PAIRS and not order_effect_is_small(metrics):
        return _decision(kind, "rates", "one_order", agreement)
    return _decision(kind, "single", "substantial", agreement)


def _grades(metrics: Metrics, confidence: float) -> bool:
    """Return whether scores are grades on the labels' scale, one by one.

    A rank correlation does not show it: scores that use half of the scale keep their order, and a
    concordance of 0.69 at a slope of 0.45.
    """
    concordance = known(metrics, CONCORDANCE)
    close = known(metrics, CLOSE)
    slope = known(metrics, SLOPE)
    spread = known(metrics, SPREAD)
    if concordance is None or concordance.low is None:
        return False
    if close is None or close.low is None or slope is None or spread is None:
        return False
    agrees = _ends(concordance, confidence)[2] > SUBSTANTIAL
    is_near = _ends(close, confidence)[2] >= CLOSE_ENOUGH
    same_scale = all(
        SLOPES[0] <= (ratio.value or 0.0) <= SLOPES[1] for ratio in (slope, spread)
    )
    return agrees and is_near and same_scale


def _matters(agreement: Metric) -> bool:
    """Return whether missing answers move the estimate more than its sampling error does."""
    value = agreement.value or 0.0
    if agreement.worst_low is None or agreement.worst_high is None:
        return True
    assert agreement.low is not None, "without an interval, labels are few"
    assert agreement.high is not None, "an interval has two ends"
    shift = max(value - agreement.worst_low, agreement.worst_high - value)
    return shift >= max(value - agreement.low, agreement.high - value)


def _ends(agreement: Metric, confidence: float) -> tuple[float, float, float, float]:
    """Return the interval of the agreement, and the interval over all that missing
    answers could have been.

    The second one covers the true value, whatever the missing answers are, with the confidence
    (Imbens and Manski 2004, Econometrica 72, 1845-1857): the wider the bounds, the nearer its
    quantile is to that of one side. Without bounds, few missing answers are ignored.
    """
    assert agreement.low is not None, "without an interval, labels are few"
    assert agreement.high is not None, "an interval has two ends"
    low = agreement.low
    high = agreement.high
    value = agreement.value or 0.0
    if not agreement.missing:
        return low, high, low, high
    if agreement.worst_low is None or agreement.worst_high is None:
        if agreement.missing > SOME_MISSING * labels(agreement):
            return low, high, -1.0, 1.0
        return low, high, low, high
    below = _reach(value - low, value - agreement.worst_low, confidence)
    above = _reach(high - value, agreement.worst_high - value, confidence)
    return low, high, value - below, value + above


def _reach(sampling: float, shift: float, confidence: float) -> float:
    """Return how far a value can be from its estimate, by sampling error and by a shift
    of up to so much.
    """
    if shift <= NEGLIGIBLE_SHIFT * sampling:
        return sampling
    normal = NormalDist()
    two_sided = normal.inv_cdf((1 + confidence) / 2)
    if sampling <= 0:
        return shift
    error = sampling / two_sided
    quantile = two_sided
    # The quantile c solves F(c + shift / error) - F(-c) = confidence; it falls slowly.
    for _ in range(50):
        covered = normal.cdf(quantile + shift / error) - normal.cdf(-quantile)
        quantile -= (covered - confidence) / normal.pdf(quantile)
    return shift + quantile * error


def _useless(metrics: Metrics, low: float, high: float) -> Reason:
    """Return why agreement below the floor is useless."""
    if high < -FLOOR:
        return "reversed"
    if constant_verdict(metrics) is not None:
        return "constant"
    if low <= 0:
        return "chance"
    return "hardly_better"
