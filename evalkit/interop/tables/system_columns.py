"""Columns by system, such as `answer (gpt-4o)` and `correct (gpt-4o)`: rows of one system each.

The model in such a name wrote the response, and judged nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.columns import Columns
from evalkit.interop.tables.words import (
    fold,
    is_model,
    matches,
    pair_words,
    tokens,
)

_LAST: Final = re.compile(r"(?P<what>.+?)\s*[(\[](?P<system>[^()\[\]]+)[)\]]")
_BETWEEN: Final = r"(?:\s*[:|/]\s*|\s+[-–—]\s+)"
_FIRST: Final = re.compile(rf"(?P<system>.+?){_BETWEEN}(?P<what>.+)")
_SECOND: Final = re.compile(rf"(?P<what>.+?){_BETWEEN}(?P<system>.+)")
_SYSTEM: Final = "system"

ByWhat = dict[str, str]
"""The column of each thing that a system has, such as its answer."""


def rows_by_system(columns: Columns, chosen: Collection[str]) -> Columns:
    """Return a table with a row for each system if its columns are by system.

    Args:
        columns: The columns.
        chosen: Columns that the user named, which stay as they are.
    """
    systems = _systems(columns.cells)
    used: set[str] = set()
    things: dict[str, None] = {}
    for by_what in systems.values():
        used.update(by_what.values())
        things.update(dict.fromkeys(by_what))
    if len(systems) < 2:
        return columns
    if not used.isdisjoint(chosen):
        return columns
    shared = [name for name in columns.cells if name not in used]
    # A new name must not be that of another column.
    added = {_SYSTEM, *things}
    if not added.isdisjoint(shared):
        return columns
    if _names_winners(columns.cells, shared, systems):
        return columns
    rows = len(columns)
    cells: dict[str, list[Any]] = {}
    for name in shared:
        repeated = [columns.cells[name]] * len(systems)
        cells[name] = _in_turn(repeated)
    cells[_SYSTEM] = [*systems] * rows
    for what in things:
        parts = []
        for by_what in systems.values():
            name_of_part = by_what.get(what)
            # A column that a system lacks is empty in its rows.
            if name_of_part is None:
                parts.append([None] * rows)
            else:
                parts.append(columns.cells[name_of_part])
        cells[what] = _in_turn(parts)
    places = _in_turn([columns.places] * len(systems))
    note = f"read as a row for each system: {', '.join(systems)}"
    return Columns(cells, places, [*columns.notes, note])


def _in_turn(parts: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the first cells of all columns, then the second ones, and so on."""
    cells: list[Any] = []
    for row in zip(*parts, strict=True):
        cells.extend(row)
    return cells


def _systems(cells: Mapping[str, list[Any]]) -> dict[str, ByWhat]:
    """Return the columns of each system that has a response and a verdict about it."""
    systems: dict[str, ByWhat] = {}
    for name in cells:
        parts = _parts_of(name)
        if parts is None:
            continue
        system = parts["system"].strip()
        what = parts["what"].strip()
        systems.setdefault(system, {})[what] = name
    judged: dict[str, ByWhat] = {}
    for system, by_what in systems.items():
        if _is_side(system):
            continue
        if _has_verdicts(by_what, cells):
            judged[system] = by_what
    return judged


def _parts_of(name: str) -> re.Match[str] | None:
    """Return what a column has and the system that it is about, if its name says both."""
    in_brackets = _LAST.fullmatch(name)
    if in_brackets is not None:
        return in_brackets
    # `Judge: verdict` is of no system; only a name in brackets may be any.
    for form in (_FIRST, _SECOND):
        parts = form.fullmatch(name)
        if parts is not None and is_model(parts["system"]):
            return parts
    return None


def _is_side(system: str) -> bool:
    parts = tokens(system)
    if fold(system) in pair_words():
        return True
    return all(part.isdigit() for part in parts)


def _has_verdicts(by_what: ByWhat, cells: Mapping[str, list[Any]]) -> bool:
    """Return whether a system has texts of responses, and another column that may judge them."""
    has_response = False
    has_verdict = False
    for what, name in by_what.items():
        column = TypedColumn(name, cells[name])
        is_text = column.kind in ("text", "id")
        if is_text and matches(what, "response"):
            has_response = True
        elif column.may_be_verdict:
            has_verdict = True
    return has_response and has_verdict


def _names_winners(
    cells: Mapping[str, list[Any]],
    shared: Collection[str],
    systems: Mapping[str, ByWhat],
) -> bool:
    """Return whether a column names one of the systems in its rows, which won then."""
    names = {fold(system) for system in systems}
    for name in shared:
        texts = {cell for cell in cells[name] if isinstance(cell, str)}
        words = set(map(fold, texts))
        if not names.isdisjoint(words):
            return True
    return False
