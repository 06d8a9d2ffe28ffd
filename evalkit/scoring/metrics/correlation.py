"""Correlation of scores with people's grades, over all graded responses, cases resampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evalkit.scoring.columns.verdicts import ScoreColumns, VerdictColumns
from evalkit.scoring.stats.arrays import FUZZ, Bools, Floats, Ints, divide
from evalkit.scoring.stats.bootstrap import Bounds, Statistic, Tally
from evalkit.scoring.verdicts.pointwise import rank

LARGEST = 4000
"""Up to so many different responses bounds are sought; two responses of one score and one grade are not different."""


def pearson_bounds(x: Floats, y: Floats, missing_y: Floats, ends: tuple[float, float]) -> Bounds:
    """Return bounds of Pearson's r of scores `x`, and missing ones of grades `missing_y`, on a scale with `ends`.

    They are exact. The largest r is found as `_largest` does. The least, where none is negative, is that of a
    pseudoconcave function, and so at a corner of the box (Mangasarian 1969, Nonlinear Programming, ch. 9): every
    missing score is at one end or the other, and of those corners with k at the upper end, which differ only in their
    covariance with the grades, the one counts in which these have the k lowest grades.
    """
    lost, n = len(missing_y), len(x) + len(missing_y)
    low = np.concatenate([x, np.full(lost, ends[0])])
    high = np.concatenate([x, np.full(lost, ends[1])])

    def far(c: Floats) -> float:
        up = np.arange(lost + 1)
        sums = [np.sum(x**power) + ends[0] ** power * (lost - up) + ends[1] ** power * up for power in (1, 2)]
        gained = np.concatenate([[0.0], np.cumsum(np.sort(c[len(x) :]))])
        along = c @ low + (ends[1] - ends[0]) * gained
        squares = sums[1] - sums[0] ** 2 / n
        defined = squares > 1e-12 * np.maximum(1.0, sums[1])  # else all scores are equal, and there is no r
        return float((along[defined] / np.sqrt(squares[defined])).min(initial=1.0))

    return _both(np.concatenate([y, missing_y]), low, high, far)


def spearman_bounds(x: Floats, y: Floats, missing_y: Floats) -> Bounds:
    """Return bounds of Spearman's rho, on any scale.

    It is Pearson's r of mid-ranks. Each of m missing scores puts at most one more below a known one, whose rank thus
    lies between what it is among the known and that plus m; a missing one's lies in 1…n. The bounds are Pearson's over
    all such numbers, be they ranks or not: true ones, perhaps not attained. Where all of these are of one sign, the one
    next to 0 is the least covariance over the largest deviation that n ranks can have with the ties there are.
    """
    lost = len(missing_y)
    rank, n = _mid_ranks(x), len(x) + lost
    low = np.concatenate([rank, np.full(lost, 1.0)])
    high = np.concatenate([rank + lost, np.full(lost, float(n))])
    ties = np.unique(x, return_counts=True)[1].astype(np.float64)
    squares = (float(n) ** 3 - n - (ties**3 - ties).sum()) / 12

    def far(c: Floats) -> float:
        return float(c @ np.where(c > 0, low, high) / np.sqrt(squares))

    return _both(_mid_ranks(np.concatenate([y, missing_y])), low, high, far)


def kendall_bounds(x: Floats, y: Floats, missing_y: Floats, tau: float) -> Bounds:
    """Return bounds of Kendall's tau-b, which is `tau` where scores are known, on any scale.

    Of pairs with a missing score let M be all, and m those of different grades. At best all m are concordant: S grows
    by m, and the pairs X of different scores by m at least and M at most. S / sqrt(X Y) is largest with the fewest
    if S is positive, with the most if it is negative; and the other way round for the least. Such pairs need not all be
    possible at once: true bounds, perhaps not attained.
    """
    untied_x, untied_y = _untied(x), _untied(y)
    every_y = _untied(np.concatenate([y, missing_y]))
    n, known = len(x) + len(missing_y), len(x)
    more = n * (n - 1) / 2 - known * (known - 1) / 2
    different = every_y - untied_y
    if not every_y:
        return None, None
    agreement = tau * np.sqrt(untied_x * untied_y) if np.isfinite(tau) else 0.0

    def largest(s: float) -> float:
        s += different
        pairs = untied_x + (different if s > 0 else more)
        return min(1.0, max(-1.0, float(s / np.sqrt(pairs * every_y)))) if pairs else 0.0

    return -largest(-agreement), largest(agreement)


def _untied(values: Floats) -> float:
    """Return how many pairs of values differ."""
    counts = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float(len(values) * (len(values) - 1) / 2 - (counts * (counts - 1) / 2).sum())


def _mid_ranks(values: Floats) -> Floats:
    _, level, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[level.reshape(-1)])


def _both(y: Floats, low: Floats, high: Floats, far: Callable[[Floats], float]) -> Bounds:
    """Return the bounds of Pearson's r of `y` with numbers between `low` and `high`; none for too many.

    `far` returns the least r with a direction, where all that can be are positive.
    """
    if not len(y) or np.ptp(y) == 0:
        return None, None
    rows, counts = np.unique(np.stack([y, low, high]), axis=1, return_counts=True)
    if rows.shape[1] > LARGEST:
        return None, None
    centred, weight = y - y.mean(), counts.astype(np.float64)
    length = np.sqrt(centred @ centred)
    direction, least, most = (rows[0] - y.mean()) / length, rows[1], rows[2]

    def largest(sign: int) -> float:
        found = _largest(sign * direction, least, most, weight)
        return -far(-sign * centred / length) if found is None else found

    low_end, high_end = (float(np.clip(sign * largest(sign), -1.0, 1.0)) for sign in (-1, 1))
    return low_end, high_end


def _largest(c: Floats, low: Floats, high: Floats, weight: Floats) -> float | None:
    """Return the largest r of numbers in a box with the direction `c`, centred and of length 1; none if not positive.

    Where positive, r is a linear function over a convex one, and so pseudoconcave: a point that cannot be improved by a
    small step is a maximum (Mangasarian 1965, SIAM J. Control 3, 281-290). Rows alike have numbers alike in it.
    """
    from scipy.optimize import minimize

    start = np.where(c > 0, high, low)
    if weight @ (c * start) <= 1e-12:
        return None
    shift, scale = float(low.min()), max(float(high.max() - low.min()), 1e-12)
    total = weight.sum()

    def loss(x: Floats) -> tuple[float, Floats]:
        centred = x - weight @ x / total
        along, squares = weight @ (c * x), weight @ centred**2
        if along <= 0 or squares <= 0:
            return 1e6, np.zeros(len(x))
        return float(0.5 * np.log(squares) - np.log(along)), weight * (centred / squares - c / along)

    bounds = np.stack([(low - shift) / scale, (high - shift) / scale], axis=1)
    options = {"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(loss, (start - shift) / scale, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return float(np.exp(-found.fun))


EXACT_ROWS = 4000
"""Up to so many responses Kendall's tau is resampled exactly, by matrices of cases × cases."""
ANCHORS = 2000
NEGLIGIBLE = 1e-12


