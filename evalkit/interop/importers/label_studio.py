"""Import Label Studio's JSON and JSON-MIN: annotators' labels, and predictions or
columns of the data as judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json
from evalkit.datasets.messages import json_value
from evalkit.interop.layouts.assessments import Assessed, merged, read_assessed
from evalkit.interop.layouts.criteria import (
    JUDGE,
    PERSON,
    Assessment,
    Source,
    assessment,
)
from evalkit.interop.layouts.free_columns import text_cells, with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of
from evalkit.interop.layouts.rater_names import is_judges
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_ANNOTATIONS: Final = "annotations", "completions"
"""The key of annotations; the second is that of versions before 1.0."""
_OF_ROW: Final = (
    *("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"),
    *("sentiment_score", "agreement"),
)
"""Columns that JSON-MIN adds to the data and the results."""
_FLAT: Final = "annotator", "annotation_id", "lead_time"
_MOST_VALUES: Final = 12
_CANCELLED: Final = "annotations that were cancelled or skipped, omitted"
_UNREAD: Final = "results that are not one choice or rating, omitted"


def _sniff(start: Peek) -> bool:
    row = start.row
    if isinstance(row.get("data"), Mapping):
        return any(isinstance(row.get(key), list) for key in _ANNOTATIONS)
    if not start.has(*_FLAT):
        return False
    # A table whose columns are in order of name does not show which are results.
    names = [str(name) for name in row]
    return names.index("annotator") < names.index("annotation_id")


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each task and judge.

    An annotator is `completed_by`. Predictions are judges by their `model_version`. Without any, a
    column of the data is a judge if its name or its words say so.
    """
    rows = [row for _, row in rows_of(path)]
    # {note: how often}.
    tally: Counter[str] = Counter()
    # JSON-MIN has one row for each annotation.
    if rows and "annotation_id" in rows[0] and "annotator" in rows[0]:
        units, data = _flat_units(rows)
    else:
        units = [_assessed_task(row, tally) for row in rows]
        data = [_data(row) for row in rows]
    texts = {"id"}
    units = with_raters_in_data(units, data, options, texts)
    notes = [f"{note}: {count}" for note, count in tally.items()]
    return read_assessed(path, merged(units), options, notes)


def _data(row: Json) -> Json:
    data = row.get("data")
    if isinstance(data, Mapping):
        return data
    return {}


def _assessed_task(task: Json, tally: Counter[str]) -> Assessed:
    """Return the texts of a task, and the verdicts of its annotators and models."""
    data = _data(task)
    entries: list[Assessment] = []
    for key in _ANNOTATIONS:
        for annotation in _objects(task.get(key)):
            if annotation.get("was_cancelled") or annotation.get("skipped"):
                tally[_CANCELLED] += 1
                continue
            rater = _annotator(annotation.get("completed_by"))
            entries += _assess_results(annotation, rater, PERSON, tally)
    for prediction in _objects(task.get("predictions")):
        rater = str(prediction.get("model_version") or "prediction")
        entries += _assess_results(prediction, rater, JUDGE, tally)
    cells = {**text_cells(data), "id": str(task.get("id")), "metadata": dict(data)}
    return Assessed(cells, tuple(entries))


def _objects(value: Any) -> list[Json]:
    parts = value if isinstance(value, list) else []
    return [part for part in parts if isinstance(part, Mapping)]


def _annotator(value: Any) -> str:
    """Return the name of an annotator: an id, or an object with an id and an email."""
    if isinstance(value, Mapping):
        value = value.get("email") or value.get("id")
    # An id is a number, or its text in a table.
    if isinstance(value, int) or str(value).isdecimal():
        return f"annotator {value}"
    return str(value or "annotator")


_VERDICT_KEYS = ("choices", "rating", "number", "selected", "taxonomy")
"""Where the kinds of controls have what was chosen."""


def _assess_results(
    annotation: Json, rater: str, source: Source, tally: Counter[str]
) -> Iterator[Assessment]:
    """Yield the verdicts of an annotation; texts and regions are no verdicts, and are skipped."""
    for result in _objects(annotation.get("result")):
        value = result.get("value")
        if not isinstance(value, Mapping) or result.get("type") == "relation":
            continue
        contents = (value[key] for key in _VERDICT_KEYS if key in value)
        content = next(contents, None)
        if content is None:
            continue  # a text or a region and not a verdict
        if "taxonomy" in value:
            content = _leaf(content)
        name = str(result.get("from_name") or "label")
        entry = assessment(name, rater, source, _only(content))
        if entry.score is None and entry.word is None:
            tally[_UNREAD] += 1
        else:
            yield entry


def _leaf(paths: Any) -> Any:
    """Return the last part of the only path in a taxonomy, and any other value unchanged."""
    if isinstance(paths, list) and len(paths) == 1 and isinstance(paths[0], list):
        return paths[0][-1:]
    return paths


def _only(content: Any) -> Any:
    """Return the only item of a list, or of a path in a taxonomy; a cell of a table has
    them as JSON.
    """
    if isinstance(content, str) and content[:1] in ("{", "["):
        content = json_value(content)
    # A path in a taxonomy is a list in a list.
    while isinstance(content, list) and len(content) == 1:
        content = content[0]
    if isinstance(content, Mapping):
        return next(
            (content[key] for key in ("choices", "rating", "number") if key in content),
            None,
        )
    return content


def _flat_units(rows: Sequence[Json]) -> tuple[list[Assessed], list[Json]]:
    """Return the answers of JSON-MIN, one row for each annotation, and the columns of their data.

    The results are the last columns before the annotator.
    """
    results = _result_columns(rows)
    units = []
    data = []
    for row in rows:
        selected = {
            name: value
            for name, value in row.items()
            if name not in _OF_ROW and name not in results
        }
        rater = _annotator(row.get("annotator"))
        entries = tuple(
            entry
            for name in results
            if name in row
            if (entry := assessment(name, rater, PERSON, _only(row[name]))).word
            is not None
            or entry.score is not None
        )
        cells = {**text_cells(selected), "id": str(row.get("id")), "metadata": selected}
        units.append(Assessed(cells, entries))
        data.append(selected)
    first_row: dict[str, int] = {}
    for index, unit in enumerate(units):
        first_row.setdefault(str(unit.cells["id"]), index)
    # The data of a task is repeated for each of its annotations.
    kept = {*first_row.values()}
    return units, [row if index in kept else {} for index, row in enumerate(data)]


def _result_columns(rows: Sequence[Json]) -> list[str]:
    """Return the columns of verdicts in a table, which has no other mark of them.

    They are the last ones before `annotator`, as far back as their values are short and few.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    # Results are before the annotator, in the last columns.
    before = names[: names.index("annotator")]
    columns: list[str] = []
    # From the last column backwards, until one is not a verdict.
    for name in reversed(before):
        values = [_only(row[name]) for row in rows if row.get(name) is not None]
        verdicts = [assessment(name, "", PERSON, value) for value in values]
        is_short = all(
            verdict.word is not None or verdict.score is not None
            for verdict in verdicts
        )
        distinct = {(verdict.word, verdict.score) for verdict in verdicts}
        if name == "id" or not is_short or len(distinct) > _MOST_VALUES:
            break
        # A judge's column of the data ends the results; people give verdicts, too.
        if columns and name.casefold() != "verdict" and is_judges(name):
            break
        columns.append(name)
    return columns[::-1] or before[-1:]


IMPORTER: Final = Importer(
    "label_studio",
    "Label Studio's export as JSON or JSON-MIN: labels, with predictions or columns as judges",
    _sniff,
    _read_records,
    is_log=True,
)
