"""Render conversations as text: lists of OpenAI or ShareGPT messages."""

from __future__ import annotations

import json
import re
from typing import Any

_SHAREGPT = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant"}
"""Roles by ShareGPT's `from`; other names are kept."""
_HEADING = re.compile(r"^(?=\[[\w .:-]+\]$)", re.MULTILINE)


def is_conversation(value: Any) -> bool:
    """Return whether a value is a list of messages."""
    return isinstance(value, list) and bool(value) and all(is_message(one) for one in value)


def is_message(value: Any) -> bool:
    """Return whether a value is one message: role with content or tool calls, or ShareGPT's from and value."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("role"), str):
        return ("content" in value or "tool_calls" in value) and isinstance(value.get("content"), str | list | None)
    return isinstance(value.get("from"), str) and "value" in value and isinstance(value["value"], str | list | None)


def conversation_text(messages: list[dict[str, Any]]) -> str:
    """Return a conversation as text: a single message as its content, several each under its `[role]`.

    ShareGPT's `human` and `gpt` become `user` and `assistant`. A line that looks like a heading is indented by a space,
    so that no message can imitate one.
    """
    messages = [_openai(one) for one in messages]
    if len(messages) == 1:
        return _content(messages[0])
    return "\n\n".join(f"[{_role(one)}]\n{_HEADING.sub(' ', _content(one))}" for one in messages)


def _openai(message: dict[str, Any]) -> dict[str, Any]:
    if isinstance(message.get("role"), str):
        return message
    who = str(message["from"])
    return {"role": _SHAREGPT.get(who.lower(), who), "content": message["value"]}


def _role(message: dict[str, Any]) -> str:
    name = message.get("name")
    return f"{message['role']}: {name}" if isinstance(name, str) and name else str(message["role"])


def _content(message: dict[str, Any]) -> str:
    content = message.get("content")
    parts = [content] if isinstance(content, str) and content else []
    if isinstance(content, list):
        parts = [_part(one) for one in content]
    calls = message.get("tool_calls")
    parts += [_call(one) for one in calls] if isinstance(calls, list) else []
    return "\n".join(parts)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, dict) else None
    return f"({kind or 'something'} that is not a text)"


def _call(call: Any) -> str:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return f"(calls {json.dumps(call, ensure_ascii=False)})"
    return f"(calls {function.get('name')} with {function.get('arguments')})"
