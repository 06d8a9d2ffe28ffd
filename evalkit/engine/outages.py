"""Wait while a server cannot be reached, instead of failing every call: a restart is no
fault of the requests.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from evalkit.core.errors import CallError
from evalkit.engine.event_loop import Clock

LOOK_EVERY = 2.0
"""Seconds between two calls that find out whether a server is back."""
_GATEWAY = (502, 503, 504)


class Look:
    """A call's turn to find out whether the server is back; one call to a judge has it at a time.

    Args:
        turns: Held by the call whose turn it is.
    """

    def __init__(self, turns: asyncio.Lock) -> None:
        self._turns = turns
        self._held = False

    def __enter__(self) -> Look:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    async def begin(self) -> None:
        """Wait until no other call looks."""
        await self._turns.acquire()
        self._held = True

    def end(self) -> None:
        """Let another call look; do nothing if it is not this call's turn."""
        if self._held:
            self._held = False
            self._turns.release()


class Outage:
    """Whether a judge's server, which has answered before, cannot be reached now.

    Args:
        clock: The source of time.
        longest: Seconds after which an outage is no longer waited for.
    """

    def __init__(self, clock: Clock, longest: float) -> None:
        self._clock = clock
        self._longest = longest
        self._began: float | None = None
        self._answered: float | None = None
        self._turns = asyncio.Lock()

    def look(self) -> Look:
        """Return a call's turn to look, which begins when the call asks for it."""
        return Look(self._turns)

    @property
    def over(self) -> bool:
        """Whether the server has said something since the outage began."""
        return self._began is None

    def begin(self) -> None:
        """Record that a call failed because of an outage."""
        if self._began is None:
            self._began = self._clock.now()

    def answered(self) -> None:
        """Record that the server has answered a call."""
        self._answered = self._clock.now()
        self._began = None

    def refused(self, error: CallError) -> None:
        """Record an error; one with a status of the server's own ends an outage."""
        said = error.http_status and error.http_status not in _GATEWAY
        if said and error.scope not in ("outage", "loading"):
            self._began = None

    def explains(self, error: CallError, since: float, *, last: bool) -> bool:
        """Return whether a call failed because of an outage.

        Args:
            error: The error of the last attempt.
            since: When the first attempt failed.
            last: Whether a repeated call has no attempts left.
        """
        if self._longest <= 0:
            return False
        if error.scope == "loading":
            return True
        if self._answered is None:
            return False
        if error.scope == "outage":
            return True
        away = error.kind == "connection" or error.http_status in _GATEWAY
        return last and away and error.retryable and self._answered <= since

    def wait(self) -> float:
        """Return the seconds until the next look; 0 if the outage has lasted too long."""
        now = self._clock.now()
        began = self._began
        if began is None:
            began = now
        remaining = began + self._longest - now
        return max(0.0, min(LOOK_EVERY, remaining))

    def describe(self) -> str:
        """Return why calls wait, as a clause."""
        return (
            f"the server cannot be reached; waiting up to {self._longest:g} s"
            " (runner.outage)"
        )
