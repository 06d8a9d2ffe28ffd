"""The role of each column of a table, as it is listed for users."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from evalkit.interop.tables.parts import Parts
from evalkit.interop.tables.questions import Role
from evalkit.interop.tables.rater_columns import is_measured
from evalkit.interop.tables.rater_roles import NOT_USED
from evalkit.interop.tables.words import matches

_TEXT_ROLES: Final = (
    "prompt",
    "context",
    "reference",
    "response",
    "response_a",
    "response_b",
    "text",
)


def listed_roles(parts: Parts) -> list[Role]:
    """Return the role of each column in the order of the table, and why a column is not used."""
    # Raters are known before they have roles if a question interrupts the reading.
    role_of = {role.column: role for role in parts.roles}
    for rater_role, raters in (
        ("judge", parts.raters.judges),
        ("label", parts.raters.labels),
    ):
        for name, why in raters.items():
            role_of.setdefault(name, Role(name, rater_role, why))
    # The columns first, then roles of columns that the reading has dissolved, such as
    # that of the names of raters.
    names = [*parts.typed, *(name for name in role_of if name not in parts.typed)]
    listed = []
    for name in names:
        column = parts.typed.get(name)
        kind = "" if column is None else column.kind
        role = role_of.get(name)
        # Texts that are all different look like ids.
        if role is not None and role.role in _TEXT_ROLES and kind == "id":
            kind = "text"
        if role is None and name in parts.slices:
            role = Role(name, "slice", "results are shown for each")
        if role is None:
            why = parts.raters.unused.get(name, _unused_why(name, kind))
            role = Role(name, NOT_USED, why)
        listed.append(replace(role, type=kind))
    return listed


def _unused_why(name: str, kind: str) -> str:
    if kind == "empty":
        return "empty"
    if matches(name, "computed"):
        return "computed by a program"
    if is_measured(name):
        return "a measure"
    return kind
