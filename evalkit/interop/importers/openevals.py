"""Import results of openevals next to the texts that were evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import (
    Assessment,
    assessment,
    rater_of,
    source_by_name,
)
from evalkit.interop.layouts.free_columns import text_cells, with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of, subject, text
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_RESULT: Final = frozenset({"key", "score", "comment"})
"""The keys of each result."""
_OUTPUTS: Final = "outputs"
_REFERENCE: Final = "reference_outputs"
_IDS: Final = ("id", "example_id", "trace_id")


def _sniff(start: Peek) -> bool:
    return _OUTPUTS in start.row and any(_results(start.row))


def _results(row: Json) -> Iterator[Json]:
    """Yield the results in a row, below any key: one or a list."""
    for value in row.values():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Mapping) and part.keys() >= _RESULT:
                yield part


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each row and evaluator; keys that name people are labels."""
    rows = [row for _, row in rows_of(path)]
    units = []
    for index, row in enumerate(rows):
        entries = tuple(map(_assess, _results(row)))
        units.append(Assessed(_cells(row, index), entries))
    data = [_columns(row) for row in rows]
    return read_assessed(path, with_raters_in_data(units, data, options), options)


def _cells(row: Json, index: int) -> JsonObject:
    cells: JsonObject = {}
    for name, value in text_cells(row).items():
        cells[name] = text(subject(value))
    if row.get(_REFERENCE):
        cells["reference"] = text(subject(row[_REFERENCE]))
    ids = [row[key] for key in _IDS if row.get(key) is not None]
    cells["id"] = str(ids[0] if ids else index)
    cells["metadata"] = _columns(row)
    return cells


def _columns(row: Json) -> JsonObject:
    return {
        key: value
        for key, value in row.items()
        if isinstance(value, str | int | float) and key not in (*_IDS, _OUTPUTS)
    }


def _assess(result: Json) -> Assessment:
    name = str(result["key"])
    source = source_by_name(name)
    rater = rater_of(name, source)
    return assessment(
        name, rater, source, result["score"], reason=result.get("comment")
    )


IMPORTER: Final = Importer(
    "openevals",
    "results of openevals (key, score, comment) next to inputs and outputs",
    _sniff,
    _read_records,
    is_log=True,
)
