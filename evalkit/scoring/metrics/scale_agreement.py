"""Agreement and error of scores, compared with annotators' grades on the same scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evalkit.core.scale import Scale
from evalkit.core.values import frozen
from evalkit.scoring.columns import ScoreColumns
from evalkit.scoring.metrics.correlation import (
    NEGLIGIBLE,
    moments,
    unbounded_note,
)
from evalkit.scoring.stats.arrays import FUZZ, Floats, divide
from evalkit.scoring.stats.bounded_intervals import FEW, bounded_mean
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import Statistic, Tally, ratio

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
    why = responses.off_scale(scale)
    off_scale = bool(why)
    pairs = _GradedScores(
        # A real scale has no ends; these placeholders serve metrics that are undefined then.
        scale=Scale(0.0, 1.0, 1.0) if scale.real else scale,
        scores=responses.raw[read],
        grades=responses.grade[read],
        lost=responses.grade[graded & ~has_score],
        tally=responses.tally.where(read),
        off_scale=off_scale,
        why=why or "no scored response has a grade",
    )
    return [
        pairs.of_moments(
            "kappa_quadratic", concordance, "scores and grades are all equal"
        ),
        pairs.rmse(),
        pairs.of_moments("slope", slope_of, "grades are all equal"),
        pairs.of_moments("spread", spread_of, "grades are all equal"),
        _close(responses, pairs.scale, off_scale, pairs.why),
    ]


@frozen
class _GradedScores:
    """Scores with grades on the same scale.

    Attributes:
        scale: the scale.
        scores: (pairs,) the scores.
        grades: (pairs,) the grade of each.
        lost: (missing,) the grades of responses without a score.
        tally: counts by the cluster of each pair.
        off_scale: whether scores or grades are not on the scale, so that no metric is defined.
        why: why metrics are undefined, if they are.
    """

    scale: Scale
    scores: Floats
    grades: Floats
    lost: Floats
    tally: Tally
    off_scale: bool
    why: str

    @property
    def has_pairs(self) -> bool:
        """Whether there are pairs on the scale."""
        return len(self.scores) > 0 and not self.off_scale

    def of_moments(
        self, name: str, value: Callable[[Floats], Floats], if_equal: str
    ) -> Statistic:
        """Return a metric that is a function of the moments of scores and grades.

        Args:
            name: its name.
            value: the function.
            if_equal: why it is undefined although there are pairs.
        """
        scale = self.scale
        # Moments around the middle of the scale keep precision.
        center = (scale.min + scale.max) / 2
        columns = moments(self.scores - center, self.grades - center)
        # The four corners of the scale: the extremes that a pair of score and grade can reach.
        corners = moments(*scale.span / 2 * np.array([[-1, -1, 1, 1], [-1, 1, -1, 1]]))
        return Statistic(
            f"agreement/{name}",
            self._sums(*columns),
            value,
            n=len(self.scores),
            missing=len(self.lost),
            # (alternatives, columns): one row of moments for each corner.
            reach=np.stack(corners, axis=1),
            note=unbounded_note(len(self.lost)),
            why=if_equal if self.has_pairs else self.why,
        )

    def rmse(self) -> Statistic:
        """Return the root mean squared error."""
        n = len(self.scores)
        squared = self._squared_errors()
        own = None
        if self.has_pairs and n <= FEW and squared.any():
            own = self._rmse_interval
        return Statistic(
            "agreement/rmse",
            self._sums(squared, np.ones(n)),
            lambda totals: np.sqrt(ratio(0, 1, totals)),
            n=n,
            missing=len(self.lost),
            own=own,
            # One more response with an error of 0, or of the whole scale.
            reach=np.array([[0.0, 1.0], [self.scale.span**2, 1.0]]),
            worst=self._worst_rmse(),
            why=self.why,
        )

    def _sums(self, *columns: Floats) -> list[Floats]:
        # Off the scale all columns are 0, which leaves the metrics undefined.
        factor = not self.off_scale
        return self.tally.columns(*(column * factor for column in columns))

    def _squared_errors(self) -> Floats:
        return np.asarray((self.scores - self.grades) ** 2)

    def _rmse_interval(
        self, clusters: Clusters, confidence: float
    ) -> tuple[float, float]:
        """Return the interval of the root mean squared error."""
        squared = self._squared_errors()
        # Few errors have no upper tail to resample. The largest one seen, half as large again,
        # bounds the errors of other cases: the whole scale would be far too wide.
        farthest_seen = min(self.scale.span**2, 2.25 * float(squared.max()))
        low, high = bounded_mean(
            clusters.sums(self.tally(squared)),
            clusters.sums(self.tally(np.ones(len(squared)))),
            (0.0, farthest_seen),
            RMSE_RESAMPLES,
            confidence,
            seed=0,
        )
        low_root = float(np.sqrt(low))
        high_root = float(np.sqrt(high))
        return low_root, high_root

    def _worst_rmse(self) -> tuple[float | None, float | None]:
        """Return the error if all missing errors were 0, and if they were as large as possible."""
        if not self.has_pairs:
            return None, None
        count = len(self.scores) + len(self.lost)
        total = float(self._squared_errors().sum())
        # Each missing score at the end of the scale that is farther from its grade.
        below = self.lost - self.scale.min
        above = self.scale.max - self.lost
        farthest = float((np.maximum(below, above) ** 2).sum())
        return (total / count) ** 0.5, ((total + farthest) / count) ** 0.5


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
