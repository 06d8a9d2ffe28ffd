"""The metrics of a run: from what it has to the functions that need it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from inspect import Parameter, signature
from typing import Any, TypedDict

from evalkit.config import RunConfig
from evalkit.core.benchmark_discovery import find_benchmark
from evalkit.core.errors import PluginError
from evalkit.core.plugins import third_party_errors
from evalkit.core.scale import Scale
from evalkit.core.types import Case
from evalkit.core.values import JsonObject
from evalkit.scoring.columns import (
    ClassColumns,
    PassColumns,
    ScoreColumns,
    VerdictColumns,
)
from evalkit.scoring.judgments import JudgmentColumns
from evalkit.scoring.metrics.metric_registry import MODELS, Functions
from evalkit.scoring.stats.arrays import Floats
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import Measures, Tabled
from evalkit.scoring.verdicts.cascade import Cascade
from evalkit.scoring.verdicts.checklists import ItemColumns


class RunValues(TypedDict, total=False):
    """What the metrics of a run are computed from, by the parameters of their
    functions: `None` if the run lacks it.

    A function of metrics has no other parameters. `answers` are also `verdicts`, `classes` or
    `items`, by their kind. Verdicts are also `compared` if the judge compares, with `passes`, and
    `single` if they are not those of a panel. `scores` may be those of a ranking; `responses` are
    scores on the rubric's scale, whose ends are `ends` if no score depends on the others. `judges`
    are the verdicts of each judge of a panel, and `cascade` the deciders of one.
    """

    config: RunConfig
    cases: Sequence[Case]
    judgments: JudgmentColumns
    answers: VerdictColumns | ClassColumns | ItemColumns
    clusters: Clusters | None
    scale: Scale
    weights: Floats | None
    items: ItemColumns
    rule: str
    classes: ClassColumns
    verdicts: VerdictColumns
    compared: VerdictColumns | None
    passes: PassColumns | None
    single: VerdictColumns | None
    scores: ScoreColumns | None
    responses: ScoreColumns | None
    ends: tuple[float, float] | None
    judges: Sequence[VerdictColumns] | Sequence[ClassColumns] | None
    cascade: Cascade | None


def values_of(
    config: RunConfig,
    cases: Sequence[Case],
    judgments: JudgmentColumns,
    answers: VerdictColumns | ClassColumns | ItemColumns,
    weights: Floats | None,
    clusters: Clusters | None = None,
) -> RunValues:
    """Return what the metrics of one judge or a panel are computed from.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: all judgments.
        answers: the verdicts of the judge or the panel, or the items.
        weights: the weights of cases by which comparisons with labels are weighted.
        clusters: the clusters of the cases.
    """
    scale = Scale.of(config.rubric)
    values: RunValues = {
        "config": config,
        "cases": cases,
        "judgments": judgments,
        "answers": answers,
        "clusters": clusters,
        "scale": scale,
        "weights": weights,
    }
    if isinstance(answers, ItemColumns):
        return values | {"items": answers, "rule": config.scoring.checklist}
    if isinstance(answers, ClassColumns):
        return values | {"classes": answers}
    compares = answers.passes is not None
    method = config.scoring.normalize
    independent = not (scale.real or compares or config.scoring.length_control)
    if independent:
        ends = {"none": (scale.min, scale.max), "minmax": (0.0, 1.0)}.get(method)
    else:
        ends = None
    return values | {
        "verdicts": answers,
        "compared": answers if compares else None,
        "passes": answers.passes,
        "single": answers if answers.panel is None else None,
        "scores": answers.scores,
        "responses": None if compares else answers.scores,
        "ends": ends,
    }


@lru_cache(maxsize=512)  # every run asks for the same functions
def _parameters(function: Callable[..., Any]) -> Mapping[str, Parameter]:
    """Return the parameters of a function by name."""
    return signature(function).parameters


def computed(functions: Functions, values: RunValues) -> Tabled:
    """Return the metrics and tables of the functions whose parameters have values, or defaults.

    Raises:
        TypeError: if a parameter is none of `RunValues`, so that no run would ever have the
            function's metrics.
    """
    measures: Measures = []
    tables: JsonObject = {}
    for function in functions:
        needed = _parameters(function)
        if unknown := needed.keys() - RunValues.__annotations__.keys():
            raise TypeError(
                f"{function.__name__}: no run has {', '.join(sorted(unknown))}; see RunValues"
            )
        if any(
            values.get(name) is None and parameter.default is Parameter.empty
            for name, parameter in needed.items()
        ):
            continue
        output = function(**{name: values.get(name) for name in needed})
        metrics, named = output if isinstance(output, tuple) else (output, {})
        measures += metrics
        tables |= {name: table for name, table in named.items() if table}
    return measures, tables


def benchmark_statistics(
    config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns
) -> Measures:
    """Return the metrics of the benchmark `dataset.benchmark`, by its authors' rules.

    Raises:
        ConfigError: if the benchmark is unknown.
        PluginError: if its rule fails.
    """
    if (name := config.dataset.benchmark) is None:
        return []
    benchmark = find_benchmark(name)
    problem = f"the rule of '{name}' fails"
    remedy = "fix the benchmark's rule; answers are stored"
    with third_party_errors(
        PluginError, problem, where="dataset.benchmark", remedy=remedy
    ):
        return [*benchmark.statistics(config, cases, verdicts)]


EXTRAS = (benchmark_statistics, *MODELS)
