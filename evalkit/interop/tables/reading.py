"""From a table that was read to the file that says how, and back to choices for the next table."""

from __future__ import annotations

from evalkit.config.table_reading import (
    JUDGE,
    KEY,
    LABEL,
    READ_ROLES,
    ColumnReading,
    TableReading,
)
from evalkit.errors import DatasetError, did_you_mean
from evalkit.interop.tables.fixed_roles import Choices
from evalkit.interop.tables.raters import NOT_USED
from evalkit.interop.tables.table import Table

_MOST_VALUES = 50
_TYPED_ROLES = (JUDGE, LABEL, "criterion's score")
"""Roles of columns whose type must stay the same."""
_ALIKE = ({"flag", "class", "pair", "ordered"}, {"number", "flag"})
"""Types that a column may have by chance, if it has few values."""


def reading_of(table: Table) -> TableReading:
    """Return how a table was read."""
    columns = {}
    for role in table.roles:
        levels = table.values.get(role.column, {})
        few = len(levels) <= _MOST_VALUES and table.unit != "response"
        columns[role.column] = ColumnReading(
            type=role.type or "text",
            role=role.role,
            values=dict(levels) if few else {},
        )
    return TableReading(unit=table.unit, columns=columns, map=dict(table.choices.words))


def choices_of(reading: TableReading) -> Choices:
    """Return the choices that read another table in the same way."""
    keys = tuple(reading.of_role(KEY))
    return Choices(
        judges=tuple(reading.of_role(JUDGE)),
        labels=tuple(reading.of_role(LABEL)),
        columns={
            role: names[0] for role in READ_ROLES if (names := reading.of_role(role))
        },
        words=dict(reading.map),
        keys=keys,
        only=bool(reading.of_role(JUDGE)),
    )


def check_same(reading: TableReading, table: Table, where: str) -> None:
    """Check that a table has the columns of a reading, of the same types.

    Raises:
        DatasetError: If a column that is used is missing or has another type.
    """
    found = {role.column: role for role in table.roles}
    for name, column in reading.columns.items():
        if column.role == NOT_USED:
            continue
        if name not in found:
            what = f"has no column '{name}', which the reading uses as {column.role}"
            raise DatasetError(
                what, where=where, remedy=did_you_mean(name, list(found))
            )
        kinds = {column.type, found[name].type}
        alike = len(kinds) == 1 or any(kinds <= group for group in _ALIKE)
        if column.role in _TYPED_ROLES and not alike:
            what = f"column '{name}' is {found[name].type} and was {column.type} in the reading"
            remedy = "check the column, or read the table anew without --reading"
            raise DatasetError(what, where=where, remedy=remedy)
    if table.unit != reading.unit:
        what = (
            f"is read as verdicts by {table.unit}, and the reading is by {reading.unit}"
        )
        remedy = "read the table anew without --reading"
        raise DatasetError(what, where=where, remedy=remedy)
