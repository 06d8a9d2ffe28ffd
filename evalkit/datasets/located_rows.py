"""Rows of a data file, each with its place in the file, and the bounds of their columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from evalkit.core.errors import (
    DatasetError,
)
from evalkit.core.values import JsonObject

Row: TypeAlias = JsonObject
"""A row: the value of each column by its name."""


Placed: TypeAlias = tuple[str, Row]
"""A row with its location."""


def numbered(name: str, rows: Iterable[Row]) -> Iterator[Placed]:
    """Yield each row with its location, such as `name:row 3`."""
    return ((f"{name}:row {number}", row) for number, row in enumerate(rows, 1))


def unique_columns(names: Sequence[str], where: str) -> Sequence[str]:
    """Return the names of columns.

    Raises:
        DatasetError: If two are equal, or one has a NUL character.
    """
    if damaged := next(
        (number for number, name in enumerate(names, 1) if "\0" in name), None
    ):
        problem = f"the name of column {damaged} has a NUL character"
        raise DatasetError(
            problem, where=where, remedy="save the file as text in UTF-8"
        )
    if len(names) > MOST_COLUMNS:
        raise too_wide(where, len(names))
    counts = Counter(names)
    if repeated := sorted(name for name, count in counts.items() if count > 1):
        raise _repeated(repeated[0], where)
    return names


class RepeatedColumn(str):
    """The name of a column whose header other columns have, too, such as `notes (column 4)`.

    Attributes:
        header: What the columns are named in the file.
        where: The header of the file.
    """

    header: str
    where: str

    @classmethod
    def at(cls, position: int, header: str, where: str) -> RepeatedColumn:
        """Return the name of a column by its position, from 1."""
        name = cls(f"{header} (column {position})")
        name.header = header
        name.where = where
        return name


def distinct_columns(names: Sequence[str], where: str) -> list[str]:
    """Return the names of columns, with the position of each that is named as another one.

    Columns without a name stay so.

    Raises:
        DatasetError: If a name has a NUL character, or there are too many.
    """
    counts = Counter(names)
    distinct = [
        RepeatedColumn.at(position, name, where) if name and counts[name] > 1 else name
        for position, name in enumerate(names, 1)
    ]
    unique_columns([name for name in distinct if name], where)
    return distinct


def without_repeated(rows: Iterable[Placed]) -> Iterator[Placed]:
    """Yield rows whose columns have names of their own.

    Raises:
        DatasetError: If two columns have one header.
    """
    is_first = True
    for location, row in rows:
        if is_first:
            for name in row:
                if isinstance(name, RepeatedColumn):
                    raise _repeated(name.header, name.where)
            is_first = False
        yield location, row


def _repeated(name: str, where: str) -> DatasetError:
    problem = f"two columns are named '{name}'"
    return DatasetError(problem, where=where, remedy="give each column its own name")


MOST_COLUMNS = 10_000
"""The most columns of a table."""


def too_wide(where: str, columns: int) -> DatasetError:
    """Return the error for a table with more columns than `MOST_COLUMNS`."""
    problem = f"has more than {MOST_COLUMNS:,} columns ({columns:,} or more)"
    return DatasetError(
        problem,
        where=where,
        remedy="keep the columns of ids, texts, verdicts and labels",
    )
