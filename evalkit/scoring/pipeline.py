"""Scoring of a run: judgments to verdicts, verdicts to statistics, statistics to metrics with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evalkit.config import CHECKLIST, RunConfig
from evalkit.decision import judges_of, metrics_of
from evalkit.errors import ConfigError
from evalkit.plugins import find_benchmark
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.columns import VerdictColumns, all_pairs
from evalkit.scoring.frontier import FrontierPoint, frontier
from evalkit.scoring.judgments import JudgmentColumns, of_one_judge, read_judgments
from evalkit.scoring.labels import given_weights, label_weights, labels_needed, weigh_labels
from evalkit.scoring.metrics.agreement import panel_agreement
from evalkit.scoring.metrics.biases import class_decision_statistics, item_decision_statistics
from evalkit.scoring.metrics.checklists import checklist_statistics
from evalkit.scoring.metrics.classes import (
    class_extras,
    class_panel_agreement,
    class_statistics,
    split_class_rate,
)
from evalkit.scoring.metrics.rates import cost_statistics, missing_statistics, weight_statistics
from evalkit.scoring.metrics.repeats import class_sample_statistics
from evalkit.scoring.run_metrics import extra_results, statistics
from evalkit.scoring.stats.bootstrap import Statistic, measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.verdicts.checklists import ChecklistVerdicts, ItemColumns, read_items, scored_judgments
from evalkit.scoring.verdicts.classes import ClassVerdictObjects, class_verdicts
from evalkit.scoring.verdicts.objects import verdict_objects
from evalkit.scoring.verdicts.pairs import aggregate_notes, resolve_pairs, settled, use_expectations
from evalkit.scoring.verdicts.panel import Panel, check_names, metric_part, vote, winners_at
from evalkit.scoring.verdicts.pointwise import compare_scores, control_length, score_lists, score_responses
from evalkit.types import Case, Judgment, Metric, Verdict


@dataclass(frozen=True, slots=True)
class Scores:
    """The results of scoring.

    Attributes:
        verdicts: the verdicts in case order.
        metrics: the metrics by name.
        frontier: the results of each tie threshold.
        details: tables as JSON values, by the name of the file in the run folder.
        notes: how settings were interpreted.
        clusters: the clusters that were resampled.
    """

    verdicts: Sequence[Verdict]
    metrics: Mapping[str, Metric]
    frontier: tuple[FrontierPoint, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    clusters: Clusters = field(default_factory=lambda: Clusters.each(0))


def score_run(config: RunConfig, cases: Sequence[Case], judgments: Sequence[Judgment]) -> Scores:
    """Return the verdicts, metrics and frontier of a run; they do not depend on the order of the input.

    Every pair (pairwise) or response (pointwise) of every case has a verdict, `missing` if unreadable. A ranking
    (listwise) gives verdicts on both. Metrics that the mode can never have are omitted. Metrics that the data do not
    determine have no value and a note with the reason.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: their judgments.

    Raises:
        ConfigError: if the judgments do not belong to the cases or lack what the settings require.
    """
    scored = score_without_intervals(config, cases, judgments)
    metrics = _metrics(config, scored.found, scored.clusters)
    return Scores(scored.verdicts, metrics, scored.frontier, scored.details, scored.notes, scored.clusters)


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A scored run with statistics that can be resampled together with those of another run."""

    verdicts: Sequence[Verdict]
    found: Sequence[Statistic | Metric]
    frontier: tuple[FrontierPoint, ...]
    details: Mapping[str, Any]
    clusters: Clusters
    notes: tuple[str, ...] = ()


def score_without_intervals(
    config: RunConfig, cases: Sequence[Case], judgments: Sequence[Judgment], clusters: Clusters | None = None
) -> ScoredRun:
    """Return the results of `score_run` with statistics instead of measured metrics.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: their judgments.
        clusters: the clusters of the cases; by default those of the config.

    Raises:
        ConfigError: as `score_run`.
    """
    clusters = clusters or Clusters.of(config, cases)
    score = _score_checklists if config.mode.name == CHECKLIST else _score_judgments
    scored, chosen = score(config, cases, judgments, clusters), label_weights(cases)
    return scored if chosen is None else replace(scored, found=[*weigh_labels(scored.found, chosen)])


