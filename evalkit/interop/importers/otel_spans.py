"""Read OpenTelemetry spans of generative AI, in OTLP's JSON: each trace's conversation, to judge it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from evalkit.benchmarks.benchmark import Importer
from evalkit.benchmarks.judgment_files import Peek, load_object, peek
from evalkit.benchmarks.layouts import log_cells, record_of
from evalkit.benchmarks.records import Options, ParsedFile, Record
from evalkit.datasets.formats import reader_for
from evalkit.datasets.text import conversation_text
from evalkit.datasets.turns import json_value
from evalkit.errors import DatasetError
from evalkit.interop.spans import ModelCall, conversation_of, hexadecimal, listed_messages
from evalkit.values import Json, JsonObject

_INPUT: Final = "gen_ai.input.messages"
_OUTPUT: Final = "gen_ai.output.messages"
_SYSTEM: Final = "gen_ai.system_instructions"
_SPANS: Final = "resourceSpans"
"""Names of open-telemetry/semantic-conventions-genai, model/gen-ai/registry.yaml."""


def _sniff(start: Peek) -> bool:
    return isinstance(start.row.get(_SPANS) or start.top.get(_SPANS), list)


def _read(path: Path, options: Options) -> ParsedFile:
    """Return a record without a verdict for each trace, or each `gen_ai.conversation.id`.

    Raises:
        DatasetError: If judgments are asked for, or no span has messages.
    """
    if not options.answers:
        remedy = f"judge it: evalkit run dataset.path={path}"
        raise DatasetError("spans have conversations, but no judgments", where=str(path), remedy=remedy)
    conversations: dict[str, list[Json]] = {}
    for span in _spans(path):
        found = _attributes(span.get("attributes"))
        for event in span.get("events") or ():
            found |= _attributes(event.get("attributes"))
        key = str(found.get("gen_ai.conversation.id") or f"tr-{hexadecimal(span.get('traceId'))}")
        conversations.setdefault(key, []).append({**span, "attributes": found})
    records = [record for key, spans in conversations.items() for record in _record(key, spans)]
    if not records:
        remedy = f"record the content of messages ({_INPUT}) where the spans are written"
        raise DatasetError("no span has messages", where=str(path), remedy=remedy)
    without = len(conversations) - len(records)
    return ParsedFile(records, notes=(f"traces without messages, omitted: {without}",) if without else ())


def _spans(path: Path) -> Iterator[Json]:
    lines = [load_object(path)] if peek(path).top else (row for _, row in reader_for("jsonl", path)(path))
    for line in lines:
        for resource in line.get(_SPANS) or ():
            for scope in resource.get("scopeSpans") or ():
                yield from scope.get("spans") or ()


def _attributes(listed: Any) -> JsonObject:
    return {str(one["key"]): _value(one.get("value")) for one in listed or ()}


def _value(value: Any) -> Any:
    """Return a value of OTLP, which names its type."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return None
    [(kind, inner)] = value.items()
    if kind == "arrayValue":
        return [_value(one) for one in inner.get("values") or ()]
    if kind == "kvlistValue":
        return _attributes(inner.get("values"))
    return int(inner) if kind == "intValue" else inner


def _record(key: str, spans: list[Json]) -> Iterator[Record]:
    calls = []
    for span in spans:
        found = span["attributes"]
        system = json_value(found.get(_SYSTEM))
        before = [{"role": "system", "content": system}] if isinstance(system, list) else []
        inputs = listed_messages(json_value(found.get(_INPUT)))
        outputs = listed_messages(json_value(found.get(_OUTPUT)))
        if inputs and outputs:
            start, id_ = int(span.get("startTimeUnixNano") or 0), hexadecimal(span.get("spanId"))
            calls.append(ModelCall(start, [*before, *inputs], outputs, id_))
    if not calls:
        return
    messages = conversation_of(calls)
    models = [one["attributes"].get("gen_ai.request.model") for one in spans]
    cells = {
        "id": key,
        "prompt": next((conversation_text([one]) for one in reversed(messages) if one["role"] == "user"), ""),
        "response": conversation_text([messages[-1]]),
        "model": next((model for model in models if model), None),
        "metadata": {"trace_id": hexadecimal(spans[0].get("traceId"))},
        "messages": messages,
    }
    yield record_of(log_cells(cells, {name: name for name in cells}), key, "response")


IMPORTER: Final = Importer(
    "otel_spans", "OpenTelemetry spans of generative AI, OTLP as JSON", _sniff, _read, is_log=True
)
