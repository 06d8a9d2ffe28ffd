"""Read rows from files: mappings from column to value, each with its location."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, islice
from math import nan
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.resources import optional
from evalkit.core.values import frozen
from evalkit.datasets.arrow_files import read_arrow, read_parquet
from evalkit.datasets.compression import (
    LONGEST_ROW,
    decoded,
    inner_suffix,
    open_bytes,
    open_lines,
    open_texts,
    reading,
    refuse_stream,
)
from evalkit.datasets.file_parts import WHICH_SHEET, OpenFileError, part_of
from evalkit.datasets.json_arrays import REMEDY, Text, read_array, reason
from evalkit.datasets.json_tables import rows_in
from evalkit.datasets.located_rows import (
    MOST_COLUMNS,
    Placed,
    Row,
    distinct_columns,
    numbered,
    too_wide,
    unique_columns,
)
from evalkit.datasets.plugin_formats import other_formats, other_reader
from evalkit.datasets.sheets import (
    SAMPLE,
    are_quoted,
    header_of,
    header_position,
    is_blank,
    is_footer,
    layout_of,
    named_cells,
    named_columns,
    names_in,
)
from evalkit.datasets.table_rows import Lines, SharedCells, TableRows, add_block
from evalkit.datasets.text_tables import (
    DOCUMENTS,
    SAVED_AS_TABLE,
    SHAPES,
    CutTableError,
    TextRow,
    document_in,
    has_rules,
    text_rows,
)
from evalkit.datasets.workbooks import check_bounds

_BETWEEN = re.compile(r"\s*,?\s*")


Reader = Callable[[Path], Iterable[Placed]]

# A cell may be as long as the longest row.
_LONGEST_CELL = LONGEST_ROW
# Rows of a delimited table that become columns together.
_BLOCK = 4096
# JSON in one value must be read into memory at once; so many bytes at most.
_LARGEST_OBJECT = 500_000_000


def reader_for(format: str | None, path: Path) -> Reader:  # noqa: A002 - as in the config
    """Return the reader of a format, by name or by the file's suffix.

    Raises:
        ConfigError: If there is no such format.
    """
    # A run's recorded cases are JSON Lines.
    name = "jsonl" if format == RECORDED else (format or inner_suffix(path)).lower()
    if name in _TEXTS:
        return _read_text
    if name not in _READERS:
        if reader := other_reader(format or name):
            return reader
        if name:
            problem = f"no reader for format '{name}'"
        else:
            problem = f"'{path}' has no suffix that identifies its format"
        remedy = did_you_mean(name, [*_READERS, *other_formats()])
        if name in DOCUMENTS:
            remedy = SAVED_AS_TABLE
        raise ConfigError(problem, where="dataset.format", remedy=remedy)
    return _READERS[name]


def is_readable(path: Path) -> bool:
    """Return whether a file's suffix is a readable format."""
    return inner_suffix(path) in _READERS


def _json_decoder(unset: list[str]) -> json.JSONDecoder:
    """Return a decoder of rows that counts in `unset` each NaN, which it reads as a float."""

    def constant(name: str) -> Any:
        # Infinity becomes a text, which no number accepts.
        if name != "NaN":
            return name
        unset.append(name)
        return nan

    return json.JSONDecoder(parse_constant=constant)


