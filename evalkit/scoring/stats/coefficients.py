"""Coefficients of confusion matrices of any number of classes, their bounds over
missing verdicts, and alpha.

A flat confusion matrix is (rows, classes²): labels by row, verdicts by column. Bounds answer what a
coefficient would be if every missing verdict had named a class. The matrices that this can give
form a polytope, whose vertices put all missing verdicts of a label in one class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.stats.agreement_formulas import (
    ac1,
    alpha,
    alpha_of_pi,
    distances,
    f1,
    f1_scores,
    kappa,
    matthews,
    mean_defined,
    recall,
    scott_pi,
    weighted_kappa,
)
from evalkit.scoring.stats.arrays import Bools, Bounds, Codes, Floats, Ints, divide
from evalkit.scoring.stats.bounded_intervals import Halves, extremes, mixed
from evalkit.scoring.stats.statistic import Statistic, Table, Tally, undefined

VERTICES: Final = 4096
"""With more vertices than this, bounds are those of numerator and denominator apart, which are
wider."""
_TANGENTS: Final = 40
ONE_AGREED: Final = "agreement on at most one class"
"""Why an interval is wider than its resamples."""
Raters: TypeAlias = Literal[
    "pairs", "classes", "ordered classes", "items", "annotators", "panel", "samples"
]
"""Verdicts and labels of pairs, of classes or of items; annotators, judges of a panel, or samples
of one judge."""


@frozen
class Confusion:
    """The confusion matrix of two raters by case.

    Attributes:
        cells: (cases, classes²) the flat matrix of each case, labels by verdicts.
        unread: the matrix of all cases, with the missing verdicts.
        rows: (kinds, classes²) what one unit can add to the matrix.
    """

    cells: Table
    unread: Unread
    rows: Halves

    @classmethod
    def of(
        cls,
        tally: Tally,
        labels: Ints | Codes,
        verdicts: Ints | Codes,
        read: Bools,
        unread: Bools,
        classes: Sequence[int],
    ) -> Confusion:
        """Return the confusion matrix of labels and verdicts over `classes`.

        Args:
            tally: the case of each row.
            labels: (rows,) the labels.
            verdicts: (rows,) the verdicts.
            read: (rows,) which rows have both.
            unread: (rows,) which rows have a label and could have had a verdict.
            classes: the codes of the classes.
        """
        k = len(classes)
        row, column = (
            np.equal.outer(codes, classes).argmax(axis=1)
            for codes in (labels, verdicts)
        )
        cell = np.where(read, row * k + column, -1)
        in_cell = [cell == index for index in range(k * k)]
        cells = Table.of(tally.columns(*in_cell))
        lost = np.bincount(row[unread], minlength=k).astype(np.float64)
        table = cells.sums.reshape(k, k)
        every = np.arange(k * k)
        return cls(
            cells,
            Unread(table, lost),
            Halves(every, every, k * k),
        )

    @classmethod
    def among(cls, counts: Floats, tally: Tally) -> Confusion:
        """Return the confusion matrix of any two values of a unit: half of
        Krippendorff's (2011) coincidences.

        Args:
            counts: (units, classes) how many values of each unit are of each class.
            tally: the case of each unit.
        """
        size = counts.sum(axis=1)
        k = counts.shape[1]
        weight = np.where(size > 1, 0.5 / np.maximum(size - 1, 1), 0.0)
        same = np.eye(k)
        pairs = [
            counts[:, a] * (counts[:, b] - same[a, b]) * weight
            for a, b in product(range(k), repeat=2)
        ]
        cells = Table.of(tally.columns(*pairs) or np.zeros((tally.cases, 0)))
        # The table is symmetric: the other half of a cell is its mirror image.
        row, column = np.triu_indices(k)
        mirrored = column * k + row
        rows = Halves(row * k + column, mirrored, k * k)
        table = cells.sums.reshape(k, k)
        unread = Unread(table, np.zeros(0))
        return cls(cells, unread, rows)

    def coefficients(
        self, group: str, raters: Raters, **attributes: Any
    ) -> list[Statistic]:
        """Return the coefficients that raters have, as metrics of a group; for
        attributes see `statistic`.
        """
        statistics = []
        for name, coefficient in coefficients_of(raters).items():
            # What is missing among several values of a unit is not known.
            if self.unread.missing.size:
                worst = coefficient.bounds(self.unread)
            else:
                worst = (None, None)
            statistics.append(
                self.statistic(
                    f"{group}/{name}",
                    coefficient.value,
                    worst,
                    contrast=coefficient.contrast,
                    **attributes,
                )
            )
        return statistics

    def statistic(
        self,
        name: str,
        value: Callable[[Floats], Floats],
        worst: Bounds = (None, None),
        *,
        contrast: bool = False,
        **attributes: Any,
    ) -> Statistic:
        """Return a coefficient of agreement.

        Args:
            name: the metric's name.
            value: maps flat matrices (rows, classes²) to the coefficient.
            worst: its bounds over missing verdicts.
            contrast: whether it is 0 by construction if all labels are of one class, and so
                undefined.
            attributes: other attributes of the statistic, such as `note` and `why`.
        """
        counts = self.unread.table
        if contrast and np.count_nonzero(counts.sum(axis=1)) == 1:
            value = undefined
        n = int(counts.sum())
        missing = int(self.unread.missing.sum())
        reach = mixed(value, self.cells.sums, self.rows, float(counts.sum()))
        # No resample agrees on a second class, so a kappa would end at 0, for three cases as for a
        # thousand.
        unseen = (
            value(counts.reshape(1, -1))[0] <= 0
            and np.count_nonzero(np.diag(counts)) < 2
        )
        attributes = {
            "n": n,
            "missing": missing,
            "reach": reach,
            "unseen": ONE_AGREED if unseen else None,
            **attributes,
        }
        return Statistic(name, self.cells, value, worst=worst, **attributes)


def counts_by_label(
    labels: Mapping[str, Bools], verdicts: Mapping[str, Bools]
) -> JsonObject:
    """Return {"labels": {label: {verdict: count}}} of which rows have each label and
    each verdict.
    """
    return {
        "labels": {
            label: {
                name: int((rows & column).sum()) for name, column in verdicts.items()
            }
            for label, rows in labels.items()
        }
    }


@frozen
class Unread:
    """A confusion matrix with missing verdicts.

    Attributes:
        table: (classes, classes) the counts of labels by verdict.
        missing: (classes,) the number of missing verdicts by label.
    """

    table: Floats
    missing: Floats

    @property
    def n(self) -> float:
        """The number of labels, with and without a verdict."""
        read = self.table.sum()
        return float(read + self.missing.sum())

    @property
    def labels(self) -> Floats:
        """The number of labels of each class, (classes,)."""
        read = self.table.sum(axis=1)
        return np.asarray(read + self.missing)

    def bounds(self, value: Callable[[Floats], Floats], limits: Bounds) -> Bounds:
        """Return bounds `limits` widened to hold the value of the verdicts that were
        read, if it is defined.
        """
        ends = [np.nan if end is None else end for end in limits]
        observed = value(self.table.reshape(1, -1))
        return extremes(np.append(observed, ends))

    def of_class(self, value: Callable[[Floats], Floats], c: int) -> Bounds:
        """Return exact bounds of a statistic of one class against all others, which is
        monotone in every answer.

        Args:
            value: maps hits, false alarms, misses and the rest (rows, 4) to the statistic.
            c: the class.
        """
        hits = self.table[c, c]
        answers = self.table[:, c].sum()
        labels = self.table[c].sum()
        lost = self.missing[c]
        alarms = answers - hits
        misses = labels - hits
        lost_elsewhere = self.missing.sum() - lost
        negatives = self.table.sum() - hits - alarms - misses
        ends = [
            (
                hits + right,
                alarms + wrong,
                misses + lost - right,
                negatives + lost_elsewhere - wrong,
            )
            for right, wrong in product((0.0, lost), (0.0, lost_elsewhere))
        ]
        return extremes(value(np.array(ends)))

    def balanced_accuracy(self) -> Bounds:
        """Return exact bounds of the mean recall: recalls of different classes have no
        label in common.
        """
        return _mean_bounds([self.of_class(recall, c) for c in range(len(self.table))])

    def macro_f1(self) -> Bounds:
        """Return bounds of the mean F1 score.

        All missing verdicts correct is best for every class at once. The lower bound takes the
        worst for every class on its own. It is exact for two classes.
        """
        low, _ = _mean_bounds([self.of_class(f1, c) for c in range(len(self.table))])
        # At best, each missing verdict is its label.
        all_right = self.table + np.diag(self.missing)

        def value(totals: Floats) -> Floats:
            return mean_defined(f1_scores(totals))

        _, high = extremes(value(all_right.reshape(1, -1)))
        return self.bounds(value, (low, high))

    # Coefficients that correct for chance.

    def kappa(self) -> Bounds:
        """Return exact bounds of kappa: numerator and denominator are linear in the
        missing verdicts.
        """
        steps = 1 - np.eye(len(self.table))
        return self._linear_kappa(steps, kappa)

    def weighted_kappa(self, power: int) -> Bounds:
        """Return exact bounds of weighted kappa, as for kappa."""
        steps = distances(len(self.table), power)
        return self._linear_kappa(steps, lambda t: weighted_kappa(t, power))

    def _linear_kappa(self, steps: Floats, value: Callable[[Floats], Floats]) -> Bounds:
        """Return bounds of 1 minus observed over expected disagreement; `None` if all
        labels are of one class.
        """
        if np.count_nonzero(self.labels) < 2:
            return None, None
        observed = self.n * steps
        expected = np.tile(self.labels @ steps, (len(steps), 1))
        most, _ = self._extreme_ratio(observed, expected, 1.0)
        least, _ = self._extreme_ratio(observed, expected, -1.0)
        return self.bounds(value, (1 - most, 1 - least))

    def _extreme_ratio(
        self, top: Floats, bottom: Floats, sign: float, offset: float = 0.0
    ) -> tuple[float, Floats]:
        """Return the largest (`sign` 1) or smallest (-1) ratio of two sums over the
        filled matrix, and the filling.

        Dinkelbach 1967, Manage. Sci. 13, 492-498: for the ratio q, the filling that is best for top
        - q · bottom has a better ratio, until there is none.

        Args:
            top: (classes, classes) what each cell adds to the numerator.
            bottom: (classes, classes) what each cell adds to the denominator, which is positive.
            sign: 1 or -1.
            offset: what the denominator has in addition.
        """
        rows = np.arange(len(top))
        fill = np.diag(self.missing)
        ratio = -sign * np.inf
        while True:
            filled = self.table + fill
            numerator = (filled * top).sum()
            denominator = (filled * bottom).sum() + offset
            improved = float(numerator / denominator)
            if sign * (improved - ratio) <= 1e-15:
                return ratio, fill
            ratio = improved
            # label -> the answer that is best for its missing units
            gains = sign * (top - ratio * bottom)
            chosen = gains.argmax(axis=1)
            fill = np.zeros_like(top)
            fill[rows, chosen] = self.missing

    def scott_pi(self) -> Bounds:
        """Return bounds of Scott's pi: the lower one is exact up to `VERTICES`, the
        upper one by tangents.
        """
        limits = self._bounds_by_squares(1.0, -1.0, scott_pi)
        return self.bounds(scott_pi, limits)

    def alpha(self) -> Bounds:
        """Return bounds of nominal alpha, from those of Scott's pi."""
        low, high = self._bounds_by_squares(1.0, -1.0, scott_pi)
        if low is None or high is None:
            return self.bounds(alpha, (None, None))
        pi = np.array([low, high])
        n = np.array([self.n, self.n])
        ends = alpha_of_pi(pi, n)
        return self.bounds(alpha, (float(ends[0]), float(ends[1])))

    def ac1(self) -> Bounds:
        """Return bounds of AC1: the upper one is exact up to `VERTICES`, the lower one
        by tangents.
        """
        k = len(self.table)
        limits = self._bounds_by_squares((k - 2) / (k - 1), 1 / (k - 1), ac1)
        return self.bounds(ac1, limits)

    def _bounds_by_squares(
        self, constant: float, factor: float, value: Callable[[Floats], Floats]
    ) -> Bounds:
        """Return bounds of 1 - do / de, where de is `constant` plus `factor` times the
        sum of squared mean shares.

        If de is concave, do / de is largest at a vertex. Its tangents are above it, so the smallest
        ratio to a tangent is a lower bound of do / de, and close to it where the tangent touches at
        the best filling. If de is convex, both are the other way round.
        """
        n = self.n
        k = len(self.table)
        if not self.missing.any():
            return None, None
        wrong = 1 - np.eye(k)
        sign = 1.0 if factor > 0 else -1.0
        fill = np.diag(self.missing)
        bound = sign * np.inf
        for step in range(_TANGENTS):
            # shape (classes,): labels and answers together
            both = self.labels + (self.table + fill).sum(axis=0)
            slope = factor * both / (2 * n * n)
            intercept = (
                constant
                + factor * float((both**2).sum()) / (4 * n * n)
                - float(slope @ (both - self.labels))
            )
            if intercept + float(slope.min()) * n <= 1e-12:
                break
            ratio, best = self._extreme_ratio(
                wrong / n, np.tile(slope, (k, 1)), sign, intercept
            )
            bound = min(bound, ratio) if sign > 0 else max(bound, ratio)
            # steps of Frank and Wolfe toward the best filling
            fill = fill + (best - fill) * 2 / (step + 3)
        if not np.isfinite(bound):  # one class only, with or without missing verdicts
            bound = 0.0 if sign < 0 else 1.0
        low, high = self.at_vertices(value)
        if low is None or high is None:
            least, most = self._bounds_of_ratio(constant, factor)
            if sign < 0:
                return (max(-1.0, 1 - most), 1 - bound)
            return (max(-1.0, 1 - bound), 1 - least)
        if sign < 0:
            return (low, max(1 - bound, high))
        return (min(1 - bound, low), high)

    def _bounds_of_ratio(self, constant: float, factor: float) -> tuple[float, float]:
        """Return bounds of do / de from those of do and de apart."""
        n = self.n
        unknown = float(self.missing.sum())
        wrong = self.n - unknown - float(np.trace(self.table))
        both = self.labels + self.table.sum(axis=0)
        even = most_even(both, unknown)
        far = both.copy()
        far[both.argmax()] += unknown
        ends = sorted(
            constant + factor * float((counts**2).sum()) / (4 * n * n)
            for counts in (even, far)
        )
        low = wrong / n / ends[1]
        high = np.inf
        if ends[0] > 1e-12:
            high = (wrong + unknown) / n / ends[0]
        return low, high

    def at_vertices(self, value: Callable[[Floats], Floats]) -> Bounds:
        """Return the lowest and highest value at a vertex; `None` if there are too many
        vertices, or none has one.
        """
        k = len(self.table)
        rows = np.flatnonzero(self.missing)
        if k ** len(rows) > VERTICES:
            return None, None
        tables = []
        for target in product(range(k), repeat=len(rows)):
            table = self.table.copy()
            table[rows, list(target)] += self.missing[rows]
            tables.append(table.ravel())
        return extremes(value(np.array(tables)))

    def matthews(self) -> Bounds:
        """Return bounds of Matthews' coefficient.

        It is linear over concave, so that positive maxima and negative minima are at vertices. For
        two classes it rises with every correct verdict, so all correct and all wrong are its exact
        bounds.
        """
        if np.count_nonzero(self.labels) < 2:
            return None, None
        if not self.missing.any():
            return self.bounds(matthews, (None, None))
        if len(self.table) == 2:
            fills = (np.diag(self.missing)[:, ::-1], np.diag(self.missing))
            ends = [
                float(matthews((self.table + fill).reshape(1, 4))[0]) for fill in fills
            ]
            low, high = (0.0 if end != end else end for end in ends)
            return self.bounds(matthews, (low, high))
        low, high = self._matthews_apart()
        lowest, highest = self.at_vertices(matthews)
        if lowest is not None and highest is not None:
            low = low if low > 0 else min(lowest, 0.0)
            high = high if high < 0 else max(highest, 0.0)
        return self.bounds(matthews, (low, high))

    def _matthews_apart(self) -> tuple[float, float]:
        """Return bounds of Matthews' coefficient from those of its numerator and
        denominator apart.
        """
        n = self.n
        labels = self.labels
        unknown = float(self.missing.sum())
        gain = n * np.eye(len(labels)) - labels
        fixed = float((self.table * gain).sum())
        low, high = (
            fixed + float(self.missing @ pick)
            for pick in (gain.min(axis=1), gain.max(axis=1))
        )
        far = self.table.sum(axis=0)
        even = most_even(self.table.sum(axis=0), unknown)
        far[far.argmax()] += unknown
        spread = n * n - float((labels**2).sum())
        small, large = (
            np.sqrt(max(spread * (n * n - float((c**2).sum())), 0.0))
            for c in (far, even)
        )
        worst = divide(
            np.array([low, high]),
            np.array([large if low > 0 else small, large if high < 0 else small]),
        )
        return float(np.clip(np.nan_to_num(worst[0], nan=-1.0), -1, 1)), float(
            np.clip(np.nan_to_num(worst[1], nan=1.0), -1, 1)
        )


