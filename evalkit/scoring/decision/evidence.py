"""What a decision reads: metrics by name, their sides of a level, and the labels behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from evalkit.core.types import Metric
from evalkit.core.values import frozen
from evalkit.scoring.decision.decision_types import Side, Unit
from evalkit.scoring.decision.thresholds import FEW, SMALL_ORDER_EFFECT

Metrics: TypeAlias = Mapping[str, Metric]

ACCURACY = "agreement/accuracy"
DECIDED = "agreement/accuracy_decided"
KAPPA = "agreement/kappa"
BALANCED = "class/balanced_accuracy"
FIRST = "position/first_rate"
CONSISTENCY = "position/consistency"
CORRELATIONS = ("agreement/spearman", "agreement/kendall", "agreement/pearson")
ITEM_ACCURACY = "checklist/accuracy"
ITEM_KAPPA = "checklist/kappa"
ORDER_AGREEMENT = "decision/order_agreement"
SAMPLE_AGREEMENT = "samples/alpha"
LEAN = "decision/lean/"
LABEL_RATE = "decision/label_rate/"
RIGHT = "decision/right"
WRONG = "decision/wrong"
SPLIT = "decision/split"
MISSING_GAP = "decision/missing_gap"
LABELED_GAP = "decision/labeled_gap"
TIES = "decision/ties"
PROMPTS_SEEN = "prompts/seen"
CONCORDANCE = "agreement/kappa_quadratic"
CLOSE = "agreement/close"
SLOPE = "agreement/slope"
SPREAD = "agreement/spread"
CEILING = "decision/ceiling"
BOTTOM = "decision/bottom"
LENGTH_CORRELATION = "decision/length"
PICTURES = "pictures/omitted"
IDENTICAL = "labels/identical"
COPIED = "labels/copied"
"""There if the labels of an annotator, named by the note, are shown to depend on the verdicts."""
DISPUTED = "labels/disputed"
WEIGHTED = "labels/effective"
"""There if cases were chosen for labels with known, unequal probabilities, which
weights correct.
"""
LABELS_NEEDED = "decision/labels_needed"
LENGTH = "length/slope_at_label"
SCORE_LENGTH = "length/score_slope_at_grade"
ONE_ORDER = "every pair in one order"
"""Prefix of the note of `position/first_rate` if each pair was shown in one order only."""
UNITS = "units differ"
"""Prefix of the note of a metric that compares scores with grades of other units."""
NO_SCALE = "rewards have no scale to share with grades"
"""Note of metrics that compare scores without a scale with grades."""
SAME_SIDES = "each labeled pair has the same system as A, and the same one as B"
"""Prefix of the note of the rate of A by labels if its sides are not arbitrary."""
SAME_TOOL = "the labels name the judge as their source"
"""Note of `labels/identical` if names say that the labels are the judge's own verdicts."""


@frozen
class VerdictKind:
    """A kind of verdicts: what a decision about them reads.

    Attributes:
        unit: what a verdict is about.
        agreement: the metrics of agreement beyond chance, the first known one decides.
        share: the metric with the share of correct verdicts; `None` for scores.
        leans: the leans that bias the rates themselves.
    """

    unit: Unit
    agreement: tuple[str, ...]
    share: str | None
    leans: str


PAIRS: Final = VerdictKind("pair", (KAPPA,), ACCURACY, "a")
SCORES: Final = VerdictKind("response", CORRELATIONS, None, "score")
CLASSES: Final = VerdictKind("response", (KAPPA,), ACCURACY, "class/")
ITEMS: Final = VerdictKind("item", (ITEM_KAPPA,), ITEM_ACCURACY, "met")


def side(metric: Metric, level: float) -> Side:
    """Return the side of `level` that a metric's interval lies on, `unclear` if it contains it.

    It is `unknown` without an interval, and from fewer than `FEW` units.
    """
    if metric.low is None or metric.high is None or metric.n < FEW:
        return "unknown"
    if metric.low <= level <= metric.high:
        return "unclear"
    if metric.low > level:
        return "above"
    return "below"