def _without_nan(value: Any, *, top: bool = True) -> Any:
    """Return a value with null for NaN, with which some writers mark a missing value;
    JSON and cases do not have it.

    An item of a checklist would then silently have the default points or weight, so there it stays,
    as a text.
    """
    if isinstance(value, dict):
        return {
            name: (
                "NaN"
                # NaN is the only value that differs from itself.
                if part != part and not top and name in ("points", "weight")
                else _without_nan(part, top=False)
            )
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [_without_nan(part, top=False) for part in value]
    # Everything else is kept, also a text "NaN".
    if value == value:
        return value
    return None


def _check_object(
    value: Any, location: str, remedy: str = "write each row as {column: value}"
) -> Row:
    """Return a row if it is an object.

    Raises:
        DatasetError: If it is something else.
    """
    if not isinstance(value, dict):
        kind = {
            list: "a list",
            str: "a text",
            bool: "a boolean",
            type(None): "null",
        }.get(type(value), "a number")
        raise DatasetError(
            f"the row is {kind}, not an object", where=location, remedy=remedy
        )
    return value


def _read_jsonl(path: Path) -> Iterator[Placed]:
    yield from _bounded_columns(_json_lines(path))


def _json_lines(path: Path) -> Iterator[Placed]:
    """Yield the object of each line with its location; lists become objects by line 1."""
    name = str(path)
    names: list[str] = []
    with open_lines(path) as lines:
        for number, line in lines:
            try:
                # The fast reader rejects NaN, so that only such rows are read again.
                value = from_json(line, allow_inf_nan=False, cache_strings="keys")
            # the fallback is slower, has better messages, and reads half surrogates and NaN
            except ValueError:
                text = decoded(line, number, path)
                # An empty line is no row.
                if not text.strip():
                    continue
                value = _decode_row(text, f"{path}:{number}", number)
            location = f"{name}:{number}"
            if type(value) is list and (names or number == 1):
                # A list in each line, of which the first one has the names of columns.
                if names:
                    yield location, named_cells(names, value, location)
                    continue
                if names := names_in(value):
                    continue
            yield (
                location,
                value
                if type(value) is dict
                else _check_object(value, location, _remedy(line, number)),
            )


def _decode_row(text: str, location: str, number: int) -> Any:
    """Return the value of a line that the fast reader refused; NaN becomes `None`.

    Raises:
        DatasetError: If it is not JSON.
    """
    unset: list[str] = []
    try:
        value = _json_decoder(unset).decode(text)
        if unset:
            return _without_nan(value)
        return value
    except (ValueError, RecursionError) as bad:
        problem = f"the row is not JSON ({reason(bad)})"
        raise DatasetError(
            problem, where=location, remedy=_remedy(text.encode("utf-8"), number)
        ) from None


def _remedy(line: bytes, number: int) -> str:
    # The usual mistake: a JSON file with the suffix of JSON Lines.
    if number == 1 and line.lstrip().startswith(b"["):
        return "if the whole file is one array, set dataset.format=json"
    return "write one JSON object per line"


def _texts(path: Path) -> Iterator[str]:
    with open_lines(path) as lines:
        for number, line in lines:
            yield decoded(line, number, path)


def _read_json(path: Path) -> Iterator[Placed]:
    """Yield the rows of a JSON array, of a table in one object, or of an object in each line."""
    with open_texts(path) as pieces:
        # The first character that is not blank.
        start = Text(path, pieces).next()
    if start == "{":
        yield from _bounded_columns(_read_object(path))
        return
    yield from _bounded_columns(_read_array(path))


def _read_array(path: Path) -> Iterator[Placed]:
    """Yield the objects of a JSON array with their locations, without loading the whole file."""
    unset: list[str] = []
    for location, value in read_array(path, _json_decoder(unset)):
        try:
            # `unset` is filled while a row is decoded, so most rows need no second look.
            yield (
                location,
                _check_object(_without_nan(value) if unset else value, location),
            )
        except RecursionError:
            raise DatasetError(
                "the row is nested too deeply", where=location, remedy="flatten it"
            ) from None
        unset.clear()


def _read_object(path: Path) -> Iterator[Placed]:
    """Yield the rows of a table in one JSON object; of one in each line if there are several.

    Raises:
        DatasetError: If it is too large, not JSON, or no table.
    """
    with open_lines(path) as lines:
        # Line 1: an object that ends there may be a row, or a table.
        first = _line_object(next(lines, (1, b""))[1])
        # Whether another line follows decides between the two.
        second = next((line for _, line in lines if line.strip()), b"")
    if first is not None and second.strip():
        yield from _read_jsonl(path)
        return
    # One byte more than allowed shows that a file is too large.
    with reading(path), open_bytes(path) as file:
        content = file.read(_LARGEST_OBJECT + 1)
    if len(content) > _LARGEST_OBJECT:
        raise DatasetError(
            "is too large for one JSON value",
            where=str(path),
            remedy="split it, or write one row in each line (.jsonl)",
        )
    unset: list[str] = []
    try:
        # Some programs write a byte order mark at the beginning.
        value = _json_decoder(unset).decode(content.decode("utf-8-sig"))
        value = _without_nan(value) if unset else value
    except json.JSONDecodeError as bad:
        rows = _objects(content.decode("utf-8-sig"))
        if rows:
            yield from numbered(str(path), rows)
            return
        where = f"{path}:{bad.lineno}"
        raise DatasetError(
            f"not JSON ({reason(bad)})", where=where, remedy=REMEDY
        ) from None
    except (ValueError, RecursionError) as bad:
        raise DatasetError(
            f"not JSON ({reason(bad)})", where=str(path), remedy=REMEDY
        ) from None
    yield from numbered(str(path), rows_in(value, str(path)))


def _objects(text: str) -> list[Row]:
    """Return the objects of a text that has several, one after the other; empty if it
    has anything else.
    """
    decoder = _json_decoder([])
    rows = []
    position = 0
    with suppress(ValueError, RecursionError):
        while position < len(text):
            value, end = decoder.raw_decode(text, position)
            rows.append(_check_object(_without_nan(value), ""))
            # Blanks, or a comma, are between objects.
            position = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]
        return rows
    return []