def _mean_bounds(ends: list[Bounds]) -> Bounds:
    bounded = [
        (low, high) for low, high in ends if low is not None and high is not None
    ]
    if not bounded:
        return None, None
    return sum(low for low, _ in bounded) / len(bounded), sum(
        high for _, high in bounded
    ) / len(bounded)


def most_even(fixed: Floats, extra: float) -> Floats:
    """Return counts with `extra` added to the smallest ones, so that they become as
    even as possible.
    """
    ordered = np.sort(fixed)
    levels = [(ordered[:k].sum() + extra) / k for k in range(1, len(ordered) + 1)]
    level = next(
        level
        for k, level in enumerate(levels, 1)
        if k == len(ordered) or level <= ordered[k]
    )
    return np.asarray(np.maximum(fixed, level))


@frozen
class Coefficient:
    """A coefficient of agreement.

    Attributes:
        value: maps flat confusion matrices (rows, classes²) to it, NaN where it is undefined.
        bounds: its bounds over missing verdicts.
        raters: whose agreement it measures.
        contrast: whether it is 0 by construction if all labels are of one class, and so undefined.
    """

    value: Callable[[Floats], Floats]
    bounds: Callable[[Unread], Bounds]
    raters: tuple[Raters, ...]
    contrast: bool = False


