"""Where the variance of a judge's numbers comes from, and what would halve an interval."""

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
from evalkit.scoring.verdicts.aggregate import judgment_scores, pair_margins
from evalkit.types import Case

Effect: TypeAlias = tuple[int, frozenset[str]]
"""How much of the case (0 nothing, 1 the case, 2 the unit within it), and which facets."""
Sums: TypeAlias = dict[Effect, tuple[Floats, Floats]]
"""By what pairs of observations share: the sum of half their squared differences, and how many of them there are."""
NOTHING: Effect = (0, frozenset())


@dataclass(frozen=True, slots=True)
class Observations:
    """Numbers and where they come from: the case, the unit (numbered through all cases), the level of each facet."""

    value: Floats
    case: Ints
    unit: Ints
    facets: Mapping[str, Ints]
    cases: int

    def crossed(self) -> Observations:
        """Return the observations that are there, centred, with those facets that vary within units."""
        there = np.isfinite(self.value)
        value, unit = self.value[there], self.unit[there]
        centred = value - value.mean() if len(value) else value
        facets = {name: level[there] for name, level in self.facets.items() if _varies(level[there], unit)}
        return Observations(centred, self.case[there], unit, facets, self.cases)


def _varies(level: Ints, unit: Ints) -> bool:
    return len(grouped(unit, level)[1]) > len(np.unique(unit))


def grouped(*keys: Ints) -> tuple[Ints, Ints]:
    """Return the number of the distinct row of keys that each row is, and for each number the place of one such row."""
    code = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        code = np.unique(code * (int(key.max(initial=0)) + 1) + key, return_inverse=True)[1].reshape(-1)
    return code, np.unique(code, return_index=True)[1]


class Design:
    """What the observations of a run allow to be told apart; `columns` are per-case sums that all else follows from."""

    def __init__(self, observations: Observations) -> None:
        self.seen = observations.crossed()
        self.facets = tuple(self.seen.facets)
        self._subsets = [
            frozenset(chosen) for k in range(len(self.facets) + 1) for chosen in combinations(self.facets, k)
        ]
        within = len(grouped(self.seen.case, self.seen.unit)[1]) > len(np.unique(self.seen.case))
        self._depths = [0, 1, 2] if within else [0, 1]
        self._cells, first = grouped(*(self.seen.facets.values() or [np.zeros(len(self.seen.case), np.int64)]))
        self._levels = {name: level[first] for name, level in self.seen.facets.items()}
        self._number = len(first)
        self.columns = self._sums()
        self.top: Effect = (self._depths[-1], frozenset(self.facets))
        self.effects = [one for one in product(self._depths, self._subsets) if one not in (NOTHING, self.top)]
        pairs = {
            effect: float(count[0]) for effect, (_, count) in self._exactly(self.columns.sum(axis=0)[None]).items()
        }
        self.repeated = pairs[self.top] > 0
        self.sound = bool(self.every_effect) and all(pairs[effect] > 0 for effect in [NOTHING, *self.effects])

    def _sums(self) -> Floats:
        """Return by case: number, sum and squares of each cell, then sums and pairs within case and unit."""
        seen = self.seen
        tally = Tally(seen.case, seen.cases)
        columns = []
        for cell in range(self._number):
            inside = self._cells == cell
            columns += [
                tally(inside),
                tally(np.where(inside, seen.value, 0.0)),
                tally(np.where(inside, seen.value**2, 0.0)),
            ]
        for depth, subset in product(self._depths[1:], self._subsets):
            keys = [seen.case if depth == 1 else seen.unit, *(seen.facets[name] for name in sorted(subset))]
            code, first = grouped(*keys)
            counts = np.bincount(code, minlength=len(first)).astype(np.float64)
            sums = np.bincount(code, weights=seen.value, minlength=len(first))
            squares = np.bincount(code, weights=seen.value**2, minlength=len(first))
            by_case = Tally(seen.case[first], seen.cases)
            columns += [by_case(counts * squares - sums**2), by_case(counts * (counts - 1))]
        return np.stack(columns, axis=1) if columns else np.zeros((seen.cases, 0))

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
        """Return the sums over pairs that share just that much, by inclusion and exclusion."""
        least = self._at_least(totals)
        deepest = self._depths[-1]
        found: Sums = {}
        for depth, subset in least:
            terms = [
                ((-1) ** (len(more) - len(subset) + down), least[depth + down, more])
                for more in self._subsets
                if more >= subset
                for down in ((0, 1) if depth < deepest else (0,))
            ]
            found[depth, subset] = (
                np.sum([sign * sums for sign, (sums, _) in terms], axis=0),
                np.sum([sign * count for sign, (_, count) in terms], axis=0),
            )
        return found

    def components(self, totals: Floats) -> Floats:
        """Return for each row the component of each of `effects`, then that of what is left; they can be below 0.

        What is left is repeat noise, and where nothing was asked twice the effect of everything together with it.
        """
        half = {effect: divide(sums, np.rint(count)) for effect, (sums, count) in self._exactly(totals).items()}
        total = half[NOTHING]
        found = [self._component(effect, half, total) for effect in self.effects]
        left = half[self.top] if self.repeated else total - np.sum(found, axis=0)
        if self.repeated:
            found.append(self._component(self.top, half, total))
        return np.stack([*found, left], axis=1)

    def _component(self, effect: Effect, half: Mapping[Effect, Floats], total: Floats) -> Floats:
        depth, subset = effect
        shared = [
            (-1) ** (len(subset) - len(less) + up) * (total - half[depth - up, less])
            for less in self._subsets
            if less <= subset
            for up in ((0, 1) if depth else (0,))
        ]
        return np.asarray(np.sum(shared, axis=0))

    @property
    def every_effect(self) -> list[Effect]:
        """The effects that `components` tells apart, in its order."""
        return [*self.effects, self.top] if self.repeated else list(self.effects)


