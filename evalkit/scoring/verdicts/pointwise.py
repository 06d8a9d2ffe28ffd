"""Responses scored one by one: weighting, samples, normalization, and the comparisons that scores imply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.scoring.columns.cases import EQUAL, JUDGED, MISSING, NONE, TIE, PairColumns, grades, sign
from evalkit.scoring.columns.judgments import JudgmentColumns
from evalkit.scoring.columns.verdicts import ScoreColumns, VerdictColumns
from evalkit.scoring.stats.arrays import FUZZ, Floats, Ints, combine, group_mean
from evalkit.scoring.verdicts.pairs import apply_ties
from evalkit.scoring.verdicts.weighting import judgment_scores, pair_margins
from evalkit.types import Case


def score_responses(config: RunConfig, cases: Sequence[Case], judgments: JudgmentColumns) -> ScoreColumns:
    """Return each response's score: weighted mean of criteria, combined samples, then `scoring.normalize`.

    Unreadable samples are ignored; a score is missing (NaN) without readable samples. A judgment without criteria
    counts with its overall value.
    """
    scored = _over_samples(cases, judgments, judgment_scores(config, judgments), config.scoring.combine)
    return replace(scored, score=normalize(config, scored.raw, scored.case))


def score_lists(config: RunConfig, cases: Sequence[Case], judgments: JudgmentColumns) -> ScoreColumns:
    """Return each response's score in [0, 1] by its rank in rankings, averaged over orders and samples.

    Whether the overall ranking or those by criterion count is decided as for margins of pairs.
    """
    return _over_samples(cases, judgments, pair_margins(config, judgments), "mean")


def _over_samples(cases: Sequence[Case], judgments: JudgmentColumns, scores: Floats, how: str) -> ScoreColumns:
    """Combine each response's `scores`, one for each judgment, by `how`."""
    sizes = np.array([len(case.responses) for case in cases], dtype=np.int64)
    offset = np.cumsum(sizes) - sizes
    place = offset[judgments.case] + judgments.i
    case = np.repeat(np.arange(len(cases)), sizes)
    raw = combine(how, place, scores, len(case))
    confidence = group_mean(place, np.where(np.isfinite(scores), judgments.confidence, np.nan), len(case))
    return ScoreColumns(case, np.arange(len(case)) - offset[case], raw, raw, confidence, grades(cases), offset)


def compare_scores(
    config: RunConfig, cases: Sequence[Case], judgments: JudgmentColumns, scored: ScoreColumns, pairs: PairColumns
) -> VerdictColumns:
    """Return the comparisons that scores imply: the higher score wins if the difference exceeds the threshold.

    A tie of equal scores has its own reason, since no judge called it a tie.
    """
    i, j = scored.offset[pairs.case] + pairs.i, scored.offset[pairs.case] + pairs.j
    margin = scored.score[i] - scored.score[j]
    lean = sign(margin)
    unstated = np.full(len(pairs), np.nan)
    reason = np.select([lean == NONE, lean == TIE], [MISSING, EQUAL], JUDGED).astype(np.int8)
    verdicts = VerdictColumns(pairs, lean, lean, reason, margin, unstated, margin, lean, judgments, scores=scored)
    return apply_ties(verdicts, config.tie, cases)


def normalize(config: RunConfig, scores: Floats, case: Ints) -> Floats:
    """Return scores normalized by `scoring.normalize`; `none` keeps scale units."""
    how = config.scoring.normalize
    if how == "minmax":
        return minmax(scores, Scale.of(config.rubric))
    if how == "none":
        return scores
    return zscore(scores, case) if how == "zscore" else rank(scores, case)


def zscore(scores: Floats, case: Ints) -> Floats:
    """Return each score's distance from its case's mean in population standard deviations, 0 if they are 0."""
    size = int(case[-1]) + 1 if len(case) else 0
    centred = scores - group_mean(case, scores, size)[case]
    deviation = np.sqrt(group_mean(case, centred**2, size))[case]
    flat = np.where(np.isnan(scores), np.nan, 0.0)
    return np.divide(centred, deviation, out=flat, where=deviation > FUZZ)


def minmax(scores: Floats, scale: Scale) -> Floats:
    """Map the ends of the scale to 0 and 1, so that differences and thresholds mean the same on every scale.

    The ends are those of the scale, not of the case: rescaling each case to its own range would turn noise between
    equal responses into 0 and 1.
    """
    return (scores - scale.min) / scale.span


def rank(scores: Floats, case: Ints) -> Floats:
    """Return each score's rank within its case, 1 for the lowest; equal scores share their mean rank."""
    scored_rows = np.flatnonzero(np.isfinite(scores))
    ranks = np.full(len(scores), np.nan)
    order = scored_rows[np.lexsort((scores[scored_rows], case[scored_rows]))]
    cases, values = case[order], scores[order]
    new_case = np.concatenate([[True], cases[1:] != cases[:-1]])[: len(order)]
    new_value = new_case | np.concatenate([[True], np.abs(np.diff(values)) > FUZZ])[: len(order)]
    group = np.cumsum(new_value) - 1
    position = np.arange(len(order), dtype=np.float64)
    first = position[new_case][np.cumsum(new_case) - 1]
    ranks[order] = group_mean(group, position - first + 1, len(order))[group]
    return ranks
