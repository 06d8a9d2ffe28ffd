"""Convert values and conversations to texts: each conversion (numbers, messages, nulls)
is counted in a note.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any, Final

from evalkit.config import DatasetConfig
from evalkit.core.errors import DatasetError, pasted
from evalkit.core.images import protected
from evalkit.core.tokens import truncate
from evalkit.core.values import Json, JsonObject
from evalkit.datasets.images import (
    are_parts,
    image_text,
    is_image,
    is_reading_images,
)

ABSENT: Final = object()
"""The value of a column that a row does not have."""
_SHAREGPT = {
    "human": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
}
"""Roles by ShareGPT's `from`; other names are kept."""
_HEADING = re.compile(r"^(?=\[[\w .:-]+\]$)", re.MULTILINE)


def written_value(text: str) -> Any:
    """Return the value that a text writes in JSON, or else as Python does, with single quotes.

    Raises:
        ValueError: if it writes none.
    """
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    raise ValueError("neither JSON nor a value of Python")


def is_conversation(value: Any) -> bool:
    """Return whether a value is a list of messages."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(is_message(message) for message in value)
    )


def is_message(value: Any) -> bool:
    """Return whether a value is one message: role with content or tool calls, or
    ShareGPT's from and value.
    """
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("role"), str):
        return ("content" in value or "tool_calls" in value) and isinstance(
            value.get("content"), str | list | None
        )
    return (
        isinstance(value.get("from"), str)
        and "value" in value
        and isinstance(value["value"], str | list | None)
    )


def as_messages(role: str, value: Any) -> list[Any]:
    """Return a text, a message, tool calls or a conversation as messages, of `role`
    where none is named.
    """
    if is_conversation(value):
        return list(value)
    if is_message(value):
        return [value]
    if are_calls(value):
        content = {"content": None, "tool_calls": value}
    else:
        content = {"content": value}
    return [{"role": role, **content}]


def are_calls(value: Any) -> bool:
    """Return whether a value is a list of tool calls, as in a message."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(_function(call), dict) for call in value)
    )


def is_more_than_text(messages: Any) -> bool:
    """Return whether messages have tool calls, or content other than text."""
    return isinstance(messages, list) and any(
        bool(message.get("tool_calls"))
        or message.get("role") == "tool"
        or (
            isinstance(parts := message.get("content"), list)
            and not all(map(_is_text, parts))
        )
        for message in messages
        if isinstance(message, dict)
    )


def _is_text(part: Any) -> bool:
    return _text_of(part) is not None


def _text_of(part: Any) -> str | None:
    """Return the text of a part of a message; `None` if it is not a text, such as a picture."""
    if not isinstance(part, dict):
        if isinstance(part, str):
            return part
        return None
    if part.get("type") == "text" and "text" not in part:
        text = part.get("content")
    else:
        text = part.get("text")
    if isinstance(text, str):
        return text
    return None


def _function(call: Any) -> Any:
    if isinstance(call, dict):
        return call.get("function")
    return None


def conversation_text(messages: list[JsonObject]) -> str:
    """Return a conversation as text: a single message as its content, several each
    under its `[role]`.

    ShareGPT's `human` and `gpt` become `user` and `assistant`. A line that looks like a heading is
    indented by a space, so that no message can imitate one.
    """
    messages = [openai_message(message) for message in messages]
    if len(messages) == 1:
        return _content(messages[0])
    return "\n\n".join(
        f"[{_role(message)}]\n{_HEADING.sub(' ', _content(message))}"
        for message in messages
    )


def openai_message(message: JsonObject) -> JsonObject:
    """Return a message of ShareGPT as one of OpenAI; any other is unchanged."""
    if isinstance(message.get("role"), str):
        return message
    sender = str(message["from"])
    return {"role": _SHAREGPT.get(sender.lower(), sender), "content": message["value"]}


def _role(message: JsonObject) -> str:
    name = message.get("name")
    if isinstance(name, str) and name:
        return f"{message['role']}: {name}"
    return str(message["role"])


def _content(message: JsonObject) -> str:
    content = message.get("content")
    parts = [protected(content)] if isinstance(content, str) and content else []
    if isinstance(content, list):
        parts = [part_text(part) for part in content]
    return "\n".join([*parts, *map(_call, calls_of(message))])


def calls_of(message: Json) -> list[Any]:
    """Return the tool calls of a message; a value that is not a list is one call."""
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        return calls
    if calls:
        return [calls]
    return []


def part_text(part: Any) -> str:
    """Return the text of a part of a message's content, the marker of a picture, or a
    note that it is neither.

    Raises:
        DatasetError: If pictures are read, and this one cannot be used, or it is audio, video or
            unknown.
    """
    text = None if is_image(part) else _text_of(part)
    if text is not None:
        return protected(text)
    if (picture := image_text(part)) is not None:
        return picture
    kind = part.get("type") if isinstance(part, dict) else None
    return f"({kind or 'something'} that is not a text)"


def _call(call: Any) -> str:
    function = _function(call)
    if not isinstance(function, dict):
        return f"(calls {json.dumps(call, ensure_ascii=False)})"
    return f"(calls {function.get('name')} with {function.get('arguments')})"


