"""Logistic regression of outcomes in [0, 1], with penalized and plain likelihood, and
the intervals of its slopes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, inf, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

from evalkit.core.values import frozen
from evalkit.scoring.stats.arrays import Bools, Floats, Ints
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.quantiles import expanded_quantile
from evalkit.scoring.stats.statistic import Statistic, Tally, undefined

STEPS = 100
HALVINGS = 30
LEAP = 20.0
"""The most that a step may change a log odds by, unless the largest is more."""
FARTHEST = -500.0
"""The logarithm of the determinant of the information below which it is taken to have vanished."""
SMALL = 1e-10
TOLERANCE = 1e-8
"""Of the signed root of a likelihood ratio at the end of an interval."""
VANISHED = 1e-6
"""Below this share of the initial information, the outcomes are separated and no finite fit is
optimal."""
SEPARATED = "the outcomes are separated: no finite coefficient is optimal"
COLLINEAR = "the columns are collinear"


@frozen
class Fit:
    """Coefficients that maximize the likelihood, or `None` and the reason."""

    coefficients: Floats | None
    reason: str = ""


def expit(values: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)) without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)))


def logit(values: Floats) -> Floats:
    """Return log(p / (1 - p)) of numbers strictly between 0 and 1."""
    return np.asarray(np.log(values) - np.log1p(-values))


def fit(design: Floats, outcome: Floats) -> Fit:
    """Fit E[y] = expit(X b) to outcomes in [0, 1] by Newton's method (McCullagh and
    Nelder 1989, section 4.4).

    With outcomes strictly between 0 and 1, such as 1/2 for a tie, this is the quasi-likelihood fit
    of Papke and Wooldridge (1996, J. Appl. Econometrics 11, 619-632).

    Args:
        design: (n, k) the design matrix X.
        outcome: (n,) the outcomes y.
    """
    if not _independent(design):
        return Fit(None, COLLINEAR)
    least = VANISHED * float(np.linalg.eigvalsh(design.T @ design)[0])
    b: Floats = np.zeros(design.shape[1])
    step: Floats = np.ones(design.shape[1])
    for _ in range(STEPS):
        p = expit(design @ b)
        information = _information(design, p, 1.0)
        if np.abs(step).max() < SMALL or np.linalg.eigvalsh(information)[0] < least:
            break
        step = np.asarray(np.linalg.solve(information, design.T @ (outcome - p)))
        b = b + step
    if np.abs(step).max() < SMALL:
        return Fit(b)
    return Fit(None, SEPARATED)


def _independent(design: Floats) -> bool:
    return len(design) > 0 and int(np.linalg.matrix_rank(design)) == design.shape[1]


def _information(design: Floats, p: Floats, weights: Floats | float) -> Floats:
    return np.asarray((design * (weights * p * (1 - p))[:, None]).T @ design)


@frozen
class Penalized:
    """The likelihood of a logistic regression times the square root of the determinant
    of its information.

    The penalty is Jeffreys' prior. It removes the first-order bias of the coefficients and keeps
    them finite if the outcomes are separated (Firth 1993, Biometrika 80, 27-38; Heinze and Schemper
    2002, Statist. Med. 21, 2409-2419).

    Attributes:
        design: (n, k) the design matrix, whose columns must be independent.
        outcome: (n,) the outcomes in [0, 1].
        weights: (n,) how often each row counts.
    """

    design: Floats
    outcome: Floats
    weights: Floats

    def likelihood(self, b: Floats) -> float:
        """Return the logarithm of the penalized likelihood."""
        log_odds, _, information = self._at(b)
        return self._likelihood(log_odds, information)

    def _at(self, b: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log odds (n,) and probability (n,) of each row, and the information (k, k)."""
        log_odds = np.asarray(self.design @ b)
        p = expit(log_odds)
        return log_odds, p, _information(self.design, p, self.weights)

    def _likelihood(self, log_odds: Floats, information: Floats) -> float:
        with np.errstate(invalid="ignore"):  # of a matrix that vanishes
            sign, determinant = np.linalg.slogdet(information)
        if not (sign > 0 and determinant > FARTHEST):
            return -inf
        of_rows = self.outcome * log_odds - np.logaddexp(0.0, log_odds)
        return float(self.weights @ of_rows + determinant / 2)

    def design_effect(
        self, fitted: Floats, index: int, cluster: Ints, counted: int
    ) -> float:
        """Return how much more a coefficient varies than if all rows were independent, at least 1.

        It is the sandwich estimate over clusters (Liang and Zeger 1986, Biometrika 73, 13-22)
        divided by the variance of the model (Rao and Scott 1984, Ann. Statist. 12, 46-60).

        Args:
            fitted: (k,) the coefficients with the largest likelihood.
            index: the place of the coefficient.
            cluster: (n,) the cluster of each row.
            counted: the number of clusters that inform the estimate.
        """
        # shape (clusters, k)
        sums = np.stack(
            [np.bincount(cluster, weights=column) for column in self.scores(fitted).T],
            axis=1,
        )
        inverse = self._covariance(fitted)
        sandwich = float(((sums @ inverse[index]) ** 2).sum()) * counted / (counted - 1)
        return max(1.0, sandwich / float(inverse[index, index]))

    def scores(self, b: Floats) -> Floats:
        """Return the penalized score of each row, (n, k)."""
        _, p, information = self._at(b)
        return self._scores(p, self._leverage(p, information))

    def _scores(self, p: Floats, leverage: Floats) -> Floats:
        return np.asarray(
            self.design * (self.outcome - p + leverage * (0.5 - p))[:, None]
        )

    def _leverage(self, p: Floats, information: Floats) -> Floats:
        """Return the diagonal of the hat matrix for a weight of 1, (n,)."""
        inverse = np.linalg.inv(information)
        return np.asarray(
            p * (1 - p) * ((self.design @ inverse) * self.design).sum(axis=1)
        )

    def _covariance(self, b: Floats) -> Floats:
        """Return the covariance of the coefficients, (k, k)."""
        _, _, information = self._at(b)
        return np.asarray(np.linalg.inv(information))

    def maximize(self, start: Floats, free: Bools) -> Floats:
        """Return the coefficients with the largest likelihood, varying those that are
        `free` from `start`.
        """
        return self._climbed(start, self.likelihood(start), free)[0]

    def _climbed(self, b: Floats, best: float, free: Bools) -> tuple[Floats, float]:
        """Return the coefficients with the largest likelihood, and that likelihood,
        from a start and its own.
        """
        varied = np.ix_(free, free)
        log_odds, p, information = self._at(b)
        for _ in range(STEPS):
            leverage = self._leverage(p, information)
            gradient = (self.weights @ self._scores(p, leverage))[free]
            # The penalty is worth as many more rows as the leverage, half of them won and half
            # lost.
            curvature = _information(self.design, p, self.weights * (1 + leverage))
            step = np.zeros(len(b))
            step[free] = np.linalg.solve(curvature[varied], gradient)
            reached = float(np.abs(log_odds).max())
            added = float(np.abs(self.design @ step).max())
            # A step far beyond where the log odds are would overshoot.
            step *= min(1.0, max(LEAP, reached) / max(added, SMALL))
            for _ in range(HALVINGS):
                tried_log_odds, tried_p, tried_information = self._at(b + step)
                likelihood = self._likelihood(tried_log_odds, tried_information)
                if likelihood >= best - SMALL:
                    b = b + step
                    best = likelihood
                    # The next step starts from what was computed here.
                    log_odds = tried_log_odds
                    p = tried_p
                    information = tried_information
                    break
                step = step / 2
            if np.abs(step).max() < SMALL * max(1.0, float(np.abs(b).max())):
                break
        return b, best

    def interval(self, fitted: Floats, index: int, z: float) -> tuple[float, float]:
        """Return the profile interval of a coefficient.

        It holds the values at which the likelihood, maximized over all other coefficients, is not
        significantly lower than at the fit (Heinze and Schemper 2002, section 2.2).

        Args:
            fitted: (k,) the coefficients with the largest likelihood.
            index: the place of the coefficient.
            z: the quantile of the signed root of the likelihood ratio.
        """
        free = np.arange(len(fitted)) != index
        top = self.likelihood(fitted)
        error = float(np.sqrt(self._covariance(fitted)[index, index]))
        low, high = (
            self._profile_limit(fitted, index, free, top, sign * z * error, z)
            for sign in (-1, 1)
        )
        return low, high

    def _profile_limit(
        self, fitted: Floats, index: int, free: Bools, top: float, step: float, z: float
    ) -> float:
        """Return where the signed root of the likelihood ratio is `z`, which is nearly
        linear in the coefficient.
        """
        # Each search starts from the previous maximum, which is near.
        latest = fitted
        vanished = False

        def excess(value: float) -> float:
            nonlocal latest, vanished
            start = latest.copy()
            start[index] = value
            likelihood = self.likelihood(start)
            if likelihood == -inf:  # so far off that the information vanishes
                vanished = True
                return z
            latest, highest = self._climbed(start, likelihood, free)
            return sqrt(max(0.0, 2 * (top - highest))) - z

        inside = float(fitted[index])
        outside = float(fitted[index]) + step
        below = -z
        above = excess(outside)
        while above < 0:
            inside, below = outside, above
            outside += step
            step *= 2
            above = excess(outside)
        # Regula falsi. An end that stays twice in a row is halved (Dowell and Jarratt 1971, BIT 11,
        # 168). Where the information vanishes, the excess jumps: halving each time bisects.
        side = 0.0
        for _ in range(STEPS):
            middle = (inside * above - outside * below) / (above - below)
            middle_excess = excess(middle)
            if (
                abs(outside - inside) < SMALL * max(1.0, abs(middle))
                or abs(middle_excess) < TOLERANCE
            ):
                break
            previous = side
            side = copysign(1.0, middle_excess)
            halved = vanished or side == previous
            if side > 0:
                outside = middle
                above = middle_excess
                if halved:
                    below = below / 2
            else:
                inside = middle
                below = middle_excess
                if halved:
                    above = above / 2
        return middle


