"""Whether answers are missing mostly in one slice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from evalkit.core.types import Metric
from evalkit.scoring.decision import FEW, LEAN, MISSING_WHERE, SOME_MISSING
from evalkit.scoring.search.outcomes import columns_of
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, round_metric
from evalkit.scoring.stats.statistic import Statistic

_BLOCK: Final = 2**19
"""The most numbers of a block of cases."""
MATERIAL: Final = 0.1
"""A slice is named if so much more of it is missing than of the other cases."""
OF_ALL: Final = tuple(f"{LEAN}{subject}" for subject in ("a", "class/", "met", "score"))
"""Leans of all units. That of a system compares its units with those of the others."""


def missing_in(
    statistics: Mapping[str, Statistic],
    members: Bools,
    confidence: float,
) -> tuple[int, Metric] | None:
    """Return the slice with most missing answers, if it has more of them than chance explains.

    Each slice has a one-sided exact test (Fisher), adjusted for their number (Bonferroni).

    Args:
        statistics: the statistics of the judge, by name.
        members: (cases, slices) which cases are in each slice.
        confidence: one minus the probability of any false alarm.
    """
    counted = _counts(statistics)
    if counted is None:
        return None
    labeled, missing = counted
    total = round(labeled.sum())
    lost = round(missing.sum())
    if lost < SOME_MISSING * total:
        return None
    # shape (slices,)
    units = _units_in(members, labeled)
    hits = _units_in(members, missing)
    outside = total - units
    share = hits / np.maximum(units, 1)
    share_outside = (lost - hits) / np.maximum(outside, 1)
    is_large = (units >= FEW) & (outside >= FEW)
    is_material = is_large & (share - share_outside >= MATERIAL)
    if not is_material.any():
        return None
    # Here, because SciPy takes longer to import than the search of a small table takes.
    from evalkit.scoring.stats.share_intervals import clopper_pearson

    log_p = np.zeros(len(hits))
    for index in np.flatnonzero(is_material):
        hits_in_slice = int(hits[index])
        units_in_slice = int(units[index])
        log_p[index] = log_upper_tail(hits_in_slice, units_in_slice, lost, total)
    # The first of equal ones: columns come before pairs of them, and both before places.
    most = int(np.argmin(log_p))
    if log_p[most] > np.log((1 - confidence) / len(log_p)):
        return None
    rate = float(share[most])
    n = int(units[most])
    low, high = clopper_pearson(rate, n, confidence)
    metric = Metric(
        MISSING_WHERE,
        round_metric(rate),
        round_metric(low),
        round_metric(high),
        n,
    )
    return most, metric


def _units_in(members: Bools, units: Floats) -> Floats:
    """Return the units of each slice (cases, slices), in blocks of cases: a product of the whole
    array makes it numbers of eight bytes.
    """
    cases, slices = members.shape
    sums = np.zeros(slices)
    step = max(1, _BLOCK // max(1, slices))
    for start in range(0, cases, step):
        block = slice(start, start + step)
        sums += units[block] @ members[block]
    return np.rint(sums)


def log_upper_tail(hits: int, sampled: int, lost: int, total: int) -> float:
    """Return the logarithm of the probability of at least so many hits among `sampled` of
    `total` cases, of which `lost` are hits (hypergeometric; Fisher 1935, J. R. Stat. Soc. 98, 39).

    The logarithm, because slices in which most answers are missing have a p-value of about 0.
    SciPy has the same in `scipy.stats`, whose import is a third of the processor time of a check of
    600 rows; a test compares both.
    """
    numbers = np.arange(1, total + 1)
    # log_factorial[k] is log(k!).
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(numbers))])

    def log_choices(size: int, chosen: Ints) -> Floats:
        excluded = log_factorial[size - chosen]
        ways: Floats = log_factorial[size] - log_factorial[chosen] - excluded
        return ways

    answered = total - lost
    most = min(sampled, lost)
    # As many as are sampled, or more of them would be answered than there are.
    fewest = max(hits, sampled - answered)
    counts = np.arange(fewest, most + 1)
    log_ways = log_choices(lost, counts) + log_choices(answered, sampled - counts)
    all_ways = log_choices(total, np.array(sampled))
    return float(np.logaddexp.reduce(log_ways - all_ways))


def cases_to_answer(statistics: Mapping[str, Statistic]) -> Ints | None:
    """Return the numbers of the labeled cases, answered or not; `None` if no answer is missing."""
    counted = _labeled_and_read(statistics)
    if counted is None:
        return None
    labeled, _ = counted
    return np.flatnonzero(labeled)


def _counts(statistics: Mapping[str, Statistic]) -> tuple[Floats, Floats] | None:
    """Return the labeled units of each case, and those without a verdict; `None` if a
    case has several of them.
    """
    counted = _labeled_and_read(statistics)
    if counted is None:
        return None
    labeled, read = counted
    if labeled.max(initial=0) > 1:
        return None
    return labeled, labeled - read


def _labeled_and_read(
    statistics: Mapping[str, Statistic],
) -> tuple[Floats, Floats] | None:
    """Return the labeled units of each case, and those with a verdict; `None` if no
    labeled unit lacks one.
    """
    for name, statistic in statistics.items():
        # Verdicts, their number, labels, and their number: a lean where some verdict is missing.
        if name.startswith(OF_ALL) and len(statistic.table.columns) == 4:
            _, read, _, labeled = columns_of(statistic).T
            return labeled, read
    return None
