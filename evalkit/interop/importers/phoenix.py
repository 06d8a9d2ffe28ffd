"""Import Phoenix annotations, as JSON of its API or as rows: LLM is a judge, HUMAN a
label, CODE is counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject, mapping_at
from evalkit.datasets.text import written_value
from evalkit.interop.layouts.assessments import Assessed, merged, read_assessed
from evalkit.interop.layouts.criteria import (
    CODE,
    JUDGE,
    PERSON,
    Assessment,
    Source,
    assessment,
    rater_of,
)
from evalkit.interop.layouts.free_columns import with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_KINDS: Final[Mapping[str, Source]] = {"LLM": JUDGE, "HUMAN": PERSON, "CODE": CODE}
_IDS: Final = (
    "span_id",
    "context.span_id",
    "trace_id",
    "session_id",
    "subject_id",
    "id",
    "example_id",
)
_NAMES: Final = "name", "annotation_name"
_KIND_COLUMN: Final = re.compile(r"annotation_(?P<name>.+)_annotator_kind")
_DETAILS: Final = "_execution_details"
_SCORE: Final = "_score"
"""The ends of the two columns of an evaluator in a data frame of phoenix-evals 2."""
_PARTS: Final = "annotator_kind", "label", "score", "explanation", "error"
_ANNOTATION: Final = "annotation"
_OF_RUN: Final = frozenset(
    {
        *("attributes", "context", "events", "status", "status_code", "status_message"),
        *("name", "span_kind", "parent_id", "start_time", "end_time", "latency_ms"),
        *(
            "error",
            "output",
            "trace_id",
            "prompt_token_count",
            "completion_token_count",
        ),
        *("example_id", "repetition_number", "id", "span_id", "session_id"),
    }
)
"""Columns of a span or a run that are Phoenix's, other than annotations and the data of
the example.
"""
_TEXTS: Final = {
    "prompt": ("input", "attributes.input.value"),
    "response": ("output", "attributes.output.value"),
}


def _sniff(start: Peek) -> bool:
    """Return whether a row has annotations of Phoenix, or is one."""
    row = start.row
    if any(map(_KIND_COLUMN.fullmatch, map(str, row))) or _evaluators(row):
        return True
    if isinstance(row.get("annotations"), list) and not isinstance(
        row.get("data"), dict
    ):
        return any(
            isinstance(item, Mapping) and "annotator_kind" in item
            for item in row["annotations"]
        )
    return (
        "annotator_kind" in row
        and any(name in row for name in _NAMES)
        and any(key in row for key in _IDS)
    )


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each span and judge.

    An annotation is a row, or in the list of its span. Its name is the criterion, and its
    identifier, user or model the rater. A label counts as the verdict before a score.
    """
    units = []
    data: list[Json] = []
    rows = [row for _, row in rows_of(path)]
    kinds = _kinds(rows)
    for index, row in enumerate(rows):
        listed = row.get("annotations")
        if isinstance(listed, list):
            annotations = listed
        elif kinds:
            annotations = [_evaluation(row, name, kind) for name, kind in kinds.items()]
        else:
            annotations = _in_columns(row)
        entries = [_assess(item) for item in annotations if isinstance(item, Mapping)]
        units.append(
            Assessed(_cells(row, index), tuple(item for item in entries if item))
        )
        data.append({} if annotations == [row] else _data(row))
    units = with_raters_in_data(units, data, options)
    return read_assessed(path, merged(units), options)


def _data(row: Json) -> Json:
    """Return the columns of a run that are not Phoenix's."""
    of_evaluators = {
        name + end for name in _evaluators(row) for end in (_SCORE, _DETAILS)
    }
    return {
        name: value
        for name, value in row.items()
        if name not in _OF_RUN | of_evaluators and not str(name).startswith(_ANNOTATION)
    }


