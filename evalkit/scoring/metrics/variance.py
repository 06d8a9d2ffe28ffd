"""Variance components of a judge's values, and what would halve the width of an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from math import ceil, prod, sqrt
from typing import Any, TypeAlias

import numpy as np

from evalkit.config import RunConfig
from evalkit.scoring.columns.judgments import JudgmentColumns, of_one_judge
from evalkit.scoring.columns.verdicts import VerdictColumns
from evalkit.scoring.stats.arrays import Floats, Ints, divide, round_metric
from evalkit.scoring.stats.bootstrap import SharedStatistic, Statistic, Tally
from evalkit.scoring.verdicts.weighting import judgment_scores, pair_margins
from evalkit.types import Case

Effect: TypeAlias = tuple[int, frozenset[str]]
"""The depth (0 none, 1 case, 2 unit within the case) and the facets of a variance component."""
Sums: TypeAlias = dict[Effect, tuple[Floats, Floats]]
"""By effect: the sum of half the squared differences of pairs of observations, and twice the number of pairs."""
NO_EFFECT: Effect = (0, frozenset())


@dataclass(frozen=True, slots=True)
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
        value, unit = self.value[finite], self.unit[finite]
        centred = value - value.mean() if len(value) else value
        facets = {name: level[finite] for name, level in self.facets.items() if _varies(level[finite], unit)}
        return Observations(centred, self.case[finite], unit, facets, self.cases)


def _varies(level: Ints, unit: Ints) -> bool:
    return len(grouped(unit, level)[1]) > len(np.unique(unit))


def grouped(*keys: Ints) -> tuple[Ints, Ints]:
    """Return the number of each row's distinct combination of keys, and a row for each number."""
    code = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        code = np.unique(code * (int(key.max(initial=0)) + 1) + key, return_inverse=True)[1].reshape(-1)
    return code, np.unique(code, return_index=True)[1]


class Design:
    """The crossed design of a run's observations; all estimates derive from the per-case sums in `columns`."""

    def __init__(self, observations: Observations) -> None:
        self.crossed = observations.crossed()
        self.facets = tuple(self.crossed.facets)
        self._subsets = [
            frozenset(chosen) for k in range(len(self.facets) + 1) for chosen in combinations(self.facets, k)
        ]
        within = len(grouped(self.crossed.case, self.crossed.unit)[1]) > len(np.unique(self.crossed.case))
        self._depths = [0, 1, 2] if within else [0, 1]
        self._cells, first = grouped(*(self.crossed.facets.values() or [np.zeros(len(self.crossed.case), np.int64)]))
        self._levels = {name: level[first] for name, level in self.crossed.facets.items()}
        self._number = len(first)
        self.columns = self._sums()
        self.top: Effect = (self._depths[-1], frozenset(self.facets))
        self.effects = [one for one in product(self._depths, self._subsets) if one not in (NO_EFFECT, self.top)]
        pairs = {
            effect: float(count[0]) for effect, (_, count) in self._exactly(self.columns.sum(axis=0)[None]).items()
        }
        self.repeated = pairs[self.top] > 0
        self.identifiable = bool(self.every_effect) and all(pairs[effect] > 0 for effect in [NO_EFFECT, *self.effects])

    def _sums(self) -> Floats:
        """Return by case: count, sum and sum of squares of each cell, then sums and pairs within cases and units."""
        crossed = self.crossed
        tally = Tally(crossed.case, crossed.cases)
        columns = []
        for cell in range(self._number):
            inside = self._cells == cell
            columns += [
                tally(inside),
                tally(np.where(inside, crossed.value, 0.0)),
                tally(np.where(inside, crossed.value**2, 0.0)),
            ]
        for depth, subset in product(self._depths[1:], self._subsets):
            keys = [crossed.case if depth == 1 else crossed.unit, *(crossed.facets[name] for name in sorted(subset))]
            code, first = grouped(*keys)
            counts = np.bincount(code, minlength=len(first)).astype(np.float64)
            sums = np.bincount(code, weights=crossed.value, minlength=len(first))
            squares = np.bincount(code, weights=crossed.value**2, minlength=len(first))
            by_case = Tally(crossed.case[first], crossed.cases)
            columns += [by_case(counts * squares - sums**2), by_case(counts * (counts - 1))]
        return np.stack(columns, axis=1) if columns else np.zeros((crossed.cases, 0))

    def _at_least(self, totals: Floats) -> Sums:
        """Return the sums over pairs of observations that share at least an effect's case, unit and facets."""
        cells = totals[:, : 3 * self._number].reshape(len(totals), self._number, 3)
        found: Sums = {}
        for subset in self._subsets:
            keys = [self._levels[name] for name in sorted(subset)] or [np.zeros(self._number, np.int64)]
            code, first = grouped(*keys)
            groups = cells.swapaxes(1, 2) @ np.eye(len(first))[code]
            counts, sums, squares = groups[:, 0], groups[:, 1], groups[:, 2]
            found[0, subset] = (counts * squares - sums**2).sum(axis=1), (counts * (counts - 1)).sum(axis=1)
        inner = totals[:, 3 * self._number :].T
        places = enumerate(product(self._depths[1:], self._subsets))
        return found | {effect: (inner[2 * k], inner[2 * k + 1]) for k, effect in places}

    def _exactly(self, totals: Floats) -> Sums:
        """Return the sums over pairs that share exactly an effect's case, unit and facets (inclusion-exclusion)."""
        least = self._at_least(totals)
        deepest = self._depths[-1]
        found: Sums = {}
        for depth, subset in least:
            terms = [
                ((-1) ** (len(larger) - len(subset) + deeper), least[depth + deeper, larger])
                for larger in self._subsets
                if larger >= subset
                for deeper in ((0, 1) if depth < deepest else (0,))
            ]
            found[depth, subset] = (
                np.sum([sign * sums for sign, (sums, _) in terms], axis=0),
                np.sum([sign * count for sign, (_, count) in terms], axis=0),
            )
        return found

    def components(self, totals: Floats) -> Floats:
        """Return the variance component of each of `effects` and the residual, (rows, effects + 1).

        Components can be negative. The residual is repeat noise; without repeated requests it includes the interaction
        of everything.
        """
        half = {effect: divide(sums, np.rint(count)) for effect, (sums, count) in self._exactly(totals).items()}
        total = half[NO_EFFECT]
        found = [self._component(effect, half, total) for effect in self.effects]
        residual = half[self.top] if self.repeated else total - np.sum(found, axis=0)
        if self.repeated:
            found.append(self._component(self.top, half, total))
        return np.stack([*found, residual], axis=1)

    def _component(self, effect: Effect, half: Mapping[Effect, Floats], total: Floats) -> Floats:
        depth, subset = effect
        shared = [
            (-1) ** (len(subset) - len(smaller) + up) * (total - half[depth - up, smaller])
            for smaller in self._subsets
            if smaller <= subset
            for up in ((0, 1) if depth else (0,))
        ]
        return np.asarray(np.sum(shared, axis=0))

    @property
    def every_effect(self) -> list[Effect]:
        """The effects that `components` estimates, in its order."""
        return [*self.effects, self.top] if self.repeated else list(self.effects)


