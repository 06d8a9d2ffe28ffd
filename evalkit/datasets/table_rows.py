"""The rows of a table that is held by column."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, overload

from evalkit.datasets.located_rows import Placed


class Lines(Sequence[str]):
    """The locations of rows of a file, each made when it is asked for: there are millions."""

    def __init__(self, path: str, lines: Sequence[int]) -> None:
        self._path = path
        self._lines = array("q", lines)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Lines: ...
    def __getitem__(self, index: int | slice) -> str | Lines:
        if isinstance(index, slice):
            lines = self._lines[index]
            return Lines(self._path, lines)
        line = self._lines[index]
        return f"{self._path}:{line}"

    def __len__(self) -> int:
        return len(self._lines)


class TableRows(Sequence[Placed]):
    """The rows of a table that is held by column, each made when it is asked for.

    A cell of a row that lacks a column is `None`.
    """

    def __init__(
        self, columns: Mapping[str, list[Any]], locations: Sequence[str]
    ) -> None:
        self.columns = columns
        self.locations = locations

    @classmethod
    def of(cls, rows: Sequence[Placed]) -> TableRows:
        """Return rows as a table by column."""
        if isinstance(rows, TableRows):
            return rows
        names = dict.fromkeys(name for _, row in rows for name in row)
        columns = {}
        for name in names:
            # A row without this column has an empty cell.
            columns[name] = [row.get(name) for _, row in rows]
        locations = [location for location, _ in rows]
        return cls(columns, locations)

    @overload
    def __getitem__(self, index: int) -> Placed: ...
    @overload
    def __getitem__(self, index: slice) -> TableRows: ...
    def __getitem__(self, index: int | slice) -> Placed | TableRows:
        # The cell of each column, or its cells.
        cells = {}
        for name, column in self.columns.items():
            cells[name] = column[index]
        locations = self.locations[index]
        if isinstance(locations, str):
            return locations, cells
        return TableRows(cells, locations)

    def __len__(self) -> int:
        return len(self.locations)


_MOST_SHARED = 4096
"""The most different cells of a column of which equal ones are held once."""


class SharedCells:
    """The cells of a column, equal ones as one object as long as few are different: such a
    text is held and hashed once.
    """

    def __init__(self) -> None:
        self.cells: list[Any] = []
        self._known: dict[Any, Any] | None = {}

    def add(self, cells: Sequence[Any]) -> None:
        """Add cells at the end."""
        known = self._known
        if known is not None:
            cells = [*map(known.setdefault, cells, cells)]
            if len(known) > _MOST_SHARED:
                self._known = None
        self.cells += cells


def add_block(columns: Sequence[SharedCells], rows: list[list[Any]]) -> None:
    """Move rows of cells to their columns."""
    by_column = zip(*rows, strict=True)
    # Not strict: without rows there are no cells.
    for column, cells in zip(columns, by_column, strict=False):
        column.add(cells)
    rows.clear()
