"""Import MLflow traces, one `Trace.to_json` for each line: the root span's output,
judges' and people's assessments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evalkit.core.errors import DatasetError
from evalkit.core.values import Json, JsonObject
from evalkit.datasets.messages import SPAN, json_value
from evalkit.datasets.text import as_messages, written_value
from evalkit.interop.importers.otel_spans import (
    ModelCall,
    conversation_of,
    hexadecimal,
    listed_messages,
)
from evalkit.interop.layouts.judgment_files import Peek, number, rows_of, subject
from evalkit.interop.layouts.layouts import Unit, log_cells, record_of
from evalkit.interop.layouts.records import Importer, Options, ParsedFile, Record

_JUDGE, _PERSON, _CODE = "LLM_JUDGE", "HUMAN", "CODE"
_CLASSES: Final = {
    **dict.fromkeys(("true", "yes", "pass"), "yes"),
    **dict.fromkeys(("false", "no", "fail"), "no"),
}
"""What a judge or a person says of a property: a judge may say "yes" where people say `true`."""

Trace = Json


def _sniff(start: Peek) -> bool:
    info = start.row.get("info")
    if isinstance(info, Mapping):
        return "trace_id" in info and "data" in start.row
    return _is_flat(start.row)


def _is_flat(row: Json) -> bool:
    """Return whether a row is a trace as `search_traces` returns it: with a column for
    each part.
    """
    assessments = _parsed(row.get("assessments"))
    named = isinstance(assessments, list) and all(
        isinstance(assessment, Mapping) and "assessment_name" in assessment
        for assessment in assessments
    )
    return named and "trace_id" in row and not {"request", "spans"}.isdisjoint(row)


def _parsed(cell: Any) -> Any:
    """Return a list or an object that a cell of a table has as a text, in JSON or as
    Python writes it.
    """
    if not isinstance(cell, str):
        return cell
    try:
        return written_value(cell)
    except ValueError:
        return cell


def _trace_of_row(row: Json) -> Trace:
    """Return a trace that may be a row of `search_traces`."""
    if "info" in row or not _is_flat(row):
        return row
    tags = _parsed(row.get("tags"))
    info = {
        "trace_id": row["trace_id"],
        "assessments": _parsed(row["assessments"]),
        "tags": tags if isinstance(tags, Mapping) else {},
    }
    spans = _parsed(row.get("spans"))
    if not isinstance(spans, list) or not all(
        isinstance(span, Mapping) for span in spans
    ):
        attributes = {
            "mlflow.spanInputs": row.get("request"),
            "mlflow.spanOutputs": row.get("response"),
        }
        spans = [{"attributes": attributes}]
    return {"info": info, "data": {"spans": spans}}


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each trace and judge, with the value of one assessment.

    Values are classes if all are yes or no, and otherwise scores. People's feedback is a label;
    expectations are references. If people labeled one assessment, only judges of it are read;
    `options.dimension` selects another. A judge that failed is a failed judgment. Values that are
    no longer valid are omitted, those of code are counted.

    Raises:
        DatasetError: If no judge assessed the traces, or assessments differ in kind and none is
            selected.
    """
    traces = [_trace_of_row(row) for _, row in rows_of(path)]
    if options.answers:
        return ParsedFile([_assessed_trace(trace) for trace in traces])
    valid = [feedback for trace in traces for feedback in _feedback(trace)]
    # (name of the assessment, judge) of every judge's feedback.
    judged = dict.fromkeys(
        (_name(assessment), _source(assessment, "id"))
        for assessment in valid
        if _source(assessment, "type") == _JUDGE
    )
    if not judged:
        raise DatasetError(
            "no trace has an assessment by a judge",
            where=str(path),
            remedy="use traces with LLM_JUDGE",
        )
    # Names of assessments that people gave.
    labeled = dict.fromkeys(
        _name(assessment)
        for assessment in valid
        if _source(assessment, "type") == _PERSON
    )
    # The user's name, or else the only one that people labeled.
    name = options.dimension or (next(iter(labeled)) if len(labeled) == 1 else None)
    # Without a name all judges are read, as there is nothing to compare.
    chosen = [key for key in judged if name in (None, key[0])]
    # judges whose values differ in kind cannot be read together
    kinds = {
        key: _kind(
            [
                assessment
                for assessment in valid
                if (_name(assessment), _source(assessment, "id")) == key
            ]
        )
        for key in chosen
    }
    if (
        not chosen
        # People labeled several properties: only the user knows which one is meant.
        or (len(labeled) > 1 and name is None)
        or len(set(kinds.values())) > 1
    ):
        names = ", ".join(dict.fromkeys(assessed for assessed, _ in judged))
        problem = "has no such assessment" if not chosen else "has several assessments"
        raise DatasetError(
            problem, where=str(path), remedy=f"select one: --label NAME ({names})"
        )
    unit = next(iter(kinds.values()))
    by_source = [source for _, source in chosen]
    judges = {
        # A judge with several assessments needs the name of each, or its records would
        # look like repeats.
        key: key[1] if by_source.count(key[1]) == 1 else f"{key[1]} {key[0]}"
        for key in chosen
    }
    records = [
        record
        for trace in traces
        for record in _records_of_trace(trace, judges, unit, name)
    ]
    counted = {
        "assessments by code, omitted": sum(
            # Code that failed under a judge's name is a failed judgment, and counted there.
            _source(assessment, "type") == _CODE and not _failed(assessment, judged)
            for assessment in valid
        ),
        f"assessments by judges other than '{name}', omitted": sum(
            _source(assessment, "type") == _JUDGE
            and (_name(assessment), _source(assessment, "id")) not in judges
            for assessment in valid
        ),
        "traces that no judge assessed, omitted": (
            len(traces) - len({record.question for record in records})
        ),
    }
    return ParsedFile(
        records,
        notes=tuple(f"{note}: {count}" for note, count in counted.items() if count),
    )


