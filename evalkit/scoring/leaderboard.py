"""Ranking of a sweep's judge configurations: significant differences, intervals of ranks, and the Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import combinations
from typing import Literal, Protocol, TypeAlias

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.decision import BALANCED, KAPPA, USES, Decision, Metrics, decide
from evalkit.results import Shown
from evalkit.scoring.catalog import LEADERBOARD_COLUMNS, MAIN_COLUMNS, RANKED_BY
from evalkit.scoring.columns import NONE
from evalkit.scoring.metrics.agreement import contradictions
from evalkit.scoring.metrics.correlation import spearman_statistic
from evalkit.scoring.stats import coefficients
from evalkit.scoring.stats import paired as tests
from evalkit.scoring.stats.arrays import round_metric
from evalkit.scoring.stats.bootstrap import Statistic, Tally, measure, metric_of_draws, resample
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.verdicts.objects import Verdicts, field_values
from evalkit.types import Metric, Verdict
from evalkit.values import frozen

ACCURACY, SPEARMAN, CONSISTENCY = "agreement/accuracy", "agreement/spearman", "position/consistency"
COST = "cost/per_case"
CONTRADICTION = "between/contradiction"
SCORING = "pointwise"
"""The mode that scores each response."""
BEHIND = "leaderboard/behind_best"
ChoiceReason: TypeAlias = Literal["only", "best", "highest", "cheaper", "unranked", "none", "undecided"]
CHEAPER = 0.95
"""A configuration is cheaper than another at this share of its cost or less, if their intervals do not overlap."""


class _Paired(Protocol):
    """Jobs of one dataset, by name, compared cluster by cluster."""

    def test(self, one: str, two: str) -> tuple[float | None, str]:
        """Return the p-value of the hypothesis that two jobs do not differ, and the name of the test."""

    def difference(self, one: str, two: str, confidence: float) -> Metric:
        """Return the first job's value less the second's over the units that both read, with its interval."""


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
        pareto: whether its judge can be used and no other such configuration of its dataset is shown to agree as well
            for less, or better for no more; `None` if agreement or cost is unknown.
        rank_low: the lower end of the rank's interval.
        rank_high: the upper end of the rank's interval.
        decision: what may be concluded about its judge.
        behind: its paired difference from the highest configuration whose judge can be used, or from the highest.
        non_inferior: whether its judge can be used and it is shown to be at most `scoring.margin` behind.
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
        reason: `only` this job is shown to be useful; it is the `best`, as every other is shown to be worse or of no
            use; it is the `highest` of those shown to be useful; or it is `cheaper` than the highest and not worse by
            more than the margin. No job is chosen if the useful ones are `unranked`, if `none` can be used, or if no
            job is shown to be useful but some are `undecided`.
        job: the job to use; `None` if no job is chosen.
        top: the first job, in order of rank, of those that can be used, otherwise of those that are undecided,
            otherwise of all.
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
            raise ValueError(f"job {self.job.job} is chosen, but its decision is {self.job.decision.use}")


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
        contradictions: each job that scores with each that compares, if their other settings are the same.
    """

    by: str | None
    columns: tuple[str, ...]
    confidence: float
    rows: tuple[Standing, ...]
    contrasts: tuple[Contrast, ...] = field(default=())
    margin: float = 0.05
    contradictions: tuple[Contradiction, ...] = field(default=())

    def main_columns(self) -> list[str]:
        """Return the columns in which jobs differ, most important first; `by` is always the first."""
        wanted = [name for name in self.columns if name == self.by or self._differs(name)]
        places = {name: place for place, name in enumerate(MAIN_COLUMNS)}
        return sorted(wanted, key=lambda name: (name != self.by, places.get(name, len(places))))

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The job to use on each dataset, in order of the datasets."""
        return tuple(self._choice(dataset) for dataset in dict.fromkeys(row.dataset for row in self.rows))

    def _choice(self, dataset: str) -> Choice:
        rows = [row for row in self.rows if row.dataset == dataset]
        usable = [row for row in rows if row.decision.trusted]
        undecided = [row for row in rows if row.decision.use == "unknown"]
        if not usable:
            return Choice(dataset, "undecided" if undecided else "none", None, (undecided or rows)[0])
        top = usable[0]
        alpha = 1 - self.confidence
        differ = [{c.first, c.second} for c in self.contrasts if c.p_holm is not None and c.p_holm <= alpha]
        apart = {job for jobs in differ if top.job in jobs for job in jobs}
        rivals = tuple(row for row in (*usable[1:], *undecided) if row.job not in apart or row.rank < top.rank)
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
        return Choice(dataset, "highest" if rivals else "best", top, top, rivals, cheaper)

    def _differs(self, name: str) -> bool:
        metrics = [row.metrics.get(name) for row in self.rows]
        found = {None if one is None else (one.value, one.low, one.high) for one in metrics}
        return len(found) > 1 or (len(metrics) == 1 and found != {None})


def rank(contenders: Sequence[Contender], scoring: ScoringConfig) -> Leaderboard:
    """Rank a sweep's jobs by agreement with labels, or without labels by consistency of the two orders.

    Jobs that choose classes are ranked by kappa, because a judge that always chooses the most frequent class can have a
    high accuracy. Accuracy and consistency are tested by McNemar's test over the pairs that both jobs read, kappa and
    Spearman's rho by the paired bootstrap, all over clusters of cases. The p-values are adjusted over all pairs of jobs
    on one dataset (Holm), and jobs with a p-value above 1 - `scoring.confidence` share a letter (Piepho 2004).

    Ranks have simultaneous intervals from the same tests: from 1 plus the number of significantly better jobs to the
    number of jobs that are not significantly worse (Al Mohamad, van Zwet, Solari and Goeman 2021, Electron. J. Statist.
    15, 2608-2646). The difference from the best job has an interval that is valid for all jobs of its dataset together
    (Bonferroni): Tango's for paired proportions, or the paired bootstrap. Non-inferiority is decided by its lower end.
    """
    found_against = _contradictions(contenders, scoring)
    contenders = [_with_contradiction(one, found_against) for one in contenders]
    by = _ranked_by(contenders)
    columns = tuple(name for name in LEADERBOARD_COLUMNS if any(_value(one, name) is not None for one in contenders))
    groups = {name: [one for one in contenders if one.dataset == name] for name in _unique(contenders)}
    known = {name: [one for one in group if _value(one, by) is not None] for name, group in groups.items()}
    paired = {name: _paired(ranked, by, scoring) for name, ranked in known.items()}
    found = [contrast for name, ranked in known.items() for contrast in _contrasts(ranked, by, paired[name])]
    adjusted = tests.holm([contrast.p for contrast in found])
    contrasts = tuple(
        Contrast(c.first, c.second, c.difference, c.test, c.p, p) for c, p in zip(found, adjusted, strict=True)
    )
    alpha = 1 - scoring.confidence
    differ = {frozenset((c.first, c.second)) for c in contrasts if c.p_holm is not None and c.p_holm <= alpha}
    rows = [
        row for name, group in groups.items() for row in _standings(group, by, columns, differ, paired[name], scoring)
    ]
    return Leaderboard(by, columns, scoring.confidence, tuple(rows), contrasts, scoring.margin, found_against)


def _contradictions(contenders: Sequence[Contender], scoring: ScoringConfig) -> tuple[Contradiction, ...]:
    """Compare each job that scores with each that compares the same cases under the same other settings."""
    return tuple(
        Contradiction(one.job, two.job, contradictions(one.verdicts, two.verdicts, scoring, one.cluster)[0])
        for one in contenders
        for two in contenders
        if one.mode == SCORING
        and two.mode
        and two.mode != SCORING
        and (one.dataset, one.alike) == (two.dataset, two.alike)
    )


def _with_contradiction(contender: Contender, found: Sequence[Contradiction]) -> Contender:
    """Return a job with its contradiction rates among its metrics, if it is compared with a single other job."""
    own = [one for one in found if contender.job in (one.scores, one.comparisons)]
    return replace(contender, metrics={**contender.metrics, **own[0].metrics}) if len(own) == 1 else contender


def _ranked_by(contenders: Sequence[Contender]) -> str | None:
    if all(BALANCED in one.metrics for one in contenders) and any(_value(one, KAPPA) is not None for one in contenders):
        return KAPPA
    for known in (all, any):
        for name in RANKED_BY:
            if contenders and known(_value(one, name) is not None for one in contenders):
                return name
    return None


def _unique(contenders: Sequence[Contender]) -> list[str]:
    return list(dict.fromkeys(one.dataset for one in contenders))


def _value(contender: Contender, name: str | None) -> float | None:
    metric = contender.metrics.get(name) if name else None
    return metric.value if metric else None


def _standings(
    group: Sequence[Contender],
    by: str | None,
    columns: Sequence[str],
    differ: set[frozenset[str]],
    paired: _Paired | None,
    scoring: ScoringConfig,
) -> list[Standing]:
    known = [one for one in group if _value(one, by) is not None]
    ordered = sorted(known, key=lambda one: -(_value(one, by) or 0.0))
    shown = tests.letters([one.job for one in ordered], [p for p in differ if p <= {one.job for one in ordered}])
    places = {one.job: 1 + sum(_above(other, one, by) for other in known) for one in known}
    rest = [one for one in group if _value(one, by) is None]
    found = [
        Standing(
            rank=places.get(one.job, len(known) + 1),
            job=one.job,
            name=one.name,
            dataset=one.dataset,
            metrics={name: one.metrics[name] for name in columns if name in one.metrics},
            letters=shown.get(one.job),
            decision=decide(one.metrics, scoring.confidence),
        )
        for one in [*ordered, *rest]
    ]
    ranked = _with_intervals(found[: len(ordered)], by, differ, paired, scoring)
    return [*ranked, *found[len(ordered) :]]


def _with_intervals(
    ranked: Sequence[Standing],
    by: str | None,
    differ: set[frozenset[str]],
    paired: _Paired | None,
    scoring: ScoringConfig,
) -> list[Standing]:
    """Return the rows with the intervals of ranks, the differences from the best, and the Pareto front."""
    alpha = (1 - scoring.confidence) / max(1, len(ranked) - 1)
    top = next((place for place, row in enumerate(ranked) if row.decision.trusted), 0)
    found = []
    for place, row in enumerate(ranked):
        different = [other for other, rival in enumerate(ranked) if frozenset((row.job, rival.job)) in differ]
        better = sum(other < place for other in different)
        behind = None
        if place != top and paired is not None:
            behind = paired.difference(row.job, ranked[top].job, 1 - alpha)
        found.append(
            replace(
                row,
                rank_low=1 + better,
                rank_high=len(ranked) - (len(different) - better),
                behind=behind,
                non_inferior=None if behind is None else row.decision.trusted and _within(behind, scoring.margin),
            )
        )
    fronts = [_on_front(place, found, by, differ, paired, scoring) for place in range(len(found))]
    return [replace(row, pareto=pareto) for row, pareto in zip(found, fronts, strict=True)]


def _within(difference: Metric, margin: float) -> bool:
    return difference.low is not None and difference.low >= -margin


def _above(one: Contender, other: Contender, by: str | None) -> bool:
    return (_value(one, by) or 0.0) > (_value(other, by) or 0.0) + 1e-12


def clearly_cheaper(one: Metric | None, other: Metric | None) -> bool:
    """Return whether a configuration with cost `one` is shown to cost less than one with cost `other`."""
    if one is None or other is None or one.value is None or other.value is None:
        return False
    if one.value > CHEAPER * other.value or one.value >= other.value:
        return False
    high, low = (one.high, other.low) if one.high is not None and other.low is not None else (one.value, other.value)
    return high < low


def _on_front(
    place: int,
    rows: Sequence[Standing],
    by: str | None,
    differ: set[frozenset[str]],
    paired: _Paired | None,
    scoring: ScoringConfig,
) -> bool | None:
    row = rows[place]
    cost = row.metrics.get(COST)
    if by in (None, CONSISTENCY) or cost is None or cost.value is None:
        return None
    if not row.decision.trusted:
        return False
    for other, rival in enumerate(rows):
        price = rival.metrics.get(COST)
        if other == place or price is None or price.value is None or not rival.decision.trusted:
            continue
        better = other < place and frozenset((row.job, rival.job)) in differ
        if better and price.value <= cost.value * (1 + 1e-9):
            return False
        as_good = rival.rank <= row.rank and clearly_cheaper(price, cost) and paired is not None
        if as_good and paired and _within(paired.difference(rival.job, row.job, scoring.confidence), scoring.margin):
            return False
    return True


def _contrasts(known: Sequence[Contender], by: str | None, paired: _Paired | None) -> list[Contrast]:
    if paired is None:
        return []
    found = []
    for first, second in combinations(known, 2):
        p, name = paired.test(first.job, second.job)
        difference = round_metric((_value(first, by) or 0.0) - (_value(second, by) or 0.0))
        found.append(Contrast(first.job, second.job, difference or 0.0, name, None if p is None else float(p)))
    return found


def _paired(group: Sequence[Contender], by: str | None, scoring: ScoringConfig) -> _Paired | None:
    """Return the jobs compared pair by pair; `None` if there are fewer than two."""
    if by is None or len(group) < 2:
        return None
    statistic = {SPEARMAN: _spearman, KAPPA: _kappa}.get(by)
    return _Counts(group, by, scoring) if statistic is None else _Coefficients(group, by, statistic, scoring)


class _Counts:
    """Jobs compared by the number of correct pairs among those that both read."""

    def __init__(self, group: Sequence[Contender], by: str, scoring: ScoringConfig) -> None:
        self._scoring = scoring
        self._at = {one.job: place for place, one in enumerate(group)}
        self._runs = tests.align(
            [one.verdicts for one in group], lambda verdict: _hit(verdict, by), _clusters(group), missing=NONE
        )

    def _lead(self, one: str, two: str) -> tests.Lead:
        first, second = self._runs.codes[self._at[one]], self._runs.codes[self._at[two]]
        read = (first != NONE) & (second != NONE)
        return tests.Lead.of(first, second, read, self._runs.tally, self._runs.clusters)

    def test(self, one: str, two: str) -> tuple[float | None, str]:
        """Return McNemar's test."""
        return self._lead(one, two).test()

    def difference(self, one: str, two: str, confidence: float) -> Metric:
        """Return the difference with Tango's interval, as wide as resampling needs if clusters hold several pairs."""
        lead, clusters = self._lead(one, two), self._runs.clusters
        size = clusters.sums(self._runs.tally(lead.read))
        n, read = lead.n, int(np.count_nonzero(size))
        if not n:
            return Metric(BEHIND, None, note="no pair was read in both")
        share = read / n  # a cluster counts once, however many pairs it has
        low, high = tests.tango(lead.only[0] * share, lead.only[1] * share, read, confidence)
        if size.max() > 1:
            scoring = self._scoring.model_copy(update={"confidence": confidence})
            resampled = measure([lead.mean(BEHIND)], scoring, clusters)[BEHIND]
            if resampled.low is not None and resampled.high is not None:
                low, high = min(low, resampled.low), max(high, resampled.high)
        return Metric(BEHIND, round_metric(lead.value.sum() / n), round_metric(low), round_metric(high), n)


