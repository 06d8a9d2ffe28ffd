"""Limits of trust besides leans: biases, missed classes, and gaps in the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from evalkit.core.types import Metric
from evalkit.scoring.decision.decision_types import Decision, Limit, Reason
from evalkit.scoring.decision.evidence import (
    ACCURACY,
    BOTTOM,
    CEILING,
    CLASSES,
    DECIDED,
    DISPUTED,
    FIRST,
    IDENTICAL,
    ITEM_KAPPA,
    KAPPA,
    LABELED_GAP,
    LEAN,
    LENGTH,
    MISSING_GAP,
    NO_SCALE,
    ORDER_AGREEMENT,
    PAIRS,
    PICTURES,
    PROMPTS_SEEN,
    SAMPLE_AGREEMENT,
    SCORE_LENGTH,
    SCORES,
    SLOPE,
    SPLIT,
    SPREAD,
    TIES,
    WEIGHTED,
    Metrics,
    VerdictKind,
    constant_verdict,
    known,
    labeled_metric,
    labels,
    one_order,
    recalls,
    side,
)
from evalkit.scoring.decision.leans import Leans, wider_by
from evalkit.scoring.decision.thresholds import (
    CHOSEN,
    CONSTANT_AFTER,
    FEW,
    FEW_LABELS,
    MARGIN,
    SHRINKS,
    SLOPES,
    SOME_ABSTAINED,
    SOME_MISSING,
    SOME_SPLIT,
    SOME_TIES,
    TOP_HEAVY,
)
from evalkit.scoring.decision.weak_slices import (
    FOLLOWS,
    LEAN_WHERE,
    MISSING_WHERE,
    SPREAD_WHERE,
    VARIES,
    in_slices,
    is_label,
    slice_of,
    stratum,
)

SIDES: Final = 3
"""The verdicts on a pair: A, B and a tie."""
_SELF_AGREEMENT: Final[Mapping[str, Reason]] = {
    ORDER_AGREEMENT: "orders_disagree",
    SAMPLE_AGREEMENT: "samples_disagree",
}


def self_agreement(metrics: Metrics) -> list[tuple[Reason, Metric]]:
    """Return how far both orders, and samples of a question, agree beyond chance, where
    there are enough of them.
    """
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
    """Return the classes of which the judge is shown to find less than half."""
    return [
        Limit("missed", recall, name)
        for name, recall in recalls(metrics)
        if side(recall, 0.5) == "below"
    ]


def mostly_missed(metrics: Metrics) -> bool:
    """Return whether the judge misses most of a class, as far as its labels show."""
    return any(
        recall.n >= FEW and recall.value is not None and recall.value < 0.5
        for _, recall in recalls(metrics)
    )


def gaps_and_biases(
    kind: VerdictKind,
    metrics: Metrics,
    decision: Decision,
    leans: Leans,
    confidence: float,
) -> Iterator[Limit]:
    """Yield what limits trust besides leans: biases always, and gaps in the evidence
    where the judge is trusted.

    Args:
        kind: the kind of the verdicts.
        metrics: the metrics of a judge.
        decision: the decision about it.
        leans: its leans.
        confidence: the confidence of its intervals.
    """
    pictures = known(metrics, PICTURES)
    if pictures is not None:
        yield Limit("pictures", pictures)
    share_seen = known(metrics, PROMPTS_SEEN)
    if share_seen is not None:
        yield Limit("cut", share_seen)
    for reason, metric in self_agreement(metrics):
        # An interval from chance to perfect shows nothing.
        perfect = metric.high is not None and metric.high >= 1
        if side(metric, 0.0) == "unclear" and not perfect and decision.use != "none":
            yield Limit(reason, metric)
    if decision.trusted and decision.metric is not None:
        yield from _slice_leans(metrics)
        yield from _slice_spreads(metrics)
        yield from _open_margin(decision, leans)
        yield from _source(metrics)
        yield from _disputed(metrics)
        yield from _follows_column(metrics)
        yield from _answers(kind, metrics)
        yield from _scale(kind, metrics, decision)
    for share in in_slices(metrics, MISSING_WHERE):
        column, value = slice_of(share)
        yield Limit("missing_where", share, f"{column}: {value}")
    if (chosen := labels_by_verdict(metrics, confidence)) is not None:
        yield Limit("labeled_gap", chosen)
    constant = constant_verdict(metrics)
    if constant is not None and decision.reason == "undecided":
        verdict, rate = constant
        if rate.n >= CONSTANT_AFTER:
            yield Limit("constant", rate, verdict)
    yield from _biases(kind, metrics)
    yield from missed_classes(metrics)
    if decision.trusted and decision.metric is not None:
        yield from _evidence(kind, metrics, decision.metric)


def labels_by_verdict(metrics: Metrics, confidence: float) -> Metric | None:
    """Return the gap that shows that labels depend on verdicts; `None` if none does, or
    if it is weighted away.

    It is the largest of the gaps of all verdicts, so its interval is adjusted for their number
    (Bonferroni).
    """
    gap = known(metrics, LABELED_GAP)
    if gap is None or gap.value is None or gap.low is None or gap.high is None:
        return None
    if known(metrics, WEIGHTED) is not None:
        return None
    wider = wider_by(_gaps(metrics), confidence)
    low = gap.value - wider * (gap.value - gap.low)
    high = gap.value + wider * (gap.high - gap.value)
    if max(low, -high) >= CHOSEN:
        return gap
    return None


def _gaps(metrics: Metrics) -> int:
    """Return how many verdicts have a gap of their own: that of one of two is the other's."""
    classes = sum(name.startswith(f"{LEAN}class/") for name in metrics)
    if classes > 2:
        return classes
    if classes or ITEM_KAPPA in metrics:
        return 1
    return SIDES


