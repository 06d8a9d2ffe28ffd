"""Map provider errors to call errors: retry the call, give it up, or give up the judge."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from evalkit.core.display import shorten
from evalkit.core.redaction import redact
from evalkit.errors import CallError

LONGEST_MESSAGE = 300

_PREFIX = re.compile(r"(?:litellm\.)?\w*(?:Error|Exception|Timeout)\w*(?: Error)?: |\w+Exception - ")
_NOISE = re.compile(
    r"\bTraceback \(most recent call last\).*|This looks like a bug in LiteLLM.*|Received Model Group=.*", re.DOTALL
)
_NO_KEY = re.compile(
    r"missing credentials|missing .{0,30}api.?key|api_key client option must be set|no api.?key", re.IGNORECASE
)
_NO_PROVIDER = re.compile(r"LLM Provider NOT provided|unable to map your input to a model", re.IGNORECASE)
_NO_QUOTA = re.compile(
    r"insufficient_quota|exceeded your current quota|credit balance is too low|billing", re.IGNORECASE
)
_TOO_LONG = re.compile(
    r"context.?length|context.?window|maximum context|exceed_context_size|exceeds the available context|"
    r"prompt is too long",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content.?(?:policy|filter|management)|safety system|usage policy|flagged|moderation", re.IGNORECASE
)
_DISCONNECTED = re.compile(
    r"connection error|cannot connect|connect call failed|connection (?:refused|reset|aborted|closed)|"
    r"disconnected|incomplete|not completed|peer closed|name or service not known|getaddrinfo",
    re.IGNORECASE,
)
_GARBLED = re.compile(
    r"jsondecode|expecting value|invalid json|not valid json|unterminated string|unable to (?:get json|parse)|"
    r"invalid response object|nonetype|unexpected mimetype|keyerror|expecting ',' delimiter|validation error",
    re.IGNORECASE,
)


def call_error(error: BaseException) -> CallError:
    """Map an exception to a call error with its kind, a clean message, and whether and when to retry."""
    message = clean_message(str(error))
    wait = retry_after(headers_of(error))
    for kind, retryable, applies in _RULES:
        if applies(_facts(error)):
            return CallError(kind, message, retryable=retryable, retry_after=wait if retryable else None)
    return CallError("bad_response", message or type(error).__name__, retryable=False)


def clean_message(message: str) -> str:
    """Return a provider's message on one line, without LiteLLM's wrapping and without secrets."""
    text = " ".join(_NOISE.sub("", message).split())
    while (prefix := _PREFIX.match(text)) is not None:
        text = text[prefix.end() :]
    return shorten(redact(writable(_unwrapped(text))), LONGEST_MESSAGE)


def writable(text: str) -> str:
    """Return a text that UTF-8 can encode: JSON may contain unpaired surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _unwrapped(text: str) -> str:
    """Return the message inside an error that is the whole JSON body of a response, or the text itself."""
    try:
        body = json.loads(text)
        error = body.get("error") or body if isinstance(body, dict) else {}
        message = (error.get("message") or error.get("detail")) if isinstance(error, dict) else error
        return str(message or text)
    except (ValueError, RecursionError):
        return text


def headers_of(error: BaseException) -> Mapping[str, str]:
    """Return the headers of the response that a LiteLLM exception carries, by lowercase name."""
    response = getattr(error, "response", None)
    found: dict[str, str] = {}
    for headers in (getattr(response, "headers", None), getattr(error, "litellm_response_headers", None)):
        found |= {str(name).lower(): str(value) for name, value in dict(headers or {}).items()}
    return found


def retry_after(headers: Mapping[str, str], *, now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds that a provider asks to wait, or `None` (RFC 9110, section 10.2.3: seconds or a date)."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return max(0.0, seconds)
    try:
        moment = parsedate_to_datetime(value) if value else None
        if moment is None:
            return None
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, aware.timestamp() - now())
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is None or 0 <= value < float("inf") else None


_Facts = tuple[frozenset[str], int, str]


