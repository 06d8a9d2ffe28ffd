"""AlpacaEval's length-controlled win rate, by the procedure of its authors (Dubois et al. 2024, arXiv 2404.04475).

A logistic regression without an intercept of the preference for the model on three terms: tanh of the difference in
characters, the instruction's difficulty, and whether the row is the model's own. Beside the model's rows stand those
of two gamed baselines (the baseline's outputs, made short and made long), which weigh a fifth as much, together. The
penalty is on absolute coefficients; five folds choose it. The number is the mean preference that the regression
predicts for all instructions at no difference in length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evalkit.scoring.stats.arrays import FUZZ, Bools, Floats, Ints, divide
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.scoring.stats.logistic import expit
from evalkit.types import Case

CALIBRATION = "calibration"
"""The key of a case's metadata under which its instruction's number and rows of df_gamed.csv stand."""
UNBOUNDED = "missing verdicts are left out and not bounded"

_GAMED_WEIGHT = 0.2 / 2
_FOLDS = 5
_STRENGTHS = np.logspace(-4, 4, 10)
_SEED = 123
_LEAST = 1e-15


@dataclass(frozen=True, slots=True)
class _Data:
    """The regression's rows: the gamed baselines' first, then the model's own in the order of instructions.

    `case` holds each of the model's rows' case, `read` says which of them have a preference. `y` of a gamed row
    without one is NaN; all other values are there. `difficulty` is by the model's rows.
    """

    x: Floats
    y: Floats
    weight: Floats
    case: Ints
    difficulty: Floats

    @property
    def gamed(self) -> int:
        """How many rows are of gamed baselines."""
        return len(self.y) - len(self.case)


def length_controlled(
    name: str, cases: Sequence[Case], rows: Bools, longer: Floats, credit: Floats, *, missing: int
) -> Statistic | None:
    """Return the length-controlled win rate of one model, none where the authors' procedure cannot be followed.

    Its interval is of instructions: each resample takes one Newton step, at the penalty chosen, from the fit of all
    of them. The gamed baselines' rows are data of the benchmark, and stay as they are.

    Args:
        name: the metric's name.
        cases: all cases.
        rows: which of them are the model's.
        longer: by how many characters the baseline's output is longer, by case.
        credit: the preference for the model in [0, 1], by case, NaN where it is missing.
        missing: how many of the model's cases have none.
    """
    data = _data(cases, rows, longer, credit)
    if data is None:
        return None
    fitted = _fit(data)
    return Statistic(
        name,
        np.ones((len(cases), 1)),
        lambda weights: _resampled(data, fitted, weights[:, data.case]),
        int(np.isfinite(data.y[data.gamed :]).sum()),
        missing,
        proportion=True,
        weighted=True,
        note=UNBOUNDED if missing else None,
        covered=rows & np.isfinite(credit),
    )


def _data(cases: Sequence[Case], rows: Bools, longer: Floats, credit: Floats) -> _Data | None:
    """Return the regression's rows, none unless every instruction of the benchmark is there with its calibration."""
    places = [place for place in np.flatnonzero(rows).tolist() if _known(cases[place])]
    found: dict[int, dict[str, Any]] = {int(cases[place].metadata[CALIBRATION]["index"]): {} for place in places}
    places.sort(key=lambda place: int(cases[place].metadata[CALIBRATION]["index"]))
    known = [cases[place].metadata[CALIBRATION] for place in places]
    gamed = sorted(tuple(row) for one in known for row in one["gamed"])
    if not known or len(found) < len(known) or len(known) < int(rows.sum()) or len(gamed) < known[0]["rows"]:
        return None
    case = np.array(places, dtype=np.int64)
    spread = float(longer[case].std(ddof=1)) if len(case) > 1 else 0.0
    if spread <= FUZZ or not np.isfinite(credit[case]).any():
        return None
    table = np.array([[np.nan if cell is None else cell for cell in row[1:]] for row in gamed], dtype=np.float64)
    difficulty = np.array([one["difficulty"] for one in known], dtype=np.float64)
    own = np.stack([np.tanh(longer[case] / spread), difficulty, np.ones(len(case))], axis=1)
    x = np.concatenate([np.stack([np.tanh(table[:, 1]), table[:, 2], table[:, 3]], axis=1), own])
    y = np.concatenate([table[:, 0], credit[case]])
    weight = np.where(x[:, 2] > 0, 1.0, _GAMED_WEIGHT)
    return _Data(x, y, weight, case, difficulty)


