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
        return {role.role: role.column for role in self.roles}


def typed_columns(columns: Columns) -> dict[str, TypedColumn]:
    """Return the columns of a table with the types of their values, by name."""
    return {name: TypedColumn(name, cells) for name, cells in columns.cells.items()}


def judge_columns(raters: Raters) -> list[str]:
    """Return the columns of judges' verdicts: of each criterion, or of each judge."""
    return [*raters.criteria] if raters.criteria else [*raters.judges]


def compares(by_role: Mapping[str, str]) -> bool:
    """Return whether a row has two responses, or two systems."""
    texts = {"response_a", "response_b"} <= by_role.keys()
    return texts or {"model_a", "model_b"} <= by_role.keys()
