"""Columns that sum up others: the majority, the mean or the median of several raters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Final

from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.fixed_roles import PATH
from evalkit.interop.tables.words import fold, tokens, word_group

_AGGREGATES: Final = word_group("aggregate")
_RESOLVED: Final = word_group("resolved")
_FEWEST: Final = 3
"""The fewest raters that can be summed up."""
_ROWS: Final = 20
_ALL: Final = 0.98
_NEARLY_ALL: Final = 0.9
_NEAR: Final = 0.051
"""Half of the last digit of a mean that is rounded to one decimal, with some slack."""


def sums_up(
    column: TypedColumn, raters: Sequence[TypedColumn], *, named: bool = False
) -> bool:
    """Return whether a column is the majority, the mean or the median of others in nearly all rows.

    Args:
        column: The column.
        raters: The raters that it may sum up.
        named: Whether its name says that it sums up raters, so that one of them may be missing.
    """
    if len(raters) < (_FEWEST - 1 if named else _FEWEST):
        return False
    if _is_majority(column, raters):
        return True
    numeric = column.is_numeric and all(rater.is_numeric for rater in raters)
    return numeric and _is_mean(column, raters)


def _is_majority(column: TypedColumn, raters: Sequence[TypedColumn]) -> bool:
    equal = rows = split = 0
    for text, *cells in _rows(column, raters):
        (word, count), *less_frequent = Counter(map(fold, cells)).most_common()
        if not less_frequent:
            # where all agree, a good rater agrees with them
            equal += fold(text) == word
            rows += 1
        elif count > less_frequent[0][1]:
            equal += fold(text) == word
            rows += 1
            split += 1
        else:
            split += len(raters) < _FEWEST
    return rows >= _ROWS and split > 2 and equal >= _ALL * rows


def _is_mean(column: TypedColumn, raters: Sequence[TypedColumn]) -> bool:
    means = medians = rows = 0
    for text, *cells in _rows(column, raters):
        values = [
            rater.numbers.get(cell) for rater, cell in zip(raters, cells, strict=True)
        ]
        present = [value for value in values if value is not None]
        value = column.numbers.get(text)
        if value is None or len(present) < len(values):
            continue
        rows += 1
        means += abs(value - fmean(present)) <= _NEAR
        medians += abs(value - median(present)) <= _NEAR
    distinct = any(len(rater.distinct_numbers) > 1 for rater in raters)
    return rows >= _ROWS and distinct and max(means, medians) >= _ALL * rows


def _rows(
    column: TypedColumn, raters: Sequence[TypedColumn]
) -> Iterable[tuple[str, ...]]:
    """Yield the texts of the column and of the others in each row where all have one."""
    texts = (column.texts, *(rater.texts for rater in raters))
    for row in zip(*texts, strict=True):
        cells = tuple(text for text in row if text is not None)
        if len(cells) == len(row):
            yield cells


def find_sums(
    names: Iterable[str], raters: Iterable[str], typed: Mapping[str, TypedColumn]
) -> list[str]:
    """Return which columns sum up the other ones of a group of raters."""
    group = list(raters)
    return [
        name
        for name in names
        if sums_up(
            typed[name],
            [typed[rater] for rater in group if rater != name],
            named=is_aggregate(name),
        )
    ]


def is_aggregate(name: str) -> bool:
    """Return whether a column's name says that it sums up raters."""
    return not _AGGREGATES.isdisjoint(tokens(name))


def is_resolved(name: str, typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether a column has what annotators agreed on in the end, in nearly all rows."""
    column = typed[name]
    resolves = not _RESOLVED.isdisjoint(tokens(name))
    return resolves and column.total >= _NEARLY_ALL * len(column.cells)


def shares_path(name: str, group: Sequence[str]) -> bool:
    """Return whether a path begins as those of a group do, as `jury.final` next to
    `jury.gpt-4o`.
    """
    heads = {PATH.split(rater)[0] for rater in group}
    return PATH.search(name) is not None and heads == {PATH.split(name)[0]}


def has_numbered_twin(name: str, names: Sequence[str]) -> bool:
    """Return whether another name differs only in its number."""
    base_name = [part for part in tokens(name) if not part.isdigit()]
    return any(
        [part for part in tokens(twin) if not part.isdigit()] == base_name
        for twin in names
        if twin != name
    )
