"""Agreement and error of scores, compared with annotators' grades on the same scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from evalkit.core.scale import Scale
from evalkit.scoring.columns import ScoreColumns
from evalkit.scoring.metrics.correlation import (
    NEGLIGIBLE,
    moments,
    unbounded_note,
)
from evalkit.scoring.stats.arrays import FUZZ, Floats, divide
from evalkit.scoring.stats.bounded_intervals import FEW, bounded_mean
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import Statistic, ratio

RMSE_RESAMPLES = 1000


def scale_statistics(responses: ScoreColumns, scale: Scale) -> list[Statistic]:
    """Return how scores fit grades on the same scale: quadratic kappa, RMSE, slope,
    spread and closeness.

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
    n = len(x)
    missing = len(lost)
    tally = responses.tally.where(read)
    why = responses.off_scale(scale)
    off_scale = bool(why)
    why = why or "no scored response has a grade"
    # A real scale has no ends; these placeholders serve metrics that are undefined then.
    scale = Scale(0.0, 1.0, 1.0) if scale.real else scale

    def statistic(
        name: str,
        value: Callable[[Floats], Floats],
        *columns: Floats,
        **attributes: Any,
    ) -> Statistic:
        """Return an `agreement/` metric of the graded scores from one value for each of them."""
        # Off the scale all columns are 0, which leaves the metrics undefined.
        sums = tally.columns(*(column * (not off_scale) for column in columns))
        return Statistic(
            f"agreement/{name}",
            sums,
            value,
            **{"n": n, "missing": missing, "why": why, **attributes},
        )

    def rmse_interval(clusters: Clusters, confidence: float) -> tuple[float, float]:
        """Return the interval of the root mean squared error."""
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
        low_root = float(np.sqrt(low))
        high_root = float(np.sqrt(high))
        return low_root, high_root

    def of_moments(
        name: str, value: Callable[[Floats], Floats], equal: str
    ) -> Statistic:
        """Return a metric of the moments of scores and grades; `equal` says why it is undefined
        if these have no spread.
        """
        return statistic(
            name,
            value,
            *moments_of_pairs,
            reach=reach_of_moments,
            note=unbounded_note(missing),
            why=equal if n and not off_scale else why,
        )

    # Moments around the middle of the scale keep precision.
    center = (scale.min + scale.max) / 2
    moments_of_pairs = moments(x - center, y - center)
    squared = (x - y) ** 2
    count = n + missing
    # The four corners of the scale: the extremes that a pair of score and grade can reach.
    # (alternatives, columns): one row of moments for each corner.
    corners = moments(*scale.span / 2 * np.array([[-1, -1, 1, 1], [-1, 1, -1, 1]]))
    reach_of_moments = np.stack(corners, axis=1)
    total = float(squared.sum())
    # Each missing score at the end of the scale that is farther from its grade.
    farthest = float((np.maximum(lost - scale.min, scale.max - lost) ** 2).sum())
    return [
        of_moments("kappa_quadratic", concordance, "scores and grades are all equal"),
        statistic(
            "rmse",
            lambda totals: np.sqrt(ratio(0, 1, totals)),
            squared,
            np.ones(n),
            own=rmse_interval
            if 0 < n <= FEW and squared.any() and not off_scale
            else None,
            # One more response with an error of 0, or of the whole scale.
            reach=np.array([[0.0, 1.0], [scale.span**2, 1.0]]),
            # All missing errors 0, then all as large as possible.
            worst=(
                ((total / count) ** 0.5, ((total + farthest) / count) ** 0.5)
                if n and not off_scale
                else (None, None)
            ),
        ),
        of_moments("slope", slope_of, "grades are all equal"),
        of_moments("spread", spread_of, "grades are all equal"),
        _close(responses, scale, off_scale, why),
    ]


def _close(
    responses: ScoreColumns, scale: Scale, off_scale: bool, why: str
) -> Statistic:
    """Return the share of scores within one level, or a tenth of the scale, of the grade."""
    # A level of a coarse scale may be more than a tenth of it.
    tolerance = max(scale.step, scale.span / 10)
    graded = np.isfinite(responses.grade) & (not off_scale)
    has_score = np.isfinite(responses.raw)
    raw = np.nan_to_num(responses.raw)
    distance = np.abs(raw - np.nan_to_num(responses.grade))
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
    """Return the concordance correlation of moments (rows, 6): n and the sums of x, y,
    xx, yy, xy.
    """
    n, x, y, xx, yy, xy = totals.T
    # The expected squared difference if scores and grades were paired at random, times n * n.
    at_random = n * xx + n * yy - 2 * x * y
    negligible = 1e-12 * n * n
    at_random = np.where(at_random > negligible, at_random, 0.0)
    return divide(2 * (n * xy - x * y), at_random)
