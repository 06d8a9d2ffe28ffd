"""What a run holds beyond its verdicts: conflicts by name, the ranking of systems, corrected estimates, variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalkit.config import RunConfig
from evalkit.scoring.bootstrap import Statistic
from evalkit.scoring.clusters import Clusters
from evalkit.scoring.columns import Answers
from evalkit.scoring.diagnostics import diagnostics
from evalkit.scoring.metrics.jnd import jnd_details, jnd_statistics
from evalkit.scoring.metrics.ppi import corrected_details, corrected_statistics, pair_targets, score_target
from evalkit.scoring.metrics.ranking import games_of, rank_systems
from evalkit.scoring.metrics.transitivity import (
    CriterionCycles,
    Tournaments,
    criteria_statistics,
    edges_of,
    list_conflicts,
    reversal_statistic,
)
from evalkit.scoring.metrics.variance import Design, observe, variance_details, variance_statistics
from evalkit.scoring.outcome import Outcome
from evalkit.scoring.published import published_statistics
from evalkit.types import Case, Metric


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
        ExtraResults(published_statistics(config, cases, outcome)),
        ExtraResults(*diagnostics(config, cases, outcome, answers, clusters)),
        _conflicts(config, cases, outcome, panel=len(answers.by) > 1),
        _ranking(config, cases, outcome, answers, clusters),
        _corrected(config, cases, outcome, clusters),
        _variance(config, cases, outcome, answers),
    ]
    metrics = [metric for part in parts for metric in part.metrics]
    return ExtraResults(metrics, {name: value for part in parts for name, value in part.details.items()})


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
