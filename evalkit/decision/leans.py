"""Leans: differences between the rates by verdicts and by labels."""

from __future__ import annotations

from statistics import NormalDist

from evalkit.decision.conclusion import Limit
from evalkit.decision.evidence import LEAN, Kind, Metrics, known
from evalkit.decision.thresholds import ALWAYS, FEW, MARGIN
from evalkit.types import Metric
from evalkit.values import frozen


@frozen
class Leans:
    """Differences between rates by verdicts and by labels.

    Attributes:
        limits: those that are shown to be `MARGIN` or more, largest first.
        within: whether the rates themselves are shown to differ by less than `MARGIN`.
    """

    limits: tuple[Limit, ...]
    within: bool


def leans_of(kind: Kind, metrics: Metrics, confidence: float) -> Leans:
    """Return the leans of a judge.

    Args:
        kind: the kind of its verdicts.
        metrics: its metrics.
        confidence: the confidence of their intervals.
    """
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
    return Leans(
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
