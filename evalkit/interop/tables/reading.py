"""From a table that was read to the file that says how, and back to choices for the next table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from evalkit.config import RunConfig
from evalkit.config.table_reading import (
    JUDGE,
    KEY,
    LABEL,
    READ_ROLES,
    ColumnReading,
    TableReading,
)
from evalkit.core.annotations import (
    FIRST,
    Label,
    annotation_classes,
    annotation_grades,
    choices_in,
    chosen,
)
from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.types import Annotation, Case
from evalkit.core.values import Json, JsonObject
from evalkit.datasets import Source
from evalkit.datasets.sources import CASE
from evalkit.interop.import_cases import to_cases
from evalkit.interop.import_file import imported
from evalkit.interop.layouts.judgment_files import table_rows
from evalkit.interop.layouts.records import NONE, ImportedJudgments
from evalkit.interop.tables.columns import Rows, columns_of_table
from evalkit.interop.tables.fixed_roles import Choices
from evalkit.interop.tables.rater_roles import NOT_USED
from evalkit.interop.tables.table import Table, read_columns, read_table
from evalkit.interop.tables.tried_answers import MOST_ROWS, with_commands

UNNAMED = "human"
"""The annotator of a label column that names none."""
_MOST_VALUES = 50
_TYPED_ROLES = (JUDGE, LABEL, "criterion's score")
"""Roles of columns whose type must stay the same."""
_JUDGES = (JUDGE, "criterion's score", "judge's name", "rater", "value", "text")
"""Roles of columns that answers to judge do not have."""
_ALIKE = ({"flag", "class", "pair", "ordered"}, {"number", "flag"})
"""Types that a column may have by chance, if it has few values."""


def reading_of(table: Table) -> TableReading:
    """Return how a table was read."""
    columns = {}
    for role in table.roles:
        levels = table.values.get(role.column, {})
        missing = table.space.missing.get(role.column, {})
        few = len(levels) + len(missing) <= _MOST_VALUES
        columns[role.column] = ColumnReading(
            type=role.type or "text",
            role=role.role,
            values=dict(levels) | dict.fromkeys(missing, NONE) if few else {},
        )
    return TableReading(
        unit=table.unit,
        columns=columns,
        map=dict(table.choices.words),
        scale=table.space.scale,
        criteria=() if table.stack is None else table.stack.criteria,
        stacked={} if table.stack is None else table.stack.raters,
        stacked_by="criterion" if table.stack is None else table.stack.column,
        rubric=dict(table.space.rubric),
    )


def choices_of(reading: TableReading, *, answers: bool = False) -> Choices:
    """Return the choices that read another table in the same way.

    Args:
        reading: The reading.
        answers: Whether the table has answers to judge, so that it needs no verdicts.
    """
    keys = tuple(reading.of_role(KEY))
    return Choices(
        judges=() if answers else tuple(reading.of_role(JUDGE)),
        labels=tuple(reading.of_role(LABEL)),
        columns={
            role: names[0] for role in READ_ROLES if (names := reading.of_role(role))
        },
        words=dict(reading.map),
        keys=keys,
        only=answers or bool(reading.of_role(JUDGE)),
        reading=reading,
        answers=answers,
    )


def check_same(
    reading: TableReading, table: Table, where: str, *, answers: bool = False
) -> None:
    """Check that a table has the columns of a reading, of the same types.

    Args:
        reading: The reading.
        table: The table.
        where: Its name.
        answers: Whether the table has answers to judge, so that it needs no verdicts of judges.

    Raises:
        DatasetError: If a column that is used is missing or has another type.
    """
    roles = {role.column: role for role in table.roles}
    for name, column in reading.columns.items():
        if column.role == NOT_USED or (answers and column.role in _JUDGES):
            continue
        if name not in roles:
            problem = f"has no column '{name}', which the reading uses as {column.role}"
            raise DatasetError(
                problem, where=where, remedy=did_you_mean(name, list(roles))
            )
        kinds = {column.type, roles[name].type}
        alike = len(kinds) == 1 or any(kinds <= group for group in _ALIKE)
        if column.role in _TYPED_ROLES and not alike:
            problem = f"column '{name}' is {roles[name].type} and was {column.type} in the reading"
            remedy = "check the column, or read the table anew without --reading"
            raise DatasetError(problem, where=where, remedy=remedy)


def import_table(
    rows: Rows, where: str, path: Path, choices: Choices
) -> tuple[ImportedJudgments, Table]:
    """Return the judgments of a table, and the table.

    Args:
        rows: Its rows with their locations.
        where: Its name.
        path: Its file.
        choices: The user's choices, or those of a reading.

    Raises:
        OpenTableError: If two readings differ in what would be concluded.
        DatasetError: If it has no verdicts, or differs from the reading.
    """
    first_rows = rows[:MOST_ROWS]
    try:
        columns = columns_of_table(rows, where)
        # Rows take more memory than columns, and are not held while those are read.
        del rows
        table = read_columns(columns, where, choices)
    except ConfigError as error:
        raise with_commands(error, first_rows, where, choices) from None
    if choices.reading is not None:
        check_same(choices.reading, table, where)
    return imported(table.parsed, "table", path), table


def merged_settings(settings: Json, table_settings: Json) -> JsonObject:
    """Return settings with those of a table's reading, which replace a whole rubric."""
    merged = dict(settings)
    for section, values in table_settings.items():
        kept: Json = {}
        if section != "rubric":
            kept = merged.get(section, {})
        merged[section] = {**kept, **values}
    return merged


