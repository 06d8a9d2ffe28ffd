"""Import Langfuse scores and traces as JSON: evaluators are judges, annotations are labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
    source_by_name,
)
from evalkit.interop.layouts.free_columns import with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of, subject
from evalkit.interop.layouts.rater_names import is_persons
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_SOURCES: Final = ("API", "ANNOTATION", "EVAL")
_SOURCE_NAMES: Final[Mapping[Source, str]] = {
    CODE: "API",
    PERSON: "ANNOTATION",
    JUDGE: "EVAL",
}
"""How Langfuse names who gave a score."""
_NO_VALUE: Final = ("TEXT", "CORRECTION")
"""Types of scores that are texts and no verdicts."""
_SNAKE: Final = re.compile(r"_([a-z])")
_EXPERIMENT: Final = frozenset({"item", "output", "evaluations"})
"""Keys of an item of an experiment that the SDK ran."""
_BY_API: Final = (
    "scores sent by the API, read as those of "
    "judges because no score is of an evaluator"
)


def _is_score(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and "name" in value
        and value.get("source") in _SOURCES
        and any(key in value for key in ("value", "stringValue", "string_value"))
    )


def _sniff(start: Peek) -> bool:
    if start.row.keys() >= _EXPERIMENT:
        return True
    row = _trace_of(start.row)
    if _is_score(row):
        return True
    scores = row.get("scores")
    if not isinstance(scores, list) or "id" not in row or "span_attributes" in row:
        return False
    # A list of traces has the ids of scores.
    only_ids = all(isinstance(score, str) for score in scores)
    has_texts = {"input", "output"} <= row.keys()
    return any(map(_is_score, scores)) or (has_texts and only_ids)


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each trace, or observation if a trace has several, and each evaluator.

    Scores of the source `ANNOTATION` are labels by their author, and those of `EVAL` are judges'.
    Scores of the API are judges' only if there is no other judge, and labels if their name says so.
    """
    rows = [_in_camel_case(_trace_of(row)) for _, row in rows_of(path)]
    scores = [row for row in rows if _is_score(row)]
    traces = [row for row in rows if isinstance(row.get("scores"), list)]
    every = [
        *scores,
        *(score for trace in traces for score in trace["scores"] if _is_score(score)),
    ]
    evaluated = any(score["source"] == "EVAL" for score in every)
    by_observation = _observed(scores)
    units = [
        Assessed(
            {"id": _place(score, by_observation)}, _assess(score, evaluated=evaluated)
        )
        for score in scores
    ]
    units += [_assessed_trace(trace, evaluated=evaluated) for trace in traces]
    # Scores alone have no data.
    data = [*({} for _ in scores), *map(_metadata, traces)]
    units = with_raters_in_data(units, data, options, {"id"})
    sent = sum(
        score["source"] == "API" and not is_persons(str(score["name"]))
        for score in every
    )
    notes = [f"{_BY_API}: {sent}"] if sent and not evaluated else []
    return read_assessed(path, merged(units), options, notes)


def _trace_of(row: Json) -> Json:
    """Return the trace of an item of a dataset run or an experiment, and any other row
    unchanged.
    """
    if row.keys() >= _EXPERIMENT:
        return _experiment_trace(row)
    trace = row.get("trace")
    if not isinstance(trace, Mapping) or not isinstance(trace.get("scores"), list):
        return row
    return {"id": row.get("traceId"), **trace}


def _experiment_trace(row: Json) -> Json:
    """Return an item of an experiment as a trace, whose scores have no source."""
    item = mapping_at(row, "item")
    listed = row["evaluations"] if isinstance(row["evaluations"], list) else []
    return {
        "id": row.get("trace_id") or row.get("traceId") or item.get("id"),
        "input": item.get("input"),
        "output": row["output"],
        "metadata": item.get("metadata"),
        "scores": [
            {"source": _SOURCE_NAMES[source_by_name(str(score.get("name")))], **score}
            for score in listed
            if isinstance(score, Mapping)
        ],
    }


def _in_camel_case(row: Json) -> Json:
    """Return a row of the SDK, whose keys are `trace_id` and `string_value`, with the
    keys of the API.

    Version 3 of its scores names what they are about in a subject.
    """
    subject_of = row.get("subject")
    if isinstance(subject_of, Mapping) and "kind" in subject_of:
        about = {f"{subject_of['kind']}Id": subject_of.get("id")}
        row = {**row, **_in_camel_case({**subject_of, **about, "id": row.get("id")})}
    renamed = {
        _SNAKE.sub(lambda match: match[1].upper(), str(name)): value
        for name, value in row.items()
    }
    # A key in both cases keeps the value of the API's.
    return {**renamed, **row}


def _observed(scores: Iterable[Json]) -> bool:
    """Return whether scores of a trace are about several of its observations."""
    by_trace: dict[Any, set[Any]] = {}
    for score in scores:
        if score.get("observationId"):
            trace = str(score.get("traceId"))
            by_trace.setdefault(trace, set()).add(str(score["observationId"]))
    return any(len(observations) > 1 for observations in by_trace.values())


def _place(score: Json, by_observation: bool) -> str:
    names = ("traceId", "sessionId", "datasetRunId", "experimentId")
    trace = next((score[name] for name in names if score.get(name)), None)
    observation = score.get("observationId")
    if by_observation and observation:
        return f"{trace} {observation}"
    return str(trace or observation or score.get("id"))


def _metadata(trace: Json) -> Json:
    metadata = trace.get("metadata")
    if isinstance(metadata, Mapping):
        return metadata
    return {}


def _assessed_trace(trace: Json, *, evaluated: bool) -> Assessed:
    cells: JsonObject = {
        "id": str(trace.get("id")),
        "prompt": subject(trace.get("input")),
        "response": subject(trace.get("output")),
        "metadata": dict(_metadata(trace)),
    }
    entries = [
        entry
        for item in trace["scores"]
        if isinstance(item, Mapping)
        for entry in _assess(_in_camel_case(item), evaluated=evaluated)
    ]
    return Assessed(cells, tuple(entries))


_BY_SOURCE: Final[Mapping[str, Source]] = {"EVAL": JUDGE, "ANNOTATION": PERSON}


def _assess(score: Any, *, evaluated: bool) -> tuple[Assessment, ...]:
    """Return the assessment of a score; nothing for one without a verdict.

    `evaluated`: some score of the file is marked as an evaluator's, so unmarked ones are of code.
    """
    if not _is_score(score) or score.get("dataType") in _NO_VALUE:
        return ()
    name = str(score["name"])
    source: Source = _BY_SOURCE.get(score["source"], CODE)
    if source == CODE and is_persons(name):
        source = PERSON
    elif source == CODE and not evaluated:
        source = JUDGE
    rater = name
    if source == PERSON:
        rater = str(score.get("authorUserId") or score.get("userId") or "annotator")
    word = score.get("stringValue")
    value = score.get("value")
    # A CSV has an empty word for a flag that is a number only.
    has_word = isinstance(word, str) and bool(word.strip())
    if has_word and score.get("dataType") in ("CATEGORICAL", "BOOLEAN"):
        value = word  # the number is only that of the category
    if isinstance(value, str) and value.casefold() in ("true", "false"):
        value = value.casefold()
    comment = score.get("comment")
    return (assessment(name, rater, source, value, reason=comment),)


IMPORTER: Final = Importer(
    "langfuse",
    "Langfuse's scores or traces as JSON: EVAL scores are judges', ANNOTATION scores labels",
    _sniff,
    _read_records,
    is_log=True,
)
