"""Scoring of a run: judgments to verdicts, verdicts to statistics, statistics to metrics with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from evalkit.benchmark_discovery import find_benchmark
from evalkit.config import CHECKLIST, RunConfig
from evalkit.core.scale import Scale
from evalkit.decision import judges_of, metrics_of
from evalkit.errors import ConfigError
from evalkit.results import RunResult
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.columns import NONE, PairColumns, VerdictColumns, all_pairs, rows_of
from evalkit.scoring.judgments import JudgmentColumns, of_one_judge, read_judgments
from evalkit.scoring.labels import given_weights, label_weights, labels_needed, weigh_labels
from evalkit.scoring.metrics.biases import class_decision_statistics, item_decision_statistics
from evalkit.scoring.metrics.checklists import checklist_statistics, evidence_statistics
from evalkit.scoring.metrics.classes import (
    SHARE,
    class_extras,
    class_statistics,
    split_class_rate,
)
from evalkit.scoring.metrics.corrections import RANDOM, class_corrections, mean_corrections
from evalkit.scoring.metrics.panels import cascade_statistics, class_panel_statistics, panel_statistics
from evalkit.scoring.metrics.rates import (
    FrontierPoint,
    cost_statistics,
    frontier,
    missing_statistics,
    weight_statistics,
)
from evalkit.scoring.metrics.refits import FittedVote, fitted_classes, fitted_pairs, widened
from evalkit.scoring.metrics.repeats import class_sample_statistics
from evalkit.scoring.metrics.subsets import subset_results, with_intervals
from evalkit.scoring.metrics.transport import with_results
from evalkit.scoring.metrics.turns import turn_statistics
from evalkit.scoring.run_metrics import extra_results, statistics
from evalkit.scoring.slices import slice_results
from evalkit.scoring.stats.arrays import Bools, Floats
from evalkit.scoring.stats.bootstrap import Statistic, Tally, measure
from evalkit.scoring.stats.bounded_intervals import PseudoCounts
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stopping import OTHERS, with_sequences
from evalkit.scoring.verdicts.cascade import (
    WAITING,
    Cascade,
    Vote,
    chosen_units,
    class_vote,
    decided_pairs,
    dev_cases,
    pair_vote,
)
from evalkit.scoring.verdicts.checklists import ItemColumns, read_items, scored_judgments
from evalkit.scoring.verdicts.classes import class_verdicts, labeled_responses, vote_panel, vote_samples
from evalkit.scoring.verdicts.objects import Verdicts, class_verdict_objects, verdict_objects
from evalkit.scoring.verdicts.pairs import aggregate_notes, resolve_pairs, settled, use_expectations
from evalkit.scoring.verdicts.panel import DAWID_SKENE, Panel, check_names, metric_part, unasked_notes, vote, winners_at
from evalkit.scoring.verdicts.pointwise import compare_scores, control_length, score_lists, score_responses
from evalkit.scoring.verdicts.rewards import differences, reward_margins
from evalkit.types import Case, ItemVerdict, Judgment, Metric, Unit, Verdict

Columns = TypeVar("Columns")


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
    metrics = _metrics(config, scored, given_weights(cases))
    metrics, sequence = with_sequences(config, metrics, scored.found, scored.clusters)
    sliced, table = slice_results(config, cases, scored.found, scored.clusters)
    details = {**scored.details, **table, **sequence}
    if "transport" in details:
        details["transport"] = with_results(details["transport"], metrics)
    if "panel" in details:
        details["panel"] = with_intervals(details["panel"], measure(scored.subsets, config.scoring, scored.clusters))
    notes = (*scored.notes, *((OTHERS,) if sequence else ()))
    return Scores(scored.verdicts, metrics | sliced, scored.frontier, details, notes, scored.clusters)


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A scored run with statistics that can be resampled together with those of another run."""

    verdicts: Sequence[Verdict]
    found: Sequence[Statistic | Metric]
    frontier: tuple[FrontierPoint, ...]
    details: Mapping[str, Any]
    clusters: Clusters
    notes: tuple[str, ...] = ()
    fitted: FittedVote | None = None
    subsets: Sequence[Statistic] = ()


