"""Correlation of scores with people's grades, over all graded responses, cases resampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evalkit.scoring.bootstrap import Statistic, Tally, divide
from evalkit.scoring.columns import Floats, Ints
from evalkit.scoring.correlation_bounds import kendall_bounds, pearson_bounds, spearman_bounds
from evalkit.scoring.pointwise import Scored

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
    def of(cls, scored: Scored, cases: int) -> _Graded:
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


def correlation_statistics(scored: Scored, cases: int, ends: tuple[float, float] | None = None) -> list[Statistic]:
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
