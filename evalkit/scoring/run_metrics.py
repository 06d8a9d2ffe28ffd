"""Which metrics a run has: those of its verdicts, those that its settings bring, and tables beyond single numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.plugins import find_benchmark
from evalkit.scoring.columns.judgments import Answers
from evalkit.scoring.metrics.agreement import (
    agreement_statistics,
    confusion_statistics,
    confusion_table,
    pass_statistics,
    score_agreement,
)
from evalkit.scoring.metrics.calibration import calibration_statistics, recalibration_statistics, reliability_table
from evalkit.scoring.metrics.correlation import correlation_statistics, within_statistics
from evalkit.scoring.metrics.humans import (
    Contest,
    alternative_statistics,
    annotator_statistics,
    annotator_table,
    read_annotations,
)
from evalkit.scoring.metrics.jnd import jnd_details, jnd_statistics
from evalkit.scoring.metrics.length import length_models
from evalkit.scoring.metrics.position import length_statistics, order_statistics, position_statistics
from evalkit.scoring.metrics.ppi import corrected_details, corrected_statistics, pair_targets, score_target
from evalkit.scoring.metrics.ranking import games_of, rank_systems
from evalkit.scoring.metrics.rates import (
    forced_rate,
    missing_statistics,
    missing_table,
    one_pass_rate,
    overall_statistics,
    score_distinct,
    score_mean,
    settled_rate,
    split_rate,
    tie_statistics,
    weight_statistics,
)
from evalkit.scoring.metrics.samples import sample_statistics
from evalkit.scoring.metrics.self_preference import self_statistics
from evalkit.scoring.metrics.transitivity import (
    CriterionCycles,
    Tournaments,
    conflict_statistics,
    criteria_statistics,
    edges_of,
    list_conflicts,
    reversal_statistic,
)
from evalkit.scoring.metrics.variance import Design, observe, variance_details, variance_statistics
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.verdicts.aggregate import pair_margins
from evalkit.scoring.verdicts.length_control import score_slopes
from evalkit.scoring.verdicts.outcome import Outcome
from evalkit.scoring.verdicts.pairs import OrderOutcomes, Resolution, SampleColumns
from evalkit.types import Case, Metric

BY_RANKING = "a ranking cannot contradict itself: only rankings of different orders, samples or responses can"


def statistics(
    config: RunConfig, cases: Sequence[Case], outcome: Outcome, answers: Answers
) -> list[Statistic | Metric]:
    """Return every metric of an outcome, those that its mode can never have left out."""
    count, scored, shown = len(cases), outcome.scored, outcome.shown
    found: list[Statistic | Metric] = _shared(config, outcome, answers, count)
    if shown is not None:
        resolved = outcome.resolved
        found += [*position_statistics(resolved, shown, count), *pass_statistics(resolved, shown, count)]
        found += calibration_statistics(resolved, count)
        found += overall_statistics(config, outcome.columns, count)
    elif scored is not None:
        found += [score_mean(scored, Scale.of(config.rubric), count), score_distinct(scored, Scale.of(config.rubric))]
    found += optional_statistics(config, outcome.resolved, shown, outcome.draws, count)
    found += weight_statistics(config, answers, count)
    return [*found, *(correlation_statistics(scored, count, _ends(config, outcome)) if scored is not None else ())]


def _ends(config: RunConfig, outcome: Outcome) -> tuple[float, float] | None:
    """Return the ends of the scale that scores are on; none where each depends on the other scores."""
    scale, how = Scale.of(config.rubric), config.scoring.normalize
    if outcome.shown is not None or config.scoring.length_control or how not in ("none", "minmax"):
        return None
    return (0.0, 1.0) if how == "minmax" else (scale.min, scale.max)


def _shared(config: RunConfig, outcome: Outcome, answers: Answers, count: int) -> list[Statistic | Metric]:
    """Return what every mode has."""
    resolved, scored = outcome.resolved, outcome.shown is None
    return [
        *tie_statistics(resolved, count, scored=scored),
        *length_statistics(resolved, count),
        *_conflict_rates(config, outcome, scored),
        *agreement_statistics(resolved, count),
        *missing_statistics(answers, count),
    ]


def _conflict_rates(config: RunConfig, outcome: Outcome, scored: bool) -> list[Statistic | Metric]:
    edges = edges_of(config.scoring.conflict_edges, outcome.resolved, outcome.shown)
    found = conflict_statistics(edges, scored=scored)
    if not outcome.listed:
        return found
    return [
        replace(one, note=f"{one.note}; {BY_RANKING}")
        if isinstance(one, Statistic) and one.name == "conflict/rate"
        else one
        for one in found
    ]


def optional_statistics(
    config: RunConfig, resolved: Resolution, shown: OrderOutcomes | None, draws: SampleColumns | None, cases: int
) -> list[Statistic]:
    """Return the statistics of settings that not every run has; those of orders and samples for single judges only."""
    found: list[Statistic] = [] if config.tie.allow else [forced_rate(resolved, cases)]
    if draws is None:
        return found
    if config.mode.samples > 1:
        found += sample_statistics(draws, cases)
        found += [] if shown is None else [split_rate(resolved, cases)]
    if shown is None or not shown.both:
        return found
    if config.swap.resolve == "third_pass":
        found.append(settled_rate(resolved, shown, cases))
    return [*found, *([one_pass_rate(resolved, shown, cases)] if config.swap.resolve == "net_vote" else [])]


@dataclass(frozen=True, slots=True)
class ExtraResults:
    """Metrics, and what is more than a number by the name of the file it goes to: JSON values."""

    metrics: Sequence[Statistic | Metric] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


def extra_results(
    config: RunConfig, cases: Sequence[Case], outcome: Outcome, answers: Answers, clusters: Clusters
) -> ExtraResults:
    """Return everything beyond verdicts and the metrics they give directly."""
    parts = [
        ExtraResults(_benchmark_statistics(config, cases, outcome)),
        ExtraResults(*diagnostics(config, cases, outcome, answers, clusters)),
        _conflicts(config, cases, outcome, panel=len(answers.by) > 1),
        _ranking(config, cases, outcome, answers, clusters),
        _corrected(config, cases, outcome, clusters),
        _variance(config, cases, outcome, answers),
    ]
    metrics = [metric for part in parts for metric in part.metrics]
    return ExtraResults(metrics, {name: value for part in parts for name, value in part.details.items()})


def _benchmark_statistics(config: RunConfig, cases: Sequence[Case], outcome: Outcome) -> Sequence[Statistic | Metric]:
    """Return the metrics of the benchmark that `dataset.benchmark` names, by the rule of its authors.

    Raises:
        ConfigError: if there is no such benchmark.
    """
    name = config.dataset.benchmark
    return () if name is None else find_benchmark(name).statistics(config, cases, outcome)


def _conflicts(config: RunConfig, cases: Sequence[Case], outcome: Outcome, *, panel: bool) -> ExtraResults:
    """Return what to reverse and cycles by criterion; single scores can make no cycle of wins, and have neither."""
    if outcome.shown is None:
        return ExtraResults()
    rule = config.scoring.conflict_edges
    edges = edges_of(rule, outcome.resolved, outcome.shown)
    counts, entries = list_conflicts(cases, edges)
    criteria = CriterionCycles.of(outcome.columns, outcome.resolved.pairs, "mean" if panel else config.scoring.combine)
    found = [reversal_statistic(edges, counts), *criteria_statistics(criteria, Tournaments.of(edges))]
    return ExtraResults(found, {"conflicts": {"edges": rule, "cases": entries, "criteria": criteria.listed(cases)}})


def _ranking(
    config: RunConfig, cases: Sequence[Case], outcome: Outcome, answers: Answers, clusters: Clusters
) -> ExtraResults:
    """Return the ranking of systems and the just-noticeable difference; a panel's votes have no margin to notice."""
    games = games_of(cases, outcome.resolved, clusters)
    ranked, ranking = rank_systems(games, config.scoring)
    details: dict[str, Any] = {"ranking": ranking} if ranking else {}
    if len(answers.by) > 1:
        return ExtraResults(ranked, details)
    noticed = jnd_statistics(config, outcome, len(cases))
    return ExtraResults([*ranked, *noticed], details | {"jnd": jnd_details(config, outcome, games, noticed)})


