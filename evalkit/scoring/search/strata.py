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

from evalkit.core.types import Metric
from evalkit.core.values import frozen
from evalkit.scoring.decision import FEW, FOLLOWS, WITHIN
from evalkit.scoring.search.family import LABELS, UNITS
from evalkit.scoring.search.outcomes import MOMENTS, columns_of
from evalkit.scoring.slices import Slices
from evalkit.scoring.stats.arrays import Bools, Floats, divide
from evalkit.scoring.stats.share_intervals import clopper_pearson
from evalkit.scoring.stats.statistic import Statistic, Table

MOST_STRATA: Final = 50
MOST_COLUMNS: Final = 2000
"""With more sums than this, because there are many classes, agreement within is not estimated."""
PROXY: Final = 0.95
"""A column that names the label this often is another label, not a stratum."""
DETERMINED: Final = 0.95
"""Verdicts follow a column that is another label, or has many values, if the interval of the share
that are the usual one of their value reaches this."""
REDUCED: Final = 0.5
"""Verdicts may follow nothing but a column, with some noise, if it avoids more than
this share of the errors of naming the most frequent verdict everywhere (Goodman and
Kruskal 1954, J. Am. Stat. Assoc. 49, 732-764: lambda), or explains more than this share
of the variance of scores.
"""
PER_VALUE: Final = 5
"""With fewer units for each value, a column must determine nearly all verdicts."""
COVERED: Final = 0.5
"""A column is no reason for the verdicts if fewer of the labeled units have a value in it."""
CONTRARY: Final = 5
"""With fewer labels that are not the usual one, agreement within a column shows nothing."""


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


@frozen
class Followed:
    """A column whose values determine most verdicts.

    Attributes:
        slices: the column.
        share: the share of verdicts that are the usual one of their value, or of the
            variance of scores that the column explains.
        n: the number of labeled units with a value.
        is_label: whether the column is shown to name the label as well, and may be another label.
    """

    slices: Slices
    share: float
    n: int
    is_label: bool

    def metric(self) -> Metric:
        """Return the share as a metric whose note names the column."""
        facts = {"column": self.slices.column, "label": self.is_label}
        note = json.dumps(facts, ensure_ascii=False)
        return Metric(FOLLOWS, self.share, n=self.n, note=note)


def followed(
    slices: Slices, agreement: Statistic, confidence: float
) -> Followed | None:
    """Return how far a column determines the verdicts.

    It is `None` if it determines few of them, or if a case has several values. Of a
    column that names the label as well, or has many values, it must be nearly all.

    The usual verdict of a unit is the most frequent one of the *other* units with its
    value, so that a column with a value for each unit determines nothing.

    Args:
        slices: the values of the column.
        agreement: kappa, or the correlation of scores and grades.
        confidence: the confidence with which a column names the label.
    """
    members = slices.members
    if (members.sum(axis=1) > 1).any():
        return None
    # shape (strata, columns): each column summed over the cases of a stratum
    stratum_members = members.T.astype(np.float64)
    by_stratum = stratum_members @ columns_of(agreement)
    if agreement.name == MOMENTS:
        units = columns_of(agreement)[:, 0].sum()
        return _explained(slices, by_stratum, float(units))
    size = isqrt(by_stratum.shape[1])
    # shape (strata, labels, verdicts)
    tables = by_stratum.reshape(-1, size, size)
    # shape (strata, classes) both: the units with each verdict, and with each label
    verdicts = tables.sum(axis=1)
    labels = tables.sum(axis=2)
    n = round(float(verdicts.sum()))
    units = columns_of(agreement).sum()
    # How many verdicts a guess gets right that knows the value, and one that does not.
    usual = _usual(verdicts)
    everywhere = float(verdicts.sum(axis=0).max())
    errors = n - everywhere
    avoided = usual - everywhere
    if n < max(FEW, COVERED * units) or avoided <= REDUCED * errors:
        return None
    # Last, because it imports SciPy, which takes longer than the search of a small table.
    share = usual / n
    most_frequent = labels.max(axis=1)
    named = float(most_frequent.sum()) / n
    lowest_named, _ = clopper_pearson(named, n, confidence)
    is_label = bool(lowest_named >= PROXY)
    _, highest_share = clopper_pearson(share, n, confidence)
    # A dozen verdicts are alike within some column by chance, and their interval reaches any share.
    are_few = n < UNITS and len(slices.values) * PER_VALUE > n
    is_open = _needs_all(slices, n, is_label) and highest_share < DETERMINED
    if are_few or is_open:
        return None
    return Followed(slices, share, n, is_label)


