"""What may be concluded about a judge: one decision from a run's metrics, which every sentence, table and gate reads.

The decision follows whole intervals, never estimates alone. Agreement with the labels is corrected
for chance: kappa, or the correlation of scores and grades. If its interval lies below `FLOOR`, the
judge is useless, however many labels show that it is better than chance; if it lies above, the
judge is useful; otherwise the labels do not decide. The floor is 0.2: up to there kappa is at best
"slight" (Landis and Koch 1977, Biometrics 33, 159-174, table 2) and a correlation "very weak"
(Evans 1996, Straightforward Statistics for the Behavioral Sciences, 146).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

from evalkit.types import Metric
from evalkit.values import JsonObject, frozen

Metrics: TypeAlias = Mapping[str, Metric]
Side: TypeAlias = Literal["above", "below", "unclear", "unknown"]
Use: TypeAlias = Literal["none", "unknown", "rates_corrected", "rates", "single"]
Unit: TypeAlias = Literal["pair", "response", "item"]
Reason: TypeAlias = Literal[
    "missing",
    "orders_disagree",
    "samples_disagree",
    "no_labels",
    "few_labels",
    "one_class",
    "picked",
    "reversed",
    "constant",
    "chance",
    "hardly_better",
    "undecided",
    "leans",
    "lean_unclear",
    "moderate",
    "substantial",
]

USES: Final[tuple[Use, ...]] = ("none", "unknown", "rates_corrected", "rates", "single")
"""What a judge can be used for, weakest first."""
FLOOR: Final = 0.2
"""Agreement beyond chance that a useful judge has."""
SUBSTANTIAL: Final = (
    0.6  # Landis and Koch (1977), table 2: from here on agreement is "substantial"
)
"""Agreement beyond chance that is enough for single verdicts."""
MARGIN: Final = 0.1
"""The largest difference between a rate by verdicts and by labels that needs no correction."""
FEW: Final = 10
"""Fewer units show nothing: no sentence takes a side because of them, whatever their interval
is."""
ALWAYS: Final = 0.9
"""A judge takes the longer response nearly always from this share on, by the lower end of its
interval."""
CONSTANT_AFTER: Final = 30
"""So many equal scores show that a judge gives no others."""
MANY_MISSING, SOME_MISSING, SOME_TIES, SOME_ABSTAINED, FEW_LABELS = (
    0.5,
    0.05,
    0.2,
    0.1,
    30,
)

ACCURACY, DECIDED, KAPPA = (
    "agreement/accuracy",
    "agreement/accuracy_decided",
    "agreement/kappa",
)
BALANCED = "class/balanced_accuracy"
FIRST, CONSISTENCY = "position/first_rate", "position/consistency"
CORRELATIONS = ("agreement/spearman", "agreement/kendall", "agreement/pearson")
ITEM_ACCURACY, ITEM_KAPPA = "checklist/accuracy", "checklist/kappa"
ORDER_AGREEMENT, SAMPLE_AGREEMENT = "decision/order_agreement", "samples/alpha"
LEAN, LABELS_NEEDED = "decision/lean/", "decision/labels_needed"
LENGTH = "length/slope_at_label"
ONE_ORDER = "every pair in one order"
"""Prefix of the note of `position/first_rate` if each pair was shown in one order only."""


@frozen
class Kind:
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


PAIRS: Final = Kind("pair", (KAPPA,), ACCURACY, "a")
SCORES: Final = Kind("response", CORRELATIONS, None, "score")
CLASSES: Final = Kind("response", (KAPPA,), ACCURACY, "class/")
ITEMS: Final = Kind("item", (ITEM_KAPPA,), ITEM_ACCURACY, "met")


@frozen
class Limit:
    """Something that limits trust in a judge, with the metric that shows it.

    Attributes:
        kind: the kind of limit, a key of the texts.
        metric: the metric that shows it.
        subject: the class, system or side it is about, if any.
    """

    kind: str
    metric: Metric
    subject: str = ""


@frozen
class Decision:
    """What a judge can be used for, and why.

    Attributes:
        use: `single` verdicts, `rates` over many, `rates_corrected` by labels, `none`, or
            `unknown`.
        reason: why.
        unit: what a verdict is about.
        metric: the metric that decided; `None` without labels.
        share: the share of correct verdicts, if there is one.
        limits: what limits trust, most important first.
        labels_needed: how many more labels would probably decide, if more labels can.
        possible: the strongest use that the intervals do not exclude.
    """

    use: Use
    reason: Reason
    unit: Unit
    metric: Metric | None = None
    share: Metric | None = None
    limits: tuple[Limit, ...] = ()
    labels_needed: int | None = None
    possible: Use = "single"

    @property
    def trusted(self) -> bool:
        """Whether the judge can be used for anything."""
        return USES.index(self.use) > USES.index("unknown")

    def json(self) -> JsonObject:
        """Return the decision as a JSON value."""
        return {
            "use": self.use,
            "reason": self.reason,
            "unit": self.unit,
            "evidence": None if self.metric is None else _numbers(self.metric),
            "limits": [
                {"kind": limit.kind, "subject": limit.subject, **_numbers(limit.metric)}
                for limit in self.limits
            ],
            "labels_needed": self.labels_needed,
            "possible": self.possible,
        }


def _numbers(metric: Metric) -> JsonObject:
    return {
        "metric": metric.name,
        "value": metric.value,
        "low": metric.low,
        "high": metric.high,
        "n": metric.n,
    }


def side(metric: Metric, level: float) -> Side:
    """Return the side of `level` that a metric's interval lies on, `unclear` if it contains it.

    It is `unknown` without an interval, and from fewer than `FEW` units.
    """
    if metric.low is None or metric.high is None or metric.n < FEW:
        return "unknown"
    if metric.low <= level <= metric.high:
        return "unclear"
    return "above" if metric.low > level else "below"


def known(metrics: Metrics, name: str) -> Metric | None:
    """Return a metric if it has a value, otherwise `None`."""
    metric = metrics.get(name)
    return metric if metric is not None and metric.value is not None else None


def one_order(metrics: Metrics) -> bool:
    """Return whether each pair was shown in one order only, so that position and quality cannot be separated."""
    first = metrics.get(FIRST)
    return first is not None and ONE_ORDER in (first.note or "")


def metrics_of(metrics: Metrics, judge: str | None) -> Metrics:
    """Return the metrics of one judge of a panel, without `judge/NAME/` in their names; all metrics for `None`."""
    prefix = f"judge/{judge}/"
    if judge is None:
        return metrics
    of_judge = (
        (name.removeprefix(prefix), metric)
        for name, metric in metrics.items()
        if name.startswith(prefix)
    )
    return {name: replace(metric, name=name) for name, metric in of_judge}


def kind_of(metrics: Metrics) -> Kind:
    """Return the kind of verdicts that a run has labels for, or would have."""
    if BALANCED in metrics:
        return CLASSES
    graded = next((metrics[name] for name in CORRELATIONS if name in metrics), None)
    if ITEM_KAPPA in metrics or (
        "checklist/met_rate" in metrics and (graded is None or not labels(graded))
    ):
        return ITEMS
    pairs = metrics.get(ACCURACY)
    if CONSISTENCY in metrics and pairs is not None and labels(pairs):
        return PAIRS
    if graded is not None and labels(graded):
        return SCORES
    return (
        SCORES
        if graded is not None and CONSISTENCY not in metrics and not labels(pairs)
        else PAIRS
    )


def labels(metric: Metric | None) -> int:
    """Return how many labels a metric of agreement has, with those of missing answers."""
    return 0 if metric is None else metric.n + metric.missing


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
    agreement = _agreement(kind, metrics)
    share = None if kind.share is None else known(metrics, kind.share)
    leans = _leans(kind, metrics, confidence)
    decision = (
        _unusable(kind, metrics)
        or _contradicts_itself(kind, metrics)
        or _unlabeled(kind, metrics, agreement)
        or _zone(kind, metrics, agreement, leans)
    )
    decision = replace(decision, share=share, metric=decision.metric or agreement)
    limits = (*leans.limits, *_limits(kind, metrics, decision))
    if any(limit.kind == "always_longer" for limit in limits):
        limits = tuple(
            limit for limit in limits if limit.kind != "longer"
        )  # the same preference
    needed = known(metrics, LABELS_NEEDED) if decision.use == "unknown" else None
    labels_needed = None if needed is None else max(1, round(needed.value or 0.0))
    return replace(decision, limits=limits, labels_needed=labels_needed)


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


def _agreement(kind: Kind, metrics: Metrics) -> Metric | None:
    """Return the metric of agreement with the labels that decides.

    If all labels of pairs name the same side, kappa is undefined. A judge that was shown each pair
    in both orders, or in random order, and ignores the responses is then right on half of the pairs
    that it decides.
    """
    metric = next(
        (metric for name in kind.agreement if (metric := known(metrics, name))), None
    )
    return (
        known(metrics, DECIDED)
        if metric is None and kind is PAIRS and not one_order(metrics)
        else metric
    )


def beyond_chance(metric: Metric) -> Metric:
    """Return a metric of agreement on a scale on which chance is 0."""
    if metric.name != DECIDED:
        return metric
    value, low, high, worst_low, worst_high = (
        None if end is None else 2 * end - 1
        for end in (
            metric.value,
            metric.low,
            metric.high,
            metric.worst_low,
            metric.worst_high,
        )
    )
    return replace(
        metric,
        value=value,
        low=low,
        high=high,
        worst_low=worst_low,
        worst_high=worst_high,
    )


def _labeled(kind: Kind, metrics: Metrics) -> Metric | None:
    """Return the metric that counts the labels, and the missing answers among the labeled units."""
    names = (kind.share,) if kind.share is not None else kind.agreement
    return next((metrics[name] for name in names if name in metrics), None)


def labels_at_hand(metrics: Metrics) -> int:
    """Return how many units have a label."""
    return labels(_labeled(kind_of(metrics), metrics))


def judges_of(metrics: Metrics) -> list[str]:
    """Return the judges of a panel, as they are named in its metrics."""
    counted = ("/" + ACCURACY, "/" + CORRELATIONS[0], "/" + ITEM_ACCURACY)
    names = [
        name[len("judge/") : -len(end)]
        for name in metrics
        for end in counted
        if name.startswith("judge/") and name.endswith(end)
    ]
    return list(dict.fromkeys(names))


def _unusable(kind: Kind, metrics: Metrics) -> Decision | None:
    """Find that most answers are missing."""
    counted = _labeled(kind, metrics)
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


_SELF_AGREEMENT: Final[Mapping[str, Reason]] = {
    ORDER_AGREEMENT: "orders_disagree",
    SAMPLE_AGREEMENT: "samples_disagree",
}


def _self_agreement(metrics: Metrics) -> list[tuple[Reason, Metric]]:
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


def _contradicts_itself(kind: Kind, metrics: Metrics) -> Decision | None:
    """Find that both orders, or samples of a question, agree little more than chance."""
    for reason, metric in _self_agreement(metrics):
        if metric.high is not None and metric.high < FLOOR:
            return _decision(kind, "none", reason, metric)
    return None


def _unlabeled(
    kind: Kind, metrics: Metrics, agreement: Metric | None
) -> Decision | None:
    """Find that no labels can show anything: none, picked ones, too few, or all of one class."""
    counted = _labeled(kind, metrics)
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


@frozen
class _Leans:
    """Differences between rates by verdicts and by labels.

    Attributes:
        limits: those that are shown to be `MARGIN` or more, largest first.
        within: whether the rates themselves are shown to differ by less than `MARGIN`.
    """

    limits: tuple[Limit, ...]
    within: bool


def _leans(kind: Kind, metrics: Metrics, confidence: float) -> _Leans:
    all_leans = {
        name.removeprefix(LEAN): metric
        for name, metric in metrics.items()
        if name.startswith(LEAN)
    }
    rates = [
        metric
        for name, metric in all_leans.items()
        if name.startswith(kind.leans) and metric.value is not None
    ]
    systems = sum(name.startswith("system/") for name in all_leans)
    shown = [
        Limit(f"lean_{name.partition('/')[0]}", metric, name.partition("/")[2])
        for name, metric in all_leans.items()
        if _is_shown(metric, systems if name.startswith("system/") else 1, confidence)
    ]
    shown.sort(key=lambda limit: (-_size(limit), -(limit.metric.value or 0.0)))
    longer = known(metrics, "length/longer_rate")
    if longer is not None and (longer.low or 0.0) >= ALWAYS:
        shown = [
            Limit("always_longer", longer) if limit.kind == "lean_longer" else limit
            for limit in shown
        ]
    kept = {limit.kind: limit for limit in reversed(shown)}  # the largest of each kind
    if (
        "lean_system" in kept
        and "lean_a" in kept
        and _size(kept["lean_system"]) >= _size(kept["lean_a"])
    ):
        del kept["lean_a"]  # the same lean, by name
    within = bool(rates) and all(
        metric.low is not None
        and metric.high is not None
        and metric.low >= -MARGIN
        and metric.high <= MARGIN
        for metric in rates
    )
    return _Leans(
        tuple(limit for limit in shown if kept.get(limit.kind) is limit), within
    )


def _size(limit: Limit) -> float:
    return abs(limit.metric.value or 0.0)


def _is_shown(metric: Metric, tested: int, confidence: float) -> bool:
    """Return whether a lean is at least `MARGIN`, and not 0 by its interval, adjusted for the number tested."""
    value = metric.value
    low = metric.low
    high = metric.high
    if (
        value is None
        or low is None
        or high is None
        or metric.n < FEW
        or abs(value) < MARGIN - 1e-9
    ):
        return False
    normal = NormalDist()
    tail = (1 - confidence) / 2
    wider = normal.inv_cdf(tail / max(tested, 1)) / normal.inv_cdf(tail)
    return abs(value) > wider * (value - low if value > 0 else high - value)


def _zone(
    kind: Kind, metrics: Metrics, agreement: Metric | None, leans: _Leans
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


def constant_verdict(metrics: Metrics) -> tuple[str, Metric] | None:
    """Return the only verdict that a judge gives, with its rate; `None` if it gives several."""
    names = {"win_rate/a": "A", "win_rate/b": "B", "tie_rate": "TIE"}
    names |= {
        name: name[6:-5]
        for name in metrics
        if name.startswith("class/") and name.endswith("/rate")
    }
    rates = [
        (verdict, metrics[name]) for name, verdict in names.items() if name in metrics
    ]
    return next(((verdict, rate) for verdict, rate in rates if rate.value == 1), None)


def _recalls(metrics: Metrics) -> Iterator[tuple[str, Metric]]:
    """Yield each class with its recall."""
    for name, metric in metrics.items():
        if (
            name.startswith("class/")
            and name.endswith("/recall")
            and metric.value is not None
        ):
            yield name[6:-7], metric
    for name, label in (("checklist/tpr", "met"), ("checklist/tnr", "not_met")):
        if (metric := metrics.get(name, Metric(name, None))).value is not None:
            yield label, metric


def missed_classes(metrics: Metrics) -> list[Limit]:
    """Return the classes of which the judge finds less than half, as far as the labels show."""
    return [
        Limit("missed", recall, name)
        for name, recall in _recalls(metrics)
        if recall.n >= FEW
        and recall.high is not None
        and recall.value is not None
        and recall.value < 0.5
    ]


def _limits(kind: Kind, metrics: Metrics, decision: Decision) -> Iterator[Limit]:
    """Yield what limits trust besides leans: biases always, and gaps in the evidence where the judge is trusted."""
    for reason, metric in _self_agreement(metrics):
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
    counted = _labeled(kind, metrics)
    assert counted is not None, "a trusted judge has labels"
    if counted.n < FEW_LABELS:
        yield Limit("few_labels", counted)
    if kind is PAIRS and decision.metric.name == DECIDED:
        yield Limit("one_class", decision.metric)
    for name, recall in _recalls(metrics):
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
