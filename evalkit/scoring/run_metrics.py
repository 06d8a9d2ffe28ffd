"""The metrics of a run: from verdicts, from settings, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from evalkit.benchmark_discovery import find_benchmark
from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.errors import PluginError
from evalkit.plugins import third_party_errors
from evalkit.scoring.columns import VerdictColumns
from evalkit.scoring.judgments import JudgmentColumns
from evalkit.scoring.labels import given_weights
from evalkit.scoring.metrics.agreement import (
    agreement_statistics,
    confusion_statistics,
    confusion_table,
    pass_statistics,
)
from evalkit.scoring.metrics.biases import (
    decision_statistics,
    length_models,
    length_statistics,
    order_statistics,
    position_statistics,
    self_statistics,
)
from evalkit.scoring.metrics.calibration import calibration_statistics, recalibration
from evalkit.scoring.metrics.corrections import mean_corrections
from evalkit.scoring.metrics.correlation import (
    auc_statistic,
    correlation_statistics,
    scale_statistics,
    within_statistics,
)
from evalkit.scoring.metrics.humans import (
    annotator_results,
    read_annotations,
)
from evalkit.scoring.metrics.ranking import games_of, rank_systems
from evalkit.scoring.metrics.rates import (
    missing_statistics,
    missing_table,
    one_pass_rate,
    overall_statistics,
    reason_rate,
    score_distinct,
    score_mean,
    settled_rate,
    tie_statistics,
    weight_statistics,
)
from evalkit.scoring.metrics.repeats import (
    Design,
    jnd_details,
    jnd_statistics,
    observe,
    sample_statistics,
    variance_details,
    variance_statistics,
)
from evalkit.scoring.metrics.transitivity import (
    conflict_statistics,
    cycle_results,
    edges_of,
)
from evalkit.scoring.metrics.transport import transport_statistics
from evalkit.scoring.metrics.turns import turn_statistics
from evalkit.scoring.stats.bootstrap import Measures, Statistic
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.verdicts.pointwise import score_slopes
from evalkit.scoring.verdicts.rewards import differences, reward_slope
from evalkit.types import Case, Metric
from evalkit.values import Json

BY_RANKING = "one ranking has no cycles: only rankings of different orders, samples or responses can form one"


def statistics(
    config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns, judgments: JudgmentColumns
) -> Measures:
    """Return every metric of one judge or panel that its mode can have.

    Args:
        config: the run's config.
        cases: the cases.
        verdicts: the verdicts.
        judgments: all judgments.
    """
    scored, passes, scale = verdicts.scores, verdicts.passes, Scale.of(config.rubric)
    found: Measures = [
        *tie_statistics(verdicts, scored=passes is None),
        *length_statistics(verdicts),
        *_conflict_rates(config, verdicts),
        *agreement_statistics(verdicts),
        *missing_statistics(judgments),
        *decision_statistics(config, cases, verdicts),
        *turn_statistics(cases, scale, verdicts),
    ]
    if passes is not None:
        found += [*position_statistics(verdicts, passes), *pass_statistics(verdicts, passes)]
        found += [*calibration_statistics(verdicts), *overall_statistics(config, verdicts.judgments)]
    found += [*optional_statistics(config, verdicts), *weight_statistics(config, judgments)]
    if scored is None:
        return found
    if passes is None:
        found += [score_mean(scored, scale), score_distinct(scored, scale)]
    if scale.real and passes is None:
        found += [*calibration_statistics(verdicts), reward_slope(verdicts.pairs, differences(verdicts), len(cases))]
        found.append(auc_statistic(scored))
    return [*found, *correlation_statistics(scored, _ends(config, verdicts))]


def _ends(config: RunConfig, verdicts: VerdictColumns) -> tuple[float, float] | None:
    """Return the ends of the scale of the scores, or `None` if each score depends on the others."""
    scale, how = Scale.of(config.rubric), config.scoring.normalize
    if scale.real or verdicts.passes is not None or config.scoring.length_control or how not in ("none", "minmax"):
        return None
    return (0.0, 1.0) if how == "minmax" else (scale.min, scale.max)


def _conflict_rates(config: RunConfig, verdicts: VerdictColumns) -> Measures:
    edges = edges_of(config.scoring.conflict_edges, verdicts, verdicts.passes)
    found = conflict_statistics(edges, scored=verdicts.passes is None)
    if not verdicts.listed:
        return found
    return [
        replace(one, note=f"{one.note}; {BY_RANKING}")
        if isinstance(one, Statistic) and one.name == "conflict/rate"
        else one
        for one in found
    ]


def optional_statistics(config: RunConfig, verdicts: VerdictColumns) -> list[Statistic]:
    """Return the metrics of optional settings; those of orders and samples are for single judges only."""
    found: list[Statistic] = [] if config.tie.allow else [reason_rate(verdicts, "forced_rate")]
    passes = verdicts.passes
    found += (
        [reason_rate(verdicts, "tie_rate/criteria_cancel")] if passes is not None and len(config.criteria) > 1 else []
    )
    if verdicts.panel is not None:
        return found
    if config.mode.samples > 1:
        found += sample_statistics(config, verdicts)
        found += [] if passes is None else [reason_rate(verdicts, "tie_rate/split")]
    if passes is None or not passes.both:
        return found
    if config.swap.resolve == "third_pass":
        found.append(settled_rate(verdicts, passes))
    return [*found, *([one_pass_rate(verdicts, passes)] if config.swap.resolve == "net_vote" else [])]


Found: TypeAlias = tuple[Sequence[Statistic | Metric], Json]
"""Metrics, and tables as JSON values by the name of their file."""


def extra_results(
    config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns, judgments: JudgmentColumns, clusters: Clusters
) -> Found:
    """Return everything beyond verdicts and their direct metrics.

    Args:
        config: the run's config.
        cases: the cases.
        verdicts: the verdicts.
        judgments: all judgments.
        clusters: the clusters of the cases.
    """
    panel = len(judgments.by) > 1
    parts: list[Found] = [
        (_benchmark_statistics(config, cases, verdicts), {}),
        (length_models(verdicts, cases), {}),
        (confusion_statistics(verdicts), {}),
        ([*self_statistics(config, verdicts, cases)], _label_tables(verdicts, judgments)),
        _of_orders(config, cases, verdicts, clusters, panel=panel),
        (_of_scores(config, cases, verdicts), {}),
        _of_annotators(config, cases, verdicts, clusters),
        _conflicts(config, cases, verdicts, panel=panel),
        _ranking(config, cases, verdicts, clusters, panel=panel),
        _tabled("corrected", *mean_corrections(config, verdicts, clusters, given_weights(cases))),
        _transported(config, cases, verdicts),
        _variance(config, cases, verdicts),
    ]
    tables = {name: table for _, named in parts for name, table in named.items()}
    return [one for metrics, _ in parts for one in metrics], tables


def _tabled(name: str, metrics: Sequence[Statistic | Metric], table: Any) -> Found:
    """Return metrics with a table, if it has any rows, by the name of its file."""
    return metrics, {name: table} if table else {}


def _benchmark_statistics(
    config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns
) -> Sequence[Statistic | Metric]:
    """Return the metrics of the benchmark `dataset.benchmark`, by its authors' rules.

    Raises:
        ConfigError: if the benchmark is unknown.
        PluginError: if its rule fails.
    """
    if (name := config.dataset.benchmark) is None:
        return ()
    benchmark = find_benchmark(name)
    what, remedy = f"the rule of '{name}' fails", "fix the benchmark's rule; answers are stored"
    with third_party_errors(PluginError, what, where="dataset.benchmark", remedy=remedy):
        return benchmark.statistics(config, cases, verdicts)


def _conflicts(config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns, *, panel: bool) -> Found:
    """Return the verdicts to reverse and the cycles by criterion; single scores have no cycles of wins."""
    if verdicts.passes is None:
        return [], {}
    how = "mean" if panel else config.scoring.combine
    return _tabled("conflicts", *cycle_results(cases, verdicts, config.scoring.conflict_edges, how))


def _ranking(
    config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns, clusters: Clusters, *, panel: bool
) -> Found:
    """Return the ranking of systems and the just-noticeable difference; a panel's votes have no such difference."""
    games = games_of(cases, verdicts, clusters)
    ranked, ranking = rank_systems(games, config.scoring)
    metrics, tables = _tabled("ranking", ranked, ranking)
    if panel:
        return metrics, tables
    noticed = jnd_statistics(config, verdicts)
    return [*metrics, *noticed], {**tables, "jnd": jnd_details(config, verdicts, games, noticed)}


