"""The command that has the responses of a table judged, from the roles of its columns."""

from __future__ import annotations

import re
from typing import Final

from evalkit.datasets.text import is_conversation
from evalkit.interop.tables.fixed_roles import PATH
from evalkit.interop.tables.parts import Parts
from evalkit.interop.tables.questions import command

_PAIR: Final = ("response_a", "response_b")
_FIELDS: Final = ("prompt", "context", "reference")
"""Roles that a judge sees next to responses, which are fields of data sets, too."""
_PLAIN: Final = re.compile(r"[A-Za-z_][\w.-]*")
"""A name that needs no quotes in an override."""


def judging_command(parts: Parts, where: str) -> str:
    """Return the command that has the responses of a table judged; empty if none is known.

    Args:
        parts: The table, with the roles of its columns.
        where: Its file.
    """
    # A row of a table that was turned or opened is not a row of the file.
    if parts.columns.notes:
        return ""
    by_role = parts.by_role()
    responses: tuple[str, ...]
    if by_role.keys() >= {*_PAIR}:
        mode = "pairwise"
        responses = _PAIR
    elif "response" in by_role:
        mode = "pointwise"
        responses = ("response",)
    else:
        return ""
    # Messages before the responses are the prompt, whatever their column is called.
    if "prompt" not in by_role and _is_conversation(parts, by_role.get("context", "")):
        by_role["prompt"] = by_role.pop("context")
    if "prompt" not in by_role:
        return ""
    fields = [role for role in (*_FIELDS, *responses) if role in by_role]
    columns = [by_role[field] for field in fields]
    # A position in a list is no column of the file.
    if any(part.isdigit() for name in columns for part in PATH.split(name)):
        return ""
    words = ["evalkit", "run", f"mode={mode}", "dataset=file", f"dataset.path={where}"]
    for field, name in zip(fields, columns, strict=True):
        words.append(f"dataset.fields.{field}={_value(name)}")
    return command(words)


def _is_conversation(parts: Parts, name: str) -> bool:
    cells = parts.columns.cells.get(name, [])
    filled = [cell for cell in cells if cell is not None]
    return bool(filled) and all(map(is_conversation, filled))


def _value(name: str) -> str:
    """Return the name of a column as the value of an override."""
    if _PLAIN.fullmatch(name):
        return name
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