def _feedback(trace: Trace) -> Iterator[Json]:
    """Yield the assessments that are valid and not expectations."""
    for assessment in trace["info"].get("assessments") or ():
        if (
            isinstance(assessment, Mapping)
            and assessment.get("valid", True)
            and "feedback" in assessment
        ):
            yield assessment


def _name(assessment: Json) -> str:
    return str(assessment.get("assessment_name"))


def _source(assessment: Json, part: str) -> str:
    return str((assessment.get("source") or {}).get(f"source_{part}"))


def _value(assessment: Json) -> Any:
    value = (assessment.get("feedback") or {}).get("value")
    # A judge may say yes where a person says true: both are the class yes.
    return _CLASSES.get(str(value).strip().casefold(), value)


def _kind(feedback: Sequence[Json]) -> Unit:
    # A value of None states nothing.
    values = [
        value for assessment in feedback if (value := _value(assessment)) is not None
    ]
    # Only if all values are numbers: a single word makes them classes.
    if values and all(number(value) is not None for value in values):
        return "response"
    return "class"


def _failed(assessment: Json, judged: Mapping[tuple[str, str], None]) -> bool:
    """Return whether code failed under the name of a judge's assessment."""
    error = (assessment.get("feedback") or {}).get("error")
    return bool(error) and any(name == _name(assessment) for name, _ in judged)


def _records_of_trace(
    trace: Trace, judges: Mapping[tuple[str, str], str], unit: Unit, name: str | None
) -> Iterator[Record]:
    """Yield the records of a trace.

    They have a judge's values in the order of their runs, or say that it failed.
    """
    cells = _cells(trace)
    for assessment in _feedback(trace):
        if (
            _source(assessment, "type") == _PERSON
            and (name is None or _name(assessment) == name)
            # Feedback without a value is no label.
            and _value(assessment) is not None
        ):
            cells[f"label.{_source(assessment, 'id')}"] = _value(assessment)
    verdict = "class" if unit == "class" else "score"
    for (assessed, source), judge in judges.items():
        assessments = [
            assessment
            for assessment in _feedback(trace)
            if _name(assessment) == assessed
        ]
        for assessment in assessments:
            error = (assessment.get("feedback") or {}).get("error")
            # A scorer that fails is recorded as code, under the name of the judge's assessment.
            if (_source(assessment, "type"), _source(assessment, "id")) == (
                _JUDGE,
                source,
            ) or (error and _source(assessment, "type") != _PERSON):
                if isinstance(error, Mapping):
                    verdict_cells = {"failure": str(error.get("error_message"))}
                else:
                    verdict_cells = {verdict: _value(assessment)}
                yield record_of(
                    {
                        **cells,
                        **verdict_cells,
                        "judge": judge,
                        "text": assessment.get("rationale"),
                    },
                    cells["id"],
                    unit,
                )


