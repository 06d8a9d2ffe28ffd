"""Ranking of a sweep's judge configurations: significant differences, intervals of ranks, and the Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.decision import BALANCED, KAPPA, USES, Decision, Metrics, decide, known
from evalkit.results import Shown
from evalkit.scoring.catalog import LEADERBOARD_COLUMNS, MAIN_COLUMNS, RANKED_BY
from evalkit.scoring.columns import NONE
from evalkit.scoring.metrics.agreement import contradictions
from evalkit.scoring.metrics.correlation import spearman_statistic
from evalkit.scoring.stats import paired as tests
from evalkit.scoring.stats.arrays import round_metric
from evalkit.scoring.stats.bootstrap import Statistic, Tally, resample
from evalkit.scoring.stats.coefficients import Confusion, kappa
from evalkit.scoring.twins import twin_groups
from evalkit.scoring.verdicts.objects import Verdicts, field_values
from evalkit.types import Metric, Verdict
from evalkit.values import frozen

ACCURACY, SPEARMAN, CONSISTENCY = (
    "agreement/accuracy",
    "agreement/spearman",
    "position/consistency",
)
COST = "cost/per_case"
CONTRADICTION = "between/contradiction"
SCORING = "pointwise"
"""The mode that scores each response."""
BEHIND = "leaderboard/behind_best"
ChoiceReason: TypeAlias = Literal[
    "only", "best", "highest", "cheaper", "unranked", "none", "undecided"
]
CHEAPER = 0.95
"""A configuration is cheaper than another at this share of its cost or less, if their intervals do
not overlap."""


@frozen
class Contender:
    """One job of a sweep.

    Attributes:
        job: the name of its folder in the sweep.
        name: its distinguishing settings.
        dataset: the fingerprint of its dataset.
        metrics: its metrics.
        verdicts: its verdicts.
        cluster: the cluster of each case by its id; other cases are their own cluster.
        mode: its mode.
        alike: the other settings that jobs of different modes must share to be compared.
    """

    job: str
    name: str
    dataset: str
    metrics: Metrics
    verdicts: Sequence[Verdict]
    cluster: Mapping[str, int] = field(default_factory=dict)
    mode: str = ""
    alike: tuple[str, ...] = ()


@frozen
class Standing:
    """One row of a leaderboard.

    Attributes:
        rank: the rank within its dataset, from 1.
        job: the name of its folder in the sweep.
        name: its distinguishing settings.
        dataset: the fingerprint of its dataset.
        metrics: the metrics shown.
        letters: configurations of one dataset that share a letter do not differ significantly.
        pareto: whether its judge can be used and no other such configuration of its dataset is
            shown to agree as well for less, or better for no more; `None` if agreement or cost is
            unknown.
        rank_low: the lower end of the rank's interval.
        rank_high: the upper end of the rank's interval.
        decision: what may be concluded about its judge.
        behind: its paired difference from the highest configuration whose judge can be used, or
            from the highest.
        non_inferior: whether its judge can be used and it is shown to be at most `scoring.margin`
            behind.
    """

    rank: int
    job: str
    name: str
    dataset: str
    metrics: Metrics
    decision: Decision
    letters: str | None = None
    pareto: bool | None = None
    rank_low: int | None = None
    rank_high: int | None = None
    behind: Metric | None = None
    non_inferior: bool | None = None


@frozen
class Contrast:
    """The difference of two jobs of one dataset in a metric, with the test of whether they differ."""

    first: str
    second: str
    difference: float
    test: str
    p: float | None = None
    p_holm: float | None = None


@frozen
class Contradiction:
    """A job that scores and a job that compares with the same other settings, and how often they contradict."""

    scores: str
    comparisons: str
    metrics: Metrics


@frozen
class Choice:
    """Which job of a dataset to use, and why.

    Attributes:
        dataset: the fingerprint of the dataset.
        reason: `only` this job is shown to be useful; it is the `best`, as every other is shown to
            be worse or of no use; it is the `highest` of those shown to be useful; or it is
            `cheaper` than the highest and not worse by more than the margin. No job is chosen if
            the useful ones are `unranked`, if `none` can be used, or if no job is shown to be
            useful but some are `undecided`.
        job: the job to use; `None` if no job is chosen.
        top: the first job, in order of rank, of those that can be used, otherwise of those that are
            undecided, otherwise of all.
        rivals: jobs that may be better than `top`.
        cheaper: jobs that are clearly cheaper than `top`, and can be used for as much.
    """

    dataset: str
    reason: ChoiceReason
    job: Standing | None
    top: Standing
    rivals: tuple[Standing, ...] = ()
    cheaper: tuple[Standing, ...] = ()

    def __post_init__(self) -> None:
        if self.job is not None and not self.job.decision.trusted:
            raise ValueError(
                f"job {self.job.job} is chosen, but its decision is {self.job.decision.use}"
            )


@frozen
class Leaderboard(Shown):
    """The configurations of a sweep, best first within each dataset.

    Attributes:
        by: the metric they are ranked by; `None` without one.
        columns: the metrics shown.
        confidence: the confidence of intervals and tests.
        rows: the configurations.
        contrasts: every pair of jobs on one dataset, with p-values adjusted together (Holm).
        margin: the margin of non-inferiority.
        contradictions: each job that scores with each that compares, if their other settings are
            the same.
        twins: the groups of jobs with equal verdicts, decisions and costs.
    """

    by: str | None
    columns: tuple[str, ...]
    confidence: float
    rows: tuple[Standing, ...]
    contrasts: tuple[Contrast, ...] = field(default=())
    margin: float = 0.05
    contradictions: tuple[Contradiction, ...] = field(default=())
    twins: tuple[tuple[str, ...], ...] = field(default=())

    @property
    def folded(self) -> tuple[Standing, ...]:
        """The rows with the first of each group of twins."""
        hidden = {job for group in self.twins for job in group[1:]}
        return tuple(row for row in self.rows if row.job not in hidden)

    def twins_of(self, row: Standing) -> tuple[str, ...]:
        """Return the group of twins that a row belongs to, itself included; empty if it has none."""
        return next((group for group in self.twins if row.job in group), ())

    def main_columns(self) -> list[str]:
        """Return the columns in which jobs differ, most important first; `by` is always the first."""
        wanted = [
            name for name in self.columns if name == self.by or self._differs(name)
        ]
        places = {name: place for place, name in enumerate(MAIN_COLUMNS)}
        return sorted(
            wanted, key=lambda name: (name != self.by, places.get(name, len(places)))
        )

    @property
    def differing(self) -> set[frozenset[str]]:
        """The pairs of jobs that differ significantly."""
        return tests.differing(self.contrasts, self.confidence)

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The job to use on each dataset, in order of the datasets."""
        return tuple(
            self._choice(dataset)
            for dataset in dict.fromkeys(row.dataset for row in self.rows)
        )

    def _choice(self, dataset: str) -> Choice:
        rows = [row for row in self.folded if row.dataset == dataset]
        usable = [row for row in rows if row.decision.trusted]
        undecided = [row for row in rows if row.decision.use == "unknown"]
        if not usable:
            return Choice(
                dataset,
                "undecided" if undecided else "none",
                None,
                (undecided or rows)[0],
            )
        top = usable[0]
        apart = {job for jobs in self.differing if top.job in jobs for job in jobs}
        rivals = tuple(
            row
            for row in (*usable[1:], *undecided)
            if row.job not in apart or row.rank < top.rank
        )
        cheaper = tuple(
            row
            for row in usable[1:]
            if USES.index(row.decision.use) >= USES.index(top.decision.use)
            and clearly_cheaper(row.metrics.get(COST), top.metrics.get(COST))
        )
        if sound := [row for row in cheaper if row.non_inferior]:
            job = min(sound, key=lambda row: row.metrics[COST].value or 0.0)
            return Choice(dataset, "cheaper", job, top, rivals, cheaper)
        if len(usable) == 1:
            return Choice(dataset, "only", top, top, rivals)
        if top.letters is None:
            return Choice(dataset, "unranked", None, top, rivals)
        return Choice(
            dataset, "highest" if rivals else "best", top, top, rivals, cheaper
        )

    def _differs(self, name: str) -> bool:
        metrics = [row.metrics.get(name) for row in self.rows]
        found = {
            None if one is None else (one.value, one.low, one.high) for one in metrics
        }
        return len(found) > 1 or (len(metrics) == 1 and found != {None})


