"""Logistic regression of outcomes in [0, 1], resampled by cases with one Newton step a resample."""

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
"""Once so little of the information is left, outcomes are all but certain: they separate, and no finite fit is best."""
Read: TypeAlias = Callable[[Floats], Floats]
SEPARATED = "the outcomes are separated: no finite coefficient fits best"
COLLINEAR = "the columns do not vary apart from one another"


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients that maximise the likelihood, or none and `why`; rows are weighted alike."""

    coefficients: Floats | None
    why: str = ""


def expit(values: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)))


def logit(values: Floats) -> Floats:
    """Return log(p / (1 - p)) of numbers strictly between 0 and 1."""
    return np.asarray(np.log(values) - np.log1p(-values))


def fit(design: Floats, outcome: Floats) -> Fit:
    """Fit E[y] = expit(X b) to outcomes in [0, 1] by Newton's method (McCullagh and Nelder 1989, section 4.4).

    Outcomes strictly between 0 and 1, such as a tie's 1/2, make it the quasi-likelihood fit of Papke and Wooldridge
    (1996, J. Appl. Econometrics 11, 619-632).
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
    """Return by case the scores and the information matrix at the fit, which `after_step` reads.

    A Newton step from the fit of all cases, with a resample's own scores and information, comes as close to the
    resample's fit as its interval needs (Davidson and MacKinnon 1999, Int. Econ. Rev. 40, 487-508).
    """
    p = expit(design @ fitted)
    spread = p * (1 - p)
    k = design.shape[1]
    scores = [tally(design[:, a] * (outcome - p)) for a in range(k)]
    information = [tally(design[:, a] * design[:, b] * spread) for a in range(k) for b in range(k)]
    return np.stack([*scores, *information], axis=1)


def after_step(totals: Floats, fitted: Floats) -> Floats:
    """Return the coefficients (columns) of each resample (rows), NaN where its information is singular."""
    k = len(fitted)
    scores, information = totals[:, :k], totals[:, k:].reshape(-1, k, k)
    scale = np.abs(information).max(axis=(1, 2)) if len(information) else np.zeros(0)
    sound = np.abs(np.linalg.det(information)) > SMALL * np.maximum(scale, SMALL) ** k
    out = np.full(scores.shape, np.nan)
    out[sound] = fitted + np.linalg.solve(information[sound], scores[sound][:, :, None])[:, :, 0]
    return out


def regression(
    name: str,
    design: Floats,
    outcome: Floats,
    tally: Tally,
    read: Read,
    *,
    missing: int = 0,
    proportion: bool = False,
    note: str | None = None,
    why: str = "",
) -> Statistic:
    """Return what `read` makes of the coefficients of a regression, or why there is none.

    `why` says what keeps the number from being identifiable although a fit may exist; empty if nothing does.
    """
    found = Fit(None, why) if why else fit(design, outcome)
    n = len(outcome)
    unbounded = "missing verdicts are left out and not bounded" if missing else None
    notes = "; ".join(part for part in (note, unbounded) if part) or None
    if found.coefficients is None:
        nothing = np.zeros((tally.cases, 0))
        return Statistic(name, nothing, lambda totals: np.full(len(totals), np.nan), n, missing, why=found.why)
    fitted = found.coefficients
    columns = one_step(design, outcome, fitted, tally)
    return Statistic(
        name,
        columns,
        lambda totals: read(after_step(totals, fitted)),
        n,
        missing,
        proportion=proportion,
        note=notes,
    )
