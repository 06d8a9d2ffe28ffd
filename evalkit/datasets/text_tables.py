"""Tables in plain text: with lines between cells, as in Markdown, or with columns that
spaces keep apart.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Final, TypeAlias

TextRow: TypeAlias = tuple[int, list[str]]
"""The number of a line, and its cells."""
SHAPES: Final = (
    "write the names of columns in the first line and one row in each other line, with a"
    " comma or a tab between cells"
)
"""The remedy for a text that is no table."""
DOCUMENTS: Final = frozenset(
    {
        *("html", "htm", "xml", "tex", "latex", "wiki", "rst", "pdf", "doc", "docx"),
        *("rtf", "odt", "ods", "xls", "xlsb", "numbers", "adoc"),
    }
)
"""Formats of documents that may have a table, of which no reader is sure to find it."""
SAVED_AS_TABLE: Final = (
    "save the table as CSV or .xlsx, with the names of columns in the first row and one row for"
    " each answer: open it in a spreadsheet program, or with pandas"
)
"""The remedy for a document."""
_STARTS: Final = {
    **dict.fromkeys(("<table", "<html", "<!doctype html", "<thead", "<tr"), "HTML"),
    "<?xml": "XML",
    **dict.fromkeys(("\\begin{", "\\documentclass"), "LaTeX"),
    "{|": "a table of a wiki",
}
"""How texts begin that are documents, whatever their suffix says."""
_RULE: Final = re.compile(
    r"[\s|+:=─━═│┃┼╪├┤┌┐└┘┬┴╞╡╔╗╚╝╠╣╦╩╬║┏┓┗┛┣┫┳┻╋┡┩╇╈┢┪┠┨┷┯╭╮╰╯-]+"
)
"""A line between rows."""
_DASHES: Final = re.compile(r"[-=─━═]{2,}")
_BAR: Final = re.compile(r"(?<!\\)[|│┃║]")
"""A line between two cells."""
_FOOTER: Final = re.compile(r"\[\d+ rows x \d+ columns\]|\(\d+ rows?\)", re.IGNORECASE)
"""What pandas and databases write below a table."""
_CUT: Final = frozenset({"..", "...", "…"})
_FEWEST: Final = 3
"""The fewest lines of a table: a header and two rows."""


class CutTableError(ValueError):
    """A table of which a program has printed only a part."""


def document_in(lines: Sequence[str]) -> str:
    """Return what document a text is by its first line; empty if it is none."""
    filled = (line.strip() for line in lines if line.strip())
    first_line = next(filled, "").casefold()
    for start, kind in _STARTS.items():
        if first_line.startswith(start):
            return kind
    return ""


def has_rules(lines: Sequence[str]) -> bool:
    """Return whether a text has lines between its cells and one below its header, as in
    Markdown.
    """
    filled = [line.strip() for line in lines if line.strip()]
    if len(filled) < _FEWEST:
        return False
    header, rule, *_ = filled
    has_bars = _BAR.search(header) is not None and _BAR.search(rule) is not None
    return has_bars and _is_rule(rule)


def text_rows(lines: Sequence[str]) -> list[TextRow] | None:
    """Return the rows of the table in a text, the header first; `None` if there is none.

    Raises:
        CutTableError: If rows or columns were left out when it was printed.
    """
    numbered = [(number, line.rstrip("\r\n")) for number, line in enumerate(lines, 1)]
    filled = [(number, line) for number, line in numbered if line.strip()]
    while filled:
        _, last_line = filled[-1]
        if _FOOTER.fullmatch(last_line.strip()) is None:
            break
        filled.pop()
    rows = _rows_between_rules(filled)
    if rows is None:
        rows = (
            _doubled(filled) or _rows_of_pairs(filled) or _rows_between_spaces(filled)
        )
    if rows is None or len(rows) < _FEWEST:
        return None
    if any(cells and set(cells) <= _CUT for _, cells in rows):
        raise CutTableError
    _, header = rows[0]
    # Only the column of row numbers may have no name.
    if not all(header[1:]) or not _CUT.isdisjoint(header):
        return None
    return rows


def _rows_of_pairs(lines: Sequence[tuple[int, str]]) -> list[TextRow]:
    """Return the rows of lines of `name=value` that have the same names; none for other lines."""
    rows = []
    header: list[str] = []
    for number, line in lines:
        names = []
        values = []
        for word in line.split():
            name, sign, value = word.partition("=")
            if not sign or not name:
                return []
            names.append(name)
            values.append(value.strip('"'))
        header = header or names
        if names != header:
            return []
        rows.append((number, values))
    distinct = set(header)
    if len(header) < 2 or len(distinct) < len(header):
        return []
    return [(0, header), *rows]


def _rows_between_rules(lines: Sequence[tuple[int, str]]) -> list[TextRow] | None:
    """Return the rows of the table whose cells have lines between them, and a line
    below the header.

    Several tables, and one with rows of different lengths, have no rows; without one, it is `None`.
    """
    tables = []
    for is_row, group in groupby(lines, key=lambda entry: _is_in_table(entry[1])):
        entries = list(group)
        rows = [
            (number, _cells(line)) for number, line in entries if not _is_rule(line)
        ]
        has_rule = len(rows) < len(entries)
        if is_row and rows and has_rule:
            tables.append(rows)
    if not tables:
        return None
    long_enough = [table for table in tables if len(table) >= _FEWEST]
    if len(long_enough) > 1:
        return []
    longest = max(tables, key=len)
    widths = {len(cells) for _, cells in longest}
    if len(widths) > 1 or widths == {1}:
        return []
    return longest


def _doubled(lines: Sequence[tuple[int, str]]) -> list[TextRow] | None:
    """Return the rows of a table whose header has two lines between cells, as Jira writes it;
    `None` for another text, or if the rows do not all have as many cells.

    Args:
        lines: The lines of the table, each with its number in the file; may be empty.
    """
    if not lines:
        return None
    bars = "||"
    number, first_line = lines[0]
    header = first_line.strip()
    if not (header.startswith(bars) and header.endswith(bars)):
        return None
    names = _cells(header.replace(bars, "|"))
    rows = [(number, names)]
    for number, line in lines[1:]:
        rows.append((number, _cells(line)))
    widths = {len(cells) for _, cells in rows}
    return rows if len(widths) == 1 else None


def _is_in_table(line: str) -> bool:
    has_bar = _BAR.search(line) is not None
    return has_bar or _is_rule(line)


def _is_rule(line: str) -> bool:
    if _RULE.fullmatch(line) is None:
        return False
    return _DASHES.search(line) is not None


def _cells(line: str) -> list[str]:
    text = line.strip()
    parts = [part.strip() for part in _BAR.split(text)]
    # A line at the beginning and at the end is a border.
    if not parts[0]:
        del parts[0]
    last = text[-1:]
    ends_with_bar = _BAR.fullmatch(last) is not None
    if ends_with_bar and parts and not parts[-1]:
        del parts[-1]
    return [part.replace("\\|", "|") for part in parts]


def _rows_between_spaces(lines: Sequence[tuple[int, str]]) -> list[TextRow] | None:
    """Return the rows, the header first, of a table whose columns spaces keep apart; `None` if it
    is none.

    Args:
        lines: The lines that are not blank, each with its number in the file. There is at least
            one.
    """
    rows = [(number, line) for number, line in lines if not _is_rule(line)]
    words = [(number, _words(line)) for number, line in rows]
    if len(words) < _FEWEST:
        return None
    widths = {len(cells) for _, cells in words[1:]}
    number, header = words[0]
    columns = len(header)
    # As many words in each line: each is a cell.
    if widths == {columns} and columns > 1:
        return words
    # pandas writes row numbers without a name above them.
    _, first_line = lines[0]
    is_indented = first_line[:1].isspace()
    if is_indented and widths == {columns + 1}:
        return [(number, ["", *header]), *words[1:]]
    # R writes them, too, and quotes around the names.
    if first_line.startswith('"') and widths == {columns + 1}:
        return _without_numbers([(number, ["", *header]), *words[1:]])
    return _rows_at_positions(rows)


def _without_numbers(rows: list[TextRow]) -> list[TextRow]:
    """Return rows without the first column if it counts them."""
    _, *below = rows
    for count, (_, cells) in enumerate(below, 1):
        if cells[0] != str(count):
            return rows
    return [(number, cells[1:]) for number, cells in rows]


def _words(line: str) -> list[str]:
    """Return the words of a line, of which one in quotes may have spaces."""
    if '"' not in line:
        return line.split()
    [cells] = csv.reader([line.strip()], delimiter=" ", skipinitialspace=True)
    return [cell for cell in cells if cell]


def _rows_at_positions(lines: Sequence[tuple[int, str]]) -> list[TextRow] | None:
    """Return the rows of a table with columns at fixed positions, between which each line is blank;
    `None` for fewer than two columns.

    Args:
        lines: The lines of the table, at least one, each with its number in the file.
    """
    texts = [line.expandtabs() for _, line in lines]
    width = max(map(len, texts))
    padded = [text.ljust(width) for text in texts]
    # (width,) whether any line has a character at this position.
    used = []
    for position in range(width):
        characters = [text[position] for text in padded]
        used.append(not all(map(str.isspace, characters)))
    # (begin, end) of each column.
    spans = []
    for is_used, group in groupby(range(width), key=used.__getitem__):
        positions = list(group)
        if is_used:
            end = positions[-1] + 1
            spans.append((positions[0], end))
    if len(spans) < 2:
        return None
    return [
        (number, [text[begin:end].strip() for begin, end in spans])
        for (number, _), text in zip(lines, padded, strict=True)
    ]
