"""Verdicts of a table whose reading is known: its words mean what they meant there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalkit.config.table_reading import TableReading
from evalkit.core.errors import DatasetError
from evalkit.interop.layouts.records import NONE
from evalkit.interop.tables.column_types import (
    DATE,
    LONGEST_WORD,
    NO_STATEMENT,
    TypedColumn,
    is_date,
)
from evalkit.interop.tables.rater_levels import Raw, Space, raw_levels
from evalkit.interop.tables.words import EMPTY, fold

_LISTED = 5


def known_space(
    raters: Mapping[str, TypedColumn], reading: TableReading, where: str
) -> Space:
    """Return the verdicts of raters as a reading says.

    Args:
        raters: The columns of the raters.
        reading: The reading.
        where: The table's name.

    Raises:
        DatasetError: If a column has words that it did not have, and that are no verdicts of its
            type.
    """
    space = Space(reading.unit, rubric=dict(reading.rubric), scale=reading.scale)
    for name, raw in raw_levels(raters, reading.map).items():
        values_by_text = reading.columns[name].values
        by_fold = reading.columns[name].folded(fold)
        values: dict[str, Any] = {}
        missing = dict(raw.missing)
        new = []
        for text in [*raw.words, *raw.mapped]:
            value = values_by_text.get(text, by_fold.get(fold(text)))
            if value is None:
                value = _of_type(text, raw, reading)
            if value is None and reading.unit != "response":
                value = raw.mapped.get(text)
            if value == NONE:
                missing[text] = DATE if is_date(text) else EMPTY
            elif value is not None:
                values[text] = value
            elif len(text) > LONGEST_WORD:
                missing[text] = NO_STATEMENT
            else:
                new.append(text)
        if new:
            raise _new_words(name, new, reading, where)
        space.values[name] = values
        space.missing[name] = missing
        space.by_row = space.by_row or "SYSTEM" in values.values()
    return space


def _of_type(text: str, raw: Raw, reading: TableReading) -> Any:
    """Return the verdict of a text by the type of its column; `None` if it is none."""
    column = raw.column
    if reading.unit == "response":
        return column.numbers.get(text, column.stated.get(text))
    if reading.unit == "pair":
        return column.pairs.get(text, column.stated.get(text))
    return column.stated.get(text)


def _new_words(
    name: str, words: list[str], reading: TableReading, where: str
) -> DatasetError:
    listed = ", ".join(f"'{word[:40]}'" for word in words[:_LISTED])
    problem = (
        f"column '{name}' was {reading.columns[name].type} in the reading and has"
        f" {len(words)} values that it does not know: {listed}"
    )
    remedy = "check the column, or read the table anew without the reading"
    return DatasetError(problem, where=where, remedy=remedy)
