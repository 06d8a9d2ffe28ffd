"""Read the body of an error: its message and code, whatever form a provider gives it."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from evalkit.core.values import Json
from evalkit.judges.error_mapping import writable

FIRST_ERROR = 400
"""The lowest HTTP status of an error."""
_SHOWN = 200
PAGE = "a web page"
_PAGE = re.compile(rb"\s*(?:<!doctype|<\?xml|<html|<head|<body|<h\d)", re.IGNORECASE)
_UNSEEN = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->", re.DOTALL | re.I)
_TAG = re.compile(r"<[^>]*>")
_LONGEST_PAGE = 2**16
_NO_MESSAGE = "an error without a message"
_WORDS = ("message", "detail", "Message", "errors", "error_msg", "status_msg", "msg")
_CODES = ("code", "error_code")


def start_of(body: bytes, status: int) -> str:
    """Return the beginning of a body that is no JSON, or what it is instead of a text."""
    if not body.strip():
        return f"an empty response with status {status}"
    if not _PAGE.match(body):
        start = body[:_SHOWN].decode("utf-8", "replace")
        return " ".join(start.split())
    page = body[:_LONGEST_PAGE].decode("utf-8", "replace")
    seen_part = _UNSEEN.sub(" ", page)
    words = html.unescape(_TAG.sub(" ", seen_part))
    text = " ".join(words.split())[:_SHOWN]
    return f"{PAGE} with status {status}{': ' * bool(text)}{text}"


def error_of(parsed: Any, status: int = 0) -> tuple[str, str | None] | None:
    """Return the message of an error and its code, which may be `None`; or `None` if a body has
    no error.

    A body with `choices` is an answer: only its field `error` counts.

    Args:
        parsed: The parsed body, in the form of OpenAI, Google, Anthropic, Cloudflare, vLLM,
            llama.cpp or FastAPI.
        status: The HTTP status, or 0. From 400 on, it describes an error without words.
    """
    # Google writes an error as a list of one.
    is_single = isinstance(parsed, list) and len(parsed) == 1
    body = parsed[0] if is_single else parsed
    if not isinstance(body, Mapping):
        return None
    whole = None if body.get("choices") else body
    error = body.get("error") or _other_error(body) or whole
    if not isinstance(error, Mapping):
        if error is None:
            return None
        return (_message(error, status), None)
    message = next(filter(None, (error.get(name) for name in _WORDS)), None)
    code = next((error[name] for name in _CODES if error.get(name) is not None), None)
    # A type without a message says nothing.
    if code is None and message:
        code = error.get("type")
    if not message and code is None:
        if status >= FIRST_ERROR:
            return (_without_words(status), None)
        return None
    name = None if code is None else text_of(code)
    return _message(message or code, status), name


def _other_error(parsed: Json) -> Json | None:
    """Return the error in MiniMax's `base_resp`, whose status is 0 in a good answer."""
    status = parsed.get("base_resp")
    if isinstance(status, Mapping) and status.get("status_code"):
        return status
    return None


def _message(value: object, status: int) -> str:
    """Return a message; of a list of problems, as FastAPI has them, each with its place."""
    if isinstance(value, Mapping):  # as Mistral nests them
        value = value.get("detail") or value.get("message") or value
    if isinstance(value, list) and all(isinstance(part, Mapping) for part in value):
        value = "; ".join(filter(None, map(_problem, value))) or value
    text = text_of(value)
    if text.strip():
        return text
    return _without_words(status)


def _problem(part: Mapping[str, Any]) -> str:
    message = part.get("msg") or part.get("message")
    if not isinstance(message, str):
        return ""
    where = part.get("loc")
    if isinstance(where, list) and where:
        return f"{'.'.join(map(text_of, where))}: {message}"
    return message


def _without_words(status: int) -> str:
    if status:
        return f"{_NO_MESSAGE} (status {status})"
    return _NO_MESSAGE


def text_of(value: object) -> str:
    """Return a value of a body as a text that can be written."""
    try:
        return writable(str(value))
    except (RecursionError, ValueError):  # too deep, or an integer of too many digits
        return _NO_MESSAGE