@dataclass(frozen=True, slots=True)
class _Graded:
    """Responses that have both a score `x` and a grade `y`, in case order; `lost` are the grades of those without."""

    case: Ints
    x: Floats
    y: Floats
    cases: int
    lost: Floats

    @classmethod
    def of(cls, scored: ScoreColumns, cases: int) -> _Graded:
        graded, there = np.isfinite(scored.grade), np.isfinite(scored.score)
        used = graded & there
        x, y = np.round(scored.score[used], 9), scored.grade[used]
        return cls(scored.case[used], x, y, cases, scored.grade[graded & ~there])

    @property
    def missing(self) -> int:
        return len(self.lost)

    def statistic(
        self, name: str, columns: Floats, value: Callable[[Floats], Floats], *, weighted: bool = False
    ) -> Statistic:
        covered = np.bincount(self.case, minlength=self.cases) > 0
        why = "scores or grades are all equal" if len(self.x) else "no scored response has a grade"
        note = "missing scores are left out and not bounded" if self.missing else None
        n, missing = len(self.x), self.missing
        return Statistic(
            name, columns, value, n=n, covered=covered, missing=missing, weighted=weighted, note=note, why=why
        )


def correlation_statistics(
    scored: ScoreColumns, cases: int, ends: tuple[float, float] | None = None
) -> list[Statistic]:
    """Return Pearson's r, Spearman's rho and Kendall's tau-b of scores and grades, pooled over all responses.

    With the `ends` of the scores' scale they are bounded over what is missing; without, where a missing score would
    have changed the others, they are not.
    """
    graded = _Graded.of(scored, cases)
    found = [_pearson(graded), _spearman(graded), _kendall(graded)]
    if ends is None or not graded.missing:
        return found
    known = (graded.x, graded.y, graded.lost)
    worst = [
        pearson_bounds(*known, ends),
        spearman_bounds(*known),
        kendall_bounds(*known, found[2].observed() if len(graded.x) else float("nan")),
    ]
    return [
        one if bounds == (None, None) else replace(one, worst=bounds, note=None)
        for one, bounds in zip(found, worst, strict=True)
    ]


