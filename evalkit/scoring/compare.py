"""Comparison of runs on the cases they share, paired by case, with the same resamples
of clusters for each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import combinations

import numpy as np

from evalkit.config import CHECKLIST, ScoringConfig
from evalkit.core.errors import ConfigError
from evalkit.core.notebook_tables import Shown
from evalkit.core.scale import Scale
from evalkit.core.types import Metric
from evalkit.core.values import frozen
from evalkit.scoring.catalog import TESTED
from evalkit.scoring.catalog.removed import metric_remedy
from evalkit.scoring.columns import NONE
from evalkit.scoring.decision import Metrics
from evalkit.scoring.metrics.agreement import CLASSES, contradiction_statistics
from evalkit.scoring.metrics.checklists import halo_statistic
from evalkit.scoring.paired_runs import (
    ACCURACY,
    ERROR,
    SCORE,
    PairedVerdicts,
    RunEntry,
    pair_runs,
)
from evalkit.scoring.pipeline import score_run, score_without_intervals
from evalkit.scoring.stats import paired as tests
from evalkit.scoring.stats.agreement_formulas import kappa
from evalkit.scoring.stats.arrays import Floats, round_metric
from evalkit.scoring.stats.bootstrap import (
    as_metric,
    measure,
    measure_with_draws,
    resample,
)
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.coefficients import Confusion
from evalkit.scoring.stats.paired import ResampledLead
from evalkit.scoring.stats.statistic import Statistic, undefined
from evalkit.scoring.verdicts.checklists import read_items


@frozen
class Entry:
    """A run's value of a metric on the shared cases; runs that share a letter do not
    differ significantly.
    """

    run: str
    metric: Metric
    letters: str | None = None


@frozen
class Difference:
    """The first run minus the second in one metric, over the units that both read.

    Attributes:
        first: the first run.
        second: the second run.
        metric: the difference with its interval.
        only_first: the number of units that only the first run has correct.
        only_second: the number of units that only the second run has correct.
        test: the name of the test, for metrics of the family.
        p: its p-value.
        p_holm: its adjusted p-value.
        detectable: the minimum detectable difference at a power of 0.8.
    """

    first: str
    second: str
    metric: Metric
    only_first: int | None = None
    only_second: int | None = None
    test: str | None = None
    p: float | None = None
    p_holm: float | None = None
    detectable: float | None = None


@frozen
class Comparison(Shown):
    """A comparison of runs.

    Attributes:
        runs: the names of the runs.
        cases: the number of shared cases.
        left_out: the number of other cases of each run.
        confidence: the confidence of intervals and tests.
        family: the metrics that are tested.
        entries: each run's metrics.
        differences: the difference of each pair of runs in each metric.
        between: the agreement of each pair of runs.
        clusters: a note on the clusters; `None` if each case is its own cluster.
        stops: the metric of `runner.stop` of each run that has one, on all cases of the run; its
            interval has the comparison's confidence and holds at any stopping time, whether it
            stopped the run or not.
    """

    runs: tuple[str, ...]
    cases: int
    left_out: Mapping[str, int]
    confidence: float
    family: tuple[str, ...]
    entries: tuple[Entry, ...]
    differences: tuple[Difference, ...]
    between: tuple[Difference, ...] = field(default=())
    clusters: str | None = None
    stops: tuple[Entry, ...] = field(default=())

    def metrics(self, run: str) -> dict[str, Metric]:
        """Return the metrics of a run on the shared cases, by name."""
        return {
            entry.metric.name: entry.metric
            for entry in self.entries
            if entry.run == run
        }

    def difference(self, metric: str) -> Difference | None:
        """Return the difference of the first two runs in a metric, `None` if it cannot
        be compared.
        """
        return next(
            (
                difference
                for difference in self.differences
                if difference.metric.name == metric
            ),
            None,
        )


@frozen
class _Measured:
    """A run on the shared cases: its metrics, their statistics and resamples, and its verdicts."""

    entry: RunEntry
    metrics: Metrics
    statistics: Mapping[str, Statistic]
    draws: Mapping[str, Floats]
    verdicts: PairedVerdicts

    @property
    def implied(self) -> bool:
        """Whether winners are implied by scores of single responses."""
        return all(len(judgment.unit) == 1 for judgment in self.entry.judgments)

    def knows(self, name: str) -> bool:
        """Return whether a metric has resamples and a value."""
        return name in self.draws and self.metrics[name].value is not None


def compare_runs(
    runs: Sequence[RunEntry],
    scoring: ScoringConfig,
    family: Sequence[str] = (),
    *,
    same: bool = True,
) -> Comparison:
    """Compare runs on the cases that all of them have.

    The interval of each difference uses the same resamples of clusters in both runs (paired
    bootstrap: Efron and Tibshirani 1993, ch. 8). The metrics of `family` are also tested over
    clusters: accuracy by McNemar's test, scores by Wilcoxon's, others by the bootstrap. The
    p-values are adjusted over all pairs of runs and metrics of the family (Holm).

    Args:
        runs: the runs.
        scoring: the confidence, seed and number of resamples.
        family: the metrics to test.
        same: whether to check that shared cases have the same prompts, responses and labels.

    Raises:
        ConfigError: if there are fewer than two runs, they share no case, a case differs, or a
            metric of the family is unknown.
    """
    # From here on, all runs have the same cases in the same order.
    shared, left_out = pair_runs(runs, same=same)
    cluster_columns = (entry.config.scoring.cluster for entry in runs)
    # The comparison's column of clusters, or else the first one that a run has.
    column = scoring.cluster or next(
        (name for name in cluster_columns if name is not None), None
    )
    # Clusters of the first run serve all: differences need the same resamples.
    clusters = Clusters.of(shared[0].config, shared[0].cases, column)
    measured = [_measure(entry, scoring, clusters) for entry in shared]
    chosen = _compared_names(family, measured)
    pairs = [*combinations(measured, 2)]
    # Holm counts all pairs of runs and all metrics of the family.
    differences = tests.adjusted(
        [
            _difference(
                name, first_run, second_run, scoring, chosen, len(chosen) * len(pairs)
            )
            for first_run, second_run in pairs
            for name in first_run.draws
            if first_run.knows(name)
            and second_run.knows(name)
            and _comparable(name, first_run, second_run)
        ]
    )
    return Comparison(
        runs=tuple(entry.name for entry in shared),
        cases=len(shared[0].cases),
        left_out=left_out,
        confidence=scoring.confidence,
        family=chosen,
        entries=tuple(_entries(measured, differences, chosen, scoring.confidence)),
        differences=tuple(differences),
        # Agreement between runs is not tested, so it is no part of the family.
        between=tuple(
            d
            for first_run, second_run in pairs
            for d in _agreement_of_runs(first_run, second_run, scoring)
        ),
        clusters=clusters.note(),
        stops=tuple(
            _stop(run, scoring.confidence) for run in runs if run.stop in run.metrics
        ),
    )


def _stop(run: RunEntry, confidence: float) -> Entry:
    """Return the metric that may stop a run, on all of its cases, with an interval of
    the comparison's confidence.
    """
    # The run's own metric has the right confidence already.
    if run.config.scoring.confidence == confidence:
        return Entry(run.name, run.metrics[run.stop])
    config = run.config.with_(
        {"scoring.bootstrap": 0, "scoring.confidence": confidence}
    )
    return Entry(
        run.name, score_run(config, run.cases, run.judgments).metrics[run.stop]
    )


def _measure(entry: RunEntry, scoring: ScoringConfig, clusters: Clusters) -> _Measured:
    """Score one run with the comparison's resampling and its other settings unchanged."""
    # These settings of the comparison replace the run's, so that resamples are equal.
    same = ("bootstrap", "confidence", "seed")
    config = entry.config.with_(
        {f"scoring.{name}": getattr(scoring, name) for name in same}
    )
    scored = score_without_intervals(config, entry.cases, entry.judgments, clusters)
    verdicts = PairedVerdicts.of(entry, scored.verdicts, clusters)
    statistics = [item for item in scored.measures if isinstance(item, Statistic)]
    statistics += verdicts.statistics(Scale.of(config.rubric).span)
    # Resamples of all statistics at once: rows (statistics, resamples).
    numbers, rows = measure_with_draws(statistics, scoring, clusters)
    by_name = {statistic.name: statistic for statistic in statistics}
    draws = {
        statistic.name: row for statistic, row in zip(statistics, rows, strict=True)
    }
    # Metrics without resamples have no difference, but are listed.
    metrics = {
        item.name: item for item in scored.measures if isinstance(item, Metric)
    } | numbers
    return _Measured(entry, metrics, by_name, draws, verdicts)


