"""Repeated requests: the spread and flips of samples, and just-noticeable differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.core.values import frozen
from evalkit.scoring.columns import ClassColumns, VerdictColumns
from evalkit.scoring.judgments import MISSING, JudgmentColumns
from evalkit.scoring.stats.arrays import (
    Bools,
    Floats,
    Ints,
    runs,
)
from evalkit.scoring.stats.coefficients import Confusion, alpha_of_numbers
from evalkit.scoring.stats.statistic import (
    Statistic,
    Tally,
)
from evalkit.scoring.verdicts.pairs import (
    judgment_values,
    passes_of,
    winner_values,
)

SAMPLES_UNREAD = "no question has two readable samples"


def sample_statistics(config: RunConfig, single: VerdictColumns) -> list[Statistic]:
    """Return `samples/spread`, `samples/flip_rate`, `samples/unanimous` and `samples/alpha`.

    They are computed over questions with at least two readable samples. A question is one order of
    a pair, or one response. The spread is the mean standard deviation (n - 1) of a question's
    samples, in margin or scale units. The flip rate is the probability that two samples of a
    question differ in the winner (pairs) or the score (responses): the mean share of differing
    pairs of samples, which does not depend on the number of samples. Questions are unanimous if all
    their samples agree. Alpha corrects the agreement of samples for chance.
    """
    if config.mode.samples < 2:
        return []
    verdicts = single
    judgments = single.judgments
    pairs = single.pairs
    scored = single.scores
    value = result = judgment_values(config, verdicts)
    if verdicts.passes is None and scored is not None:
        question = scored.offset[judgments.case] + judgments.i
        case = scored.case
        span = Scale.of(config.rubric).span
    else:
        question = passes_of(judgments, pairs)
        case = np.repeat(pairs.case, 2)
        result = winner_values(value)
        span = 2.0
    repeats = Repeats.of(question, value, verdicts.tally.of(case))
    # Two samples at opposite ends differ most.
    ends = (0.0, span / np.sqrt(2.0)) if np.isfinite(span) else None
    spread = repeats.mean("spread", repeats.deviation(), span=ends, limits=ends)
    result = np.where(np.isfinite(value), result, np.nan)
    return [
        spread,
        *_repeat_agreement(
            question, result, repeats.tally, numbers=verdicts.passes is None
        ),
    ]


def class_sample_statistics(
    config: RunConfig, classes: ClassColumns, judgments: JudgmentColumns
) -> list[Statistic]:
    """Return `samples/flip_rate`, `samples/unanimous` and `samples/alpha` of one
    judge's classes of each response.

    An abstention is one of the answers that two samples can agree on.
    """
    if config.mode.samples < 2 or classes.votes:
        return []
    assert judgments.choice is not None  # read with the classes
    question = classes.rows(judgments)
    read = judgments.readable & (judgments.choice != MISSING)
    return _repeat_agreement(
        question, np.where(read, judgments.choice, np.nan), classes.tally, numbers=False
    )


def _repeat_agreement(
    question: Ints, result: Floats, tally: Tally, *, numbers: bool
) -> list[Statistic]:
    """Return how often two samples of a question differ, are all equal, and agree beyond chance.

    Args:
        question: (n,) the question of each sample.
        result: (n,) its result, NaN if it is missing.
        tally: the case of each question.
        numbers: whether results are numbers, with distances, or else codes.
    """
    repeats = Repeats.of(question, result, tally)
    different = repeats.flips()
    missing = int(repeats.omitted.sum())
    attributes = {
        "n": int(repeats.several.sum()),
        "missing": missing,
        "reach": None,
        "note": "missing samples are omitted and not bounded" if missing else None,
        "why": "all samples are equal" if repeats.several.any() else SAMPLES_UNREAD,
    }
    if numbers:
        coefficients = [
            alpha_of_numbers(
                "samples/alpha", repeats.value, repeats.question, tally, **attributes
            )
        ]
    else:
        _, code = np.unique(repeats.value, return_inverse=True)
        # shape (questions, codes)
        counts = np.zeros((len(tally.case), int(code.max(initial=0)) + 1))
        np.add.at(counts, (repeats.question, code), 1.0)
        coefficients = Confusion.among(counts, tally).coefficients(
            "samples", "samples", **attributes
        )
    return [
        repeats.mean("flip_rate", different, span=(0.0, 1.0), proportion=True),
        tally.rate(
            "samples/unanimous",
            different == 0,
            repeats.several,
            repeats.omitted,
            why=SAMPLES_UNREAD,
        ),
        *coefficients,
    ]


@frozen
class Repeats:
    """The readable samples of each question.

    Attributes:
        question: (n,) the question of each sample.
        value: (n,) its value.
        read: (questions,) the number of samples.
        omitted: (questions,) whether several samples were asked and fewer than two could be read.
        tally: the case of each question.
    """

    question: Ints
    value: Floats
    read: Ints
    omitted: Bools
    tally: Tally

    @classmethod
    def of(cls, question: Ints, value: Floats, tally: Tally) -> Repeats:
        """Return the samples with a value, which is NaN if it is missing."""
        finite = np.isfinite(value)
        # shape (questions,): number of samples, and of those with a value
        requested, read = (
            np.bincount(rows, minlength=len(tally.case))
            for rows in (question, question[finite])
        )
        return cls(
            question[finite], value[finite], read, (read < 2) & (requested > 1), tally
        )

    @property
    def several(self) -> Bools:
        """Which questions have at least two samples, (questions,)."""
        return np.asarray(self.read > 1)

    def mean(self, name: str, values: Floats, **attributes: Any) -> Statistic:
        """Return the mean of numbers of questions (questions,) over those with at least
        two samples.
        """
        return self.tally.mean(
            f"samples/{name}",
            values,
            self.several,
            self.omitted,
            why=SAMPLES_UNREAD,
            **attributes,
        )

    def deviation(self) -> Floats:
        """Return the standard deviation (n - 1) of each question's samples, (questions,)."""
        size = len(self.read)
        mean = np.bincount(
            self.question, weights=self.value, minlength=size
        ) / np.maximum(self.read, 1)
        squares = np.bincount(
            self.question,
            weights=(self.value - mean[self.question]) ** 2,
            minlength=size,
        )
        return np.asarray(np.sqrt(squares / np.maximum(self.read - 1, 1)))

    def flips(self) -> Floats:
        """Return the share of each question's pairs of samples that differ, (questions,)."""
        order = np.lexsort((self.value, self.question))
        # group: question of each run of equal samples; length: samples in the run
        group, _, length = runs(self.question[order], self.value[order])
        same = np.bincount(
            group, weights=length * (length - 1), minlength=len(self.read)
        )
        return np.asarray(1 - same / np.maximum(self.read * (self.read - 1), 1))
