"""Find the header of a delimited file or a sheet below what spreadsheets put above it.

Above a header may be `sep=;`, comments, titles and empty rows; a table may have columns without a
name and a value. Titles have at most half as many filled cells as the rows of the table.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from evalkit.core.errors import DatasetError
from evalkit.core.values import frozen

SAMPLE: Final = 30
"""The number of first lines from which the header is found."""
_DELIMITERS: Final = (",", ";", "\t", "|", "^")
_SEPARATOR_LINE: Final = "sep="
_COMMENT: Final = "#"
_LONGEST_FOOTER: Final = 10
"""The most lines below a table that are no rows."""
_QUOTE_CELLS: Final = "quote cells that hold the delimiter, a quote or a line break"


@frozen
class Layout:
    """How a delimited file is laid out: the delimiter, and the number of lines above the header."""

    delimiter: str
    above: int
    rows: Sequence[Sequence[str]] = ()
    """The first rows."""


def layout_of(lines: Sequence[str], delimiter: str) -> Layout:
    """Return the layout of a delimited file from its first lines; no lines give the stated
    delimiter and no rows.

    A first line such as `sep=;`, which Excel writes, names the delimiter. Otherwise the delimiter
    counts that gives the best table: see `_fit`.

    Args:
        lines: The first lines.
        delimiter: The delimiter of the format, which counts if no other fits better.
    """
    first_line = lines[0].strip() if lines else ""
    if first_line.casefold().startswith(_SEPARATOR_LINE):
        # The line was stripped, so a tab is no longer in it.
        separator = (first_line[len(_SEPARATOR_LINE) :] or "\t")[0]
        records = _records(lines, separator)
        # The line with the separator is above the header, too.
        above = 1 + header_position(records[1:])
        return Layout(separator, above, records)
    # The stated delimiter first: it is chosen among several that fit as well.
    candidates = dict.fromkeys((delimiter, *_DELIMITERS))

    def fit(candidate: str) -> tuple[float, int]:
        return _fit(_records(lines, candidate))

    best = max(candidates, key=fit)
    records = _records(lines, best)
    return Layout(best, header_position(records), records)


def header_position(rows: Sequence[Sequence[Any]]) -> int:
    """Return the number of rows above the header: comments, titles and empty rows."""
    filled = [sum(not is_blank(cell) for cell in row) for row in rows]
    counts = Counter(count for count in filled if count > 1)
    usual = 1
    if counts:
        [(usual, _)] = counts.most_common(1)
    for position, row in enumerate(rows[:-1]):
        cells = [cell for cell in row if not is_blank(cell)]
        if not cells:
            continue
        start = str(cells[0])
        # A header may begin with the sign of a comment, such as `#id`.
        is_short = filled[position] < usual
        states_value = ":" in start or "=" in start
        has_sign = start.lstrip().startswith(_COMMENT)
        is_comment = has_sign and (is_short or states_value)
        is_title = filled[position] <= usual / 2 and usual > 1
        if not (is_comment or is_title):
            return position
    return 0


def header_of(rows: Sequence[Sequence[Any]], above: int) -> tuple[list[str], int]:
    """Return the names of columns, and the number of rows up to the last one of the header.

    A header has two rows if names occur twice and the row above or below tells them apart: `Judge`
    over `verdict` and `Human` over `verdict` are `Judge verdict` and `Human verdict`.

    Args:
        rows: The first rows.
        above: The number of rows above the header.
    """
    if above >= len(rows):
        return [], above
    header = [str(cell) for cell in rows[above]]
    names = named_columns(header)
    if _are_unique(names):
        # Merged cells name the groups of columns whose own names are below and occur twice.
        has_unnamed = not all(map(str.strip, header[1:]))
        if has_unnamed and above + 1 < len(rows):
            lower_row = rows[above + 1]
            below = rows[above + 2 :]
            joined = _join_header_rows(rows[above], lower_row, below)
            lower_names = [_name(cell) for cell in lower_row]
            if joined and not _are_unique(lower_names):
                return named_columns(joined), above + 2
        return names, above + 1
    pairs = [(above - 1, above), (above, above + 1)]
    for upper, lower in pairs:
        if upper < 0 or lower >= len(rows):
            continue
        below = rows[lower + 1 :]
        joined = _join_header_rows(rows[upper], rows[lower], below)
        if joined:
            return named_columns(joined), lower + 1
    return names, above + 1


def _are_unique(names: Sequence[str]) -> bool:
    filled = [name for name in names if name.strip()]
    distinct = set(filled)
    return len(distinct) == len(filled)


def _join_header_rows(
    upper: Sequence[Any], lower: Sequence[Any], below: Sequence[Sequence[Any]]
) -> list[str]:
    """Return the names of columns under a header of two rows; empty if they are not one.

    A name that occurs twice has its group before it.
    """
    groups: list[str] = []
    group = ""
    missing = len(lower) - len(upper)
    padded = [*upper, *[""] * missing]
    for cell in padded:
        # A group is named in its first column only.
        group = _name(cell) or group
        groups.append(group)
    names = [_name(cell) for cell in lower]
    counts = Counter(name for name in names if name)
    joined = []
    for group, name in zip(groups, names, strict=False):
        if counts[name] > 1:
            name_in_group = f"{group} {name}"
        else:
            name_in_group = name or group
        joined.append(name_in_group)
    named_groups = {group for group in groups if group}
    has_several = len(named_groups) > 1 and len(counts) > 1
    if not has_several or not _are_unique(joined):
        return []
    # A row of the table has numbers, or values that occur again below it.
    has_numbers = any(not name.strip() or _is_number(name) for name in counts)
    if has_numbers or any(_repeats(row, names) for row in below):
        return []
    return joined


def _name(cell: Any) -> str:
    if is_blank(cell):
        return ""
    return str(cell).strip()


def _repeats(row: Sequence[Any], names: Sequence[str]) -> bool:
    """Return whether a cell of a row is the name of its column."""
    for cell, name in zip(row, names, strict=False):
        if not is_blank(cell) and str(cell) == name:
            return True
    return False


def _is_number(name: str) -> bool:
    without_point = name.replace(".", "", 1)
    digits = without_point.replace(",", "", 1)
    return digits.isdigit()


def is_blank(cell: Any) -> bool:
    """Return whether a cell has no value."""
    if isinstance(cell, str):
        return not cell.strip()
    return cell is None


def are_quoted(lines: Sequence[str]) -> bool:
    """Return whether each of several lines is one quoted cell with the same number of commas."""
    filled = [line.strip() for line in lines if line.strip()]
    if len(filled) < 2 or not all(map(_is_quoted, filled)):
        return False
    commas = {line.count(",") for line in filled}
    return len(commas) == 1 and commas != {0}


def _is_quoted(line: str) -> bool:
    """Return whether a line is one text in quotes, without another quote."""
    in_quotes = line.startswith('"') and line.endswith('"')
    return in_quotes and line.count('"') == 2


def names_in(value: Sequence[Any]) -> list[str]:
    """Return a list of different texts, which may be names of columns; empty if it is
    another list.
    """
    texts = [cell for cell in value if isinstance(cell, str) and cell]
    distinct = set(texts)
    if len(value) < 2 or len(distinct) < len(value):
        return []
    return texts


def named_columns(header: Sequence[str]) -> list[str]:
    """Return the names of columns: without unnamed ones at the end, and `row` for an
    unnamed first one.
    """
    names = list(header)
    while names and not names[-1].strip():
        names.pop()
    if names and not names[0].strip():
        if "row" in names:
            names[0] = "row number"
        else:
            names[0] = "row"
    return names


def named_cells(
    names: Sequence[str],
    cells: Sequence[Any],
    location: str,
    remedy: str = _QUOTE_CELLS,
) -> dict[str, Any]:
    """Return a row by the names of its columns; cells without a name must be empty.

    Args:
        names: the names of the columns.
        cells: the cells of the row.
        location: where the row is.
        remedy: what to do about a row with more cells or fewer.

    Raises:
        DatasetError: If a cell without a name has a value, or the row is too short.
    """
    width = len(names)
    is_wider = len(cells) > width
    extra = is_wider and any(not is_blank(cell) for cell in cells[width:])
    if extra or len(cells) < width:
        raise DatasetError(
            f"the row has {len(cells)} cells and the header {width}",
            where=location,
            remedy=remedy,
        )
    row = dict(zip(names, cells, strict=False))
    if "" in row and not is_blank(row.pop("")):
        raise DatasetError(
            "a cell with a value is in a column without a name",
            where=location,
            remedy="name the column, or delete it",
        )
    return row


def is_footer(cells: Sequence[str], rows: Iterator[list[str]]) -> bool:
    """Return whether a line of text, and all that follow, are what programs write below a table.

    Args:
        cells: The cells of the line.
        rows: The next lines, of which some are read.
    """
    # A single word may be a row that was cut off.
    if len(cells) != 1 or len(cells[0].split()) < 2:
        return False
    below = list(islice(rows, _LONGEST_FOOTER + 1))
    if len(below) > _LONGEST_FOOTER:
        return False
    return all(len(row) < 2 for row in below)


def _records(lines: Iterable[str], delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows.extend(csv.reader(lines, delimiter=delimiter))
    return rows


def _fit(rows: Sequence[Sequence[str]]) -> tuple[float, int]:
    """Return the share of rows that have the usual number of cells, more than one, and
    that number.
    """
    lengths = Counter(len(row) for row in rows if len(row) > 1)
    if not lengths:
        return 0.0, 0
    # The most frequent number of cells, the larger one of several.
    frequencies = [(count, length) for length, count in lengths.items()]
    count, usual = max(frequencies)
    nonempty = sum(bool(row) for row in rows)
    share = count / max(1, nonempty)
    return share, usual
