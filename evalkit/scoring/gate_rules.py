"""Gate rules on a run's metrics, held, failed or undecided, and the metrics that a run can have."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from operator import ge, gt, le, lt
from types import MappingProxyType
from typing import Final, Literal

from evalkit.config import GateConfig, LeadRule, RunConfig, ScoringConfig
from evalkit.core.display import estimate
from evalkit.core.errors import ConfigError
from evalkit.core.types import Metric
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.catalog.removed import metric_remedy
from evalkit.scoring.catalog.spec import CLASSES, EVERY, Catalog, Match, MetricSpec
from evalkit.scoring.decision import USES, Decision, Metrics, Use
from evalkit.scoring.labels import labels_for
from evalkit.scoring.paired_runs import RunEntry
from evalkit.scoring.search.selection import Choices, limited_to_rest
from evalkit.scoring.stats.bootstrap import UNVARYING
from evalkit.scoring.verdicts.panel import metric_part

MAX_NAMES = 200
"""At most this many values in cases are tried as corrections of a typo."""


def _several_judges(config: RunConfig) -> bool:
    return len(config.judge.members) > 1


def _weighs(config: RunConfig) -> bool:
    return config.judge.weighs or (
        config.swap.arbiter is not None and config.swap.arbiter.weighs
    )


def _classes_only(
    condition: Callable[[RunConfig], bool],
) -> Callable[[RunConfig], bool]:
    """Return a condition that holds for every run that has no classes."""
    return lambda config: not config.rubric.classes or condition(config)


def _stated(config: RunConfig) -> bool:
    """Return whether verdicts can have a confidence or a probability."""
    # Classes have probabilities only if the judge gives log-probabilities.
    if config.rubric.classes:
        return _weighs(config)
    return config.rubric.real or config.mode.name != "pointwise"


# By the words of the catalog: whether a config can have such a metric.
SETTINGS: Final[Mapping[str, Callable[[RunConfig], bool]]] = MappingProxyType(
    {
        "a cascade": lambda config: config.judge.cascades,
        "a panel": _several_judges,
        "a positive class": lambda config: config.rubric.positive is not None,
        "a third pass": lambda config: config.swap.resolve == "third_pass",
        "checklists by points": lambda config: config.scoring.checklist == "points",
        "an abstention": lambda config: (
            config.rubric.abstain is not None or config.judge.cascades
        ),
        "comparisons, or ties as edges": lambda config: (
            not config.mode.scores or config.scoring.conflict_edges == "ties"
        ),
        "forbidden ties": lambda config: not config.tie.allow,
        "log-probabilities": _weighs,
        "probes": lambda config: bool(config.probe.probes),
        "a real rubric": lambda config: config.rubric.real,
        "confidence, rewards, or classes with log-probabilities": _stated,
        "net votes": lambda config: config.swap.resolve == "net_vote",
        "ordered verdicts": _classes_only(lambda config: config.rubric.ordered),
        "samples": lambda config: config.mode.samples > 1,
        "samples or a panel": lambda config: (
            config.mode.samples > 1 or _several_judges(config)
        ),
        "several criteria": lambda config: len(config.criteria) > 1,
    }
)
"""Values of `MetricSpec.needs` that a config decides; all others depend on the data."""


def is_available(spec: MetricSpec, config: RunConfig) -> bool:
    """Return whether a run with this config can have a metric; a third-party mode can have any."""
    # A rubric with classes has metrics of its own, whatever the mode.
    mode = CLASSES[0] if config.rubric.classes else config.mode.name
    # A third-party mode is not in EVERY: nothing is known about its metrics.
    if spec.scope != "run" or (mode in EVERY and mode not in spec.modes):
        return False
    if spec.benchmark and spec.group != config.dataset.benchmark:
        return False
    return spec.needs not in SETTINGS or SETTINGS[spec.needs](config)


def fits(
    match: Match, config: RunConfig, values_in_cases: Callable[[], Iterable[str]]
) -> bool:
    """Return whether the placeholders of a metric's name are in the config (a
    criterion, a class) or in the cases.

    `values_in_cases` returns the names of models, subsets and the like; it is called only if they
    matter.
    """
    spec = match.spec
    # placeholders with values that the catalog does not fix
    free = {
        name: value for name, value in match.values.items() if name not in spec.values
    }
    configured: dict[str, Collection[str]] = {
        "criterion": config.raw_weights(),
        "class": config.rubric.classes,
        "probe": probe_names(config),
        "judge": [metric_part(member.label) for member in config.judge.members],
    }
    # Config values must match exactly.
    for placeholder, allowed in configured.items():
        value = free.pop(placeholder, None)
        if value is not None and value not in allowed:
            return False
    free = {
        name: value
        for name, value in free.items()
        if value not in spec.extra_values.get(name, ())
    }
    # Names from the data are compared without case and punctuation, as metrics spell them.
    return not free or {_folded(value) for value in free.values()} <= {
        _folded(value) for value in values_in_cases()
    }


def probe_names(config: RunConfig) -> tuple[str, ...]:
    """Return the names of the probes in an audit's metrics; the unedited repeat is always one."""
    return tuple(dict.fromkeys(["repeat", *config.probe.probes]))


