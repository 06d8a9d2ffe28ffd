"""Length control of scores: the slope of scores on length, and scores at equal length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evalkit.config import RunConfig
from evalkit.scoring.columns.cases import flat
from evalkit.scoring.columns.verdicts import ScoreColumns
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, divide, group_mean
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.verdicts.pointwise import normalize
from evalkit.types import Case


def log_length(characters: Floats) -> Floats:
    """Return the natural logarithm of numbers of characters; an empty text counts as one character."""
    return np.asarray(np.log(np.maximum(characters, 1.0)))


def score_slopes(scored: ScoreColumns, cases: Sequence[Case], span: float) -> list[Statistic]:
    """Return `length/score_slope` and `length/score_slope_at_grade`: scale units gained by tenfold length.

    They are least-squares slopes, within cases if any case has several responses, otherwise across cases.

    Args:
        scored: the scores.
        cases: the cases.
        span: the largest possible difference of two scores.
    """
    length = _log10_length(cases)
    known = flat(cases, lambda case: [bool(response.text) for response in case.responses]) > 0
    scored_rows, graded = np.isfinite(scored.raw) & known, np.isfinite(scored.grade) & known
    missing = int((~scored_rows & known).sum())
    raw = _linear_slope("length/score_slope", scored, scored_rows, [length], len(cases), missing, span)
    ungraded = int((graded & ~scored_rows).sum())
    both = [length, np.where(graded, scored.grade, 0.0)]
    at_grade = "length/score_slope_at_grade", scored, scored_rows & graded, both, len(cases), ungraded, span
    return [raw, _linear_slope(*at_grade)]


def _log10_length(cases: Sequence[Case]) -> Floats:
    characters = flat(cases, lambda case: [len(response.text) for response in case.responses])
    return np.asarray(log_length(characters) / np.log(10.0))


def _centered(values: Floats, case: Ints, cases: int) -> Floats:
    """Return deviations from the case's mean, or from the overall mean if no case has two values."""
    if len(case) and np.bincount(case).max() > 1:
        return np.asarray(values - group_mean(case, values, cases)[case])
    return np.asarray(values - values.mean()) if len(values) else values


def _linear_slope(
    name: str, scored: ScoreColumns, used: Bools, columns: list[Floats], cases: int, missing: int, span: float
) -> Statistic:
    case = scored.case[used]
    y, x = _centered(scored.raw[used], case, cases), [_centered(column[used], case, cases) for column in columns]
    tally, k = Tally(case, cases), len(columns)
    moments = [tally(a * b) for a in x for b in x] + [tally(a * y) for a in x]
    return Statistic(
        name,
        np.stack(moments, axis=1),
        lambda totals: _first_coefficient(totals, k),
        len(y),
        missing,
        covered=tally(np.ones(len(y))) > 0,
        limits=_steepest(x, span),
        note="missing scores are omitted and not bounded" if missing else None,
        why="lengths do not vary within case and grade"
        if len(y)
        else f"no {'graded ' if k > 1 else ''}response with a text has a score",
    )


def _steepest(columns: list[Floats], span: float) -> tuple[float, float]:
    """Return the slopes if every score were at the end of the scale that its length, at equal grade, points to."""
    length = columns[0]
    rest = np.stack([*columns[1:], np.ones(len(length))], axis=1)
    length = length - rest @ np.linalg.lstsq(rest, length, rcond=None)[0]
    most = float(divide(np.abs(length).sum() * span / 2, length @ length))
    return -most, most


def _first_coefficient(totals: Floats, k: int) -> Floats:
    """Return the first coefficient of each row's normal equations, NaN if they are singular."""
    square, right = totals[:, : k * k].reshape(-1, k, k), totals[:, k * k :]
    diagonal = np.prod(np.diagonal(square, axis1=1, axis2=2), axis=1)
    regular = (np.linalg.det(square) > 1e-9 * diagonal) & (diagonal > 1e-12)
    out = np.full(len(totals), np.nan)
    out[regular] = np.linalg.solve(square[regular], right[regular][:, :, None])[:, 0, 0]
    return out


def control_length(config: RunConfig, cases: Sequence[Case], scored: ScoreColumns) -> ScoreColumns:
    """Return scores adjusted to the mean length of all responses, if `scoring.length_control` is set.

    The slope is `length/score_slope_at_grade`. Without grades, or if it is not identifiable, it is the raw slope, which
    also removes what makes longer responses better. If no slope is identifiable, scores are unchanged.
    """
    if not config.scoring.length_control or not len(scored.raw):
        return scored
    length = _log10_length(cases)
    span = config.rubric.max - config.rubric.min
    slopes = [statistic.observed() for statistic in score_slopes(scored, cases, span)[::-1]]
    slope = next((value for value in slopes if np.isfinite(value)), 0.0)
    level = scored.raw - slope * (length - length.mean())
    return replace(scored, score=normalize(config, level, scored.case))
