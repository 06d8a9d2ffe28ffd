"""Logistic regression of outcomes in [0, 1], resampled by case with one Newton step per resample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evalkit.scoring.stats.arrays import Floats
from evalkit.scoring.stats.bootstrap import Statistic, Tally

STEPS = 60
SMALL = 1e-10
VANISHED = 1e-6
"""Below this share of the initial information, the outcomes are separated and no finite fit is optimal."""
Extract: TypeAlias = Callable[[Floats], Floats]
"""Maps coefficients (rows, columns) to one number for each row."""
SEPARATED = "the outcomes are separated: no finite coefficient is optimal"
COLLINEAR = "the columns are collinear"


@dataclass(frozen=True, slots=True)
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
    """Fit E[y] = expit(X b) to outcomes in [0, 1] by Newton's method (McCullagh and Nelder 1989, section 4.4).

    With outcomes strictly between 0 and 1, such as 1/2 for a tie, this is the quasi-likelihood fit of Papke and
    Wooldridge (1996, J. Appl. Econometrics 11, 619-632).

    Args:
        design: (n, k) the design matrix X.
        outcome: (n,) the outcomes y.
    """
    if not len(outcome) or np.linalg.matrix_rank(design) < design.shape[1]:
        return Fit(None, COLLINEAR)
    least = VANISHED * float(np.linalg.eigvalsh(design.T @ design)[0])
    b: Floats = np.zeros(design.shape[1])
    step: Floats = np.ones(design.shape[1])
    for _ in range(STEPS):
        information = _information(design, b)
        if np.abs(step).max() < SMALL or np.linalg.eigvalsh(information)[0] < least:
            break
        step = np.asarray(np.linalg.solve(information, design.T @ (outcome - expit(design @ b))))
        b = b + step
    return Fit(b) if np.abs(step).max() < SMALL else Fit(None, SEPARATED)


def _information(design: Floats, b: Floats) -> Floats:
    p = expit(design @ b)
    return np.asarray((design * (p * (1 - p))[:, None]).T @ design)


def one_step(design: Floats, outcome: Floats, fitted: Floats, tally: Tally) -> Floats:
    """Return the scores and the information matrix at the fit by case, as columns for `after_step`.

    A Newton step from the fit of all cases, with the scores and information of a resample, approximates the fit of the
    resample closely enough for an interval (Davidson and MacKinnon 1999, Int. Econ. Rev. 40, 487-508).

    Args:
        design: (n, k) the design matrix.
        outcome: (n,) the outcomes.
        fitted: (k,) the coefficients of all cases.
        tally: the case of each row.

    Returns:
        (cases, k + k²) the scores, then the information.
    """
    p = expit(design @ fitted)
    spread = p * (1 - p)
    k = design.shape[1]
    scores = [tally(design[:, a] * (outcome - p)) for a in range(k)]
    information = [tally(design[:, a] * design[:, b] * spread) for a in range(k) for b in range(k)]
    return np.stack([*scores, *information], axis=1)


def after_step(totals: Floats, fitted: Floats) -> Floats:
    """Return the coefficients (resamples, k) from the totals of `one_step`, NaN for singular information."""
    k = len(fitted)
    scores, information = totals[:, :k], totals[:, k:].reshape(-1, k, k)
    scale = np.abs(information).max(axis=(1, 2)) if len(information) else np.zeros(0)
    regular = np.abs(np.linalg.det(information)) > SMALL * np.maximum(scale, SMALL) ** k
    out = np.full(scores.shape, np.nan)
    out[regular] = fitted + np.linalg.solve(information[regular], scores[regular][:, :, None])[:, :, 0]
    return out


def regression(
    name: str,
    design: Floats,
    outcome: Floats,
    tally: Tally,
    extract: Extract,
    *,
    missing: int = 0,
    proportion: bool = False,
    why: str = "",
) -> Statistic:
    """Return a number extracted from the coefficients of a regression as a statistic.

    Args:
        name: the metric's name.
        design: (n, k) the design matrix.
        outcome: (n,) the outcomes.
        tally: the case of each row.
        extract: maps coefficients to the number.
        missing: the number of missing outcomes.
        proportion: whether the number lies in [0, 1].
        why: the reason why the number is not identifiable although a fit may exist; empty if it is.
    """
    found = Fit(None, why) if why else fit(design, outcome)
    n = len(outcome)
    note = "missing verdicts are omitted and not bounded" if missing else None
    if found.coefficients is None:
        empty = np.zeros((tally.cases, 0))
        return Statistic(name, empty, lambda totals: np.full(len(totals), np.nan), n, missing, why=found.reason)
    fitted = found.coefficients
    columns = one_step(design, outcome, fitted, tally)
    return Statistic(
        name,
        columns,
        lambda totals: extract(after_step(totals, fitted)),
        n,
        missing,
        proportion=proportion,
        note=note,
    )
