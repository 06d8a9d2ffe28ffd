"""Import LangSmith feedback, experiment results and runs as JSON: evaluators are
judges, feedback of people labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject, mapping_at
from evalkit.interop.layouts.assessments import Assessed, merged, read_assessed
from evalkit.interop.layouts.criteria import (
    CODE,
    JUDGE,
    PERSON,
    Assessment,
    Source,
    assessment,
)
from evalkit.interop.layouts.free_columns import with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of, subject
from evalkit.interop.layouts.rater_names import is_labels, is_persons
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_RESULTS: Final = "evaluation_results"
_FEEDBACK: Final = "feedback", "feedbacks"
_MODELS: Final = ("model", "auto_eval")
_BY_API: Final = (
    "feedback sent by the API, read as that of judges: no other is by a model"
)

_OF_EXAMPLE: Final = "metadata", "inputs", "outputs"


def _sniff(start: Peek) -> bool:
    row = start.row
    if start.has("key", "run_id") and ("score" in row or "value" in row):
        return True
    if isinstance(row.get(_RESULTS), Mapping) and "run" in row:
        return True
    return "feedback_stats" in row or (
        "run_type" in row and any(isinstance(row.get(key), list) for key in _FEEDBACK)
    )


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each run and evaluator.

    Feedback from a model or an evaluator is a judge's, and from the page (`app`) a label. Feedback
    of the API is a label if its key says so, and otherwise a judge's if no other is.
    """
    rows = [row for _, row in rows_of(path)]
    feedback = [item for row in rows for item in _feedback(row)]
    modeled = any(_type(item) in _MODELS for item in feedback)
    units = [
        Assessed(
            _cells(row),
            tuple(_assess(item, modeled=modeled) for item in _feedback(row)),
        )
        for row in rows
    ]
    sent = sum(
        _type(item) not in (*_MODELS, "app") and not is_persons(str(item.get("key")))
        for item in feedback
    )
    units = with_raters_in_data(units, [*map(_data, rows)], options, {"id"})
    notes = [f"{_BY_API}: {sent}"] if sent and not modeled else []
    return read_assessed(path, merged(units), options, notes)


def _data(row: Json) -> Json:
    """Return the columns of the example of a result, which may have labels by people.

    A table of feedback may have a column of labels, too.
    """
    if "key" in row and "run_id" in row:
        return {
            name: value
            for name, value in row.items()
            if is_labels(name) and not str(name).startswith(("feedback_source", "user"))
        }
    example = row.get("example")
    parts = (
        [example.get(key) for key in _OF_EXAMPLE]
        if isinstance(example, Mapping)
        else []
    )
    return {
        name: value
        for part in parts
        if isinstance(part, Mapping)
        for name, value in part.items()
    }


def _feedback(row: Json) -> list[Json]:
    """Return the feedback in a row: the row itself, results of evaluators, or
    statistics of a run.
    """
    if "key" in row and "run_id" in row:
        return [row]
    results = row.get(_RESULTS)
    if isinstance(results, Mapping):
        listed = results.get("results")
        entries = [
            {"feedback_source": {"type": _source_of(item)}, **item}
            for item in (listed if isinstance(listed, list) else [])
            if isinstance(item, Mapping)
        ]
        return [*entries, *_run_feedback(row.get("run"))]
    return _run_feedback(row)


def _source_of(result: Json) -> str:
    """Return the source of an evaluator's result; one that copies people's scores is
    named after them.
    """
    if is_persons(str(result.get("key"))):
        return "api"
    return "model"


def _run_feedback(run: Any) -> list[Json]:
    """Return the feedback on a run, or else its means that are of one feedback each."""
    if not isinstance(run, Mapping):
        return []
    for key in _FEEDBACK:
        if isinstance(run.get(key), list):
            return [item for item in run[key] if isinstance(item, Mapping)]
    stats = run.get("feedback_stats")
    if not isinstance(stats, Mapping):
        return []
    return [
        {"key": key, "score": item.get("avg"), "value": _only_value(item)}
        for key, item in stats.items()
        # A mean of several is no verdict.
        if isinstance(item, Mapping) and item.get("n") == 1
    ]


def _only_value(stats: Json) -> Any:
    """Return the word of statistics of one feedback: counts by word."""
    values = stats.get("values")
    if isinstance(values, Mapping):
        return next(iter(values), None)
    return None


def _type(feedback: Json) -> str:
    source = feedback.get("feedback_source")
    if isinstance(source, Mapping):
        return str(source.get("type") or "api")
    # A table has the parts of the source in columns.
    flat = feedback.get("feedback_source.type") or feedback.get("feedback_source_type")
    return str(flat or feedback.get("source") or "api")


def _assess(feedback: Json, *, modeled: bool) -> Assessment:
    """Return the assessment of a feedback.

    `modeled`: some feedback of the file says that a model gave it, so unmarked ones are of code.
    """
    key = str(feedback.get("key"))
    kind = _type(feedback)
    source: Source = CODE
    if kind in _MODELS:
        source = JUDGE
    elif kind == "app" or is_persons(key):
        source = PERSON
    elif not modeled:
        source = JUDGE
    rater = _rater(feedback) if source == PERSON else key
    score = feedback.get("score")
    value = feedback.get("value")
    word = value if isinstance(value, str) else None
    return assessment(
        key,
        rater,
        source,
        value if score is None else score,
        word=word,
        reason=feedback.get("comment"),
    )


def _rater(feedback: Json) -> str:
    named = mapping_at(feedback, "feedback_source")
    user = named.get("user_name") or named.get("user_id") or named.get("ls_user_id")
    return str(user or "annotator")


def _cells(row: Json) -> JsonObject:
    """Return the texts of a run, with the reference of its example."""
    run = row.get("run")
    run = run if isinstance(run, Mapping) else row
    example = mapping_at(row, "example")
    id_ = run.get("run_id") if "key" in run else run.get("id")
    inputs = run.get("inputs") or example.get("inputs")
    expected = example.get("outputs") or row.get("reference_outputs")
    inputs = inputs or run.get("input")
    outputs = run.get("outputs") or run.get("output")
    return {
        "id": str(id_),
        "prompt": subject(inputs),
        "response": subject(outputs),
        "reference": subject(expected),
        "failure": run.get("error"),
    }


IMPORTER: Final = Importer(
    "langsmith",
    "LangSmith's feedback, experiment results or runs as JSON",
    _sniff,
    _read_records,
    is_log=True,
)