def _cells(trace: Trace) -> JsonObject:
    """Return the cells of a trace's prompt, answer, reference and tags.

    Calls of tools are messages.
    """
    spans = (trace.get("data") or {}).get("spans") or ()
    # The root span has no parent: its input is the prompt, its output the answer.
    root: Json = next((span for span in spans if not span.get("parent_span_id")), {})
    inputs = [_attribute(span, "Inputs") for span in spans]
    # Expectations are references, of which a trace must have exactly one.
    expected = [
        (assessment.get("expectation") or {}).get("value")
        for assessment in trace["info"].get("assessments") or ()
        if "expectation" in assessment
    ]
    prompt, response = (
        subject(_attribute(root, name)) for name in ("Inputs", "Outputs")
    )
    called = [
        message
        for span in spans
        if _attribute(span, "Type") == "TOOL"
        for message in _call_messages(span)
    ]
    # Calls of chat models have the whole conversation, with calls of tools.
    spoken = conversation_of(call for span in spans for call in _model_calls(span))
    # Without them, the spans of tools are put between prompt and answer.
    if called and not spoken:
        spoken = [
            *as_messages("user", prompt),
            *called,
            *as_messages("assistant", response),
        ]
        # The last message is the answer, which is judged at the root span.
        spoken[-1] = {SPAN: hexadecimal(root.get("span_id")), **spoken[-1]}
    cells = {
        "id": str(trace["info"]["trace_id"]),
        "prompt": prompt,
        "response": response,
        "model": next(
            (
                part["model"]
                for part in inputs
                if isinstance(part, Mapping) and part.get("model")
            ),
            None,
        ),
        "reference": subject(expected[0]) if len(expected) == 1 else None,
        "metadata": {
            name: tag
            for name, tag in (trace["info"].get("tags") or {}).items()
            # Tags with this prefix are MLflow's own.
            if not name.startswith("mlflow.")
        },
        "messages": spoken,
    }
    return log_cells(cells, {name: name for name in cells})


def _model_calls(span: Json) -> Iterator[ModelCall]:
    """Yield the call of a chat model that a span is, if its inputs and outputs are messages."""
    inputs = _attribute(span, "Inputs")
    outputs = _attribute(span, "Outputs")
    if _attribute(span, "Type") not in ("CHAT_MODEL", "LLM") or not isinstance(
        inputs, Mapping
    ):
        return
    # An answer in the format of OpenAI's API: the first choice.
    if isinstance(outputs, Mapping) and isinstance(
        choices := outputs.get("choices"), list
    ):
        outputs = [
            choice.get("message")
            for choice in choices[:1]
            if isinstance(choice, Mapping)
        ]
    elif isinstance(outputs, Mapping):
        outputs = outputs.get("messages", [outputs])
    read = listed_messages(inputs.get("messages"))
    # The last message is what the model wrote; those before it may repeat its input.
    written = listed_messages(outputs)[-1:]
    if read and written:
        yield ModelCall(
            int(span.get("start_time_unix_nano") or 0),
            read,
            written,
            hexadecimal(span.get("span_id")),
        )


def _call_messages(span: Json) -> tuple[JsonObject, JsonObject]:
    """Return the call of a tool and its result as messages."""
    name = span.get("name")
    result = _attribute(span, "Outputs")
    id_ = hexadecimal(span.get("span_id"))
    call = {
        "type": "function",
        "function": {"name": name, "arguments": _attribute(span, "Inputs")},
    }
    if isinstance(result, str):
        content = result
    else:
        content = json.dumps(result, ensure_ascii=False)
    # The call has no text of its own, and the result is a message of the tool.
    return {"role": "assistant", "content": None, "tool_calls": [call], SPAN: id_}, {
        "role": "tool",
        "name": name,
        "content": content,
        SPAN: id_,
    }


def _assessed_trace(trace: Trace) -> Record:
    """Return the answer of a trace with people's labels.

    Each judge's verdicts are in the metadata.
    """
    ratings = dict[str, Any]()
    labels = dict[str, Any]()
    people = [
        assessment
        for assessment in _feedback(trace)
        if _source(assessment, "type") == _PERSON
    ]
    # People's feedback on several properties is no label of the answer.
    several = len({_name(assessment) for assessment in people}) > 1
    for assessment in _feedback(trace):
        if _source(assessment, "type") == _JUDGE:
            ratings[f"judge {_source(assessment, 'id')} {_name(assessment)}"] = _value(
                assessment
            )
    for assessment in people:
        if several:
            ratings[f"label {_source(assessment, 'id')} {_name(assessment)}"] = _value(
                assessment
            )
        else:
            labels[f"label.{_source(assessment, 'id')}"] = _value(assessment)
    cells = _cells(trace)
    unit: Unit = "response" if labels and _kind(people) == "response" else "class"
    return record_of(
        {**cells, **labels, "metadata": {**cells["metadata"], **ratings}},
        cells["id"],
        unit,
    )


def _attribute(span: Json, name: str) -> Any:
    """Return the inputs, outputs or type of a span, which are JSON in its attributes."""
    return json_value((span.get("attributes") or {}).get(f"mlflow.span{name}"))


IMPORTER: Final = Importer(
    "mlflow_traces",
    "MLflow traces with assessments, one JSON for each line",
    _sniff,
    _read_records,
    is_log=True,
)