PRECEDENCE = ("judge", "criterion", "order")
"""An effect belongs to the first of these facets that it contains, otherwise to the case."""
MAX_OBSERVATIONS = 2**25
CONSTANT = "all values are equal: there is no variance"
UNREPLICATED = "no case has two judgments, or there is only one case: variance components are not identifiable"
UNCROSSED = "no unit was judged under more than one {}"
ONCE = "no request was repeated (mode.samples): repeat noise cannot be separated from differences of {}"


def observe(
    config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns, judgments: JudgmentColumns
) -> Observations:
    """Return the values of all judgments, of each judge of a panel: scores by criterion, or margins of pairs.

    Args:
        config: the run's config.
        cases: the cases.
        verdicts: the verdicts.
        judgments: all judgments.
    """
    judges = judgments.by
    size, sizes = 1 if verdicts.passes is None else 2, verdicts.pairs.sizes
    each = [verdicts.judgments]
    if len(judges) > 1:
        each = [of_one_judge(cases, judgments.select(name, third=False), sizes, size) for name in judges]
    criteria = verdicts.passes is None and len(cases) * len(config.weights()) * len(each) <= MAX_OBSERVATIONS
    parts = [_observed(config, columns, verdicts, by_criterion=criteria) for columns in each]
    value, case, unit_i, unit_j, order, criterion = (
        np.concatenate(list(column)) for column in zip(*parts, strict=True)
    )
    judge = np.repeat(np.arange(len(each)), [len(part[0]) for part in parts])
    unit, _ = grouped(*(column.astype(np.int64) for column in (case, unit_i, unit_j)))
    facets = {"order": order, "criterion": criterion, "judge": judge}
    return Observations(value, case, unit, facets, len(cases))


def _observed(
    config: RunConfig, judgments: JudgmentColumns, verdicts: VerdictColumns, *, by_criterion: bool
) -> tuple[Floats | Ints, ...]:
    zeros = np.zeros(len(judgments), dtype=np.int64)
    places = (judgments.case, judgments.i, judgments.j, judgments.swapped)
    if verdicts.passes is not None:
        return pair_margins(config, judgments), *places, zeros
    overall_only = np.asarray(np.isnan(judgments.criteria).all(axis=1))
    if not by_criterion or overall_only.any():
        return judgment_scores(config, judgments), *places, zeros
    width = len(judgments.names)
    return (
        judgments.criteria.ravel(),
        *(np.repeat(place, width) for place in places),
        np.tile(np.arange(width), len(judgments)),
    )