def rank(contenders: Sequence[Contender], scoring: ScoringConfig) -> Leaderboard:
    """Rank a sweep's jobs by agreement with labels, or without labels by consistency of the two orders.

    Jobs that choose classes are ranked by kappa, because a judge that always chooses the most
    frequent class can have a high accuracy. Accuracy and consistency are tested by McNemar's test
    over the pairs that both jobs read, kappa and Spearman's rho by the paired bootstrap, all over
    clusters of cases. The p-values are adjusted over all pairs of jobs on one dataset (Holm), and
    jobs with a p-value above 1 - `scoring.confidence` share a letter (Piepho 2004).

    Ranks have simultaneous intervals from the same tests: from 1 plus the number of significantly
    better jobs to the number of jobs that are not significantly worse (Al Mohamad, van Zwet, Solari
    and Goeman 2021, Electron. J. Statist. 15, 2608-2646). The difference from the best job has an
    interval that is valid for all jobs of its dataset together (Bonferroni): Tango's for paired
    proportions, or the paired bootstrap. Non-inferiority is decided by its lower end.
    """
    contradicting = _contradictions(contenders, scoring)
    contenders = [_with_contradiction(one, contradicting) for one in contenders]
    by = _ranked_by(contenders)
    columns = tuple(
        name
        for name in LEADERBOARD_COLUMNS
        if any(_value(one, name) is not None for one in contenders)
    )
    datasets = dict.fromkeys(one.dataset for one in contenders)
    groups = [_Group.of(contenders, dataset, by, scoring) for dataset in datasets]
    contrasts = tuple(
        tests.adjusted([contrast for group in groups for contrast in group.contrasts()])
    )
    differ = tests.differing(contrasts, scoring.confidence)
    rows = tuple(row for group in groups for row in group.standings(columns, differ))
    return Leaderboard(
        by,
        columns,
        scoring.confidence,
        rows,
        contrasts,
        scoring.margin,
        contradicting,
        _twins(contenders, rows),
    )


