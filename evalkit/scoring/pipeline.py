"""Scoring of a run: judgments to verdicts, verdicts to statistics, statistics to
metrics with intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from evalkit.config import CHECKLIST, RunConfig
from evalkit.core.benchmark_discovery import find_benchmark
from evalkit.core.types import Case, ItemVerdict, Judgment, Metric, Verdict
from evalkit.core.values import Json, frozen
from evalkit.scoring.catalog import CATALOG, custom_metrics
from evalkit.scoring.decision import decide, judges_of, metrics_of
from evalkit.scoring.judgments import JudgmentColumns, read_judgments
from evalkit.scoring.labels import (
    LabelWeights,
    given_weights,
    known_weights,
    label_weights,
    labels_needed,
    weigh_labels,
)
from evalkit.scoring.metrics.corrections import RANDOM
from evalkit.scoring.metrics.custom import custom_statistics
from evalkit.scoring.metrics.metric_registry import CORRECTIONS, EACH, RUN
from evalkit.scoring.metrics.rates import FrontierPoint, cost_statistics, frontier
from evalkit.scoring.metrics.refits import (
    FittedVote,
    widened,
)
from evalkit.scoring.metrics.subsets import subset_results, with_intervals
from evalkit.scoring.run_metrics import EXTRAS, RunValues, computed, values_of
from evalkit.scoring.run_protocol import FinishedRun
from evalkit.scoring.search import (
    SearchedColumns,
    SearchRows,
    by_item,
    search_slices,
    searched_columns,
)
from evalkit.scoring.slice_metrics import slice_results
from evalkit.scoring.stats.arrays import Bools, Floats
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import Measures, Statistic
from evalkit.scoring.stopping import OTHERS, with_sequences
from evalkit.scoring.verdict_rules import (
    VerdictRules,
    cascade_of,
    judgment_columns,
    rules_of,
)
from evalkit.scoring.verdicts.cascade import (
    Cascade,
)
from evalkit.scoring.verdicts.checklists import (
    ItemColumns,
    read_items,
    scored_judgments,
)
from evalkit.scoring.verdicts.pairs import (
    use_expectations,
)
from evalkit.scoring.verdicts.panel import (
    DAWID_SKENE,
    Panel,
    check_names,
    metric_part,
    unasked_notes,
    winners_at,
)
from evalkit.scoring.verdicts.rewards import differences, reward_margins
from evalkit.scoring.verdicts.verdict_objects import (
    Verdicts,
)


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


def score_run(
    config: RunConfig, cases: Sequence[Case], judgments: Sequence[Judgment]
) -> Scores:
    """Return the verdicts, metrics and frontier of a run; they do not depend on the
    order of the input.

    Every pair (pairwise) or response (pointwise) of every case has a verdict, `missing` if
    unreadable. A ranking (listwise) gives verdicts on both. Metrics that the mode can never have
    are omitted. Metrics that the data do not determine have no value and a note with the reason.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: their judgments.

    Raises:
        ConfigError: if the judgments do not belong to the cases or lack what the settings require.
    """
    # Statistics first: their intervals are computed together, with the same resamples.
    scored = score_without_intervals(config, cases, judgments)
    columns = _searched(config, cases)
    metrics = _measure_run(config, cases, scored, columns)
    # A sequence is valid at every look, so its interval replaces that of a single look.
    metrics, sequence = with_sequences(
        config, metrics, scored.measures, scored.clusters
    )
    sliced, table = slice_results(config, cases, scored.measures, scored.clusters)
    details = {**scored.details, **table, **sequence}
    # A table that needs measured metrics is completed here.
    if "panel" in details:
        details["panel"] = with_intervals(
            details["panel"], measure(scored.subsets, config.scoring, scored.clusters)
        )
    notes = (*scored.notes, *((OTHERS,) if sequence else ()))
    return Scores(
        scored.verdicts,
        metrics | sliced,
        scored.frontier,
        details,
        notes,
        scored.clusters,
    )


def _searched(config: RunConfig, cases: Sequence[Case]) -> SearchedColumns:
    """Return the columns that are searched for slices, by `scoring.slices` and `scoring.search`."""
    # The search resamples slices, which needs resamples.
    if config.scoring.search == "none" or not config.scoring.bootstrap:
        return SearchedColumns(())
    only_listed = config.scoring.search == "listed"
    return searched_columns(cases, config.scoring.slices, only_listed=only_listed)


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A scored run with statistics that can be resampled together with those of another run."""

    verdicts: Sequence[Verdict]
    measures: Sequence[Statistic | Metric]
    frontier: tuple[FrontierPoint, ...]
    details: Mapping[str, Any]
    clusters: Clusters
    notes: tuple[str, ...] = ()
    fitted: FittedVote | None = None
    subsets: Sequence[Statistic] = ()
    items: Mapping[str | None, ItemColumns] = field(default_factory=dict)


