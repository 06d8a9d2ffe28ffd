"""CSV that a spreadsheet shows and does not run, and its cells as they were."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

# What a spreadsheet takes for a formula; a text that began with ' before it has one more, so that each can be undone.
_RUN = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
_ESCAPED = re.compile("'+[=+\\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")


def as_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, raw: bool = False) -> str:
    """Return rows as CSV; what is missing is an empty cell.

    Unless `raw`, a text that a spreadsheet would run gets a `'` in front; numbers stay numbers.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for cells in chain([columns], ([row.get(column) for column in columns] for row in rows)):
        writer.writerow(cells if raw else [escaped(cell) for cell in cells])
    return out.getvalue()


def escaped(value: Any) -> Any:
    """Return a cell's value, with a `'` in front if it is a text that a spreadsheet would run."""
    if isinstance(value, str) and _RUN.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def unescaped(value: Any) -> Any:
    """Return a cell's value as it was before `escaped`."""
    return value[1:] if isinstance(value, str) and _ESCAPED.match(value) else value
