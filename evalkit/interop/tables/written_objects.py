"""Objects in cells: as they are, or as JSON, Python or a code block writes them."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from itertools import repeat
from operator import contains
from typing import Any, Final

from evalkit.datasets.text import is_conversation, written_value

_CALL: Final = re.compile(r"[A-Za-z_][\w.]*\(\s*\w+\s*=.*\)", re.DOTALL)
"""How Python shows an object: its class, and its fields by name."""
_MEMBER: Final = re.compile(r"<([A-Za-z_]\w*\.\w+): [^<>]*>")
"""How Python shows the member of an enumeration."""


def may_be_object(cell: Any) -> bool:
    """Return whether a cell has the marks of an object: hardly any text has."""
    return type(cell) is not str or "{" in cell or cell.endswith(")")


def may_have_objects(texts: Sequence[str]) -> bool:
    """Return whether one of several texts may be an object; see `may_be_object`."""
    if any(map(contains, texts, repeat("{"))):
        return True
    return any(map(str.endswith, texts, repeat(")")))


def object_in(cell: Any) -> dict[str, Any] | None:
    """Return a cell that is an object, or a text of one as JSON or as Python writes it."""
    if isinstance(cell, dict):
        is_message = is_conversation([cell])
        # A message is a text with its role, not an object to open.
        return None if is_message else cell
    if not isinstance(cell, str):
        return None
    if "{" not in cell:
        return _shown(cell)
    text = cell.strip()
    # Models write JSON in a code block.
    if text.startswith("```") and text.endswith("```"):
        text = text.strip("`").removeprefix("json").strip()
    if not (text.startswith("{") and text.endswith("}")):
        return _shown(cell)
    try:
        value = written_value(text)
    except ValueError:
        return None
    if isinstance(value, dict) and value:
        return {str(key): part for key, part in value.items()}
    return None


def _shown(cell: str) -> dict[str, Any] | None:
    """Return the fields of an object as Python shows it: `Result(score=2, reason='fine')`."""
    # Hardly any text ends so, and a pattern takes longer than this look.
    if not cell.endswith(")") or _CALL.fullmatch(cell) is None:
        return None
    text = _MEMBER.sub(r"\1", cell)
    try:
        shown = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(shown, ast.Call) or shown.args:
        return None
    fields = {}
    for keyword in shown.keywords:
        if keyword.arg is None:
            return None
        fields[keyword.arg] = _field(keyword.value, text)
    return fields


def _field(value: ast.expr, text: str) -> Any:
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, RecursionError, MemoryError):
        # An object within, or the member of an enumeration, is read as a text.
        return ast.get_source_segment(text, value)
