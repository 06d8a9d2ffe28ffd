"""A question about a column whose scores are of two scales, such as 1 to 5 and 0 to 100."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import sqrt
from typing import Any, Final

from evalkit.interop.tables.associations import SURE, Pairs, rank_correlation
from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.questions import Answer, OpenTableError, named_options

_FEWEST: Final = 20
"""The fewest rows of a scale."""
_GAP: Final = 2
"""How many times as high as the highest score of the one scale the lowest one of the other is."""
_APART: Final = 5
"""How many times as high as the one scale the other one ends."""
_HIGHEST: Final = 10
"""The end of the lower scale is not above this."""
_EQUAL: Final = 2.0
"""The standard score up to which the others' verdicts do not differ between the scales."""
_MOST_LEVELS: Final = 12


def check_scales(
    raters: tuple[Sequence[str], Sequence[str]],
    typed: Mapping[str, TypedColumn],
    verdicts: Mapping[str, Sequence[Any]],
    mapped: Iterable[str],
    where: str,
) -> None:
    """Ask whether a rater's scores are of two scales.

    They are if they lie apart, follow the other rater's scores within each of both parts, and
    the other rater's scores do not tell the parts apart.

    Raises:
        OpenTableError: If they seem to be.
    """
    judges, labels = raters
    options = named_options("--judge", judges)
    options += named_options("--label", labels)
    settled = {word.partition(":")[0] for word in mapped if ":" in word}
    pairs_of_raters = [(judge, label) for judge in judges for label in labels]
    for judge, label in pairs_of_raters:
        for name, other in ((judge, label), (label, judge)):
            if name in settled or not typed[name].is_numeric:
                continue
            pairs = [
                pair
                for pair in zip(verdicts[name], verdicts[other], strict=True)
                if None not in pair
            ]
            split = _split(pairs)
            if split is not None:
                _ask(typed[name], pairs, split, options, where)


def _split(pairs: Pairs) -> float | None:
    """Return the end of the lower scale; `None` if scores are of one scale."""
    levels = sorted({score for score, _ in pairs})
    # Where the next level is far above: 5 and 20.
    ends = [below for below, above in pairwise(levels) if 0 < _GAP * below < above]
    for end in ends:
        if end <= _HIGHEST and levels[-1] >= _APART * end and _are_two(pairs, end):
            return float(end)
    return None


def _are_two(pairs: Pairs, end: float) -> bool:
    parts = (
        [pair for pair in pairs if pair[0] <= end],
        [pair for pair in pairs if pair[0] > end],
    )
    if min(map(len, parts)) < _FEWEST:
        return False
    # Each part follows the other rater.
    if not all(_score(part) > SURE for part in parts):
        return False
    # On one scale, the other rater's scores would be higher in the higher part, too.
    sides = [(score > end, other) for score, other in pairs]
    return abs(_score(sides)) < _EQUAL


def _score(pairs: Pairs) -> float:
    """Return the standard score of a rank correlation."""
    return (rank_correlation(pairs) or 0.0) * sqrt(len(pairs) - 1)


def _ask(
    column: TypedColumn,
    pairs: Pairs,
    end: float,
    options: Sequence[str],
    where: str,
) -> None:
    low = sorted({score for score, _ in pairs if score <= end})
    high = sorted({score for score, _ in pairs if score > end})
    count = sum(score <= end for score, _ in pairs)
    answers = []
    # Levels of the same number correspond by their order.
    if len(low) == len(high) <= _MOST_LEVELS:
        level_of = dict(zip(high, low, strict=True))
        words = [
            word
            for text, value in sorted(column.numbers.items(), key=lambda pair: pair[1])
            if value in level_of
            for word in ("--map", f"{column.name}:{text}={level_of[value]:g}")
        ]
        meaning = (
            f"two: {high[0]:g} means {low[0]:g}, and {high[-1]:g} means {low[-1]:g}"
        )
        answers.append(Answer(meaning, tuple(words)))
    answers.append(Answer("one scale", tuple(options)))
    problem = (
        f"'{column.name}' seems to have scores of two scales, {low[0]:g} to {low[-1]:g}"
        f" ({count} rows) and {high[0]:g} to {high[-1]:g} ({len(pairs) - count} rows): does it?"
        " If so, write a table for each scale, or all scores on one"
    )
    raise OpenTableError(problem, where, answers)
