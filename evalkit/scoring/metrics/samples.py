"""Several samples of one question: what one number they come to, and how far they differ."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evalkit.scoring.bootstrap import Statistic, Tally, divide
from evalkit.scoring.columns import FUZZ, Bools, Floats, Ints

UNREAD = "no question has two samples that were read"


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Single answers: the `question` each is to (one order of a pair, or one response), its `value`, NaN if unread.

    `case` holds the case of each question, `said` what an answer comes to: its value, or for a pair its winner as a
    number; `span` is the largest difference two values can have.
    """

    question: Ints
    value: Floats
    said: Floats
    case: Ints
    span: float


def combine(how: str, place: Ints, values: Floats, size: int) -> Floats:
    """Return one number of the values at each of `size` places, missing ones (NaN) left out; NaN where there is none.

    Args:
        how: `mean`, `median` (of an even number, the mean of the middle two), or `majority`: the value that most have,
            and the mean of several such values.
        place: where each value stands.
        values: the values.
        size: how many places there are.
    """
    there = np.isfinite(values)
    order = np.lexsort((values[there], place[there]))
    place, values = place[there][order], values[there][order]
    if how == "median":
        return _median(place, values, size)
    if how == "majority":
        runs = _runs(place, values)
        most = np.zeros(size, dtype=np.int64)
        np.maximum.at(most, runs.place, runs.length)
        chosen = runs.length == most[runs.place]
        place, values = runs.place[chosen], runs.value[chosen]
    counts = np.bincount(place, minlength=size)
    sums = np.bincount(place, weights=values, minlength=size)
    return np.asarray(np.divide(sums, counts, out=np.full(size, np.nan), where=counts > 0))


def _median(place: Ints, values: Floats, size: int) -> Floats:
    counts = np.bincount(place, minlength=size)
    starts, filled = np.cumsum(counts) - counts, counts > 0
    found = np.full(size, np.nan)
    low, high = starts + (counts - 1) // 2, starts + counts // 2
    found[filled] = (values[low[filled]] + values[high[filled]]) / 2
    return found


@dataclass(frozen=True, slots=True)
class _Runs:
    """Equal values at one place: the place, the value, how many there are."""

    place: Ints
    value: Floats
    length: Ints


def _runs(place: Ints, values: Floats) -> _Runs:
    """Return the runs of values that are sorted by place and size."""
    new = np.ones(len(values), dtype=bool)
    new[1:] = (place[1:] != place[:-1]) | (np.diff(values) > FUZZ)
    starts = np.flatnonzero(new)
    return _Runs(place[starts], values[starts], np.diff(np.append(starts, len(values))))


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
