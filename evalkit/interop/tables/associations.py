"""How strongly the values of two columns go together, and whether chance explains it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import Any, Final, TypeAlias

from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.words import fold

Pairs: TypeAlias = Sequence[tuple[Any, Any]]

FEWEST_ROWS: Final = 20
"""The fewest rows that show an association."""
SURE: Final = 3.5
"""The standard score of an association from which chance does not explain it."""
_MOST_ROWS: Final = 5000
"""The rows from the beginning of a table that are compared."""
_PAIR: Final = 2
_SIDES: Final[Mapping[str, float]] = {"A": 0.0, "TIE": 0.5, "B": 1.0}


def rank_correlation(pairs: Pairs) -> float | None:
    """Return Spearman's coefficient; `None` if one side has the same value everywhere."""
    # Ranks (rows,) of the first and of the second values.
    first = _ranks([value for value, _ in pairs])
    second = _ranks([value for _, value in pairs])
    # The mean of ranks 1 to n, also with ties.
    mean = (len(pairs) + 1) / 2
    first_gaps = [rank - mean for rank in first]
    second_gaps = [rank - mean for rank in second]
    products = [x * y for x, y in zip(first_gaps, second_gaps, strict=True)]
    first_squares = sum(gap**2 for gap in first_gaps)
    second_squares = sum(gap**2 for gap in second_gaps)
    spread = sqrt(first_squares * second_squares)
    if not spread:
        return None
    return sum(products) / spread


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1; equal values have the mean of their ranks."""
    counts = Counter(values)
    rank_of = {}
    before = 0
    for value in sorted(counts):
        # Equal values share the mean of the ranks that they cover.
        rank_of[value] = before + (counts[value] + 1) / 2
        before += counts[value]
    return [rank_of[value] for value in values]


def kappa(pairs: Pairs) -> tuple[float, float]:
    """Return Cohen's kappa, and its standard score if there were no association."""
    firsts = Counter(value for value, _ in pairs)
    seconds = Counter(value for _, value in pairs)
    count = len(pairs)
    # Equal pairs, less what the shares of the classes make equal by chance.
    chance = sum(firsts[value] * seconds[value] for value in firsts) / count**2
    equal = sum(value == twin for value, twin in pairs) / count
    spread = sqrt(chance * (1 - chance) / count)
    if not spread:
        return 0.0, 0.0
    return (equal - chance) / (1 - chance), (equal - chance) / spread


def association(first: TypedColumn, second: TypedColumn) -> float:
    """Return how strongly two columns go together, from -1 to 1; 0 if chance explains it.

    Numbers, flags and ordered words are compared by rank, other classes by kappa.
    """
    levels = _levels(first)
    levels_of_second = _levels(second)
    if levels is not None and levels_of_second is not None:
        pairs = _pairs(first, second, levels, levels_of_second)
        if len(pairs) < FEWEST_ROWS:
            return 0.0
        correlation = rank_correlation(pairs) or 0.0
        # Under no association, Spearman's coefficient has the standard error 1 / sqrt(n - 1).
        score = abs(correlation) * sqrt(len(pairs) - 1)
        return correlation if score > SURE else 0.0
    words = {text: fold(text) for text in first.words}
    words_of_second = {text: fold(text) for text in second.words}
    shared = {*words.values()} & {*words_of_second.values()}
    if len(shared) < _PAIR:
        return 0.0
    pairs = _pairs(first, second, words, words_of_second)
    if len(pairs) < FEWEST_ROWS:
        return 0.0
    agreement, score = kappa(pairs)
    return agreement if score > SURE else 0.0


def are_derived(first: TypedColumn, second: TypedColumn) -> bool:
    """Return whether the values of one column follow from those of the other one."""
    pairs = {
        pair for pair in zip(first.texts, second.texts, strict=True) if None not in pair
    }
    firsts = {text for text, _ in pairs}
    seconds = {text for _, text in pairs}
    return len(pairs) in (len(firsts), len(seconds))


def has_known_direction(column: TypedColumn) -> bool:
    """Return whether more of a column means more than in another one: two unknown words
    have no direction.
    """
    is_flag = column.share(column.flags) == 1
    return column.is_numeric or is_flag or column.order is not None


def _levels(column: TypedColumn) -> Mapping[str, Any] | None:
    """Return the number of each level; `None` if levels have no order."""
    if column.is_numeric:
        return column.numbers
    if column.share(column.flags) == 1:
        return {text: float(word == "pass") for text, word in column.flags.items()}
    if column.order is not None:
        return {text: float(rank) for rank, text in enumerate(column.order)}
    if column.words and column.is_paired:
        return {text: _SIDES[side] for text, side in column.pairs.items()}
    if len(column.words) == _PAIR:
        return {text: float(rank) for rank, text in enumerate(sorted(column.words))}
    return None


def _pairs(
    first: TypedColumn,
    second: TypedColumn,
    levels: Mapping[str, Any],
    levels_of_second: Mapping[str, Any],
) -> list[tuple[Any, Any]]:
    """Return the levels of both columns in the rows where both have one."""
    rows: Iterable[tuple[str | None, str | None]] = zip(
        first.texts[:_MOST_ROWS], second.texts[:_MOST_ROWS], strict=True
    )
    values = [
        (levels.get(text or ""), levels_of_second.get(twin or ""))
        for text, twin in rows
    ]
    return [pair for pair in values if None not in pair]
