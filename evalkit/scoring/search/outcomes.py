"""Verdicts next to labels, by case: what the search for slices tests."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Final

import numpy as np

from evalkit.core.values import frozen
from evalkit.scoring.stats.arrays import Bools, Floats, Ints
from evalkit.scoring.stats.statistic import Statistic

KAPPAS: Final = ("checklist/kappa", "agreement/kappa")
"""Statistics whose columns are the confusion matrix of each case."""
MOMENTS: Final = "agreement/pearson"
"""The statistic whose columns are the moments of the scores and grades of each case."""
LEVELS: Final = 5
"""Grades are compared within so many levels of about equal size."""


@frozen
class Outcomes:
    """How wrong the verdicts are, by case and label.

    Attributes:
        case: (rows,) the case of each row.
        stratum: (rows,) its label, or the level of its grade.
        side: (rows,) what counts as a class where labels are counted.
        units: (rows,) the number of labeled units with a verdict.
        wrong: (rows,) the number of wrong verdicts, or the sum of the errors of scores.
        answer: (rows,) the most frequent verdict of the row, or the mean score of its case.
        counted: whether `wrong` counts verdicts.
    """

    case: Ints
    stratum: Ints
    side: Ints
    units: Floats
    wrong: Floats
    answer: Floats
    counted: bool

    def where(self, cases: Bools) -> Outcomes:
        """Return the rows of some cases, given as a mask."""
        rows = cases[self.case]
        return Outcomes(
            case=self.case[rows],
            stratum=self.stratum[rows],
            side=self.side[rows],
            units=self.units[rows],
            wrong=self.wrong[rows],
            answer=self.answer[rows],
            counted=self.counted,
        )

    @property
    def residuals(self) -> Floats:
        """What each row has more than the mean of its stratum, (rows,)."""
        expected = self.means[self.stratum] * self.units
        return np.asarray(self.wrong - expected)

    @property
    def means(self) -> Floats:
        """The share of wrong verdicts, or the mean error, of each stratum, (strata,)."""
        units = np.bincount(self.stratum, self.units)
        wrong = np.bincount(self.stratum, self.wrong)
        return np.asarray(wrong / np.maximum(units, 1e-12))


def columns_of(statistic: Statistic) -> Floats:
    """Return a statistic's columns without the weights of labels, (cases, columns)."""
    columns = np.stack(statistic.table.columns, axis=1, dtype=np.float64)
    weights = statistic.weights
    if weights is None:
        return np.asarray(columns)
    divisors = np.where(weights > 0, weights, 1.0)
    return np.asarray(columns / divisors[:, None])


def outcomes_of(statistics: Mapping[str, Statistic]) -> Outcomes | None:
    """Return what is known about verdicts and labels; `None` without labels.

    Args:
        statistics: the statistics of one judge, by name.
    """
    kappa = next((statistics[name] for name in KAPPAS if name in statistics), None)
    if kappa is not None and kappa.n:
        return _of_confusion(columns_of(kappa))
    moments = statistics.get(MOMENTS)
    if moments is not None and moments.n:
        return _of_moments(columns_of(moments))
    return None


def _of_confusion(cells: Floats) -> Outcomes:
    size = isqrt(cells.shape[1])
    tables = cells.reshape(len(cells), size, size)  # case, label, verdict
    # shape (cases, labels)
    units = tables.sum(axis=2)
    # shape (cases, labels): the units whose verdict is the label
    right = np.diagonal(tables, axis1=1, axis2=2)
    # A case has a row for each label among its units.
    case, label = np.nonzero(units)
    counts = units[case, label]
    wrong = counts - right[case, label]
    answer = tables[case, label].argmax(axis=1).astype(np.float64)
    return Outcomes(
        case=case,
        stratum=label,
        side=label,
        units=counts,
        wrong=wrong,
        answer=answer,
        counted=True,
    )


def _of_moments(sums: Floats) -> Outcomes:
    """Return the errors of scores: the distance from the line that gives the score at each grade.

    A score that is compressed, shifted or in other units everywhere has none, so errors show only
    where a slice differs. The responses of a case count together.
    """
    case = np.flatnonzero(sums[:, 0])
    # shape (cases,) each: responses, and their sums of scores x, grades y and products
    n, x, y, xx, yy, xy = sums[case].T
    total = sums.sum(axis=0)
    mean_x = total[1] / total[0]
    mean_y = total[2] / total[0]
    spread = total[4] / total[0] - mean_y**2
    # The least-squares line of scores on grades; it is flat if all grades are equal.
    slope = 0.0
    if spread > 0:
        covariance = total[5] / total[0] - mean_x * mean_y
        slope = covariance / spread
    start = mean_x - slope * mean_y
    # The sum over a case's responses of (x - start - slope * y) ** 2, from its moments.
    squares = xx - 2 * start * x - 2 * slope * xy
    squares += start**2 * n + 2 * start * slope * y + slope**2 * yy
    grade = y / n
    # The root mean square error of a case times its units, since `means` divides by them.
    mean_square = np.maximum(squares, 0.0) / n
    error = np.sqrt(mean_square) * n
    # Equal edges merge, so a few distinct grades make fewer levels.
    shares = np.linspace(0, 1, LEVELS + 1)
    edges = np.unique(np.quantile(grade, shares[1:-1]))
    level = np.searchsorted(edges, grade, side="left")
    middle = np.median(grade)
    above = grade > middle
    if not above.any():
        # The median is the highest grade, and no grade is above it.
        above = grade >= middle
    side = above.astype(np.int64)
    return Outcomes(
        case=case,
        stratum=level,
        side=side,
        units=n,
        wrong=error,
        answer=x / n,
        counted=False,
    )