def _compared_names(
    requested: Sequence[str], measured: Sequence[_Measured]
) -> tuple[str, ...]:
    """Return the metrics to compare; without a request, the first usual one of all runs.

    Raises:
        ConfigError: if a run lacks a requested metric.
    """
    shared = [
        name for name in measured[0].draws if all(run.knows(name) for run in measured)
    ]
    for name in requested:
        if name not in shared:
            raise ConfigError(
                _why_not(name, measured),
                where=name,
                remedy=metric_remedy(name, shared),
            )
    # Without a request, the first metric of the usual ones that every run has.
    return (
        tuple(dict.fromkeys(requested))
        or tuple(name for name in TESTED if name in shared)[:1]
    )


def _why_not(name: str, measured: Sequence[_Measured]) -> str:
    """Return why a metric that is not shared cannot be tested."""
    if not all(name in run.metrics for run in measured):
        return "not a metric that every run has"
    # A run that has the metric without resamples, such as cycles among scores of single responses.
    run = next(run for run in measured if not run.knows(name))
    reason = run.metrics[name].note or "it has no resamples"
    return f"cannot be tested, because of run {run.entry.name}: {reason}"


def _comparable(name: str, first_run: _Measured, second_run: _Measured) -> bool:
    """Return whether a metric has the same unit in both runs: units of the rubric need
    the same rubric.
    """
    # The ends of both rubrics; two scales of different ends have different units.
    first, second = (
        Scale.of(m.entry.config.rubric).ends for m in (first_run, second_run)
    )
    by_unit = name.startswith(("score/", "length/score")) or name == ERROR
    return not by_unit or (
        first == second and first is not None
    )  # two reward models have no common unit


