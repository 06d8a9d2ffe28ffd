"""Whether a judge is worse for some values of a column of which each has too few labels
to be a slice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from evalkit.core.display import visible
from evalkit.core.types import Metric
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.decision import VARIES
from evalkit.scoring.search.family import UNITS
from evalkit.scoring.search.outcomes import Outcomes
from evalkit.scoring.slices import Slices
from evalkit.scoring.stats.arrays import Floats, Ints

FEWEST_VALUES: Final = 5
"""A column of fewer values is searched by its slices only."""
MATERIAL: Final = 0.1
"""A smaller standard deviation of the share of right verdicts does not matter."""
DRAWS: Final = 999


@frozen
class Groups:
    """A column with one value for each case, or none.

    Attributes:
        column: its name.
        group: (cases,) the number of the value of each case, -1 without one.
        count: the number of values.
    """

    column: str
    group: Ints
    count: int

    @classmethod
    def of_slices(cls, slices: Slices) -> Groups | None:
        """Return the slices of a column as groups; `None` if a case has several values."""
        # (cases,) how many values a case has
        values = slices.members.sum(axis=1)
        if values.max(initial=0) > 1:
            return None
        group = np.where(values == 1, slices.members.argmax(axis=1), -1)
        return cls(slices.column, group, len(slices.values))

    @classmethod
    def of_values(cls, column: str, cells: Sequence[Any]) -> Groups | None:
        """Return a column that has too many values for slices as groups.

        `None` if most values are of a single case, or if cells are no words or numbers.
        """
        numbers: dict[str, int] = {}
        group = []
        for cell in cells:
            if cell is None or cell == "":
                group.append(-1)
            elif isinstance(cell, str | int | float):
                group.append(numbers.setdefault(str(cell), len(numbers)))
            else:
                return None
        present = sum(number >= 0 for number in group)
        if 2 * len(numbers) > present:
            return None
        return cls(visible(column), np.array(group, dtype=np.int64), len(numbers))

    def by_unit(self, outcomes: Outcomes) -> Ints:
        """Return the group of each row of outcomes, (rows,)."""
        return self.group[outcomes.case]


def varying(
    groups: Sequence[Groups], outcomes: Outcomes, confidence: float, seed: int
) -> dict[str, Metric]:
    """Return the column between whose small groups the share of wrong verdicts differs
    most, if one is shown to.

    Wrong verdicts of a value, beyond those that its labels explain, have a sum R. If verdicts are
    wrong independently of the value, the sum over values of R^2 / units is that of
    verdicts permuted within each label, which is an exact test (Bonferroni for several
    columns). The variance between values is what R^2 has more than its units explain
    (DerSimonian and Laird 1986, Control. Clin. Trials 7, 177-188).

    Args:
        groups: the columns.
        outcomes: verdicts next to labels; each case has one unit.
        confidence: one minus the probability of a false alarm.
        seed: the seed.
    """
    units_of_cases = np.bincount(outcomes.case)
    several = units_of_cases.max(initial=0) > 1 or (outcomes.units > 1).any()
    if several or not outcomes.counted:
        return {}
    small = [column for column in groups if _is_of_small_groups(column, outcomes)]
    generator = np.random.default_rng(seed)
    level = (1 - confidence) / max(1, len(small))
    largest = 0.0
    most: Groups | None = None
    for column in small:
        deviation = _deviation(column.by_unit(outcomes), outcomes.residuals)
        if deviation < MATERIAL or deviation <= largest:
            continue
        p = _p(column.by_unit(outcomes), outcomes, generator)
        if p <= level:
            largest = deviation
            most = column
    if most is None:
        return {}
    facts: JsonObject = {"column": most.column}
    note = json.dumps(facts, ensure_ascii=False)
    return {VARIES: Metric(VARIES, largest, n=most.count, note=note)}


def _is_of_small_groups(column: Groups, outcomes: Outcomes) -> bool:
    """Return whether most units of a column are in values that are too small to be slices."""
    sizes = _sums(column.by_unit(outcomes))
    in_small = sizes[sizes < UNITS].sum()
    are_small = 2 * in_small > len(outcomes.case)
    return bool(column.count >= FEWEST_VALUES and are_small)


def _sums(group: Ints, weights: Floats | None = None) -> Floats:
    """Return the number of units in each group, or the sum of their weights, (groups,).

    Units without a group, -1, are in none.
    """
    counts = np.bincount(group + 1, weights)
    return counts[1:].astype(np.float64)


def _deviation(group: Ints, residuals: Floats) -> float:
    """Return the standard deviation of the share of wrong verdicts between groups."""
    sizes = _sums(group)
    sums = _sums(group, residuals)
    squares = residuals**2
    expected = sizes * squares.mean()
    excess = sums**2 - expected
    # n units make n * (n - 1) ordered pairs.
    pairs = sizes * (sizes - 1)
    variance = excess.sum() / max(pairs.sum(), 1.0)
    return float(np.sqrt(max(variance, 0.0)))


def _p(group: Ints, outcomes: Outcomes, generator: np.random.Generator) -> float:
    """Return how often permuted verdicts differ as much between groups as the observed ones."""
    sizes = np.maximum(_sums(group), 1.0)
    residuals = outcomes.residuals
    observed = _spread(residuals, group, sizes)
    # The observed order is one of those that are compared.
    exceeding = 1
    permuted = residuals.copy()
    # Of each stratum, the rows that are exchanged with each other.
    strata = []
    for stratum in np.unique(outcomes.stratum):
        rows = np.flatnonzero(outcomes.stratum == stratum)
        strata.append(rows)
    for _ in range(DRAWS):
        for rows in strata:
            permuted[rows] = generator.permutation(residuals[rows])
        is_as_large = _spread(permuted, group, sizes) >= observed - 1e-9
        exceeding += int(is_as_large)
    return exceeding / (1 + DRAWS)


def _spread(residuals: Floats, group: Ints, sizes: Floats) -> float:
    """Return the sum over groups of the squared sum of residuals by unit."""
    sums = _sums(group, residuals)
    squares = sums**2
    by_value = squares / sizes
    return float(by_value.sum())