def _needs_all(slices: Slices, n: int, is_label: bool) -> bool:
    """Return whether a column must determine nearly all verdicts of n units.

    Any good judge follows another label. With many values, nothing could show that it knows more.
    """
    values = len(slices.values)
    return is_label or values > MOST_STRATA or values * PER_VALUE > n


def _usual(counts: Floats) -> float:
    """Return how many units have the most frequent class of the other units of their stratum.

    Args:
        counts: (strata, classes) the number of units.
    """
    ordered = np.sort(counts, axis=1)
    most = ordered[:, -1]
    second = np.zeros(len(counts))
    if counts.shape[1] > 1:
        second = ordered[:, -2]
    # Without the unit itself its class has one less, and must still be the most frequent.
    others_of_most = most - 1
    still_most = others_of_most > second
    return float(most[still_most].sum())


def _explained(slices: Slices, by_stratum: Floats, units: float) -> Followed | None:
    """Return a column that explains the scores.

    Args:
        slices: the values of the column.
        by_stratum: (strata, 6) the moments of scores and grades of each value.
        units: the number of labeled units, with those that have no value.
    """
    has_units = by_stratum[:, 0] > 0
    totals = by_stratum[has_units]
    n = round(float(totals[:, 0].sum()))
    fewest = max(FEW, 2 * len(totals), COVERED * units)
    if n < fewest or len(totals) < 2:
        return None
    # The moments are n, x, y, xx, yy and xy, of scores x and grades y; here n, x and xx.
    share = _share_of_variance(totals[:, (0, 1, 3)])
    if share <= REDUCED:
        return None
    # The same of grades: n, y and yy.
    share_of_grades = _share_of_variance(totals[:, (0, 2, 4)])
    is_label = bool(share_of_grades >= PROXY)
    if _needs_all(slices, n, is_label) and share < DETERMINED:
        return None
    return Followed(slices, share, n, is_label)


def _share_of_variance(sums: Floats) -> float:
    """Return the share of a variance that strata explain, adjusted for their number; 0
    without variance.

    Args:
        sums: (strata, 3) the number of units, their sum, and their sum of squares.
    """
    n, first, squares = sums.T
    # Sums of squares about the mean of each stratum, and about the mean of all units.
    about_own_mean = squares - first**2 / n
    inside = float(about_own_mean.sum())
    of_mean = first.sum() ** 2 / n.sum()
    total = float(squares.sum() - of_mean)
    if total <= 1e-9:
        return 0.0
    # Adjusted R squared: each sum of squares is divided by its degrees of freedom.
    units = float(n.sum())
    freedom_inside = units - len(n)
    freedom = units - 1
    return 1 - inside / freedom_inside * freedom / total


def agreement_within(
    slices: Slices, agreement: Statistic, *, is_followed: bool = False
) -> Within | None:
    """Return the agreement within the values of a column; `None` if too few labels are left.

    It is also `None` if a case has several values.

    Args:
        slices: the values of the column.
        agreement: kappa, or the correlation of scores and grades.
        is_followed: whether the column determines the verdicts, so that it counts even
            where it names the label.
    """
    members = slices.members
    values_of_case = members.sum(axis=1)
    if members.shape[1] > MOST_STRATA or (values_of_case > 1).any():
        return None
    # shape (cases, columns)
    columns = columns_of(agreement)
    if agreement.weights is not None:
        columns = columns * agreement.weights[:, None]
    if agreement.name == MOMENTS:
        return _of_moments(slices, agreement, columns, is_followed=is_followed)
    return _of_confusion(slices, agreement, columns, is_followed=is_followed)