def _twins(
    contenders: Sequence[Contender], rows: Sequence[Standing]
) -> tuple[tuple[str, ...], ...]:
    """Return the groups of jobs between which there is nothing to choose."""
    alike = {}
    for row in rows:
        cost = row.metrics.get(COST)
        alike[row.job] = (row.decision.use, None if cost is None else cost.value)
    groups = [
        tuple(job for job in group if alike[job] == kind)
        for group in twin_groups(contenders)
        for kind in dict.fromkeys(alike[job] for job in group)
    ]
    return tuple(group for group in groups if len(group) > 1)


def _contradictions(
    contenders: Sequence[Contender], scoring: ScoringConfig
) -> tuple[Contradiction, ...]:
    """Compare each job that scores with each that compares the same cases under the same other settings."""
    return tuple(
        Contradiction(
            one.job,
            two.job,
            contradictions(one.verdicts, two.verdicts, scoring, one.cluster),
        )
        for one in contenders
        for two in contenders
        if one.mode == SCORING
        and two.mode
        and two.mode != SCORING
        and (one.dataset, one.alike) == (two.dataset, two.alike)
    )


def _with_contradiction(
    contender: Contender, found: Sequence[Contradiction]
) -> Contender:
    """Return a job with its contradiction rates among its metrics, if it is compared with a single other job."""
    own = [one for one in found if contender.job in (one.scores, one.comparisons)]
    return (
        replace(contender, metrics={**contender.metrics, **own[0].metrics})
        if len(own) == 1
        else contender
    )


def _ranked_by(contenders: Sequence[Contender]) -> str | None:
    if all(BALANCED in one.metrics for one in contenders) and any(
        _value(one, KAPPA) is not None for one in contenders
    ):
        return KAPPA
    for enough in (all, any):
        for name in RANKED_BY:
            if contenders and enough(
                _value(one, name) is not None for one in contenders
            ):
                return name
    return None