def _line_object(line: bytes) -> Row | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        return value
    return None


def _bounded_columns(rows: Iterable[Placed]) -> Iterator[Placed]:
    """Yield rows, whose columns together are a table and not millions of keys.

    Raises:
        DatasetError: If they have too many different keys.
    """
    names: set[str] = set()
    for location, row in rows:
        # Most rows add no name, so the union is computed for few of them.
        if not row.keys() <= names:
            names.update(row)
            if len(names) > MOST_COLUMNS:
                raise too_wide(location, len(names))
        yield location, row


@frozen
class _CellRows:
    """The rows of a delimited table, each a line and its cells; blank rows are dropped."""

    header: Sequence[str]
    rows: Iterator[tuple[int, list[str]]]


def _read_delimited(path: Path, delimiter: str) -> Iterator[Placed]:
    """Yield the rows of a table with their lines; see `_delimited`."""
    table = _delimited(path, delimiter)
    if not isinstance(table, _CellRows):
        yield from table
        return
    for line, cells in table.rows:
        location = f"{path}:{line}"
        yield location, named_cells(table.header, cells, location)


def read_columns(path: Path) -> TableRows | None:
    """Return the rows of a delimited table by column, with equal cells of a column of few
    different ones held once; `None` for a file in another format.

    Raises:
        DatasetError: If the file is not a table, or two columns have one name.
    """
    delimiter = _DELIMITERS.get(inner_suffix(path))
    if delimiter is None:
        return None
    table = _delimited(path, delimiter)
    if not isinstance(table, _CellRows):
        return None
    width = len(table.header)
    unnamed = [index for index, name in enumerate(table.header) if not name]
    columns = [SharedCells() for _ in table.header]
    lines: list[int] = []
    block: list[list[str]] = []
    for line, cells in table.rows:
        if len(cells) != width or (unnamed and not is_blank(cells[unnamed[-1]])):
            # Only blank cells may be added, or the row is refused.
            named_cells(table.header, cells, f"{path}:{line}")
            del cells[width:]
        lines.append(line)
        block.append(cells)
        if len(block) == _BLOCK:
            add_block(columns, block)
    add_block(columns, block)
    named = {
        name: column.cells
        for name, column in zip(table.header, columns, strict=True)
        if name
    }
    return TableRows(named, Lines(str(path), lines))


