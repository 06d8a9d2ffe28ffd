"""Repeated requests: the spread and flips of samples, variance components, and just-noticeable differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from math import ceil, prod, sqrt
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.core.types import Case
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.columns import TIE, ClassColumns, VerdictColumns
from evalkit.scoring.judgments import MISSING, JudgmentColumns, of_one_judge
from evalkit.scoring.metrics.ranking import (
    Games,
    by_value,
    games_of,
    rank_systems,
    standing,
)
from evalkit.scoring.stats.arrays import (
    FUZZ,
    Bools,
    Floats,
    Ints,
    divide,
    round_metric,
    runs,
)
from evalkit.scoring.stats.bootstrap import (
    SharedStatistic,
    Statistic,
    Table,
    Tabled,
    Tally,
    ratio,
    undefined,
)
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.coefficients import Confusion, alpha_of_numbers
from evalkit.scoring.verdicts.pairs import (
    at_threshold,
    judgment_scores,
    judgment_values,
    pair_margins,
    passes_of,
    useful_thresholds,
    winner_values,
)

SAMPLES_UNREAD = "no question has two readable samples"


def sample_statistics(config: RunConfig, single: VerdictColumns) -> list[Statistic]:
    """Return `samples/spread`, `samples/flip_rate`, `samples/unanimous` and `samples/alpha`.

    They are computed over questions with at least two readable samples. A question is one order of
    a pair, or one response. The spread is the mean standard deviation (n - 1) of a question's
    samples, in margin or scale units. The flip rate is the probability that two samples of a
    question differ in the winner (pairs) or the score (responses): the mean share of differing
    pairs of samples, which does not depend on the number of samples. Questions are unanimous if all
    their samples agree. Alpha corrects the agreement of samples for chance.
    """
    if config.mode.samples < 2:
        return []
    verdicts = single
    judgments = single.judgments
    pairs = single.pairs
    scored = single.scores
    value = result = judgment_values(config, verdicts)
    if verdicts.passes is None and scored is not None:
        question = scored.offset[judgments.case] + judgments.i
        case = scored.case
        span = Scale.of(config.rubric).span
    else:
        question = passes_of(judgments, pairs)
        case = np.repeat(pairs.case, 2)
        result = winner_values(value)
        span = 2.0
    repeats = Repeats.of(question, value, verdicts.tally.of(case))
    # Two samples at opposite ends differ most.
    ends = (0.0, span / np.sqrt(2.0)) if np.isfinite(span) else None
    spread = repeats.mean("spread", repeats.deviation(), span=ends, limits=ends)
    result = np.where(np.isfinite(value), result, np.nan)
    return [
        spread,
        *_agreement(question, result, repeats.tally, numbers=verdicts.passes is None),
    ]


def class_sample_statistics(
    config: RunConfig, classes: ClassColumns, judgments: JudgmentColumns
) -> list[Statistic]:
    """Return `samples/flip_rate`, `samples/unanimous` and `samples/alpha` of one judge's classes of each response.

    An abstention is one of the answers that two samples can agree on.
    """
    if config.mode.samples < 2 or classes.votes:
        return []
    assert judgments.choice is not None  # read with the classes
    question = classes.rows(judgments)
    read = judgments.readable & (judgments.choice != MISSING)
    return _agreement(
        question, np.where(read, judgments.choice, np.nan), classes.tally, numbers=False
    )


def _agreement(
    question: Ints, result: Floats, tally: Tally, *, numbers: bool
) -> list[Statistic]:
    """Return how often two samples of a question differ, are all equal, and agree beyond chance.

    Args:
        question: (n,) the question of each sample.
        result: (n,) its result, NaN if it is missing.
        tally: the case of each question.
        numbers: whether results are numbers, with distances, or else codes.
    """
    repeats = Repeats.of(question, result, tally)
    different = repeats.flips()
    missing = int(repeats.omitted.sum())
    attributes = {
        "n": int(repeats.several.sum()),
        "missing": missing,
        "reach": None,
        "note": "missing samples are omitted and not bounded" if missing else None,
        "why": "all samples are equal" if repeats.several.any() else SAMPLES_UNREAD,
    }
    if numbers:
        coefficients = [
            alpha_of_numbers(
                "samples/alpha", repeats.value, repeats.question, tally, **attributes
            )
        ]
    else:
        _, code = np.unique(repeats.value, return_inverse=True)
        # shape (questions, codes)
        counts = np.zeros((len(tally.case), int(code.max(initial=0)) + 1))
        np.add.at(counts, (repeats.question, code), 1.0)
        coefficients = Confusion.among(counts, tally).coefficients(
            "samples", "samples", **attributes
        )
    return [
        repeats.mean("flip_rate", different, span=(0.0, 1.0), proportion=True),
        tally.rate(
            "samples/unanimous",
            different == 0,
            repeats.several,
            repeats.omitted,
            why=SAMPLES_UNREAD,
        ),
        *coefficients,
    ]


@frozen
class Repeats:
    """The readable samples of each question.

    Attributes:
        question: (n,) the question of each sample.
        value: (n,) its value.
        read: (questions,) the number of samples.
        omitted: (questions,) whether several samples were asked and fewer than two could be read.
        tally: the case of each question.
    """

    question: Ints
    value: Floats
    read: Ints
    omitted: Bools
    tally: Tally

    @classmethod
    def of(cls, question: Ints, value: Floats, tally: Tally) -> Repeats:
        """Return the samples with a value, which is NaN if it is missing."""
        finite = np.isfinite(value)
        # shape (questions,): number of samples, and of those with a value
        requested, read = (
            np.bincount(rows, minlength=len(tally.case))
            for rows in (question, question[finite])
        )
        return cls(
            question[finite], value[finite], read, (read < 2) & (requested > 1), tally
        )

    @property
    def several(self) -> Bools:
        """Which questions have at least two samples, (questions,)."""
        return np.asarray(self.read > 1)

    def mean(self, name: str, values: Floats, **attributes: Any) -> Statistic:
        """Return the mean of numbers of questions (questions,) over those with at least two samples."""
        return self.tally.mean(
            f"samples/{name}",
            values,
            self.several,
            self.omitted,
            why=SAMPLES_UNREAD,
            **attributes,
        )

    def deviation(self) -> Floats:
        """Return the standard deviation (n - 1) of each question's samples, (questions,)."""
        size = len(self.read)
        mean = np.bincount(
            self.question, weights=self.value, minlength=size
        ) / np.maximum(self.read, 1)
        squares = np.bincount(
            self.question,
            weights=(self.value - mean[self.question]) ** 2,
            minlength=size,
        )
        return np.asarray(np.sqrt(squares / np.maximum(self.read - 1, 1)))

    def flips(self) -> Floats:
        """Return the share of each question's pairs of samples that differ, (questions,)."""
        order = np.lexsort((self.value, self.question))
        # group: question of each run of equal samples; length: samples in the run
        group, _, length = runs(self.question[order], self.value[order])
        same = np.bincount(
            group, weights=length * (length - 1), minlength=len(self.read)
        )
        return np.asarray(1 - same / np.maximum(self.read * (self.read - 1), 1))


