"""Read OpenTelemetry spans of generative AI, in OTLP's JSON: each trace's conversation,
to judge it.

The conversation of an agent is put together from the calls of models in its trace.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evalkit.core.errors import DatasetError
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.datasets.formats import reader_for
from evalkit.datasets.messages import SPAN, json_value
from evalkit.datasets.text import conversation_text, is_message
from evalkit.interop.layouts.judgment_files import Peek, load_object, peek
from evalkit.interop.layouts.layouts import log_cells, record_of
from evalkit.interop.layouts.records import Importer, Options, ParsedFile, Record

_INPUT: Final = "gen_ai.input.messages"
_OUTPUT: Final = "gen_ai.output.messages"
_SYSTEM: Final = "gen_ai.system_instructions"
_SPANS: Final = "resourceSpans"
"""Names of open-telemetry/semantic-conventions-genai, model/gen-ai/registry.yaml."""


def _sniff(start: Peek) -> bool:
    return isinstance(start.row.get(_SPANS) or start.top.get(_SPANS), list)


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record without a verdict for each trace, or each `gen_ai.conversation.id`.

    Raises:
        DatasetError: If judgments are asked for, or no span has messages.
    """
    if not options.answers:
        remedy = f"judge it: evalkit run dataset.path={path}"
        raise DatasetError(
            "spans have conversations, but no judgments", where=str(path), remedy=remedy
        )
    conversations: dict[str, list[Json]] = {}
    for span in _spans(path):
        attributes = _attributes(span.get("attributes"))
        for event in span.get("events") or ():
            attributes |= _attributes(event.get("attributes"))
        # Spans of one conversation may be in several traces.
        key = str(
            attributes.get("gen_ai.conversation.id")
            or f"tr-{hexadecimal(span.get('traceId'))}"
        )
        conversations.setdefault(key, []).append({**span, "attributes": attributes})
    records = [
        record
        for key, spans in conversations.items()
        for record in _record_of_conversation(key, spans)
    ]
    if not records:
        remedy = (
            f"record the content of messages ({_INPUT}) where the spans are written"
        )
        raise DatasetError("no span has messages", where=str(path), remedy=remedy)
    without = len(conversations) - len(records)
    return ParsedFile(
        records,
        notes=(f"traces without messages, omitted: {without}",) if without else (),
    )


def _spans(path: Path) -> Iterator[Json]:
    lines = (
        [load_object(path)]
        if peek(path).top
        else (row for _, row in reader_for("jsonl", path)(path))
    )
    for line in lines:
        for resource in line.get(_SPANS) or ():
            for scope in resource.get("scopeSpans") or ():
                yield from scope.get("spans") or ()


def _attributes(listed: Any) -> JsonObject:
    return {
        str(attribute["key"]): _value(attribute.get("value"))
        for attribute in listed or ()
    }


def _value(value: Any) -> Any:
    """Return a value of OTLP, which names its type."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return None
    [(kind, inner)] = value.items()
    if kind == "arrayValue":
        return [_value(element) for element in inner.get("values") or ()]
    if kind == "kvlistValue":
        return _attributes(inner.get("values"))
    if kind == "intValue":
        return int(inner)
    return inner


def _record_of_conversation(key: str, spans: list[Json]) -> Iterator[Record]:
    """Yield a record of the conversation in the spans with one key; nothing without messages."""
    calls = []
    for span in spans:
        attributes = span["attributes"]
        system = json_value(attributes.get(_SYSTEM))
        # The instructions come before the messages, as some providers keep them apart.
        if isinstance(system, list):
            before = [{"role": "system", "content": system}]
        else:
            before = []
        inputs = listed_messages(json_value(attributes.get(_INPUT)))
        outputs = listed_messages(json_value(attributes.get(_OUTPUT)))
        if inputs and outputs:
            start = int(span.get("startTimeUnixNano") or 0)
            id_ = hexadecimal(span.get("spanId"))
            calls.append(ModelCall(start, [*before, *inputs], outputs, id_))
    if not calls:
        return
    messages = conversation_of(calls)
    models = [span["attributes"].get("gen_ai.request.model") for span in spans]
    requests = (
        conversation_text([message])
        for message in reversed(messages)
        if message["role"] == "user"
    )
    cells = {
        "id": key,
        # The last request of the user.
        "prompt": next(requests, ""),
        "response": conversation_text([messages[-1]]),
        "model": next((model for model in models if model), None),
        "metadata": {"trace_id": hexadecimal(spans[0].get("traceId"))},
        "messages": messages,
    }
    yield record_of(log_cells(cells, {name: name for name in cells}), key, "response")


@frozen
class ModelCall:
    """One call of a model: when it began, the messages that it read, those that it
    wrote, and its span's id in hex.
    """

    start: int
    inputs: Sequence[Json]
    outputs: Sequence[Json]
    span: str


def conversation_of(calls: Iterable[ModelCall]) -> list[JsonObject]:
    """Return the messages of the last of the longest calls.

    Each has the `span_id` of the call that wrote it.

    An agent sends all earlier messages with each call, so the longest call has the conversation.
    """
    ordered = sorted(calls, key=lambda call: call.start)
    if not ordered:
        return []
    # Of equally long calls, the last one: it has the final answer.
    longest = max(reversed(ordered), key=lambda call: len(call.inputs))
    messages = [dict(message) for message in (*longest.inputs, *longest.outputs)]
    # The message after a call's inputs is the one that it wrote.
    for call in ordered:
        at = len(call.inputs)
        # Only a call whose inputs begin the conversation belongs to it.
        if at < len(messages) and list(call.inputs) == list(longest.inputs[:at]):
            messages[at][SPAN] = call.span
    return messages


def hexadecimal(id_: object) -> str:
    """Return an id of a span or a trace in hexadecimal; MLflow and some exporters write
    it in base64.
    """
    text = str(id_ or "")
    # 16 digits are a span, 32 a trace; anything else may be base64.
    if len(text) in (16, 32) and all(
        char in "0123456789abcdef" for char in text.lower()
    ):
        return text.lower()
    try:
        return b64decode(text, validate=True).hex()
    except (Error, ValueError):
        return text


def listed_messages(value: Any) -> list[JsonObject]:
    """Return messages, each with its parts as content; nothing if any value is not a message."""
    if not isinstance(value, list):
        return []
    messages = [
        {**message, "content": message["parts"]}
        if isinstance(message, dict) and "parts" in message
        else message
        for message in value
    ]
    if all(map(is_message, messages)):
        return messages
    return []


IMPORTER: Final = Importer(
    "otel_spans",
    "OpenTelemetry spans of generative AI, OTLP as JSON",
    _sniff,
    _read_records,
    is_log=True,
)
