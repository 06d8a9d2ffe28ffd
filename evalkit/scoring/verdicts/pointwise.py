"""Responses scored one by one: weighting, samples, normalization, length control, and
the comparisons they imply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.core.types import Case
from evalkit.scoring.columns import (
    EQUAL,
    JUDGED,
    MISSING,
    NONE,
    TIE,
    PairColumns,
    ScoreColumns,
    VerdictColumns,
    flat,
    grades,
    rows_of,
    sign,
)
from evalkit.scoring.judgments import JudgmentColumns
from evalkit.scoring.stats.arrays import (
    FUZZ,
    Bools,
    Floats,
    Ints,
    combine,
    divide,
    group_mean,
)
from evalkit.scoring.stats.statistic import Statistic, Tally
from evalkit.scoring.verdicts.pairs import apply_ties, judgment_scores, pair_margins
from evalkit.scoring.verdicts.rewards import reward_margins


def score_responses(
    config: RunConfig, cases: Sequence[Case], judgments: JudgmentColumns
) -> ScoreColumns:
    """Return each response's score: weighted mean of criteria, combined samples, then
    `scoring.normalize`.

    Unreadable samples are ignored; a score is missing (NaN) without readable samples. A judgment
    without criteria counts with its overall value.
    """
    scores = judgment_scores(config, judgments)
    rule = config.scoring.combine
    scored = _over_samples(cases, judgments, scores, rule)
    return replace(scored, score=normalize(config, scored.raw, scored.case))


def score_lists(
    config: RunConfig, cases: Sequence[Case], judgments: JudgmentColumns
) -> ScoreColumns:
    """Return each response's score in [0, 1] by its rank in rankings, averaged over
    orders and samples.

    Whether the overall ranking or those by criterion count is decided as for margins of pairs.
    """
    return _over_samples(cases, judgments, pair_margins(config, judgments), "mean")


def _over_samples(
    cases: Sequence[Case], judgments: JudgmentColumns, scores: Floats, rule: str
) -> ScoreColumns:
    """Combine each response's `scores`, one for each judgment, by `rule`."""
    sizes, offset = rows_of(cases)
    # (judgments,) the row of each judgment's response.
    response = offset[judgments.case] + judgments.i
    case = np.repeat(np.arange(len(cases)), sizes)
    # (responses,) samples combined; the same for the confidence of readable ones.
    raw = combine(rule, response, scores, len(case))
    is_read = np.isfinite(scores)
    confidences = np.where(is_read, judgments.confidence, np.nan)
    confidence = group_mean(response, confidences, len(case))
    return ScoreColumns(
        case=case,
        # The index of the response in its case.
        index=np.arange(len(case)) - offset[case],
        raw=raw,
        score=raw,
        confidence=confidence,
        grade=grades(cases),
        offset=offset,
    )


def compare_scores(
    config: RunConfig,
    cases: Sequence[Case],
    judgments: JudgmentColumns,
    scored: ScoreColumns,
    pairs: PairColumns,
) -> VerdictColumns:
    """Return the comparisons that scores imply: the higher score wins if the difference
    exceeds the threshold.

    A tie of equal scores has its own reason, since no judge called it a tie. Rewards have margins
    as `reward_margins` fits them, or else the difference of rewards.
    """
    # (pairs,) the first score minus the second, NaN if one is missing.
    difference = pairs.differences(scored.score)
    margin = difference
    lean = sign(difference)
    confidence = np.full(len(pairs), np.nan)
    if config.rubric.real:
        margin, confidence, _ = reward_margins(config, cases, pairs, difference)
    is_missing = lean == NONE
    is_equal = lean == TIE
    reason = np.select([is_missing, is_equal], [MISSING, EQUAL], JUDGED)
    verdicts = VerdictColumns(
        pairs=pairs,
        lean=lean,
        winner=lean,
        reason=reason.astype(np.int8),
        margin=margin,
        confidence=confidence,
        settle=margin,
        surer=lean,
        judgments=judgments,
        scores=scored,
    )
    return apply_ties(verdicts, config.tie, cases)