Effect: TypeAlias = tuple[int, frozenset[str]]
"""The depth (0 none, 1 case, 2 unit within the case) and the facets of a variance component."""
NO_EFFECT: Effect = (0, frozenset())


@frozen
class Observations:
    """Values and their design.

    Attributes:
        value: (n,) the values, NaN if missing.
        case: (n,) the case of each.
        unit: (n,) the unit of each, numbered across cases.
        facets: the level of each facet by its name, each (n,).
        cases: the number of cases.
    """

    value: Floats
    case: Ints
    unit: Ints
    facets: Mapping[str, Ints]
    cases: int

    def crossed(self) -> Observations:
        """Return the finite observations, centered, with the facets that vary within units."""
        finite = np.isfinite(self.value)
        value = self.value[finite]
        unit = self.unit[finite]
        centred = value - value.mean() if len(value) else value
        levels = {name: level[finite] for name, level in self.facets.items()}
        units = len(np.unique(unit))
        facets = {
            name: level
            for name, level in levels.items()
            if len(grouped(unit, level)[1]) > units
        }
        return Observations(centred, self.case[finite], unit, facets, self.cases)


def grouped(*keys: Ints) -> tuple[Ints, Ints]:
    """Return the number of each row's distinct combination of keys, and a row for each number."""
    code = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        # The code is renumbered after each key, so that it cannot overflow.
        code = np.unique(
            code * (int(key.max(initial=0)) + 1) + key, return_inverse=True
        )[1].reshape(-1)
    return code, np.unique(code, return_index=True)[1]


