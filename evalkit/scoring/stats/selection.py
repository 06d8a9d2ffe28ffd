"""The interval of the highest of several estimates, which looks better than it is, and its use."""

from __future__ import annotations

from dataclasses import replace
from math import atanh, tanh
from statistics import NormalDist
from typing import Final

from evalkit.core.types import Metric
from evalkit.scoring.decision import (
    CLOSE,
    CONCORDANCE,
    CORRELATIONS,
    DECIDED,
    ITEM_KAPPA,
    KAPPA,
    LEAN,
    USES,
    Decision,
    Metrics,
    Use,
    decide,
)
from evalkit.scoring.stats.arrays import round_metric

DECIDES: Final = frozenset(
    (KAPPA, ITEM_KAPPA, DECIDED, CONCORDANCE, CLOSE, *CORRELATIONS)
)
"""The metrics by whose intervals a judge is useful; its leans are the others."""


def use_as_highest(
    metrics: Metrics, decision: Decision, count: int, confidence: float
) -> Use:
    """Return what a judge can be used for that was chosen as the highest of `count`: at most what
    its own decision says.

    Of many judges that are not good enough, one looks so by luck. The intervals that decide are
    those of the highest (`as_highest`).

    Args:
        metrics: all metrics of the judge.
        decision: its own decision.
        count: how many were compared.
        confidence: the confidence of the intervals.
    """
    if count <= 2:
        return decision.use
    wider = dict(metrics)
    for name, metric in metrics.items():
        if name in DECIDES or name.startswith(LEAN):
            wider[name] = as_highest(metric, count, confidence)
    use = decide(wider, confidence).use
    return min(use, decision.use, key=USES.index)


def as_highest(metric: Metric, count: int, confidence: float) -> Metric:
    """Return a metric that is the highest of `count` with an interval that allows for the choice.

    Of many that are equally good, the highest is so by luck: the plain interval of the highest of
    20 holds its value in 60%. The interval is wrong mostly if the value of any is below its lower
    end, so each may be wrong at one end with a probability of (1 - confidence) / count
    (Bonferroni). For two this is the plain interval. The ends are moved on Fisher's scale (1915,
    Biometrika 10, 507-521), on which the interval of a coefficient is symmetric.

    Args:
        metric: the highest; from -1 to 1.
        count: how many were compared.
        confidence: the confidence of its interval.
    """
    if count <= 2:
        return metric
    if metric.value is None or metric.low is None or metric.high is None:
        return metric
    alpha = 1 - confidence
    normal = NormalDist()
    # Half the length of each interval, in standard errors.
    plain = normal.inv_cdf(1 - alpha / 2)
    wide = normal.inv_cdf(1 - alpha / count)
    factor = wide / plain
    low = _moved(metric.value, metric.low, factor)
    high = _moved(metric.value, metric.high, factor)
    return replace(metric, low=round_metric(low), high=round_metric(high))


def _moved(value: float, end: float, factor: float) -> float:
    """Return an end of an interval that is `factor` times as far from the value."""
    if abs(value) >= 1:
        # Fisher's scale has no such value.
        moved = value + factor * (end - value)
        return max(-1.0, min(1.0, moved))
    if abs(end) >= 1:
        return end
    center = atanh(value)
    distance = atanh(end) - center
    return tanh(center + factor * distance)