def _known(case: Case) -> bool:
    return isinstance(case.metadata.get(CALIBRATION), dict)


def _fit(data: _Data) -> Floats:
    """Return the coefficients at the penalty that five folds choose, as scikit-learn's logistic regression has them.

    A preference p counts as two outcomes, 1 with the weight p and 0 with the weight 1 - p. Folds are of rows; the best
    penalty has the highest mean likelihood of the rows left out.
    """
    from sklearn.model_selection import GroupKFold

    read = np.isfinite(data.y)
    x, y, weight = data.x[read], data.y[read], data.weight[read]
    twice, outcome = np.concatenate([x, x]), np.repeat([1, 0], len(y))
    share, weights = np.concatenate([y, 1 - y]), np.concatenate([weight, weight])
    scores = []
    for kept, left in GroupKFold(_FOLDS).split(twice, outcome, np.tile(np.arange(len(y)), 2)):
        path = _path(twice[kept], outcome[kept], (share * weights)[kept], _STRENGTHS)
        truth = np.where(outcome == 1, share, 1 - share)[left]
        scores.append([_likelihood(truth, expit(twice[left] @ b), weights[left]) for b in path])
    best = _STRENGTHS[int(np.mean(scores, axis=0).argmax())]
    return _path(twice, outcome, share * weights, np.array([best]))[0]


def _path(x: Floats, outcome: Ints, weights: Floats, strengths: Floats) -> list[Floats]:
    """Return the coefficients for each strength, the solver's chances being drawn one after the other."""
    from sklearn.linear_model import LogisticRegression

    chance = np.random.RandomState(_SEED)
    return [
        np.asarray(
            LogisticRegression(l1_ratio=1.0, solver="liblinear", fit_intercept=False, C=strength, random_state=chance)
            .fit(x, outcome, sample_weight=weights)
            .coef_[0],
            dtype=np.float64,
        )
        for strength in strengths
    ]


def _likelihood(truth: Floats, predicted: Floats, weights: Floats) -> float:
    p = np.clip(predicted, _LEAST, 1 - _LEAST)
    return float(np.mean((truth * np.log(p) + (1 - truth) * np.log(1 - p)) * weights))


def _resampled(data: _Data, fitted: Floats, drawn: Floats) -> Floats:
    """Return the win rate of each resample, of which `drawn` says how often each of the model's rows stands in it.

    The coefficients that the penalty holds at 0 stay there. All instructions drawn once give the fit's own number.
    """
    p = expit(data.x @ fitted)
    free = np.flatnonzero(fitted)
    read = np.isfinite(data.y)
    residual = np.where(read, data.weight * (data.y - p), 0.0)
    spread = np.where(read, data.weight * p * (1 - p), 0.0)
    x = data.x[:, free]
    each = x[:, :, None] * x[:, None, :] * spread[:, None, None]
    own = slice(data.gamed, None)
    score = (drawn - 1.0) @ (x[own] * residual[own, None])
    information = each[: data.gamed].sum(axis=0) + np.tensordot(drawn, each[own], axes=(1, 0))
    scale = np.abs(information).max(axis=(1, 2), initial=0.0)
    sound = np.abs(np.linalg.det(information)) > FUZZ * np.maximum(scale, FUZZ) ** len(free)
    b = np.full((len(drawn), len(fitted)), np.nan)
    b[sound] = fitted
    b[np.ix_(sound, free)] += np.linalg.solve(information[sound], score[sound][:, :, None])[:, :, 0]
    at_one_length = expit(b[:, 2:] + b[:, 1:2] * data.difficulty)
    return divide((drawn * at_one_length).sum(axis=1), drawn.sum(axis=1))
