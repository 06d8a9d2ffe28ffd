"""Import MLflow traces, one `Trace.to_json` for each line: the root span's output,
judges' and people's assessments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject, mapping_of
from evalkit.datasets.messages import SPAN, json_value
from evalkit.datasets.text import as_messages, written_value
from evalkit.interop.importers.otel_spans import (
    ModelCall,
    conversation_of,
    hexadecimal,
    listed_messages,
)
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import (
    CODE,
    JUDGE,
    PERSON,
    Assessment,
    Source,
    assessment,
)
from evalkit.interop.layouts.judgment_files import Peek, number, rows_of, subject
from evalkit.interop.layouts.layouts import Unit, log_cells, record_of
from evalkit.interop.layouts.records import Importer, Options, ParsedFile, Record

_SOURCES: Final[Mapping[str, Source]] = {
    "LLM_JUDGE": JUDGE,
    "AI_JUDGE": JUDGE,
    "HUMAN": PERSON,
    "CODE": CODE,
}
_OTHERS: Final = "assessments by people on other criteria, omitted"
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
        "tags": mapping_of(tags),
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

    People's feedback is a label; expectations are references. `options.dimension` selects an
    assessment. Values that are no longer valid are omitted.
    """
    traces = [_trace_of_row(row) for _, row in rows_of(path)]
    if options.answers:
        return ParsedFile([_assessed_trace(trace) for trace in traces])
    feedback = [item for trace in traces for item in _feedback(trace)]
    judged = dict.fromkeys(
        (_name(item), _rater(item)) for item in feedback if _source(item) == JUDGE
    )
    units = []
    for trace in traces:
        said = [
            entry for item in _feedback(trace) for entry in _said(item, judged, options)
        ]
        units.append(Assessed(_cells(trace), tuple(said)))
    notes: tuple[str, ...] = ()
    name = options.dimension
    labeled = {_name(item) for item in feedback if _source(item) == PERSON}
    # Judges alone assessed it: nobody labeled what the user selects.
    if name not in labeled and any(name == assessed for assessed, _ in judged):
        units = [_without_people(unit) for unit in units]
        others = sum(_source(item) == PERSON for item in feedback)
        notes = (f"{_OTHERS}: {others}",) if others else ()
        options = replace(options, dimension=None, judge=options.judge or name)
    return read_assessed(path, units, options, notes)


def _without_people(unit: Assessed) -> Assessed:
    entries = tuple(entry for entry in unit.entries if entry.source != PERSON)
    return replace(unit, entries=entries)


def _said(
    item: Json, judged: Iterable[tuple[str, str]], options: Options
) -> Iterator[Assessment]:
    """Yield what an item of feedback says.

    A judge that fails is recorded as code, under the name of its assessment.
    """
    name = _name(item)
    source = _source(item)
    error = (item.get("feedback") or {}).get("error")
    failure = str(error.get("error_message")) if isinstance(error, Mapping) else ""
    judges = [judge for assessed, judge in judged if assessed == name]
    if source == CODE and failure and judges:
        for judge in judges:
            yield assessment(name, judge, JUDGE, None, failure=failure)
    elif source is not None:
        # The user maps words as they are in the file.
        said = item["feedback"] if options.winners else {"value": _value(item)}
        value = None if failure else (said or {}).get("value")
        reason = item.get("rationale")
        yield assessment(
            name, _rater(item), source, value, reason=reason, failure=failure
        )


def _feedback(trace: Trace) -> Iterator[Json]:
    """Yield the assessments that are valid and not expectations."""
    for item in trace["info"].get("assessments") or ():
        if isinstance(item, Mapping) and item.get("valid", True) and "feedback" in item:
            yield item


def _name(item: Json) -> str:
    return str(item.get("assessment_name"))


def _source(item: Json) -> Source | None:
    return _SOURCES.get(str((item.get("source") or {}).get("source_type")))


def _rater(item: Json) -> str:
    return str((item.get("source") or {}).get("source_id"))


def _value(item: Json) -> Any:
    value = (item.get("feedback") or {}).get("value")
    # A judge may say yes where a person says true: both are the class yes.
    return _CLASSES.get(str(value).strip().casefold(), value)


def _kind(feedback: Sequence[Json]) -> Unit:
    # A value of None states nothing.
    values = [value for item in feedback if (value := _value(item)) is not None]
    # Only if all values are numbers: a single word makes them classes.
    if values and all(number(value) is not None for value in values):
        return "response"
    return "class"


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
        (item.get("expectation") or {}).get("value")
        for item in trace["info"].get("assessments") or ()
        if "expectation" in item
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
    people = [item for item in _feedback(trace) if _source(item) == PERSON]
    # People's feedback on several properties is no label of the answer.
    several = len({_name(item) for item in people}) > 1
    for item in _feedback(trace):
        if _source(item) == JUDGE:
            ratings[f"judge {_rater(item)} {_name(item)}"] = _value(item)
    for item in people:
        if several:
            ratings[f"label {_rater(item)} {_name(item)}"] = _value(item)
        else:
            labels[f"label.{_rater(item)}"] = _value(item)
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
