"""Import Braintrust experiments and logs as JSON: scores by name, of scorers or of human review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import (
    Assessment,
    assessment,
    rater_of,
    source_by_name,
)
from evalkit.interop.layouts.free_columns import with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of, subject
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_OF_SPAN: Final = (
    "span_attributes",
    "root_span_id",
    "is_root",
    "expected",
    "error",
    "origin",
)


def _sniff(start: Peek) -> bool:
    row = start.row
    return (
        isinstance(row.get("scores"), Mapping)
        and ("output" in row or "input" in row)
        and any(key in row for key in _OF_SPAN)
        and "source" not in row["scores"]
    )


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each row and scorer.

    Human review is in the same scores: names that say so, such as `human_quality`, are labels.
    Scorers that are code are counted. A row of a scorer, and one below another, is not an answer.
    """
    rows = [row for _, row in rows_of(path)]
    roots = [row for row in rows if _is_answer(row)]
    reasons = _reasons(rows)
    units = [_assessed_span(row, index, reasons) for index, row in enumerate(roots)]
    data = [_metadata(row) for row in roots]
    if len(roots) < len(rows):
        notes = [f"spans that are no answers, omitted: {len(rows) - len(roots)}"]
    else:
        notes = []
    return read_assessed(
        path, with_raters_in_data(units, data, options), options, notes
    )


def _attributes(row: Json) -> Json:
    attributes = row.get("span_attributes")
    if isinstance(attributes, Mapping):
        return attributes
    return {}


def _is_answer(row: Json) -> bool:
    is_scorer = _attributes(row).get("type") == "score"
    is_below = row.get("is_root") is False or bool(row.get("span_parents"))
    return not is_scorer and not is_below and isinstance(row.get("scores"), Mapping)


def _reasons(rows: Sequence[Json]) -> dict[tuple[str, str], str]:
    """Return the rationale of each scorer's span by its root and name."""
    reasons = {}
    for row in rows:
        if _attributes(row).get("type") != "score":
            continue
        for holder in (row.get("metadata"), row.get("output")):
            if isinstance(holder, Mapping):
                inner = holder.get("metadata", holder)
            else:
                inner = None
            rationale = inner.get("rationale") if isinstance(inner, Mapping) else None
            if isinstance(rationale, str):
                name = str(_attributes(row).get("name"))
                reasons[str(row.get("root_span_id")), name] = rationale
    return reasons


def _metadata(row: Json) -> Json:
    metadata = row.get("metadata")
    if isinstance(metadata, Mapping):
        return metadata
    return {}


def _assessed_span(
    row: Json, index: int, reasons: Mapping[tuple[str, str], str]
) -> Assessed:
    """Return the texts of a span, and its scores.

    `reasons` are by root span and name of a score.
    """
    metadata = _metadata(row)
    cells: JsonObject = {
        "id": str(row.get("id") or row.get("span_id") or index),
        "prompt": subject(row.get("input")),
        "response": subject(row.get("output")),
        "reference": subject(row.get("expected")),
        "model": metadata.get("model"),
        "metadata": dict(metadata),
    }
    error = row.get("error")
    root = str(row.get("root_span_id"))
    entries = [
        _assess(str(name), value, reasons.get((root, str(name))), error)
        for name, value in row["scores"].items()
    ]
    return Assessed(cells, tuple(entries))


def _assess(name: str, value: Any, reason: str | None, error: Any) -> Assessment:
    """Return the assessment of a score; its name shows if a person, code or a judge gave it."""
    source = source_by_name(name)
    rater = rater_of(name, source)
    if isinstance(value, Mapping):
        value = value.get("score")
    # An error explains a missing score only: other scores of the span are valid.
    failure = error if value is None and error else ""
    return assessment(name, rater, source, value, reason=reason, failure=failure)


IMPORTER: Final = Importer(
    "braintrust",
    "Braintrust's experiments or logs as JSON: scorers are judges, human review labels",
    _sniff,
    _read_records,
    is_log=True,
)
