"""Which column, or which part of one, each canonical field of a row is read from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, time
from math import isfinite
from typing import Any, Final

from evalkit.datasets.readers import Row
from evalkit.errors import ConfigError, DatasetError, did_you_mean

FIELDS: Final = (
    "id",
    "prompt",
    "context",
    "reference",
    "response",
    "response_a",
    "response_b",
    "responses",
    "model",
    "model_a",
    "model_b",
    "label",
    "labels",
)
ABSENT: Final = object()
_MOST_NAMED = 12


class Columns:
    """Finds canonical fields in rows, as `dataset.fields` maps them or else under their own names."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        for field in fields:
            if field not in FIELDS:
                raise ConfigError("no such field", where=f"dataset.fields.{field}", remedy=did_you_mean(field, FIELDS))
        self._mapped = dict(fields)
        self._unseen = dict(fields)
        self._columns: tuple[str, ...] = ()

    def shape(self, row: Row) -> str:
        """Return the field that holds this row's responses: `responses`, `response_a` (with `_b`) or `response`."""
        shapes = ("responses", "response_a", "response")
        for shape in shapes:
            if shape in self._mapped or (shape == "response_a" and "response_b" in self._mapped):
                return shape
        present = [s for s in shapes if s in row]
        return present[0] if present else "response_a" if "response_b" in row else "response"

    def get(self, row: Row, field: str) -> Any:
        """Return what an optional field holds in this row, none where it holds nothing."""
        value = look_up(row, self._mapped.get(field, field))
        if value is ABSENT:
            return None
        self._unseen.pop(field, None)
        return value

    def need(self, row: Row, field: str, place: str) -> Any:
        """Return what a field holds in this row.

        Raises:
            DatasetError: if the row has no such column.
        """
        value = look_up(row, self._mapped.get(field, field))
        if value is ABSENT:
            raise self._missing(field, place, tuple(row))
        self._unseen.pop(field, None)
        return value

    def is_mapped(self, field: str) -> bool:
        """Say whether `dataset.fields` names a column for this field."""
        return field in self._mapped

    def metadata(self, row: Row, used: set[str]) -> dict[str, Any]:
        """Return the columns that no field of `used` is read from."""
        self._columns = tuple(row)
        taken = {self._mapped.get(field, field) for field in used}
        return {column: value for column, value in row.items() if column not in taken}

    def check_seen(self, source: str) -> None:
        """Refuse a mapping that no row has been read by.

        Raises:
            DatasetError: naming the first such field.
        """
        for field, column in self._unseen.items():
            if column in self._columns:
                raise DatasetError(
                    f"{field} was never read, since the responses stand in other columns",
                    where=f"dataset.fields.{field}",
                    remedy="leave it out, or map the responses too",
                )
            raise self._missing(field, source, self._columns)

    def _missing(self, field: str, place: str, columns: tuple[str, ...]) -> DatasetError:
        column = self._mapped.get(field, field)
        named = ", ".join(columns[:_MOST_NAMED]) + (", ..." if len(columns) > _MOST_NAMED else "")
        close = did_you_mean(column, columns)
        hint = close if close.startswith("did you mean") else f"name one of them in dataset.fields.{field}"
        what = f"no column '{column}'" + (f" for {field}" if column != field else "")
        return DatasetError(f"{what}; the columns are {named or 'none'}", where=place, remedy=hint)


def look_up(row: Row, path: str) -> Any:
    """Return what stands in a column, or at a path such as `conversation.0.content`; `ABSENT` if nothing does."""
    if path in row:
        return row[path]
    value: Any = row
    for step in path.split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.lstrip("-").isdigit() and -len(value) <= int(step) < len(value):
            value = value[int(step)]
        else:
            return ABSENT
    return value


def plain(value: Any) -> Any:
    """Return a value as JSON has it: NaN is nothing, and what JSON has no type for becomes text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None if value != value else str(value)
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, date | time):
        return value.isoformat()
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
