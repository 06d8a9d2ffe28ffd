"""What a run's metrics are held against: each rule held, failed or undecided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from operator import ge, gt, le, lt
from typing import Any, Literal

from evalkit.config import GateConfig, LeadRule, ScoringConfig
from evalkit.core.display import estimate
from evalkit.errors import ConfigError, did_you_mean
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.compare import RunEntry
from evalkit.scoring.stats.bootstrap import UNVARYING
from evalkit.types import Metric

State = Literal["held", "failed", "undecided"]

_SIGNS = {">=": ge, ">": gt, "<=": le, "<": lt}


@dataclass(frozen=True, slots=True)
class Ruling:
    """What became of one rule: the metric it is on, the rule as it reads, its state, why, and the numbers it saw."""

    metric: str
    rule: str
    state: State
    why: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Gate:
    """Every rule's ruling, and whether undecided ones count as failed."""

    rulings: tuple[Ruling, ...]
    strict: bool = False

    @property
    def state(self) -> State:
        """Failed if one rule is, undecided if one is left open, else held."""
        states = {ruling.state for ruling in self.rulings}
        if "failed" in states or (self.strict and "undecided" in states):
            return "failed"
        return "undecided" if "undecided" in states else "held"

    def json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        undecided = "fail" if self.strict else "pass"
        return {"state": self.state, "undecided": undecided, "rules": [asdict(ruling) for ruling in self.rulings]}


def judge_metrics(gate: GateConfig, metrics: Mapping[str, Metric]) -> Iterator[Ruling]:
    """Yield the ruling of every bound of every metric's rule; a metric that is not there fails."""
    for name, rule in gate.rules.items():
        for number, sign, limit in rule.bounds():
            metric = metrics.get(name)
            text = f"{'' if number == 'value' else number + ' '}{sign} {limit:g}"
            if metric is None:
                yield Ruling(name, text, "failed", f"no such metric in this run; {did_you_mean(name, metrics)}")
            elif number == "value" and (rule.by or gate.by) == "interval":
                yield _saw(metric, text, *_by_interval(metric, sign, limit))
            else:
                yield _saw(metric, text, *_by_number(metric, number, sign, limit))


def _saw(metric: Metric, rule: str, state: State, why: str) -> Ruling:
    return Ruling(metric.name, rule, state, why, metric.value, metric.low, metric.high, metric.n, metric.missing)


def _by_number(metric: Metric, number: str, sign: str, limit: float) -> tuple[State, str]:
    """Rule by one number; nothing can be said where there is none."""
    found = getattr(metric, number)
    if found is None:
        missing = "value" if metric.value is None else number
        return "undecided", f"it has no {missing} ({metric.note or 'none was asked for'})"
    return ("held" if _SIGNS[sign](found, limit) else "failed"), f"{number} is {found:.4g}"


def _by_interval(metric: Metric, sign: str, limit: float) -> tuple[State, str]:
    """Rule by the whole interval: it is held if both ends keep the bound, failed if neither does, else undecided."""
    if metric.value is None:
        return _by_number(metric, "value", sign, limit)
    if metric.low is None or metric.high is None:
        told = metric.note or "none was asked for"
        return "undecided", f"{metric.value:.4g} has no interval ({told}); `by: value` decides by the value alone"
    kept = {_SIGNS[sign](end, limit) for end in (metric.low, metric.high)}
    shown = estimate(metric.value, metric.low, metric.high, "{:.4g}".format)
    if len(kept) == 2:
        return "undecided", f"{shown}: {limit:g} lies within"
    return ("held" if kept.pop() else "failed"), shown


def less_is_better(rule: LeadRule) -> bool:
    """Say whether a lower value of a rule's metric is the better one.

    Raises:
        ConfigError: if that is neither said nor known of the metric.
    """
    if rule.better:
        return rule.better == "lower"
    if (better := CATALOG.better(rule.metric)) is not None:
        return better == "lower"
    where, remedy = "gate.no_worse_than", "write better: higher, or better: lower"
    raise ConfigError(f"it is not known whether more of {rule.metric} is better", where=where, remedy=remedy)


def judge_lead(rule: LeadRule, mine: RunEntry, other: RunEntry, scoring: ScoringConfig, by: str = "interval") -> Ruling:
    """Return whether a run is no worse than another in one metric, by more than the margin, paired by case.

    Non-inferiority by the interval of the difference (Schumi and Wittes 2011, Trials 12, 106): held if it lies above
    minus the margin whole, failed if below it whole.
    """
    from evalkit.scoring.compare import compare_runs  # loads tests that other rules do without

    text = lead_text(rule, other.name)
    try:
        sign, limit = ("<=", rule.margin) if less_is_better(rule) else (">=", -rule.margin)
        found = compare_runs([mine, other], scoring, [rule.metric])
    except ConfigError as error:
        return Ruling(rule.metric, text, "undecided", str(error))
    for difference in found.differences:
        if (metric := difference.metric).name != rule.metric:
            continue
        if by == "value" or UNVARYING in (metric.note or ""):
            state, why = _by_number(metric, "value", sign, limit)
        else:
            state, why = _by_interval(metric, sign, limit)
        return _saw(metric, text, state, f"difference {why.removeprefix('value is ')}")
    return Ruling(rule.metric, text, "undecided", "the runs' values cannot be compared: their scales differ")


def lead_text(rule: LeadRule, name: str) -> str:
    """Return how a rule on another run reads."""
    return f"no worse than {name}" + (f" by more than {rule.margin:g}" if rule.margin else "")