def score_without_intervals(
    config: RunConfig,
    cases: Sequence[Case],
    judgments: Sequence[Judgment],
    clusters: Clusters | None = None,
    *,
    extras: bool = True,
) -> ScoredRun:
    """Return the results of `score_run` with statistics instead of measured metrics.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: their judgments.
        clusters: the clusters of the cases; by default those of the config.
        extras: whether to return more than rates and means of verdicts: corrections, models, rankings and tables.

    Raises:
        ConfigError: as `score_run`.
    """
    clusters = clusters or Clusters.of(config, cases)
    cascade = cascade_of(config, cases, judgments, clusters) if config.judge.cascades else None
    cases = cases if cascade is None else cascade.blind(cases)
    if config.mode.name == CHECKLIST:
        scored = _score_checklists(config, cases, judgments, clusters, extras=extras)
    elif (classes := config.rubric.named_classes) is not None:
        columns = read_judgments(cases, judgments, [*config.weights()], classes)
        scored = _score_classes(config, cases, columns, clusters, cascade, extras=extras)
    else:
        scored = _score_units(config, cases, judgments, clusters, cascade=cascade, extras=extras)
    chosen = label_weights(cases)
    return scored if chosen is None else replace(scored, found=[*weigh_labels(scored.found, chosen)])


def verdicts_of(config: RunConfig, cases: Sequence[Case], judgments: Sequence[Judgment]) -> Verdicts:
    """Return the verdicts of `score_run`, without metrics.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: their judgments.

    Raises:
        ConfigError: as `score_run`.
    """
    items: Sequence[tuple[ItemVerdict, ...]] = ()
    cascade = None
    if config.judge.cascades:
        cascade = cascade_of(config, cases, judgments, Clusters.of(config, cases))
        cases = cascade.blind(cases)
    if config.mode.name == CHECKLIST:
        read_checklists, each = read_items(cases, [*judgments], config.scoring.checklist)
        config, judgments, items = _without_samples(config), [*scored_judgments(cases, each)], read_checklists.verdicts
    classes = config.rubric.named_classes
    columns = read_judgments(cases, judgments, [*config.weights()], classes)
    if classes is not None:
        read = use_expectations(config, columns if cascade is None else columns.where(cascade.used))
        return class_verdict_objects(
            cases, *class_verdicts(config, cases, read, _panel(config, read), cascade), cascade
        )
    return _resolve_units(config, cases, columns, items, cascade).objects


def verdicts_by_judge(run: RunResult) -> Mapping[str, Sequence[Verdict]]:
    """Return the verdicts of each judge of a panel by name; those of a run just scored are at hand."""
    verdicts = run.verdicts
    return (verdicts if isinstance(verdicts, Verdicts) else verdicts_of(run.config, run.cases, run.judgments)).each


def _without_samples(config: RunConfig) -> RunConfig:
    """Return the config of checklists as scores: samples are combined by item, so a response has one score."""
    return config.with_({"mode.samples": 1})


def _score_checklists(
    config: RunConfig, cases: Sequence[Case], judgments: Sequence[Judgment], clusters: Clusters, *, extras: bool
) -> ScoredRun:
    """Score responses by their checklists, then as if the judge had given these scores."""
    items, each = read_items(cases, judgments, config.scoring.checklist)
    given = scored_judgments(cases, each)
    scored = _score_units(_without_samples(config), cases, given, clusters, items.verdicts, extras=extras)
    asked = read_judgments(cases, judgments, ())
    own = [*_of_checklists(config, cases, items, asked), *cost_statistics(asked)]
    if config.dataset.benchmark is not None:
        rule = getattr(find_benchmark(config.dataset.benchmark), "item_rule", None)
        own += [] if rule is None else rule(items)
    if len(each) > 1:
        for name, one in each.items():
            own += prefix_judge(name, _of_checklists(config, cases, one, asked.select(name)))
    known = {one.name for one in own}
    kept = [one for one in scored.found if one.name not in known and not one.name.endswith("score/distinct")]
    return replace(scored, found=[*own, *kept])


