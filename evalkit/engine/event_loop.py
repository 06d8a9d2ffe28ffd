"""Waiting: for time to pass, or for something to happen, whichever comes first."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar


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


T = TypeVar("T")


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also where an event loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(coroutine)
    box: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            box.append(_run(coroutine))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="evalkit")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return box[0]


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine without the loop seeing its result: at its end asyncio writes that out in full, unseen."""
    box: list[T] = []

    async def work() -> None:
        box.append(await coroutine)

    asyncio.run(work())
    return box[0]


@contextmanager
def freeze_imports() -> Iterator[None]:
    """Leave what is there now, mostly what was imported, out of collections as long as the block lasts.

    A full collection walks all of it, which takes as long as dozens of answers; what comes into being is collected.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def on_interrupt(stop: Callable[[int], None]) -> Iterator[None]:
    """Call `stop` with the number of each signal in the running event loop, as long as the block lasts.

    Only a process's main thread is told of signals; in any other this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    # What nohup ignores stays ignored.
    before = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, lambda number, _: loop.call_soon_threadsafe(stop, number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
