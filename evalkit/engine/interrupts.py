"""Ctrl-C, SIGTERM and SIGHUP as a request to stop, not as an exception at an arbitrary line."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
