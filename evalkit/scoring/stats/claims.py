"""Test whether probabilities are what they claim: outcomes against the probabilities
that were stated for them.
"""

from __future__ import annotations

from math import erfc, exp, sqrt

import numpy as np

from evalkit.scoring.stats.arrays import Floats, Ints
from evalkit.scoring.stats.logistic import logit
from evalkit.scoring.stats.quantiles import student_share

EDGE = 1e-4
"""Probabilities are clipped to [EDGE, 1 - EDGE]: a claim of certainty is refuted by one error."""
DRAWS = 999
LARGE = 500
"""Outcomes from which on the distribution of the statistic is taken from theory."""
SEED = 46


def claim_test(
    probability: Floats, right: Floats, cluster: Ints, *, seed: int = SEED
) -> float | None:
    """Return the p-value of the hypothesis that each outcome is right with its stated probability.

    The statistic is the score test of intercept and slope in the logistic recalibration of the
    probabilities (Cox 1958, Biometrika 45, 562-565; Miller, Langefeld, Tierney, Hui and McDonald
    1993, Med. Decis. Making 13, 49-58). Its distribution is simulated from the probabilities, so
    that false alarms are as frequent as stated, however few outcomes there are. If a cluster has
    several outcomes, the test is also made with the variance between clusters, and the larger
    p-value counts. The test is `None` without an outcome.

    Args:
        probability: (n,) the stated probabilities.
        right: (n,) the outcomes, 0 or 1.
        cluster: (n,) the cluster of each outcome.
        seed: the seed of the simulation.
    """
    if not len(right):
        return None
    p = np.clip(probability, EDGE, 1 - EDGE)
    excess = right - p
    # columns: the intercept, and the slope unless all probabilities are equal
    design = np.ones((len(p), 1))
    slopes = logit(p)
    if np.ptp(slopes) > 1e-9:
        design = np.column_stack([design, slopes - slopes.mean()])
    variances = p * (1 - p)
    information = (design * variances[:, None]).T @ design
    pseudo_inverse = np.linalg.pinv(information)
    inverse: Floats = np.asarray(pseudo_inverse, dtype=np.float64)
    single = len(np.unique(cluster)) == len(cluster)
    scores = design.T @ excess[:, None]
    [observed] = _statistic(scores, inverse)
    if len(p) <= LARGE:
        by_model = _simulated_p_value(observed, p, design, inverse, seed)
    else:
        by_model = _upper_tail(observed, design.shape[1])
    if single and len(p) <= LARGE:
        return by_model
    by_clusters = _between_clusters(design, excess, cluster)
    return max(by_model, by_clusters)


def _statistic(scores: Floats, inverse: Floats) -> Floats:
    """Return the statistic of each column of scores, (k, draws)."""
    return np.asarray(np.einsum("kd,kj,jd->d", scores, inverse, scores))


def _simulated_p_value(
    observed: float,
    p: Floats,
    design: Floats,
    inverse: Floats,
    seed: int,
) -> float:
    """Return the share of simulated outcomes with a statistic as large as the observed one.

    Args:
        observed: the statistic of the data.
        p: (n,) the probability of each outcome by the null hypothesis.
        design: (n, k) the columns that are tested.
        inverse: (k, k) the inverse of their information.
        seed: the seed of the simulation.
    """
    generator = np.random.default_rng(seed)
    # shape (draws, n)
    outcomes = generator.random((DRAWS, len(p))) < p
    scores = design.T @ (outcomes - p).T
    drawn = _statistic(scores, inverse)
    # Equal statistics can differ by rounding.
    threshold = observed * (1 - 1e-9)
    as_large = int((drawn >= threshold).sum())
    return (1 + as_large) / (DRAWS + 1)


def _upper_tail(statistic: float, degrees: int) -> float:
    """Return the upper tail of chi-squared with one or two degrees of freedom."""
    half = statistic / 2
    if degrees == 2:
        return exp(-half)
    return erfc(sqrt(half))


def _between_clusters(design: Floats, excess: Floats, cluster: Ints) -> float:
    """Return the p-value of Hotelling's test that the sums of clusters have the mean 0."""
    _, number = np.unique(cluster, return_inverse=True)
    # shape (clusters, columns of the design)
    sums = np.stack(
        [np.bincount(number, weights=column * excess) for column in design.T], axis=1
    )
    clusters, degrees = sums.shape
    residual_degrees = clusters - degrees
    if residual_degrees < 1:
        return 1.0
    total = sums.sum(axis=0)
    inverse = np.linalg.pinv(sums.T @ sums)
    explained = float(total @ inverse @ total) / clusters
    explained = min(max(explained, 0.0), 1.0)
    if degrees == 2:
        return float((1 - explained) ** (residual_degrees / 2))
    if explained == 1:
        return 0.0
    t = sqrt(explained / (1 - explained) * residual_degrees)
    return 2 * (1 - student_share(t, residual_degrees))