def _of_confusion(
    slices: Slices, agreement: Statistic, cells: Floats, *, is_followed: bool
) -> Within | None:
    size = isqrt(cells.shape[1])
    # shape (cases, labels, verdicts)
    tables = cells.reshape(len(cells), size, size)
    labels = tables.sum(axis=2)
    verdicts = tables.sum(axis=1)
    # shape (cases,): the units whose verdict is the label
    same = np.trace(tables, axis1=1, axis2=2)
    # shape (strata, labels)
    members = slices.members.T.astype(np.float64)
    by_stratum = members @ labels
    # shape (strata,): those with labels of several classes; others show nothing
    classes = (by_stratum > 0).sum(axis=1)
    mixed = classes > 1
    units = by_stratum.sum(axis=1)
    present = units > 0
    # The share of labels that are the most frequent one of their stratum.
    most_frequent = by_stratum.max(axis=1, initial=0.0)
    every_label = max(float(labels.sum()), 1e-9)
    named = most_frequent.sum() / every_label
    # shape (classes,): labels of the mixed strata, the fewest first
    of_mixed = by_stratum[mixed].sum(axis=0)
    counts = np.sort(of_mixed)
    covered = by_stratum.sum()
    if present.sum() < 2 or covered < COVERED * labels.sum():
        return None
    if is_followed:
        contrary = units - most_frequent
        if contrary[mixed].sum() < CONTRARY:
            return None
    elif named >= PROXY or counts.sum() < UNITS or counts[-2] < LABELS:
        return None
    strata = int(mixed.sum())
    # The sums of a stratum: units by label, units by verdict, and units that agree.
    width = 2 * size + 1
    if strata * width > MOST_COLUMNS:
        return None
    sums = np.concatenate([labels, verdicts, same[:, None]], axis=1)

    def pooled(totals: Floats) -> Floats:
        # shape (rows, strata, sums)
        table = totals.reshape(len(totals), strata, width)
        by_label = table[:, :, :size]
        by_verdict = table[:, :, size:-1]
        agreed = table[:, :, -1]
        n = by_label.sum(axis=2)
        # A single unit has no other one to compare with.
        some = n > 1
        # By chance: the verdict on one unit equals the label of another one.
        products = by_label * by_verdict
        pairs = products.sum(axis=2) - agreed
        # n units make n * (n - 1) ordered pairs: n times the share of those that agree.
        other_units = np.where(some, n - 1, 1.0)
        expected = np.where(some, pairs / other_units, 0.0)
        beyond_chance = np.where(some, agreed - expected, 0.0)
        possible = np.where(some, n - expected, 0.0)
        return divide(beyond_chance.sum(axis=1), possible.sum(axis=1))

    return _within(slices, agreement, sums, mixed, present, pooled)


def _of_moments(
    slices: Slices, agreement: Statistic, sums: Floats, *, is_followed: bool
) -> Within | None:
    # shape (strata, 6): the moments are n, x, y, xx, yy and xy, of scores x and grades y
    members = slices.members.T.astype(np.float64)
    by_stratum = members @ sums
    n = by_stratum[:, 0]
    grades = by_stratum[:, 2]
    grade_squares = by_stratum[:, 4]
    # shape (strata,): the variance of the grades times n squared
    spread = n * grade_squares - grades**2
    has_spread = spread > 1e-9 * n * n
    varied = (n > 2) & has_spread
    present = n > 0
    # The share of the variance of the grades that is between strata.
    squares_within = divide(spread, np.maximum(n, 1))
    within = squares_within[present].sum()
    units = max(sums[:, 0].sum(), 1)
    of_mean = sums[:, 2].sum() ** 2 / units
    total = float(sums[:, 4].sum() - of_mean)
    explained = 1 - within / max(total, 1e-9)
    if present.sum() < 2 or n[varied].sum() < UNITS:
        return None
    if n.sum() < COVERED * sums[:, 0].sum():
        return None
    if explained >= PROXY and not is_followed:
        return None
    strata = int(varied.sum())

    def pooled(totals: Floats) -> Floats:
        # shape (rows, strata, 6)
        moments = totals.reshape(len(totals), strata, 6)
        count, x, y, xx, yy, xy = np.moveaxis(moments, 2, 0)
        some = np.maximum(count, 1)
        spread_x = (xx - x * x / some).sum(axis=1)
        spread_y = (yy - y * y / some).sum(axis=1)
        both = (xy - x * y / some).sum(axis=1)
        squares = np.maximum(spread_x, 0) * np.maximum(spread_y, 0)
        scale = np.sqrt(squares)
        # The smaller variance within strata: rounding leaves a little where it is 0.
        units = np.maximum(count.sum(axis=1), 1)
        least = np.minimum(spread_x, spread_y) / units
        varies = least > 1e-9
        scale = np.where(varies, scale, 1.0)
        # Scores that are equal within each stratum follow nothing in it.
        return np.where(varies, both / scale, 0.0)

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
    # One column for each used stratum and sum, 0 for other cases. `pooled` splits the totals
    # in this order: strata first, then the sums of each.
    # There are many, so each is as small as what it is of.
    summed = Table.of(sums).columns
    columns = [
        np.where(slices.members[:, stratum], column, 0)
        for stratum in np.flatnonzero(used)
        for column in summed
    ]
    omitted = int((present & ~used).sum())
    in_used = slices.members[:, used].any(axis=1)
    has_units = (sums != 0).any(axis=1)
    covered = in_used & has_units
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
