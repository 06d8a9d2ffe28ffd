"""Tables in plain text: with lines between cells, as in Markdown, or with columns that spaces keep apart."""

from __future__ import annotations

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
_RULE: Final = re.compile(r"[\s|+:=─━═│┃┼╪├┤┌┐└┘┬┴╞╡╔╗╚╝╠╣╦╩╬║-]+")
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


def text_rows(lines: Sequence[str]) -> list[TextRow] | None:
    """Return the rows of the table in a text, the header first; `None` if there is none.

    Raises:
        CutTableError: If rows or columns were left out when it was printed.
    """
    numbered = [(number, line.rstrip("\r\n")) for number, line in enumerate(lines, 1)]
    filled = [(number, line) for number, line in numbered if line.strip()]
    while filled and _FOOTER.fullmatch(filled[-1][1].strip()):
        filled.pop()
    rows = _ruled(filled)
    if rows is None:
        rows = _paired(filled) or _spaced(filled)
    if rows is None or len(rows) < _FEWEST:
        return None
    if any(cells and set(cells) <= _CUT for _, cells in rows):
        raise CutTableError
    _, header = rows[0]
    # Only the column of row numbers may have no name.
    if not all(header[1:]) or not _CUT.isdisjoint(header):
        return None
    return rows


def _paired(lines: Sequence[tuple[int, str]]) -> list[TextRow]:
    """Return the rows of lines of `name=value`, with the same names in each; nothing for other lines."""
    rows = []
    names: list[str] = []
    for number, line in lines:
        pairs = [word.partition("=") for word in line.split()]
        found = [name for name, _, _ in pairs]
        names = names or found
        if found != names or not all(sign and name for name, sign, _ in pairs):
            return []
        rows.append((number, [value.strip('"') for _, _, value in pairs]))
    return [(0, names), *rows] if len({*names}) == len(names) > 1 else []


def _ruled(lines: Sequence[tuple[int, str]]) -> list[TextRow] | None:
    """Return the rows of the table whose cells have lines between them, and a line below the header.

    Several tables, and one with rows of different lengths, have no rows; without one, it is `None`.
    """
    tables = []
    for is_row, group in groupby(lines, key=lambda entry: _is_in_table(entry[1])):
        entries = list(group)
        rules = [line for _, line in entries if _is_rule(line)]
        if is_row and 0 < len(rules) < len(entries):
            rows = [
                (number, _cells(line)) for number, line in entries if not _is_rule(line)
            ]
            tables.append(rows)
    if not tables:
        return None
    longest = max(tables, key=len)
    widths = {len(cells) for _, cells in longest}
    several = sum(len(table) >= _FEWEST for table in tables) > 1
    return longest if len(widths) == 1 and min(widths) > 1 and not several else []


def _is_in_table(line: str) -> bool:
    return bool(_BAR.search(line)) or _is_rule(line)


def _is_rule(line: str) -> bool:
    return bool(_RULE.fullmatch(line) and _DASHES.search(line))


def _cells(line: str) -> list[str]:
    parts = _BAR.split(line.strip())
    # A line at the beginning and at the end is a border.
    if not parts[0].strip():
        del parts[0]
    if parts and not parts[-1].strip() and _BAR.fullmatch(line.strip()[-1]):
        del parts[-1]
    return [part.strip().replace("\\|", "|") for part in parts]


def _spaced(lines: Sequence[tuple[int, str]]) -> list[TextRow] | None:
    """Return the rows of a table whose columns spaces keep apart."""
    rows = [(number, line) for number, line in lines if not _is_rule(line)]
    words = [(number, line.split()) for number, line in rows]
    if len(words) < _FEWEST:
        return None
    widths = {len(cells) for _, cells in words[1:]}
    number, header = words[0]
    # As many words in each line: each is a cell.
    if widths == {len(header)} and len(header) > 1:
        return words
    # pandas writes row numbers without a name above them.
    if widths == {len(header) + 1} and lines[0][1][:1].isspace():
        return [(number, ["", *header]), *words[1:]]
    return _aligned(rows)


def _aligned(lines: Sequence[tuple[int, str]]) -> list[TextRow] | None:
    """Return the rows of a table with columns at fixed positions, between which each line is blank."""
    texts = [line.expandtabs() for _, line in lines]
    width = max(map(len, texts))
    padded = [text.ljust(width) for text in texts]
    # (width,) whether any line has a character at this position.
    used = [any(not text[at].isspace() for text in padded) for at in range(width)]
    spans = []
    for is_used, group in groupby(range(width), key=used.__getitem__):
        positions = list(group)
        if is_used:
            spans.append((positions[0], positions[-1] + 1))
    if len(spans) < 2:
        return None
    return [
        (number, [text[begin:end].strip() for begin, end in spans])
        for (number, _), text in zip(lines, padded, strict=True)
    ]