def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def available_names(
    config: RunConfig, catalog: Catalog, values_in_cases: Iterable[str]
) -> list[str]:
    """Return the names of the metrics that a run can have, as corrections of a typo."""
    names: list[str] = []
    values = tuple(values_in_cases)[:MAX_NAMES]
    for spec in catalog.rows:
        if is_available(spec, config):
            configured = {
                "criterion": tuple(config.raw_weights()),
                "class": tuple(config.rubric.classes),
                "probe": tuple(probe_names(config)),
            }
            names += _expand_name(
                spec, spec.name, spec.placeholders, configured, values
            )
    return names


def _expand_name(
    spec: MetricSpec,
    name: str,
    placeholders: Sequence[str],
    configured: Mapping[str, Sequence[str]],
    values_in_cases: Sequence[str],
) -> list[str]:
    """Return the names that a name with placeholders can be; empty if two of them
    depend on the cases.
    """
    # Two values from cases would make a product of names, mostly of metrics that do not exist.
    if sum(placeholder not in spec.values for placeholder in placeholders) > 1:
        return []
    if not placeholders:
        return [name]
    placeholder, *remaining = placeholders
    fixed_values = configured.get(placeholder, spec.values.get(placeholder))
    values = fixed_values or (*values_in_cases, *spec.extra_values.get(placeholder, ()))
    return [
        # One placeholder at a time; the last call returns complete names.
        match
        for value in values
        for match in _expand_name(
            spec,
            name.replace(f"{{{placeholder}}}", value),
            remaining,
            configured,
            values_in_cases,
        )
    ]


State = Literal["held", "failed", "undecided"]

DECISION = "decision"
"""The gate's key, and the name of its rule, for the decision about the judge."""
_ENDS = {
    "value": "value is",
    "low": "low is",
    "high": "high is",
    "worst_low": "worst_low is",
    "worst_high": "worst_high is",
}
_SIGNS = {">=": ge, ">": gt, "<=": le, "<": lt}


NO_CHOICES: Final[Choices] = MappingProxyType({})


@frozen
class Ruling:
    """The result of one rule.

    Attributes:
        metric: the metric's name.
        rule: the rule in words.
        state: the result.
        why: the reason.
        value: the metric's value.
        low: the lower end of its interval.
        high: the upper end of its interval.
        n: the number of units behind it.
        missing: the number of missing units.
        labels_needed: how many more labels would probably decide about the judge, if the rule is
            about that.
    """

    metric: str
    rule: str
    state: State
    why: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    missing: int = 0
    labels_needed: int | None = None