def _of_checklists(
    config: RunConfig, cases: Sequence[Case], items: ItemColumns, asked: JudgmentColumns
) -> list[Statistic | Metric]:
    own = [*checklist_statistics(items, config.scoring.checklist), *evidence_statistics(items, cases)]
    agreement = [*own, *item_decision_statistics(items)]
    return [*agreement, *missing_statistics(asked), *turn_statistics(cases, Scale.of(config.rubric), items)]


@dataclass(frozen=True, slots=True)
class _ResolvedUnits:
    """The verdicts of a run on pairs, responses or lists.

    Attributes:
        config: the config with its settled rules.
        judgments: the judgments.
        panel: the panel, if there are several judges.
        by_judge: the judgments of each judge of the panel.
        each: the verdicts of each judge of the panel.
        verdicts: the verdicts of the judge, or of the panel by votes.
        notes: how settings were interpreted.
        objects: the verdicts as objects.
    """

    config: RunConfig
    judgments: JudgmentColumns
    panel: Panel | None
    by_judge: Mapping[str, JudgmentColumns]
    each: Mapping[str, VerdictColumns]
    verdicts: VerdictColumns
    notes: tuple[str, ...]
    objects: Verdicts


def _resolve_units(
    config: RunConfig,
    cases: Sequence[Case],
    given: JudgmentColumns,
    items: Sequence[tuple[ItemVerdict, ...]] = (),
    cascade: Cascade | None = None,
) -> _ResolvedUnits:
    judgments = use_expectations(config, given if cascade is None else given.where(cascade.used))
    notes = aggregate_notes(config, judgments)
    config = settled(config, judgments)
    panel = _panel(config, judgments)
    by_judge = {} if panel is None else {name: judgments.select(name) for name in panel.names}
    pairs = all_pairs(cases)
    each = {name: resolve(config, cases, own, pairs) for name, own in by_judge.items()}
    judges = list(each.values())
    if panel is not None and cascade is None and config.mode.name == "pairwise":
        notes += unasked_notes(panel.names, judgments)
    if cascade is not None:
        verdicts = decided_pairs(cascade, config.judge.label, judgments, judges)
    elif panel is not None:
        verdicts = vote(panel, config, cases, judgments, judges)
    else:
        verdicts = resolve(config, cases, judgments, pairs)
    if config.rubric.real and config.mode.scores:
        fits = (reward_margins(config, cases, one.pairs, differences(one))[2] for one in judges or [verdicts])
        notes += tuple(dict.fromkeys(fits))
    objects = verdict_objects(cases, verdicts, each, config.scoring.combine, items, cascade)
    return _ResolvedUnits(config, judgments, panel, by_judge, each, verdicts, notes, objects)


