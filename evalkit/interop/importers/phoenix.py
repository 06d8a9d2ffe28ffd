"""Import Phoenix annotations, as JSON of its API or as rows: LLM is a judge, HUMAN a label, CODE is counted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.assessments import Assessed, merged, read_assessed
from evalkit.interop.layouts.criteria import (
    CODE,
    JUDGE,
    PERSON,
    Assessment,
    Source,
    assessment,
)
from evalkit.interop.layouts.judgment_files import Peek, rows_of
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_KINDS: Final[Mapping[str, Source]] = {"LLM": JUDGE, "HUMAN": PERSON, "CODE": CODE}
_IDS: Final = "span_id", "context.span_id", "trace_id", "session_id", "subject_id", "id"
_NAMES: Final = "name", "annotation_name"
_TEXTS: Final = {
    "prompt": ("input", "attributes.input.value"),
    "response": ("output", "attributes.output.value"),
}


def _sniff(start: Peek) -> bool:
    """Return whether a row has annotations of Phoenix, or is one."""
    row = start.row
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
    for _, row in rows_of(path):
        listed = row.get("annotations")
        annotations = listed if isinstance(listed, list) else [row]
        entries = [_assess(item) for item in annotations if isinstance(item, Mapping)]
        units.append(Assessed(_cells(row), tuple(item for item in entries if item)))
    return read_assessed(path, merged(units), options)


def _cells(row: Json) -> JsonObject:
    """Return the texts of a span, by the columns or attributes of any version."""
    context = row.get("context")
    context = context if isinstance(context, Mapping) else {}
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
    return {"id": str(id_ or row.get("id")), **texts}


def _assess(annotation: Json) -> Assessment | None:
    """Return the assessment of an annotation; `None` if its kind of annotator is unknown."""
    source = _KINDS.get(str(annotation.get("annotator_kind")).upper())
    if source is None:
        return None
    result = annotation.get("result")
    nested: Json = result if isinstance(result, Mapping) else {}

    def part(key: str) -> Any:
        # An object, columns such as `result.score`, or columns without a prefix.
        return nested.get(key, annotation.get(f"result.{key}", annotation.get(key)))

    name = str(
        next((annotation[key] for key in _NAMES if annotation.get(key)), "label")
    )
    metadata = annotation.get("metadata")
    model = metadata.get("model") if isinstance(metadata, Mapping) else None
    usual = name if source != PERSON else "annotator"
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