def _biases(kind: VerdictKind, metrics: Metrics) -> Iterator[Limit]:
    """Yield preferences for a position, a length or an own family."""
    first = known(metrics, FIRST)
    slope = known(metrics, SCORE_LENGTH if kind is SCORES else LENGTH)
    family = known(metrics, "self/preference")
    if first is not None and not one_order(metrics):
        kinds = {"above": "shown_first", "below": "shown_second"}
        if (prefers := kinds.get(side(first, 0.5))) is not None:
            yield Limit(prefers, first)
    if slope is not None:
        kinds = {"above": "longer", "below": "shorter"}
        if (prefers := kinds.get(side(slope, 0.0))) is not None:
            yield Limit(prefers, slope)
    if family is not None and side(family, 0.0) == "above":
        yield Limit("own_family", family)


def _slice_leans(metrics: Metrics) -> Iterator[Limit]:
    """Yield that rates in a slice are off by far more than elsewhere."""
    for lean in in_slices(metrics, LEAN_WHERE):
        column, value = slice_of(lean)
        yield Limit("lean_where", lean, f"{column}: {value}")


def _slice_spreads(metrics: Metrics) -> Iterator[Limit]:
    """Yield that scores are compressed or expanded in a slice only."""
    for spread in in_slices(metrics, SPREAD_WHERE):
        column, value = slice_of(spread)
        is_narrow = (spread.value or 0.0) < 1
        kind = "compressed_where" if is_narrow else "expanded_where"
        yield Limit(kind, spread, f"{column}: {value}")


def _open_margin(decision: Decision, leans: Leans) -> Iterator[Limit]:
    """Yield the margin that the labels do show, if they do not show the one that a rate needs."""
    if decision.reason != "lean_unclear" or not leans.unclear:
        return
    rate = leans.unclear[0]
    yield Limit("margin", rate.metric, rate.subject, rate.rate)


def _source(metrics: Metrics) -> Iterator[Limit]:
    """Yield that the source of the labels is in doubt, or is a model."""
    identical = known(metrics, IDENTICAL)
    if identical is None:
        return
    if identical.note is None:
        yield Limit("identical", identical)
    elif identical.note == "model":
        yield Limit("model_labels", identical)


def _disputed(metrics: Metrics) -> Iterator[Limit]:
    """Yield that cases have no label because their annotators disagree."""
    disputed = known(metrics, DISPUTED)
    if disputed is not None and (disputed.value or 0.0) >= SOME_MISSING:
        yield Limit("disputed", disputed)


def _follows_column(metrics: Metrics) -> Iterator[Limit]:
    """Yield that verdicts follow a column that names the labels, too, or are worse for
    some of its values.
    """
    follows = known(metrics, FOLLOWS)
    if follows is not None and is_label(follows):
        yield Limit("follows_column", follows, stratum(follows))
    varies = known(metrics, VARIES)
    if varies is not None:
        yield Limit("varies", varies, stratum(varies))


