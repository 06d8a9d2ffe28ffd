"""Correlation of scores with annotators' grades."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from evalkit.core.values import frozen
from evalkit.scoring.columns import ScoreColumns, VerdictColumns
from evalkit.scoring.metrics.correlation_bounds import (
    kendall_bounds,
    pearson_bounds,
    spearman_bounds,
)
from evalkit.scoring.stats.arrays import FUZZ, Bounds, Floats, Ints, divide
from evalkit.scoring.stats.bounded_intervals import Reach
from evalkit.scoring.stats.statistic import Columns, Statistic, Tally, ratio, undefined
from evalkit.scoring.verdicts.pointwise import rank

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
    """Responses with a score `x` and a grade `y`, in case order, and the grades of
    responses without a score.
    """

    tally: Tally
    x: Floats
    y: Floats
    missing_grades: Floats

    @classmethod
    def of(cls, scored: ScoreColumns) -> _GradedScores:
        graded = np.isfinite(scored.grade)
        scored_rows = np.isfinite(scored.score)
        both = graded & scored_rows
        # Rounded, so that scores that differ by rounding are tied.
        x = np.round(scored.score[both], 9)
        y = scored.grade[both]
        missing_grades = scored.grade[graded & ~scored_rows]
        return cls(scored.tally.where(both), x, y, missing_grades)

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
            note=unbounded_note(missing),
            why=(
                "scores or grades are all equal"
                if len(self.x)
                else "no scored response has a grade"
            ),
            **attributes,
        )


def auc_statistic(scored: ScoreColumns) -> Statistic:
    """Return `agreement/auc`: the area under the ROC curve of scores as predictions of
    the higher of two grades.

    It is the share of pairs of a higher and a lower grade whose scores have the same order, equal
    scores counting half (Hanley and McNeil 1982, Radiology 143, 29-36).

    Args:
        scored: the scores.
    """
    graded = _GradedScores.of(scored)
    # The level of each score, and which rows have the higher of both grades.
    _, level_of_x = np.unique(graded.x, return_inverse=True)
    levels = _Levels.of(level_of_x)
    lowest_grade = graded.y.min(initial=np.inf)
    high = graded.y > lowest_grade
    two = len(np.unique(graded.y)) == 2

    def areas(weights: Floats) -> Floats:
        """Return the share of pairs in the right order, (resamples,); NaN without both grades."""
        weight_of_row = weights[:, graded.tally.case]
        # (resamples, levels) the weights of the rows of each grade, by level of score.
        upper = levels.counts(weight_of_row * high)
        lower = levels.counts(weight_of_row * ~high)
        # For each level, the lower-graded weight below it, and half of that at it.
        below = np.cumsum(lower, axis=1) - lower / 2
        # (resamples,) pairs of a higher and a lower grade: in the right order, and all.
        right_order = (upper * below).sum(axis=1)
        higher_total = upper.sum(axis=1)
        lower_total = lower.sum(axis=1)
        return divide(right_order, higher_total * lower_total)

    statistic = graded.statistic(
        "auc",
        # No columns: ranks depend on all rows, so `value` needs the weights of cases.
        np.zeros((graded.tally.cases, 0)),
        partial(_in_blocks, areas, len(graded.x)) if two else undefined,
        weighted=True,
        proportion=True,
    )
    if two:
        return statistic
    return replace(statistic, why="grades do not have two levels")


def unbounded_note(missing: int) -> str | None:
    """Return the note of a metric that omits missing scores, `None` if none is missing."""
    if missing:
        return "missing scores are omitted and not bounded"
    return None


def correlation_statistics(
    scores: ScoreColumns, ends: tuple[float, float] | None = None
) -> list[Statistic]:
    """Return Pearson's r, Spearman's rho and Kendall's tau-b of scores and grades,
    pooled over all responses.

    They have bounds over missing scores if the `ends` of the scale are given. Without them, a
    missing score could have changed the other scores, and there are no bounds.

    Args:
        scores: the scores.
        ends: the ends of the scale.
    """
    graded = _GradedScores.of(scores)
    pearson, spearman, kendall = (
        replace(build(graded), reach=_reach_of_unlike(build, graded))
        for build in (_pearson, _spearman, _kendall)
    )
    if ends is None or not len(graded.missing_grades):
        return [pearson, spearman, kendall]
    observed = (graded.x, graded.y, graded.missing_grades)
    tau = kendall.observed() if len(graded.x) else float("nan")
    return [
        _with_bounds(pearson, pearson_bounds(*observed, ends)),
        _with_bounds(spearman, spearman_bounds(*observed)),
        _with_bounds(kendall, kendall_bounds(*observed, tau)),
    ]


def _with_bounds(statistic: Statistic, bounds: Bounds) -> Statistic:
    """Return a statistic with bounds over missing scores, unchanged if there are none."""
    # The note says that missing scores are not bounded.
    bounded = replace(statistic, worst=bounds, note=None)
    return statistic if bounds == (None, None) else bounded


def _reach_of_unlike(
    build: Callable[[_GradedScores], Statistic], graded: _GradedScores
) -> Reach:
    """Return how far a correlation could be if a share of the clusters were unlike those seen.

    Half of them then have the lowest score seen and the highest grade, and half the highest score
    and the lowest grade, which lowers the correlation most; or lowest and highest together. A few
    responses at opposite ends move it more than as many at random.
    """

    def reach(share: float) -> Bounds:
        """Return the lowest and the highest value if a share of the cases were at opposite ends."""
        # Every k-th row, so that the bound of a large run costs no more than that of a small one.
        step = 1 + len(graded.x) // EXACT_ROWS
        case = graded.tally.case[::step]
        x = graded.x[::step]
        y = graded.y[::step]
        cases = graded.tally.cases
        ends_of_x = [x.min(), x.max()]
        ends_of_y = [y.min(), y.max()]
        # Two more cases, each with one response at opposite ends.
        added = Tally(np.append(case, [cases, cases + 1]), cases + 2)
        # The seen cases have the weight 1 - share, and the two new ones share the rest.
        weights = np.full((1, cases + 2), 1 - share)
        weights[0, -2:] = share * len(x) / 2

        def value_with(new_grades: Sequence[float]) -> float:
            wider_x = np.append(x, ends_of_x)
            wider_y = np.append(y, new_grades)
            statistic = build(_GradedScores(added, wider_x, wider_y, x[:0]))
            if statistic.weighted:
                values = statistic.value(weights)
            else:
                values = statistic.value(statistic.table.totals(weights))
            return float(values[0])

        # The lowest score with the highest grade, and the reverse; then lowest with lowest.
        lowest = value_with(ends_of_y[::-1])
        highest = value_with(ends_of_y)
        return lowest, highest

    return reach


def spearman_statistic(tally: Tally, score: Floats, grade: Floats) -> Statistic:
    """Return Spearman's rho of scores and grades of responses.

    Args:
        tally: the case of each response.
        score: (n,) the scores.
        grade: (n,) the grades.
    """
    rounded = np.round(score, 9)
    graded = _GradedScores(tally, rounded, grade, np.zeros(0))
    reach = _reach_of_unlike(_spearman, graded)
    return replace(_spearman(graded), reach=reach)


def _pearson(graded: _GradedScores) -> Statistic:
    """Return Pearson's r from per-case sums of moments.

    Pearson 1895, Proc. R. Soc. 58, 240-242.
    """
    x = _standardized(graded.x)
    y = _standardized(graded.y)
    columns = graded.tally.columns(*moments(x, y))
    return graded.statistic("pearson", columns, pearson_r)


def _standardized(values: Floats) -> Floats:
    """Return values with mean 0 and deviation 1, whose sums of squares keep precision;
    0 if all are equal.
    """
    if len(values) and np.ptp(values):
        return np.asarray((values - values.mean()) / values.std())
    return np.zeros(len(values))


def moments(x: Floats, y: Floats) -> tuple[Floats, ...]:
    """Return the columns whose sums are the moments of x and y: 1, x, y, xx, yy and xy."""
    count = np.ones(len(x))
    xx = x * x
    yy = y * y
    xy = x * y
    return count, x, y, xx, yy, xy


def pearson_r(totals: Floats) -> Floats:
    """Return Pearson's r of moments (rows, 6): n and the sums of x, y, xx, yy, xy; NaN
    if x or y does not vary.
    """
    n, x, y, xx, yy, xy = totals.T
    # n squared times the variances: differences of large sums, so noise must be cut off.
    spread_x = n * xx - x * x
    spread_y = n * yy - y * y
    negligible = NEGLIGIBLE * n * n
    defined = (spread_x > negligible) & (spread_y > negligible)
    # 0 where x or y does not vary, which `divide` makes NaN.
    spreads = np.where(defined, spread_x * spread_y, 0.0)
    scale = np.sqrt(spreads)
    joint = n * xy - x * y
    r = divide(joint, scale)
    return np.clip(r, -1.0, 1.0)


def _spearman(graded: _GradedScores) -> Statistic:
    """Return Pearson's r of mid-ranks, recomputed in every resample.

    Spearman 1904, Am. J. Psychol. 15, 72-101.
    """
    # (n,) the level of each value, from 0.
    _, level_of_x = np.unique(graded.x, return_inverse=True)
    _, level_of_y = np.unique(graded.y, return_inverse=True)
    # Cells are numbered as level of x * width + level of y.
    width = int(level_of_y.max(initial=0)) + 1
    # row -> its cell, a combination of two levels
    cells, cell = np.unique(level_of_x * width + level_of_y, return_inverse=True)
    # Few cells with several rows each: one column of counts for each cell is smaller.
    if 0 < len(cells) <= min(_MOST_CELLS, len(cell) // 4):
        columns = graded.tally.columns(
            *(cell == number for number in range(len(cells)))
        )
        # The levels of x and of y of each cell.
        of_cells = [_Levels.of(cells // width), _Levels.of(cells % width)]
        return graded.statistic(
            "spearman", columns, partial(_rank_correlations, of_cells)
        )
    ranked = [_Levels.of(level_of_x), _Levels.of(level_of_y)]

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
        # Rows in order of their levels; stable, so that equal levels keep theirs.
        order = np.argsort(level, kind="stable")
        # Positions where the level changes, the first of which is 0.
        sorted_levels = level[order]
        changes = np.diff(sorted_levels, prepend=-1)
        starts = np.flatnonzero(changes)
        return cls(level, order, starts)

    def counts(self, weights: Floats) -> Floats:
        """Return the sum of the weights (rows, n) of each level, (rows, levels)."""
        # Sums of consecutive columns from each start: one for each level.
        in_order = weights[:, self.order]
        return np.asarray(np.add.reduceat(in_order, self.start, axis=1))


def _rank_correlations(levels: list[_Levels], weights: Floats) -> Floats:
    """Return Pearson's r of the mid-ranks of two values under each row of weights (rows, n)."""
    if not weights.shape[1]:
        return undefined(weights)
    # (rows,) the number of responses in each resample.
    n = weights.sum(axis=1)
    ranks = []
    for values in levels:
        # shape (rows, levels)
        counts = values.counts(weights)
        # Mid-ranks as centered fractions of n: their mean is 0 for any ties.
        below = np.cumsum(counts, axis=1) - counts / 2
        total = np.where(n > 0, n, 1.0)
        middles = below / total[:, None] - 0.5
        # (rows, n) the rank of each value.
        ranks.append(middles[:, values.level])
    x, y = ranks

    def weighted_sum(first: Floats, second: Floats) -> Floats:
        # Over columns: one number for each row of weights.
        return np.asarray(np.einsum("ij,ij,ij->i", weights, first, second))

    xx = weighted_sum(x, x)
    yy = weighted_sum(y, y)
    xy = weighted_sum(x, y)
    zero = 0 * n
    # With means of 0, the sums of x and y are 0.
    totals = np.stack([n, zero, zero, xx, yy, xy], axis=1)
    return pearson_r(totals)