def score_without_intervals(
    config: RunConfig,
    cases: Sequence[Case],
    judgments: Sequence[Judgment],
    clusters: Clusters | None = None,
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
    run = _resolve_run(config, cases, judgments, clusters)
    rules = run.rules
    judges = [*run.judge_verdicts.values()]
    weights = known_weights(run.labels)
    # Metrics of all judges together, then those of each.
    metrics, tables = computed([*EACH, *EXTRAS, *RUN], run.values(clusters))
    measures = [*metrics]
    details = dict(tables)
    # Each judge's metrics have the prefix `judge/NAME/`.
    for name, values in run.values_by_judge(clusters):
        corrected = computed(CORRECTIONS, values)[0]
        measures += prefix_judge(
            name, [*computed(EACH, values)[0], *_if_unlabeled(corrected)]
        )
    fitted = None
    subsets = list[Statistic]()
    # A cascade has no vote, so neither a refit nor subsets.
    if (panel := run.panel) is not None and run.cascade is None:
        # Weights from Dawid and Skene depend on the data: their intervals need a refit.
        if rules.refit and panel.vote == DAWID_SKENE:
            fitted = rules.refit(panel, run.verdicts, judges)
        best, subsets, table = _subset_metrics(run, panel, clusters, weights)
        measures += best
        details |= {"panel": table} if table else {}
    # Verdicts as objects, which custom metrics read.
    objects = rules.objects(run.verdicts, run.judge_verdicts, run.cascade)
    if custom := custom_metrics():
        measures += custom_statistics(custom, config, rules.cases, objects)
    points = _frontier(run)
    return ScoredRun(
        verdicts=objects,
        measures=run.finished(measures),
        frontier=points,
        details=details,
        clusters=clusters,
        notes=run.notes,
        fitted=fitted,
        subsets=subsets,
        items=run.items,
    )


def verdict_statistics(
    config: RunConfig,
    cases: Sequence[Case],
    judgments: Sequence[Judgment],
    clusters: Clusters | None = None,
) -> Sequence[Statistic | Metric]:
    """Return the rates and means of the verdicts of `score_run`: no corrections,
    models, rankings and tables.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: their judgments.
        clusters: the clusters of the cases; by default those of the config.

    Raises:
        ConfigError: as `score_run`.
    """
    run = _resolve_run(config, cases, judgments, clusters)
    # Values without clusters: nothing here is modeled or corrected.
    measures = [*computed([*EACH, *RUN], run.values())[0]]
    for name, values in run.values_by_judge():
        measures += prefix_judge(name, computed(EACH, values)[0])
    return run.finished(measures)


def verdicts_of(
    config: RunConfig, cases: Sequence[Case], judgments: Sequence[Judgment]
) -> Verdicts:
    """Return the verdicts of `score_run`, without metrics.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: their judgments.

    Raises:
        ConfigError: as `score_run`.
    """
    run = _resolve_run(config, cases, judgments)
    return run.rules.objects(run.verdicts, run.judge_verdicts, run.cascade)


def verdicts_by_judge(run: FinishedRun) -> Mapping[str, Sequence[Verdict]]:
    """Return the verdicts of each judge of a panel by name; those of a run just scored
    are at hand.
    """
    verdicts = run.verdicts
    return (
        verdicts
        if isinstance(verdicts, Verdicts)
        else verdicts_of(run.config, run.cases, run.judgments)
    ).each


@frozen
class _Run:
    """A run with its verdicts.

    Attributes:
        rules: how judgments become verdicts.
        judgments: the judgments that count.
        panel: the panel, if there are several judges.
        cascade: what decides each unit, if the judges are a cascade.
        by_judge: the judgments of each judge of a panel.
        judge_verdicts: the verdicts of each judge of a panel.
        verdicts: the verdicts of the judge, the panel or the cascade.
        notes: how settings were interpreted.
        checklists: the metrics of checklists; they replace those of the same names.
        items: the items of checklists by judge; those of all judges together have no name.
        labels: the weights of labeled cases, if something says how they were chosen.
    """

    rules: VerdictRules
    judgments: JudgmentColumns
    panel: Panel | None
    cascade: Cascade | None
    by_judge: Mapping[str, JudgmentColumns]
    judge_verdicts: Mapping[str, Any]
    verdicts: Any
    notes: tuple[str, ...]
    checklists: Callable[[], Measures] | None
    items: Mapping[str | None, ItemColumns]
    labels: LabelWeights | None

    def values(self, clusters: Clusters | None = None) -> RunValues:
        """Return what the metrics of the run are computed from; without clusters, only
        rates and means of verdicts.
        """
        # Judges of a cascade saw different units, and are not comparable.
        judges = None if self.cascade is not None else [*self.judge_verdicts.values()]
        judge_values: RunValues = {"judges": judges or None, "cascade": self.cascade}
        return (
            values_of(
                self.rules.config,
                self.rules.cases,
                self.judgments,
                self.verdicts,
                known_weights(self.labels),
                clusters,
            )
            | judge_values
        )

    def values_by_judge(
        self, clusters: Clusters | None = None
    ) -> Iterator[tuple[str, RunValues]]:
        """Yield the same for each judge that was asked about every unit: in a cascade,
        the first one.
        """
        config = self.rules.config
        cases = self.rules.cases
        weights = known_weights(self.labels)
        for name, verdicts in [*self.judge_verdicts.items()][
            # The first stage of a cascade alone judged every unit.
            : None if self.cascade is None else 1
        ]:
            judged = self.by_judge[name]
            yield name, values_of(config, cases, judged, verdicts, weights, clusters)

    def finished(self, measures: Measures) -> Measures:
        """Return the metrics with those of checklists, and with the weights of labels."""
        if self.checklists is not None:
            checklist_measures = self.checklists()
            names = {metric.name for metric in checklist_measures}
            kept = [
                metric
                for metric in measures
                if metric.name not in names
                and not metric.name.endswith("score/distinct")
            ]
            measures = [*checklist_measures, *kept]
        if self.labels is None:
            return measures
        return [*weigh_labels(measures, self.labels)]


def _resolve_run(
    config: RunConfig,
    cases: Sequence[Case],
    judgments: Sequence[Judgment],
    clusters: Clusters | None = None,
) -> _Run:
    """Return the verdicts of a run, and of each judge of a panel or cascade.

    Args:
        config: the config.
        cases: the cases.
        judgments: all judgments, also those that a cascade does not use.
        clusters: the clusters of the cases; `None`: those of the config.
    """
    cascade, checklists = None, None
    items_by_judge: dict[str | None, ItemColumns] = {}
    items: Sequence[tuple[ItemVerdict, ...]] = ()
    if config.judge.cascades:
        cascade = cascade_of(
            config, cases, judgments, clusters or Clusters.of(config, cases)
        )
        # Labels that calibrate the cascade must not be used to validate it.
        cases = cascade.blind(cases)
    scored: Iterable[Judgment] = judgments
    if config.mode.name == CHECKLIST:
        columns, by_name = read_items(cases, judgments, config.scoring.checklist)
        checklists = partial(
            _checklist_metrics, config, cases, judgments, columns, by_name
        )
        items = columns.verdicts
        items_by_judge = {None: columns}
        if len(by_name) > 1:
            items_by_judge |= {
                metric_part(name): judged for name, judged in by_name.items()
            }
        # Samples are combined by item, so a response has one score.
        # From here on a checklist is scored as a judge that gave these scores.
        config = config.with_({"mode.samples": 1})
        scored = scored_judgments(cases, by_name)
    read = judgment_columns(config, cases, scored)
    # Judgments that the cascade did not use are paid for, but do not count.
    counted = use_expectations(
        config, read if cascade is None else read.where(cascade.used)
    )
    rules = rules_of(config, cases, counted, items)
    panel = _panel(config, counted)
    names = () if panel is None else panel.names
    by_judge = {name: counted.select(name) for name in names}
    judge_verdicts = {name: rules.resolve(judged) for name, judged in by_judge.items()}
    judges = [*judge_verdicts.values()]
    notes = rules.notes
    # In order of precedence: a cascade decides, a panel votes, one judge is read as it is.
    if cascade is not None:
        verdicts = rules.decide(cascade, counted, judges)
    elif panel is not None:
        if config.mode.name == "pairwise" or config.rubric.classes:
            notes += unasked_notes(panel.names, counted)
        verdicts = rules.vote(panel, counted, judges)
    else:
        verdicts = rules.resolve(counted)
    notes += _reward_notes(config, cases, judges or [verdicts])
    return _Run(
        rules=rules,
        judgments=counted,
        panel=panel,
        cascade=cascade,
        by_judge=by_judge,
        judge_verdicts=judge_verdicts,
        verdicts=verdicts,
        notes=notes,
        checklists=checklists,
        items=items_by_judge,
        labels=label_weights(rules.cases),
    )


def _reward_notes(
    config: RunConfig, cases: Sequence[Case], judges: Sequence[Any]
) -> tuple[str, ...]:
    """Return how the margins of rewards were scaled, once for each scale; empty without rewards."""
    if not (config.rubric.real and config.mode.scores):
        return ()
    notes = []
    for verdicts in judges:
        margins = differences(verdicts)
        _, _, note = reward_margins(config, cases, verdicts.pairs, margins)
        notes.append(note)
    return tuple(dict.fromkeys(notes))


def _checklist_metrics(
    config: RunConfig,
    cases: Sequence[Case],
    judgments: Sequence[Judgment],
    items: ItemColumns,
    by_judge: Mapping[str, ItemColumns],
) -> Measures:
    """Return the metrics of checklists, which are scored besides as if the judge had
    given their scores.
    """
    # Costs are those of the answers, read again without criteria.
    read = read_judgments(cases, judgments, ())
    weights = given_weights(cases)
    values = values_of(config, cases, read, items, weights)
    measures = [*computed([*EACH, cost_statistics], values)[0]]
    if config.dataset.benchmark is not None:
        rule = getattr(find_benchmark(config.dataset.benchmark), "item_rule", None)
        measures += [] if rule is None else rule(items)
    if len(by_judge) > 1:
        # One judge's metrics are those of the run.
        for name, columns in by_judge.items():
            values = values_of(config, cases, read.select(name), columns, weights)
            measures += prefix_judge(name, computed(EACH, values)[0])
    return measures


def frontier_of(
    config: RunConfig, cases: Sequence[Case], judgments: Sequence[Judgment]
) -> tuple[FrontierPoint, ...]:
    """Return the frontier of `score_run` on pairs or responses, without metrics.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: their judgments.

    Raises:
        ConfigError: as `score_run`.
    """
    return _frontier(_resolve_run(config, cases, judgments))


def _frontier(run: _Run) -> tuple[FrontierPoint, ...]:
    """Return the agreement at each threshold of ties; nothing for classes, which have no margin."""
    config = run.rules.config
    judges = [*run.judge_verdicts.values()]
    verdicts = run.verdicts
    if config.rubric.classes:
        return ()
    winners = None if run.panel is None else winners_at(run.panel, config, judges)
    if winners is None:
        margins = None
    else:
        # (judges * pairs,) margins of all judges, whose thresholds are varied together.
        margins = np.concatenate([judge_columns.margin for judge_columns in judges])
    return frontier(verdicts, config.tie.min_confidence, winners, margins)


def _panel(config: RunConfig, judgments: JudgmentColumns) -> Panel | None:
    """Return the judges that judged, out of those that were to judge, in the order of
    the config; `None` for one.

    Raises:
        ConfigError: if metrics of two judges would have the same names.
    """
    judged = set(judgments.by)
    members = [member.label for member in config.judge.members]
    # Judges that the config does not name, as of an imported run, are sorted.
    expected = members if judged <= set(members) else sorted(judged)
    names = [name for name in expected if name in judged]
    check_names(names)
    # A panel of two of which one judged is still a panel.
    if names and max(len(names), len(members)) > 1:
        return Panel.of(config, expected, names)
    return None


def _subset_metrics(
    run: _Run, panel: Panel, clusters: Clusters, weights: Floats | None
) -> tuple[list[Statistic], list[Statistic], Json]:
    """Return the metrics of the best subset of a panel's judges, the accuracies of each
    subset, and their table.
    """
    rules = run.rules
    judges = [*run.judge_verdicts.values()]
    verdicts = run.verdicts

    def right(some: Panel, chosen: Sequence[int]) -> Bools:
        return np.asarray(
            rules.vote(some, run.judgments, [judges[judge] for judge in chosen]).right
        )

    # (judges,) the mean cost of each.
    costs = [_mean_cost(judged) for judged in run.by_judge.values()]
    # (units,) by the case of each: only cases that every judge was asked about. A unit that a judge
    # was asked about and did not answer counts: it is not right.
    used = _asked_of_all(run)[verdicts.tally.case] & verdicts.labeled
    is_used = np.bincount(verdicts.tally.case[used], minlength=len(rules.cases)) > 0
    return subset_results(
        panel,
        np.array(costs),
        right,
        used,
        verdicts.tally,
        clusters.folds(rules.cases, is_used),
        margin=rules.config.scoring.margin,
        weights=weights,
        pseudo=rules.pseudo,
    )


def _mean_cost(judgments: JudgmentColumns) -> float:
    """Return the mean cost of the cases whose cost is known, NaN if there are none."""
    of_case, *_ = cost_statistics(judgments)
    return of_case.observed()


def _asked_of_all(run: _Run) -> Bools:
    """Return which cases every judge was asked about, (cases,)."""
    cases = len(run.rules.cases)
    # [judge]: shape (cases,)
    was_asked = [
        np.bincount(judgments.case, minlength=cases) > 0
        for judgments in run.by_judge.values()
    ]
    return np.asarray(np.all(was_asked, axis=0))


def _if_unlabeled(
    measures: Sequence[Statistic | Metric],
) -> Sequence[Statistic | Metric]:
    """Return a judge's rates corrected by labels if some answers have a label and
    others have none.
    """
    # The note says that labels are a random sample of the answers.
    if any(metric.note and RANDOM in metric.note for metric in measures):
        return measures
    return ()


def _measure_run(
    config: RunConfig,
    cases: Sequence[Case],
    scored: ScoredRun,
    columns: SearchedColumns,
) -> dict[str, Metric]:
    """Return all metrics of a run by name, in the order of the catalog.

    Metrics of single judges have the prefix `judge/JUDGE/`. Each judge has a search for slices and
    a number of labels needed.
    """
    weights = given_weights(cases)
    measures = scored.measures
    clusters = scored.clusters
    # Statistics are measured together; the others are metrics already.
    statistics = [item for item in measures if isinstance(item, Statistic)]
    metrics = measure(statistics, config.scoring, clusters) | {
        metric.name: metric for metric in measures if isinstance(metric, Metric)
    }
    # Intervals that include the uncertainty of the weights, where those are wider.
    if scored.fitted is not None:
        refits = measure(
            scored.fitted.statistics(measures, weights), config.scoring, clusters
        )
        metrics |= {
            name: widened(metrics[name], again) for name, again in refits.items()
        }
    # None is the run itself; each judge has its own decision.
    for judge in (None, *judges_of(metrics)):
        metrics |= _searched_metrics(
            config, cases, scored, columns, judge, metrics_of(metrics, judge)
        )
    return {name: metrics[name] for name in sorted(metrics, key=CATALOG.order)}


def _searched_metrics(
    config: RunConfig,
    cases: Sequence[Case],
    scored: ScoredRun,
    columns: SearchedColumns,
    judge: str | None,
    judge_metrics: Mapping[str, Metric],
) -> dict[str, Metric]:
    """Return the slices where the decision on a judge does not hold, and the labels that it needs.

    Args:
        config: the config.
        cases: the cases.
        scored: the verdicts and statistics of all judges.
        columns: the columns whose slices are searched.
        judge: the judge; `None` is the run itself.
        judge_metrics: the metrics of the judge, without its prefix.
    """
    confidence = config.scoring.confidence
    clusters = scored.clusters
    prefix = "" if judge is None else f"judge/{judge}/"
    # The same statistics without the prefix, as the decision names them.
    by_name = {}
    for item in scored.measures:
        if isinstance(item, Statistic) and item.name.startswith(prefix):
            name = item.name.removeprefix(prefix)
            by_name[name] = replace(item, name=name)
    decision = decide(judge_metrics, confidence)
    rows = SearchRows(columns, by_name, clusters)
    # Verdicts on items are searched item by item.
    if decision.unit == "item" and judge in scored.items:
        items = scored.items[judge]
        rows = by_item(items, rows, label_weights(cases)) or rows
    searched = search_slices(
        config.scoring, rows.columns, rows.statistics, decision, rows.clusters
    )
    # The number of clusters behind each metric. Slices that were found may demand more labels.
    counts = {name: item.clusters(clusters) for name, item in by_name.items()}
    needed = labels_needed({**judge_metrics, **searched}, counts, confidence)
    added = {**searched, needed.name: needed}
    return {
        prefix + name: replace(metric, name=prefix + name)
        for name, metric in added.items()
    }


def prefix_judge(
    judge: str, measures: Sequence[Statistic | Metric]
) -> Iterator[Statistic | Metric]:
    """Yield a judge's metrics with names `judge/<judge>/<metric>`."""
    for metric in measures:
        yield replace(metric, name=f"judge/{metric_part(judge)}/{metric.name}")