class Design:
    """The crossed design of a run's observations; all estimates derive from the per-case sums in `table`.

    Sums are of half the squared differences of pairs of observations, and of twice the number of
    pairs, for each effect: of the pairs that share at least its case, unit and facets, and from
    these by inclusion and exclusion of those that share exactly these.
    """

    def __init__(self, observations: Observations) -> None:
        self.crossed = crossed = observations.crossed()
        self.facets = tuple(crossed.facets)
        self._subsets = [
            frozenset(chosen)
            for k in range(len(self.facets) + 1)
            for chosen in combinations(self.facets, k)
        ]
        # whether a case has several units
        within = len(grouped(crossed.case, crossed.unit)[1]) > len(
            np.unique(crossed.case)
        )
        depths = [0, 1, 2] if within else [0, 1]
        self._every: list[Effect] = [*product(depths, self._subsets)]
        # shape (effects, effects)
        self._signs = np.array(
            [
                [_sign(larger, smaller) for smaller in self._every]
                for larger in self._every
            ]
        )
        # observation -> its cell, a combination of levels of all facets
        self._cells, first = grouped(
            *(crossed.facets.values() or [np.zeros(len(crossed.case), np.int64)])
        )
        # facet -> the level of each cell
        self._levels = {name: level[first] for name, level in crossed.facets.items()}
        self._number = len(first)
        self.table = Table.of(self._sums())
        self.top: Effect = (depths[-1], frozenset(self.facets))
        self.effects = [
            effect for effect in self._every if effect not in (NO_EFFECT, self.top)
        ]
        pairs = dict(
            zip(
                self._every,
                self._exactly(self.table.sums[None])[1][0].tolist(),
                strict=True,
            )
        )
        self.repeated = pairs[self.top] > 0
        self.identifiable = bool(self.every_effect) and all(
            pairs[effect] > 0 for effect in [NO_EFFECT, *self.effects]
        )

    def _sums(self) -> Floats:
        """Return by case: count, sum and sum of squares of each cell, then sums and pairs within cases and units."""
        crossed = self.crossed
        value = crossed.value
        tally = Tally(crossed.case, crossed.cases)
        columns = []
        for cell in range(self._number):
            inside = self._cells == cell
            columns += tally.columns(
                inside, np.where(inside, value, 0.0), np.where(inside, value**2, 0.0)
            )
        for depth, subset in self._every:
            # Pairs at depth 0 cross cases, so they follow from the sums of the cells.
            if depth:
                keys = [
                    crossed.case if depth == 1 else crossed.unit,
                    *(crossed.facets[name] for name in sorted(subset)),
                ]
                code, first = grouped(*keys)
                counts, sums, squares = (
                    np.bincount(code, weights=value**power) for power in (0, 1, 2)
                )
                by_case = Tally(crossed.case[first], crossed.cases)
                columns += by_case.columns(
                    counts * squares - sums**2, counts * (counts - 1)
                )
        return np.stack(columns, axis=1) if columns else np.zeros((crossed.cases, 0))

    def _exactly(self, totals: Floats) -> tuple[Floats, Floats]:
        """Return the sums and pairs that share exactly each effect's case, unit and facets, (rows, effects)."""
        # shape (rows, cells, 3): count, sum and sum of squares
        cells = totals[:, : 3 * self._number].reshape(len(totals), self._number, 3)
        least = []
        for subset in self._subsets:
            keys = [self._levels[name] for name in sorted(subset)] or [
                np.zeros(self._number, np.int64)
            ]
            code, first = grouped(*keys)
            counts, sums, squares = (
                cells.swapaxes(1, 2) @ np.eye(len(first))[code]
            ).swapaxes(0, 1)
            least += [
                (counts * squares - sums**2).sum(axis=1),
                (counts * (counts - 1)).sum(axis=1),
            ]
        # sums in even columns, numbers of pairs in odd ones, as in `_every`
        every = np.concatenate(
            [np.array(least).T, totals[:, 3 * self._number :]], axis=1
        )
        return every[:, 0::2] @ self._signs, every[:, 1::2] @ self._signs

    def components(self, totals: Floats) -> Floats:
        """Return the variance component of each of `effects` and the residual, (rows, effects + 1).

        Components can be negative. The residual is repeat noise; without repeated requests it
        includes the interaction of everything.
        """
        sums, pairs = self._exactly(totals)
        # shape (rows, effects)
        half = divide(sums, np.rint(pairs))
        total = half[:, self._every.index(NO_EFFECT)]
        top = half[:, self._every.index(self.top)]
        components = []
        for effect in self.every_effect:
            signs = self._signs[self._every.index(effect)]
            shared = np.flatnonzero(signs)  # the others may be undefined
            components.append((total[:, None] - half[:, shared]) @ signs[shared])
        return np.stack(
            [*components, top if self.repeated else total - np.sum(components, axis=0)],
            axis=1,
        )

    @property
    def every_effect(self) -> list[Effect]:
        """The effects that `components` estimates, in its order."""
        if self.repeated:
            return [*self.effects, self.top]
        return list(self.effects)