def _corrected(config: RunConfig, cases: Sequence[Case], outcome: Outcome, clusters: Clusters) -> ExtraResults:
    scored = outcome.scored if outcome.shown is None else None
    targets = pair_targets(outcome.resolved, len(cases)) if scored is None else [score_target(scored, len(cases))]
    return ExtraResults(
        corrected_statistics(config, targets), {"corrected": corrected_details(config, targets, clusters)}
    )


def _variance(config: RunConfig, cases: Sequence[Case], outcome: Outcome, answers: Answers) -> ExtraResults:
    parts = ["case", "order"] if outcome.shown is not None else ["case"]
    parts += ["criterion"] if outcome.shown is None and len(config.criteria) > 1 else []
    parts += ["judge"] if len(answers.by) > 1 else []
    design = Design(observe(config, cases, outcome, answers))
    unit = "units of the margin" if outcome.shown is not None else "units of the scale"
    return ExtraResults(variance_statistics(design, [*parts, "sample"]), {"variance": variance_details(design, unit)})


Found: TypeAlias = tuple[list[Statistic | Metric], dict[str, Any]]


def diagnostics(
    config: RunConfig, cases: Sequence[Case], outcome: Outcome, answers: Answers, clusters: Clusters
) -> Found:
    """Return further metrics, and tables by the name of the file they go to."""
    resolved = outcome.resolved
    metrics: list[Statistic | Metric] = [
        *length_models(resolved, cases),
        *confusion_statistics(resolved, len(cases)),
        *self_statistics(config, resolved, cases),
    ]
    tables: dict[str, Any] = {}
    if resolved.labelled.any():
        tables["missing"] = missing_table(resolved, outcome.shown, answers)
        tables["confusion"] = confusion_table(resolved)
    for more, further_tables in (
        _of_orders(config, cases, outcome, clusters, panel=len(answers.by) > 1),
        _of_scores(config, cases, outcome),
        _of_people(config, cases, outcome, clusters),
    ):
        metrics += more
        tables |= further_tables
    return metrics, tables


