"""Write CSV that a spreadsheet shows but does not execute, and recover the original cells."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

# Texts that a spreadsheet takes for a formula; one that already starts with ' gets another, so that it can be undone.
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
_ESCAPED = re.compile("'+[=+\\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")


def as_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, raw: bool = False) -> str:
    """Return rows as CSV; a missing value is an empty cell.

    Args:
        columns: The names of the columns.
        rows: The rows, as values by column.
        raw: Whether to write texts unchanged, instead of adding a `'` before those that a spreadsheet would execute.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for cells in chain([columns], ([row.get(column) for column in columns] for row in rows)):
        writer.writerow(cells if raw else [escaped(cell) for cell in cells])
    return out.getvalue()


def escaped(value: Any) -> Any:
    """Return a cell's value, with a `'` before a text that a spreadsheet would execute; numbers are unchanged."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def unescaped(value: Any) -> Any:
    """Undo `escaped`."""
    return value[1:] if isinstance(value, str) and _ESCAPED.match(value) else value