def _score_units(
    config: RunConfig,
    cases: Sequence[Case],
    given: Iterable[Judgment],
    clusters: Clusters,
    items: Sequence[tuple[ItemVerdict, ...]] = (),
    cascade: Cascade | None = None,
    *,
    extras: bool,
) -> ScoredRun:
    """Score pairs, responses or lists: each judge, and the panel by their votes if there are several."""
    resolved = _resolve_units(config, cases, read_judgments(cases, given, [*config.weights()]), items, cascade)
    config, judgments, verdicts = resolved.config, resolved.judgments, resolved.verdicts
    judges, weights = list(resolved.each.values()), given_weights(cases) if resolved.each else None
    more, tables = extra_results(config, cases, verdicts, judgments, clusters) if extras else ((), {})
    details = dict(tables)
    found = [
        *statistics(config, cases, verdicts, judgments),
        *(panel_statistics(Scale.of(config.rubric), verdicts, judges) if judges and cascade is None else ()),
        *more,
        *cost_statistics(judgments),
    ]
    if cascade is not None:
        right = verdicts.labeled & (verdicts.winner == verdicts.pairs.label)
        found += cascade_statistics(config, cascade, verdicts.tally, verdicts.labeled, right, judgments)
        details = {**details, "cascade": cascade.table(config.judge)}
    for name, one in _asked_all(resolved.each, cascade):
        fixed = mean_corrections(config, one, clusters, weights)[0] if extras else ()
        found += prefix_judge(name, [*statistics(config, cases, one, resolved.by_judge[name]), *_if_unlabeled(fixed)])
    panel, fitted, subsets = resolved.panel, None, list[Statistic]()
    if panel is not None and panel.vote == DAWID_SKENE and config.tie.allow and cascade is None and extras:
        fitted = fitted_pairs(panel, verdicts, judges)
    if panel is not None and cascade is None and extras:

        def is_right(some: Panel, chosen: Sequence[int]) -> Bools:
            voted = vote(some, config, cases, judgments, [judges[judge] for judge in chosen])
            return np.asarray(voted.winner == verdicts.pairs.label)

        used = np.all([one.present for one in judges], axis=0) & verdicts.labeled
        best, subsets = _subsets(config, cases, clusters, panel, judgments, is_right, used, verdicts.tally, details)
        found += best
    points = _frontier(resolved) if extras else ()
    return ScoredRun(resolved.objects, found, points, details, clusters, resolved.notes, fitted, subsets)


def frontier_of(config: RunConfig, cases: Sequence[Case], judgments: Iterable[Judgment]) -> tuple[FrontierPoint, ...]:
    """Return the frontier of `score_run` on pairs or responses, without metrics.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: their judgments.

    Raises:
        ConfigError: as `score_run`.
    """
    return _frontier(_resolve_units(config, cases, read_judgments(cases, judgments, [*config.weights()])))


def _frontier(resolved: _ResolvedUnits) -> tuple[FrontierPoint, ...]:
    config, judges = resolved.config, list(resolved.each.values())
    winners = None if resolved.panel is None else winners_at(resolved.panel, config, judges)
    margins = None if winners is None else np.concatenate([one.margin for one in judges])
    return frontier(resolved.verdicts, config.tie.min_confidence, winners, margins)


def _panel(config: RunConfig, judgments: JudgmentColumns) -> Panel | None:
    """Return the judges that judged, out of those that were to judge, in the order of the config; `None` for one.

    Raises:
        ConfigError: if metrics of two judges would have the same names.
    """
    judged, members = set(judgments.by), [member.label for member in config.judge.members]
    given = members if judged <= set(members) else sorted(judged)
    names = [name for name in given if name in judged]
    check_names(names)
    return Panel.of(config, given, names) if names and max(len(names), len(members)) > 1 else None


def _asked_all(each: Mapping[str, Columns], cascade: Cascade | None) -> list[tuple[str, Columns]]:
    """Return the judges that were asked about every unit: in a cascade, the first one."""
    return [*each.items()][: None if cascade is None else 1]


