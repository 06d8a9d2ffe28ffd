"""How many more labels would probably decide about a judge."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, log, log10, sqrt
from statistics import NormalDist
from typing import Final

from evalkit.decision import (
    FEW,
    FEW_LABELS,
    FLOOR,
    LABELS_NEEDED,
    Reason,
    beyond_chance,
    decide,
    kind_of,
    known,
    labels,
    labels_at_hand,
)
from evalkit.scoring.stats.bootstrap import student_quantile
from evalkit.types import Metric

POWER: Final = 0.8
"""The probability that so many labels decide, if the truth is the estimate."""
ASSUMED: Final = 0.4
"""Without labels, agreement beyond chance of the judge: right in 70% of pairs, or a correlation of 0.40."""
MOST: Final = 10**9
SKEW: Final = 7
"""So many more clusters than by normal errors decide if a few do: a coefficient near 1 is skewed (by simulation)."""


def labels_needed(metrics: Mapping[str, Metric], clusters: Mapping[str, int], confidence: float) -> Metric:
    """Return `decision/labels_needed`, without a value where labels decide, or no number of them would.

    The interval of N clusters reaches as far as that of the clusters at hand, times their ratio of q / sqrt(n), where q
    is the quantile of the interval. N is the smallest number for which an estimate with that error is on one side of
    the floor, by its whole interval, with probability `POWER` (Chow et al. 2008, Sample Size Calculations in Clinical
    Research, 1.3). The length of an interval from fewer than `FEW_LABELS` clusters is uncertain, and N would grow with
    the labels at hand: then the error follows from the estimates. Where no verdict is wrong, or none right, the
    interval is an exact bound and decides without an estimation error.

    Args:
        metrics: the metrics of a judge.
        clusters: the number of clusters behind each metric.
        confidence: the confidence of intervals.
    """
    decision, at_hand = decide(metrics, confidence), labels_at_hand(metrics)
    if decision.use != "unknown" or decision.reason in NOT_BY_LABELS:
        return Metric(LABELS_NEEDED, None, n=at_hand, note=NOT_BY_LABELS.get(decision.reason, "the labels decide"))
    metric = None if decision.metric is None else beyond_chance(decision.metric)
    if metric is None or metric.value is None or metric.low is None or metric.high is None:
        total, note = _clusters_needed(ASSUMED - FLOOR, _spread(ASSUMED, metrics), confidence), ASSUMPTION
    else:
        n, above = clusters.get(metric.name, metric.n), metric.value > FLOOR
        reach = metric.value - metric.low if above else metric.high - metric.value
        distance = abs(metric.value - FLOOR)
        if abs(metric.value) == 1:
            total = _clusters_without_error(distance, reach, n, confidence)
        else:
            many = n >= FEW_LABELS
            spread = reach * sqrt(n) / _quantile(n, confidence) if many else _spread(metric.value, metrics)
            total = _clusters_needed(distance, spread, confidence) + (0 if many else SKEW)
        total *= labels(metric) / max(n, 1)
        note = "assumes that the agreement is as estimated"
    total = max(_rounded(total), FEW)
    return Metric(LABELS_NEEDED, max(1.0, min(total, MOST) - at_hand), n=at_hand, note=note)


def _spread(agreement: float, metrics: Mapping[str, Metric]) -> float:
    """Return the standard deviation of one label's part in a correlation or kappa (Cohen 1960), from estimates alone.

    The share of correct verdicts is taken to be at least that of labels that are half A and half B.
    """
    kind = kind_of(metrics)
    if kind.share is None:
        return 1 - agreement**2
    share = known(metrics, kind.share)
    correct = max((1 + agreement) / 2, 0.0 if share is None or share.value in (None, 1) else share.value)
    return (1 - agreement) * sqrt(correct / (1 - correct))


NOT_BY_LABELS: Final[Mapping[Reason, str]] = {
    "missing": "missing answers come first",
    "one_class": "labels of another class are needed",
    "picked": "labels of cases sampled at random are needed",
}
ASSUMPTION: Final = "assumes a judge that is right in 70%, or whose scores have a correlation of 0.40"


def _clusters_needed(distance: float, spread: float, confidence: float) -> float:
    """Return the smallest number of clusters that decides with probability `POWER`."""
    z = NormalDist().inv_cdf(POWER)

    def decides(n: int) -> bool:
        return distance * sqrt(n) / spread >= _quantile(n, confidence) + z

    high = 2
    while high < MOST and not decides(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high


def _clusters_without_error(distance: float, reach: float, n: int, confidence: float) -> float:
    """Return how many clusters decide if none has an error, from the reach of the interval of n of them.

    The reach is in proportion to the largest rate of errors that n clusters without any do not exclude (Clopper and
    Pearson 1934, Biometrika 26, 404-413).
    """
    tail = (1 - confidence) / 2
    loss = reach / (1 - tail ** (1 / n))
    return log(tail) / log(1 - distance / loss) if distance < loss else 1.0


def _quantile(n: int, confidence: float) -> float:
    return -sqrt(n / (n - 1)) * student_quantile((1 - confidence) / 2, n - 1)


def _rounded(count: float) -> int:
    """Return an estimated count, rounded up to two digits."""
    unit: int = 10 ** max(floor(log10(max(count, 1))) - 1, 0)
    return ceil(count / unit) * unit
