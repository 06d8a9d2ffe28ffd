"""How long a provider asks to wait, from its headers or from the body of its error."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from evalkit.core.patterns import lazy_pattern
from evalkit.judges.body_fields import fields_in

LONGEST_PAUSE = 600.0
LONGEST_STATED = 366 * 86400.0
"""Seconds; a longer wait is no time that a provider means, so it states nothing."""
_HEADERS = {
    **dict.fromkeys(("retry-after-ms", "x-ms-retry-after-ms"), 0.001),
    **dict.fromkeys(("retry-after", "x-ratelimit-reset-after"), 1.0),
    **dict.fromkeys(("x-retry-after", "x-ratelimit-retry-after"), 1.0),
    "x-ai-ratelimit-retry-after": 1.0,
}
"""The headers that state a wait, with their unit in seconds."""
_REMAINING = lazy_pattern(r"rate-?limit.*-remaining")
_RESETS = (
    "x-ratelimit-reset",
    "x-rate-limit-reset",
    "ratelimit-reset",
    "helicone-ratelimit-reset",
)
_USED_UP = lazy_pattern(r"(?:\br|\bremaining)\s*=\s*0\b")
_RESET = lazy_pattern(r"(?:\bt|\breset)\s*=\s*(\d+)")
"""The parts of a `RateLimit` header, as in the drafts of the IETF."""
_SPAN = lazy_pattern(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_UNIX = 1e9
"""A number of seconds from here on is a time since 1970; a thousand times as many are
milliseconds."""
_AMOUNT = (
    r"\d+(?:\.\d+)?\s*(?:ms|millisecond|second|sec|minute|min|hour|hr|s|m|h)s?(?![a-z])"
)
_ASKED = r"(?:retry|try(?: your request)? again|again|wait(?:ing)?|back ?off|resets?|available)"
_AMOUNTS = lazy_pattern(rf"{_AMOUNT}(?:(?:\s|,|and)*{_AMOUNT})*", re.IGNORECASE)
_IN_WORDS = lazy_pattern(
    rf"{_ASKED}\b[^\d\n]{{0,40}}?(?P<spans>{_AMOUNTS.pattern})",
    re.IGNORECASE,
)
_IN_CHINESE = lazy_pattern(
    r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>毫秒|秒|分钟|小时)\s*(?:之|以)?后"
)
_CHINESE_UNITS = {"毫秒": 0.001, "秒": 1.0, "分钟": 60.0, "小时": 3600.0}
_AT_TIME = lazy_pattern(
    rf"(?:{_ASKED}|until)\b[^\d\n]{{0,30}}?"
    rf"(?P<date>\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)"
    r"\s?(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?",
    re.IGNORECASE,
)
_PART = lazy_pattern(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>m(?:s|illi)|[smh])", re.I)
_FIELDS = {
    **dict.fromkeys(("retryafter", "retryafterseconds", "retryaftersec"), 1.0),
    **dict.fromkeys(("retrydelay", "estimatedtime", "retryinseconds"), 1.0),
    **dict.fromkeys(("retryafterms", "retryaftermillis"), 0.001),
    **dict.fromkeys(("xratelimitreset", "resetat", "resetsat"), 1.0),
}
"""The fields of an error's body that state a wait, in lowercase letters, with their unit in
seconds."""


def retry_after(
    headers: Mapping[str, str], *, now: Callable[[], float] = time.time
) -> float | None:
    """Return the seconds that a provider asks to wait, or `None` if its headers do not say.

    RFC 9110, section 10.2.3, has seconds or a date; providers also send durations, milliseconds
    and Unix times.
    """
    for name, unit in _HEADERS.items():
        # A proxy joins two headers of the same name; the longer wait keeps both.
        parts = re.split(r",\s*(?=[\d.]+\w*\s*(?:,|$))", headers.get(name, ""))
        stated = [seconds_in(part, now) for part in parts]
        waits = [value * unit for value in stated if value is not None]
        longest = _plausible(max(waits, default=None))
        if longest is not None:
            return longest
    return None


def seconds_in(text: str | None, now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds from now that a value states: a number, a duration such as `6m0s`, or a
    time; else `None`.

    Args:
        text: The value; `None` or empty states nothing.
        now: Returns the time in seconds since 1970.
    """
    stated = (text or "").strip()
    if stated.startswith("PT"):  # a duration of ISO 8601
        stated = stated.removeprefix("PT").lower()
    if _AMOUNTS.fullmatch(stated):
        return _sum_of(stated)
    spans = _SPAN.findall(stated)
    # The spans must be the whole text: `6m0s` is a duration, and `2m away` is not.
    if spans and "".join(number + unit for number, unit in spans) == stated:
        return sum(float(number) * _UNITS[unit] for number, unit in spans)
    # From the strictest form to the loosest.
    for read in (float, datetime.fromisoformat, parsedate_to_datetime):
        try:
            value = read(stated)
            if isinstance(value, datetime):
                # A time without a zone is taken as UTC, not as this machine's.
                moment = value if value.tzinfo else value.replace(tzinfo=UTC)
                return max(0.0, moment.timestamp() - now())
        except (ValueError, TypeError, OverflowError):
            continue
        return _from_number(value, now)
    return None