def _transported(config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns) -> Found:
    if verdicts.passes is not None or verdicts.scores is None:
        return [], {}
    return _tabled("transport", *transport_statistics(config, cases, verdicts.scores, given_weights(cases)))


def _variance(config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns) -> Found:
    parts = ["case", "order"] if verdicts.passes is not None else ["case"]
    parts += ["criterion"] if verdicts.passes is None and len(config.criteria) > 1 else []
    parts += ["judge"] if len(verdicts.judgments.by) > 1 else []
    design = Design(observe(config, cases, verdicts))
    unit = "units of the margin" if verdicts.passes is not None else "units of the scale"
    return variance_statistics(design, [*parts, "sample"]), {"variance": variance_details(design, unit)}


def _label_tables(verdicts: VerdictColumns, judgments: JudgmentColumns) -> Json:
    if not verdicts.labeled.any():
        return {}
    missing = missing_table(verdicts, verdicts.passes, judgments)
    return {"missing": missing, "confusion": confusion_table(verdicts)}


def _of_orders(
    config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns, clusters: Clusters, *, panel: bool
) -> Found:
    if verdicts.passes is None:
        return [], {}
    found, curves = recalibration(verdicts, cases, config.scoring.confidence, clusters)
    metrics = [*order_statistics(config, verdicts, verdicts.passes, cases, panel=panel), *found]
    return metrics, {"reliability": curves} if curves["stated"] else {}


def _of_scores(config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns) -> Measures:
    scored = verdicts.scores
    if scored is None:
        return []
    metrics: Measures = [*within_statistics(scored, verdicts)]
    if verdicts.passes is None:  # a ranking's scores are places, not on the rubric's scale
        scale = Scale.of(config.rubric)
        metrics += scale_statistics(scored, scale)
        metrics += score_slopes(scored, cases, scale.span)
    return metrics


def _of_annotators(config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns, clusters: Clusters) -> Found:
    scored = verdicts.scores if verdicts.passes is None else None
    found = read_annotations(cases, verdicts, scored)
    if found is None:
        return [], {}
    return _tabled("annotators", *annotator_results(found, clusters, config.scoring.alt_test_epsilon))