@frozen
class Gate:
    """The rulings of all rules.

    Attributes:
        rulings: the rulings.
        strict: whether an undecided rule fails the gate.
        where: the cases that the gate is limited to, by column; empty for all of them.
    """

    rulings: tuple[Ruling, ...]
    strict: bool = False
    where: Choices = field(default_factory=dict)

    @property
    def state(self) -> State:
        """Failed if any rule failed, undecided if any is undecided, otherwise held."""
        # A failed rule decides, however many others hold.
        states = {ruling.state for ruling in self.rulings}
        if "failed" in states or (self.strict and "undecided" in states):
            return "failed"
        if "undecided" in states:
            return "undecided"
        return "held"

    def json(self) -> JsonObject:
        """Return the gate as JSON values."""
        # An undecided rule passes unless the gate is strict.
        undecided = "fail" if self.strict else "pass"
        limited: JsonObject = {}
        if self.where:
            limited = {
                "where": {name: dict(choice) for name, choice in self.where.items()}
            }
        return {
            "state": self.state,
            "undecided": undecided,
            **limited,
            "rules": [asdict(ruling) for ruling in self.rulings],
        }


def judge_metrics(
    gate: GateConfig, metrics: Metrics, confidence: float = 0.95
) -> Iterator[Ruling]:
    """Yield the ruling of every bound of every metric's rule; a missing metric fails."""
    for name, rule in gate.rules.items():
        # A rule may have several bounds, each with a ruling.
        for number, sign, limit in rule.bounds():
            metric = metrics.get(name)
            text = f"{'' if number == 'value' else number + ' '}{sign} {limit:g}"
            if metric is None:
                yield Ruling(
                    name,
                    text,
                    "failed",
                    f"no such metric in this run; {metric_remedy(name, metrics)}",
                )
            # Only a bound on the value can be decided by the interval.
            elif number == "value" and (rule.by or gate.by) == "interval":
                state, why = _rule_by_interval(metric, sign, limit)
                # More labels narrow an interval; they help only while it is undecided.
                if state == "undecided":
                    needed = labels_for(metric, limit, confidence)
                else:
                    needed = None
                if needed:
                    hint = f"; about {needed:,} more labels would probably decide"
                else:
                    hint = ""
                yield replace(
                    _ruling(metric, text, state, why + hint), labels_needed=needed
                )
            else:
                yield _ruling(metric, text, *_by_number(metric, number, sign, limit))


def judge_decision(
    demanded: Use, decision: Decision, sentence: str, choices: Choices = NO_CHOICES
) -> Ruling:
    """Return whether a judge is good for at least what the gate demands; undecided if
    its intervals do not exclude it.

    It fails if there are slices in which the judge is not.

    Args:
        demanded: what it must be good for.
        decision: the decision about the judge.
        sentence: the decision in words.
        choices: the cases that the gate is limited to.
    """
    # Uses from least to most.
    order = USES.index
    why = f"{decision.use}: {sentence}"
    state: State = "undecided"
    # Order is decided apart from the other uses.
    if demanded == "order":
        excluded = decision.order is False or decision.reason == "constant"
    else:
        excluded = order(decision.possible) < order(demanded)
    # Even the best use that the intervals allow is too little.
    if excluded:
        state = "failed"
    elif not decision.allows(demanded):
        possible = f"the intervals do not exclude {decision.possible}"
        why = f"{decision.use} ({possible}): {sentence}"
    # Good enough overall, but not in some slices.
    elif any(order(where.allows) < order(demanded) for where in decision.where):
        state = "failed"
        setting = limited_to_rest(decision.where, demanded, choices)
        if setting:
            why = f"{why} To limit the gate to the rest: {setting}"
        else:
            why = f"{why} Have people answer these checklist items, or leave them out."
    else:
        state = "held"
    # A judge without any metric still has a decision.
    metric = replace(decision.metric or Metric("", None), name=DECISION)
    ruling = _ruling(metric, f">= {demanded}", state, why)
    return replace(ruling, labels_needed=decision.labels_needed)


def _ruling(metric: Metric, rule: str, state: State, why: str) -> Ruling:
    """Return the ruling of a rule on a metric, with the metric's numbers."""
    return Ruling(
        metric.name,
        rule,
        state,
        why,
        value=metric.value,
        low=metric.low,
        high=metric.high,
        n=metric.n,
        missing=metric.missing,
    )


