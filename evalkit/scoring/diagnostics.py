"""How far the judge can be trusted beyond the first numbers: what sways it, what its confidence is worth, what is lost.

Each part is a function of its own module; here is only which of them a run has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.scoring.bootstrap import Statistic
from evalkit.scoring.clusters import Clusters
from evalkit.scoring.columns import Answers
from evalkit.scoring.metrics.agreement import confusion_statistics, confusion_table, score_agreement
from evalkit.scoring.metrics.calibration import recalibration_statistics, reliability_table
from evalkit.scoring.metrics.correlation import within_statistics
from evalkit.scoring.metrics.humans import (
    Contest,
    alternative_statistics,
    annotator_statistics,
    annotator_table,
    read_annotations,
)
from evalkit.scoring.metrics.length import length_models, score_slopes
from evalkit.scoring.metrics.position import order_statistics
from evalkit.scoring.metrics.rates import missing_table
from evalkit.scoring.metrics.self_preference import self_statistics
from evalkit.scoring.outcome import Outcome
from evalkit.scoring.pairs import pair_margins
from evalkit.types import Case, Metric

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
