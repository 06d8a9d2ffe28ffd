"""What a provider's headers say of how soon it will take more."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

LONGEST_REST = 600.0
_KINDS = ("requests", "tokens", "input-tokens", "output-tokens")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def rest(headers: Mapping[str, str], *, now: Callable[[], float] = time.time) -> float:
    """Return the seconds until a provider takes more, by its headers: 0 as long as it has any requests and tokens left.

    Read are OpenAI's `x-ratelimit-remaining-requests` and `x-ratelimit-reset-requests` (a span like `6m0s`),
    Anthropic's `anthropic-ratelimit-requests-remaining` and `…-reset` (a moment, RFC 3339), and the same of tokens.
    """
    found = [0.0]
    for kind in _KINDS:
        for left, reset in (
            (f"x-ratelimit-remaining-{kind}", f"x-ratelimit-reset-{kind}"),
            (f"anthropic-ratelimit-{kind}-remaining", f"anthropic-ratelimit-{kind}-reset"),
        ):
            if headers.get(left, "").strip() in ("0", "0.0"):
                found.append(_seconds(headers.get(reset, ""), now))
    return min(max(found), LONGEST_REST)


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