def _sign(larger: Effect, smaller: Effect) -> int:
    """Return the sign of an effect in the inclusion and exclusion of one with fewer facets; 0 for no part of it."""
    deeper = larger[0] - smaller[0]
    return (
        (-1) ** (len(larger[1] - smaller[1]) + deeper)
        if deeper in (0, 1) and larger[1] >= smaller[1]
        else 0
    )


PRECEDENCE = ("judge", "criterion", "order")
"""An effect belongs to the first of these facets that it contains, otherwise to the case."""
MAX_OBSERVATIONS = 2**25
CONSTANT = "all values are equal: there is no variance"
UNREPLICATED = (
    "no case has two judgments, or there is only one case: "
    "variance components are not identifiable"
)
UNCROSSED = "no unit was judged under more than one {}"
ONCE = (
    "no request was repeated (mode.samples): repeat noise cannot be separated from differences"
    " of {}"
)


def observe(
    config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns
) -> Observations:
    """Return the values of the judgments behind verdicts, of each judge: scores by criterion, or margins of pairs.

    Args:
        config: the run's config.
        cases: the cases.
        verdicts: the verdicts.
    """
    judgments = verdicts.judgments
    judges = judgments.by
    size = 1 if verdicts.passes is None else 2
    sizes = verdicts.pairs.sizes
    columns_by_judge = [judgments]
    if len(judges) > 1:
        columns_by_judge = [
            of_one_judge(cases, judgments.select(name, third=False), sizes, size)
            for name in judges
        ]
    criteria = (
        verdicts.passes is None
        and len(cases) * len(config.weights()) * len(columns_by_judge)
        <= MAX_OBSERVATIONS
    )
    parts = [
        _observed(config, columns, verdicts, by_criterion=criteria)
        for columns in columns_by_judge
    ]
    value, case, unit_i, unit_j, order, criterion = (
        np.concatenate(list(column)) for column in zip(*parts, strict=True)
    )
    judge = np.repeat(
        np.arange(len(columns_by_judge)), [len(part[0]) for part in parts]
    )
    unit, _ = grouped(*(column.astype(np.int64) for column in (case, unit_i, unit_j)))
    facets = {"order": order, "criterion": criterion, "judge": judge}
    return Observations(value, case, unit, facets, len(cases))