def _value(contender: Contender, name: str | None) -> float | None:
    metric = contender.metrics.get(name) if name else None
    return metric.value if metric else None


@frozen
class _Group:
    """The jobs of one dataset.

    Attributes:
        jobs: the jobs by name.
        values: what they are ranked by, for those that have it.
        by: the metric that ranks them.
        scoring: the confidence and the number of resamples.
        lead: returns by how much the first of two ranked jobs is ahead of the second.
    """

    jobs: Mapping[str, Contender]
    values: Mapping[str, float]
    by: str | None
    scoring: ScoringConfig
    lead: Callable[[str, str], tests.Lead | tests.ResampledLead]

    @classmethod
    def of(
        cls,
        contenders: Sequence[Contender],
        dataset: str,
        by: str | None,
        scoring: ScoringConfig,
    ) -> _Group:
        """Return the jobs of a dataset."""
        jobs = {one.job: one for one in contenders if one.dataset == dataset}
        values = {
            job: value
            for job, one in jobs.items()
            if (value := _value(one, by)) is not None
        }
        return cls(
            jobs,
            values,
            by,
            scoring,
            _leads([jobs[job] for job in values], by, scoring),
        )

    def contrasts(self) -> Iterator[Contrast]:
        """Yield the test of each pair of ranked jobs."""
        for (first, value), (second, other) in combinations(self.values.items(), 2):
            p, name = self.lead(first, second).test()
            yield Contrast(first, second, round_metric(value - other) or 0.0, name, p)

    def standings(
        self, columns: Sequence[str], differ: set[frozenset[str]]
    ) -> list[Standing]:
        """Return the rows of the leaderboard, best first."""
        ordered = sorted(
            self.jobs.values(), key=lambda one: -self.values.get(one.job, -np.inf)
        )
        order = [one.job for one in ordered if one.job in self.values]
        letters = tests.letters(order, [pair for pair in differ if pair <= {*order}])
        rows = [
            Standing(
                rank=1
                + sum(
                    value > self.values.get(one.job, -np.inf) + 1e-12
                    for value in self.values.values()
                ),
                job=one.job,
                name=one.name,
                dataset=one.dataset,
                metrics={
                    name: one.metrics[name] for name in columns if name in one.metrics
                },
                letters=letters.get(one.job),
                decision=decide(one.metrics, self.scoring.confidence),
            )
            for one in ordered
        ]
        ranked = rows[: len(order)]
        rest = rows[len(order) :]
        level = 1 - (1 - self.scoring.confidence) / max(1, len(ranked) - 1)
        top = next(
            (place for place, row in enumerate(ranked) if row.decision.trusted), 0
        )
        for place, row in enumerate(ranked):
            apart = [
                other
                for other, job in enumerate(order)
                if frozenset((row.job, job)) in differ
            ]
            better = sum(other < place for other in apart)
            behind = (
                None if place == top else self._difference(row.job, order[top], level)
            )
            ranked[place] = replace(
                row,
                rank_low=1 + better,
                rank_high=len(ranked) - (len(apart) - better),
                behind=behind,
                non_inferior=(
                    None
                    if behind is None
                    else row.decision.trusted and self._within(behind)
                ),
            )
        fronts = [self._on_front(place, ranked, differ) for place in range(len(ranked))]
        return [
            *(
                replace(row, pareto=front)
                for row, front in zip(ranked, fronts, strict=True)
            ),
            *rest,
        ]

    def _difference(self, one: str, other: str, confidence: float) -> Metric:
        return self.lead(one, other).difference(
            BEHIND, self.scoring.with_({"confidence": confidence})
        )

    def _within(self, difference: Metric) -> bool:
        return difference.low is not None and difference.low >= -self.scoring.margin

    def _on_front(
        self, place: int, ranked: Sequence[Standing], differ: set[frozenset[str]]
    ) -> bool | None:
        row = ranked[place]
        cost = known(row.metrics, COST)
        if self.by == CONSISTENCY or cost is None:
            return None
        if not row.decision.trusted:
            return False
        for other, rival in enumerate(ranked):
            price = known(rival.metrics, COST)
            if other == place or price is None or not rival.decision.trusted:
                continue
            better = other < place and frozenset((row.job, rival.job)) in differ
            if better and (price.value or 0.0) <= (cost.value or 0.0) * (1 + 1e-9):
                return False
            as_good = rival.rank <= row.rank and clearly_cheaper(price, cost)
            if as_good and self._within(
                self._difference(rival.job, row.job, self.scoring.confidence)
            ):
                return False
        return True


