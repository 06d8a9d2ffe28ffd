"""Which metrics a run can have, as far as its config says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from evalkit.config import RunConfig
from evalkit.scoring.catalog.spec import BOTH, EXTRA_VALUES, VALUES, Catalog, Match, MetricSpec

MOST_NAMES = 200
"""At most so many names that cases hold are tried for what a typo may have meant."""


def _several_judges(config: RunConfig) -> bool:
    return len(config.judge.members) > 1


def _weighs(config: RunConfig) -> bool:
    return config.judge.weighs or (config.swap.arbiter is not None and config.swap.arbiter.weighs)


SETTINGS: Final[Mapping[str, Callable[[RunConfig], bool]]] = MappingProxyType(
    {
        "a panel": _several_judges,
        "a third pass": lambda config: config.swap.resolve == "third_pass",
        "comparisons, or ties as edges": lambda config: (
            config.mode.name != "pointwise" or config.scoring.conflict_edges == "ties"
        ),
        "forbidden ties": lambda config: not config.tie.allow,
        "log-probabilities": _weighs,
        "net votes": lambda config: config.swap.resolve == "net_vote",
        "samples": lambda config: config.mode.samples > 1,
        "samples or a panel": lambda config: config.mode.samples > 1 or _several_judges(config),
        "several criteria": lambda config: len(config.criteria) > 1,
    }
)
"""What `MetricSpec.needs` asks of a config. All other needs are of the data, and only the run can tell."""


def is_available(spec: MetricSpec, config: RunConfig, catalog: Catalog) -> bool:
    """Say whether a run under this config can have a metric; a mode that is not evalkit's own can have any."""
    if spec.scope != "run" or (config.mode.name in BOTH and config.mode.name not in spec.modes):
        return False
    if spec.group in catalog.benchmarks and spec.group != config.dataset.benchmark:
        return False
    return spec.needs not in SETTINGS or SETTINGS[spec.needs](config)


def fits(found: Match, config: RunConfig, held: Callable[[], Iterable[str]]) -> bool:
    """Say whether the placeholders of a metric's name stand for a criterion of the config, or a name that cases hold.

    `held` returns the names of models, subsets and the like that cases hold; it is called only if they matter.
    """
    free = {name: value for name, value in found.values.items() if name not in VALUES}
    criterion = free.pop("criterion", None)
    if criterion is not None and criterion not in config.raw_weights():
        return False
    free = {name: value for name, value in free.items() if value not in EXTRA_VALUES.get(name, ())}
    return not free or {_folded(value) for value in free.values()} <= {_folded(value) for value in held()}


def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def available_names(config: RunConfig, catalog: Catalog, held: Iterable[str]) -> list[str]:
    """Return the names of the metrics that a run can have, as far as config and cases say: what a typo may mean."""
    names: list[str] = []
    values = tuple(held)[:MOST_NAMES]
    for spec in catalog.rows:
        if is_available(spec, config, catalog):
            names += _expanded(spec.name, spec.placeholders, tuple(config.raw_weights()), values)
    return names


def _expanded(name: str, placeholders: Sequence[str], criteria: Sequence[str], held: Sequence[str]) -> list[str]:
    """Return the names that a name with placeholders stands for; none if two of them depend on the cases."""
    if sum(one not in VALUES for one in placeholders) > 1:
        return []
    for one in placeholders:
        values = criteria if one == "criterion" else VALUES.get(one) or (*held, *EXTRA_VALUES.get(one, ()))
        rest = [other for other in placeholders if other != one]
        return [
            found for value in values for found in _expanded(name.replace(f"{{{one}}}", value), rest, criteria, held)
        ]
    return [name]
