"""Scores at equal length: the slope of scores on length, and scores without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evalkit.config import RunConfig
from evalkit.scoring.columns.cases import flat
from evalkit.scoring.columns.verdicts import ScoreColumns
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, group_mean
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.verdicts.pointwise import normalize
from evalkit.types import Case


def log_length(characters: Floats) -> Floats:
    """Return the logarithm of numbers of characters; an empty text counts as one character."""
    return np.asarray(np.log(np.maximum(characters, 1.0)))


def score_slopes(scored: ScoreColumns, cases: Sequence[Case]) -> list[Statistic]:
    """Return `length/score_slope`, raw and at equal grade: scale units by which a tenfold length raises a score.

    Least squares within cases where a case has several responses, else across them; cases resampled.
    """
    length = _decades(cases)
    known = flat(cases, lambda case: [bool(response.text) for response in case.responses]) > 0
    there, graded = np.isfinite(scored.raw) & known, np.isfinite(scored.grade) & known
    missing = int((~there & known).sum())
    raw = _linear("length/score_slope", scored, there, [length], len(cases), missing)
    lost = int((graded & ~there).sum())
    both = [length, np.where(graded, scored.grade, 0.0)]
    return [raw, _linear("length/score_slope_at_grade", scored, there & graded, both, len(cases), lost)]


def _decades(cases: Sequence[Case]) -> Floats:
    characters = flat(cases, lambda case: [len(response.text) for response in case.responses])
    return np.asarray(log_length(characters) / np.log(10.0))


def _centre(values: Floats, case: Ints, cases: int) -> Floats:
    """Return distances from each case's mean, or from everything's where no case has two."""
    if len(case) and np.bincount(case).max() > 1:
        return np.asarray(values - group_mean(case, values, cases)[case])
    return np.asarray(values - values.mean()) if len(values) else values


def _linear(name: str, scored: ScoreColumns, used: Bools, columns: list[Floats], cases: int, missing: int) -> Statistic:
    case = scored.case[used]
    y, x = _centre(scored.raw[used], case, cases), [_centre(column[used], case, cases) for column in columns]
    tally, k = Tally(case, cases), len(columns)
    moments = [tally(a * b) for a in x for b in x] + [tally(a * y) for a in x]
    return Statistic(
        name,
        np.stack(moments, axis=1),
        lambda totals: _first_coefficient(totals, k),
        len(y),
        missing,
        covered=tally(np.ones(len(y))) > 0,
        note="missing scores are left out and not bounded" if missing else None,
        why="lengths do not vary apart from case and grade" if len(y) else "no such response has a score",
    )


def _first_coefficient(totals: Floats, k: int) -> Floats:
    """Return the first coefficient of each row's normal equations, NaN where they have no single solution."""
    square, right = totals[:, : k * k].reshape(-1, k, k), totals[:, k * k :]
    diagonal = np.prod(np.diagonal(square, axis1=1, axis2=2), axis=1)
    sound = (np.linalg.det(square) > 1e-9 * diagonal) & (diagonal > 1e-12)
    out = np.full(len(totals), np.nan)
    out[sound] = np.linalg.solve(square[sound], right[sound][:, :, None])[:, 0, 0]
    return out


def control_length(config: RunConfig, cases: Sequence[Case], scored: ScoreColumns) -> ScoreColumns:
    """Return scores as they would be at the mean length of all responses, if `scoring.length_control` asks for it.

    What is taken out is `length/score_slope_at_grade`; without grades, or where that is not identifiable, the raw
    slope, and with it whatever made longer responses better. Where no slope is identifiable, scores stay as they are.
    """
    if not config.scoring.length_control or not len(scored.raw):
        return scored
    length = _decades(cases)
    slopes = [statistic.observed() for statistic in score_slopes(scored, cases)[::-1]]
    slope = next((value for value in slopes if np.isfinite(value)), 0.0)
    level = scored.raw - slope * (length - length.mean())
    return replace(scored, score=normalize(config, level, scored.case))