def _delimited(path: Path, delimiter: str) -> _CellRows | Iterator[Placed]:
    """Return the rows of a table: their cells, or of a text in another format the rows.

    Blank rows and lines above the header are dropped.

    Args:
        path: The file.
        delimiter: The usual one for its suffix; the first lines may show another.

    Raises:
        DatasetError: If the file is not a table, or two columns have one name.
    """
    csv.field_size_limit(_LONGEST_CELL)
    texts = _texts(path)
    # The first lines show the delimiter and the header, and are then read as rows.
    first = list(islice(texts, SAMPLE))
    if first and first[0].lstrip().startswith(("[{", '{"')):
        # JSON with the suffix of a table.
        return _read_json(path)
    _refuse_document(path, first)
    if has_rules(first):
        # Markdown with the suffix of a table.
        return _rows_of_text(path, _rows_in_text(path, [*first, *texts]))
    if len(first) == 1 and "\r" in first[0].rstrip("\r\n"):
        # Lines of an old Mac end so, and the file is one line.
        texts = iter(first[0].splitlines(keepends=True))
        first = list(islice(texts, SAMPLE))
    if are_quoted(first):
        # Each line is quoted as a whole, and has the cells within.
        quoted = csv.reader(chain(first, texts))
        texts = (cells[0] + "\n" for cells in quoted if cells)
        first = list(islice(texts, SAMPLE))
    layout = layout_of(first, delimiter)
    rows = csv.reader(chain(first, texts), delimiter=layout.delimiter, strict=True)
    # The line where the next row begins: a quoted cell may have line breaks.
    line = 1
    with _table_errors(path, rows):
        # Lines above the header, such as a title, and the header.
        header, above = header_of(layout.rows, layout.above)
        for _ in range(above):
            line = rows.line_num + 1
            next(rows, None)
        # Columns without a name are dropped, so they may be several.
        header = distinct_columns(header, f"{path}:{line}")
    return _CellRows(header, _filled_rows(path, rows, is_wide=len(header) > 1))


