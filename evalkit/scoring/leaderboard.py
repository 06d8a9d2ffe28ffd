"""Ranking of a sweep's judge configurations: significant differences, intervals of
ranks, and the Pareto front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.core.notebook_tables import Shown
from evalkit.core.types import Metric, Verdict
from evalkit.core.values import frozen
from evalkit.scoring.catalog import LEADERBOARD_COLUMNS, MAIN_COLUMNS, RANKED_BY
from evalkit.scoring.columns import NONE
from evalkit.scoring.decision import (
    BALANCED,
    KAPPA,
    USES,
    Decision,
    Metrics,
    Use,
    decide,
    known,
)
from evalkit.scoring.metrics.agreement import contradictions
from evalkit.scoring.metrics.verdict_coefficients import verdict_kappa, verdict_spearman
from evalkit.scoring.stats import paired as tests
from evalkit.scoring.stats.arrays import round_metric
from evalkit.scoring.stats.bootstrap import resample
from evalkit.scoring.stats.selection import use_as_highest
from evalkit.scoring.twins import twin_groups
from evalkit.scoring.verdicts.verdict_objects import Verdicts, field_values

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
    "only", "best", "highest", "cheaper", "luck", "unranked", "none", "undecided"
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
        use_as_highest: what its judge can be used for if it is chosen as the highest; `None` if
            that is not known.
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
    use_as_highest: Use | None = None


@frozen
class Contrast:
    """The difference of two jobs of one dataset in a metric, with the test of whether
    they differ.
    """

    first: str
    second: str
    difference: float
    test: str
    p: float | None = None
    p_holm: float | None = None


@frozen
class Contradiction:
    """A job that scores and a job that compares with the same other settings, and how
    often they contradict.
    """

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
            the useful ones are `unranked`, if the highest may be useful by `luck` only, if `none`
            can be used, or if no job is shown to be useful but some are `undecided`.
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
        """Return the group of twins that a row belongs to, itself included; empty if it
        has none.
        """
        return next((group for group in self.twins if row.job in group), ())

    def main_columns(self) -> list[str]:
        """Return the columns in which jobs differ, most important first; `by` is always
        the first.
        """
        differing = [
            name for name in self.columns if name == self.by or self._differs(name)
        ]
        positions = {name: position for position, name in enumerate(MAIN_COLUMNS)}
        return sorted(
            differing,
            key=lambda name: (name != self.by, positions.get(name, len(positions))),
        )

    @property
    def differing(self) -> set[frozenset[str]]:
        """The pairs of jobs that differ significantly."""
        return tests.differing(self.contrasts, self.confidence)

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The job to use on each dataset, in order of the datasets."""
        return tuple(
            self._choose(dataset)
            for dataset in dict.fromkeys(row.dataset for row in self.rows)
        )

    def _choose(self, dataset: str) -> Choice:
        """Return which job to use for a dataset, and which others may be better or cheaper."""
        rows = [row for row in self.folded if row.dataset == dataset]
        usable = [row for row in rows if row.decision.trusted]
        undecided = [row for row in rows if row.decision.use == "unknown"]
        if not usable:
            return Choice(
                dataset,
                "undecided" if undecided else "none",
                None,
                # The best undecided job is the one for which more labels are needed.
                (undecided or rows)[0],
            )
        top = usable[0]
        apart = {job for jobs in self.differing if top.job in jobs for job in jobs}
        rivals = tuple(
            row
            for row in (*usable[1:], *undecided)
            # An undecided job that is ranked above the top may be better, even if it
            # differs.
            if row.job not in apart or row.rank < top.rank
        )
        cheaper = tuple(
            row
            for row in usable[1:]
            # A cheaper job must be good for at least as much.
            if USES.index(row.decision.use) >= USES.index(top.decision.use)
            and clearly_cheaper(row.metrics.get(COST), top.metrics.get(COST))
        )
        if sound := [row for row in cheaper if row.non_inferior]:
            job = min(sound, key=lambda row: row.metrics[COST].value or 0.0)
            return Choice(dataset, "cheaper", job, top, rivals, cheaper)
        if len(usable) > 1 and top.letters is None:
            return Choice(dataset, "unranked", None, top, rivals)
        if top.use_as_highest in ("none", "unknown"):
            return Choice(dataset, "luck", None, top, rivals, cheaper)
        if len(usable) == 1:
            return Choice(dataset, "only", top, top, rivals)
        reason: ChoiceReason = "highest" if rivals else "best"
        return Choice(dataset, reason, top, top, rivals, cheaper)

    def _differs(self, name: str) -> bool:
        metrics = [row.metrics.get(name) for row in self.rows]
        values = {
            None if metric is None else (metric.value, metric.low, metric.high)
            for metric in metrics
        }
        return len(values) > 1 or (len(metrics) == 1 and values != {None})


