"""Limits of trust besides leans: biases, missed classes, and gaps in the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from evalkit.decision.conclusion import Decision, Limit, Reason
from evalkit.decision.evidence import (
    ACCURACY,
    DECIDED,
    FIRST,
    KAPPA,
    LENGTH,
    ORDER_AGREEMENT,
    PAIRS,
    SAMPLE_AGREEMENT,
    Kind,
    Metrics,
    known,
    labeled_metric,
    labels,
    one_order,
    recalls,
    side,
)
from evalkit.decision.thresholds import (
    FEW,
    FEW_LABELS,
    SOME_ABSTAINED,
    SOME_MISSING,
    SOME_TIES,
)
from evalkit.types import Metric

_SELF_AGREEMENT: Final[Mapping[str, Reason]] = {
    ORDER_AGREEMENT: "orders_disagree",
    SAMPLE_AGREEMENT: "samples_disagree",
}


def self_agreement(metrics: Metrics) -> list[tuple[Reason, Metric]]:
    """Return how far both orders, and samples of a question, agree beyond chance, where there are enough of them."""
    kappa = metrics.get(KAPPA)
    share = known(metrics, ACCURACY)
    if (
        kappa is not None
        and kappa.n
        and kappa.value is None
        and share is not None
        and (share.low or 0.0) > 0.5
    ):
        # of labels of one class, it gives most: by chance it would repeat that verdict as often
        return []
    pairs = ((reason, known(metrics, name)) for name, reason in _SELF_AGREEMENT.items())
    return [
        (reason, metric)
        for reason, metric in pairs
        if metric is not None and metric.n >= FEW
    ]


def missed_classes(metrics: Metrics) -> list[Limit]:
    """Return the classes of which the judge finds less than half, as far as the labels show."""
    return [
        Limit("missed", recall, name)
        for name, recall in recalls(metrics)
        if recall.n >= FEW
        and recall.high is not None
        and recall.value is not None
        and recall.value < 0.5
    ]


def gaps_and_biases(
    kind: Kind, metrics: Metrics, decision: Decision
) -> Iterator[Limit]:
    """Yield what limits trust besides leans: biases always, and gaps in the evidence where the judge is trusted."""
    for reason, metric in self_agreement(metrics):
        perfect = (
            metric.high is not None and metric.high >= 1
        )  # an interval from chance to perfect shows nothing
        if side(metric, 0.0) == "unclear" and not perfect and decision.use != "none":
            yield Limit(reason, metric)
    first, slope, family = (
        known(metrics, name) for name in (FIRST, LENGTH, "self/preference")
    )
    if (
        first is not None
        and not one_order(metrics)
        and side(first, 0.5) in ("above", "below")
    ):
        yield Limit(
            "shown_first" if side(first, 0.5) == "above" else "shown_second", first
        )
    if slope is not None and side(slope, 0.0) in ("above", "below"):
        yield Limit("longer" if side(slope, 0.0) == "above" else "shorter", slope)
    if family is not None and side(family, 0.0) == "above":
        yield Limit("own_family", family)
    yield from missed_classes(metrics)
    if not decision.trusted or decision.metric is None:
        return
    counted = labeled_metric(kind, metrics)
    assert counted is not None, "a trusted judge has labels"
    if counted.n < FEW_LABELS:
        yield Limit("few_labels", counted)
    if kind is PAIRS and decision.metric.name == DECIDED:
        yield Limit("one_class", decision.metric)
    for name, recall in recalls(metrics):
        if recall.n < FEW:
            yield Limit(
                "rare_class_missed" if recall.value == 0 else "rare_class", recall, name
            )
    if one_order(metrics):
        yield Limit("one_order", metrics[FIRST])
    ties = known(metrics, "tie_rate")
    abstained = known(metrics, "class/abstained")
    if kind is PAIRS and ties is not None and (ties.value or 0.0) >= SOME_TIES:
        yield Limit("ties", ties)
    if abstained is not None and (abstained.value or 0.0) >= SOME_ABSTAINED:
        yield Limit("abstains", abstained)
    if counted.missing > SOME_MISSING * labels(counted):
        yield Limit("missing", counted)
