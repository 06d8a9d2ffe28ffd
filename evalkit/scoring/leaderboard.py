"""The judge configurations of a sweep in order: who is distinguishable from whom, and whom nobody beats for less."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.scoring import paired_tests as tests
from evalkit.scoring.bootstrap import resample
from evalkit.scoring.columns import NONE, Codes, Floats, Ints
from evalkit.scoring.correlation import spearman_statistic
from evalkit.scoring.values import tidy
from evalkit.types import Metric, Verdict

ACCURACY, SPEARMAN, CONSISTENCY = "agreement/accuracy", "agreement/spearman", "position/consistency"
COST = "cost/per_case"
RANKED_BY = (ACCURACY, SPEARMAN, CONSISTENCY)
"""What configurations are ranked by: the first that every job has, else the first that any has."""
COLUMNS = (
    ACCURACY,
    "agreement/accuracy_per_order",
    "agreement/accuracy_both_orders",
    "agreement/kappa",
    SPEARMAN,
    CONSISTENCY,
    "position/first_rate",
    "length/longer_rate",
    "tie_rate",
    "conflict/ratio",
    COST,
    "latency/per_case",
)
"""The metrics of a leaderboard, in order; those that no job has are left out of it."""

_Test: TypeAlias = Callable[[int, int], tuple[float | None, str]]


@dataclass(frozen=True, slots=True)
class Contender:
    """One job of a sweep: `job` is its folder's name in the sweep, `name` what differs, `dataset` the fingerprint."""

    job: str
    name: str
    dataset: str
    metrics: Mapping[str, Metric]
    verdicts: Sequence[Verdict]


