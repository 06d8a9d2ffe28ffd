"""How much of the variance of scores is the case's, the system's, the judge's and of what else repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from math import ceil, prod, sqrt
from typing import TypeAlias

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.types import Case
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.columns import VerdictColumns
from evalkit.scoring.judgments import JudgmentColumns, of_one_judge
from evalkit.scoring.stats.arrays import (
    Floats,
    Ints,
    divide,
    round_metric,
)
from evalkit.scoring.stats.statistic import (
    SharedStatistic,
    Statistic,
    Table,
    Tabled,
    Tally,
    undefined,
)
from evalkit.scoring.verdicts.pairs import (
    judgment_scores,
    pair_margins,
)

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
        # A facet with one level in every unit adds nothing to the unit.
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
            # Three columns for each cell: count, sum and sum of squares.
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
                # Over all pairs of n values, the sum of (x - y)^2 is n * sum(x^2) - sum(x)^2
                # (each pair once).
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
    # The parts follow each other judge by judge.
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