def _of_orders(config: RunConfig, cases: Sequence[Case], outcome: Outcome, clusters: Clusters, *, panel: bool) -> Found:
    if outcome.shown is None:
        return [], {}
    resolved, columns = outcome.resolved, outcome.columns
    margins = pair_margins(config, columns)
    metrics = [
        *order_statistics(resolved, columns, margins, outcome.shown, cases, panel=panel),
        *recalibration_statistics(resolved, cases, clusters),
    ]
    curves = reliability_table(resolved, cases, config.scoring.confidence, clusters)
    return list(metrics), {"reliability": curves} if curves["stated"] else {}


def _of_scores(config: RunConfig, cases: Sequence[Case], outcome: Outcome) -> Found:
    scored = outcome.scored
    if scored is None:
        return [], {}
    metrics: list[Statistic | Metric] = [*within_statistics(scored, outcome.resolved, len(cases))]
    if outcome.shown is None:  # a ranking's scores are places, not on the rubric's scale
        metrics += [score_agreement(scored, Scale.of(config.rubric), len(cases)), *score_slopes(scored, cases)]
    return metrics, {}


def _of_people(config: RunConfig, cases: Sequence[Case], outcome: Outcome, clusters: Clusters) -> Found:
    scored = outcome.scored if outcome.shown is None else None
    found = read_annotations(cases, outcome.resolved, scored)
    if found is None:
        return [], {}
    contest, epsilon = Contest.of(found, clusters), config.scoring.alt_test_epsilon
    metrics = [*annotator_statistics(found), *alternative_statistics(contest, epsilon)]
    return metrics, {"annotators": annotator_table(contest, epsilon)}