def known(metrics: Metrics, name: str) -> Metric | None:
    """Return a metric if it has a value, otherwise `None`."""
    metric = metrics.get(name)
    if metric is not None and metric.value is not None:
        return metric
    return None


def one_order(metrics: Metrics) -> bool:
    """Return whether each pair was shown in one order only, so that position and
    quality cannot be separated.
    """
    first = metrics.get(FIRST)
    return first is not None and ONE_ORDER in (first.note or "")


def metrics_of(metrics: Metrics, judge: str | None) -> Metrics:
    """Return the metrics of one judge of a panel, without `judge/NAME/` in their names;
    all metrics for `None`.
    """
    prefix = f"judge/{judge}/"
    if judge is None:
        return metrics
    of_judge = (
        (name.removeprefix(prefix), metric)
        for name, metric in metrics.items()
        if name.startswith(prefix)
    )
    return {name: replace(metric, name=name) for name, metric in of_judge}


def kind_of(metrics: Metrics) -> VerdictKind:
    """Return the kind of verdicts that a run has labels for, or would have."""
    # In order: classes, checklists, pairs with labels, scores with labels, scores, pairs.
    if BALANCED in metrics:
        return CLASSES
    graded = next((metrics[name] for name in CORRELATIONS if name in metrics), None)
    # A checklist has scores too; with graded responses these decide.
    if ITEM_KAPPA in metrics or (
        "checklist/met_rate" in metrics and (graded is None or not labels(graded))
    ):
        return ITEMS
    pairs = metrics.get(ACCURACY)
    if CONSISTENCY in metrics and pairs is not None and labels(pairs):
        return PAIRS
    if graded is not None and labels(graded):
        return SCORES
    # No labels at all: scores if no pair was compared.
    if graded is not None and CONSISTENCY not in metrics and not labels(pairs):
        return SCORES
    return PAIRS


def labels(metric: Metric | None) -> int:
    """Return how many labels a metric of agreement has, with those of missing answers."""
    if metric is None:
        return 0
    return metric.n + metric.missing


def deciding_agreement(kind: VerdictKind, metrics: Metrics) -> Metric | None:
    """Return the metric of agreement with the labels that decides.

    If all labels of pairs name the same side, kappa is undefined. A judge that was shown each pair
    in both orders, or in random order, and ignores the responses is then right on half of the pairs
    that it decides. If A is always the same system, it may prefer that one whatever the responses
    are.
    """
    metric = next(
        (metric for name in kind.agreement if (metric := known(metrics, name))), None
    )
    if metric is None and kind is PAIRS and not one_order(metrics):
        by_labels = metrics.get(f"{LABEL_RATE}a")
        # The note may go on with how the interval was made.
        if by_labels is not None and (by_labels.note or "").startswith(SAME_SIDES):
            return None
        return known(metrics, DECIDED)
    return metric


def _from_half(share: float | None) -> float | None:
    """Return a share on a scale from -1 to 1, on which one half is 0."""
    return None if share is None else 2 * share - 1


def beyond_chance(metric: Metric) -> Metric:
    """Return a metric of agreement on a scale on which chance is 0."""
    if metric.name != DECIDED:
        return metric
    # Chance is right on half of the decided pairs: 0.5 becomes 0, and 1 stays 1.
    return replace(
        metric,
        value=_from_half(metric.value),
        low=_from_half(metric.low),
        high=_from_half(metric.high),
        worst_low=_from_half(metric.worst_low),
        worst_high=_from_half(metric.worst_high),
    )


def labeled_metric(kind: VerdictKind, metrics: Metrics) -> Metric | None:
    """Return the metric that counts the labels, and the missing answers among the labeled units."""
    names = (kind.share,) if kind.share is not None else kind.agreement
    return next((metrics[name] for name in names if name in metrics), None)


def labels_at_hand(metrics: Metrics) -> int:
    """Return how many units have a label."""
    of_all = known(metrics, RIGHT)
    # Missing answers are among the labeled units too.
    counted = labels(labeled_metric(kind_of(metrics), metrics))
    if of_all is None:
        return counted
    return max(counted, of_all.n)