def penalized_fit(design: Floats, outcome: Floats) -> Fit:
    """Fit E[y] = expit(X b) by Firth's penalized likelihood, which has a finite maximum
    even under separation.

    Args:
        design: (n, k) the design matrix X.
        outcome: (n,) the outcomes y in [0, 1].
    """
    if not _independent(design):
        return Fit(None, COLLINEAR)
    k = design.shape[1]
    return Fit(
        Penalized(design, outcome, np.ones(len(outcome))).maximize(
            np.zeros(k), np.ones(k, dtype=bool)
        )
    )


def slope(
    name: str,
    design: Floats,
    outcome: Floats,
    tally: Tally,
    index: int,
    *,
    rare: Bools | None = None,
    missing: int = 0,
    why: str = "",
) -> Statistic:
    """Return a coefficient of a penalized regression as a statistic.

    Where every cluster has one row, the interval is that of the profile penalized likelihood.
    Otherwise it resamples clusters, and is at least as wide as the profile interval of the
    likelihood divided by the design effect, with as many degrees of freedom as clusters have a rare
    outcome: a few of them are too few to resample. If the outcomes are separated, no cluster
    varies, and each counts as one row.

    Args:
        name: the metric's name.
        design: (n, k) the design matrix.
        outcome: (n,) the outcomes.
        tally: the case of each row.
        index: the place of the coefficient.
        rare: (n,) which rows have a rare outcome; by default those on the rarer side of 1/2.
        missing: the number of missing outcomes.
        why: the reason why the coefficient is not identifiable although a fit may exist; empty if
            it is.
    """
    whole_fit = Fit(None, why) if why else penalized_fit(design, outcome)
    model = Penalized(design, outcome, np.ones(len(outcome)))

    def own(clusters: Clusters, confidence: float) -> tuple[float, float]:
        """Return the profile interval of the coefficient, wider by the design effect."""
        fitted = np.asarray(whole_fit.coefficients)
        cluster = clusters.of_rows(tally.case)
        size = np.bincount(cluster)
        if size.max() == 1:
            return model.interval(
                fitted, index, NormalDist().inv_cdf((1 + confidence) / 2)
            )
        if rare is not None:
            unusual = rare
        else:
            unusual = (outcome > 0.5) == (np.mean(outcome) < 0.5)
        counted = max(2, len(np.unique(cluster[unusual])))
        if np.count_nonzero(size) < 2 or fit(design, outcome).coefficients is None:
            weights = 1 / size[cluster]
        else:
            effect = min(
                model.design_effect(fitted, index, cluster, counted), float(size.max())
            )
            weights = np.full(len(outcome), 1 / effect)
        scaled = Penalized(design, outcome, weights)
        start = scaled.maximize(fitted, np.ones(len(fitted), dtype=bool))
        return scaled.interval(start, index, -expanded_quantile(counted, confidence))

    return _one_step(
        name,
        design,
        whole_fit,
        model.scores,
        tally,
        lambda b: b[:, index],
        missing=missing,
        own=own,
    )


