"""Waiting: for time to pass, or for something to happen, whichever comes first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Clock:
    """How time passes: `now` in seconds, and `pause` to wait for a number of them."""

    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep

    async def pause_unless(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for `seconds` (infinity: for ever), or until the event is set."""
        if seconds == float("inf"):
            await event.wait()
        elif not event.is_set():
            await _first_of(event.wait(), _awaited(self.pause(seconds)))


async def _awaited(what: Awaitable[object]) -> object:
    return await what


async def _first_of(*waits: Coroutine[Any, Any, object]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end
