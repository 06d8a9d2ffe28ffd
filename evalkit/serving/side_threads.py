"""Run functions outside an event loop, in threads that are used again."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, TypeVar, cast

IDLE_THREADS = 8
"""How many threads wait for more work; others end with their work."""

T = TypeVar("T")
Work = Callable[[], None]

_idle: deque[SimpleQueue[Work]] = deque()
"""The queues of threads that wait. A thread offers its queue again after each piece of work."""

# A fork has none of the threads of its parent.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


async def aside(work: Callable[..., T], *arguments: Any) -> T:
    """Return what a function returns, which runs in a thread that does nothing else meanwhile.

    Unlike those of `asyncio.to_thread`, the thread does not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def deliver(value: T | None, error: BaseException | None) -> None:
        if result.done():  # canceled
            return
        if error is None:
            result.set_result(cast(T, value))
        else:
            result.set_exception(error)

    def run() -> None:
        value = None
        error: BaseException | None = None
        try:
            value = work(*arguments)
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(deliver, value, error)

    # A thread would have context variables of its own.
    context = copy_context()
    _in_thread(lambda: context.run(run))
    return await result


def _in_thread(work: Work) -> None:
    """Give work to a thread that waits, or to a new one.

    The event loop waits until a new thread runs, which takes long on a busy machine.
    """
    try:
        waiting = _idle.pop()  # the last one that ended: its memory is still warm
    except IndexError:
        waiting = SimpleQueue()
        threading.Thread(
            target=_serve, args=(waiting,), name="evalkit-aside", daemon=True
        ).start()
    waiting.put(work)


def _serve(waiting: SimpleQueue[Work]) -> None:
    """Do what comes through a queue, until enough other threads wait."""
    while True:
        work = waiting.get()
        work()
        # It may hold a whole question, which nobody needs while the thread waits.
        del work
        if len(_idle) >= IDLE_THREADS:
            return
        _idle.append(waiting)