def rate_at_zero(
    name: str,
    design: Floats,
    outcome: Floats,
    tally: Tally,
    *,
    missing: int = 0,
    why: str = "",
) -> Statistic:
    """Return the mean outcome where every column but the first, which is the intercept,
    is 0, as a statistic.

    The fit is by plain likelihood, because the penalty moves rates toward 1/2.

    Args:
        name: the metric's name.
        design: (n, k) the design matrix.
        outcome: (n,) the outcomes.
        tally: the case of each row.
        missing: the number of missing outcomes.
        why: the reason why the rate is not identifiable although a fit may exist; empty if it is.
    """
    whole_fit = Fit(None, why) if why else fit(design, outcome)

    def scores(b: Floats) -> Floats:
        return np.asarray(design * (outcome - expit(design @ b))[:, None])

    return _one_step(
        name,
        design,
        whole_fit,
        scores,
        tally,
        lambda b: expit(b[:, 0]),
        missing=missing,
        proportion=True,
    )


def _one_step(
    name: str,
    design: Floats,
    whole_fit: Fit,
    scores: Callable[[Floats], Floats],
    tally: Tally,
    extract: Callable[[Floats], Floats],
    *,
    missing: int,
    **attributes: Any,
) -> Statistic:
    """Return a statistic of the coefficients of a regression, in resamples after one
    Newton step from the fit.

    The step, with the scores and information of a resample, approximates the fit of the resample
    closely enough for an interval (Davidson and MacKinnon 1999, Int. Econ. Rev. 40, 487-508).

    Args:
        name: the metric's name.
        design: (n, k) the design matrix.
        whole_fit: the fit of all rows.
        scores: maps coefficients (k,) to the score of each row, (n, k).
        tally: the case of each row.
        extract: maps coefficients (rows, k) to the statistic; undefined for singular information.
        missing: the number of missing outcomes.
        attributes: other attributes of the statistic.
    """
    if whole_fit.coefficients is None:
        return Statistic(
            name,
            np.zeros((tally.cases, 0)),
            undefined,
            len(design),
            missing,
            why=whole_fit.reason,
        )
    fitted = whole_fit.coefficients
    n, k = design.shape
    p = expit(design @ fitted)
    # shape (n, k * k): each row's share of the information
    squares = (design[:, :, None] * design[:, None, :]).reshape(n, k * k) * (
        p * (1 - p)
    )[:, None]

    def value(totals: Floats) -> Floats:
        """Return a coefficient for each resample by one Newton step from the fit to all data."""
        # totals: shape (resamples, k + k * k)
        sums = totals[:, :k]
        information = totals[:, k:].reshape(-1, k, k)
        scale = np.abs(information).max(axis=(1, 2), initial=0.0)
        regular = (
            np.abs(np.linalg.det(information)) > SMALL * np.maximum(scale, SMALL) ** k
        )
        coefficients = np.full(sums.shape, np.nan)
        coefficients[regular] = (
            fitted
            + np.linalg.solve(information[regular], sums[regular][:, :, None])[:, :, 0]
        )
        return extract(coefficients)

    return Statistic(
        name,
        tally.columns(*scores(fitted).T, *squares.T),
        value,
        n,
        missing,
        covered=tally(np.ones(n)) > 0,
        note="missing verdicts are omitted and not bounded" if missing else None,
        **attributes,
    )