def rank(contenders: Sequence[Contender], scoring: ScoringConfig) -> Leaderboard:
    """Rank a sweep's jobs by agreement with labels, or without labels by consistency of
    the two orders.

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
    # First, because the rates become metrics of the jobs.
    contradicting = _contradictions(contenders, scoring)
    contenders = [
        _with_contradiction(contender, contradicting) for contender in contenders
    ]
    by = _ranking_metric(contenders)
    columns = tuple(
        name
        for name in LEADERBOARD_COLUMNS
        if any(_value(contender, name) is not None for contender in contenders)
    )
    datasets = dict.fromkeys(contender.dataset for contender in contenders)
    groups = [_Group.of(contenders, dataset, by, scoring) for dataset in datasets]
    contrasts = tuple(
        # Holm over all datasets together: one leaderboard is one family of tests.
        tests.adjusted([contrast for group in groups for contrast in group.contrasts()])
    )
    differ = tests.differing(contrasts, scoring.confidence)
    twins = [*twin_groups(contenders)]
    repeated = {job for group in twins for job in [*group][1:]}
    rows = tuple(
        row for group in groups for row in group.standings(columns, differ, repeated)
    )
    return Leaderboard(
        by=by,
        columns=columns,
        confidence=scoring.confidence,
        rows=rows,
        contrasts=contrasts,
        margin=scoring.margin,
        contradictions=contradicting,
        twins=_twins(twins, rows),
    )


def _twins(
    twins: Sequence[Sequence[str]], rows: Sequence[Standing]
) -> tuple[tuple[str, ...], ...]:
    """Return the groups of jobs between which there is nothing to choose."""
    alike = {}
    for row in rows:
        cost = row.metrics.get(COST)
        # Equal verdicts are twins only if the decision and the cost are equal too.
        alike[row.job] = (row.decision.use, None if cost is None else cost.value)
    groups = [
        tuple(job for job in group if alike[job] == kind)
        for group in twins
        for kind in dict.fromkeys(alike[job] for job in group)
    ]
    return tuple(group for group in groups if len(group) > 1)


def _contradictions(
    contenders: Sequence[Contender], scoring: ScoringConfig
) -> tuple[Contradiction, ...]:
    """Compare each job that scores with each that compares the same cases under the
    same other settings.
    """
    return tuple(
        Contradiction(
            scorer.job,
            comparer.job,
            contradictions(scorer.verdicts, comparer.verdicts, scoring, scorer.cluster),
        )
        for scorer in contenders
        for comparer in contenders
        if scorer.mode == SCORING
        and comparer.mode
        and comparer.mode != SCORING
        and (scorer.dataset, scorer.alike) == (comparer.dataset, comparer.alike)
    )


def _with_contradiction(
    contender: Contender, measured: Sequence[Contradiction]
) -> Contender:
    """Return a job with its contradiction rates among its metrics, if it is compared
    with a single other job.
    """
    involved = [
        contradiction
        for contradiction in measured
        if contender.job in (contradiction.scores, contradiction.comparisons)
    ]
    # The metrics of a contradiction are a job's own only if it has just one.
    metrics = involved[0].metrics if len(involved) == 1 else {}
    return replace(contender, metrics={**contender.metrics, **metrics})


def _ranking_metric(contenders: Sequence[Contender]) -> str | None:
    """Return the metric that jobs are ranked by, `None` if they have no usual one."""
    # Classes: accuracy would reward a judge that always chooses the most frequent one.
    if all(BALANCED in contender.metrics for contender in contenders) and any(
        _value(contender, KAPPA) is not None for contender in contenders
    ):
        return KAPPA
    # A metric of all jobs is better than one that some lack.
    for enough in (all, any):
        for name in RANKED_BY:
            if contenders and enough(
                _value(contender, name) is not None for contender in contenders
            ):
                return name
    return None


def _value(contender: Contender, name: str | None) -> float | None:
    metric = contender.metrics.get(name) if name else None
    if metric:
        return metric.value
    return None


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
        jobs = {
            contender.job: contender
            for contender in contenders
            if contender.dataset == dataset
        }
        values = {
            job: value
            for job, contender in jobs.items()
            if (value := _value(contender, by)) is not None
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
        for (first, first_value), (second, second_value) in combinations(
            self.values.items(), 2
        ):
            p, name = self.lead(first, second).test()
            yield Contrast(
                first, second, round_metric(first_value - second_value) or 0.0, name, p
            )

    def standings(
        self, columns: Sequence[str], differ: set[frozenset[str]], repeated: set[str]
    ) -> list[Standing]:
        """Return the rows of the leaderboard, best first; `repeated` are jobs with the verdicts of
        another one.
        """
        count = len(self.jobs.keys() - repeated)
        ordered = sorted(
            self.jobs.values(),
            key=lambda contender: -self.values.get(contender.job, -np.inf),
        )
        order = [contender.job for contender in ordered if contender.job in self.values]
        letters = tests.letters(order, [pair for pair in differ if pair <= {*order}])
        rows = []
        for contender in ordered:
            row = self._standing(contender, columns, count)
            rows.append(replace(row, letters=letters.get(contender.job)))
        ranked = self._compared(rows[: len(order)], differ)
        for position in range(len(ranked)):
            front = self._on_front(position, ranked, differ)
            rows[position] = replace(ranked[position], pareto=front)
        return rows

    def _standing(
        self, contender: Contender, columns: Sequence[str], count: int
    ) -> Standing:
        """Return the row of a job, without its comparison with others."""
        confidence = self.scoring.confidence
        metrics = contender.metrics
        decision = decide(metrics, confidence)
        value = self.values.get(contender.job, -np.inf)
        # Values that differ by rounding only share a rank.
        above = sum(other > value + 1e-12 for other in self.values.values())
        return Standing(
            rank=1 + above,
            job=contender.job,
            name=contender.name,
            dataset=contender.dataset,
            metrics={name: metrics[name] for name in columns if name in metrics},
            decision=decision,
            use_as_highest=use_as_highest(metrics, decision, count, confidence),
        )

    def _compared(
        self, ranked: Sequence[Standing], differ: set[frozenset[str]]
    ) -> list[Standing]:
        """Return the rows of ranked jobs with their ranks' bounds, and how far each is behind."""
        # Bonferroni: the leader is compared with each of the others.
        level = 1 - (1 - self.scoring.confidence) / max(1, len(ranked) - 1)
        trusted = [
            position for position, row in enumerate(ranked) if row.decision.trusted
        ]
        # The leader is the best trusted job, or the first if none is trusted.
        top = trusted[0] if trusted else 0
        compared = []
        for position, row in enumerate(ranked):
            # Positions of the jobs that differ significantly from this one.
            apart = [
                index
                for index, rival in enumerate(ranked)
                if frozenset((row.job, rival.job)) in differ
            ]
            # Significantly different jobs ranked above this one.
            better = sum(index < position for index in apart)
            worse = len(apart) - better
            behind = None
            non_inferior = None
            if position != top:
                behind = self._difference(row.job, ranked[top].job, level)
                non_inferior = row.decision.trusted and self._within(behind)
            row = replace(
                row,
                rank_low=1 + better,
                rank_high=len(ranked) - worse,
                behind=behind,
                non_inferior=non_inferior,
            )
            compared.append(row)
        return compared

    def _difference(self, job: str, rival: str, confidence: float) -> Metric:
        return self.lead(job, rival).difference(
            BEHIND, self.scoring.with_({"confidence": confidence})
        )

    def _within(self, difference: Metric) -> bool:
        return difference.low is not None and difference.low >= -self.scoring.margin

    def _on_front(
        self, position: int, ranked: Sequence[Standing], differ: set[frozenset[str]]
    ) -> bool | None:
        """Return whether a job is on the front of agreement and cost; `None` if unknown.

        Args:
            position: the index of the job in `ranked`.
            ranked: the jobs, the best one first.
            differ: pairs of jobs that differ significantly.
        """
        row = ranked[position]
        cost = known(row.metrics, COST)
        # Consistency is not agreement, so it says nothing about the best judge for its price.
        if self.by == CONSISTENCY or cost is None:
            return None
        if not row.decision.trusted:
            return False
        for rival_position, rival in enumerate(ranked):
            price = known(rival.metrics, COST)
            if (
                rival_position == position
                or price is None
                or not rival.decision.trusted
            ):
                continue
            # The first way off the front: a job that is significantly better for no more.
            better = (
                rival_position < position and frozenset((row.job, rival.job)) in differ
            )
            if better and (price.value or 0.0) <= (cost.value or 0.0) * (1 + 1e-9):
                return False
            # The second way: a clearly cheaper job that is not worse by more than the margin.
            as_good = rival.rank <= row.rank and clearly_cheaper(price, cost)
            if as_good and self._within(
                self._difference(rival.job, row.job, self.scoring.confidence)
            ):
                return False
        return True