def _observed(
    config: RunConfig,
    judgments: JudgmentColumns,
    verdicts: VerdictColumns,
    *,
    by_criterion: bool,
) -> tuple[Floats | Ints, ...]:
    zeros = np.zeros(len(judgments), dtype=np.int64)
    columns = (judgments.case, judgments.i, judgments.j, judgments.swapped)
    if verdicts.passes is not None:
        return pair_margins(config, judgments), *columns, zeros
    overall_only = np.asarray(np.isnan(judgments.criteria).all(axis=1))
    if not by_criterion or overall_only.any():
        return judgment_scores(config, judgments), *columns, zeros
    width = len(judgments.names)
    return (
        # one row for each judgment and criterion, a judgment's criteria side by side
        judgments.criteria.ravel(),
        *(np.repeat(column, width) for column in columns),
        np.tile(np.arange(width), len(judgments)),
    )


def variance_results(
    config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns
) -> Tabled:
    """Return the parts of the variance of single judgments, and the table of all components."""
    scored = verdicts.passes is None
    parts = ["case"] if scored else ["case", "order"]
    parts += ["criterion"] if scored and len(config.criteria) > 1 else []
    parts += ["judge"] if len(verdicts.judgments.by) > 1 else []
    design = Design(observe(config, cases, verdicts))
    table = variance_details(
        design, "units of the scale" if scored else "units of the margin"
    )
    return variance_statistics(design, [*parts, "sample"]), {"variance": table}


def part_of(effect: Effect) -> str:
    """Return the part of the variance that an effect belongs to."""
    return next((name for name in PRECEDENCE if name in effect[1]), "case")


def variance_statistics(design: Design, parts: Sequence[str]) -> list[Statistic]:
    """Return `variance/<part>`: the share of the variance of single judgments in each part.

    `case` is the variance between cases, or between units within them. `order`, `criterion` and
    `judge` include their interactions with the case. `sample` is the variance between repeats of a
    request. Negative components count as 0.
    """
    names = [*map(part_of, design.every_effect), "sample"]

    def shares(totals: Floats) -> Floats:
        # shape (rows, effects + 1)
        components = np.maximum(design.components(totals), 0.0)
        total = np.nan_to_num(components).sum(axis=1)
        columns = [
            components[:, [name == part for name in names]].sum(axis=1)
            for part in parts
        ]
        return np.stack(
            [divide(column, np.where(total > 1e-15, total, 0.0)) for column in columns],
            axis=1,
        )

    shared = SharedStatistic(shares)
    once = ONCE.format(_words(design.top))
    estimated = {*names} if design.repeated else {*names[:-1]}
    statistics = []
    for index, name in enumerate(parts):
        if name in estimated:
            why = CONSTANT
        else:
            if name == "sample":
                why = once
            else:
                why = UNCROSSED.format(name)
        statistic = Statistic(
            f"variance/{name}",
            design.table,
            shared[index] if design.identifiable and name in estimated else undefined,
            n=len(design.crossed.value),
            note=None if design.repeated else once,
            why=why if design.identifiable else UNREPLICATED,
        )
        statistics.append(statistic)
    return statistics


def _words(effect: Effect) -> str:
    depth, facets = effect
    return " × ".join(
        [("", "cases", "units")[depth], *(f"{name}s" for name in sorted(facets))]
    ).replace("criterions", "criteria")


