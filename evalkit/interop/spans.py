"""Put the conversation of an agent together from the calls of models in its trace."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Iterable, Sequence
from typing import Any

from evalkit.datasets.text import is_message
from evalkit.datasets.turns import SPAN
from evalkit.values import Json, JsonObject, frozen


@frozen
class ModelCall:
    """One call of a model: when it began, the messages that it read, those that it wrote, and its span's id in hex."""

    start: int
    inputs: Sequence[Json]
    outputs: Sequence[Json]
    span: str


def conversation_of(calls: Iterable[ModelCall]) -> list[JsonObject]:
    """Return the messages of the last of the longest calls, each with the `span_id` of the call that wrote it.

    An agent sends all earlier messages with each call, so the longest call has the conversation.
    """
    ordered = sorted(calls, key=lambda call: call.start)
    if not ordered:
        return []
    longest = max(reversed(ordered), key=lambda call: len(call.inputs))
    messages = [dict(one) for one in (*longest.inputs, *longest.outputs)]
    for call in ordered:
        at = len(call.inputs)
        if at < len(messages) and list(call.inputs) == list(longest.inputs[:at]):
            messages[at][SPAN] = call.span
    return messages


def hexadecimal(id_: object) -> str:
    """Return an id of a span or a trace in hexadecimal; MLflow and some exporters write it in base64."""
    text = str(id_ or "")
    if len(text) in (16, 32) and all(char in "0123456789abcdef" for char in text.lower()):
        return text.lower()
    try:
        return b64decode(text, validate=True).hex()
    except (Error, ValueError):
        return text


def listed_messages(value: Any) -> list[JsonObject]:
    """Return messages, each with its parts as content; nothing if any value is not a message."""
    if not isinstance(value, list):
        return []
    found = [{**one, "content": one["parts"]} if isinstance(one, dict) and "parts" in one else one for one in value]
    return found if all(map(is_message, found)) else []