def _evaluators(row: Json) -> list[str]:
    """Return the evaluators whose score and details are in columns of a data frame."""
    ends = [str(name) for name in row if str(name).endswith(_DETAILS)]
    names = [name.removesuffix(_DETAILS) for name in ends]
    return [name for name in names if name + _SCORE in row]


def _kinds(rows: Sequence[Json]) -> dict[str, str]:
    """Return the kind of each evaluator of a data frame, which only its scores state."""
    kinds: dict[str, str] = {}
    for row in rows:
        for name in _evaluators(row):
            kind = _object(row[name + _SCORE]).get("kind")
            if isinstance(kind, str):
                kinds.setdefault(
                    name, {"llm": "LLM", "human": "HUMAN"}.get(kind, "CODE")
                )
    return kinds


def _evaluation(row: Json, name: str, kind: str) -> Json:
    """Return what an evaluator of a data frame said about a row, as an annotation."""
    score = _object(row.get(name + _SCORE))
    details = _object(row.get(name + _DETAILS))
    failures = details.get("exceptions")
    failure = (
        failures[-1] if not score and isinstance(failures, list) and failures else ""
    )
    return {**score, "name": name, "annotator_kind": kind, "error": failure}


def _object(cell: Any) -> Json:
    """Return an object, or one that a text shows as JSON or Python; else an empty one."""
    if isinstance(cell, str):
        try:
            cell = written_value(cell)
        except ValueError:
            return {}
    return cell if isinstance(cell, Mapping) else {}


def _in_columns(row: Json) -> list[Json]:
    """Return the annotations in the columns of an experiment's run, or the row if it is
    one annotation.
    """
    names = [
        match["name"] for match in map(_KIND_COLUMN.fullmatch, map(str, row)) if match
    ]
    if not names:
        return [row]
    return [
        {
            "name": name,
            **{part: row.get(f"annotation_{name}_{part}") for part in _PARTS},
        }
        for name in names
    ]


def _cells(row: Json, index: int) -> JsonObject:
    """Return the texts of a span, by the columns or attributes of any version.

    A row of a data frame may have no id: it is a case by its number.
    """
    context = mapping_at(row, "context")
    attributes = row.get("attributes")
    texts = {
        cell: next((row[name] for name in names if row.get(name)), None)
        for cell, names in _TEXTS.items()
    }
    if isinstance(attributes, Mapping):
        for cell, name in (("prompt", "input"), ("response", "output")):
            part = attributes.get(name) or attributes.get(f"{name}.value")
            texts[cell] = part.get("value") if isinstance(part, Mapping) else part
    id_ = next((row[name] for name in _IDS if row.get(name)), context.get("span_id"))
    return {"id": str(index if id_ is None else id_), **texts}


def _assess(annotation: Json) -> Assessment | None:
    """Return the assessment of an annotation; `None` if its kind of annotator is unknown."""
    source = _KINDS.get(str(annotation.get("annotator_kind")).upper())
    if source is None:
        return None
    nested = mapping_at(annotation, "result")

    def part(key: str) -> Any:
        # An object, columns such as `result.score`, or columns without a prefix.
        return nested.get(key, annotation.get(f"result.{key}", annotation.get(key)))

    name = str(
        next((annotation[key] for key in _NAMES if annotation.get(key)), "label")
    )
    metadata = annotation.get("metadata")
    model = metadata.get("model") if isinstance(metadata, Mapping) else None
    usual = rater_of(name, source)
    identifier = annotation.get("user_id") or annotation.get("identifier")
    rater = (model if source == JUDGE else None) or identifier or usual
    score = part("score")
    label = part("label")
    return assessment(
        name,
        rater,
        source,
        label if score is None else score,
        word=label,
        reason=part("explanation"),
        failure=annotation.get("error") or "",
    )


IMPORTER: Final = Importer(
    "phoenix",
    "Phoenix's annotations as JSON or rows: LLM annotations are judges', HUMAN ones labels",
    _sniff,
    _read_records,
    is_log=True,
)