def normalize(config: RunConfig, scores: Floats, case: Ints) -> Floats:
    """Return scores normalized by `scoring.normalize`; `none` keeps scale units."""
    method = config.scoring.normalize
    if method == "minmax":
        return minmax(scores, Scale.of(config.rubric))
    if method == "none":
        return scores
    if method == "zscore":
        return zscore(scores, case)
    return rank(scores, case)


def zscore(scores: Floats, case: Ints) -> Floats:
    """Return each score's distance from its case's mean in population standard
    deviations, 0 if they are 0.
    """
    # Cases are in order, so the last one has the highest number.
    size = int(case[-1]) + 1 if len(case) else 0
    centred = scores - group_mean(case, scores, size)[case]
    # (responses,) the standard deviation of each response's case.
    variance = group_mean(case, centred**2, size)
    deviation = np.sqrt(variance)[case]
    flat = np.where(np.isnan(scores), np.nan, 0.0)
    return np.divide(centred, deviation, out=flat, where=deviation > FUZZ)


def minmax(scores: Floats, scale: Scale) -> Floats:
    """Map the ends of the scale to 0 and 1, so that differences and thresholds mean the
    same on every scale.

    The ends are those of the scale, not of the case: rescaling each case to its own range would
    turn noise between equal responses into 0 and 1.
    """
    return (scores - scale.min) / scale.span


def rank(scores: Floats, case: Ints) -> Floats:
    """Return each score's rank within its case, 1 for the lowest; equal scores share
    their mean rank.
    """
    scored_rows = np.flatnonzero(np.isfinite(scores))
    ranks = np.full(len(scores), np.nan)
    # Rows by case, then by score, without missing scores.
    order = scored_rows[np.lexsort((scores[scored_rows], case[scored_rows]))]
    cases = case[order]
    values = scores[order]
    # Where a new case begins, and below where a new score begins.
    new_case = _begins(cases[1:] != cases[:-1], len(order))
    new_value = new_case | _begins(np.abs(np.diff(values)) > FUZZ, len(order))
    # (n,) the number of the group of equal scores.
    group = np.cumsum(new_value) - 1
    position = np.arange(len(order), dtype=np.float64)
    # (n,) the position of the first score of the case.
    case_number = np.cumsum(new_case) - 1
    first = position[new_case][case_number]
    # Positions from 1 within the case, averaged over equal scores.
    means = group_mean(group, position - first + 1, len(order))
    ranks[order] = means[group]
    return ranks


def _begins(changes: Bools, rows: int) -> Bools:
    """Return which rows begin something, of where neighbors differ (rows - 1,): the first row
    always does.
    """
    first = [True] if rows else []
    return np.concatenate([first, changes]).astype(bool)


def log_length(characters: Floats) -> Floats:
    """Return the natural logarithm of numbers of characters; an empty text counts as
    one character.
    """
    return np.asarray(np.log(np.maximum(characters, 1.0)))


def score_slopes(
    scored: ScoreColumns, cases: Sequence[Case], span: float
) -> list[Statistic]:
    """Return `length/score_slope` and `length/score_slope_at_grade`: scale units gained
    by tenfold length.

    They are least-squares slopes, within cases if any case has several responses, otherwise across
    cases.

    Args:
        scored: the scores.
        cases: the cases.
        span: the largest possible difference of two scores.
    """
    # Only texts have a length; an empty response says nothing about it.
    # all columns: shape (responses,)
    length = _log10_length(cases)
    has_text = (
        flat(cases, lambda case: [bool(response.text) for response in case.responses])
        > 0
    )
    scored_rows = np.isfinite(scored.raw) & has_text
    graded = np.isfinite(scored.grade) & has_text
    missing = int((~scored_rows & has_text).sum())
    raw = _linear_slope(
        "length/score_slope", scored, scored_rows, [length], len(cases), missing, span
    )
    ungraded = int((graded & ~scored_rows).sum())
    # Length and grade: the slope of length at equal grade is the first coefficient.
    both = [length, np.where(graded, scored.grade, 0.0)]
    at_grade = (
        "length/score_slope_at_grade",
        scored,
        scored_rows & graded,
        both,
        len(cases),
        ungraded,
        span,
    )
    return [raw, _linear_slope(*at_grade)]


def _log10_length(cases: Sequence[Case]) -> Floats:
    characters = flat(
        cases, lambda case: [len(response.text) for response in case.responses]
    )
    # In tens: a slope is the change for tenfold length.
    return np.asarray(log_length(characters) / np.log(10.0))


