"""Several samples of one question: what one number they come to, and how far they differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.scoring.columns.verdicts import VerdictColumns
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, divide, runs
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.verdicts.aggregate import judgment_values
from evalkit.scoring.verdicts.pairs import passes_of, winner_values

UNREAD = "no question has two samples that were read"


def sample_statistics(config: RunConfig, verdicts: VerdictColumns) -> list[Statistic]:
    """Return `samples/spread`, `samples/flip_rate` and `samples/unanimous`, of questions with two samples read or more.

    A question is one order of a pair, or one response. The spread is the mean over questions of the standard deviation
    of their samples (n - 1), in margin or scale units.
    The flip rate is the chance that two samples of a question differ in the winner (pairs) or the score: the mean over
    questions of the share of their pairs of samples that do, so that it does not depend on how many samples there are.
    Unanimous are the questions all of whose samples say the same.
    """
    judgments, pairs, scored = verdicts.judgments, verdicts.pairs, verdicts.scores
    value = result = judgment_values(config, verdicts)
    if verdicts.passes is None and scored is not None:
        question, case = scored.offset[judgments.case] + judgments.i, scored.case
        span = Scale.of(config.rubric).span
    else:
        question, case, result, span = passes_of(judgments, pairs), np.repeat(pairs.case, 2), winner_values(value), 2.0
    there = np.isfinite(value)
    asked, read = (np.bincount(rows, minlength=len(case)) for rows in (question, question[there]))
    several, lost = read > 1, (read < 2) & (asked > 1)
    tally = Tally(case, len(pairs.sizes))
    spread = _mean("samples/spread", _deviation(question[there], value[there], read), several, tally)
    different = _flips(question[there], result[there], read)
    flips = _mean("samples/flip_rate", different, several, tally)
    return [
        replace(spread, missing=int(lost.sum()), worst=_bounds(spread, asked[lost], span)),
        replace(flips, missing=int(lost.sum()), worst=_bounds(flips, asked[lost], None), proportion=True),
        tally.rate("samples/unanimous", different == 0, several, lost, why=UNREAD),
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
    """Return the standard deviation (n - 1) of the values of each question, of which so many were `read`."""
    size = len(read)
    mean = np.bincount(question, weights=value, minlength=size) / np.maximum(read, 1)
    squares = np.bincount(question, weights=(value - mean[question]) ** 2, minlength=size)
    return np.asarray(np.sqrt(squares / np.maximum(read - 1, 1)))


def _flips(question: Ints, result: Floats, read: Ints) -> Floats:
    """Return the share of each question's pairs of results that differ, of which so many were `read`."""
    order = np.lexsort((result, question))
    place, _, length = runs(question[order], result[order])
    same = np.bincount(place, weights=length * (length - 1), minlength=len(read))
    return np.asarray(1 - same / np.maximum(read * (read - 1), 1))


def _bounds(found: Statistic, asked: Ints, span: float | None) -> tuple[float | None, float | None]:
    """Return the mean with every question left out at 0, and at the most it can be: two samples, one at each end."""
    total, every = float(found.table.columns[0].sum()), found.n + len(asked)
    if not every:
        return None, None
    most = np.ones(len(asked))
    if span is not None:
        most = most * span / np.sqrt(2.0)
    return total / every, (total + float(most.sum())) / every
