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
    # (rows,) each: the gaps of the first and of the second values.
    firsts = _centered_ranks([value for value, _ in pairs])
    seconds = _centered_ranks([value for _, value in pairs])
    spread = sqrt(_dot(firsts, firsts) * _dot(seconds, seconds))
    if not spread:
        return None
    return _dot(firsts, seconds) / spread


def _dot(firsts: Sequence[float], seconds: Sequence[float]) -> float:
    return sum([x * y for x, y in zip(firsts, seconds, strict=True)])


def _centered_ranks(values: Sequence[float]) -> list[float]:
    """Return how far the rank of each value is from the mean of ranks 1 to n."""
    # Ties do not change the mean.
    mean = (len(values) + 1) / 2
    return [rank - mean for rank in _ranks(values)]


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1; equal values have the mean of their ranks."""
    counts = Counter(values)
    rank_of = {}
    before = 0
    for value in sorted(counts):
        # Equal values share the mean of the ranks that they cover.
        count = counts[value]
        rank_of[value] = before + (count + 1) / 2
        before += count
    return [rank_of[value] for value in values]


def kappa(pairs: Pairs) -> tuple[float, float]:
    """Return Cohen's kappa, and its standard score if there were no association."""
    firsts = Counter(value for value, _ in pairs)
    seconds = Counter(value for _, value in pairs)
    count = len(pairs)
    # Shares of pairs: those that are equal, and those that classes make equal by chance.
    by_chance = sum(firsts[value] * seconds[value] for value in firsts)
    chance = by_chance / count**2
    agreeing = sum(value == twin for value, twin in pairs)
    equal = agreeing / count
    spread = sqrt(chance * (1 - chance) / count)
    if not spread:
        return 0.0, 0.0
    excess = equal - chance
    return excess / (1 - chance), excess / spread


def association(first: TypedColumn, second: TypedColumn) -> float:
    """Return how strongly two columns go together, from -1 to 1; 0 if chance explains it.

    Numbers, flags and ordered words are compared by rank, other classes by kappa.
    """
    levels = _levels(first)
    levels_of_second = _levels(second)
    if levels is None or levels_of_second is None:
        return _association_of_words(first, second)
    pairs = _pairs(first, second, levels, levels_of_second)
    if len(pairs) < FEWEST_ROWS:
        return 0.0
    correlation = rank_correlation(pairs)
    if correlation is None:
        return 0.0
    # Under no association, Spearman's coefficient has the standard error 1 / sqrt(n - 1).
    score = abs(correlation) * sqrt(len(pairs) - 1)
    if score > SURE:
        return correlation
    return 0.0


def _association_of_words(first: TypedColumn, second: TypedColumn) -> float:
    """Return how strongly words without an order go together."""
    words = {text: fold(text) for text in first.words}
    words_of_second = {text: fold(text) for text in second.words}
    shared = set(words.values())
    shared &= set(words_of_second.values())
    if len(shared) < _PAIR:
        return 0.0
    pairs = _pairs(first, second, words, words_of_second)
    if len(pairs) < FEWEST_ROWS:
        return 0.0
    agreement, score = kappa(pairs)
    if score > SURE:
        return agreement
    return 0.0


def are_derived(first: TypedColumn, second: TypedColumn) -> bool:
    """Return whether the values of one column follow from those of the other one."""
    rows = zip(first.texts, second.texts, strict=True)
    pairs = {pair for pair in rows if None not in pair}
    firsts = {text for text, _ in pairs}
    seconds = {text for _, text in pairs}
    # Each value of one column is with only one value of the other.
    count = len(pairs)
    return count in (len(firsts), len(seconds))


def has_known_direction(column: TypedColumn) -> bool:
    """Return whether more of a column means more than in another one: two unknown words
    have no direction.
    """
    if column.is_numeric or column.order is not None:
        return True
    return column.share(column.flags) == 1


def _levels(column: TypedColumn) -> Mapping[str, Any] | None:
    """Return the number of each level; `None` if levels have no order."""
    if column.is_numeric:
        return column.numbers
    if column.share(column.flags) == 1:
        return {text: float(word == "pass") for text, word in column.flags.items()}
    if column.order is not None:
        return _by_position(column.order)
    if column.words and column.is_paired:
        return {text: _SIDES[side] for text, side in column.pairs.items()}
    if len(column.words) == _PAIR:
        # Of two words, one is more than the other, whichever it is.
        words = sorted(column.words)
        return _by_position(words)
    return None


def _by_position(texts: Iterable[str]) -> dict[str, float]:
    return {text: float(position) for position, text in enumerate(texts)}


def _pairs(
    first: TypedColumn,
    second: TypedColumn,
    levels: Mapping[str, Any],
    levels_of_second: Mapping[str, Any],
) -> list[tuple[Any, Any]]:
    """Return the levels of both columns in the rows where both have one.

    Args:
        first: A column.
        second: Another one of the same table.
        levels: The level of each text of the first column.
        levels_of_second: The level of each text of the second column.
    """
    texts = first.texts[:_MOST_ROWS]
    texts_of_second = second.texts[:_MOST_ROWS]
    pairs = []
    for text, twin in zip(texts, texts_of_second, strict=True):
        level = levels.get(text or "")
        level_of_second = levels_of_second.get(twin or "")
        if level is not None and level_of_second is not None:
            pairs.append((level, level_of_second))
    return pairs