def _in_blocks(value: Callable[[Floats], Floats], size: int, weights: Floats) -> Floats:
    """Return a value of `size` numbers for each row of weights, computed for a bounded
    number of rows at a time.
    """
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
        # (rows, cases) @ (cases, cases), times w, summed: w' table w for each row.
        sums = [((w @ table) * w).sum(axis=1) for table in tables]
        return _tau(*sums)

    return graded.statistic(
        "kendall", np.zeros((graded.tally.cases, 0)), tau, weighted=True
    )


def _tau(agreement: Floats, untied_x: Floats, untied_y: Floats) -> Floats:
    squares = np.maximum(untied_x * untied_y, 0.0)
    return divide(agreement, np.sqrt(squares))


def _signs(
    graded: _GradedScores, rows: slice | Ints, columns: slice | Ints
) -> tuple[Floats, Floats, Floats]:
    """Return whether the orders of x and y agree for each pair (1, 0, -1), and which differ."""
    # (rows, columns) signs of the differences of each response to each other.
    difference_of_x = graded.x[rows, None] - graded.x[None, columns]
    difference_of_y = graded.y[rows, None] - graded.y[None, columns]
    dx = np.sign(difference_of_x)
    dy = np.sign(difference_of_y)
    agreement = dx * dy
    untied_x = np.abs(dx)
    untied_y = np.abs(dy)
    return agreement, untied_x, untied_y


