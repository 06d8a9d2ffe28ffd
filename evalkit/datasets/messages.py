"""Read the messages of a conversation, in the forms of several providers, into parts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from evalkit.core.images import protected as without_markers
from evalkit.core.turns import Part, arguments_text, speaker
from evalkit.core.values import Json, frozen
from evalkit.datasets.text import calls_of, openai_message, part_text

_INPUT: Final = frozenset({"user", "system", "developer"})
"""The roles whose messages are not judged: they begin a turn."""
_RESULT: Final = frozenset({"tool", "function", "observation", "ipython"})
_CALLS: Final = frozenset({"tool_use", "tool_call", "function_call"})
_RESULTS: Final = frozenset(
    {"tool_result", "tool_call_response", "function_call_output"}
)
_THOUGHTS: Final = frozenset({"reasoning", "thinking", "redacted_thinking"})
SPAN = "span_id"


@frozen
class Message:
    """The parts of one message, the label of its turn or step, and the span of a trace
    that it is from.
    """

    parts: Sequence[Part]
    label: Any = None
    span: Any = None

    @property
    def is_input(self) -> bool:
        """Whether it holds nothing but texts of a user or the system."""
        return all(
            part.kind == "said" and part.name.partition(" ")[0] in _INPUT
            for part in self.parts
        )

    @property
    def acts(self) -> bool:
        """Whether an agent says or calls something in it."""
        return not self.is_input and any(part.kind != "result" for part in self.parts)


def read_messages(messages: Sequence[Json]) -> list[Message]:
    """Return messages of OpenAI, Anthropic, ShareGPT, Inspect or OpenTelemetry;
    reasoning is omitted.
    """
    tools: dict[str, str] = {}
    return [_read_message(openai_message(dict(message)), tools) for message in messages]


def _read_message(message: Json, tools: dict[str, str]) -> Message:
    """Return a message in parts: what is said, calls of tools, and their results.

    `tools` has the names of tools by the ids of their calls; the calls of this message are added.
    """
    role = str(message["role"])
    content = message.get("content", message.get("parts"))
    listed = content if isinstance(content, list) else [content]
    if content is None:
        listed = []
    # `function_call` is OpenAI's older form of a call
    calls = list(calls_of(message))
    if message.get("function_call"):
        calls.append(message["function_call"])
    # parts that are results say themselves which call they answer
    names_calls = any(_type(part) in _RESULTS for part in listed)
    if role.lower() in _RESULT and not names_calls:
        parts = [_message_as_result(message, role, listed, tools)]
    elif role.lower() == "function_call":
        parts = [_call_part(json_value(content), tools)]
    else:
        parts = [
            *_content_parts(speaker(role, message.get("name")), listed, tools),
            *(_call_part(call, tools) for call in calls),
        ]
    return Message(
        # a message without content still counts as one
        parts or [Part(1, "said", speaker(role), "")],
        message.get("label"),
        message.get(SPAN),
    )


def _type(part: Any) -> str | None:
    if isinstance(part, Mapping):
        return str(part.get("type"))
    return None


def _content_parts(
    author: str, content: Sequence[Any], tools: dict[str, str]
) -> Iterator[Part]:
    """Yield the parts of a message's content.

    Consecutive texts are one part; each call and each result is its own.
    """
    texts: list[str] = []
    for part in content:
        kind = _type(part)
        if kind in _THOUGHTS:
            continue
        if kind not in _CALLS | _RESULTS:
            texts += filter(None, [part_text(part)])
            continue
        if texts:
            yield Part(1, "said", author, "\n".join(texts))
            texts = []
        yield _call_part(part, tools) if kind in _CALLS else _result_part(part, tools)
    if texts:
        yield Part(1, "said", author, "\n".join(texts))


def _call_part(call: Any, tools: dict[str, str]) -> Part:
    """Return a call: of OpenAI (`function` is an object), Inspect (it is a name),
    Anthropic or OpenTelemetry.
    """
    if not isinstance(call, Mapping):
        return Part(1, "call", "", without_markers(arguments_text(call)))
    function = call.get("function")
    body = function if isinstance(function, Mapping) else call
    name = str(body.get("name") or function or "")
    # a result has only the id of its call
    tools[str(call.get("id") or call.get("call_id"))] = name
    arguments = arguments_text(body.get("arguments", body.get("input")))
    return Part(1, "call", name, without_markers(arguments))


def _message_as_result(
    message: Json, role: str, content: Sequence[Any], tools: Mapping[str, str]
) -> Part:
    """Return the result of a tool that is a message of its own, with its error if it failed."""
    tool = (
        message.get("name")
        or message.get("function")
        or tools.get(str(message.get("tool_call_id")))
        or role
    )
    texts = [part_text(part) for part in content]
    if error := message.get("error"):
        texts.append(without_markers(f"error: {arguments_text(error)}"))
    return Part(1, "result", str(tool), "\n".join(texts))


def _result_part(part: Json, tools: Mapping[str, str]) -> Part:
    """Return the result of a tool that is a part of a message."""
    id_ = part.get("tool_use_id") or part.get("id") or part.get("call_id")
    contents = (
        part[key] for key in ("content", "response", "result", "output") if key in part
    )
    content = next(contents, "")
    if isinstance(content, list):
        text = "\n".join(map(part_text, content))
    else:
        text = without_markers(arguments_text(content))
    tool = part.get("name") or tools.get(str(id_)) or "tool"
    return Part(1, "result", str(tool), text)


def json_value(value: Any) -> Any:
    """Return a value that may be JSON as text."""
    try:
        if isinstance(value, str):
            return json.loads(value)
        return value
    except (ValueError, RecursionError):
        return value
