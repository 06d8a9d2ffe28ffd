"""Clocks, signals and event loops: wait for a time or an event, and run coroutines anywhere."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from evalkit.core.values import frozen


@frozen
class Clock:
    """The source of time: `now` returns seconds, and `pause` waits for a number of seconds."""

    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep

    async def pause_unless(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for `seconds`, which may be infinite, or until the event is set."""
        if seconds == float("inf"):
            await event.wait()
        elif not event.is_set():
            waits = [
                asyncio.ensure_future(wait)
                for wait in (event.wait(), self.pause(seconds))
            ]
            try:
                done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)
            # An error of the clock must not be lost.
            for wait in done:
                wait.result()


T = TypeVar("T")


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to completion, even if an event loop is already running, as in a notebook."""
    if not _is_in_event_loop():
        return _run(coroutine)
    # A running loop cannot be entered again, so the coroutine gets a loop in another thread.
    threads = ThreadPoolExecutor(1, thread_name_prefix="evalkit")
    try:
        return threads.submit(_run, coroutine).result()
    finally:
        # The result is here already, or Ctrl-C came; do not wait for the thread either way.
        threads.shutdown(wait=False)


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine without returning its result to the loop: asyncio would format
    the whole result when it ends.
    """
    box: list[T] = []

    async def work() -> None:
        box.append(await coroutine)

    asyncio.run(work())
    return box[0]


@contextmanager
def freeze_imports() -> Iterator[None]:
    """Keep existing objects, mostly imported modules, out of garbage collection within the block.

    A full collection visits all of them, which takes as long as dozens of answers. New objects are
    still collected.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)
)


_running: list[Callable[[int], None]] = []


@contextmanager
def on_interrupt(stop: Callable[[int], None]) -> Iterator[None]:
    """Call `stop` with the number of each signal that arrives within the block, in the
    running event loop.

    Only the main thread of a process receives signals; `interrupt` works in any thread.
    """
    loop = asyncio.get_running_loop()

    def deliver(number: int) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(stop, number)

    _running.append(deliver)
    try:
        with handled_signals(deliver):
            yield
    finally:
        _running.remove(deliver)


def interrupt(number: int) -> bool:
    """Interrupt what runs in this process as a signal does; return whether anything does."""
    # A copy: a run in another thread may end meanwhile.
    for deliver in (running := [*_running]):
        deliver(number)
    return bool(running)


@contextmanager
def handled_signals(handle: Callable[[int], None]) -> Iterator[None]:
    """Call `handle` with the number of each of `SIGNALS` that arrives within the block, if this is
    the main thread.

    Other threads cannot set handlers, so for them nothing changes. The earlier handlers are
    restored at the end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    # Signals that nohup ignores stay ignored.
    before = {
        number: handler
        for number, handler in handlers.items()
        if handler not in (signal.SIG_IGN, None)
    }
    # Restored when the block ends: a library must not keep the signals of its program.
    for number in before:
        signal.signal(number, lambda number, _: handle(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