def _pair_tables(graded: _GradedScores) -> list[Floats]:
    """Return what `_signs` has of each pair of responses, summed by case, (cases, cases) each."""
    if not len(graded.x):
        return [np.zeros((0, 0))] * 3
    # The first row of each case: rows are in case order.
    _, starts = np.unique(graded.tally.case, return_index=True)
    parts: list[list[Floats]] = [[], [], []]
    # 256 rows at a time, each compared with all columns.
    for start in range(0, len(graded.x), 256):
        block = slice(start, start + 256)
        every_row = slice(None)
        signs_of_block = _signs(graded, block, every_row)
        for part, signs in zip(parts, signs_of_block, strict=True):
            # (256, cases): columns summed by case.
            by_case = np.add.reduceat(signs, starts, axis=1)
            part.append(by_case)
    tables = []
    for part in parts:
        # (n, cases) to (cases, cases): rows summed by case.
        rows = np.concatenate(part)
        table = np.add.reduceat(rows, starts, axis=0)
        tables.append(table)
    return tables


def _projected_kendall(graded: _GradedScores) -> Statistic:
    """Return Kendall's tau, with resamples approximated from a sample of the responses.

    Each pair of responses is too many for a large run: its sum is approximated by a mean over
    `ANCHORS` responses. The observed value is exact.
    """
    # Imported late: SciPy takes long to load.
    from scipy.stats import kendalltau

    tau = float(kendalltau(graded.x, graded.y).statistic)
    # A fixed seed: the same data give the same interval.
    generator = np.random.default_rng(0)
    anchors = generator.choice(len(graded.x), ANCHORS, replace=False)
    anchors = np.sort(anchors)
    # For each response, the mean sign over the anchors: of S, X and Y.
    means = []
    for start in range(0, len(graded.x), 1024):
        block = slice(start, start + 1024)
        signs = _signs(graded, block, anchors)
        means.append([sign.mean(axis=1) for sign in signs])
    projections = [np.concatenate(column) for column in zip(*means, strict=True)]
    centres = [float(projection.mean()) for projection in projections]
    # Column 0 counts responses; columns 1 to 3 sum their projections.
    count = np.ones(len(graded.x))
    columns = graded.tally.columns(count, *projections)

    def approximate(totals: Floats) -> Floats:
        # First order: twice the mean projection of the resample less the overall mean.
        sums = []
        for k, centre in enumerate(centres):
            mean = ratio(k + 1, 0, totals)
            sums.append(2 * mean - centre)
        return _tau(*sums)

    # The approximation is moved so that the observed value is the exact one.
    sums = [column.sum() for column in columns]
    totals = np.array([sums])
    [observed] = approximate(totals)
    shift = tau - float(observed)
    return graded.statistic(
        "kendall", columns, lambda totals: approximate(totals) + shift
    )


