"""Correlation, agreement and error of scores, compared with annotators' grades."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from evalkit.core.scale import Scale
from evalkit.core.values import frozen
from evalkit.scoring.columns import ScoreColumns, VerdictColumns
from evalkit.scoring.stats.arrays import FUZZ, Bounds, Floats, Ints, divide
from evalkit.scoring.stats.bootstrap import Columns, Statistic, Tally, ratio, undefined
from evalkit.scoring.stats.bounded_intervals import FEW, Reach, bounded_mean
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.verdicts.pointwise import rank

LARGEST = 4000
"""Bounds are computed for at most this many distinct pairs of score and grade."""
RMSE_RESAMPLES = 1000


def pearson_bounds(
    x: Floats, y: Floats, missing_y: Floats, ends: tuple[float, float]
) -> Bounds:
    """Return exact bounds of Pearson's r if some scores are missing.

    The largest r is found as in `_largest`. The smallest r, if all possible values are positive, is
    that of a pseudoconcave function, and so at a corner of the box (Mangasarian 1969, Nonlinear
    Programming, ch. 9): each missing score is at one end. Corners with k scores at the upper end
    differ only in their covariance with the grades, so the relevant one has them at the k lowest
    grades.

    Args:
        x: (n,) the scores.
        y: (n,) their grades.
        missing_y: (m,) the grades without a score.
        ends: the ends of the scale.
    """
    missing_grades, n = len(missing_y), len(x) + len(missing_y)
    low = np.concatenate([x, np.full(missing_grades, ends[0])])
    high = np.concatenate([x, np.full(missing_grades, ends[1])])

    def smallest(c: Floats) -> float:
        up = np.arange(missing_grades + 1)
        sums = [
            np.sum(x**power)
            + ends[0] ** power * (missing_grades - up)
            + ends[1] ** power * up
            for power in (1, 2)
        ]
        gained = np.concatenate([[0.0], np.cumsum(np.sort(c[len(x) :]))])
        along = c @ low + (ends[1] - ends[0]) * gained
        squares = sums[1] - sums[0] ** 2 / n
        defined = squares > 1e-12 * np.maximum(
            1.0, sums[1]
        )  # otherwise all scores are equal and r is undefined
        return float((along[defined] / np.sqrt(squares[defined])).min(initial=1.0))

    return _bounds(np.concatenate([y, missing_y]), low, high, smallest)


def spearman_bounds(x: Floats, y: Floats, missing_y: Floats) -> Bounds:
    """Return bounds of Spearman's rho on any scale if some scores are missing.

    Rho is Pearson's r of mid-ranks. Each of m missing scores adds at most one score below a known
    one, whose rank is therefore between its rank among the known and that plus m. The rank of a
    missing score is in 1…n. The bounds are those of Pearson's r over all such numbers, ranks or
    not, so they are valid but may not be attained. If all of these have one sign, the bound next to
    0 is the smallest covariance over the largest deviation of n ranks with the given ties.

    Args:
        x: (n,) the scores.
        y: (n,) their grades.
        missing_y: (m,) the grades without a score.
    """
    missing_grades = len(missing_y)
    ranks = rank(x, np.zeros(len(x), dtype=np.int64))
    n = len(x) + missing_grades
    low = np.concatenate([ranks, np.full(missing_grades, 1.0)])
    high = np.concatenate([ranks + missing_grades, np.full(missing_grades, float(n))])
    ties = np.unique(x, return_counts=True)[1].astype(np.float64)
    squares = (float(n) ** 3 - n - (ties**3 - ties).sum()) / 12

    def smallest(c: Floats) -> float:
        return float(c @ np.where(c > 0, low, high) / np.sqrt(squares))

    return _bounds(
        rank(np.concatenate([y, missing_y]), np.zeros(n, dtype=np.int64)),
        low,
        high,
        smallest,
    )


def kendall_bounds(x: Floats, y: Floats, missing_y: Floats, tau: float) -> Bounds:
    """Return bounds of Kendall's tau-b on any scale if some scores are missing.

    Among pairs with a missing score, let M be all pairs and m those with different grades. At best
    all m are concordant: S grows by m, and the number X of pairs with different scores by between m
    and M. S / sqrt(X Y) is largest with the fewest pairs if S is positive and with the most if it
    is negative, and the reverse for the smallest. Not all of these pairs need be possible at once,
    so the bounds are valid but may not be attained.

    Args:
        x: (n,) the scores.
        y: (n,) their grades.
        missing_y: (m,) the grades without a score.
        tau: tau-b of the known scores.
    """
    untied_x, untied_y = _untied(x), _untied(y)
    every_y = _untied(np.concatenate([y, missing_y]))
    n = len(x) + len(missing_y)
    scored = len(x)
    new_pairs = n * (n - 1) / 2 - scored * (scored - 1) / 2
    different = every_y - untied_y
    if not every_y:
        return None, None
    agreement = tau * np.sqrt(untied_x * untied_y) if np.isfinite(tau) else 0.0

    def largest(s: float) -> float:
        s += different
        pairs = untied_x + (different if s > 0 else new_pairs)
        tau_b = float(s / np.sqrt(pairs * every_y)) if pairs else 0.0
        return min(1.0, max(-1.0, tau_b))

    return -largest(-agreement), largest(agreement)


def _untied(values: Floats) -> float:
    """Return the number of pairs of values that differ."""
    counts = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float(
        len(values) * (len(values) - 1) / 2 - (counts * (counts - 1) / 2).sum()
    )


def _bounds(
    y: Floats, low: Floats, high: Floats, smallest: Callable[[Floats], float]
) -> Bounds:
    """Return the bounds of Pearson's r of `y` with numbers between `low` and `high`, `None` if there are too many.

    Args:
        y: (n,) the grades.
        low: (n,) the lowest possible numbers.
        high: (n,) the highest possible numbers.
        smallest: returns the smallest r with a direction (n,), if all possible values are positive.
    """
    if not len(y) or np.ptp(y) == 0:
        return None, None
    rows, counts = np.unique(np.stack([y, low, high]), axis=1, return_counts=True)
    if rows.shape[1] > LARGEST:
        return None, None
    centered, weight = y - y.mean(), counts.astype(np.float64)
    length = np.sqrt(centered @ centered)
    direction = (rows[0] - y.mean()) / length
    least = rows[1]
    most = rows[2]

    def largest(sign: int) -> float:
        maximum = _largest(sign * direction, least, most, weight)
        if maximum is None:
            return -smallest(-sign * centered / length)
        return maximum

    low_end, high_end = (
        float(np.clip(sign * largest(sign), -1.0, 1.0)) for sign in (-1, 1)
    )
    return low_end, high_end


def _largest(c: Floats, low: Floats, high: Floats, weight: Floats) -> float | None:
    """Return the largest r of numbers in a box with a direction, or `None` if no r is positive.

    A positive r is a linear function over a convex one and so pseudoconcave: a point that no small
    step improves is a maximum (Mangasarian 1965, SIAM J. Control 3, 281-290). Identical rows have
    identical numbers there.

    Args:
        c: (k,) the direction, centered and of length 1.
        low: (k,) the lowest possible numbers.
        high: (k,) the highest possible numbers.
        weight: (k,) how many rows each entry represents.
    """
    from scipy.optimize import minimize

    start = np.where(c > 0, high, low)
    if weight @ (c * start) <= 1e-12:
        return None
    shift = float(low.min())
    scale = max(float(high.max() - low.min()), 1e-12)
    total = weight.sum()

    def loss(x: Floats) -> tuple[float, Floats]:
        centered = x - weight @ x / total
        along = weight @ (c * x)
        squares = weight @ centered**2
        if along <= 0 or squares <= 0:
            return 1e6, np.zeros(len(x))
        return float(0.5 * np.log(squares) - np.log(along)), weight * (
            centered / squares - c / along
        )

    bounds = np.stack([(low - shift) / scale, (high - shift) / scale], axis=1)
    options = {"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-9}
    solution = minimize(
        loss,
        (start - shift) / scale,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options=options,
    )
    return float(np.exp(-solution.fun))


EXACT_ROWS = 4000
"""Kendall's tau is resampled exactly, by matrices of cases × cases, for at most this many
responses."""
ANCHORS = 2000
"""The number of responses that each response is compared with beyond that."""
NEGLIGIBLE = 1e-12
BLOCK = 2**18
"""Numbers held at a time: 2 MiB."""
_MOST_CELLS = 128
"""Up to this number of combinations of a score and a grade, ranks are computed from their
counts."""


@frozen
class _GradedScores:
    """Responses with a score `x` and a grade `y`, in case order, and the grades of responses without a score."""

    tally: Tally
    x: Floats
    y: Floats
    missing_grades: Floats

    @classmethod
    def of(cls, scored: ScoreColumns) -> _GradedScores:
        graded = np.isfinite(scored.grade)
        scored_rows = np.isfinite(scored.score)
        both = graded & scored_rows
        x = np.round(scored.score[both], 9)
        y = scored.grade[both]
        return cls(scored.tally.where(both), x, y, scored.grade[graded & ~scored_rows])

    def statistic(
        self,
        name: str,
        columns: Columns,
        value: Callable[[Floats], Floats],
        **attributes: Any,
    ) -> Statistic:
        """Return a correlation; missing scores are omitted."""
        missing = len(self.missing_grades)
        return Statistic(
            f"agreement/{name}",
            columns,
            value,
            n=len(self.x),
            covered=self.tally(np.ones(len(self.x))) > 0,
            missing=missing,
            note=_unbounded(missing),
            why=(
                "scores or grades are all equal"
                if len(self.x)
                else "no scored response has a grade"
            ),
            **attributes,
        )


def auc_statistic(scored: ScoreColumns) -> Statistic:
    """Return `agreement/auc`: the area under the ROC curve of scores as predictions of the higher of two grades.

    It is the share of pairs of a higher and a lower grade whose scores have the same order, equal
    scores counting half (Hanley and McNeil 1982, Radiology 143, 29-36).

    Args:
        scored: the scores.
    """
    graded = _GradedScores.of(scored)
    levels, high = (
        _Levels.of(np.unique(graded.x, return_inverse=True)[1]),
        graded.y > graded.y.min(initial=np.inf),
    )
    two = len(np.unique(graded.y)) == 2

    def areas(weights: Floats) -> Floats:
        upper, lower = (
            # shape (resamples, levels)
            levels.counts(weights[:, graded.tally.case] * side)
            for side in (high, ~high)
        )
        below = np.cumsum(lower, axis=1) - lower / 2
        return divide(
            (upper * below).sum(axis=1), upper.sum(axis=1) * lower.sum(axis=1)
        )

    statistic = graded.statistic(
        "auc",
        np.zeros((graded.tally.cases, 0)),
        partial(_in_blocks, areas, len(graded.x)) if two else undefined,
        weighted=True,
        proportion=True,
    )
    if two:
        return statistic
    return replace(statistic, why="grades do not have two levels")


def _unbounded(missing: int) -> str | None:
    if missing:
        return "missing scores are omitted and not bounded"
    return None


def correlation_statistics(
    scores: ScoreColumns, ends: tuple[float, float] | None = None
) -> list[Statistic]:
    """Return Pearson's r, Spearman's rho and Kendall's tau-b of scores and grades, pooled over all responses.

    They have bounds over missing scores if the `ends` of the scale are given. Without them, a
    missing score could have changed the other scores, and there are no bounds.

    Args:
        scores: the scores.
        ends: the ends of the scale.
    """
    graded = _GradedScores.of(scores)
    statistics = [
        replace(build(graded), reach=_unlike(build, graded))
        for build in (_pearson, _spearman, _kendall)
    ]
    if ends is None or not len(graded.missing_grades):
        return statistics
    observed = (graded.x, graded.y, graded.missing_grades)
    worst = [
        pearson_bounds(*observed, ends),
        spearman_bounds(*observed),
        kendall_bounds(
            *observed, statistics[2].observed() if len(graded.x) else float("nan")
        ),
    ]
    return [
        statistic
        if bounds == (None, None)
        else replace(statistic, worst=bounds, note=None)
        for statistic, bounds in zip(statistics, worst, strict=True)
    ]


def _unlike(
    build: Callable[[_GradedScores], Statistic], graded: _GradedScores
) -> Reach:
    """Return how far a correlation could be if a share of the clusters were unlike those seen.

    Half of them then have the lowest score seen and the highest grade, and half the highest score
    and the lowest grade, which lowers the correlation most; or lowest and highest together. A few
    responses at opposite ends move it more than as many at random.
    """

    def reach(share: float) -> Bounds:
        some = slice(None, None, 1 + len(graded.x) // EXACT_ROWS)
        case = graded.tally.case[some]
        x = graded.x[some]
        y = graded.y[some]
        cases = graded.tally.cases
        ends = [x.min(), x.max()], [y.min(), y.max()]
        added = Tally(np.append(case, [cases, cases + 1]), cases + 2)
        weights = np.full((1, cases + 2), 1 - share)
        weights[0, -2:] = share * len(x) / 2
        extremes = []
        for step in (-1, 1):
            wider = _GradedScores(
                added, np.append(x, ends[0]), np.append(y, ends[1][::step]), x[:0]
            )
            statistic = build(wider)
            extremes.append(
                float(
                    statistic.value(
                        weights
                        if statistic.weighted
                        else statistic.table.totals(weights)
                    )[0]
                )
            )
        return extremes[0], extremes[1]

    return reach


def spearman_statistic(tally: Tally, score: Floats, grade: Floats) -> Statistic:
    """Return Spearman's rho of scores and grades of responses.

    Args:
        tally: the case of each response.
        score: (n,) the scores.
        grade: (n,) the grades.
    """
    graded = _GradedScores(tally, np.round(score, 9), grade, np.zeros(0))
    return replace(_spearman(graded), reach=_unlike(_spearman, graded))


def _pearson(graded: _GradedScores) -> Statistic:
    """Return Pearson's r from per-case sums of moments (Pearson 1895, Proc. R.

    Soc. 58, 240-242).
    """
    # With mean 0 and deviation 1, sums of squares keep precision.
    x, y = (
        (
            (values - values.mean()) / values.std()
            if len(values) and np.ptp(values)
            else np.zeros(len(values))
        )
        for values in (graded.x, graded.y)
    )
    columns = graded.tally.columns(*moments(x, y))
    return graded.statistic("pearson", columns, pearson_r)


def moments(x: Floats, y: Floats) -> tuple[Floats, ...]:
    """Return the columns whose sums are the moments of x and y: 1, x, y, xx, yy and xy."""
    return np.ones(len(x)), x, y, x * x, y * y, x * y


def pearson_r(totals: Floats) -> Floats:
    """Return Pearson's r of moments (rows, 6): n and the sums of x, y, xx, yy, xy; NaN if x or y does not vary."""
    n, x, y, xx, yy, xy = totals.T
    spread_x = n * xx - x * x
    spread_y = n * yy - y * y
    defined = (spread_x > NEGLIGIBLE * n * n) & (spread_y > NEGLIGIBLE * n * n)
    scale = np.sqrt(np.where(defined, spread_x * spread_y, 0.0))
    return np.clip(divide(n * xy - x * y, scale), -1.0, 1.0)


