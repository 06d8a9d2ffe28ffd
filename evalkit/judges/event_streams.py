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
        choices = event.get("choices")
        # Only the first choice is asked for; the last event may have none, but the usage.
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, Mapping):
            continue
        delta = choice.get("delta")
        if not isinstance(delta, Mapping) or delta.get("tool_calls"):
            return None
        for name in _TEXTS:
            if isinstance(text := delta.get(name), str):
                message[name] = message.get(name, "") + text
        finish = choice.get("finish_reason") or finish
    if not message or not (done or finish):
        return None
    return {**whole, "choices": [{"message": message, "finish_reason": finish}]}


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