def variance_details(design: Design, unit: str) -> JsonObject:
    """Return the content of variance.json: all components in squared units, and what would halve the interval."""
    if not design.identifiable:
        return {"unit": unit, "components": [], "note": UNREPLICATED}
    raw = design.components(design.table.sums[None])[0]
    components = [
        {
            "effect": _words(effect).strip(" ×"),
            "part": part_of(effect),
            "variance": round_metric(value),
        }
        for effect, value in zip(design.every_effect, raw, strict=False)
    ]
    residual = {
        "effect": "samples"
        if design.repeated
        else f"{_words(design.top)}, with samples",
        "part": "sample",
    }
    return {
        "unit": f"squared {unit}",
        "components": [*components, residual | {"variance": round_metric(raw[-1])}],
        "halve": _halving(design, np.maximum(raw, 0.0)),
    }


def _halving(design: Design, components: Floats) -> JsonObject:
    """Return the number of cases, or of samples, that would halve the interval of the mean over cases.

    With fixed facets, the variance of the mean is the sum of case effects over the cases, unit
    effects over the units, and noise over the judgments (Brennan 2001, Generalizability Theory,
    section 4.1). Four times the cases divide it by four; more samples reduce only the last term.
    """
    crossed = design.crossed
    cases = len(np.unique(crossed.case))
    units = len(np.unique(crossed.unit))
    judgments = len(crossed.value)
    levels = {name: len(np.unique(level)) for name, level in crossed.facets.items()}
    fixed = 0.0
    for (depth, facets), value in zip(design.every_effect, components, strict=False):
        fixed += (
            value
            / (prod(levels[name] for name in facets) * (cases, cases, units)[depth])
            if depth
            else 0.0
        )
    noise = float(components[-1]) / judgments
    total = fixed + noise
    plan: JsonObject = {"cases": {"now": cases, "needed": 4 * cases}}
    if not design.repeated or total <= 0:
        note = ONCE.format(_words(design.top)) if not design.repeated else CONSTANT
        return plan | {"samples": {"needed": None, "note": note}}
    now = judgments / (units * prod(levels.values()))
    possible = fixed < total / 4
    return plan | {
        "samples": {
            "now": round_metric(now),
            "needed": ceil(now * noise / (total / 4 - fixed)) if possible else None,
            "note": (
                f"with infinitely many samples, the interval would have {sqrt(fixed / total):.0%}"
                " of its width"
            ),
        }
    }


BINS = 20
STEPS = 50
ONCE_ONLY = "no request was repeated: set mode.samples above 1"
RESCALED = (
    "scores, and their noise, are rescaled within each case: "
    "use scoring.normalize=none or minmax"
)
THRESHOLDS = 21


def ranking_results(
    config: RunConfig,
    cases: Sequence[Case],
    verdicts: VerdictColumns,
    clusters: Clusters,
    judgments: JudgmentColumns,
) -> Tabled:
    """Return the ranking of systems, and `jnd/noise` and `jnd/labels`, both in units of `tie.threshold`.

    The votes of several judges have no just-noticeable difference.

    Args:
        config: the run's config.
        cases: the cases.
        verdicts: the verdicts.
        clusters: the clusters of the cases.
        judgments: all judgments.
    """
    games = games_of(cases, verdicts, clusters)
    ranked, table = rank_systems(games, config.scoring)
    if len(judgments.by) > 1:
        return ranked, {"ranking": table}
    noticed = [_from_noise(config, verdicts), _from_labels(verdicts)]
    return [*ranked, *noticed], {
        "ranking": table,
        "jnd": jnd_details(config, verdicts, games, noticed),
    }


