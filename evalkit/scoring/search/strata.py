"""Agreement within strata: whether a judge knows more than which stratum a case is from.

A judge that gives each task's most frequent answer agrees with the labels of all tasks together,
and with those of no task. The estimate pools kappa over the values of a column: observed and
expected agreement are summed over strata, and the agreement expected by chance is that of different
units, so that small strata have no bias. Strata with labels of one class show nothing and are
omitted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isqrt
from typing import Final

import numpy as np

from evalkit.decision import WITHIN
from evalkit.scoring.search.family import LABELS, UNITS
from evalkit.scoring.search.outcomes import MOMENTS, columns_of
from evalkit.scoring.slices import Slices
from evalkit.scoring.stats.arrays import Bools, Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.values import frozen

MOST_STRATA: Final = 50
MOST_COLUMNS: Final = 2000
"""With more sums than this, because there are many classes, agreement within is not estimated."""
PROXY: Final = 0.95
"""A column that names the label this often is another label, not a stratum."""


@frozen
class Within:
    """Agreement within the values of a column.

    Attributes:
        slices: the column.
        statistic: the pooled agreement; its note has the column, the number of strata, and how many
            are omitted.
    """

    slices: Slices
    statistic: Statistic


def agreement_within(slices: Slices, agreement: Statistic) -> Within | None:
    """Return the agreement within the values of a column; `None` if too few labels are left.

    It is also `None` if a case has several values.

    Args:
        slices: the values of the column.
        agreement: kappa, or the correlation of scores and grades.
    """
    members = slices.members
    if members.shape[1] > MOST_STRATA or (members.sum(axis=1) > 1).any():
        return None
    columns = columns_of(agreement)
    if agreement.weights is not None:
        columns = columns * agreement.weights[:, None]
    if agreement.name == MOMENTS:
        return _of_moments(slices, agreement, columns)
    return _of_confusion(slices, agreement, columns)


def _of_confusion(slices: Slices, agreement: Statistic, cells: Floats) -> Within | None:
    size = isqrt(cells.shape[1])
    tables = cells.reshape(len(cells), size, size)
    labels = tables.sum(axis=2)
    verdicts = tables.sum(axis=1)
    same = np.trace(tables, axis1=1, axis2=2)
    by_stratum = slices.members.T.astype(np.float64) @ labels  # stratum, label
    mixed = (by_stratum > 0).sum(axis=1) > 1
    present = by_stratum.sum(axis=1) > 0
    named = by_stratum.max(axis=1, initial=0.0).sum() / max(float(labels.sum()), 1e-9)
    counts = np.sort(by_stratum[mixed].sum(axis=0))
    if present.sum() < 2 or named >= PROXY:
        return None
    if counts.sum() < UNITS or counts[-2] < LABELS:
        return None
    strata = int(mixed.sum())
    width = 2 * size + 1
    if strata * width > MOST_COLUMNS:
        return None
    sums = np.concatenate([labels, verdicts, same[:, None]], axis=1)

    def pooled(totals: Floats) -> Floats:
        table = totals.reshape(len(totals), strata, width)
        by_label = table[:, :, :size]
        by_verdict = table[:, :, size:-1]
        agreed = table[:, :, -1]
        n = by_label.sum(axis=2)
        some = n > 1
        # By chance: the verdict on one unit equals the label of another one.
        pairs = (by_label * by_verdict).sum(axis=2) - agreed
        expected = np.where(some, pairs / np.where(some, n - 1, 1.0), 0.0)
        top = np.where(some, agreed - expected, 0.0).sum(axis=1)
        bottom = np.where(some, n - expected, 0.0).sum(axis=1)
        return divide(top, bottom)

    return _within(slices, agreement, sums, mixed, present, pooled)


def _of_moments(slices: Slices, agreement: Statistic, sums: Floats) -> Within | None:
    by_stratum = slices.members.T.astype(np.float64) @ sums
    n = by_stratum[:, 0]
    spread = n * by_stratum[:, 4] - by_stratum[:, 2] ** 2
    varied = (n > 2) & (spread > 1e-9 * n * n)
    present = n > 0
    explained = 1 - divide(spread, np.maximum(n, 1))[present].sum() / max(
        float(sums[:, 4].sum() - sums[:, 2].sum() ** 2 / max(sums[:, 0].sum(), 1)), 1e-9
    )
    if present.sum() < 2 or n[varied].sum() < UNITS or explained >= PROXY:
        return None
    strata = int(varied.sum())

    def pooled(totals: Floats) -> Floats:
        moments = totals.reshape(len(totals), strata, 6)
        count, x, y, xx, yy, xy = np.moveaxis(moments, 2, 0)
        some = np.maximum(count, 1)
        spread_x = (xx - x * x / some).sum(axis=1)
        spread_y = (yy - y * y / some).sum(axis=1)
        both = (xy - x * y / some).sum(axis=1)
        scale = np.sqrt(np.maximum(spread_x, 0) * np.maximum(spread_y, 0))
        least = np.minimum(spread_x, spread_y) / np.maximum(count.sum(axis=1), 1)
        known = least > 1e-9
        # Scores that are equal within each stratum follow nothing in it.
        return np.where(known, both / np.where(known, scale, 1.0), 0.0)

    return _within(slices, agreement, sums, varied, present, pooled)


def _within(
    slices: Slices,
    agreement: Statistic,
    sums: Floats,
    used: Bools,
    present: Bools,
    pooled: Callable[[Floats], Floats],
) -> Within:
    """Return a pooled estimate.

    Args:
        slices: the strata.
        agreement: the agreement over all of them.
        sums: (cases, sums) what is summed over the cases of each stratum.
        used: (strata,) which strata show something.
        present: (strata,) which strata have labels.
        pooled: maps the sums of the used strata, one after the other, to the estimate.
    """
    columns = [
        np.where(slices.members[:, stratum], column, 0.0)
        for stratum in np.flatnonzero(used)
        for column in sums.T
    ]
    omitted = int((present & ~used).sum())
    covered = slices.members[:, used].any(axis=1) & (sums != 0).any(axis=1)
    facts = {"column": slices.column, "strata": int(used.sum()), "omitted": omitted}
    statistic = Statistic(
        WITHIN,
        columns,
        pooled,
        n=int(covered.sum()),
        note=json.dumps(facts, ensure_ascii=False),
        covered=covered,
        weights=agreement.weights,
        limits=(-1.0, 1.0),
    )
    return Within(slices, statistic)
