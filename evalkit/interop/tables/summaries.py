"""Tables of results rather than of cases: counts of verdicts, confusion matrices, and
figures of judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from evalkit.core.errors import DatasetError
from evalkit.interop.tables.column_types import MOST_CLASSES, TypedColumn
from evalkit.interop.tables.contradictions import EACH_ROW
from evalkit.interop.tables.questions import Answer, OpenTableError
from evalkit.interop.tables.words import fold, tokens, word_group

_COUNTS: Final = word_group("count_of_cases")
"""Words of the names of columns with a number of cases."""
_FIGURES: Final = word_group("figure")
"""Words of the names of columns with figures of agreement."""
_SURE_FIGURES: Final = word_group("sure_figure")
"""Figures that a single case cannot have."""
_FEWEST_FIGURES: Final = 2
"""A table with at least so many columns of figures is one of results."""
_FEWEST_NAMES: Final = 2
"""So many names that are values of their columns, too, are those of a case."""
_MOST_ROWS: Final = 200
"""The most rows of a table of results."""
_REMEDY: Final = (
    "write a row for each case, with the verdicts of the judge and of a person"
)


def check_results(typed: Mapping[str, TypedColumn], where: str) -> None:
    """Refuse a table whose rows are results and not cases.

    Raises:
        DatasetError: If it is a confusion matrix, has figures of agreement, or has no header.
    """
    _refuse_case_as_header(typed, where)
    rows = len(next(iter(typed.values())).cells)
    if rows <= MOST_CLASSES + 1:
        _refuse_matrix(typed, where)
    if rows > _MOST_ROWS:
        return
    figures = [
        name
        for name, column in typed.items()
        if not _FIGURES.isdisjoint(tokens(name))
        and column.is_numeric
        and all(-1 <= value <= 100 for value in column.distinct_numbers)
    ]
    words = {word for name in figures for word in tokens(name)}
    if len(figures) >= _FEWEST_FIGURES and not _SURE_FIGURES.isdisjoint(words):
        listed = ", ".join(f"'{name}'" for name in figures)
        problem = f"has results of judges ({listed}), and not their verdicts"
        raise DatasetError(problem, where=where, remedy=_REMEDY)


def _refuse_case_as_header(typed: Mapping[str, TypedColumn], where: str) -> None:
    # A table without names of columns has its first case in their place.
    names = [name for name, column in typed.items() if name in column.counts]
    if len(names) < _FEWEST_NAMES:
        return
    listed = ", ".join(f"'{name}'" for name in names)
    problem = f"has no names of columns: {listed} are values of their columns, too"
    remedy = "write the names of the columns in the first row"
    raise DatasetError(problem, where=where, remedy=remedy)


def _refuse_matrix(typed: Mapping[str, TypedColumn], where: str) -> None:
    first, *further = typed
    words = {fold(text) for text in typed[first].words}
    # Totals may be in one more row and one more column.
    counted = [name for name in further if fold(name) in words]
    whole = all(
        typed[name].is_numeric
        and all(map(float.is_integer, typed[name].distinct_numbers))
        for name in further
    )
    if len(counted) > 1 and len(counted) >= len(words) - 1 and whole:
        problem = f"is a table of counts: each column is a word of '{first}'"
        raise DatasetError(problem, where=where, remedy=_REMEDY)


def check_counts(
    typed: Mapping[str, TypedColumn],
    raters: Iterable[str],
    known: Iterable[str],
    where: str,
) -> None:
    """Ask whether rows with a number of cases stand for so many cases.

    Args:
        typed: The columns.
        raters: The columns of judges and labels.
        known: The columns of ids, texts and other roles.
        where: The table's name.

    Raises:
        OpenTableError: If each row has other verdicts or conditions, and a count.
    """
    rated = list(raters)
    counts = [
        name
        for name, column in typed.items()
        if name not in rated
        and len(tokens(name)) <= 2
        and not _COUNTS.isdisjoint(tokens(name))
        and column.is_numeric
        and column.total == len(column.cells)
        and all(value >= 0 and value.is_integer() for value in column.distinct_numbers)
        and max(column.distinct_numbers) > 1
    ]
    if len(counts) != 1 or len(rated) < 2 or {*known} - {*counts}:
        return
    [count] = counts
    # Every other column has a few values, and no combination of them occurs twice.
    columns = [column for name, column in typed.items() if name != count]
    few = all(len(column.counts) <= MOST_CLASSES for column in columns)
    rows = list(zip(*(column.texts for column in columns), strict=True))
    if not few or len(set(rows)) < len(rows):
        return
    answers = [
        Answer(f"each row is one case, whatever '{count}' is", ("--key", EACH_ROW))
    ]
    problem = (
        f"each row seems to stand for as many cases as '{count}' says:"
        " write a row for each case"
    )
    raise OpenTableError(problem, where, answers)
