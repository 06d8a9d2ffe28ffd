"""Columns that have one header: read as one if they are equal, omitted if they have no role, and
otherwise asked about.
"""

from __future__ import annotations

from collections.abc import Sequence

from evalkit.core.errors import DatasetError
from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.columns import Columns
from evalkit.interop.tables.fixed_roles import Choices, fixed_roles, strength
from evalkit.interop.tables.questions import Answer, OpenTableError, named_options


def join_repeated(columns: Columns, choices: Choices, where: str) -> Columns:
    """Return columns each with a header of its own.

    Raises:
        OpenTableError: If columns of one header differ and may be raters.
        DatasetError: If they differ and may have another role.
    """
    if not columns.repeated:
        return columns
    cells = dict(columns.cells)
    notes = [*columns.notes]
    chosen = choices.named_columns()
    for header, names in columns.repeated.items():
        unused = [name for name in names if name not in chosen]
        are_equal = all(cells[name] == cells[names[0]] for name in names)
        if are_equal and len(unused) == len(names):
            cells[header] = cells[names[0]]
            notes.append(
                f"columns with one header that are equal, read as one: {_listed(names)}"
            )
        elif unused:
            if len(unused) == len(names):
                _check_unused(header, names, columns, choices, where)
            notes.append(
                f"columns with the header of another one, not used: {_listed(unused)}"
            )
        for name in unused:
            del cells[name]
    return Columns(cells, columns.places, notes)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _check_unused(
    header: str, names: Sequence[str], columns: Columns, choices: Choices, where: str
) -> None:
    """Check that a column would have no role if it were the only one of its header.

    Raises:
        OpenTableError: If it may be a rater.
        DatasetError: If it has another role.
    """
    if choices.reading is not None:
        return
    problem = f"columns {names[0]!r} and {names[1]!r} have one header and differ"
    rater, clearness = strength(header)
    if rater:
        answers = _answers(rater, clearness, names)
        raise OpenTableError(f"{problem}: which one counts?", where, answers)
    others = {
        name: TypedColumn(name, cells)
        for name, cells in columns.cells.items()
        if name not in names
    }
    for name in names:
        typed = {**others, header: TypedColumn(header, columns.cells[name])}
        for role in fixed_roles(typed, Choices()):
            # Nothing is concluded from a text about a verdict.
            if role.column == header and role.role != "text":
                remedy = f"give each column its own name, or delete one: it is the {role.role}"
                raise DatasetError(problem, where=where, remedy=remedy)


def _answers(rater: str, clearness: int, names: Sequence[str]) -> list[Answer]:
    """Return an answer for each column that may be the rater, and one for all of them."""
    answers = []
    if rater == "judge" and clearness <= 2 and len(names) == 2:
        # `verdict` and `verdict` may be of a judge and of a person.
        first, second = names
        for judge, label in ((first, second), (second, first)):
            meaning = f"'{judge}' is the judge, and '{label}' the label"
            answers.append(Answer(meaning, ("--judge", judge, "--label", label)))
    option = f"--{rater}"
    answers += [Answer(f"'{name}' is the {rater}", (option, name)) for name in names]
    if clearness >= 2:
        meaning = f"all are {rater}s"
        answers.append(Answer(meaning, tuple(named_options(option, names))))
    return answers
