"""Map provider errors to call errors: retry the call, give it up, or give up the judge."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Container, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from evalkit.core.display import shorten
from evalkit.core.redaction import redact
from evalkit.errors import CallError

LONGEST_MESSAGE = 300

_PREFIX = re.compile(
    r"(?:litellm\.)?\w*(?:Error|Exception|Timeout)\w*(?: Error)?: |\w+Exception - "
)
_NOISE = re.compile(
    r"\bTraceback \(most recent call last\).*|This looks like a bug in LiteLLM.*|Received Model"
    r" Group=.*",
    re.DOTALL,
)
_NO_KEY = re.compile(
    r"missing credentials|missing .{0,30}api.?key|api_key client option must be set|no api.?key",
    re.IGNORECASE,
)
_NO_PROVIDER = re.compile(
    r"LLM Provider NOT provided|unable to map your input to a model", re.IGNORECASE
)
_NO_QUOTA = re.compile(
    r"insufficient_quota|exceeded your current quota|credit balance is too low|billing",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context.?length|context.?window|maximum context|exceed_context_size|exceeds the available"
    r" context|"
    r"prompt is too long|too long to fit|maximum model length|must have less than \d+ tokens",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content.?(?:policy|filter|management)|safety system|usage policy|flagged|moderation",
    re.IGNORECASE,
)
_DISCONNECTED = re.compile(
    r"connection error|cannot connect|connect call failed|connection"
    r" (?:refused|reset|aborted|closed)|"
    r"disconnected|incomplete|not completed|peer closed|name or service not known|getaddrinfo",
    re.IGNORECASE,
)
_GARBLED = re.compile(
    r"jsondecode|expecting value|invalid json|not valid json|unterminated string|unable to (?:get"
    r" json|parse)|"
    r"invalid response object|nonetype|unexpected mimetype|keyerror|expecting ','"
    r" delimiter|validation error",
    re.IGNORECASE,
)


def call_error(error: BaseException) -> CallError:
    """Map an exception to a call error with its kind, a clean message, and whether and when to retry."""
    message = clean_message(str(error))
    wait = retry_after(headers_of(error))
    classes = {kind.__name__ for kind in type(error).__mro__}
    status: Any = getattr(error, "status_code", None)
    status = int(status) if isinstance(status, int) else 0
    text = f"{error} {getattr(error, 'code', None) or ''}"
    for rule in _RULES:
        if (
            not classes.isdisjoint(rule.classes)
            or status in rule.statuses
            or (
                rule.pattern
                and (rule.within is None or status in rule.within)
                and rule.pattern.search(text)
            )
        ):
            retry = wait if rule.retryable else None
            return CallError(
                rule.kind, message, retryable=rule.retryable, retry_after=retry
            )
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
        message = (
            (error.get("message") or error.get("detail"))
            if isinstance(error, dict)
            else error
        )
        return str(message or text)
    except (ValueError, RecursionError):
        return text


def headers_of(error: BaseException) -> Mapping[str, str]:
    """Return the headers of the response that a LiteLLM exception carries, by lowercase name."""
    response = getattr(error, "response", None)
    found: dict[str, str] = {}
    for headers in (
        getattr(response, "headers", None),
        getattr(error, "litellm_response_headers", None),
    ):
        found |= {
            str(name).lower(): str(value) for name, value in dict(headers or {}).items()
        }
    return found


def retry_after(
    headers: Mapping[str, str], *, now: Callable[[], float] = time.time
) -> float | None:
    """Return the seconds that a provider asks to wait, or `None` (RFC 9110, section 10.2.3: seconds or a date)."""
    milliseconds = _seconds(headers.get("retry-after-ms"), now)
    return (
        _seconds(headers.get("retry-after"), now)
        if milliseconds is None
        else milliseconds / 1000
    )


def _seconds(text: str | None, now: Callable[[], float]) -> float | None:
    """Return the seconds in a header: a number, a duration such as `6m0s`, or until a date; `None` if unreadable."""
    text = (text or "").strip()
    spans = _SPAN.findall(text)
    if spans and "".join(number + unit for number, unit in spans) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in spans)
    for read in (float, datetime.fromisoformat, parsedate_to_datetime):
        try:
            value = read(text)
            if isinstance(value, datetime):
                return max(
                    0.0,
                    (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
                    - now(),
                )
        except (ValueError, TypeError, OverflowError):
            continue
        return value if 0 <= value < float("inf") else None
    return None


class _Rule(NamedTuple):
    """An error of these classes or statuses, or whose text matches a pattern, if its status is `within` some."""

    kind: str
    retryable: bool
    classes: tuple[str, ...] = ()
    statuses: Container[int] = ()
    pattern: re.Pattern[str] | None = None
    within: tuple[int, ...] | None = None


# The first match wins: LiteLLM's classes overlap, and some providers' errors arrive as an
# unexpected class.
_RULES = (
    _Rule("not_found", False, pattern=_NO_PROVIDER),
    _Rule("auth", False, pattern=_NO_KEY),
    _Rule("auth", False, ("AuthenticationError", "PermissionDeniedError"), (401, 403)),
    _Rule("not_found", False, ("NotFoundError",), (404,)),
    _Rule("too_long", False, ("ContextWindowExceededError",)),
    _Rule(
        "content_filter", False, ("ContentPolicyViolationError",), (), _FILTERED, (400,)
    ),
    _Rule("timeout", True, ("Timeout", "APITimeoutError", "TimeoutError"), (408,)),
    _Rule("rate_limit", False, pattern=_NO_QUOTA, within=(429,)),
    _Rule("rate_limit", True, ("RateLimitError",), (429,)),
    _Rule("too_long", False, pattern=_TOO_LONG, within=(400, 413, 422)),
    _Rule(
        "bad_request",
        False,
        ("BadRequestError", "UnprocessableEntityError"),
        (400, 405, 413, 415, 422),
    ),
    _Rule(
        "bad_response",
        True,
        ("APIResponseValidationError",),
        (),
        _GARBLED,
        (0, 200, 500),
    ),
    _Rule("connection", True, pattern=_DISCONNECTED, within=(0, 500)),
    _Rule("connection", True, ("APIConnectionError", "ConnectionError")),
    _Rule("server", True, statuses=(409, 425)),
    _Rule("server", True, statuses=range(500, 2**63)),
)


LONGEST_PAUSE = 600.0
_KINDS = ("requests", "tokens", "input-tokens", "output-tokens")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def pause_from_headers(
    headers: Mapping[str, str], *, now: Callable[[], float] = time.time
) -> float:
    """Return the seconds until a provider accepts more calls, from its headers; 0 if requests and tokens remain.

    Reads OpenAI's `x-ratelimit-remaining-requests` and `x-ratelimit-reset-requests` (a duration
    such as `6m0s`), Anthropic's `anthropic-ratelimit-requests-remaining` and `…-reset` (an RFC 3339
    timestamp), and the same headers for tokens.
    """
    pauses = [0.0]
    for kind in _KINDS:
        for left, reset in (
            (f"x-ratelimit-remaining-{kind}", f"x-ratelimit-reset-{kind}"),
            (
                f"anthropic-ratelimit-{kind}-remaining",
                f"anthropic-ratelimit-{kind}-reset",
            ),
        ):
            if headers.get(left, "").strip() in ("0", "0.0"):
                pauses.append(_seconds(headers.get(reset), now) or 0.0)
    return min(max(pauses), LONGEST_PAUSE)
