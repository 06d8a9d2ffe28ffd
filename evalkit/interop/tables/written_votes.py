"""Cells that list the verdicts of several annotators in a text, as `neg|neg|pos`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from evalkit.interop.tables.words import fold

_MARKS: Final = ("|", ";", ",")
"""The marks between verdicts, in the order in which they are tried."""
_FEWEST_ROWS: Final = 10
_NEARLY_ALL: Final = 0.9
_OFTEN: Final = 0.2
"""The share of cells with a word twice from which words are votes, and not classes of a case."""
_MOST_WORDS: Final = 12
_MOST_VOTES: Final = 20
_LONGEST_WORD: Final = 40
_FEWEST_NUMBERS: Final = 3
"""The fewest numbers between commas: two may be one number with a decimal comma."""


def listed_votes(column: Sequence[Any]) -> Sequence[Any]:
    """Return cells with as many words in each, some of them twice, as lists of the words.

    A column of anything else stays as it is.
    """
    cells = [cell for cell in column if cell is not None]
    if len(cells) < _FEWEST_ROWS or not all(isinstance(cell, str) for cell in cells):
        return column
    for mark in _MARKS:
        if all(mark in cell for cell in cells[:_FEWEST_ROWS]) and _are_votes(
            [_parts(cell, mark) for cell in cells], mark
        ):
            return [None if cell is None else _parts(cell, mark) for cell in column]
    return column


def _parts(cell: str, mark: str) -> list[str]:
    return [part.strip() for part in cell.split(mark)]


def _are_votes(lists: Sequence[list[str]], mark: str) -> bool:
    count, rows = Counter(map(len, lists)).most_common(1)[0]
    words = {fold(part) for parts in lists for part in parts}
    if rows < _NEARLY_ALL * len(lists) or not 1 < count <= _MOST_VOTES:
        return False
    if not 1 < len(words) <= _MOST_WORDS or max(map(len, words)) > _LONGEST_WORD:
        return False
    if mark == "," and count < _FEWEST_NUMBERS and all(map(str.isdigit, words)):
        return False
    repeated = sum(len({*map(fold, parts)}) < len(parts) for parts in lists)
    return repeated >= _OFTEN * len(lists)
