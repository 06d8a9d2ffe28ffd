"""Repeated samples of one question: their spread and how often they differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.scoring.columns.classes import MISSING, ClassColumns
from evalkit.scoring.columns.judgments import JudgmentColumns
from evalkit.scoring.columns.verdicts import VerdictColumns
from evalkit.scoring.metrics.agreement import interval_alpha, interval_columns, nominal_alpha, nominal_columns
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, divide, runs
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.verdicts.pairs import passes_of, winner_values
from evalkit.scoring.verdicts.weighting import judgment_values

UNREAD = "no question has two readable samples"


def sample_statistics(config: RunConfig, verdicts: VerdictColumns) -> list[Statistic]:
    """Return `samples/spread`, `samples/flip_rate`, `samples/unanimous` and `samples/alpha`.

    They are computed over questions with at least two readable samples. A question is one order of a pair, or one
    response. The spread is the mean standard deviation (n - 1) of a question's samples, in margin or scale units. The
    flip rate is the probability that two samples of a question differ in the winner (pairs) or the score (responses):
    the mean share of differing pairs of samples, which does not depend on the number of samples. Questions are
    unanimous if all their samples agree. Alpha corrects the agreement of samples for chance.
    """
    judgments, pairs, scored = verdicts.judgments, verdicts.pairs, verdicts.scores
    value = result = judgment_values(config, verdicts)
    if verdicts.passes is None and scored is not None:
        question, case = scored.offset[judgments.case] + judgments.i, scored.case
        span = Scale.of(config.rubric).span
    else:
        question, case, result, span = passes_of(judgments, pairs), np.repeat(pairs.case, 2), winner_values(value), 2.0
    finite = np.isfinite(value)
    asked, read = (np.bincount(rows, minlength=len(case)) for rows in (question, question[finite]))
    several, omitted = read > 1, (read < 2) & (asked > 1)
    tally = Tally(case, len(pairs.sizes))
    spread = _mean("samples/spread", _deviation(question[finite], value[finite], read), several, tally)
    limits = (0.0, span / 2**0.5)
    spread = replace(spread, missing=int(omitted.sum()), worst=_bounds(spread, asked[omitted], span), limits=limits)
    result = np.where(finite, result, np.nan)
    return [spread, *_agreement(question, result, tally, numbers=verdicts.passes is None)]


def class_sample_statistics(columns: ClassColumns, judgments: JudgmentColumns) -> list[Statistic]:
    """Return `samples/flip_rate`, `samples/unanimous` and `samples/alpha` of one judge's classes of each response.

    An abstention is one of the answers that two samples can agree on.
    """
    assert judgments.choice is not None  # read with the classes
    question = np.searchsorted(columns.case, judgments.case) + judgments.i
    read = judgments.readable & (judgments.choice != MISSING)
    return _agreement(question, np.where(read, judgments.choice, np.nan), columns.tally, numbers=False)


def _agreement(question: Ints, result: Floats, tally: Tally, *, numbers: bool) -> list[Statistic]:
    """Return how often two samples of a question differ, are all equal, and agree beyond chance.

    Args:
        question: (n,) the question of each sample.
        result: (n,) its result, NaN if it is missing.
        tally: the case of each question.
        numbers: whether results are numbers, with distances, or else codes.
    """
    size, finite = len(tally.case), np.isfinite(result)
    asked, read = (np.bincount(rows, minlength=size) for rows in (question, question[finite]))
    several, omitted = read > 1, (read < 2) & (asked > 1)
    question, result = question[finite], result[finite]
    different = _flips(question, result, read)
    flips, missing = _mean("samples/flip_rate", different, several, tally), int(omitted.sum())
    if numbers:
        center = float(result.mean()) if len(result) else 0.0
        columns, value = interval_columns(result - center, question, size, tally), interval_alpha
    else:
        _, code = np.unique(result, return_inverse=True)
        counts = np.zeros((size, int(code.max(initial=0)) + 1))
        np.add.at(counts, (question, code), 1.0)
        columns, value = nominal_columns(counts, tally), nominal_alpha
    return [
        replace(flips, missing=missing, worst=_bounds(flips, asked[omitted], None), proportion=True),
        tally.rate("samples/unanimous", different == 0, several, omitted, why=UNREAD),
        Statistic(
            "samples/alpha",
            columns,
            value,
            n=int(several.sum()),
            missing=missing,
            note="missing samples are omitted and not bounded" if missing else None,
            why="all samples are equal" if several.any() else UNREAD,
        ),
    ]


def _mean(name: str, values: Floats, among: Bools, tally: Tally) -> Statistic:
    return Statistic(
        name,
        np.stack([tally(np.where(among, values, 0.0)), tally(among)], axis=1),
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n=int(among.sum()),
        why=UNREAD,
    )


def _deviation(question: Ints, value: Floats, read: Ints) -> Floats:
    """Return the standard deviation (n - 1) of each question's values, `read` being their number."""
    size = len(read)
    mean = np.bincount(question, weights=value, minlength=size) / np.maximum(read, 1)
    squares = np.bincount(question, weights=(value - mean[question]) ** 2, minlength=size)
    return np.asarray(np.sqrt(squares / np.maximum(read - 1, 1)))


def _flips(question: Ints, result: Floats, read: Ints) -> Floats:
    """Return the share of each question's pairs of results that differ, `read` being the number of results."""
    order = np.lexsort((result, question))
    place, _, length = runs(question[order], result[order])
    same = np.bincount(place, weights=length * (length - 1), minlength=len(read))
    return np.asarray(1 - same / np.maximum(read * (read - 1), 1))


def _bounds(found: Statistic, asked: Ints, span: float | None) -> tuple[float | None, float | None]:
    """Return the mean if every omitted question had 0, and if it had the maximum: two samples at opposite ends."""
    total, count = float(found.table.columns[0].sum()), found.n + len(asked)
    if not count:
        return None, None
    maximum = np.ones(len(asked))
    if span is not None:
        maximum = maximum * span / np.sqrt(2.0)
    return total / count, (total + float(maximum.sum())) / count
