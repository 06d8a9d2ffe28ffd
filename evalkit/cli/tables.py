"""Tables for `evalkit import` and `evalkit label`, read as `evalkit check` reads them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evalkit.core.errors import ConfigError
from evalkit.runs.results import RunResult

if TYPE_CHECKING:
    from evalkit.core.annotations import Label
    from evalkit.interop.layouts.records import ImportedJudgments, Options
    from evalkit.interop.tables.fixed_roles import Choices

_VERDICTS: Final = ("winner", "margin", "score", "class")
"""Columns of the generic format: a table that has one is read by their names only."""
_RATERS: Final = ("judge", "criterion's score", "label")


def read_judgments(
    name: str, path: Path, options: Options, reading: Path | None
) -> ImportedJudgments:
    """Return the judgments of a file; a table without mapped columns is read as
    `evalkit check` reads it.

    Args:
        name: The format.
        path: The file.
        options: The user's options.
        reading: The file that says how a table is read.

    Raises:
        ConfigError: If the file has no judgments, or a table leaves open what they are.
    """
    from evalkit.config.table_reading import load_reading
    from evalkit.interop.import_file import import_judgments
    from evalkit.interop.importer_discovery import GENERIC
    from evalkit.interop.layouts.criteria import OpenCriterionError
    from evalkit.interop.layouts.judgment_files import peek
    from evalkit.interop.tables.fixed_roles import Choices
    from evalkit.interop.tables.questions import OpenTableError
    from evalkit.interop.tables.reading import choices_of

    if reading is not None and name == GENERIC:
        return _read_table(path, choices_of(load_reading(reading)))
    try:
        return import_judgments(name, path, options)
    except OpenCriterionError as question:
        raise question.for_import(name) from None
    except ConfigError as unmapped:
        if name != GENERIC or options.fields or not path.is_file():
            raise
        if any(peek(path).has(column) for column in _VERDICTS):
            raise  # a wrong value in a column that says what it is
        try:
            return _read_table(path, Choices(words=dict(options.winners)))
        except OpenTableError as question:
            answer = f"evalkit check {path} --save reading.yaml"
            remedy = (
                f"answer with {answer}, then import with --reading reading.yaml; or name"
                " the columns: --fields winner=COLUMN, score=COLUMN or class=COLUMN"
            )
            raise ConfigError(
                question.what, where=question.where, remedy=remedy
            ) from None
        except ConfigError:
            raise unmapped from None


def _read_table(path: Path, choices: Choices) -> ImportedJudgments:
    """Return the judgments of a table, with a note on the columns of judge, labels and label."""
    from evalkit.interop.layouts.judgment_files import table_rows
    from evalkit.interop.tables.reading import import_table, merged_settings

    imported, table = import_table(table_rows(path), str(path), path, choices)
    used = [
        f"{role.column}: {role.role}" for role in table.roles if role.role in _RATERS
    ]
    return replace(
        imported,
        settings=merged_settings(imported.settings, table.settings),
        notes=(f"read as {', '.join(used)}", *imported.notes, *table.warnings),
    )


def read_label_file(
    result: RunResult, path: Path, omitted: Counter[str], reading: Path | None
) -> list[Label]:
    """Return the labels of a file in a known format, or of a table that is read as another one was.

    Args:
        result: The run.
        path: The file.
        omitted: Counts what has no label, by reason.
        reading: The file that says how the table is read.

    Raises:
        ConfigError: If it has no labels, or labels of another kind than the run.
    """
    from evalkit.labels.joined import class_reader
    from evalkit.labels.label_files import read_labels

    if reading is None:
        return read_labels(path, omitted, class_reader(result.config))
    from evalkit.config.table_reading import load_reading
    from evalkit.interop.tables.reading import check_unit, table_labels

    table_reading = load_reading(reading)
    check_unit(table_reading, result.config)
    return list(table_labels(path, table_reading))