def _difference(
    name: str,
    first_run: _Measured,
    second_run: _Measured,
    scoring: ScoringConfig,
    family: Sequence[str],
    size: int,
) -> Difference:
    """Return a difference with its interval and, in the family, its test; for accuracy
    over the units that both read.

    Args:
        name: the metric.
        first_run: the first run.
        second_run: the second run.
        scoring: the confidence and the number of resamples.
        family: the metrics that are tested.
        size: the number of tests.
    """
    first = first_run.verdicts
    second = second_run.verdicts
    # Units that only one of both runs has right: for accuracy alone.
    only: tuple[int | None, int | None] = None, None
    if name == ACCURACY:
        # Accuracy is compared over the units that both read, unlike each run's own rate.
        lead, statistic = first.accuracy_lead(second)
        draws = resample([statistic], scoring, first.clusters)[0]
        only = lead.only
        test = lead.test
        metric = as_metric(
            statistic, statistic.observed(), draws, scoring, first.clusters
        )
    else:
        resampled = _difference_of_values(name, first_run, second_run)
        draws = resampled.draws
        metric = resampled.difference(name, scoring)
        test = resampled.test
    # (clusters,) paired differences.
    if name in (SCORE, ERROR) and first.scored and second.scored:
        test = partial(tests.wilcoxon, first.by_cluster(name) - second.by_cluster(name))
    p = None
    method = None
    if name in family and metric.n:
        p, method = test()
    elif name in family:
        # A metric without units in common has a reason instead of a test.
        method = metric.note
    # Resamples in which one run is undefined say nothing about the difference.
    finite = draws[np.isfinite(draws)]
    error = float(finite.std()) if len(finite) else 0.0
    # Without spread between resamples, no size could be detected.
    if error > 1e-12:
        detectable = round_metric(
            tests.smallest_detectable(error, scoring.confidence, size)
        )
    else:
        detectable = None
    return Difference(
        first_run.entry.name,
        second_run.entry.name,
        metric,
        *only,
        method,
        p,
        detectable=detectable,
    )