def units_in_data(metrics: Metrics) -> int | None:
    """Return how many units a run has, with and without labels; `None` if no metric counts them."""
    kind = kind_of(metrics)
    counts = {
        PAIRS: ("tie_rate",),
        SCORES: ("score/mean",),
        ITEMS: ("checklist/met_rate",),
        CLASSES: tuple(
            name
            for name in metrics
            if name.startswith("class/") and name.endswith("/rate")
        ),
    }
    metric = next((metrics[name] for name in counts[kind] if name in metrics), None)
    if metric is None:
        return None
    return labels(metric)


def judges_of(metrics: Metrics) -> list[str]:
    """Return the judges of a panel, as they are named in its metrics."""
    counted = ("/" + ACCURACY, "/" + CORRELATIONS[0], "/" + ITEM_ACCURACY)
    names = [
        # judge/NAME/METRIC without both ends.
        name[len("judge/") : -len(end)]
        for name in metrics
        for end in counted
        if name.startswith("judge/") and name.endswith(end)
    ]
    return list(dict.fromkeys(names))


def constant_verdict(metrics: Metrics) -> tuple[str, Metric] | None:
    """Return the only verdict that a judge gives, with its rate; `None` if it gives several."""
    names = {"win_rate/a": "A", "win_rate/b": "B", "tie_rate": "TIE"}
    for name in metrics:
        if name.startswith("class/") and name.endswith("/rate"):
            # class/NAME/rate without `class/` and `/rate`.
            names[name] = name[6:-5]
    if kind_of(metrics) is ITEMS:
        names = {"checklist/met_rate": "met"}
    for name, verdict in names.items():
        rate = metrics.get(name)
        # A rate of 1: no other verdict was given.
        if rate is not None and rate.value == 1:
            return verdict, rate
        # One rate covers both answers of items.
        if verdict == "met" and rate is not None and rate.value == 0:
            return "not_met", rate
    return None


def labels_against(metrics: Metrics, verdict: str) -> int:
    """Return how many labels say something else than a constant verdict of pairs,
    classes or items.
    """
    shares = {
        "A": ("a", False),
        "B": ("a", True),
        "met": ("met", False),
        "not_met": ("met", True),
    }
    if kind_of(metrics) is CLASSES:
        shares = {verdict: (f"class/{verdict}", False)}
    # (metric, whether it counts the other side's labels).
    name, is_other_side = shares.get(verdict, ("a", False))
    rate = known(metrics, f"{LABEL_RATE}{name}")
    if rate is None or rate.value is None:
        return 0
    # Any label that names a winner is against a tie.
    if verdict == "TIE":
        return rate.n
    share = rate.value if is_other_side else 1 - rate.value
    return round(share * rate.n)


def units_differ(metrics: Metrics) -> bool:
    """Return whether scores and grades have different units, so that levels cannot be compared."""
    lean = metrics.get(f"{LEAN}score")
    note = "" if lean is None else lean.note or ""
    return note.startswith((UNITS, "grades are not on the judge's scale"))


def order_effect_is_small(metrics: Metrics) -> bool:
    """Return whether the order of a pair is known to matter little, or is part of the agreement.

    It is part of it if pairs were judged in both orders. In random order, the first response shown
    must win about half.
    """
    both = known(metrics, CONSISTENCY)
    if both is not None and both.n >= FEW:
        return True
    first = known(metrics, FIRST)
    if first is None or first.low is None or first.high is None or one_order(metrics):
        return False
    return (
        first.low >= 0.5 - SMALL_ORDER_EFFECT and first.high <= 0.5 + SMALL_ORDER_EFFECT
    )


def recalls(metrics: Metrics) -> Iterator[tuple[str, Metric]]:
    """Yield each class with its recall."""
    for name, metric in metrics.items():
        if (
            name.startswith("class/")
            and name.endswith("/recall")
            and metric.value is not None
        ):
            # class/NAME/recall without `class/` and `/recall`.
            yield name[6:-7], metric
    for name, label in (("checklist/tpr", "met"), ("checklist/tnr", "not_met")):
        if (metric := metrics.get(name, Metric(name, None))).value is not None:
            yield label, metric
