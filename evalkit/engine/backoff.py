"""How long to wait before a failed call is repeated."""

from __future__ import annotations

import random
from collections.abc import Callable

from evalkit.core.errors import AccessError, CallError
from evalkit.core.types import Failure

LONGEST_RETRY_AFTER = 600.0
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
NOTABLE = 5.0
"""Seconds from which on a wait is explained."""
GONE = "the server could not be reached for the time of runner.outage"
AFTERWARDS = "run again then: stored answers are kept"
LATER = "start it and run again: stored answers are kept"
_MOST = 1e9
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def backoff(
    attempt: int, retry_after: float | None, draw: Callable[[], float] = random.random
) -> float | None:
    """Return the seconds to wait after a failed attempt.

    `None` if the provider asks for too long a wait.

    Exponential backoff with full jitter (Brooker, "Exponential Backoff and Jitter", AWS, 2015).

    Args:
        attempt: The number of the failed attempt, from 1.
        retry_after: The shortest wait in seconds, if the provider asked for one.
        draw: Returns a random number in [0, 1).
    """
    if retry_after is not None and retry_after > LONGEST_RETRY_AFTER:
        return None
    ceiling = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (attempt - 1))
    if retry_after is None:
        # Full jitter: calls that failed together must not come back together.
        return ceiling * draw()
    # Never earlier than asked, and a little spread, for the same reason.
    return retry_after + FIRST_WAIT * draw()


def too_long(error: CallError) -> str | None:
    """Return that a provider asks for a longer wait than a run waits, as a clause;
    `None` if it does not.
    """
    wait = error.retry_after
    if not error.retryable or wait is None or wait <= LONGEST_RETRY_AFTER:
        return None
    return f"the provider asks to wait {_about(wait)} before the next call"


def unavailable(why: str, failure: Failure, remedy: str) -> AccessError:
    """Return the error of a provider that cannot be called for longer than a run waits."""
    return AccessError(f"{why} ({failure.message})", remedy=remedy, kind=failure.kind)


def _about(seconds: float) -> str:
    """Return a time in its two largest units, rounded up to minutes."""
    left = 60 * -int(-min(seconds, _MOST) // 60)
    parts = []
    for size, unit in _UNITS:
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])


def asked_to_wait(error: CallError, wait: float | None) -> str:
    """Return why a call waits, as a clause; nothing for a short wait."""
    if wait is None or wait < NOTABLE:
        return ""
    if error.retry_after is not None:
        return f"the provider asked to wait {wait:.0f} s ({error.kind})"
    return f"waiting {wait:.0f} s after an error ({error.kind})"