def _by_number(
    metric: Metric, number: str, sign: str, limit: float
) -> tuple[State, str]:
    """Rule by one number; undecided if there is none."""
    value = getattr(metric, number)
    if value is None:
        missing = "value" if metric.value is None else number
        return (
            "undecided",
            f"it has no {missing} ({metric.note or 'none was requested'})",
        )
    return (
        "held" if _SIGNS[sign](value, limit) else "failed"
    ), f"{_ENDS[number]} {value:.4g}"


def _rule_by_interval(metric: Metric, sign: str, limit: float) -> tuple[State, str]:
    """Rule by the whole interval: held if both ends meet the bound, failed if neither
    does, otherwise undecided.
    """
    if metric.value is None:
        return _by_number(metric, "value", sign, limit)
    if metric.low is None or metric.high is None:
        reason = metric.note or "none was requested"
        return (
            "undecided",
            (
                f"{metric.value:.4g} has no interval ({reason}); `by: value` decides by the value"
                " alone"
            ),
        )
    # Whether each end meets the bound: one element means that both agree.
    kept = {_SIGNS[sign](end, limit) for end in (metric.low, metric.high)}
    text = estimate(metric.value, metric.low, metric.high, "{:.4g}".format)
    if len(kept) == 2:
        return "undecided", f"{text}: {limit:g} lies within"
    return ("held" if kept.pop() else "failed"), text


def less_is_better(rule: LeadRule) -> bool:
    """Return whether a lower value of a rule's metric is better.

    Raises:
        ConfigError: if neither the rule nor the catalog says.
    """
    if rule.better:
        return rule.better == "lower"
    if (better := CATALOG.better(rule.metric)) is not None:
        return better == "lower"
    where, remedy = "gate.no_worse_than", "write better: higher, or better: lower"
    raise ConfigError(
        f"it is not known whether more of {rule.metric} is better",
        where=where,
        remedy=remedy,
    )


def judge_lead(
    rule: LeadRule,
    mine: RunEntry,
    theirs: RunEntry,
    scoring: ScoringConfig,
    by: str = "interval",
) -> Ruling:
    """Return whether a run is at most `rule.margin` worse than another in one metric,
    paired by case.

    It is non-inferiority by the interval of the difference (Schumi and Wittes 2011, Trials 12,
    106): held if the interval lies above minus the margin, failed if it lies below.

    Args:
        rule: the rule.
        mine: the run.
        theirs: the run it is compared with.
        scoring: the confidence and the number of resamples.
        by: `interval` or `value`.
    """
    from evalkit.scoring.compare import (
        compare_runs,
    )  # imports tests that other rules do not need

    text = lead_text(rule, theirs.name)
    try:
        # Worse means more if less is better.
        sign, limit = (
            ("<=", rule.margin) if less_is_better(rule) else (">=", -rule.margin)
        )
        comparison = compare_runs([mine, theirs], scoring, [rule.metric])
    # Runs that cannot be compared leave the rule undecided instead of failing it.
    except ConfigError as error:
        return Ruling(rule.metric, text, "undecided", str(error))
    if (difference := comparison.difference(rule.metric)) is None:
        return Ruling(
            rule.metric,
            text,
            "undecided",
            "the runs' values cannot be compared: their scales differ",
        )
    metric = difference.metric
    # If the difference never varies, its interval shows nothing, and the value decides.
    if by == "value" or UNVARYING in (metric.note or ""):
        state, why = _by_number(metric, "value", sign, limit)
    else:
        state, why = _rule_by_interval(metric, sign, limit)
    return _ruling(metric, text, state, f"difference {why.removeprefix('value is ')}")


def lead_text(rule: LeadRule, name: str) -> str:
    """Return a rule on another run in words."""
    return f"no worse than {name}" + (
        f" by more than {rule.margin:g}" if rule.margin else ""
    )
