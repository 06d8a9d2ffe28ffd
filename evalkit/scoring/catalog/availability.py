"""The metrics that a run can have, according to its config."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from evalkit.config import RunConfig
from evalkit.scoring.catalog.spec import CLASSES, EVERY, Catalog, Match, MetricSpec

MAX_NAMES = 200
"""At most this many values in cases are tried as corrections of a typo."""


def _several_judges(config: RunConfig) -> bool:
    return len(config.judge.members) > 1


def _weighs(config: RunConfig) -> bool:
    return config.judge.weighs or (config.swap.arbiter is not None and config.swap.arbiter.weighs)


def _classes_only(condition: Callable[[RunConfig], bool]) -> Callable[[RunConfig], bool]:
    """Return a condition that holds for every run that has no classes."""
    return lambda config: not config.rubric.classes or condition(config)


SETTINGS: Final[Mapping[str, Callable[[RunConfig], bool]]] = MappingProxyType(
    {
        "a panel": _several_judges,
        "a positive class": lambda config: config.rubric.positive is not None,
        "a third pass": lambda config: config.swap.resolve == "third_pass",
        "checklists by points": lambda config: config.scoring.checklist == "points",
        "an abstention": lambda config: config.rubric.abstain is not None,
        "comparisons, or ties as edges": lambda config: (
            not config.mode.scores or config.scoring.conflict_edges == "ties"
        ),
        "forbidden ties": lambda config: not config.tie.allow,
        "log-probabilities": _weighs,
        "probes": lambda config: bool(config.probe.probes),
        "confidence, or classes with log-probabilities": _classes_only(_weighs),
        "net votes": lambda config: config.swap.resolve == "net_vote",
        "ordered verdicts": _classes_only(lambda config: config.rubric.ordered),
        "samples": lambda config: config.mode.samples > 1,
        "samples or a panel": lambda config: config.mode.samples > 1 or _several_judges(config),
        "several criteria": lambda config: len(config.criteria) > 1,
    }
)
"""Values of `MetricSpec.needs` that a config decides; all others depend on the data."""


def is_available(spec: MetricSpec, config: RunConfig) -> bool:
    """Return whether a run with this config can have a metric; a third-party mode can have any."""
    mode = CLASSES[0] if config.rubric.classes else config.mode.name
    if spec.scope != "run" or (mode in EVERY and mode not in spec.modes):
        return False
    if spec.benchmark and spec.group != config.dataset.benchmark:
        return False
    return spec.needs not in SETTINGS or SETTINGS[spec.needs](config)


def fits(match: Match, config: RunConfig, values_in_cases: Callable[[], Iterable[str]]) -> bool:
    """Return whether the placeholders of a metric's name are in the config (a criterion, a class) or in the cases.

    `values_in_cases` returns the names of models, subsets and the like; it is called only if they matter.
    """
    spec = match.spec
    free = {name: value for name, value in match.values.items() if name not in spec.values}
    own: dict[str, Collection[str]] = {
        "criterion": config.raw_weights(),
        "class": config.rubric.classes,
        "probe": probe_names(config),
    }
    for placeholder, known in own.items():
        value = free.pop(placeholder, None)
        if value is not None and value not in known:
            return False
    free = {name: value for name, value in free.items() if value not in spec.extra_values.get(name, ())}
    return not free or {_folded(value) for value in free.values()} <= {_folded(value) for value in values_in_cases()}


def probe_names(config: RunConfig) -> tuple[str, ...]:
    """Return the names of the probes in an audit's metrics; the unedited repeat is always one."""
    return tuple(dict.fromkeys(["repeat", *config.probe.probes]))


def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def available_names(config: RunConfig, catalog: Catalog, values_in_cases: Iterable[str]) -> list[str]:
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
            names += _expanded(spec, spec.name, spec.placeholders, configured, values)
    return names


def _expanded(
    spec: MetricSpec,
    name: str,
    placeholders: Sequence[str],
    configured: Mapping[str, Sequence[str]],
    values_in_cases: Sequence[str],
) -> list[str]:
    """Return the names that a name with placeholders can be; empty if two of them depend on the cases."""
    if sum(one not in spec.values for one in placeholders) > 1:
        return []
    if not placeholders:
        return [name]
    one, *rest = placeholders
    known = configured.get(one, spec.values.get(one))
    values = known or (*values_in_cases, *spec.extra_values.get(one, ()))
    return [
        match
        for value in values
        for match in _expanded(spec, name.replace(f"{{{one}}}", value), rest, configured, values_in_cases)
    ]
