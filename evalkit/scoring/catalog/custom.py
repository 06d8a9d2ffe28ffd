"""Metrics that other packages add: a function of one verdict, and its row of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Final

from evalkit.core.benchmark_discovery import benchmark_named
from evalkit.core.errors import PluginError
from evalkit.core.plugins import METRICS, entry_points_in, load_only
from evalkit.scoring.catalog.spec import MetricSpec

PARAMETERS: Final[Mapping[str, str]] = {
    "config": "the run's config",
    "case": "the case",
    "verdict": "the verdict",
    "response": "the response, if the verdict is about one",
    "first": "the first response of a pair",
    "second": "the second response of a pair",
}
"""What the function of a metric may ask for."""


@dataclass(frozen=True, slots=True)
class CustomMetric:
    """A metric for custom data: the mean of the values that a function gives to verdicts.

    A verdict without an answer is missing, and the function does not see it.

    Attributes:
        spec: Its row of the catalog, named `GROUP/NAME` where `GROUP` is the name of its entry
            point. Values are from `spec.low` to `spec.high`.
        value: Returns the value of a verdict: a number, true or false, or `None` if the metric is
            not about this verdict. Its parameters are those of `PARAMETERS` that it needs; it is
            not called for a verdict that lacks one of them.
    """

    spec: MetricSpec
    value: Callable[..., float | bool | None]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the function's parameters."""
        return tuple(signature(self.value).parameters)


def metrics_of_group(group: str, reserved: Collection[str]) -> tuple[CustomMetric, ...]:
    """Return the metrics that a package registers under a name; empty if no package does.

    Args:
        group: The name of the entry point: the first part of the metrics' names.
        reserved: The groups of evalkit's own metrics.

    Raises:
        PluginError: If they cannot be used.
    """
    where = f"{METRICS}: {group}"
    loaded = load_only(METRICS, group, where)
    if loaded is None:
        return ()
    metrics: Sequence[Any] = (loaded,) if isinstance(loaded, CustomMetric) else loaded
    if not isinstance(metrics, tuple | list) or not all(
        isinstance(metric, CustomMetric) for metric in metrics
    ):
        raise PluginError(
            "is not a metric",
            where=where,
            remedy="point it to a CustomMetric, or to a list of them",
        )
    if group in reserved or benchmark_named(group) is not None:
        raise PluginError(
            f"evalkit has metrics named '{group}/…'",
            where=where,
            remedy="register yours under another name",
        )
    for metric in metrics:
        if problem := _problem(metric, group):
            raise PluginError(f"'{metric.spec.name}' {problem}", where=where)
    return tuple(metrics)


def _problem(metric: CustomMetric, group: str) -> str:
    """Return what is wrong with a metric and what to do; empty if nothing is."""
    if metric.spec.group != group or metric.spec.name.count("/") != 1:
        return f"is not named '{group}/NAME': rename it"
    if metric.spec.placeholders:
        return "has a placeholder: name each metric"
    unknown = sorted({*metric.parameters} - {*PARAMETERS})
    if unknown:
        names = ", ".join(PARAMETERS)
        return f"asks for {', '.join(unknown)}: use the parameters {names}"
    return ""


def installed_metrics(reserved: Collection[str]) -> tuple[CustomMetric, ...]:
    """Return the metrics of all packages.

    Raises:
        PluginError: If one of them cannot be used.
    """
    groups = dict.fromkeys(point.name for point in entry_points_in(METRICS))
    return tuple(
        metric for group in groups for metric in metrics_of_group(group, reserved)
    )