COEFFICIENTS: Final[dict[str, Coefficient]] = {
    "kappa": Coefficient(
        kappa, Unread.kappa, ("pairs", "classes", "items"), contrast=True
    ),
    "kappa_weighted": Coefficient(
        weighted_kappa,
        lambda unread: unread.weighted_kappa(1),
        ("pairs", "ordered classes"),
        contrast=True,
    ),
    "scott_pi": Coefficient(scott_pi, Unread.scott_pi, ("classes",)),
    "ac1": Coefficient(ac1, Unread.ac1, ("pairs", "classes")),
    "alpha": Coefficient(
        alpha, Unread.alpha, ("classes", "annotators", "panel", "samples")
    ),
    "kappa_quadratic": Coefficient(
        partial(weighted_kappa, power=2),
        lambda unread: unread.weighted_kappa(2),
        ("ordered classes",),
        contrast=True,
    ),
}
"""Coefficients by the last part of the metric's name, for verdicts and labels, or any two of
several values of a unit.

A new one is a line here and a row in catalog/metrics.toml for each group of metrics: `agreement` of
pairs and classes, `checklist` of items, `human`, `panel` and `samples`."""


def coefficients_of(raters: Raters) -> dict[str, Coefficient]:
    """Return the coefficients that some raters have."""
    return {
        name: coefficient
        for name, coefficient in COEFFICIENTS.items()
        if raters in coefficient.raters
    }