def _difference_of_values(
    name: str, first_run: _Measured, second_run: _Measured
) -> ResampledLead:
    """Return the difference of values only: each run's metric covers the units that it read."""
    first = first_run.metrics[name]
    second = second_run.metrics[name]
    # (low, high) that the metric can reach in each run; `None` if it has no bound
    (low, high), (other_low, other_high) = (
        run.statistics[name].possible for run in (first_run, second_run)
    )
    # The lowest difference is the lowest value of the first minus the highest of the second.
    limits = (
        None if low is None or other_high is None else low - other_high,
        None if high is None or other_low is None else high - other_low,
    )
    # The smaller count, and more missing units: a difference is no better known than
    # either value.
    counts = {
        "n": min(first.n, second.n),
        "missing": max(first.missing, second.missing),
    }
    covered = min(
        run.statistics[name].clusters(run.verdicts.clusters)
        for run in (first_run, second_run)
    )
    draws = first_run.draws[name] - second_run.draws[name]
    value = (first.value or 0.0) - (second.value or 0.0)
    return ResampledLead(value, draws, covered, {**counts, "limits": limits})


def _entries(
    measured: Sequence[_Measured],
    differences: Sequence[Difference],
    family: Sequence[str],
    confidence: float,
) -> Iterator[Entry]:
    """Yield each run's metrics; those of the family have letters if there are more than
    two runs.
    """
    letters = {}
    # Two runs need no letters: their difference is in the table.
    for name in family if len(measured) > 2 else ():
        values = {run.entry.name: run.metrics[name].value or 0.0 for run in measured}
        differ = tests.differing(
            [
                difference
                for difference in differences
                if difference.metric.name == name
            ],
            confidence,
        )
        # Best first; of an error, the lowest is the best.
        letters[name] = tests.letters(
            sorted(values, key=values.__getitem__, reverse=name != ERROR), differ
        )
    for run in measured:
        for name, metric in run.metrics.items():
            yield Entry(
                run.entry.name, metric, letters.get(name, {}).get(run.entry.name)
            )


def _agreement_of_runs(
    first_run: _Measured, second_run: _Measured, scoring: ScoringConfig
) -> list[Difference]:
    """Return how often two runs agree, Cohen's kappa, and how often one's scores
    contradict the other's comparisons.
    """
    first = first_run.verdicts.winner
    # Both are (pairs,) winners on the same pairs, so they are compared by index.
    second = second_run.verdicts.winner
    tally = first_run.verdicts.pairs
    read = (first != NONE) & (second != NONE)
    table = Confusion.of(tally, first, second, read, ~read, CLASSES)
    if read.any():
        # np.ptp is 0 if a run has one verdict only: then kappa is undefined.
        vary = all(np.ptp(winner[read]) for winner in (first, second))
    else:
        vary = False
    why = "no pair has a verdict in both"
    if read.any():
        why = (
            "all verdicts of one run are equal: kappa would be 0 for any other verdicts"
        )
    statistics = [
        tally.rate("between/agreement", first == second, read, ~read, why=why),
        table.statistic(
            "between/kappa", kappa if vary else undefined, reach=None, why=why
        ),
    ]
    # One run compares, and the other one scores: only then can they contradict.
    if first_run.implied != second_run.implied:
        statistics += contradiction_statistics(first, second, tally)[:1]
    statistics += _halo_effect(first_run.entry, second_run.entry)
    metrics = measure(statistics, scoring, first_run.verdicts.clusters)
    return [
        Difference(first_run.entry.name, second_run.entry.name, metric)
        for metric in metrics.values()
    ]


def _halo_effect(first_run: RunEntry, second_run: RunEntry) -> list[Statistic]:
    """Return `checklist/halo` if one run asked for each item of the same checklists
    alone, and the other did not.
    """
    checklists = (
        run for run in (first_run, second_run) if run.config.mode.name == CHECKLIST
    )
    # True asks for each item alone; two runs of one kind leave one entry.
    runs = {run.config.mode.ask in ("each", 1): run for run in checklists}
    if len(runs) < 2:
        return []
    alone, together = (
        read_items(runs[ask].cases, runs[ask].judgments, "share")[0]
        for ask in (True, False)
    )
    # The halo compares item by item, so both checklists must be the same.
    same = [(item.id, item.criterion) for item in alone.items] == [
        (i.id, i.criterion) for i in together.items
    ]
    if same:
        return [halo_statistic(alone, together)]
    return []