def _spearman(graded: _GradedScores) -> Statistic:
    """Return Pearson's r of mid-ranks, recomputed in every resample (Spearman 1904, Am. J.

    Psychol. 15, 72-101).
    """
    levels = [
        np.unique(values, return_inverse=True)[1] for values in (graded.x, graded.y)
    ]
    width = int(levels[1].max(initial=0)) + 1
    # row -> its cell, a combination of two levels
    cells, cell = np.unique(levels[0] * width + levels[1], return_inverse=True)
    if 0 < len(cells) <= min(_MOST_CELLS, len(cell) // 4):
        columns = graded.tally.columns(
            *(cell == number for number in range(len(cells)))
        )
        of_cells = [_Levels.of(cells // width), _Levels.of(cells % width)]
        return graded.statistic(
            "spearman", columns, partial(_rank_correlations, of_cells)
        )
    ranked = [_Levels.of(level) for level in levels]

    def rho(weights: Floats) -> Floats:
        return _rank_correlations(ranked, weights[:, graded.tally.case])

    value = partial(_in_blocks, rho, len(graded.x))
    return graded.statistic(
        "spearman", np.zeros((graded.tally.cases, 0)), value, weighted=True
    )


@frozen
class _Levels:
    """Values by rank.

    Attributes:
        level: (n,) the level of each value, from 0, each of which some value has.
        order: (n,) the values in order of their levels.
        start: (levels,) the place in that order of each level's first value.
    """

    level: Ints
    order: Ints
    start: Ints

    @classmethod
    def of(cls, level: Ints) -> _Levels:
        order = np.argsort(level, kind="stable")
        return cls(level, order, np.flatnonzero(np.diff(level[order], prepend=-1)))

    def counts(self, weights: Floats) -> Floats:
        """Return the sum of the weights (rows, n) of each level, (rows, levels)."""
        return np.asarray(np.add.reduceat(weights[:, self.order], self.start, axis=1))


def _rank_correlations(levels: list[_Levels], weights: Floats) -> Floats:
    """Return Pearson's r of the mid-ranks of two values under each row of weights (rows, n)."""
    if not weights.shape[1]:
        return undefined(weights)
    n = weights.sum(axis=1)
    ranks = []
    for values in levels:
        # shape (rows, levels)
        counts = values.counts(weights)
        # Mid-ranks as centered fractions of n: their mean is 0 for any ties.
        middles = (np.cumsum(counts, axis=1) - counts / 2) / np.where(n > 0, n, 1.0)[
            :, None
        ] - 0.5
        ranks.append(middles[:, values.level])
    x, y = ranks
    squares = [
        np.einsum("ij,ij,ij->i", weights, first, second)
        for first, second in ((x, x), (y, y), (x, y))
    ]
    return pearson_r(np.stack([n, 0 * n, 0 * n, *squares], axis=1))


def _in_blocks(value: Callable[[Floats], Floats], size: int, weights: Floats) -> Floats:
    """Return a value of `size` numbers for each row of weights, computed for a bounded number of rows at a time."""
    step = max(1, BLOCK // max(1, size))
    return np.concatenate(
        [
            value(weights[start : start + step])
            for start in range(0, max(1, len(weights)), step)
        ]
    )


def _kendall(graded: _GradedScores) -> Statistic:
    """Return tau-b (Kendall 1945, Biometrika 33, 239-251).

    Let S, X, Y be the sums over pairs of responses of sgn(dx)sgn(dy), |sgn(dx)|, |sgn(dy)|, by pair
    of cases. A resample with weights w has exactly tau = w'Sw / sqrt(w'Xw w'Yw). Beyond
    `EXACT_ROWS` responses, the interval comes from the first-order (Hájek) projection of the three
    sums, with each response compared with `ANCHORS` others.
    """
    if len(graded.x) > EXACT_ROWS:
        return _projected_kendall(graded)
    tables = _pair_tables(graded)
    both = np.unique(graded.tally.case)

    def tau(weights: Floats) -> Floats:
        w = weights[:, both]
        return _tau(*(((w @ table) * w).sum(axis=1) for table in tables))

    return graded.statistic(
        "kendall", np.zeros((graded.tally.cases, 0)), tau, weighted=True
    )


def _tau(agreement: Floats, untied_x: Floats, untied_y: Floats) -> Floats:
    return divide(agreement, np.sqrt(np.maximum(untied_x * untied_y, 0.0)))


def _signs(
    graded: _GradedScores, rows: slice | Ints, columns: slice | Ints
) -> tuple[Floats, Floats, Floats]:
    dx = np.sign(graded.x[rows, None] - graded.x[None, columns])
    dy = np.sign(graded.y[rows, None] - graded.y[None, columns])
    return dx * dy, np.abs(dx), np.abs(dy)


def _pair_tables(graded: _GradedScores) -> list[Floats]:
    """Return S, X and Y, summed by case along both axes, each (cases, cases)."""
    if not len(graded.x):
        return [np.zeros((0, 0))] * 3
    starts = np.unique(graded.tally.case, return_index=True)[1]
    parts: list[list[Floats]] = [[], [], []]
    for start in range(0, len(graded.x), 256):
        for part, signs in zip(
            parts, _signs(graded, slice(start, start + 256), slice(None)), strict=True
        ):
            part.append(np.add.reduceat(signs, starts, axis=1))
    return [np.add.reduceat(np.concatenate(part), starts, axis=0) for part in parts]


def _projected_kendall(graded: _GradedScores) -> Statistic:
    from scipy.stats import kendalltau

    tau = float(kendalltau(graded.x, graded.y).statistic)
    anchors = np.sort(
        np.random.default_rng(0).choice(len(graded.x), ANCHORS, replace=False)
    )
    blocks = range(0, len(graded.x), 1024)
    means = [
        [s.mean(axis=1) for s in _signs(graded, slice(b, b + 1024), anchors)]
        for b in blocks
    ]
    projections = [np.concatenate(column) for column in zip(*means, strict=True)]
    centres = [float(projection.mean()) for projection in projections]
    columns = graded.tally.columns(np.ones(len(graded.x)), *projections)

    def approximate(totals: Floats) -> Floats:
        return _tau(*(2 * ratio(k + 1, 0, totals) - centres[k] for k in range(3)))

    shift = tau - float(
        approximate(np.array([[column.sum() for column in columns]]))[0]
    )
    return graded.statistic(
        "kendall", columns, lambda totals: approximate(totals) + shift
    )


def within_statistics(
    scores: ScoreColumns, verdicts: VerdictColumns
) -> list[Statistic]:
    """Return `agreement/pearson_within`, `spearman_within` and `kendall_within`: mean correlations within cases.

    Each case with at least two graded scores that are not all equal counts once. Kendall's tau is
    tau-b (Kendall 1945, Biometrika 33, 239-251). Correlations over all responses also reflect how
    well the judge separates prompts (Deutsch et al. 2021, arXiv 2104.00054, section 2). Intervals
    are those of means between -1 and 1 (`bounded_mean`), because most cases have high correlations
    and few resamples would contain the low ones.

    Args:
        scores: the scores.
        verdicts: the verdicts, for the pairs of responses.
    """
    graded = _GradedScores.of(scores)
    x = graded.x
    y = graded.y
    tally = graded.tally
    missing = len(graded.missing_grades)
    correlations = {
        "pearson": pearson_by_case(x, y, tally),
        "spearman": pearson_by_case(rank(x, tally.case), rank(y, tally.case), tally),
        "kendall": _kendall_within(scores, verdicts),
    }
    several = tally(np.ones(len(x))) > 1
    statistics = []
    for name, r in correlations.items():
        defined = np.isfinite(r)
        omitted = int((several & ~defined).sum())
        if omitted:
            notes = [f"{omitted} cases with equal scores or equal grades are omitted"]
        else:
            notes = []
        statistic = Tally.each(tally.cases).mean(
            f"agreement/{name}_within",
            np.nan_to_num(r),
            defined,
            missing=missing,
            note="; ".join([*notes, *filter(None, [_unbounded(missing)])]) or None,
            ends=(-1.0, 1.0),
            why="no case has two graded scores that differ",
        )
        statistics.append(statistic)
    return statistics


def pearson_by_case(x: Floats, y: Floats, tally: Tally) -> Floats:
    """Return Pearson's r of each case, (cases,); NaN with fewer than two rows or if all are equal.

    Args:
        x: (n,) the scores.
        y: (n,) the grades.
        tally: the case of each row.
    """
    case = tally.case
    # shape (cases,)
    size = np.maximum(tally(np.ones(len(x))), 1.0)
    x = x - (tally(x) / size)[case]
    y = y - (tally(y) / size)[case]
    counts, _, _, *squares = moments(x, y)
    return pearson_r(np.stack(tally.columns(counts, 0 * x, 0 * y, *squares), axis=1))


def _kendall_within(scored: ScoreColumns, verdicts: VerdictColumns) -> Floats:
    x, y = (
        verdicts.pairs.differences(values) for values in (scored.score, scored.grade)
    )
    used = np.isfinite(x) & np.isfinite(y)
    # shape (pairs,): the sign of each difference, 0 for a tie or a missing value
    dx, dy = (
        np.where(used & (np.abs(difference) > FUZZ), np.sign(difference), 0.0)
        for difference in (x, y)
    )
    agreement, untied_x, untied_y = verdicts.tally.columns(
        dx * dy, np.abs(dx), np.abs(dy)
    )
    return divide(agreement, np.sqrt(untied_x * untied_y))


def scale_statistics(responses: ScoreColumns, scale: Scale) -> list[Statistic]:
    """Return how scores fit grades on the same scale: quadratic kappa, RMSE, slope, spread and closeness.

    `agreement/slope` is that of the least-squares line of scores on grades, and `agreement/spread`
    the ratio of their standard deviations: a judge that uses half of the scale has both below 1.
    `agreement/close` is the share of scores within one level, or a tenth of the scale, of the
    grade.

    Kappa with quadratic weights needs no classes: it is 1 minus the mean squared difference of
    scores and grades over its expected value if they were paired at random (Cohen 1968; Lin 1989,
    Biometrics 45, 255-268: the concordance correlation).

    Args:
        responses: the scores.
        scale: the scale of the rubric.
    """
    graded = np.isfinite(responses.grade)
    has_score = np.isfinite(responses.raw)
    read = graded & has_score
    x = responses.raw[read]
    y = responses.grade[read]
    lost = responses.grade[graded & ~has_score]
    n, missing, tally = len(x), len(lost), responses.tally.where(read)
    why = responses.off_scale(scale)
    off_scale = bool(why)
    why = why or "no scored response has a grade"
    scale = Scale(0.0, 1.0, 1.0) if scale.real else scale

    def statistic(
        name: str,
        value: Callable[[Floats], Floats],
        *columns: Floats,
        **attributes: Any,
    ) -> Statistic:
        sums = tally.columns(*(column * (not off_scale) for column in columns))
        return Statistic(
            f"agreement/{name}",
            sums,
            value,
            **{"n": n, "missing": missing, "why": why, **attributes},
        )

    def rmse_interval(clusters: Clusters, confidence: float) -> tuple[float, float]:
        # Few errors have no upper tail to resample. The largest one seen, half as large again,
        # bounds the errors of other cases: the whole scale would be far too wide.
        farthest_seen = min(scale.span**2, 2.25 * float(squared.max()))
        low, high = bounded_mean(
            clusters.sums(tally(squared)),
            clusters.sums(tally(np.ones(n))),
            (0.0, farthest_seen),
            RMSE_RESAMPLES,
            confidence,
            seed=0,
        )
        return float(np.sqrt(low)), float(np.sqrt(high))

    center = (scale.min + scale.max) / 2
    squared = (x - y) ** 2
    count = n + missing
    corners = moments(*scale.span / 2 * np.array([[-1, -1, 1, 1], [-1, 1, -1, 1]]))
    total = float(squared.sum())
    farthest = float((np.maximum(lost - scale.min, scale.max - lost) ** 2).sum())
    return [
        statistic(
            "kappa_quadratic",
            concordance,
            *moments(x - center, y - center),
            reach=np.stack(corners, axis=1),
            note=_unbounded(missing),
            why="scores and grades are all equal" if n and not off_scale else why,
        ),
        statistic(
            "rmse",
            lambda totals: np.sqrt(ratio(0, 1, totals)),
            squared,
            np.ones(n),
            own=rmse_interval
            if 0 < n <= FEW and squared.any() and not off_scale
            else None,
            reach=np.array([[0.0, 1.0], [scale.span**2, 1.0]]),
            worst=(
                ((total / count) ** 0.5, ((total + farthest) / count) ** 0.5)
                if n and not off_scale
                else (None, None)
            ),
        ),
        statistic(
            "slope",
            slope_of,
            *moments(x - center, y - center),
            reach=np.stack(corners, axis=1),
            note=_unbounded(missing),
            why="grades are all equal" if n and not off_scale else why,
        ),
        statistic(
            "spread",
            spread_of,
            *moments(x - center, y - center),
            reach=np.stack(corners, axis=1),
            note=_unbounded(missing),
            why="grades are all equal" if n and not off_scale else why,
        ),
        _close(responses, scale, off_scale, why),
    ]


def _close(
    responses: ScoreColumns, scale: Scale, off_scale: bool, why: str
) -> Statistic:
    """Return the share of scores within one level, or a tenth of the scale, of the grade."""
    tolerance = max(scale.step, scale.span / 10)
    graded = np.isfinite(responses.grade) & (not off_scale)
    has_score = np.isfinite(responses.raw)
    distance = np.abs(np.nan_to_num(responses.raw) - np.nan_to_num(responses.grade))
    return responses.tally.rate(
        "agreement/close",
        distance <= tolerance + FUZZ,
        graded & has_score,
        graded & ~has_score,
        why=why,
    )


def slope_of(totals: Floats) -> Floats:
    """Return the slope of x on y of moments (rows, 6): n and the sums of x, y, xx, yy, xy."""
    n, x, y, _, yy, xy = totals.T
    return divide(n * xy - x * y, _spread_or_zero(n, y, yy))


def spread_of(totals: Floats) -> Floats:
    """Return the standard deviation of x divided by that of y, of the same moments."""
    n, x, y, xx, yy, _ = totals.T
    spread = np.maximum(n * xx - x * x, 0.0)
    return np.sqrt(divide(spread, _spread_or_zero(n, y, yy)))


def _spread_or_zero(n: Floats, sums: Floats, squares: Floats) -> Floats:
    """Return n² times a variance, 0 where it is rounding noise."""
    spread = n * squares - sums * sums
    return np.where(spread > NEGLIGIBLE * n * n, spread, 0.0)


def concordance(totals: Floats) -> Floats:
    """Return the concordance correlation of moments (rows, 6): n and the sums of x, y, xx, yy, xy."""
    n, x, y, xx, yy, xy = totals.T
    at_random = n * xx + n * yy - 2 * x * y
    return divide(
        2 * (n * xy - x * y), np.where(at_random > 1e-12 * n * n, at_random, 0.0)
    )
