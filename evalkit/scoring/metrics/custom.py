"""The metrics of plug-ins: means of what a function returns for each verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.errors import PluginError
from evalkit.core.plugins import METRICS, third_party_errors
from evalkit.core.types import Case, Verdict
from evalkit.core.values import Json
from evalkit.scoring.catalog import CustomMetric
from evalkit.scoring.stats.statistic import Statistic, Tally

REMEDY = "fix the metric and score the run again; answers are stored"
NOTHING = "the metric is about none of the verdicts"


def custom_statistics(
    metrics: Sequence[CustomMetric],
    config: RunConfig,
    cases: Sequence[Case],
    verdicts: Sequence[Verdict],
) -> list[Statistic]:
    """Return the metrics of plug-ins that a run has: those whose parameters at least
    one verdict has.

    Args:
        metrics: The metrics.
        config: The run's config.
        cases: The cases.
        verdicts: The verdicts of the run as a whole.

    Raises:
        PluginError: If a function fails or returns a value that is not in the metric's range.
    """
    measured = (
        _custom_statistic(metric, config, cases, verdicts) for metric in metrics
    )
    return [statistic for statistic in measured if statistic is not None]


def _custom_statistic(
    metric: CustomMetric,
    config: RunConfig,
    cases: Sequence[Case],
    verdicts: Sequence[Verdict],
) -> Statistic | None:
    """Return the metric over all verdicts that it is about; `None` if there are none."""
    index_of = {case.id: index for index, case in enumerate(cases)}
    # The index of the case of each verdict that the metric is about.
    rows: list[int] = []
    # NaN where the verdict is missing.
    values: list[float | bool] = []
    named = False
    for verdict in verdicts:
        index = index_of[verdict.case_id]
        arguments = dict(_arguments(config, cases[index], verdict))
        if not arguments.keys() >= {*metric.parameters}:
            continue
        named = True
        if verdict.reason == "missing":
            rows.append(index)
            values.append(float("nan"))
            continue
        value = _value_of_verdict(metric, verdict, arguments)
        if value is not None:
            rows.append(index)
            values.append(value)
    if not named:
        return None
    numbers = np.array(values, dtype=np.float64)
    read = ~np.isnan(numbers)
    tally = Tally(np.array(rows, dtype=np.int64), len(cases))
    # Without those that are missing: NaN differs from itself.
    known_values = [value for value in values if value == value]
    if all(isinstance(value, bool) for value in known_values):
        return tally.rate(metric.spec.name, numbers == 1, read, ~read, why=NOTHING)
    low = metric.spec.low
    high = metric.spec.high
    ends = None if low is None or high is None else (low, high)
    return tally.mean(
        metric.spec.name,
        np.where(read, numbers, 0.0),
        read,
        ~read,
        span=ends,
        ends=ends,
        why=NOTHING,
    )


def _arguments(
    config: RunConfig, case: Case, verdict: Verdict
) -> Iterator[tuple[str, Any]]:
    """Yield what a function may ask for about a verdict, by the name of its parameter."""
    yield from (("config", config), ("case", case), ("verdict", verdict))
    if len(verdict.unit) == 1:
        yield "response", case.responses[verdict.unit[0]]
    else:
        first, second = verdict.unit
        yield "first", case.responses[first]
        yield "second", case.responses[second]


def _value_of_verdict(metric: CustomMetric, verdict: Verdict, arguments: Json) -> Any:
    """Return the value of a verdict; `None` if the metric is not about it."""
    name = metric.spec.name
    where = f"{METRICS}: {name}"
    problem = f"fails for case {verdict.case_id}"
    with third_party_errors(PluginError, problem, where=where, remedy=REMEDY):
        value = metric.value(**{key: arguments[key] for key in metric.parameters})
    if value is None or isinstance(value, bool):
        return value
    low = -np.inf if metric.spec.low is None else metric.spec.low
    high = np.inf if metric.spec.high is None else metric.spec.high
    if isinstance(value, int | float) and isfinite(value) and low <= value <= high:
        return float(value)
    problem = (
        f"returns {value!r:.40} for case {verdict.case_id}, "
        f"which is not a number from {low:g} to {high:g}"
    )
    raise PluginError(problem, where=where, remedy=REMEDY)