def part_of(effect: Effect) -> str:
    """Return the part of the variance that an effect belongs to."""
    return next((name for name in PRECEDENCE if name in effect[1]), "case")


def variance_statistics(design: Design, parts: Sequence[str]) -> list[Statistic]:
    """Return `variance/<part>`: the share of the variance of single judgments in each part.

    `case` is the variance between cases, or between units within them. `order`, `criterion` and `judge` include their
    interactions with the case. `sample` is the variance between repeats of a request. Negative components count as 0.
    """
    shared = SharedStatistic(partial(_shares, design, tuple(parts)))
    return [_statistic(design, shared[place], name) for place, name in enumerate(parts)]


def _statistic(design: Design, value: Any, name: str) -> Statistic:
    unidentified = name not in {*map(part_of, design.every_effect), *(["sample"] if design.repeated else [])}
    crossed = design.crossed
    why = _why_not(design, name) if unidentified or not design.identifiable else CONSTANT
    return Statistic(
        f"variance/{name}",
        design.columns,
        (lambda totals: np.full(len(totals), np.nan)) if unidentified or not design.identifiable else value,
        n=len(crossed.value),
        note=None if design.repeated else ONCE.format(_words(design.top)),
        why=why,
    )


def _why_not(design: Design, name: str) -> str:
    if not design.identifiable:
        return UNREPLICATED
    return ONCE.format(_words(design.top)) if name == "sample" else UNCROSSED.format(name)


def _shares(design: Design, parts: Sequence[str], totals: Floats) -> Floats:
    found = np.maximum(design.components(totals), 0.0)
    total = np.nan_to_num(found).sum(axis=1)
    names = [*(part_of(effect) for effect in design.every_effect), "sample"]
    columns = [
        sum((found[:, k] for k, name in enumerate(names) if name == part), np.zeros(len(found))) for part in parts
    ]
    return np.stack([divide(column, np.where(total > 1e-15, total, 0.0)) for column in columns], axis=1)


def _words(effect: Effect) -> str:
    depth, facets = effect
    return " × ".join([("", "cases", "units")[depth], *(f"{name}s" for name in sorted(facets))]).replace(
        "criterions", "criteria"
    )


def variance_details(design: Design, unit: str) -> dict[str, Any]:
    """Return the content of variance.json: all components in squared units, and what would halve the interval."""
    if not design.identifiable:
        return {"unit": unit, "components": [], "note": UNREPLICATED}
    raw = design.components(design.columns.sum(axis=0)[None])[0]
    components = [
        {"effect": _words(effect).strip(" ×"), "part": part_of(effect), "variance": round_metric(value)}
        for effect, value in zip(design.every_effect, raw, strict=False)
    ]
    residual = {"effect": "samples" if design.repeated else f"{_words(design.top)}, with samples", "part": "sample"}
    return {
        "unit": f"squared {unit}",
        "components": [*components, residual | {"variance": round_metric(raw[-1])}],
        "halve": _halving(design, np.maximum(raw, 0.0)),
    }


def _halving(design: Design, components: Floats) -> dict[str, Any]:
    """Return the number of cases, or of samples, that would halve the interval of the mean over cases.

    With fixed facets, the variance of the mean is the sum of case effects over the cases, unit effects over the units,
    and noise over the judgments (Brennan 2001, Generalizability Theory, section 4.1). Four times the cases divide it by
    four; more samples reduce only the last term.
    """
    crossed = design.crossed
    cases, units, judgments = len(np.unique(crossed.case)), len(np.unique(crossed.unit)), len(crossed.value)
    levels = {name: len(np.unique(level)) for name, level in crossed.facets.items()}
    fixed = 0.0
    for (depth, facets), value in zip(design.every_effect, components, strict=False):
        fixed += value / (prod(levels[name] for name in facets) * (cases, cases, units)[depth]) if depth else 0.0
    noise = float(components[-1]) / judgments
    total = fixed + noise
    found: dict[str, Any] = {"cases": {"now": cases, "needed": 4 * cases}}
    if not design.repeated or total <= 0:
        note = ONCE.format(_words(design.top)) if not design.repeated else CONSTANT
        return found | {"samples": {"needed": None, "note": note}}
    now = judgments / (units * prod(levels.values()))
    possible = fixed < total / 4
    return found | {
        "samples": {
            "now": round_metric(now),
            "needed": ceil(now * noise / (total / 4 - fixed)) if possible else None,
            "note": f"with infinitely many samples, the interval would have {sqrt(fixed / total):.0%} of its width",
        }
    }
