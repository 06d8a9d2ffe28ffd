"""The place of cases in the data: rows that follow one another, in which a judge may be worse.

A judge whose model or prompt changed while it was used is worse from some row on, whether or not
the data has a date. The place is a slice, and never a stratum: in data sorted by the label it names
the label.
"""

from __future__ import annotations

from itertools import combinations
from typing import Final

import numpy as np

from evalkit.scoring.search.cells import PLACE
from evalkit.scoring.search.family import LABELS, UNITS
from evalkit.scoring.search.outcomes import Outcomes
from evalkit.scoring.slices import Slices
from evalkit.scoring.stats.arrays import Bools, Floats, Ints

PARTS: Final = 10
"""The data is cut into so many parts, and slices are parts that follow one another."""
LARGEST: Final = 0.7
"""A larger share of the data is not a place in it."""
FEW_CHANGES: Final = 0.25
"""Rows are sorted by a value if it changes from row to row less than this share of what it does in
random order."""
MONOTONE: Final = 0.88
"""Rows are sorted by errors from this rank correlation of place and error on."""


def places(outcomes: Outcomes, cases: int) -> Slices | None:
    """Return the parts of the data that follow one another as slices of a column;
    `None` if they show nothing.

    They do not if rows are few, or are sorted by what the judge said or by whether it
    is right: then wrong verdicts are together whatever the judge is like.

    Args:
        outcomes: verdicts next to labels.
        cases: the number of all cases.
    """
    labeled = np.unique(outcomes.case)
    if len(labeled) < 2 * UNITS or _is_sorted(outcomes):
        return None
    return runs_of_parts(labeled, cases)


def runs_of_parts(labeled: Ints, cases: int) -> Slices:
    """Return the parts of the data that follow one another as slices.

    Args:
        labeled: the numbers of the labeled cases, in order.
        cases: the number of all cases.
    """
    # Parts have about as many labeled cases each; the last one ends with the data.
    parts = np.array_split(labeled, PARTS)
    starts = [int(part[0]) for part in parts]
    edges = [0, *starts[1:], cases]
    # Which labeled cases are before each edge.
    before = np.searchsorted(labeled, edges)
    names = []
    ends: list[tuple[float | None, float | None]] = []
    members = []
    numbers = np.arange(cases)
    for first, last in combinations(range(len(edges)), 2):
        count = before[last] - before[first]
        if not UNITS <= count <= LARGEST * len(labeled):
            continue
        start = edges[first]
        stop = edges[last]
        # Cases are counted from 1 in sentences.
        names.append(f"{start + 1}..{stop}")
        ends.append((start + 1, stop + 1))
        is_inside = (start <= numbers) & (numbers < stop)
        members.append(is_inside)
    # shape (cases, slices)
    stacked = np.stack(members, axis=1)
    return Slices(PLACE, tuple(names), stacked, tuple(ends), computed=True)


def _is_sorted(outcomes: Outcomes) -> bool:
    """Return whether rows are sorted by verdicts or scores, or by whether they are right."""
    if outcomes.counted:
        is_wrong = outcomes.wrong > 0
        # Once from right to wrong, or back, and perhaps once more.
        if np.count_nonzero(np.diff(is_wrong)) <= 2 < is_wrong.sum():
            return True
        answers = outcomes.answer
    else:
        errors = outcomes.wrong / np.maximum(outcomes.units, 1e-12)
        if abs(_rank_correlation(errors)) >= MONOTONE:
            return True
        answers = _is_above_median(outcomes.answer)
    if not _is_in_blocks(answers):
        return False
    # Labels may be sorted, too, so verdicts count among equal labels.
    checked = []
    for stratum in np.unique(outcomes.stratum):
        rows = outcomes.stratum == stratum
        values = answers[rows]
        if not outcomes.counted:
            values = _is_above_median(outcomes.answer[rows])
        if _changes_by_chance(values) >= LABELS / 2:
            checked.append(_is_in_blocks(values))
    return bool(checked) and all(checked)


def _is_above_median(values: Floats) -> Floats:
    """Return 1 for values above the median, and 0 for others; if none is above it,
    those equal to it are 1.
    """
    middle = np.median(values)
    above: Bools = values > middle
    if not above.any():
        above = values >= middle
    return above.astype(np.float64)


def _is_in_blocks(values: Floats) -> bool:
    """Return whether values change far less often from row to row than in random order."""
    changes = np.count_nonzero(np.diff(values))
    # Sorted values change at least once.
    return bool(changes <= 1 + FEW_CHANGES * _changes_by_chance(values))


def _changes_by_chance(values: Floats) -> float:
    """Return how often values differ from the one before, in random order."""
    _, counts = np.unique(values, return_counts=True)
    n = len(values)
    # n - 1 neighbors, which differ as often as two different rows do.
    pairs = max(n * (n - 1), 1)
    equal_pairs = (counts * (counts - 1)).sum()
    different = 1 - equal_pairs / pairs
    return float((n - 1) * different)


def _rank_correlation(values: Floats) -> float:
    """Return the rank correlation of values with their place; 0 if all are equal."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    # The mean rank of equal values.
    ends = np.cumsum(counts)
    mean_ranks = ends - (counts - 1) / 2
    ranks = mean_ranks[inverse]
    if np.ptp(ranks) == 0:
        return 0.0
    order = np.arange(len(values))
    return float(np.corrcoef(ranks, order)[0, 1])
