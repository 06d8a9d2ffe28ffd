"""A slow maximization of the penalized likelihood of a logistic regression, written from its definition."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def slow_likelihood(design, outcome, b):
    """Return the log likelihood plus half the logarithm of the determinant of the information."""
    p = 1 / (1 + np.exp(-np.clip(design @ b, -30, 30)))
    information = design.T @ (design * (p * (1 - p))[:, None])
    plain = np.sum(outcome * np.log(p) + (1 - outcome) * np.log(1 - p))
    return plain + 0.5 * np.log(max(np.linalg.det(information), 1e-300))


def slow_fit(design, outcome):
    """Return the coefficients that maximize it, without derivatives."""
    options = {"xatol": 1e-9, "fatol": 1e-13, "maxiter": 20_000, "maxfev": 20_000}
    start = np.zeros(design.shape[1])
    for _ in range(3):  # Nelder-Mead from its own result
        start = minimize(
            lambda b: -slow_likelihood(design, outcome, b),
            start,
            method="Nelder-Mead",
            options=options,
        ).x
    return start
