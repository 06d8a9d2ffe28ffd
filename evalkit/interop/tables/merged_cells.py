"""Cells that were merged over the repeats of a case, so that all but its first row are empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import nan
from typing import Any

from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.columns import Columns
from evalkit.interop.tables.words import matches


def fill_merged(columns: Columns) -> Columns:
    """Return a table in which every repeat of a case has its cells.

    A column counts the repeats from the same number. The first column, and others, have a value
    only where the count begins: a spreadsheet shows them over all rows of the case.
    """
    first_column = next(iter(columns.cells), None)
    for name, cells in columns.cells.items():
        if not matches(name, "repeat") or name == first_column:
            continue
        starts = _starts(TypedColumn(name, cells))
        merged = _merged(columns.cells, starts)
        if first_column not in merged:
            continue
        filled = dict(columns.cells)
        for merged_name in merged:
            filled[merged_name] = _filled(filled[merged_name], starts)
        note = f"cells filled in all repeats of a case, as merged: {', '.join(merged)}"
        return Columns(filled, columns.places, [*columns.notes, note], columns.repeated)
    return columns


def _starts(column: TypedColumn) -> list[int]:
    """Return the rows where a count begins again; nothing if the column counts no repeats."""
    numbers = [column.numbers.get(text or "", nan) for text in column.texts]
    starts = [0]
    for row, (before, number) in enumerate(pairwise(numbers), 1):
        if number == numbers[0]:
            starts.append(row)
        elif number != before + 1:
            return []
    # Each row its own case, or all of one, has nothing to fill.
    if 2 * len(starts) > len(numbers) or len(starts) < 2:
        return []
    return starts


def _merged(cells: Mapping[str, Sequence[Any]], starts: Sequence[int]) -> list[str]:
    """Return the columns with values in most starts and in no other row."""
    beginnings = {*starts}
    names = []
    for name, column in cells.items():
        rows = {row for row, cell in enumerate(column) if cell is not None}
        if rows <= beginnings and 2 * len(rows) > len(beginnings):
            names.append(name)
    return names


def _filled(cells: Sequence[Any], starts: Sequence[int]) -> list[Any]:
    filled = []
    value = None
    beginnings = {*starts}
    for row, cell in enumerate(cells):
        if row in beginnings:
            value = cell
        filled.append(value)
    return filled
