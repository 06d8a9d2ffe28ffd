"""Rows by rater, made ready: rows of measures are left out, and raters are named with
what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.fixed_roles import strength
from evalkit.interop.tables.parts import Parts, typed_columns
from evalkit.interop.tables.words import matches

_MOST_KINDS: Final = 6
_NO_VERDICTS: Final = ("measured", "computed", "doubt")
"""The groups of words that name what is measured rather than judged."""


def name_raters(parts: Parts) -> None:
    """Leave out the rows of a melted table that have measures, and name raters with their kind."""
    kinds = [name for name, column in parts.typed.items() if _names_both(column)]
    if len(kinds) != 1:
        return
    [kind] = kinds
    _drop_measures(parts, kind)
    ids = [name for name in parts.typed if _is_finer(name, kind, parts.typed)]
    if len(ids) == 1:
        _join(parts, kind, ids[0])


def _names_both(column: TypedColumn) -> bool:
    """Return whether a few words name judges and people, and perhaps measures."""
    words = list(column.words)
    if not 2 <= len(words) <= _MOST_KINDS:
        return False
    if column.is_numeric:
        return False
    roles = set()
    for word in words:
        if _is_measure(word):
            continue
        role, clear = strength(word)
        if clear <= 2:
            return False
        roles.add(role)
    return {"judge", "label"} <= roles


def _is_measure(word: str) -> bool:
    unnamed = strength(word)[1] < 3
    return unnamed and any(matches(word, group) for group in _NO_VERDICTS)


def _drop_measures(parts: Parts, kind: str) -> None:
    """Drop the rows of a column `variable` that have a measure, as `tokens` next to
    `judge` and `human`.
    """
    column = parts.typed[kind]
    measures = [word for word in column.words if _is_measure(word)]
    if not measures:
        return
    kept = [row for row, text in enumerate(column.texts) if text not in measures]
    dropped = len(parts.columns) - len(kept)
    parts.columns = parts.columns.take(kept)
    parts.typed = typed_columns(parts.columns)
    listed = ", ".join(measures)
    parts.notes.append(
        f"rows with measures in '{kind}' ({listed}), not read: {dropped}"
    )


def _is_finer(name: str, kind: str, typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether a column has the raters of which another has the kind, such as
    `rater_id` and `rater_type`.
    """
    column = typed[name]
    if name == kind:
        return False
    if not matches(name, "rater"):
        return False
    if column.judges:
        return False
    pairs = {*zip(column.texts, typed[kind].texts, strict=True)}
    names = {text for text, _ in pairs}
    return None not in names and len(typed[kind].words) < len(names) == len(pairs)


def _join(parts: Parts, kind: str, name: str) -> None:
    """Name raters with their kind, as `human h1`."""
    kinds = parts.typed[kind].texts
    ids = parts.typed[name].texts
    raters = []
    for kind_text, text in zip(kinds, ids, strict=True):
        raters.append(f"{kind_text} {text}")
    del parts.columns.cells[kind]
    del parts.typed[kind]
    parts.columns.cells[name] = raters
    parts.typed[name] = TypedColumn(name, raters)
    parts.notes.append(f"raters in '{name}' are named with their '{kind}'")
