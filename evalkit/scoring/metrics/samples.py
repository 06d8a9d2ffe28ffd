"""Several samples of one question: what one number they come to, and how far they differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evalkit.scoring.stats.arrays import Bools, Floats, Ints, _runs, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.verdicts.pairs import SampleColumns

UNREAD = "no question has two samples that were read"


def sample_statistics(draws: SampleColumns, cases: int) -> list[Statistic]:
    """Return `samples/spread`, `samples/flip_rate` and `samples/unanimous`, of questions with two samples read or more.

    The spread is the mean over questions of the standard deviation of their samples (n - 1), in margin or scale units.
    The flip rate is the chance that two samples of a question differ in the winner (pairs) or the score: the mean over
    questions of the share of their pairs of samples that do, so that it does not depend on how many samples there are.
    Unanimous are the questions all of whose samples say the same.
    """
    size = len(draws.case)
    asked = np.bincount(draws.question, minlength=size)
    there = np.isfinite(draws.value)
    read = np.bincount(draws.question[there], minlength=size)
    several, lost = read > 1, (read < 2) & (asked > 1)
    tally = Tally(draws.case, cases)
    spread = _mean("samples/spread", _deviation(draws, read), several, tally)
    different = _flips(draws, read)
    flips = _mean("samples/flip_rate", different, several, tally)
    return [
        replace(spread, missing=int(lost.sum()), worst=_bounds(spread, asked[lost], draws.span)),
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


def _deviation(draws: SampleColumns, read: Ints) -> Floats:
    there, size = np.isfinite(draws.value), len(read)
    question, value = draws.question[there], draws.value[there]
    mean = np.bincount(question, weights=value, minlength=size) / np.maximum(read, 1)
    squares = np.bincount(question, weights=(value - mean[question]) ** 2, minlength=size)
    return np.asarray(np.sqrt(squares / np.maximum(read - 1, 1)))


def _flips(draws: SampleColumns, read: Ints) -> Floats:
    there = np.isfinite(draws.said)
    question, said = draws.question[there], draws.said[there]
    order = np.lexsort((said, question))
    runs = _runs(question[order], said[order])
    same = np.bincount(runs.place, weights=runs.length * (runs.length - 1), minlength=len(read))
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
