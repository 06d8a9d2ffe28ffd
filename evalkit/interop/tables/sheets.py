"""The only sheet of a workbook that has verdicts of a judge and labels."""

from __future__ import annotations

from collections.abc import Callable

from evalkit.core.errors import ConfigError
from evalkit.datasets.file_parts import OpenFileError
from evalkit.interop.tables.columns import Rows
from evalkit.interop.tables.fixed_roles import Choices
from evalkit.interop.tables.questions import OpenTableError
from evalkit.interop.tables.rater_roles import NOT_USED
from evalkit.interop.tables.table import read_table


def labeled_sheet(
    question: OpenFileError, choices: Choices, read: Callable[[str], Rows]
) -> str | None:
    """Return the name of the only sheet with a judge and labels; `None` if that is open.

    A sheet of which a question remains may be meant, too, so that it leaves the choice open.

    Args:
        question: Which sheets there are.
        choices: The user's choices.
        read: Returns the rows of a sheet by its name.
    """
    labeled = []
    for name, _ in question.parts:
        try:
            table = read_table(read(name), name, choices)
        except OpenTableError:
            return None
        except ConfigError:
            continue
        roles = {role.role for role in table.roles if role.role != NOT_USED}
        if {"judge", "label"} <= roles:
            labeled.append(name)
    return labeled[0] if len(labeled) == 1 else None