def _answers(kind: VerdictKind, metrics: Metrics) -> Iterator[Limit]:
    """Yield which labeled units have no verdict, and that those without a label differ in this."""
    counted = labeled_metric(kind, metrics)
    if counted is not None and counted.missing > SOME_MISSING * labels(counted):
        yield Limit("missing", counted)
    split = known(metrics, SPLIT)
    if split is not None and (split.value or 0.0) >= SOME_SPLIT:
        yield Limit("split", split)
    gap = known(metrics, MISSING_GAP)
    if gap is not None and abs(gap.value or 0.0) >= SOME_MISSING:
        yield Limit("missing_gap", gap)


def _scale(kind: VerdictKind, metrics: Metrics, decision: Decision) -> Iterator[Limit]:
    """Yield how the scale of scores differs from that of the labels, or how differences
    between systems shrink.
    """
    if kind is not SCORES:
        shrunk = _shrunk(kind, metrics)
        if shrunk is not None and decision.use in ("rates", "single"):
            yield Limit("shrinks", shrunk)
        return
    without_scale = metrics.get(SLOPE)
    if without_scale is not None and without_scale.note == NO_SCALE:
        yield Limit("no_scale", without_scale)
    slope = known(metrics, SLOPE)
    spread = known(metrics, SPREAD)
    if slope is not None and spread is not None:
        if side(spread, SLOPES[0]) == "below":
            yield Limit("compressed", slope, rate=spread)
        elif side(spread, SLOPES[1]) == "above":
            yield Limit("expanded", slope, rate=spread)
        elif side(slope, SLOPES[0]) == "below":
            yield Limit("shrinks", slope)
    for name, end in ((CEILING, "ceiling"), (BOTTOM, "bottom")):
        excess = known(metrics, name)
        if excess is None or side(excess, 0.0) != "above":
            continue
        if (excess.value or 0.0) >= TOP_HEAVY:
            yield Limit(end, excess)


def _shrunk(kind: VerdictKind, metrics: Metrics) -> Metric | None:
    """Return by how much differences between systems shrink in the verdicts, if to less
    than `SHRINKS`.

    A rate by verdicts grows by Youden's J if the rate by labels grows by 1. For pairs and items, J
    is kappa where both sides are as frequent in verdicts as in labels.
    """
    if kind is CLASSES:
        by_class = [
            metric
            for name, metric in metrics.items()
            if name.startswith("class/") and name.endswith("/youden_j")
        ]
    else:
        by_class = [metrics[name] for name in kind.agreement if name in metrics]
    shrunk = [
        metric
        for metric in by_class
        if metric.high is not None and metric.high < SHRINKS and metric.n >= FEW
    ]
    return min(shrunk, key=lambda metric: metric.value or 0.0, default=None)


def _tie_rate(difference: Metric) -> Iterator[Limit]:
    """Yield that the rate of ties is not that of the labels, if this is shown."""
    if abs(difference.value or 0.0) < MARGIN:
        return
    kinds = {"above": "more_ties", "below": "fewer_ties"}
    if (shown := kinds.get(side(difference, 0.0))) is not None:
        yield Limit(shown, difference)


def _evidence(
    kind: VerdictKind, metrics: Metrics, agreement: Metric
) -> Iterator[Limit]:
    """Yield gaps in the evidence of a trusted judge."""
    counted = labeled_metric(kind, metrics)
    assert counted is not None, "a trusted judge has labels"
    if counted.n < FEW_LABELS:
        yield Limit("few_labels", counted)
    if kind is PAIRS and agreement.name == DECIDED:
        yield Limit("one_class", agreement)
    for name, recall in recalls(metrics):
        if recall.n < FEW:
            found_none = recall.value == 0
            rarity = "rare_class_missed" if found_none else "rare_class"
            yield Limit(rarity, recall, name)
    if one_order(metrics):
        yield Limit("one_order", metrics[FIRST])
    ties = known(metrics, "tie_rate")
    abstained = known(metrics, "class/abstained")
    beyond_labels = known(metrics, TIES)
    if kind is PAIRS and beyond_labels is not None:
        yield from _tie_rate(beyond_labels)
    elif kind is PAIRS and ties is not None and (ties.value or 0.0) >= SOME_TIES:
        yield Limit("ties", ties)
    if abstained is not None and (abstained.value or 0.0) >= SOME_ABSTAINED:
        yield Limit("abstains", abstained)