def alpha_of_numbers(
    name: str, values: Floats, unit: Ints, tally: Tally, **attributes: Any
) -> Statistic:
    """Return Krippendorff's interval alpha; NaN if all values are equal.

    Args:
        name: the metric's name.
        values: (n,) the values.
        unit: (n,) the unit of each value.
        tally: the case of each unit.
        attributes: other attributes of the statistic.
    """
    units = len(tally.case)
    # Centered, because sums of squares of large, similar numbers lose precision.
    values = values - values.mean() if len(values) else values
    size, sums, squares = (
        np.bincount(unit, weights=values**power, minlength=units) for power in (0, 1, 2)
    )
    paired = size > 1
    differences = 2 * (size * squares - sums * sums) / np.maximum(size - 1, 1)
    table = Table.of(
        tally.columns(
            *(
                np.where(paired, part, 0.0)
                for part in (differences, size, sums, squares)
            )
        )
    )
    # The two values of an unlike unit are at the ends, or both at one.
    low = values.min(initial=0.0)
    high = values.max(initial=0.0)
    rows = [
        [2 * (a - b) ** 2, 1.0, (a + b) / 2, (a * a + b * b) / 2]
        for a, b in ((low, low), (high, high), (low, high))
    ]
    reach = mixed(interval_alpha, table.sums, np.array(rows), float(table.sums[1]))
    return Statistic(name, table, interval_alpha, **{"reach": reach, **attributes})


def interval_alpha(totals: Floats) -> Floats:
    """Return interval alpha from squared differences, number, sum and sum of squares, (rows, 4)."""
    differences, n, sums, squares = totals.T
    expected = 2 * (n * squares - sums * sums)
    return np.asarray(
        1 - (n - 1) * divide(differences, np.where(expected > 1e-9 * n, expected, 0.0))
    )
