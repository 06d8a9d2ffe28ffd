"""What is known about a table while it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.columns import Columns
from evalkit.interop.tables.keys import Keys
from evalkit.interop.tables.long_tables import LongForm
from evalkit.interop.tables.questions import Role
from evalkit.interop.tables.rater_roles import Raters


@dataclass(slots=True)
class Parts:
    """What is known about a table while it is read.

    `widened` are the columns of the raters that a long table names in its rows.
    """

    columns: Columns
    typed: dict[str, TypedColumn]
    roles: list[Role]
    raters: Raters = field(default_factory=Raters)
    keys: Keys = field(default_factory=Keys)
    form: LongForm | None = None
    constants: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    slices: list[str] = field(default_factory=list)
    widened: tuple[str, ...] = ()

    def by_role(self) -> dict[str, str]:
        """Return the column of each role."""
        columns = {}
        for role in self.roles:
            columns[role.role] = role.column
        return columns

    def add_role(self, column: str, role: str, why: str) -> None:
        """Add a role of a column, and why it has it."""
        self.roles.append(Role(column, role, why))

    def drop_role(self, role: str) -> None:
        """Leave no column with a role."""
        self.roles = [known for known in self.roles if known.role != role]


def typed_columns(columns: Columns) -> dict[str, TypedColumn]:
    """Return the columns of a table with the types of their values, by name."""
    typed = {}
    for name, cells in columns.cells.items():
        typed[name] = TypedColumn(name, cells)
    return typed


def judge_columns(raters: Raters) -> list[str]:
    """Return the columns of judges' verdicts: of each criterion, or of each judge."""
    if raters.criteria:
        return list(raters.criteria)
    return list(raters.judges)


def compares(by_role: Mapping[str, str]) -> bool:
    """Return whether a row has two responses, or two systems."""
    has_responses = {"response_a", "response_b"} <= by_role.keys()
    if has_responses:
        return True
    return {"model_a", "model_b"} <= by_role.keys()
