"""What an OpenAI-compatible server sent, as an object to read or as what went wrong: in the words LiteLLM would use."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from evalkit.errors import CallError
from evalkit.judges.faults import call_error

_THOUGHT = re.compile(r"<(?:think|thinking|budget:thinking)>(.*?)</(?:think|thinking|budget:thinking)>(.*)", re.DOTALL)
_FINISHES = {
    **dict.fromkeys(("length", "max_tokens", "MAX_TOKENS"), "length"),
    **dict.fromkeys(("content_filter", "content_filtered", "refusal", "sensitive", "SAFETY"), "content_filter"),
    **dict.fromkeys(("tool_calls", "tool_use"), "tool_calls"),
    "function_call": "function_call",
}


class RefusedError(Exception):
    """A server's answer that is none: its words, its status, and its headers where `faults` looks for them."""

    def __init__(self, message: str, status: int, headers: Mapping[str, str], code: str | None = None) -> None:
        self.status_code, self.code = status, code
        self.litellm_response_headers = headers
        super().__init__(message)


def answer_in(status: int, body: bytes, headers: Mapping[str, str]) -> Any:
    """Return an answer as an object with the attributes of OpenAI's.

    Raises:
        CallError: if it is none.
    """
    parsed = _parsed(body)
    if status >= 400:
        raise _call_error(status, parsed, body, headers)
    if not isinstance(parsed, Mapping):
        raise CallError("bad_response", f"the answer is not JSON: {_start(body)}", retryable=True)
    if said := _error_of(parsed):
        raise _call_error(_status_in(parsed), parsed, body, headers) from RefusedError(said[0], status, headers)
    try:
        return _normal(json.loads(body, object_hook=_Lenient))
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        raise CallError("bad_response", f"not a chat completion: {_start(body)}", retryable=True) from error


class _Lenient(SimpleNamespace):
    """JSON's objects; what is not there is none."""

    def __init__(self, held: Mapping[str, Any]) -> None:
        super().__init__(**held)

    def __getattr__(self, name: str) -> None:
        return None


def _normal(response: Any) -> Any:
    for choice in response.choices or []:
        message = choice.message
        _split_thoughts(message)
        finish = _FINISHES.get(choice.finish_reason, "stop")
        choice.finish_reason = "tool_calls" if finish == "stop" and message.tool_calls else finish
    return response


def _split_thoughts(message: Any) -> None:
    if message.reasoning_content is None:
        message.reasoning_content = message.reasoning
    found = _THOUGHT.match(message.content or "") if message.reasoning_content is None else None
    if found is not None:
        message.reasoning_content, message.content = found.groups()


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _call_error(status: int, parsed: Any, body: bytes, headers: Mapping[str, str]) -> CallError:
    message, code = _error_of(parsed) or (_start(body), None)
    return call_error(RefusedError(message, status, headers, code))


def _error_of(parsed: Any) -> tuple[str, str | None] | None:
    """Return message and code of an error as OpenAI, vLLM, llama.cpp or FastAPI word it, or none if there is none."""
    if not isinstance(parsed, Mapping):
        return None
    error = parsed.get("error") or (parsed if "choices" not in parsed else None)
    if not isinstance(error, Mapping):
        return None if error is None else (str(error), None)
    message = error.get("message") or error.get("detail")
    if not message and error.get("code") is None:
        return None
    return str(message or error["code"]), None if error.get("code") is None else str(error["code"])


def _status_in(parsed: Mapping[str, Any]) -> int:
    error = parsed.get("error")
    code = error.get("code") if isinstance(error, Mapping) else parsed.get("code")
    return code if isinstance(code, int) else 422


def _start(body: bytes) -> str:
    return body[:200].decode("utf-8", "replace") or "it is empty"
