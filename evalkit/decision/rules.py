"""The rules of a decision about a judge, in their order.

The decision follows whole intervals, never estimates alone. Agreement with the labels is corrected
for chance: kappa, or the correlation of scores and grades. If its interval lies below `FLOOR`, the
judge is useless, however many labels show that it is better than chance; if it lies above, the
judge is useful; otherwise the labels do not decide. The floor is 0.2: up to there kappa is at best
"slight" (Landis and Koch 1977, Biometrics 33, 159-174, table 2) and a correlation "very weak"
(Evans 1996, Straightforward Statistics for the Behavioral Sciences, 146).
"""

from __future__ import annotations

from dataclasses import replace

from evalkit.decision.conclusion import Decision, Reason, Use
from evalkit.decision.evidence import (
    LABELS_NEEDED,
    SCORES,
    Kind,
    Metrics,
    beyond_chance,
    constant_verdict,
    deciding_agreement,
    judges_of,
    kind_of,
    known,
    labeled_metric,
    labels,
    metrics_of,
)
from evalkit.decision.leans import Leans, leans_of
from evalkit.decision.limits import gaps_and_biases, missed_classes, self_agreement
from evalkit.decision.thresholds import (
    CONSTANT_AFTER,
    FEW,
    FLOOR,
    MANY_MISSING,
    SOME_MISSING,
    SUBSTANTIAL,
)
from evalkit.decision.where import WITHIN, places
from evalkit.types import Metric


def decide(metrics: Metrics, confidence: float = 0.95) -> Decision:
    """Return what may be concluded about a judge from its metrics; `metrics_of` selects one judge of a panel.

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
        or _unlabeled(kind, metrics, agreement)
        or _only_stratum(kind, metrics, agreement)
        or _zone(kind, metrics, agreement, leans)
    )
    decision = replace(decision, share=share, metric=decision.metric or agreement)
    limits = (*leans.limits, *gaps_and_biases(kind, metrics, decision))
    if any(limit.kind == "always_longer" for limit in limits):
        limits = tuple(
            limit for limit in limits if limit.kind != "longer"
        )  # the same preference
    needed = known(metrics, LABELS_NEEDED) if decision.use == "unknown" else None
    labels_needed = None if needed is None else max(1, round(needed.value or 0.0))
    where = tuple(places(metrics, decision.use)) if decision.trusted else ()
    return replace(decision, limits=limits, labels_needed=labels_needed, where=where)


def decide_for_judges(
    metrics: Metrics, confidence: float = 0.95
) -> dict[str, Decision]:
    """Return the decision about each judge of a panel, by name; empty without a panel."""
    return {
        judge: decide(metrics_of(metrics, judge), confidence)
        for judge in judges_of(metrics)
    }


def _decision(
    kind: Kind,
    use: Use,
    reason: Reason,
    metric: Metric | None = None,
    possible: Use = "single",
) -> Decision:
    return Decision(
        use, reason, kind.unit, metric, possible="none" if use == "none" else possible
    )


def _unusable(kind: Kind, metrics: Metrics) -> Decision | None:
    """Find that most answers are missing."""
    counted = labeled_metric(kind, metrics)
    if (
        counted is not None
        and counted.missing
        and counted.missing >= MANY_MISSING * labels(counted)
    ):
        return _decision(kind, "unknown", "missing", counted)
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


def _contradicts_itself(kind: Kind, metrics: Metrics) -> Decision | None:
    """Find that both orders, or samples of a question, agree little more than chance."""
    for reason, metric in self_agreement(metrics):
        if metric.high is not None and metric.high < FLOOR:
            return _decision(kind, "none", reason, metric)
    return None


def _unlabeled(
    kind: Kind, metrics: Metrics, agreement: Metric | None
) -> Decision | None:
    """Find that no labels can show anything: none, picked ones, too few, or all of one class."""
    counted = labeled_metric(kind, metrics)
    if not labels(counted):
        return _decision(kind, "unknown", "no_labels")
    if known(metrics, "labels/picked") is not None:
        return _decision(kind, "unknown", "picked", agreement)
    few = labels(counted) < FEW
    if (
        agreement is not None
        and agreement.low is not None
        and agreement.high is not None
        and not few
    ):
        return None
    distinct = known(metrics, "score/distinct")
    if (
        kind is SCORES
        and distinct is not None
        and distinct.value == 1
        and distinct.n > 1
    ):
        equal: Use = "none" if distinct.n >= CONSTANT_AFTER else "unknown"
        return _decision(
            kind, equal, "constant" if equal == "none" else "few_labels", distinct
        )
    return _decision(
        kind,
        "unknown",
        "few_labels" if few or agreement is not None else "one_class",
        agreement,
    )


def _only_stratum(
    kind: Kind, metrics: Metrics, agreement: Metric | None
) -> Decision | None:
    """Find that a judge agrees with the labels no more than the values of a column do."""
    within = known(metrics, WITHIN)
    if agreement is None or within is None or within.value is None:
        return None
    low, _, lowest, _ = _ends(beyond_chance(agreement))
    if min(low, lowest) <= FLOOR:  # not useful anyway, or not decided
        return None
    if within.high is not None and within.high < FLOOR:
        return _decision(kind, "none", "stratum", within)
    if within.value < FLOOR:
        return _decision(kind, "unknown", "stratum_unclear", within)
    return None


def _zone(
    kind: Kind, metrics: Metrics, agreement: Metric | None, leans: Leans
) -> Decision:
    """Decide by the interval of the agreement, then by leans."""
    assert agreement is not None, "without agreement, nothing is labeled"
    low, high, lowest, highest = _ends(beyond_chance(agreement))
    if (high < FLOOR <= highest) or (lowest <= FLOOR < low):
        return _decision(kind, "unknown", "missing", agreement)
    if high < FLOOR:
        return _decision(kind, "none", _useless(metrics, low, high), agreement)
    if low <= FLOOR:
        return _decision(
            kind,
            "unknown",
            "undecided",
            agreement,
            "single" if high >= SUBSTANTIAL else "rates",
        )
    best: Use = "single" if high >= SUBSTANTIAL else "rates"
    if leans.limits:
        return _decision(kind, "rates_corrected", "leans", agreement, "rates_corrected")
    if not leans.within:
        return _decision(kind, "rates_corrected", "lean_unclear", agreement, best)
    if lowest >= SUBSTANTIAL and not missed_classes(metrics):
        return _decision(kind, "single", "substantial", agreement)
    return _decision(kind, "rates", "moderate", agreement, best)


def _ends(agreement: Metric) -> tuple[float, float, float, float]:
    """Return the interval of the agreement, and the interval over all that missing answers could have been.

    Without bounds for them, few missing answers are ignored.
    """
    assert agreement.low is not None, "without an interval, labels are few"
    assert agreement.high is not None, "an interval has two ends"
    low = agreement.low
    high = agreement.high
    value = agreement.value or 0.0
    if (
        agreement.missing
        and agreement.worst_low is not None
        and agreement.worst_high is not None
    ):
        return (
            low,
            high,
            min(low, agreement.worst_low - (value - low)),
            max(high, agreement.worst_high + (high - value)),
        )
    if agreement.missing > SOME_MISSING * labels(agreement):
        return low, high, -1.0, 1.0
    return low, high, low, high


def _useless(metrics: Metrics, low: float, high: float) -> Reason:
    """Return why agreement below the floor is useless."""
    if high < -FLOOR:
        return "reversed"
    if constant_verdict(metrics) is not None:
        return "constant"
    return "chance" if low <= 0 else "hardly_better"