def _centered(values: Floats, case: Ints, cases: int) -> Floats:
    """Return deviations from the case's mean, or from the overall mean if no case has
    two values.
    """
    if len(case) and np.bincount(case).max() > 1:
        return np.asarray(values - group_mean(case, values, cases)[case])
    if len(values):
        return np.asarray(values - values.mean())
    return values


def _linear_slope(
    name: str,
    scored: ScoreColumns,
    used: Bools,
    columns: list[Floats],
    cases: int,
    missing: int,
    span: float,
) -> Statistic:
    """Return the least-squares slope of scores on the first column, at equal values of the others.

    Args:
        name: the name of the metric.
        scored: the scores.
        used: (responses,) which responses count.
        columns: (responses,) each: the log-length, then what is held equal.
        cases: the number of cases.
        missing: the number of responses that lack a score.
        span: the largest possible difference of two scores; infinite without limits.
    """
    case = scored.case[used]
    y = _centered(scored.raw[used], case, cases)
    x = [_centered(column[used], case, cases) for column in columns]
    tally = Tally(case, cases)
    k = len(columns)
    # Normal equations by case: k * k products of columns, then k products with the score.
    moments = [tally(a * b) for a in x for b in x]
    moments += [tally(a * y) for a in x]
    if len(y):
        why = "lengths do not vary within case and grade"
    elif k > 1:
        why = "no graded response with a text has a score"
    else:
        why = "no response with a text has a score"
    return Statistic(
        name,
        np.stack(moments, axis=1),
        lambda totals: _first_coefficient(totals, k),
        len(y),
        missing,
        covered=tally(np.ones(len(y))) > 0,
        limits=_steepest(x, span) if np.isfinite(span) else None,
        note="missing scores are omitted and not bounded" if missing else None,
        why=why,
    )


def _steepest(columns: list[Floats], span: float) -> tuple[float, float]:
    """Return the slopes if every score were at the end of the scale that its length, at
    equal grade, points to.
    """
    length = columns[0]
    controls = np.stack([*columns[1:], np.ones(len(length))], axis=1)
    # the part of the length that the other columns do not explain (Frisch-Waugh-Lovell)
    coefficients = np.linalg.lstsq(controls, length, rcond=None)[0]
    length = length - controls @ coefficients
    # Each score at the end that its length points to: half of the scale from the middle.
    farthest = np.abs(length).sum() * span / 2
    most = float(divide(farthest, length @ length))
    return -most, most


def _first_coefficient(totals: Floats, k: int) -> Floats:
    """Return the first coefficient of each row's normal equations, NaN if they are singular."""
    # (rows, k, k) and (rows, k).
    square = totals[:, : k * k].reshape(-1, k, k)
    right = totals[:, k * k :]
    # The determinant is compared with the product of the diagonal, so that units do not matter.
    diagonal = np.prod(np.diagonal(square, axis1=1, axis2=2), axis=1)
    is_large = np.linalg.det(square) > 1e-9 * diagonal
    regular = is_large & (diagonal > 1e-12)
    solved = np.linalg.solve(square[regular], right[regular][:, :, None])
    out = np.full(len(totals), np.nan)
    out[regular] = solved[:, 0, 0]
    return out


def control_length(
    config: RunConfig, cases: Sequence[Case], scored: ScoreColumns
) -> ScoreColumns:
    """Return scores adjusted to the mean length of all responses, if
    `scoring.length_control` is set.

    The slope is `length/score_slope_at_grade`. Without grades, or if it is not identifiable (NaN),
    it is `length/score_slope`, which also removes what makes longer responses better. If no slope
    is identifiable, no length is removed.
    """
    if not config.scoring.length_control or not len(scored.raw):
        return scored
    span = Scale.of(config.rubric).span
    raw_slope, slope_at_grade = score_slopes(scored, cases, span)
    by_preference = (slope_at_grade.observed(), raw_slope.observed())
    slope = next((value for value in by_preference if np.isfinite(value)), 0.0)
    # (responses,) scores as if every response had the mean length.
    length = _log10_length(cases)
    adjusted = scored.raw - slope * (length - length.mean())
    return replace(scored, score=normalize(config, adjusted, scored.case))