def spearman_statistic(case: Ints, score: Floats, grade: Floats, cases: int) -> Statistic:
    """Return Spearman's rho of scores and grades of responses, each with the number of its case among `cases`."""
    return _spearman(_Graded(case, np.round(score, 9), grade, cases, np.zeros(0)))


def _pearson(graded: _Graded) -> Statistic:
    """Pearson 1895 (Proc. R. Soc. 58, 240-242), from per-case sums of moments."""
    x, y = _standard(graded.x), _standard(graded.y)
    tally = Tally(graded.case, graded.cases)
    columns = np.stack([tally(values) for values in (np.ones(len(x)), x, y, x * x, y * y, x * y)], axis=1)
    return graded.statistic("agreement/pearson", columns, of_moments)


def _standard(values: Floats) -> Floats:
    """Return values centred and scaled, so that sums of squares lose nothing; zeros if they are all equal."""
    if not len(values) or np.ptp(values) == 0:
        return np.zeros(len(values))
    return np.asarray((values - values.mean()) / values.std())


def of_moments(totals: Floats) -> Floats:
    """Return Pearson's r of rows of n and the sums of x, y, xx, yy, xy; NaN where x or y does not vary."""
    n, x, y, xx, yy, xy = totals.T
    spread_x, spread_y = n * xx - x * x, n * yy - y * y
    defined = (spread_x > NEGLIGIBLE * n * n) & (spread_y > NEGLIGIBLE * n * n)
    scale = np.sqrt(np.where(defined, spread_x * spread_y, 0.0))
    return np.clip(divide(n * xy - x * y, scale), -1.0, 1.0)


def _spearman(graded: _Graded) -> Statistic:
    """Spearman 1904 (Am. J. Psychol. 15, 72-101): Pearson's r of mid-ranks, ranked anew in every resample."""
    levels = [np.unique(values, return_inverse=True)[1] for values in (graded.x, graded.y)]

    def rho(weights: Floats) -> Floats:
        return np.array([_rank_correlation(row[graded.case], levels) for row in weights])

    return graded.statistic("agreement/spearman", np.zeros((graded.cases, 0)), rho, weighted=True)


def _rank_correlation(weights: Floats, levels: list[Ints]) -> float:
    n = weights.sum()
    if not n:
        return float("nan")
    ranks = []
    for level in levels:
        counts = np.bincount(level, weights=weights)
        # Mid-ranks as fractions of n and centred: their mean is 0 whatever the ties.
        ranks.append(((np.cumsum(counts) - counts / 2) / n - 0.5)[level])
    x, y = ranks
    moments = [n, 0.0, 0.0, weights @ (x * x), weights @ (y * y), weights @ (x * y)]
    return float(of_moments(np.array([moments]))[0])


def _kendall(graded: _Graded) -> Statistic:
    """Kendall 1945 (Biometrika 33, 239-251): tau-b.

    With S, X, Y the sums over pairs of responses of sgn(dx)sgn(dy), |sgn(dx)|, |sgn(dy)| by pair of cases, a resample
    of weights w has tau = w'Sw / sqrt(w'Xw w'Yw), exactly. Beyond `EXACT_ROWS` responses its interval comes from
    the first-order (Hájek) projection of the three sums, each response compared with `ANCHORS` others.
    """
    if len(graded.x) > EXACT_ROWS:
        return _projected_kendall(graded)
    tables = _pair_tables(graded)
    used = np.unique(graded.case)

    def tau(weights: Floats) -> Floats:
        w = weights[:, used]
        return _tau(*(((w @ table) * w).sum(axis=1) for table in tables))

    return graded.statistic("agreement/kendall", np.zeros((graded.cases, 0)), tau, weighted=True)


def _tau(agreement: Floats, untied_x: Floats, untied_y: Floats) -> Floats:
    return divide(agreement, np.sqrt(np.maximum(untied_x * untied_y, 0.0)))


def _signs(graded: _Graded, rows: slice | Ints, columns: slice | Ints) -> tuple[Floats, Floats, Floats]:
    dx = np.sign(graded.x[rows, None] - graded.x[None, columns])
    dy = np.sign(graded.y[rows, None] - graded.y[None, columns])
    return dx * dy, np.abs(dx), np.abs(dy)


def _pair_tables(graded: _Graded) -> list[Floats]:
    """Return S, X and Y, summed by case along both axes."""
    if not len(graded.case):
        return [np.zeros((0, 0))] * 3
    starts = np.unique(graded.case, return_index=True)[1]
    parts: list[list[Floats]] = [[], [], []]
    for start in range(0, len(graded.x), 256):
        for part, signs in zip(parts, _signs(graded, slice(start, start + 256), slice(None)), strict=True):
            part.append(np.add.reduceat(signs, starts, axis=1))
    return [np.add.reduceat(np.concatenate(part), starts, axis=0) for part in parts]


