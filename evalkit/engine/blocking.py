"""The one door from code that waits to code that does not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

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
