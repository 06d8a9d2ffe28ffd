"""Leans: how far the rates by verdicts are from those by labels, and which margin each rate has."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist

from evalkit.core.types import Metric
from evalkit.core.values import frozen
from evalkit.scoring.decision.decision_types import Limit
from evalkit.scoring.decision.evidence import (
    LABEL_RATE,
    LEAN,
    LENGTH_CORRELATION,
    PAIRS,
    SCORES,
    Metrics,
    VerdictKind,
    kind_of,
    known,
)
from evalkit.scoring.decision.thresholds import (
    ALWAYS,
    FEW,
    FOLLOWS,
    MARGIN,
    MARGIN_OF_RATE,
)


@frozen
class RateLean:
    """The lean of one rate, with its margin.

    Attributes:
        subject: the class, or nothing.
        metric: the difference between the rate by verdicts and by labels.
        margin: the largest difference that needs no correction.
        rate: the rate by labels; `None` for scores.
    """

    subject: str
    metric: Metric
    margin: float
    rate: Metric | None

    @property
    def reach(self) -> float:
        """The largest difference that the labels do not exclude; 1 without an interval."""
        if self.metric.low is None or self.metric.high is None:
            return 1.0
        return max(-self.metric.low, self.metric.high)

    @property
    def within(self) -> bool:
        """Whether the whole interval lies within the margin."""
        return self.reach <= self.margin + 1e-9


@frozen
class Leans:
    """Differences between rates by verdicts and by labels.

    Attributes:
        limits: those that are shown to reach their margin, largest first.
        rates: the leans of the rates themselves.
    """

    limits: tuple[Limit, ...]
    rates: tuple[RateLean, ...]

    @property
    def within(self) -> bool:
        """Whether every rate is shown to differ by less than its margin."""
        return bool(self.rates) and all(rate.within for rate in self.rates)

    @property
    def unclear(self) -> list[RateLean]:
        """The rates that are not shown to be within their margin, farthest from it first."""
        open_rates = [rate for rate in self.rates if not rate.within]
        return sorted(open_rates, key=lambda rate: -rate.reach / max(rate.margin, 1e-9))


def rates_of(kind: VerdictKind, metrics: Metrics) -> Iterator[RateLean]:
    """Yield the leans of the rates that a kind of verdicts is about.

    Args:
        kind: the kind of the verdicts.
        metrics: the metrics of a judge.
    """
    for name, metric in metrics.items():
        subject = name.removeprefix(LEAN)
        if subject == name or not subject.startswith(kind.leans):
            continue
        if metric.value is None:
            continue
        rate = known(metrics, f"{LABEL_RATE}{subject}")
        if _is_absent(metric, rate):
            continue
        margin = _margin(kind, rate)
        yield RateLean(subject.partition("/")[2], metric, margin, rate)


def _is_absent(metric: Metric, rate: Metric | None) -> bool:
    """Return whether neither a label nor a verdict is of a class, so that there is no rate."""
    return rate is not None and rate.value == 0 and metric.value == 0


def _margin(kind: VerdictKind, rate: Metric | None) -> float:
    """Return the margin of a rate: 5 points, or a quarter of the rate; of the rarer
    side for pairs and items.
    """
    if kind is SCORES or rate is None or rate.value is None:
        return MARGIN
    share = rate.value
    if not kind.leans.endswith("/"):
        share = min(share, 1 - share)
    if kind is PAIRS and not share:
        return MARGIN  # labels of one side only: the decision says so
    return min(MARGIN, MARGIN_OF_RATE * share)


def leans_of(kind: VerdictKind, metrics: Metrics, confidence: float) -> Leans:
    """Return the leans of a judge.

    Args:
        kind: the kind of its verdicts.
        metrics: its metrics.
        confidence: the confidence of their intervals.
    """
    rates = tuple(rates_of(kind, metrics))
    margins = {rate.metric.name: rate for rate in rates}
    all_leans = {
        name.removeprefix(LEAN): metric
        for name, metric in metrics.items()
        if name.startswith(LEAN)
    }
    systems = sum(name.startswith("system/") for name in all_leans)
    sized_limits = []
    for name, metric in all_leans.items():
        group, _, subject = name.partition("/")
        rate = margins.get(metric.name)
        margin = MARGIN if rate is None else rate.margin
        # The leans of systems are tested together, any other lean by itself.
        tested = systems if group == "system" else 1
        if _is_shown(metric, margin, tested, confidence):
            by_labels = None if rate is None else rate.rate
            limit = Limit(f"lean_{group}", metric, subject, by_labels)
            size = abs(metric.value or 0.0) / max(margin, 1e-9)
            sized_limits.append((size, limit))
    sized_limits.sort(key=lambda pair: (-pair[0], -(pair[1].metric.value or 0.0)))
    limits = [limit for _, limit in sized_limits]
    longer = known(metrics, "length/longer_rate")
    if longer is not None and (longer.low or 0.0) >= ALWAYS:
        limits = [
            Limit("always_longer", longer) if limit.kind == "lean_longer" else limit
            for limit in limits
        ]
    largest = _largest(limits)
    by_length = _follows_length(kind, metrics)
    return Leans((*largest, *by_length), rates)


def open_leans(metrics: Metrics) -> list[RateLean]:
    """Return the leans of a judge's rates that are not shown to be within their margin."""
    kind = kind_of(metrics)
    rates = tuple(rates_of(kind, metrics))
    leans = Leans((), rates)
    return leans.unclear


def _largest(limits: list[Limit]) -> Iterator[Limit]:
    """Yield the first limit of each kind; a lean to A that is one to a system has the
    system's name.
    """
    kept = {limit.kind: limit for limit in reversed(limits)}
    system = kept.get("lean_system")
    side = kept.get("lean_a")
    if system is not None and side is not None and _size(system) >= _size(side):
        del kept["lean_a"]
    for limit in limits:
        if kept.get(limit.kind) is limit:
            yield limit


def _follows_length(kind: VerdictKind, metrics: Metrics) -> Iterator[Limit]:
    """Yield that scores follow the length of responses, and hardly anything else."""
    length = known(metrics, LENGTH_CORRELATION)
    if kind is not SCORES or length is None or length.n < FEW:
        return
    if (length.low or 0.0) >= FOLLOWS:
        yield Limit("follows_length", length)
    elif length.high is not None and length.high <= -FOLLOWS:
        yield Limit("follows_brevity", length)


def _size(limit: Limit) -> float:
    return abs(limit.metric.value or 0.0)


def _is_shown(metric: Metric, margin: float, tested: int, confidence: float) -> bool:
    """Return whether a lean reaches its margin, and is not 0 by its interval, adjusted
    for the number tested.
    """
    value = metric.value
    low = metric.low
    high = metric.high
    if value is None or low is None or high is None or metric.n < FEW:
        return False
    if abs(value) < margin - 1e-9 or value == 0:
        return False
    side_of_zero = value - low if value > 0 else high - value
    return abs(value) > wider_by(tested, confidence) * side_of_zero


def wider_by(tested: int, confidence: float) -> float:
    """Return by which factor an interval is wider that is one of so many (Bonferroni)."""
    normal = NormalDist()
    tail = (1 - confidence) / 2
    tail_of_each = tail / max(tested, 1)
    return normal.inv_cdf(tail_of_each) / normal.inv_cdf(tail)