def within_statistics(
    scores: ScoreColumns, verdicts: VerdictColumns
) -> list[Statistic]:
    """Return `agreement/pearson_within`, `spearman_within` and `kendall_within`: mean
    correlations within cases.

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
        # Spearman within a case is Pearson of the ranks within it.
        "spearman": pearson_by_case(rank(x, tally.case), rank(y, tally.case), tally),
        "kendall": _kendall_by_case(scores, verdicts),
    }
    # (cases,) cases with two or more graded scores.
    several = tally(np.ones(len(x))) > 1
    statistics = []
    for name, r in correlations.items():
        defined = np.isfinite(r)
        omitted = int((several & ~defined).sum())
        notes = []
        if omitted:
            notes.append(
                f"{omitted} cases with equal scores or equal grades are omitted"
            )
        unbounded = unbounded_note(missing)
        if unbounded:
            notes.append(unbounded)
        statistic = Tally.each(tally.cases).mean(
            f"agreement/{name}_within",
            # NaN is no number even in rows that do not count.
            np.nan_to_num(r),
            defined,
            missing=missing,
            note="; ".join(notes) or None,
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
    # At least 1, so that cases without rows divide by it.
    # shape (cases,)
    count = tally(np.ones(len(x)))
    size = np.maximum(count, 1.0)
    mean_x = tally(x) / size
    mean_y = tally(y) / size
    # Centered within each case.
    x = x - mean_x[case]
    y = y - mean_y[case]
    counts, _, _, *squares = moments(x, y)
    # (cases, 6) moments; sums of centered values are 0.
    columns = tally.columns(counts, 0 * x, 0 * y, *squares)
    totals = np.stack(columns, axis=1)
    return pearson_r(totals)


def _kendall_by_case(scored: ScoreColumns, verdicts: VerdictColumns) -> Floats:
    """Return Kendall's tau-b in each case, (cases,); NaN if scores or grades do not vary."""
    x = verdicts.pairs.differences(scored.score)
    y = verdicts.pairs.differences(scored.grade)
    used = np.isfinite(x) & np.isfinite(y)
    # shape (pairs,): the sign of each difference, 0 for a tie or a missing value
    differs_in_x = used & (np.abs(x) > FUZZ)
    differs_in_y = used & (np.abs(y) > FUZZ)
    dx = np.where(differs_in_x, np.sign(x), 0.0)
    dy = np.where(differs_in_y, np.sign(y), 0.0)
    # (cases,) each: sums over the pairs of the case.
    of_pairs = (dx * dy, np.abs(dx), np.abs(dy))
    agreement, untied_x, untied_y = verdicts.tally.columns(*of_pairs)
    scale = np.sqrt(untied_x * untied_y)
    return divide(agreement, scale)