def _projected_kendall(graded: _Graded) -> Statistic:
    from scipy.stats import kendalltau

    tau = float(kendalltau(graded.x, graded.y).statistic)
    anchors = np.sort(np.random.default_rng(0).choice(len(graded.x), ANCHORS, replace=False))
    blocks = range(0, len(graded.x), 1024)
    means = [[s.mean(axis=1) for s in _signs(graded, slice(b, b + 1024), anchors)] for b in blocks]
    projections = [np.concatenate(column) for column in zip(*means, strict=True)]
    centres = [float(projection.mean()) for projection in projections]
    tally = Tally(graded.case, graded.cases)
    columns = np.stack([tally(values) for values in (np.ones(len(graded.x)), *projections)], axis=1)

    def approximate(totals: Floats) -> Floats:
        sums = [2 * divide(totals[:, k + 1], totals[:, 0]) - centres[k] for k in range(3)]
        return _tau(*sums)

    shift = tau - float(approximate(columns.sum(axis=0)[None])[0])
    return graded.statistic("agreement/kendall", columns, lambda totals: approximate(totals) + shift)


NAMES = ("pearson", "spearman", "kendall")


def within_statistics(scored: ScoreColumns, verdicts: VerdictColumns, cases: int) -> list[Statistic]:
    """Return `agreement/pearson_within`, `spearman_within` and `kendall_within`: means of the cases' own correlations.

    Each case with two or more graded scores that are not all equal counts once; Kendall's is tau-b (Kendall 1945,
    Biometrika 33, 239-251). The overall correlations mix this with how well the judge tells prompts apart
    (Deutsch et al. 2021, arXiv 2104.00054, section 2). Intervals are those of means between -1 and 1
    (`biased.bounded_mean`): most cases' correlations are high, and few resamples would hold the low ones.
    """
    used = np.isfinite(scored.score) & np.isfinite(scored.grade)
    x, y, case = np.round(scored.score[used], 9), scored.grade[used], scored.case[used]
    missing = int((np.isfinite(scored.grade) & ~np.isfinite(scored.score)).sum())
    found = [
        by_case(x, y, case, cases),
        by_case(rank(x, case), rank(y, case), case, cases),
        _kendall_within(scored, verdicts, used, cases),
    ]
    some = np.bincount(case, minlength=cases) > 1
    return [_mean(f"agreement/{name}_within", r, some, missing) for name, r in zip(NAMES, found, strict=True)]


def by_case(x: Floats, y: Floats, case: Ints, cases: int) -> Floats:
    """Return Pearson's r of each case, NaN where it has fewer than two rows or all are equal."""
    tally = Tally(case, cases)
    size = np.maximum(tally(np.ones(len(x))), 1.0)
    x, y = x - (tally(x) / size)[case], y - (tally(y) / size)[case]
    moments = [tally(values) for values in (np.ones(len(x)), np.zeros(len(x)), np.zeros(len(x)), x * x, y * y, x * y)]
    return of_moments(np.stack(moments, axis=1))


def _kendall_within(scored: ScoreColumns, verdicts: VerdictColumns, used: Bools, cases: int) -> Floats:
    pairs = verdicts.pairs
    i, j = scored.offset[pairs.case] + pairs.i, scored.offset[pairs.case] + pairs.j
    both = used[i] & used[j]
    dx, dy = (
        _signs_within(scored.score[i] - scored.score[j], both),
        _signs_within(scored.grade[i] - scored.grade[j], both),
    )
    tally = Tally(pairs.case, cases)
    return divide(tally(dx * dy), np.sqrt(tally(np.abs(dx)) * tally(np.abs(dy))))


def _signs_within(difference: Floats, both: Bools) -> Floats:
    return np.where(both & (np.abs(difference) > FUZZ), np.sign(np.where(both, difference, 0.0)), 0.0)


def _mean(name: str, r: Floats, some: Bools, missing: int) -> Statistic:
    defined = np.isfinite(r)
    left_out = int((some & ~defined).sum())
    notes = [f"{left_out} cases of equal scores or equal grades left out"] if left_out else []
    notes += ["missing scores are left out and not bounded"] if missing else []
    n = int(defined.sum())
    return Statistic(
        name,
        np.stack([np.where(defined, r, 0.0), defined.astype(np.float64)], axis=1),
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n=n,
        missing=missing,
        note="; ".join(notes) or None,
        ends=(-1.0, 1.0),
        why="no case has two graded scores that differ",
    )
