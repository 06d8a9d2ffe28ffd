"""The rows of one value of a column, such as one criterion: `--key metric=tone`."""

from __future__ import annotations

from dataclasses import replace

from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.interop.tables.columns import Columns, cell_text
from evalkit.interop.tables.fixed_roles import Choices


def select_rows(
    columns: Columns, choices: Choices, where: str
) -> tuple[Columns, Choices]:
    """Return the rows that the user selected, without the columns that select them.

    Raises:
        ConfigError: If no row has the value.
    """
    keys = []
    for key in choices.keys:
        name, _, value = key.rpartition("=")
        # A column may have `=` in its name.
        if key in columns.cells or name not in columns.cells:
            keys.append(key)
        else:
            columns = _rows_with(columns, name, value, where)
    return columns, replace(choices, keys=tuple(keys))


def _rows_with(columns: Columns, name: str, value: str, where: str) -> Columns:
    texts = [None if cell is None else cell_text(cell) for cell in columns.cells[name]]
    rows = [row for row, text in enumerate(texts) if text == value]
    if not rows:
        known = dict.fromkeys(text for text in texts if text is not None)
        raise ConfigError(
            f"no row of {where} has this value in '{name}'",
            where=f"--key {name}={value}",
            remedy=did_you_mean(value, [*known]),
        )
    selected = columns.take(rows)
    cells = {other: cells for other, cells in selected.cells.items() if other != name}
    note = f"rows in which '{name}' is '{value}': {len(rows)} of {len(columns)}"
    return Columns(cells, selected.places, [*columns.notes, note], columns.repeated)