def _hit(verdict: Verdict, by: str) -> int:
    if by == CONSISTENCY:
        consistent = verdict.orders.consistent if verdict.orders else None
        return NONE if consistent is None else int(consistent)
    return NONE if verdict.winner is None or verdict.label is None else int(verdict.winner == verdict.label)


def _clusters(group: Sequence[Contender]) -> dict[str, int]:
    return {case: number for one in group for case, number in one.cluster.items()}


class _Coefficients:
    """Jobs compared by the paired bootstrap of a coefficient, with the same resamples of clusters for each."""

    def __init__(
        self,
        group: Sequence[Contender],
        by: str,
        statistic: Callable[[Contender, Mapping[str, int]], Statistic],
        scoring: ScoringConfig,
    ) -> None:
        group = [
            one if isinstance(one.verdicts, Verdicts) else replace(one, verdicts=list(one.verdicts)) for one in group
        ]
        names = (case for one in group for (case,) in field_values(one.verdicts, "case_id"))
        numbers, clusters = tests.number_cases(names, _clusters(group))
        self._scoring, self._clusters = scoring, clusters.count
        self._values = {one.job: _value(one, by) or 0.0 for one in group}
        draws = resample([statistic(one, numbers) for one in group], scoring, clusters)
        self._draws = {one.job: row for one, row in zip(group, draws, strict=True)}

    def test(self, one: str, two: str) -> tuple[float | None, str]:
        """Return the bootstrap's test."""
        return tests.by_resampling(self._draws[one] - self._draws[two], self._clusters)

    def difference(self, one: str, two: str, confidence: float) -> Metric:
        """Return the difference with its expanded percentile interval."""
        value, resampled = self._values[one] - self._values[two], self._draws[one] - self._draws[two]
        scoring, count = self._scoring.model_copy(update={"confidence": confidence}), self._clusters
        every, each = np.ones(count, dtype=bool), Clusters.each(count)
        return metric_of_draws(BEHIND, value, resampled, every, scoring, each, n=count, limits=(-2.0, 2.0))


def _spearman(one: Contender, numbers: Mapping[str, int]) -> Statistic:
    graded = [
        (numbers[case], score, label)
        for case, unit, score, label in field_values(one.verdicts, "case_id", "unit", "score", "label")
        if len(unit) == 1 and score is not None and isinstance(label, float | int)
    ]
    columns = np.array(graded, dtype=np.float64).reshape(-1, 3).T
    return spearman_statistic(Tally(columns[0].astype(np.int64), len(numbers)), columns[1], columns[2])


def _kappa(one: Contender, numbers: Mapping[str, int]) -> Statistic:
    labeled = [
        (numbers[case], label, given)
        for case, label, given in field_values(one.verdicts, "case_id", "label", "class_name")
        if given is not None and isinstance(label, str)
    ]
    names = {name: code for code, name in enumerate(sorted({name for _, *both in labeled for name in both}))}
    tally = Tally(np.array([case for case, *_ in labeled], dtype=np.int64), len(numbers))
    cell = np.array([names[label] * len(names) + names[given] for _, label, given in labeled], dtype=np.int64)
    cells = [tally(cell == number) for number in range(len(names) ** 2)]
    return Statistic(KAPPA, np.stack(cells, axis=1), coefficients.kappa, len(labeled))
