"""Whether a judge is shown to be better than chance, and by which metric: for sentences and recommendations alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from evalkit.types import Metric

Side: TypeAlias = Literal["above", "below", "unclear", "unknown"]
ACCURACY, DECIDED, KAPPA = "agreement/accuracy", "agreement/accuracy_decided", "agreement/kappa"
PER_ORDER, FIRST = "agreement/accuracy_per_order", "position/first_rate"
CORRELATIONS = ("agreement/spearman", "agreement/kendall", "agreement/pearson")
ONE_ORDER = "every pair in one order"
"""How the note of `position/first_rate` begins where each pair was shown in one order only."""


@dataclass(frozen=True, slots=True)
class ChanceTest:
    """On which side of chance a judge is; `metric` decided that, and is `None` where no metric could."""

    side: Side
    metric: Metric | None = None
    chance: float = 0.5


def side(metric: Metric, chance: float) -> Side:
    """Say on which side of `chance` a metric's interval lies; `unclear` if it holds it, `unknown` if there is none."""
    if metric.low is None or metric.high is None:
        return "unknown"
    if metric.low <= chance <= metric.high:
        return "unclear"
    return "above" if metric.low > chance else "below"


def known(metrics: Mapping[str, Metric], name: str) -> Metric | None:
    """Return a metric that has a value, or `None`."""
    metric = metrics.get(name)
    return metric if metric is not None and metric.value is not None else None


def one_order(metrics: Mapping[str, Metric]) -> bool:
    """Say whether every pair was shown in one order, so that position and quality cannot be separated."""
    first = metrics.get(FIRST)
    return first is not None and ONE_ORDER in (first.note or "")


def against_chance(metrics: Mapping[str, Metric]) -> ChanceTest | None:
    """Return on which side of chance a judge's agreement with the labels is, `None` where nothing can be compared.

    Of pairs shown in both orders, in random order, or scored one by one, a judge that ignores the responses is right in
    half of those that it decides, whatever the labels are: `agreement/accuracy_decided` is held against 0.5. Accuracy
    itself would not do, since it counts ties as wrong, nor kappa, which is 0 where all labels are of one class. Where
    each pair was shown in one order, always naming the first response can be right more than half of the time: there,
    kappa decides. Of graded responses, it is the first known correlation.
    """
    accuracy = known(metrics, ACCURACY)
    if accuracy is None:
        found = next((one for name in CORRELATIONS if (one := known(metrics, name))), None)
        return None if found is None else ChanceTest(side(found, 0.0), found, 0.0)
    kappa = known(metrics, KAPPA)
    if one_order(metrics):
        return _by_kappa(kappa)
    if DECIDED not in metrics:  # scored by an older version
        found = known(metrics, PER_ORDER) or accuracy
        return ChanceTest(side(found, 0.5), found) if side(found, 0.5) == "above" else _by_kappa(kappa, accuracy)
    decided = known(metrics, DECIDED)
    if decided is not None and decided.low is not None:
        return ChanceTest(side(decided, 0.5), decided)
    if decided is None and kappa is not None and kappa.low is not None:  # all labels are ties, or all verdicts
        return _by_kappa(kappa)
    return ChanceTest("unclear" if decided is None else "unknown", decided)


def _by_kappa(kappa: Metric | None, otherwise: Metric | None = None) -> ChanceTest:
    if kappa is None:
        return ChanceTest("unknown" if otherwise is None else side(otherwise, 0.5), otherwise)
    if kappa.low is None:  # verdicts that are all equal have a kappa of 0 in every resample
        return ChanceTest("unknown" if kappa.value else "unclear", kappa, 0.0)
    return ChanceTest(side(kappa, 0.0), kappa, 0.0)
