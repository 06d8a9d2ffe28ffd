"""Comparison of a judge with chance, shared by sentences and recommendations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from evalkit.types import Metric

Side: TypeAlias = Literal["above", "below", "unclear", "unknown"]
ACCURACY, DECIDED, KAPPA = "agreement/accuracy", "agreement/accuracy_decided", "agreement/kappa"
BALANCED = "class/balanced_accuracy"
PER_ORDER, FIRST = "agreement/accuracy_per_order", "position/first_rate"
CORRELATIONS = ("agreement/spearman", "agreement/kendall", "agreement/pearson")
ONE_ORDER = "every pair in one order"
"""Prefix of the note of `position/first_rate` if each pair was shown in one order only."""


@dataclass(frozen=True, slots=True)
class ChanceTest:
    """The side of chance that a judge is on.

    Attributes:
        side: the side, by the interval of the metric.
        metric: the metric that decides; `None` if no metric does.
        chance: the chance level of the metric.
    """

    side: Side
    metric: Metric | None = None
    chance: float = 0.5


def side(metric: Metric, chance: float) -> Side:
    """Return the side of `chance` that a metric's interval lies on, `unclear` if it contains it."""
    if metric.low is None or metric.high is None:
        return "unknown"
    if metric.low <= chance <= metric.high:
        return "unclear"
    return "above" if metric.low > chance else "below"


def known(metrics: Mapping[str, Metric], name: str) -> Metric | None:
    """Return a metric if it has a value, otherwise `None`."""
    metric = metrics.get(name)
    return metric if metric is not None and metric.value is not None else None


def one_order(metrics: Mapping[str, Metric]) -> bool:
    """Return whether each pair was shown in one order only, so that position and quality cannot be separated."""
    first = metrics.get(FIRST)
    return first is not None and ONE_ORDER in (first.note or "")


def against_chance(metrics: Mapping[str, Metric]) -> ChanceTest | None:
    """Return the side of chance that a judge's agreement with labels is on, or `None` if nothing can be compared.

    If pairs are shown in both orders or in random order, or responses are scored one by one, a judge that ignores the
    responses is right on half of the pairs that it decides, for any labels. `agreement/accuracy_decided` is therefore
    compared with 0.5. Accuracy counts ties as wrong, and kappa is 0 if all labels belong to one class. If each pair is
    shown in one order only, always choosing the first response can be right more often, so kappa decides, as it does
    for classes: always choosing the most frequent one can be right more often. For graded responses, the first known
    correlation decides.
    """
    accuracy = known(metrics, ACCURACY)
    if accuracy is None:
        found = next((one for name in CORRELATIONS if (one := known(metrics, name))), None)
        return None if found is None else ChanceTest(side(found, 0.0), found, 0.0)
    kappa = known(metrics, KAPPA)
    if one_order(metrics) or BALANCED in metrics:
        return _by_kappa(kappa)
    if DECIDED not in metrics:  # metrics of an older version
        found = known(metrics, PER_ORDER) or accuracy
        return ChanceTest(side(found, 0.5), found) if side(found, 0.5) == "above" else _by_kappa(kappa, accuracy)
    decided = known(metrics, DECIDED)
    if decided is not None and decided.low is not None:
        return ChanceTest(side(decided, 0.5), decided)
    if decided is None and kappa is not None and kappa.low is not None:  # all labels are ties, or all verdicts
        return _by_kappa(kappa)
    return ChanceTest("unclear" if decided is None else "unknown", decided)


def _by_kappa(kappa: Metric | None, otherwise: Metric | None = None) -> ChanceTest:
    """Compare kappa with 0; without kappa compare `otherwise` with 0.5."""
    if kappa is None:
        return ChanceTest("unknown" if otherwise is None else side(otherwise, 0.5), otherwise)
    if kappa.low is None:  # if all verdicts are equal, kappa is 0 in every resample
        return ChanceTest("unknown" if kappa.value else "unclear", kappa, 0.0)
    return ChanceTest(side(kappa, 0.0), kappa, 0.0)