def _score_classes(
    config: RunConfig,
    cases: Sequence[Case],
    judgments: JudgmentColumns,
    clusters: Clusters,
    cascade: Cascade | None,
    *,
    extras: bool,
) -> ScoredRun:
    """Score a run whose judges choose classes: each judge, and the panel if there are several."""
    judgments = use_expectations(config, judgments if cascade is None else judgments.where(cascade.used))
    panel = _panel(config, judgments)
    verdicts, each = class_verdicts(config, cases, judgments, panel, cascade)
    weights = given_weights(cases)
    more, tables = class_extras(config, verdicts, clusters, weights) if extras else ((), {})
    details = dict(tables)
    votes = class_panel_statistics(verdicts, list(each.values())) if each and cascade is None else []
    repeated = config.mode.samples > 1
    if repeated and not each:
        votes += class_sample_statistics(verdicts, judgments)
    if repeated or each:
        votes.append(split_class_rate(verdicts))
    scale = Scale.of(config.rubric)
    found: list[Statistic | Metric] = [
        *class_statistics(verdicts),
        *class_decision_statistics(verdicts),
        *turn_statistics(cases, scale, verdicts),
        *missing_statistics(judgments),
        *weight_statistics(config, judgments),
        *votes,
        *more,
        *cost_statistics(judgments),
    ]
    if cascade is not None:
        right = verdicts.labeled & (verdicts.verdicts == verdicts.labels)
        found += cascade_statistics(config, cascade, verdicts.tally, verdicts.labeled, right, judgments)
        details = {**details, "cascade": cascade.table(config.judge)}
    for name, one in _asked_all(each, cascade):
        asked = judgments.select(name)
        own = [*class_statistics(one), *class_decision_statistics(one), *missing_statistics(asked)]
        own += turn_statistics(cases, scale, one)
        if repeated:
            own += [*class_sample_statistics(one, asked), split_class_rate(one)]
        fixed = class_corrections(one, config.scoring.confidence, clusters, weights)[0] if extras else ()
        own += _if_unlabeled(fixed)
        found += prefix_judge(name, own)
    fitted, subsets, notes = None, list[Statistic](), tuple[str, ...]()
    if panel is not None and cascade is None and extras:
        judges, notes = list(each.values()), unasked_notes(panel.names, judgments)
        fitted = fitted_classes(panel, verdicts) if panel.vote == DAWID_SKENE else None

        def is_right(some: Panel, chosen: Sequence[int]) -> Bools:
            voted = vote_panel(verdicts, some, "", [judges[judge] for judge in chosen])
            return np.asarray(voted.verdicts == verdicts.labels)

        used = np.all([~one.missing for one in judges], axis=0) & verdicts.labeled
        best, subsets = _subsets(
            config, cases, clusters, panel, judgments, is_right, used, verdicts.tally, details, SHARE
        )
        found += best
    objects = class_verdict_objects(cases, verdicts, each, cascade)
    return ScoredRun(objects, found, (), details, clusters, notes, fitted, subsets)


def _subsets(
    config: RunConfig,
    cases: Sequence[Case],
    clusters: Clusters,
    panel: Panel,
    judgments: JudgmentColumns,
    right: Callable[[Panel, Sequence[int]], Bools],
    used: Bools,
    tally: Tally,
    details: dict[str, Any],
    pseudo: PseudoCounts | None = None,
) -> tuple[list[Statistic], list[Statistic]]:
    """Return the metrics of the best subset of a panel's judges, and the accuracies of the table that details get."""
    costs = np.array([cost_statistics(judgments.select(name))[0].observed() for name in panel.names])
    margin, weights = config.scoring.margin, given_weights(cases)
    folds = clusters.folds(cases)
    how: dict[str, Any] = {"margin": margin, "weights": weights, "pseudo": pseudo}
    found, each, table = subset_results(panel, costs, right, used, tally, folds, **how)
    details |= {"panel": table} if table else {}
    return found, each


def _if_unlabeled(found: Sequence[Statistic]) -> Sequence[Statistic]:
    """Return a judge's rates corrected by labels if some answers have a label and others have none."""
    return found if any(one.note and RANDOM in one.note for one in found) else ()


def _metrics(config: RunConfig, scored: ScoredRun, weights: Floats | None) -> dict[str, Metric]:
    found, clusters = scored.found, scored.clusters
    statistics = [item for item in found if isinstance(item, Statistic)]
    metrics = measure(statistics, config.scoring, clusters) | {
        one.name: one for one in found if isinstance(one, Metric)
    }
    if scored.fitted is not None:
        refits = measure(scored.fitted.statistics(found, weights), config.scoring, clusters)
        metrics |= {name: widened(metrics[name], again) for name, again in refits.items()}
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


