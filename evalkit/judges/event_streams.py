"""Read a body that is not JSON as it should be: a stream of events that nobody asked for, or
with a byte that is no text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from evalkit.core.values import JsonObject

_FIELD = b"data:"
_END = b"[DONE]"
_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")
_MOST_EVENTS = 100_000


def completion_in(body: bytes) -> JsonObject | None:
    """Return the chat completion that the events of a body make up; `None` if it is no
    finished stream.

    A stream with an error is that error, so that it is read as one.
    """
    if not body.lstrip().startswith((_FIELD, b":", b"event:")):
        return None
    message: JsonObject = {}
    calls: dict[int, JsonObject] = {}
    whole: JsonObject = {}
    finish: str | None = None
    done = False
    for event in _events(body):
        if event is None:
            done = True
            break
        if event.get("error"):
            return event
        whole |= {name: value for name, value in event.items() if value is not None}
        choice = _first_choice(event)
        if choice is None:
            continue
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            return None
        for name in _TEXTS:
            if isinstance(text := delta.get(name), str):
                message[name] = message.get(name, "") + text
        try:
            _add_calls(calls, delta.get("tool_calls"))
        except ValueError:
            return None
        finish = choice.get("finish_reason") or finish
    if calls:
        message["tool_calls"] = [*calls.values()]
    if not message or not (done or finish):
        return None
    return {**whole, "choices": [{"message": message, "finish_reason": finish}]}


def _first_choice(event: JsonObject) -> Mapping[str, Any] | None:
    """Return the part of the first choice, the only one that is asked for.

    The last event may have none, but the usage, and events of choices that nobody asked for are
    between those of the first.
    """
    choices = event.get("choices")
    if not isinstance(choices, list):
        return None
    for choice in choices:
        if isinstance(choice, Mapping) and choice.get("index") in (0, None):
            return choice
    return None


def _add_calls(calls: dict[int, JsonObject], parts: Any) -> None:
    """Add the parts of tool calls of an event to the calls so far, by their index.

    Raises:
        ValueError: If a part is of another form.
    """
    if parts is None:
        return
    if not isinstance(parts, list):
        raise ValueError("tool calls are no list")
    for position, part in enumerate(parts):
        function = part.get("function") if isinstance(part, Mapping) else None
        if not isinstance(function, Mapping):
            raise ValueError("a tool call has no function")
        index = part.get("index", position)
        name = function.get("name")
        arguments = function.get("arguments")
        are_texts = isinstance(name, str | None) and isinstance(arguments, str | None)
        if not isinstance(index, int) or not are_texts:
            raise ValueError("a tool call has no index or no text")
        # The first part has the id and the name, and all have arguments.
        empty = {"type": "function", "function": {"name": "", "arguments": ""}}
        call = calls.setdefault(index, {"id": part.get("id"), **empty})
        call["function"]["name"] += name or ""
        call["function"]["arguments"] += arguments or ""


def _events(body: bytes) -> Iterator[JsonObject | None]:
    """Yield the parsed events of a stream, and `None` for its end.

    At most `_MOST_EVENTS` lines are read; the first event that is not a JSON object ends the
    reading.
    """
    for line in body.splitlines()[:_MOST_EVENTS]:
        if not line.startswith(_FIELD):
            continue
        data = line.removeprefix(_FIELD).strip()
        if data == _END:
            yield None
            continue
        try:
            event: Any = json.loads(data)
        except (ValueError, RecursionError):
            event = None
        # What is no event leaves a gap in the answer, so the rest is not read.
        if not isinstance(event, dict):
            return
        yield event


def json_in(body: bytes) -> Any:
    """Return the JSON of a body; a byte that is no text costs one character, not the answer.

    Raises:
        ValueError: If it is not JSON.
    """
    try:
        return json.loads(body)
    except UnicodeDecodeError:
        return json.loads(body.decode("utf-8", "replace"))