class NoteCounts:
    """Count notes, each with its first location."""

    def __init__(self) -> None:
        # note -> its count, and its first location
        self._seen: dict[str, tuple[int, str]] = {}

    def add(self, note: str, location: str) -> None:
        """Count one occurrence."""
        count, first = self._seen.get(note, (0, location))
        self._seen[note] = (count + 1, first)

    def clear(self) -> None:
        """Reset."""
        self._seen.clear()

    def notes(self) -> tuple[str, ...]:
        """Return one line per note."""
        return tuple(
            f"{note}: {count} (first: {location})"
            for note, (count, location) in self._seen.items()
        )


AS_TEXT = "numbers and booleans read as text"
EMPTY = "empty {}, judged as they are"
NULL = "{} that are null, read as empty"
SPOKEN = "conversations rendered as text"
CUT = "{} shortened to dataset.max_chars={}, keeping the beginning and the end"
LONG = "{} of more than 50,000 characters, judged in full (see dataset.max_chars)"
LONGEST = 50_000


class SkippedRow(Exception):  # noqa: N818 - not an error: the row is counted and skipped
    """A row without a required text, when such rows are dropped."""


class Texts:
    """Convert the values of one dataset, or of a call that needs `call`, to texts, and
    count interpretations.

    With `rendered`, texts are already converted, so that they may have the markers of pictures.
    """

    def __init__(
        self,
        config: DatasetConfig,
        tally: NoteCounts,
        call: str = "",
        *,
        rendered: bool = False,
    ) -> None:
        self._rendered = rendered
        self._nulls = config.nulls
        self._most = config.max_chars
        self._call = call
        self._tally = tally
        self.short = min(config.max_chars or LONGEST, LONGEST)

    def needed(self, value: Any, field: str, plural: str, location: str) -> str:
        """Return a required text; `plural` is its name in notes.

        Raises:
            DatasetError: If it is null (and nulls are errors), or not a text.
            SkippedRow: If it is null, and such rows are dropped.
        """
        if type(value) is str and 0 < len(value) <= self.short:
            if self._rendered:
                return value
            return protected(value)
        if value is None:
            return self._text_of_null(field, plural, location)
        text = self._read_text(value, field, location)
        if text == "":
            self._tally.add(EMPTY.format(plural), location)
        return self._cut(text, plural, location)

    def optional(self, value: Any, field: str, location: str) -> str | None:
        """Return an optional text; `None` for null and for an empty text."""
        if value is None or value is ABSENT or value == "":
            return None
        if type(value) is str and len(value) <= self.short:
            if self._rendered:
                return value
            return protected(value)
        return (
            self._cut(self._read_text(value, field, location), f"{field}s", location)
            or None
        )

    def name(self, value: Any, field: str, location: str) -> str | None:
        """Return an id or a model name, a number as in JSON; `None` for null and for an
        empty one.
        """
        if type(value) is str:
            return value or None
        if value is None or value is ABSENT:
            return None
        if isinstance(value, str):
            return value
        return self._json_text(value, field, location)

    def _text_of_null(self, field: str, plural: str, location: str) -> str:
        """Return an empty text for a null, if `dataset.nulls` allows it.

        Raises:
            DatasetError: If nulls are refused.
            SkippedRow: If rows with a null are left out.
        """
        if self._nulls == "refuse":
            remedy = 'remove the row, write "" for an empty text, or set dataset.nulls'
            raise DatasetError(
                f"{field} is null",
                where=location,
                remedy=f"pass {self._call}" if self._call else remedy,
            )
        if self._nulls == "leave_out":
            self._tally.add(f"rows dropped because {field} is null", location)
            raise SkippedRow
        self._tally.add(NULL.format(plural), location)
        return ""

    def _read_text(self, value: Any, field: str, location: str) -> str:
        """Return the text of a value: a text, a conversation, pictures, or a number as JSON.

        Raises:
            DatasetError: If it is another list, or an object.
        """
        if isinstance(value, str):
            if self._rendered:
                return value
            return protected(value)
        if is_reading_images() and are_parts(value):
            return "\n".join(map(part_text, value))
        if is_conversation(value) or is_message(value):
            self._tally.add(SPOKEN, location)
            return conversation_text(value if isinstance(value, list) else [value])
        if isinstance(value, bool | int | float):
            self._tally.add(AS_TEXT, location)
        return self._json_text(value, field, location)

    def _json_text(self, value: Any, field: str, location: str) -> str:
        """Return a number, a boolean or another plain value as JSON.

        Raises:
            DatasetError: If it is a list or an object.
        """
        if isinstance(value, dict | list):
            # A remedy with a part that exists: the first entry of a list, or a key.
            if isinstance(value, list):
                kind = "a list"
                part = "0"
            else:
                kind = "an object"
                part = next(iter(value), "key")
            key = f"dataset.fields.{field.partition('.')[0]}"
            if self._call:
                remedy = "pass a text"
            else:
                remedy = f"select a part, such as {pasted(key, f'column.{part}')}"
            raise DatasetError(
                f"{field} is {kind}, not a text", where=location, remedy=remedy
            )
        return json.dumps(value)

    def _cut(self, text: str, plural: str, location: str) -> str:
        if self._most is not None and len(text) > self._most:
            self._tally.add(CUT.format(plural, self._most), location)
            return truncate(text, self._most)
        if len(text) > LONGEST:
            self._tally.add(LONG.format(plural), location)
        return text