def table_labels(path: Path, reading: TableReading) -> Iterator[Label]:
    """Yield the labels of a table that is read as another one was.

    Raises:
        DatasetError: If a column that is used is missing or has other values.
    """
    source = table_source([path], str(path), reading)
    for location, cells in source.rows():
        case = cells[CASE]
        yield from labels_of_case(case, location)


def labels_of_case(case: Case, location: str) -> Iterator[Label]:
    """Yield the labels of a case, each with its annotator."""
    people: dict[str, Annotation] = {**case.labels}
    if case.label is not None:
        people[UNNAMED] = chosen({FIRST: case.label})
    elif not people and any(response.class_name for response in case.responses):
        people[UNNAMED] = tuple(response.class_name for response in case.responses)
    elif not people:
        people[UNNAMED] = tuple(response.grade for response in case.responses)
    for name, annotation in people.items():
        for unit, winner in choices_in(annotation):
            yield Label(case.id, unit, name, winner, location)
        values = annotation_grades(annotation) or annotation_classes(annotation)
        for index, value in enumerate(values):
            if value is not None:
                yield Label(case.id, (index,), name, value, location)


def table_source(paths: Sequence[Path], name: str, reading: TableReading) -> Source:
    """Return a source of cases, with the labels of a table that is read as another one was.

    Args:
        paths: The files of the table.
        name: What it is called.
        reading: The reading.

    Raises:
        DatasetError: If a column that is used is missing or has other values.
    """
    rows = [row for path in paths for row in table_rows(path)]
    table = read_table(rows, name, choices_of(reading, answers=True))
    check_same(reading, table, name, answers=True)
    cases, _, notes = to_cases(table.parsed, "table")
    columns = ", ".join(reading.of_role(LABEL)) or "none"
    return Source(
        name,
        lambda: (
            (f"{name}:case {case.id}", {**case.metadata, "id": case.id, CASE: case})
            for case in cases
        ),
        tuple(paths),
        notes=[f"read as the table of dataset.reading; labels: {columns}", *notes],
    )


def check_unit(reading: TableReading, config: RunConfig) -> None:
    """Check that a run judges what the labels of a reading are about.

    Raises:
        ConfigError: If it compares responses and the labels are of one, or the other way around, or
            the labels are classes that the rubric does not have.
    """
    pairwise = config.mode.name not in ("pointwise", "checklist")
    if pairwise != (reading.unit == "pair"):
        needed = "pairwise" if reading.unit == "pair" else "pointwise"
        problem = f"has verdicts by {reading.unit}, and mode is {config.mode.name}"
        raise ConfigError(problem, where="dataset.reading", remedy=f"set mode={needed}")
    if reading.unit != "class":
        return
    classes = config.rubric.named_classes
    labels = {
        str(value)
        for name in reading.of_role(LABEL)
        for value in reading.columns[name].values.values()
        if value != NONE
    }
    if classes is None or not labels <= {*classes.names}:
        listed = ", ".join(f"{name}: ''" for name in sorted(labels))
        problem = (
            f"has labels of the classes {', '.join(sorted(labels))}, "
            "and the rubric has others"
        )
        remedy = f"set 'rubric.classes={{{listed}}}', or run the reading's file itself"
        raise ConfigError(problem, where="dataset.reading", remedy=remedy)