@dataclass(frozen=True, slots=True)
class Standing:
    """One line of a leaderboard.

    `rank` counts from 1 within a dataset; configurations of one dataset that share one of the `letters` cannot be told
    apart. `pareto` says that no other of its dataset agrees at least as well for less, or better for no more; none
    where agreement or cost is not known.
    """

    rank: int
    job: str
    name: str
    dataset: str
    metrics: Mapping[str, Metric]
    letters: str | None = None
    pareto: bool | None = None


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two jobs of one dataset: the first's metric less the second's, and how sure it is that they differ at all."""

    first: str
    second: str
    difference: float
    test: str
    p: float | None = None
    p_holm: float | None = None


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """A sweep's configurations, best first within each dataset; `by` is what they are ranked by, none if nothing is.

    `contrasts` holds every pair of jobs on one dataset; their p-values are adjusted together (Holm).
    """

    by: str | None
    columns: tuple[str, ...]
    confidence: float
    rows: tuple[Standing, ...]
    contrasts: tuple[Contrast, ...] = field(default=())


def rank(contenders: Sequence[Contender], scoring: ScoringConfig) -> Leaderboard:
    """Rank a sweep's jobs by agreement with people, or without labels by agreement of the two orders.

    Accuracy and consistency are tested by McNemar's test over the pairs that both jobs read, Spearman's rho by the
    paired bootstrap with the seed and number of resamples of `scoring`; p-values are adjusted over all pairs of jobs
    on one dataset (Holm), and those above 1 - `scoring.confidence` share a letter (Piepho 2004).
    """
    by = _ranked_by(contenders)
    columns = tuple(name for name in COLUMNS if any(_value(one, name) is not None for one in contenders))
    groups = {name: [one for one in contenders if one.dataset == name] for name in _unique(contenders)}
    found = [contrast for group in groups.values() for contrast in _contrasts(group, by, scoring)]
    adjusted = tests.holm([contrast.p for contrast in found])
    contrasts = tuple(
        Contrast(c.first, c.second, c.difference, c.test, c.p, p) for c, p in zip(found, adjusted, strict=True)
    )
    alpha = 1 - scoring.confidence
    differ = {frozenset((c.first, c.second)) for c in contrasts if c.p_holm is not None and c.p_holm <= alpha}
    rows = [row for group in groups.values() for row in _standings(group, by, columns, differ)]
    return Leaderboard(by, columns, scoring.confidence, tuple(rows), contrasts)


def _ranked_by(contenders: Sequence[Contender]) -> str | None:
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
    group: Sequence[Contender], by: str | None, columns: Sequence[str], differ: set[frozenset[str]]
) -> list[Standing]:
    known = [one for one in group if _value(one, by) is not None]
    ordered = sorted(known, key=lambda one: -(_value(one, by) or 0.0))
    shown = tests.letters([one.job for one in ordered], [p for p in differ if p <= {one.job for one in ordered}])
    places = {one.job: 1 + sum(_above(other, one, by) for other in known) for one in known}
    rest = [one for one in group if _value(one, by) is None]
    return [
        Standing(
            rank=places.get(one.job, len(known) + 1),
            job=one.job,
            name=one.name,
            dataset=one.dataset,
            metrics={name: one.metrics[name] for name in columns if name in one.metrics},
            letters=shown.get(one.job),
            pareto=_undominated(one, known, by),
        )
        for one in [*ordered, *rest]
    ]


def _above(one: Contender, other: Contender, by: str | None) -> bool:
    return (_value(one, by) or 0.0) > (_value(other, by) or 0.0) + 1e-12


def _undominated(one: Contender, others: Sequence[Contender], by: str | None) -> bool | None:
    value, cost = _value(one, by), _value(one, COST)
    if value is None or cost is None:
        return None
    for other in others:
        better, cheaper = _value(other, by), _value(other, COST)
        if better is None or cheaper is None:
            continue
        no_worse = better >= value - 1e-12 and cheaper <= cost * (1 + 1e-9)
        if no_worse and (better > value + 1e-12 or cheaper < cost * (1 - 1e-9)):
            return False
    return True


def _contrasts(group: Sequence[Contender], by: str | None, scoring: ScoringConfig) -> list[Contrast]:
    known = [one for one in group if _value(one, by) is not None]
    if by is None or len(known) < 2:
        return []
    test = _by_resampling(known, scoring) if by == SPEARMAN else _by_counting(known, by)
    found = []
    for one, two in combinations(range(len(known)), 2):
        first, second = known[one], known[two]
        p, name = test(one, two)
        difference = tidy((_value(first, by) or 0.0) - (_value(second, by) or 0.0))
        found.append(Contrast(first.job, second.job, difference or 0.0, name, None if p is None else float(p)))
    return found


def _by_counting(group: Sequence[Contender], by: str) -> _Test:
    """Return McNemar's test of two jobs over the pairs that both read; all jobs' hits are lined up once."""
    units = {(v.case_id, v.unit): None for one in group for v in one.verdicts if len(v.unit) == 2}
    places = {unit: place for place, unit in enumerate(units)}
    numbers = {case: number for number, case in enumerate(dict.fromkeys(case for case, _ in units))}
    case: Ints = np.array([numbers[name] for name, _ in units], dtype=np.int64)
    hits = np.full((len(group), len(units)), NONE, dtype=np.int8)
    for row, one in zip(hits, group, strict=True):
        for verdict in one.verdicts:
            if len(verdict.unit) == 2:
                row[places[verdict.case_id, verdict.unit]] = _hit(verdict, by)
    return lambda one, two: tests.mcnemar(_lead(hits[one], hits[two], case, len(numbers)))


def _hit(verdict: Verdict, by: str) -> int:
    if by == CONSISTENCY:
        consistent = verdict.orders.consistent if verdict.orders else None
        return NONE if consistent is None else int(consistent)
    return NONE if verdict.winner is None or verdict.label is None else int(verdict.winner == verdict.label)


def _lead(one: Codes, two: Codes, case: Ints, cases: int) -> Ints:
    used = (one != NONE) & (two != NONE)
    lead = np.where(used, one.astype(np.int64) - two, 0)
    return np.bincount(case, weights=lead, minlength=cases).astype(np.int64)


def _by_resampling(group: Sequence[Contender], scoring: ScoringConfig) -> _Test:
    """Return the paired bootstrap of two jobs' correlations: the same resamples of cases for each."""
    numbers = {case: n for n, case in enumerate(dict.fromkeys(v.case_id for one in group for v in one.verdicts))}
    draws = [_correlations(one, numbers, scoring) for one in group]
    return lambda one, two: tests.by_resampling(draws[one] - draws[two])


def _correlations(one: Contender, numbers: Mapping[str, int], scoring: ScoringConfig) -> Floats:
    graded = [v for v in one.verdicts if len(v.unit) == 1 and v.score is not None and isinstance(v.label, float | int)]
    statistic = spearman_statistic(
        np.array([numbers[v.case_id] for v in graded], dtype=np.int64),
        np.array([v.score for v in graded], dtype=np.float64),
        np.array([v.label for v in graded], dtype=np.float64),
        len(numbers),
    )
    drawn: Floats = resample([statistic], scoring, len(numbers))[0]
    return drawn
