"""What a run holds beyond its verdicts: conflicts by name, the ranking of systems, corrected estimates, variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalkit.config import RunConfig
from evalkit.scoring.answers import Answers
from evalkit.scoring.bootstrap import Statistic
from evalkit.scoring.clusters import Clusters
from evalkit.scoring.components import Design
from evalkit.scoring.condorcet import ByCriterion, criteria_statistics
from evalkit.scoring.conflict import Tournaments, reversal_statistic
from evalkit.scoring.corrected import corrected_details, corrected_statistics, pair_targets, score_target
from evalkit.scoring.cycles import list_conflicts
from evalkit.scoring.edges import edges_of
from evalkit.scoring.noticeable import noticeable_details, noticeable_statistics
from evalkit.scoring.outcome import Outcome
from evalkit.scoring.published import published_statistics
from evalkit.scoring.ranking import rank_systems
from evalkit.scoring.systems import games_of
from evalkit.scoring.trust import trust
from evalkit.scoring.variance import observe, variance_details, variance_statistics
from evalkit.types import Case, Metric


@dataclass(frozen=True, slots=True)
class Further:
    """Metrics, and what is more than a number by the name of the file it goes to: JSON values."""

    metrics: Sequence[Statistic | Metric] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


def further(
    config: RunConfig, cases: Sequence[Case], outcome: Outcome, answers: Answers, clusters: Clusters
) -> Further:
    """Return everything beyond verdicts and the metrics they give directly."""
    parts = [
        Further(published_statistics(config, cases, outcome)),
        Further(*trust(config, cases, outcome, answers, clusters)),
        _conflicts(config, cases, outcome, panel=len(answers.by) > 1),
        _ranking(config, cases, outcome, answers, clusters),
        _corrected(config, cases, outcome, clusters),
        _variance(config, cases, outcome, answers),
    ]
    metrics = [metric for part in parts for metric in part.metrics]
    return Further(metrics, {name: value for part in parts for name, value in part.details.items()})


def _conflicts(config: RunConfig, cases: Sequence[Case], outcome: Outcome, *, panel: bool) -> Further:
    """Return what to reverse and cycles by criterion; single scores can make no cycle of wins, and have neither."""
    if outcome.shown is None:
        return Further()
    rule = config.scoring.conflict_edges
    edges = edges_of(rule, outcome.resolved, outcome.shown)
    counts, entries = list_conflicts(cases, edges)
    criteria = ByCriterion.of(outcome.columns, outcome.resolved.pairs, "mean" if panel else config.scoring.combine)
    found = [reversal_statistic(edges, counts), *criteria_statistics(criteria, Tournaments.of(edges))]
    return Further(found, {"conflicts": {"edges": rule, "cases": entries, "criteria": criteria.listed(cases)}})


def _ranking(
    config: RunConfig, cases: Sequence[Case], outcome: Outcome, answers: Answers, clusters: Clusters
) -> Further:
    """Return the ranking of systems and the just-noticeable difference; a panel's votes have no margin to notice."""
    games = games_of(cases, outcome.resolved, clusters)
    ranked, ranking = rank_systems(games, config.scoring)
    details: dict[str, Any] = {"ranking": ranking} if ranking else {}
    if len(answers.by) > 1:
        return Further(ranked, details)
    noticed = noticeable_statistics(config, outcome, len(cases))
    return Further([*ranked, *noticed], details | {"jnd": noticeable_details(config, outcome, games, noticed)})


def _corrected(config: RunConfig, cases: Sequence[Case], outcome: Outcome, clusters: Clusters) -> Further:
    scored = outcome.scored if outcome.shown is None else None
    targets = pair_targets(outcome.resolved, len(cases)) if scored is None else [score_target(scored, len(cases))]
    return Further(corrected_statistics(config, targets), {"corrected": corrected_details(config, targets, clusters)})


def _variance(config: RunConfig, cases: Sequence[Case], outcome: Outcome, answers: Answers) -> Further:
    parts = ["case", "order"] if outcome.shown is not None else ["case"]
    parts += ["criterion"] if outcome.shown is None and len(config.criteria) > 1 else []
    parts += ["judge"] if len(answers.by) > 1 else []
    design = Design(observe(config, cases, outcome, answers))
    unit = "units of the margin" if outcome.shown is not None else "units of the scale"
    return Further(variance_statistics(design, [*parts, "sample"]), {"variance": variance_details(design, unit)})