def _from_noise(config: RunConfig, verdicts: VerdictColumns) -> Statistic:
    """Return the margin that noise between repeats exceeds with probability 1 - `scoring.confidence`.

    It is z s sqrt(t / m), the coefficient of repeatability (Bland and Altman 1999, Stat. Methods
    Med. Res. 8, 135-160, section 4). s² is the mean variance of repeats of the same request, m the
    harmonic mean of the number of answers per margin, and t the number of terms of a margin: one
    for a pair, two for a difference of scores.
    """
    judgments = verdicts.judgments
    scored = verdicts.passes is None
    scoring = config.scoring
    values = judgment_values(config, verdicts)
    finite = np.isfinite(values)
    judged = (judgments.case[finite], judgments.i[finite], judgments.j[finite])
    swapped = judgments.swapped[finite]
    read = values[finite]
    unit, _ = grouped(*judged)
    request, _ = grouped(*judged, swapped.astype(np.int64))
    width = Scale.of(config.rubric).span if scored else 2.0
    span = width if scored and scoring.normalize == "minmax" else 1.0
    size = (
        NormalDist().inv_cdf((1 + scoring.confidence) / 2)
        * (2**0.5 if scored else 1.0)
        / span
    )
    # Squares within requests, their degrees of freedom, and two sums over units for 1 / answers.
    counts = np.bincount(request).astype(np.float64)
    answers = np.bincount(unit)[unit].astype(np.float64)
    mean = np.bincount(request, weights=read) / counts
    repeats = len(read) - len(counts)
    rescaled = scored and (
        scoring.normalize in ("zscore", "rank") or config.rubric.real
    )
    table = Table.of(
        verdicts.tally.of(judged[0]).columns(
            (read - mean[request]) ** 2,
            1.0 - 1.0 / counts[request],
            1 / answers**2,
            1 / answers,
        )
    )

    def value(totals: Floats) -> Floats:
        return size * np.sqrt(ratio(0, 1, totals) * ratio(2, 3, totals))

    # Two answers at opposite ends add half of the squared range, and one degree of freedom.
    rows = np.array(
        [[0.0 if rescaled else width**2 / 2, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    )
    rows += table.sums * [0, 0, 1, 1] / max(1, repeats)
    return Statistic(
        "jnd/noise",
        table,
        undefined if rescaled else value,
        reach=rows,
        n=repeats,
        covered=np.asarray(table.columns[1] > 0),
        missing=int((~finite).sum()),
        note=f"repeat noise alone exceeds it in {1 - scoring.confidence:.0%} of comparisons",
        why=RESCALED if rescaled else ONCE_ONLY,
    )


def _from_labels(verdicts: VerdictColumns) -> Statistic:
    """Return the margin at which the judge's choice equals the label three times out of four.

    With P(correct) = 1 / (1 + exp(-b |margin|)), fitted by maximum likelihood to labeled pairs with
    a nonzero margin and a label other than tie, it is ln 3 / b: the 75% point of a forced choice
    (Luce 1959, Individual Choice Behavior, section 2.B). Margins are grouped into at most 20
    levels.
    """
    decided = (
        verdicts.labeled
        & (verdicts.pairs.label != TIE)
        & verdicts.present
        & (np.abs(np.nan_to_num(verdicts.margin)) > FUZZ)
    )
    sizes = np.abs(verdicts.margin[decided])
    right = (verdicts.lean == verdicts.pairs.label)[decided]
    level, levels = _levels(sizes)
    inside = [level == k for k in range(len(levels))]
    tally = verdicts.tally.where(decided)
    columns = tally.columns(*(right & rows for rows in inside), *inside)
    why = "the judge's choice does not equal the label more often than by chance at larger margins"
    if not len(sizes):
        why = "no labeled pair has a margin"
    elif right.all():
        why = "the judge's choice always equals the label: any margin is noticeable"
    return Statistic(
        "jnd/labels",
        columns or np.zeros((tally.cases, 0)),
        lambda totals: _three_in_four(totals, levels),
        limits=(0.0, float(sizes.max(initial=0.0))),
        n=len(sizes),
        missing=int((verdicts.labeled & verdicts.missing).sum()),
        strict=True,
        note="margin at which the judge's choice equals the label three times out of four",
        why=why,
    )


def _levels(sizes: Floats) -> tuple[Ints, Floats]:
    """Return the level of each margin, (n,), and the mean margin of each level, (levels,)."""
    distinct, level = np.unique(np.round(sizes, 9), return_inverse=True)
    if len(distinct) > BINS:
        ends = np.unique(np.quantile(sizes, np.linspace(0, 1, BINS + 1)[1:-1]))
        level = np.unique(np.searchsorted(ends, sizes), return_inverse=True)[1]
    return level, np.asarray(np.bincount(level, weights=sizes) / np.bincount(level))


def _three_in_four(totals: Floats, levels: Floats) -> Floats:
    """Return ln 3 / b for each row by Newton's method from 0, NaN if b has no finite positive estimate."""
    # shape (rows, levels)
    hits = totals[:, : len(levels)]
    tries = totals[:, len(levels) :]
    wrong = hits.sum(axis=1) < tries.sum(axis=1)
    hits = hits[wrong]
    tries = tries[wrong]
    b = np.zeros(int(wrong.sum()))
    for _ in range(STEPS):
        # shape (wrong rows, levels)
        chance = 1 / (1 + np.exp(-np.clip(b[:, None] * levels, -700.0, 700.0)))
        slope = (levels * (hits - tries * chance)).sum(axis=1)
        curve = (levels**2 * tries * chance * (1 - chance)).sum(axis=1)
        step = np.nan_to_num(divide(slope, curve))
        b = b + step
        converged = np.abs(step) < 1e-8 * np.maximum(1.0, np.abs(b))
        if converged.all():
            break
    crossings = np.full(len(totals), np.nan)
    crossings[wrong] = divide(
        np.full(len(b), np.log(3.0)), np.where(converged & (b > 1e-9), b, 0.0)
    )
    return crossings


def jnd_details(
    config: RunConfig,
    verdicts: VerdictColumns,
    games: Games,
    statistics: Sequence[Statistic],
) -> JsonObject:
    """Return the content of jnd.json: both estimates, and the ranking of systems under each threshold."""
    estimates = {
        statistic.name.partition("/")[2]: round_metric(statistic.observed())
        for statistic in statistics
    }
    return {
        "configured": config.tie.threshold,
        **estimates,
        "ranking": (
            _sensitivity(config, verdicts, games, estimates.values())
            if games.compared
            else []
        ),
    }


def _sensitivity(
    config: RunConfig, verdicts: VerdictColumns, games: Games, estimates: Any
) -> list[JsonObject]:
    useful = useful_thresholds(verdicts.margin)
    configured = config.tie.threshold
    chosen = useful[:: max(1, len(useful) // THRESHOLDS)]
    thresholds = sorted(
        {configured, *chosen, *(value for value in estimates if value is not None)}
    )
    # The winner of each game under each threshold, with ties allowed.
    # [threshold]: shape (games,)
    winners = [
        at_threshold(verdicts, threshold, config.tie.min_confidence)[0][games.pair]
        * games.side
        for threshold in thresholds
    ]
    standings = standing(
        *(np.stack(tables) for tables in zip(*map(games.tables, winners), strict=True))
    )
    # shape (thresholds, systems)
    rated = np.where(np.isnan(standings.rating), standings.win_rate, standings.rating)
    return [
        {
            "threshold": threshold,
            "tie_rate": round_metric((winner == TIE).mean()),
            "order": [games.names[k] for k in by_value(row).tolist()],
            "kendall": _tau(row, rated[thresholds.index(configured)]),
            "by": "rating" if np.isfinite(rating).all() else "win rate",
        }
        for threshold, winner, row, rating in zip(
            thresholds, winners, rated, standings.rating, strict=True
        )
    ]


def _tau(row: Floats, reference: Floats) -> float | None:
    from scipy.stats import kendalltau

    if np.ptp(row) < 1e-12 or np.ptp(reference) < 1e-12:
        return None
    return round_metric(kendalltau(np.round(row, 9), np.round(reference, 9)).statistic)
