"""Components of variance of a crossed design, by moments, as functions of per-case sums.

Half the mean squared difference of two observations estimates the sum of the components of everything that the two do
not share (Koch 1968, Technometrics 10, 551-558): no balance and no distribution is needed. What two observations may
share is the case, the unit (pair or response) within it, and the levels of any facets (order, criterion, judge).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import TypeAlias

import numpy as np

from evalkit.scoring.bootstrap import Tally, divide
from evalkit.scoring.columns import Floats, Ints

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