def _score_checklists(
    config: RunConfig, cases: Sequence[Case], judgments: Sequence[Judgment], clusters: Clusters
) -> ScoredRun:
    """Score responses by their checklists, then as if the judge had given these scores."""
    items, each = read_items(cases, judgments, config.scoring.checklist)
    # Samples are combined by item, so a response has one score.
    plain = config.model_copy(update={"mode": config.mode.model_copy(update={"samples": 1})})
    scored = _score_judgments(plain, cases, [*scored_judgments(cases, each)], clusters)
    asked = read_judgments(cases, judgments, ())
    own = [*_of_checklists(config, items, asked), *cost_statistics(asked, len(cases))]
    if config.dataset.benchmark is not None:
        rule = getattr(find_benchmark(config.dataset.benchmark), "item_rule", None)
        own += [] if rule is None else rule(items)
    if len(each) > 1:
        for name, one in each.items():
            own += prefix_judge(name, _of_checklists(config, one, asked.select(name)))
    known = {one.name for one in own}
    kept = [one for one in scored.found if one.name not in known and not one.name.endswith("score/distinct")]
    return replace(scored, found=[*own, *kept], verdicts=ChecklistVerdicts(scored.verdicts, cases, items))


def _of_checklists(config: RunConfig, items: ItemColumns, asked: JudgmentColumns) -> list[Statistic | Metric]:
    agreement = [*checklist_statistics(items, config.scoring.checklist), *item_decision_statistics(items)]
    return [*agreement, *missing_statistics(asked, items.cases)]


def _score_judgments(
    config: RunConfig, cases: Sequence[Case], judgments: Sequence[Judgment], clusters: Clusters
) -> ScoredRun:
    classes = config.rubric.named_classes
    columns = use_expectations(config, read_judgments(cases, judgments, tuple(config.weights()), classes))
    if classes is not None:
        return _score_classes(config, cases, columns, clusters)
    notes = aggregate_notes(config, columns)
    config = settled(config, columns)
    judged = set(columns.by)
    if judged and max(len(judged), len(config.judge.members)) > 1:
        return replace(_score_panel(config, cases, columns, judged, clusters), notes=notes)
    verdicts = resolve(config, cases, columns)
    more = extra_results(config, cases, verdicts, columns, clusters)
    found = [*statistics(config, cases, verdicts, columns), *more.metrics, *cost_statistics(columns, len(cases))]
    points = frontier(verdicts, config.tie.min_confidence)
    objects = verdict_objects(cases, verdicts, how=config.scoring.combine)
    return ScoredRun(objects, found, points, more.details, clusters, notes)


def _score_panel(
    config: RunConfig, cases: Sequence[Case], judgments: JudgmentColumns, judged: Set[str], clusters: Clusters
) -> ScoredRun:
    """Score each judge separately, and the panel by their votes."""
    given, names = _judges(config, judged)
    by_judge = {name: judgments.select(name) for name in names}
    each = {name: resolve(config, cases, by_judge[name]) for name in names}
    panel = Panel.of(config, given, names)
    verdicts = vote(panel, config, cases, judgments, list(each.values()))
    more = extra_results(config, cases, verdicts, judgments, clusters)
    found = [
        *statistics(config, cases, verdicts, judgments),
        *panel_agreement(verdicts, list(each.values()), len(cases)),
        *more.metrics,
    ]
    found += cost_statistics(judgments, len(cases))
    for name, one in each.items():
        found += prefix_judge(name, statistics(config, cases, one, by_judge[name]))
    return ScoredRun(
        verdict_objects(cases, verdicts, each),
        found,
        _panel_frontier(panel, config, verdicts, list(each.values())),
        more.details,
        clusters,
    )


def _judges(config: RunConfig, judged: Set[str]) -> tuple[list[str], list[str]]:
    """Return the judges that were to judge, and those that judged, both in the order of the config.

    Raises:
        ConfigError: if metrics of two judges would have the same names.
    """
    members = [member.label for member in config.judge.members]
    given = members if judged <= set(members) else sorted(judged)
    names = [name for name in given if name in judged]
    check_names(names)
    return given, names