def _filled_rows(
    path: Path, rows: Any, *, is_wide: bool
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a `csv.reader` that are not blank with their lines, up to a footer."""
    with _table_errors(path, rows):
        next_line = rows.line_num + 1
        is_after_blank = False
        for cells in rows:
            line = next_line
            next_line = rows.line_num + 1
            # Rows of blank cells are common at the end of exports.
            is_filled = any(map(str.strip, cells))
            if is_after_blank and is_wide and is_footer(cells, rows):
                return
            is_after_blank = not is_filled
            if is_filled:
                yield line, cells


@contextmanager
def _table_errors(path: Path, rows: Any) -> Iterator[None]:
    """Raise an error of a `csv.reader` as one about a row of a file."""
    try:
        yield
    except csv.Error as bad:
        where = f"{path}:{rows.line_num}"
        raise DatasetError(
            f"not {inner_suffix(path) or 'csv'} ({bad})",
            where=where,
            remedy="fix the row",
        ) from None


def _read_text(path: Path) -> Iterator[Placed]:
    """Yield the rows of a table in plain text: delimited, with lines between cells, or
    aligned by spaces.

    Raises:
        DatasetError: If it is no table, or only a part of one.
    """
    lines = list(_texts(path))
    start = next((line.lstrip() for line in lines if line.strip()), "")
    if start.startswith(("{", "[")):
        yield from _read_json(path)
        return
    _refuse_document(path, lines)
    rows = _rows_in_text(path, lines)
    if has_rules(lines):
        yield from _rows_of_text(path, rows)
        return
    # Cells with a delimiter in each line, unless lines or spaces make more of them.
    records = layout_of(lines[:SAMPLE], "\t").rows
    widths = {len(cells) for cells in records if cells}
    if len(widths) == 1 and max(widths) > (len(rows[0][1]) if rows else 1):
        yield from _read_delimited(path, "\t")
        return
    yield from _rows_of_text(path, rows)


def _refuse_document(path: Path, lines: Sequence[str]) -> None:
    """Refuse a document such as HTML, whatever the suffix of its file says.

    Raises:
        DatasetError: If the text begins as one.
    """
    if document := document_in(lines):
        problem = f"is {document}, and no table of cells"
        raise DatasetError(problem, where=str(path), remedy=SAVED_AS_TABLE)


def _rows_in_text(path: Path, lines: Sequence[str]) -> list[TextRow] | None:
    """Return the rows of the table in a text, the header first; `None` if there is none.

    Raises:
        DatasetError: If only a part of the table was printed.
    """
    try:
        return text_rows(lines)
    except CutTableError:
        problem = "is only a part of a table: rows are left out (...)"
        remedy = "write the whole table, as a CSV file"
        raise DatasetError(problem, where=str(path), remedy=remedy) from None


def _rows_of_text(path: Path, rows: Sequence[TextRow] | None) -> Iterator[Placed]:
    """Yield the rows of a table in a text by the names of its columns.

    Raises:
        DatasetError: If there is none.
    """
    if not rows:
        raise DatasetError("is no table", where=str(path), remedy=SHAPES)
    (number, names), *below = rows
    header = unique_columns(named_columns(names), f"{path}:{number}")
    for number, cells in below:
        location = f"{path}:{number}"
        yield location, named_cells(header, cells, location)


def _read_excel(path: Path) -> Iterator[Placed]:
    """Yield the rows of the only sheet with a table; `#SHEET` after the path names another."""
    file, sheet_name = part_of(path)
    sheets = _read_sheets(file)
    if sheet_name and sheet_name not in sheets:
        problem = f"has no sheet '{sheet_name}'"
        remedy = did_you_mean(sheet_name, list(sheets))
        raise DatasetError(problem, where=str(file), remedy=remedy)
    chosen = sheet_name or _table_sheet(sheets, file)
    # The first sheet needs no name in locations.
    where = str(file) if chosen == next(iter(sheets), "") else f"{file}#{chosen}"
    # (rows, columns) cells of the sheet.
    rows = [[_json_cell(cell) for cell in cells] for cells in sheets.get(chosen, ())]
    header, above = header_of(rows[:SAMPLE], header_position(rows[:SAMPLE]))
    header = distinct_columns(header, where)
    # Excel counts rows from 1; the header is the row before.
    for number, cells in enumerate(rows[above:], above + 1):
        if any(not is_blank(cell) for cell in cells):
            location = f"{where}:{number}"
            remedy = (
                "name the columns in the header, or delete the cells next to the table"
            )
            yield location, named_cells(header, cells, location, remedy)


def _read_sheets(path: Path) -> dict[str, list[list[Any]]]:
    """Return the rows of cells of each sheet of a workbook, by the sheet's name.

    Raises:
        DatasetError: If it is too large, or not an Excel workbook.
        ConfigError: If the package that reads workbooks is not installed.
    """
    calamine = optional(
        "python_calamine", str(path), "xlsx", install="'evalkit-judge[excel]'"
    )
    try:
        refuse_stream(path)
        # A small file may unpack to gigabytes, so its sizes are checked before it is read.
        check_bounds(path)
        book = calamine.CalamineWorkbook.from_path(str(path))
        return {
            name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names
        }
    except DatasetError:
        raise
    except Exception as bad:  # its classes of errors have no common base
        problem = f"not an Excel workbook ({' '.join(str(bad).split())[:100]})"
        raise DatasetError(
            problem, where=str(path), remedy="save it again, or export it as CSV"
        ) from None


def _table_sheet(sheets: Mapping[str, list[list[Any]]], path: Path) -> str:
    """Return the name of the only sheet with a table of two columns, or else of the first sheet.

    Raises:
        DatasetError: If several sheets have one.
    """
    tables = []
    for name, rows in sheets.items():
        filled = [sum(not is_blank(cell) for cell in row) for row in rows]
        # A table has more than two rows with two or more cells: notes are in one column.
        if sum(count > 1 for count in filled) > 2:
            tables.append(name)
    if len(tables) > 1:
        listed = ", ".join(f"'{name}'" for name in tables)
        problem = f"has several sheets with a table: {listed}"
        parts = [(name, f"the sheet '{name}'") for name in tables]
        raise OpenFileError(problem, path, str(path), parts, WHICH_SHEET)
    if tables:
        return tables[0]
    return next(iter(sheets), "")


def _json_cell(cell: Any) -> Any:
    """Return a cell of a sheet as a JSON value: an integer if it is one, text for a date."""
    # Excel stores all numbers as floats: 1.0 is the label 1.
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    if isinstance(cell, str | bool | int | float):
        return cell
    return str(cell)


RECORDED = "cases"
"""The format of a run's `cases.jsonl`, whose rows are cases as they were judged."""
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_TEXTS = frozenset({"txt", "text", "md", "markdown", "tab", "psv", "dat"})
"""Suffixes of texts that may be a table; in a folder, they are not looked for."""
_READERS: dict[str, Reader] = {
    "jsonl": _read_jsonl,
    "ndjson": _read_jsonl,
    "json": _read_json,
    **{
        name: partial(_read_delimited, delimiter=delimiter)
        for name, delimiter in _DELIMITERS.items()
    },
    "parquet": read_parquet,
    "arrow": read_arrow,
    "feather": read_arrow,
    "xlsx": _read_excel,
}