def clearly_cheaper(cost: Metric | None, reference: Metric | None) -> bool:
    """Return whether a configuration with cost `cost` is shown to cost less than one
    with cost `reference`.
    """
    if (
        cost is None
        or reference is None
        or cost.value is None
        or reference.value is None
    ):
        return False
    # The value must be lower by enough to matter; then the intervals must be apart.
    if cost.value > CHEAPER * reference.value or cost.value >= reference.value:
        return False
    # Without intervals, the values decide.
    high, low = (
        (cost.high, reference.low)
        if cost.high is not None and reference.low is not None
        else (cost.value, reference.value)
    )
    return high < low


def _leads(
    group: Sequence[Contender], by: str | None, scoring: ScoringConfig
) -> Callable[[str, str], tests.Lead | tests.ResampledLead]:
    """Return the function from two jobs to their lead: in right or consistent pairs, or
    in a coefficient.
    """
    positions = {contender.job: position for position, contender in enumerate(group)}
    cluster = {
        case: number
        for contender in group
        for case, number in contender.cluster.items()
    }
    # Coefficients need resampling; rates are compared pair by pair.
    statistic = {SPEARMAN: verdict_spearman, KAPPA: verdict_kappa}.get(by or "")
    if statistic is None:
        runs = tests.align(
            [contender.verdicts for contender in group],
            partial(_hit, by),
            cluster,
            missing=NONE,
        )

        def counted(leader: str, rival: str) -> tests.Lead:
            # (verdicts,) hits of both jobs, aligned: 1, 0 or NONE.
            first, second = (runs.codes[positions[job]] for job in (leader, rival))
            return tests.Lead.of(first, second, NONE, runs.tally, runs.clusters)

        return counted
    verdicts = [
        contender.verdicts
        if isinstance(contender.verdicts, Verdicts)
        else [*contender.verdicts]
        for contender in group
    ]
    # All cases of all jobs, so that the same cases have the same numbers.
    names = (
        case
        for job_verdicts in verdicts
        for (case,) in field_values(job_verdicts, "case_id")
    )
    numbers, clusters = tests.number_cases(names, cluster)
    values = [_value(contender, by) or 0.0 for contender in group]
    # shape (jobs, resamples)
    # All jobs are resampled together, so that differences are paired.
    draws = resample(
        [statistic(job_verdicts, numbers) for job_verdicts in verdicts],
        scoring,
        clusters,
    )
    # A difference of two coefficients in [-1, 1].
    attributes = {"n": clusters.count, "limits": (-2.0, 2.0)}

    def resampled(leader: str, rival: str) -> tests.ResampledLead:
        first, second = (positions[job] for job in (leader, rival))
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
    if verdict.winner is None or verdict.label is None:
        return NONE
    return int(verdict.winner == verdict.label)
