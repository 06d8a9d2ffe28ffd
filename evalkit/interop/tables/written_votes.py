"""Cells that list the verdicts of several annotators in a text, as `neg|neg|pos`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
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
    filled = (cell for cell in column if cell is not None)
    first = [*islice(filled, _FEWEST_ROWS)]
    if len(first) < _FEWEST_ROWS:
        return column
    # The first cells usually show that there is no mark.
    if not all(isinstance(cell, str) for cell in first):
        return column
    marks = [
        mark
        for mark in _MARKS
        # as the first cells show
        if all(mark in cell for cell in first)
    ]
    if not marks:
        return column
    kinds = {*map(type, column)}
    if not kinds <= {str, type(None)}:
        return column
    cells = [cell for cell in column if cell is not None]
    for mark in marks:
        lists = [_parts(cell, mark) for cell in cells]
        if _are_votes(lists, mark):
            return [
                None if cell is None else _parts(cell, mark)
                # a row without votes stays empty
                for cell in column
            ]
    return column


def _parts(cell: str, mark: str) -> list[str]:
    return [part.strip() for part in cell.split(mark)]


def _are_votes(lists: Sequence[list[str]], mark: str) -> bool:
    """Return whether lists of words are votes on one question."""
    sizes = Counter(map(len, lists))
    [(size, rows)] = sizes.most_common(1)
    if rows < _NEARLY_ALL * len(lists):
        return False
    if not 1 < size <= _MOST_VOTES:
        return False
    # (rows,) the votes of each.
    folded = [[fold(part) for part in parts] for parts in lists]
    words = set()
    for votes in folded:
        words.update(votes)
    if not 1 < len(words) <= _MOST_WORDS:
        return False
    if max(map(len, words)) > _LONGEST_WORD:
        return False
    # `4,5` is a number, also in a column with words for missing ones.
    are_numbers = any(all(map(str.isdigit, parts)) for parts in folded)
    if mark == "," and are_numbers and size < _FEWEST_NUMBERS:
        return False
    # Votes recur within a cell, and the classes of a case do not.
    repeated = sum(len({*parts}) < len(parts) for parts in folded)
    return repeated >= _OFTEN * len(lists)