def _facts(error: BaseException) -> _Facts:
    names = frozenset(kind.__name__ for kind in type(error).__mro__)
    status: Any = getattr(error, "status_code", None)
    text = f"{error} {getattr(error, 'code', None) or ''}"
    return names, status if isinstance(status, int) else 0, text


def _matches(pattern: re.Pattern[str]) -> Callable[[_Facts], bool]:
    return lambda facts: bool(pattern.search(facts[2]))


def _is(*names: str, status: tuple[int, ...] = ()) -> Callable[[_Facts], bool]:
    wanted = frozenset(names)
    return lambda facts: bool(wanted & facts[0]) or facts[1] in status


def _broken_off(facts: _Facts) -> bool:
    return facts[1] in (0, 500) and bool(_DISCONNECTED.search(facts[2]))


def _garbled(facts: _Facts) -> bool:
    names, status, text = facts
    return "APIResponseValidationError" in names or (status in (0, 200, 500) and bool(_GARBLED.search(text)))


def _filtered(facts: _Facts) -> bool:
    names, status, text = facts
    return "ContentPolicyViolationError" in names or (status == 400 and bool(_FILTERED.search(text)))


# The first match wins: LiteLLM's classes overlap, and some providers' errors arrive as an unexpected class.
_RULES: tuple[tuple[str, bool, Callable[[_Facts], bool]], ...] = (
    ("not_found", False, _matches(_NO_PROVIDER)),
    ("auth", False, _matches(_NO_KEY)),
    ("auth", False, _is("AuthenticationError", "PermissionDeniedError", status=(401, 403))),
    ("not_found", False, _is("NotFoundError", status=(404,))),
    ("context_length", False, _is("ContextWindowExceededError")),
    ("content_filter", False, _filtered),
    ("timeout", True, _is("Timeout", "APITimeoutError", "TimeoutError", status=(408,))),
    ("rate_limit", False, lambda facts: facts[1] == 429 and _matches(_NO_QUOTA)(facts)),
    ("rate_limit", True, _is("RateLimitError", status=(429,))),
    ("context_length", False, lambda facts: facts[1] in (400, 413, 422) and _matches(_TOO_LONG)(facts)),
    ("bad_request", False, _is("BadRequestError", "UnprocessableEntityError", status=(400, 405, 413, 415, 422))),
    ("bad_response", True, _garbled),
    ("connection", True, _broken_off),
    ("connection", True, _is("APIConnectionError", "ConnectionError")),
    ("server", True, lambda facts: facts[1] >= 500 or facts[1] in (409, 425)),
)


LONGEST_PAUSE = 600.0
_KINDS = ("requests", "tokens", "input-tokens", "output-tokens")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def pause_from_headers(headers: Mapping[str, str], *, now: Callable[[], float] = time.time) -> float:
    """Return the seconds until a provider accepts more calls, from its headers; 0 if requests and tokens remain.

    Reads OpenAI's `x-ratelimit-remaining-requests` and `x-ratelimit-reset-requests` (a duration such as `6m0s`),
    Anthropic's `anthropic-ratelimit-requests-remaining` and `…-reset` (an RFC 3339 timestamp), and the same headers
    for tokens.
    """
    pauses = [0.0]
    for kind in _KINDS:
        for left, reset in (
            (f"x-ratelimit-remaining-{kind}", f"x-ratelimit-reset-{kind}"),
            (f"anthropic-ratelimit-{kind}-remaining", f"anthropic-ratelimit-{kind}-reset"),
        ):
            if headers.get(left, "").strip() in ("0", "0.0"):
                pauses.append(_seconds(headers.get(reset, ""), now))
    return min(max(pauses), LONGEST_PAUSE)


def _seconds(text: str, now: Callable[[], float]) -> float:
    spans = _SPAN.findall(text)
    if spans and "".join(number + unit for number, unit in spans) == text.strip():
        return sum(float(number) * _UNITS[unit] for number, unit in spans)
    try:
        return max(0.0, float(text))
    except ValueError:
        return _until(text, now)


def _until(text: str, now: Callable[[], float]) -> float:
    try:
        moment = datetime.fromisoformat(text.strip())
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, aware.timestamp() - now())
    except (ValueError, OverflowError):
        return 0.0