def _from_number(value: float, now: Callable[[], float]) -> float | None:
    if not 0 <= value < float("inf"):
        return None
    # Too small for a time since 1970, so it is a span.
    if value < _UNIX:
        return value
    since_1970 = value / 1000 if value >= 1000 * _UNIX else value
    return max(0.0, since_1970 - now())


def wait_in_body(
    text: str, body: object, *, now: Callable[[], float] = time.time
) -> float | None:
    """Return the seconds that an error's body asks to wait, from its fields or its
    words; else `None`.
    """
    for value, unit in _stated(body):
        seconds = _seconds_of(value, now)
        # Fields before words: a text may name other spans, such as that of a limit.
        if seconds is not None and _plausible(seconds * unit) is not None:
            return seconds * unit
    if (words := _IN_WORDS.search(text)) is not None:
        return _plausible(_sum_of(words["spans"]))
    if (words := _IN_CHINESE.search(text)) is not None:
        return _plausible(float(words["number"]) * _CHINESE_UNITS[words["unit"]])
    if (date := _AT_TIME.search(text)) is not None:
        zone = (date["zone"] or "Z").upper().replace("UTC", "Z")
        return _plausible(seconds_in(date["date"].replace(" ", "T") + zone, now))
    return None


def _plausible(seconds: float | None) -> float | None:
    if seconds is None or seconds > LONGEST_STATED:
        return None
    return seconds


def _sum_of(spans: str) -> float:
    """Return the seconds of amounts such as `1 minute and 5 s`."""
    parts = _PART.finditer(spans)
    return sum(float(part["number"]) * _unit(part["unit"]) for part in parts)


def _unit(letters: str) -> float:
    return _UNITS["ms" if len(letters) > 1 else letters.lower()]


def _stated(body: object) -> Iterator[tuple[object, float]]:
    """Yield the value and the unit, in seconds, of each field that names a wait in an error's
    body.
    """
    for name, value in fields_in(body):
        folded = re.sub(r"[_\s-]", "", name.lower())
        if (unit := _FIELDS.get(folded)) is not None:
            yield value, unit


def _seconds_of(value: object, now: Callable[[], float]) -> float | None:
    if isinstance(value, Mapping):  # a duration of Google's: {"seconds": 1, "nanos": 0}
        value = value.get("seconds")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return seconds_in(str(value), now)


def pause_from_headers(
    headers: Mapping[str, str], *, now: Callable[[], float] = time.time
) -> float:
    """Return the seconds until a provider accepts more calls, from its headers; 0 if some remain.

    Reads OpenAI's `x-ratelimit-remaining-requests` and `x-ratelimit-reset-requests` (a duration
    such as `6m0s`), Anthropic's `anthropic-ratelimit-requests-remaining` and `…-reset` (an RFC 3339
    timestamp), the same headers for other limits and of other providers, and `ratelimit`.
    """
    # Any limit that is used up blocks the next call, so the longest wait counts.
    return min(max(_resets(headers, now), default=0.0), LONGEST_PAUSE)


def wait_for_reset(
    headers: Mapping[str, str], *, now: Callable[[], float] = time.time
) -> float | None:
    """Return the seconds until the limits of a refused call are reset; `None` if its
    headers do not say.
    """
    waits = [*_resets(headers, now)]
    if not waits and not any(map(_REMAINING.search, headers)):
        # The call was refused: a limit without a rest is used up.
        stated = [seconds_in(headers.get(name), now) for name in _RESETS]
        waits = [seconds for seconds in stated if seconds]
    return _plausible(max(waits, default=None))


def _resets(headers: Mapping[str, str], now: Callable[[], float]) -> Iterator[float]:
    """Yield the seconds until each limit that is used up is reset."""
    for name, value in headers.items():
        if name == "ratelimit" and _USED_UP.search(value):
            reset = _RESET.search(value)
            if reset is not None:
                yield float(reset[1])
        elif _REMAINING.search(name) and value.strip() in ("0", "0.0"):
            # The header with the time has the same name, but for one word.
            seconds = seconds_in(headers.get(name.replace("remaining", "reset")), now)
            if seconds:
                yield seconds
