"""Tables by column, as tests write them, and what was read of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalkit.interop.tables.fixed_roles import Choices
from evalkit.interop.tables.table import Table, read_table

Cells = Mapping[str, Sequence[Any]]


def read_cells(cells: Cells, choices: Choices | None = None) -> Table:
    """Return the reading of a table `t.csv` with these columns."""
    rows = [
        (f"t:{index}", dict(zip(cells, row, strict=True)))
        for index, row in enumerate(zip(*cells.values(), strict=True))
    ]
    return read_table(rows, "t.csv", choices or Choices())


def columns_of_role(table: Table, role: str) -> list[str]:
    """Return the columns that have a role."""
    return [found.column for found in table.roles if found.role == role]
