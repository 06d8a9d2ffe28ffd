"""Import results of Vertex's evaluation service: cases with the metrics of each candidate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evalkit.core.errors import DatasetError
from evalkit.core.values import Json, JsonObject
from evalkit.datasets.json_tables import rows_in
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import (
    Assessment,
    assessment,
    rater_of,
    source_by_name,
)
from evalkit.interop.layouts.free_columns import text_cells, with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, load_object
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_CASES: Final = "eval_case_results"
_TEXTS: Final = ("prompt", "reference", "responses")


def _sniff(start: Peek) -> bool:
    return isinstance(start.top.get(_CASES), list)


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each case, candidate and metric; metrics without a model are code."""
    result = load_object(path)
    datasets = [*_objects(result.get("evaluation_dataset"))]
    unread: list[str] = []
    rows = [_rows(dataset, path, unread) for dataset in datasets]
    metadata = result.get("metadata")
    names = metadata.get("candidate_names") if isinstance(metadata, Mapping) else None
    units = []
    data = []
    for position, case in enumerate(_objects(result[_CASES])):
        index = int(case.get("eval_case_index", position))
        for candidate in _objects(case.get("response_candidate_results")):
            number = int(candidate.get("response_index") or 0)
            row = _row(rows, index, number)
            cells: JsonObject = {
                **_texts(row, number),
                "id": str(row.get("eval_case_id") or index),
                "model": _name(names, datasets, number),
            }
            units.append(Assessed(cells, tuple(_said(candidate))))
            data.append({key: row[key] for key in row if key not in _TEXTS})
    return read_assessed(
        path, with_raters_in_data(units, data, options), options, unread
    )


def _objects(value: Any) -> Iterator[Json]:
    if isinstance(value, list):
        yield from (part for part in value if isinstance(part, Mapping))


def _rows(dataset: Json, path: Path, unread: list[str]) -> list[Json]:
    """Return the rows of a dataset: its cases, or its data frame as rows or columns.

    A frame that is no table adds a note to `unread`.
    """
    frame = dataset.get("eval_dataset_df")
    if isinstance(frame, Mapping):
        try:
            return [*rows_in(frame, str(path))]
        except DatasetError as bad:
            unread.append(f"the data frame of the dataset, not read: {bad.what}")
            return []
    listed = dataset.get("eval_cases") or frame
    if listed and not isinstance(listed, list):
        unread.append("the data frame of the dataset, not read: no list of rows")
    return [*_objects(listed)]


def _row(rows: Sequence[Sequence[Json]], index: int, number: int) -> Json:
    """Return the row of a case in the dataset of a candidate, or in the only dataset."""
    # Each candidate has a dataset, or one dataset has the responses of all.
    listed = rows[number if number < len(rows) else 0] if rows else []
    if 0 <= index < len(listed):
        return listed[index]
    return {}


def _texts(row: Json, number: int) -> JsonObject:
    """Return the prompt, the candidate's response and the reference of a case."""
    cells = text_cells({key: _spoken(value) for key, value in row.items()})
    responses = [*_objects(row.get("responses"))]
    # A case of one candidate has one response.
    if responses:
        chosen = responses[number] if number < len(responses) else responses[0]
        cells["response"] = _spoken(chosen)
    return cells


def _spoken(value: Any) -> Any:
    """Return the text of a content with parts, and any other value unchanged."""
    if not isinstance(value, Mapping):
        return value
    if isinstance(value.get("response"), Mapping):
        return _spoken(value["response"])
    parts = [
        str(part["text"]) for part in _objects(value.get("parts")) if part.get("text")
    ]
    return "\n".join(parts) if parts else value


def _name(names: Any, datasets: Sequence[Json], number: int) -> Any:
    """Return the name of a candidate, if there is one."""
    if isinstance(names, list) and number < len(names):
        return names[number]
    if number < len(datasets):
        return datasets[number].get("candidate_name")
    return None


def _said(candidate: Json) -> Iterator[Assessment]:
    """Yield what each metric says about a candidate."""
    results = candidate.get("metric_results")
    for key, result in results.items() if isinstance(results, Mapping) else ():
        if not isinstance(result, Mapping):
            continue
        name = str(result.get("metric_name") or key)
        source = source_by_name(name)
        yield assessment(
            name,
            rater_of(name, source),
            source,
            result.get("score"),
            reason=result.get("explanation"),
            failure=result.get("error_message") or "",
        )


IMPORTER: Final = Importer(
    "vertex",
    "Vertex's EvaluationResult as JSON: metrics are judges, columns named after people labels",
    _sniff,
    _read_records,
    is_log=True,
)