def clearly_cheaper(one: Metric | None, other: Metric | None) -> bool:
    """Return whether a configuration with cost `one` is shown to cost less than one with cost `other`."""
    if one is None or other is None or one.value is None or other.value is None:
        return False
    if one.value > CHEAPER * other.value or one.value >= other.value:
        return False
    high, low = (
        (one.high, other.low)
        if one.high is not None and other.low is not None
        else (one.value, other.value)
    )
    return high < low


def _leads(
    group: Sequence[Contender], by: str | None, scoring: ScoringConfig
) -> Callable[[str, str], tests.Lead | tests.ResampledLead]:
    """Return the function from two jobs to their lead: in right or consistent pairs, or in a coefficient."""
    places = {one.job: place for place, one in enumerate(group)}
    cluster = {case: number for one in group for case, number in one.cluster.items()}
    statistic = {SPEARMAN: _spearman, KAPPA: _kappa}.get(by or "")
    if statistic is None:
        runs = tests.align(
            [one.verdicts for one in group], partial(_hit, by), cluster, missing=NONE
        )

        def counted(one: str, two: str) -> tests.Lead:
            first, second = (runs.codes[places[job]] for job in (one, two))
            return tests.Lead.of(first, second, NONE, runs.tally, runs.clusters)

        return counted
    verdicts = [
        one.verdicts if isinstance(one.verdicts, Verdicts) else [*one.verdicts]
        for one in group
    ]
    names = (case for one in verdicts for (case,) in field_values(one, "case_id"))
    numbers, clusters = tests.number_cases(names, cluster)
    values = [_value(one, by) or 0.0 for one in group]
    draws = resample([statistic(one, numbers) for one in verdicts], scoring, clusters)
    attributes = {"n": clusters.count, "limits": (-2.0, 2.0)}

    def resampled(one: str, two: str) -> tests.ResampledLead:
        first, second = (places[job] for job in (one, two))
        count = clusters.count
        return tests.ResampledLead(
            values[first] - values[second],
            draws[first] - draws[second],
            count,
            attributes,
        )

    return resampled


def _hit(by: str | None, verdict: Verdict) -> int:
    if by == CONSISTENCY:
        consistent = verdict.orders.consistent if verdict.orders else None
        return NONE if consistent is None else int(consistent)
    return (
        NONE
        if verdict.winner is None or verdict.label is None
        else int(verdict.winner == verdict.label)
    )


def _spearman(verdicts: Sequence[Verdict], numbers: Mapping[str, int]) -> Statistic:
    graded = [
        (numbers[case], score, label)
        for case, unit, score, label in field_values(
            verdicts, "case_id", "unit", "score", "label"
        )
        if len(unit) == 1 and score is not None and isinstance(label, float | int)
    ]
    columns = np.array(graded, dtype=np.float64).reshape(-1, 3).T
    return spearman_statistic(
        Tally(columns[0].astype(np.int64), len(numbers)), columns[1], columns[2]
    )


def _kappa(verdicts: Sequence[Verdict], numbers: Mapping[str, int]) -> Statistic:
    labeled = [
        (numbers[case], label, name)
        for case, label, name in field_values(
            verdicts, "case_id", "label", "class_name"
        )
        if name is not None and isinstance(label, str)
    ]
    cases, *both = zip(*labeled, strict=True)
    names, codes = np.unique(both, return_inverse=True)
    label, given = codes.reshape(2, -1)
    every = np.ones(len(label), dtype=bool)
    table = Confusion.of(
        Tally(np.array(cases), len(numbers)),
        label,
        given,
        every,
        ~every,
        range(len(names)),
    )
    return table.statistic(KAPPA, kappa, reach=None)
