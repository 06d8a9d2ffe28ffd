"""Whether a judge is worse for some values of a column of which each has too few labels
to be a slice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import numpy as np

from evalkit.core.types import Metric
from evalkit.core.values import JsonObject
from evalkit.scoring.decision import VARIES
from evalkit.scoring.search.family import UNITS
from evalkit.scoring.search.outcomes import Outcomes
from evalkit.scoring.slices import Slices
from evalkit.scoring.stats.arrays import Floats

FEWEST_VALUES: Final = 5
"""A column of fewer values is searched by its slices only."""
MATERIAL: Final = 0.1
"""A smaller standard deviation of the share of right verdicts does not matter."""
DRAWS: Final = 999


def varying(
    columns: Sequence[Slices], outcomes: Outcomes, confidence: float, seed: int
) -> dict[str, Metric]:
    """Return the column between whose small groups the share of wrong verdicts differs
    most, if one is shown to.

    Wrong verdicts of a value, beyond those that its labels explain, have a sum R. If verdicts are
    wrong independently of the value, the sum over values of R^2 / units is that of
    verdicts permuted within each label, which is an exact test (Bonferroni for several
    columns). The variance between values is what R^2 has more than its units explain
    (DerSimonian and Laird 1986, Control. Clin. Trials 7, 177-188).

    Args:
        columns: the columns.
        outcomes: verdicts next to labels; each case has one unit.
        confidence: one minus the probability of a false alarm.
        seed: the seed.
    """
    units_of_cases = np.bincount(outcomes.case)
    several = units_of_cases.max(initial=0) > 1 or (outcomes.units > 1).any()
    if several or not outcomes.counted:
        return {}
    small = [column for column in columns if _is_of_small_groups(column, outcomes)]
    generator = np.random.default_rng(seed)
    level = (1 - confidence) / max(1, len(small))
    largest = 0.0
    most: Slices | None = None
    for column in small:
        # (units, values) whether a unit has the value
        members = column.members[outcomes.case].astype(np.float64)
        deviation = _deviation(members, outcomes.residuals)
        if deviation < MATERIAL or deviation <= largest:
            continue
        if _p(members, outcomes, generator) <= level:
            largest = deviation
            most = column
    if most is None:
        return {}
    facts: JsonObject = {"column": most.column}
    note = json.dumps(facts, ensure_ascii=False)
    return {VARIES: Metric(VARIES, largest, n=len(most.values), note=note)}


def _is_of_small_groups(column: Slices, outcomes: Outcomes) -> bool:
    """Return whether most units of a column are in values that are too small to be slices."""
    # (units, values) whether a unit has the value
    members = column.members[outcomes.case]
    values_of_units = members.sum(axis=1)
    sizes = members.sum(axis=0)
    in_small = sizes[sizes < UNITS].sum()
    are_small = 2 * in_small > len(members)
    are_several = len(column.values) >= FEWEST_VALUES
    has_one_value = values_of_units.max(initial=0) <= 1
    return bool(are_several and are_small and has_one_value)


def _deviation(members: Floats, residuals: Floats) -> float:
    """Return the standard deviation of the share of wrong verdicts between values."""
    sizes = members.sum(axis=0)
    sums = residuals @ members
    squares = residuals**2
    expected = sizes * squares.mean()
    excess = sums**2 - expected
    # n units make n * (n - 1) ordered pairs.
    pairs = sizes * (sizes - 1)
    variance = excess.sum() / max(pairs.sum(), 1.0)
    return float(np.sqrt(max(variance, 0.0)))


def _p(members: Floats, outcomes: Outcomes, generator: np.random.Generator) -> float:
    """Return how often permuted verdicts differ as much between values as the observed ones."""
    sizes = np.maximum(members.sum(axis=0), 1.0)
    residuals = outcomes.residuals
    observed = _spread(residuals, members, sizes)
    # The observed order is one of those that are compared.
    exceeding = 1
    permuted = residuals.copy()
    strata = [
        np.flatnonzero(outcomes.stratum == stratum)
        for stratum in np.unique(outcomes.stratum)
    ]
    for _ in range(DRAWS):
        for rows in strata:
            permuted[rows] = generator.permutation(residuals[rows])
        is_as_large = _spread(permuted, members, sizes) >= observed - 1e-9
        exceeding += int(is_as_large)
    return exceeding / (1 + DRAWS)


def _spread(residuals: Floats, members: Floats, sizes: Floats) -> float:
    """Return the sum over values of the squared sum of residuals by unit."""
    sums = residuals @ members
    by_value = sums**2 / sizes
    return float(by_value.sum())