RANKS = ("judge", "criterion", "order")
"""An effect counts to the first of these that it is of, else to the case."""
LARGEST = 2**25
SAME = "all of it is the same number: there is no variance"
ALONE = "no two judgments of one case, or no two cases: what varies with what cannot be told"
UNCROSSED = "nothing was judged under more than one {}"
ONCE = "nothing was asked twice in the same way (mode.samples): repeat noise cannot be told from how {} differ"


def observe(
    config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns, judgments: JudgmentColumns
) -> Observations:
    """Return the numbers of all judgments: scores by criterion, or margins of pairs; of each judge of a panel."""
    judges = judgments.by
    size, sizes = 1 if verdicts.passes is None else 2, verdicts.pairs.sizes
    each = [verdicts.judgments]
    if len(judges) > 1:
        each = [of_one_judge(cases, judgments.select(name, third=False), sizes, size) for name in judges]
    criteria = verdicts.passes is None and len(cases) * len(config.weights()) * len(each) <= LARGEST
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
    none = np.zeros(len(judgments), dtype=np.int64)
    places = (judgments.case, judgments.i, judgments.j, judgments.swapped)
    if verdicts.passes is not None:
        return pair_margins(config, judgments), *places, none
    alone = np.asarray(np.isnan(judgments.criteria).all(axis=1))
    if not by_criterion or alone.any():
        return judgment_scores(config, judgments), *places, none
    width = len(judgments.names)
    return (
        judgments.criteria.ravel(),
        *(np.repeat(place, width) for place in places),
        np.tile(np.arange(width), len(judgments)),
    )


def part_of(effect: Effect) -> str:
    """Return the part of the variance that an effect counts to."""
    return next((name for name in RANKS if name in effect[1]), "case")


def variance_statistics(design: Design, parts: Sequence[str]) -> list[Statistic]:
    """Return `variance/<part>`: the share of the variance of single judgments that comes with each part.

    `case` is what differs between cases, or units within them, whoever judges and however; `order`, `criterion` and
    `judge` what comes with these, by itself or with the case; `sample` what differs when the same is asked again.
    Components estimated below 0 count as 0.
    """
    together = SharedStatistic(partial(_shares, design, tuple(parts)))
    return [_statistic(design, together[place], name) for place, name in enumerate(parts)]


def _statistic(design: Design, value: Any, name: str) -> Statistic:
    blind = name not in {*map(part_of, design.every_effect), *(["sample"] if design.repeated else [])}
    seen = design.seen
    why = _why_not(design, name) if blind or not design.sound else SAME
    return Statistic(
        f"variance/{name}",
        design.columns,
        (lambda totals: np.full(len(totals), np.nan)) if blind or not design.sound else value,
        n=len(seen.value),
        note=None if design.repeated else ONCE.format(_words(design.top)),
        why=why,
    )


def _why_not(design: Design, name: str) -> str:
    if not design.sound:
        return ALONE
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
    """Return what variance.json holds: every component in squared units, and what would halve the mean's interval."""
    if not design.sound:
        return {"unit": unit, "components": [], "note": ALONE}
    raw = design.components(design.columns.sum(axis=0)[None])[0]
    components = [
        {"effect": _words(effect).strip(" ×"), "part": part_of(effect), "variance": round_metric(value)}
        for effect, value in zip(design.every_effect, raw, strict=False)
    ]
    left = {"effect": "samples" if design.repeated else f"{_words(design.top)}, with samples", "part": "sample"}
    return {
        "unit": f"squared {unit}",
        "components": [*components, left | {"variance": round_metric(raw[-1])}],
        "halve": _halving(design, np.maximum(raw, 0.0)),
    }


def _halving(design: Design, components: Floats) -> dict[str, Any]:
    """Return how many cases, or samples of what there is, would halve the interval of the mean over cases.

    The variance of the mean, facets held as they are, is that of case effects over the cases, of unit effects over
    the units and of noise over the judgments (Brennan 2001, Generalizability Theory, section 4.1): four times the cases
    quarter it all, samples only the last of the three.
    """
    seen = design.seen
    cases, units, judgments = len(np.unique(seen.case)), len(np.unique(seen.unit)), len(seen.value)
    levels = {name: len(np.unique(level)) for name, level in seen.facets.items()}
    fixed = 0.0
    for (depth, facets), value in zip(design.every_effect, components, strict=False):
        fixed += value / (prod(levels[name] for name in facets) * (cases, cases, units)[depth]) if depth else 0.0
    noise = float(components[-1]) / judgments
    every = fixed + noise
    found: dict[str, Any] = {"cases": {"now": cases, "needed": 4 * cases}}
    if not design.repeated or every <= 0:
        note = ONCE.format(_words(design.top)) if not design.repeated else SAME
        return found | {"samples": {"needed": None, "note": note}}
    now = judgments / (units * prod(levels.values()))
    enough = fixed < every / 4
    return found | {
        "samples": {
            "now": round_metric(now),
            "needed": ceil(now * noise / (every / 4 - fixed)) if enough else None,
            "note": f"endless samples would leave {sqrt(fixed / every):.0%} of the interval",
        }
    }