def _score_classes(
    config: RunConfig, cases: Sequence[Case], judgments: JudgmentColumns, clusters: Clusters
) -> ScoredRun:
    """Score a run whose judges choose classes: each judge, and the panel if there are several."""
    given, names = _judges(config, set(judgments.by))
    verdicts, each = class_verdicts(config, cases, judgments, names, given)
    more, details = class_extras(config, verdicts.columns, clusters, given_weights(cases))
    panel = class_panel_agreement(verdicts.columns, [one.columns for one in each.values()]) if each else []
    repeated = config.mode.samples > 1
    if repeated and not each:
        panel += class_sample_statistics(verdicts.columns, judgments)
    if repeated or each:
        panel.append(split_class_rate(verdicts.columns))
    found: list[Statistic | Metric] = [
        *class_statistics(verdicts.columns),
        *class_decision_statistics(verdicts.columns),
        *missing_statistics(judgments, len(cases)),
        *weight_statistics(config, judgments, len(cases)),
        *panel,
        *more,
        *cost_statistics(judgments, len(cases)),
    ]
    for name, one in each.items():
        asked = judgments.select(name)
        decided = class_decision_statistics(one.columns)
        own = [*class_statistics(one.columns), *decided, *missing_statistics(asked, len(cases))]
        if repeated:
            own += [*class_sample_statistics(one.columns, asked), split_class_rate(one.columns)]
        found += prefix_judge(name, own)
    return ScoredRun(ClassVerdictObjects(cases, verdicts), found, (), details, clusters)


def _panel_frontier(
    panel: Panel, config: RunConfig, verdicts: VerdictColumns, each: Sequence[VerdictColumns]
) -> tuple[FrontierPoint, ...]:
    winners = winners_at(panel, config, each)
    margins = None if winners is None else np.concatenate([one.margin for one in each])
    return frontier(verdicts, config.tie.min_confidence, winners, margins)


def _metrics(config: RunConfig, found: Sequence[Statistic | Metric], clusters: Clusters) -> dict[str, Metric]:
    statistics = [item for item in found if isinstance(item, Statistic)]
    metrics = measure(statistics, config.scoring, clusters) | {
        one.name: one for one in found if isinstance(one, Metric)
    }
    counts = {statistic.name: statistic.clusters(clusters) for statistic in statistics}
    for judge in (None, *judges_of(metrics)):
        own, start = metrics_of(metrics, judge), "" if judge is None else f"judge/{judge}/"
        clusters_of = {name.removeprefix(start): n for name, n in counts.items() if name.startswith(start)}
        needed = labels_needed(own, clusters_of, config.scoring.confidence)
        metrics[start + needed.name] = replace(needed, name=start + needed.name)
    return {name: metrics[name] for name in sorted(metrics, key=CATALOG.order)}


def prefix_judge(judge: str, found: Sequence[Statistic | Metric]) -> Iterator[Statistic | Metric]:
    """Yield a judge's metrics with names `judge/<judge>/<metric>`."""
    for one in found:
        yield replace(one, name=f"judge/{metric_part(judge)}/{one.name}")


def resolve(config: RunConfig, cases: Sequence[Case], judgments: JudgmentColumns) -> VerdictColumns:
    """Return the verdicts from one judge's judgments of single responses, pairs or lists.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: the judgments.

    Raises:
        ConfigError: if the judgments do not belong to the cases or lack what the settings require.
    """
    pairs = all_pairs(cases)
    if by_score(config, judgments):
        single = of_one_judge(cases, judgments, pairs.sizes, 1)
        scored = control_length(config, cases, score_responses(config, cases, single))
        return compare_scores(config, cases, single, scored, pairs)
    asked, thirds = (of_one_judge(cases, judgments.select(third=third), pairs.sizes, 2) for third in (False, True))
    found = resolve_pairs(config, cases, asked, pairs, thirds)
    ranks = of_one_judge(cases, judgments, pairs.sizes, 1)
    return replace(found, scores=score_lists(config, cases, ranks), ranks=ranks) if len(ranks) else found


def by_score(config: RunConfig, judgments: JudgmentColumns) -> bool:
    """Return whether single responses were judged; a third-party mode is identified by the units of its judgments.

    Raises:
        ConfigError: if some judgments are of single responses and others are not.
    """
    sizes = {len(unit) for unit in judgments.units} or {1 if config.mode.scores else 2}
    if 0 in sizes or (1 in sizes and len(sizes) > 1):
        raise ConfigError(
            f"judgments of {' and '.join(map(str, sorted(sizes)))} responses cannot be scored together",
            where=f"mode '{config.mode.name}'",
            remedy="judge either single responses or pairs and lists",
        )
    return sizes == {1}