def resolve(config: RunConfig, cases: Sequence[Case], judgments: JudgmentColumns, pairs: PairColumns) -> VerdictColumns:
    """Return the verdicts from one judge's judgments of single responses, pairs or lists.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: the judgments.
        pairs: the pairs of the cases.

    Raises:
        ConfigError: if the judgments do not belong to the cases or lack what the settings require.
    """
    if by_score(config, judgments):
        single = of_one_judge(cases, judgments, pairs.sizes, 1)
        scored = control_length(config, cases, score_responses(config, cases, single))
        return compare_scores(config, cases, single, scored, pairs)
    asked, thirds = (of_one_judge(cases, judgments.select(third=third), pairs.sizes, 2) for third in (False, True))
    found = resolve_pairs(config, cases, asked, pairs, thirds)
    ranks = of_one_judge(cases, judgments, pairs.sizes, 1)
    return replace(found, scores=score_lists(config, cases, ranks), ranks=ranks) if len(ranks) else found


def cascade_of(config: RunConfig, cases: Sequence[Case], judgments: Iterable[Judgment], clusters: Clusters) -> Cascade:
    """Return what decides each pair or response, by the judges that were asked so far.

    Args:
        config: the config of a cascade.
        cases: the cases.
        judgments: the judgments so far.
        clusters: the clusters of the cases.

    Raises:
        ConfigError: as `score_run`.
    """
    classes, dev = config.rubric.named_classes, dev_cases(config.judge, cases, clusters)
    columns = use_expectations(config, read_judgments(cases, judgments, [*config.weights()], classes))
    names, votes = [member.label for member in config.judge.members if member.label in columns.by], dict[str, Vote]()
    if classes is not None:
        responses, first = labeled_responses(classes, cases), rows_of(cases)[1]
        for name in names:
            own = columns.select(name)
            votes[name] = class_vote(vote_samples(responses, cases, own), own, first)
        case, labeled, unit = responses.case, responses.labeled, first[columns.case] + columns.i
    else:
        config, pairs = settled(config, columns), all_pairs(cases)
        for name in names:
            votes[name] = pair_vote(config, resolve(config, cases, columns.select(name), pairs))
        case, labeled, unit = pairs.case, pairs.label != NONE, pairs.find(columns.case, columns.i, columns.j)
    members = [member.label for member in config.judge.members]
    by = np.array([members.index(name) if name in members else 0 for name in columns.judges], dtype=np.int64)
    chosen = chosen_units(cases, case, labeled, dev, clusters)
    return Cascade.of(config.judge, votes, chosen, dev, (unit, by[columns.judge]))


def calibrated(config: RunConfig, cases: Sequence[Case], judgments: Iterable[Judgment]) -> RunConfig:
    """Return the config of a cascade with the thresholds that labels choose, by the judges that were asked so far."""
    if not config.judge.calibrates:
        return config
    own = {case.id for case in cases}
    judged = [judgment for judgment in judgments if judgment.case_id in own]
    return cascade_of(config, cases, judged, Clusters.of(config, cases)).fixed(config)


def escalated(config: RunConfig, cases: Sequence[Case], judgments: Iterable[Judgment]) -> frozenset[tuple[str, Unit]]:
    """Return the pairs or responses that no judge of a cascade has decided so far, each by case id and indices."""
    cascade = cascade_of(config, cases, judgments, Clusters.of(config, cases))
    size = 1 if config.rubric.classes else 2
    units = [(case.id, unit) for case in cases for unit in combinations(range(len(case.responses)), size)]
    return frozenset(units[place] for place in np.flatnonzero(cascade.decider == WAITING).tolist())


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
