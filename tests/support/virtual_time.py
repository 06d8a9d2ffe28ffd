"""An event loop whose time is skipped, not waited for: hours of a limiter pass in milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from evalkit.engine.event_loop import Clock


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._virtual = 0.0
        self._look = self._selector.select
        self._selector.select = self._skip

    def time(self) -> float:
        return self._virtual

    def _skip(self, timeout: float | None) -> Any:
        if timeout is None:
            raise RuntimeError("everybody waits, and nothing is going to happen")
        self._virtual += timeout
        return self._look(0)


def run_virtually(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def virtual_clock() -> Clock:
    return Clock(asyncio.get_running_loop().time, asyncio.sleep)
