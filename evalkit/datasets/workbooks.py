"""The bounds of an Excel workbook: a sheet of a few cells can claim 17 billion."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from evalkit.core.errors import DatasetError

MOST_CELLS: Final = 20_000_000
"""The most cells between the first and the last used one of all sheets: readers allocate them
all."""
SPARSE_CELLS: Final = 1_000_000
LEAST_USED: Final = 0.01
"""Of more than `SPARSE_CELLS` cells, at least this share must be used."""
_BEYOND: Final = 2**62
"""More than any number of a row or column."""
_LARGEST: Final = 2**30
_PIECE: Final = 2**20
_OVERLAP: Final = 200
_SHEET: Final = re.compile(r"xl/worksheets/[^/]+\.xml", re.IGNORECASE)
_TEXTS: Final = re.compile(r"xl/sharedStrings\.xml", re.IGNORECASE)
"""The part with the texts of cells."""
_CELL: Final = re.compile(
    rb"<(?:\w+:)?c\s[^<>]*?\br=[\"']([A-Za-z]{1,8})(\d{1,12})[\"']"
)
_ROW: Final = re.compile(rb"<(?:\w+:)?row\s[^<>]*?\br=[\"'](\d{1,12})[\"']")
_NAMES: Final = re.compile(rb"<(?:\w+:)?sheet\s[^<>]*?\bname=[\"']([^\"']*)[\"']")


def check_bounds(path: Path) -> None:
    """Refuse a workbook with too much data, or with too many cells, most of which may be empty.

    Raises:
        DatasetError: With the name and the dimensions of the sheet.
        ValueError: If it is no workbook.
    """
    with ZipFile(path) as parts:
        size = sum(part.file_size for part in parts.infolist())
        if size > _LARGEST:  # declared sizes; no reader reads more than them
            raise ValueError(f"{size / 2**30:.1f} GiB when decompressed")
        for name in filter(_TEXTS.fullmatch, parts.namelist()):
            with parts.open(name) as texts:
                while piece := texts.read(_PIECE):
                    _check_text(piece)
        sheets = sorted(filter(_SHEET.fullmatch, parts.namelist()), key=_number)
        total = 0
        for index, sheet in enumerate(sheets):
            rows, columns, used = _extent(parts, sheet)
            cells = rows * columns
            total += cells
            is_sparse = cells > SPARSE_CELLS and used < LEAST_USED * cells
            if total > MOST_CELLS or is_sparse:
                limit = f"more than {MOST_CELLS:,} cells"
                if cells < total:
                    limit += " with the sheets before it"
                if total <= MOST_CELLS:
                    limit = f"and {used:,} of its {cells:,} cells are used"
                problem = (
                    f"sheet '{_name(parts, index)}' spans {rows:,} rows and {columns:,}"
                    f" columns, {limit}"
                )
                raise DatasetError(
                    problem,
                    where=str(path),
                    remedy="delete the cells far from the table, or export it as CSV",
                )


def _check_text(piece: bytes) -> None:
    """Refuse a cell that is longer than a piece: a cell of Excel has at most 32,767 characters.

    Raises:
        ValueError: If a whole piece has no tag.
    """
    if len(piece) == _PIECE and b"<" not in piece:
        raise ValueError(f"a cell has more than {_PIECE:,} characters")


def _number(sheet: str) -> tuple[int, str]:
    digits = "".join(filter(str.isdecimal, sheet))
    return int(digits[:9] or 0), sheet


def _extent(parts: ZipFile, sheet: str) -> tuple[int, int, int]:
    """Return the number of rows and of columns between the first and the last used cell of a
    sheet, and about the number of used cells.

    The sheet is read in pieces, which overlap by the longest text of a cell's start, so a cell
    may be counted twice.
    """
    # Row and column: more than any sheet has, until the first cell is read.
    first = [_BEYOND, _BEYOND]
    last = [0, 0]
    held = b""
    used = 0
    with parts.open(sheet) as file:
        while piece := file.read(_PIECE):
            _check_text(piece)
            text = held + piece
            for match in _CELL.finditer(text):
                _widen(first, last, int(match[2]), _column(match[1]))
                used += 1
            for match in _ROW.finditer(text):
                _widen(first, last, int(match[1]), first[1] if last[1] else 1)
            held = text[-_OVERLAP:]
    rows, columns = (max(0, last[axis] - first[axis] + 1) for axis in (0, 1))
    return rows, columns, used


def _widen(first: list[int], last: list[int], row: int, column: int) -> None:
    for axis, position in enumerate((row, column)):
        first[axis] = min(first[axis], position)
        last[axis] = max(last[axis], position)


def _column(letters: bytes) -> int:
    """Return the number of a column: A is 1, XFD is 16,384."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + letter - ord("A") + 1
    return number


def _name(parts: ZipFile, index: int) -> str:
    """Return the name of a sheet by its position."""
    try:
        names = _NAMES.findall(parts.read("xl/workbook.xml"))
    except KeyError:
        names = []
    if index >= len(names):
        return str(index + 1)
    return str(names[index].decode("utf-8", "replace"))
