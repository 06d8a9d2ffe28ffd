"""A run's access to its store: answers and claims go there in batches, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Generic, TypeVar

from evalkit.core.errors import StoreError
from evalkit.core.protocols import (
    BatchClaimer,
    CompletionCache,
)
from evalkit.core.types import Completion
from evalkit.store.rescue import Rescue

V = TypeVar("V")
R = TypeVar("R")


class QueuedValue(Generic[V, R]):
    """A value that waits for its result.

    Attributes:
        value: The value.
        result: The result for whoever awaits it; canceling it cancels no work.
        ended: The end of the work, canceled or not.
    """

    def __init__(self, value: V, loop: asyncio.AbstractEventLoop) -> None:
        self.value = value
        self.result: asyncio.Future[R] = loop.create_future()
        self.ended: asyncio.Future[R] = loop.create_future()

    def succeed(self, result: R) -> None:
        """Give the result."""
        self.ended.set_result(result)
        if not self.result.done():
            self.result.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Give an error instead of a result."""
        for future in (self.ended, self.result):
            if not future.done():
                future.set_exception(error)
                future.exception()  # mark it as retrieved, so that asyncio does not warn


class ThreadQueue(Generic[V, R]):
    """Hands values to a function in a thread, all that wait at a time, and returns the
    result of each.

    Whoever waits for a result continues in the second step of the event loop after the work: a
    busy loop takes milliseconds for a step.

    Attributes:
        error: The last error of the function; the values of that call get it, too.
    """

    def __init__(self, work: Callable[[list[V]], Sequence[R]]) -> None:
        self._work = work
        self._waiting: list[QueuedValue[V, R]] = []
        # done once no value waits for its result; `None` if none does
        self._empty: asyncio.Future[None] | None = None
        self.error: BaseException | None = None

    def put(self, value: V) -> QueuedValue[V, R]:
        """Return a value with its future result."""
        loop = asyncio.get_running_loop()
        queued = QueuedValue[V, R](value, loop)
        self._waiting.append(queued)
        # While one batch is in the thread, new values wait and form the next batch. So the store
        # is never used by two threads at a time, and many values share one round trip.
        if self._empty is None:
            self._empty = loop.create_future()
            loop.call_soon(self._begin, loop)
        return queued

    async def settle(self) -> None:
        """Wait until no value waits for its result."""
        while self._empty is not None:
            await asyncio.wait([self._empty])

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Work on all waiting values in a thread."""
        batch = self._waiting
        self._waiting = []  # values that arrive meanwhile are of the next batch
        work = partial(copy_context().run, self._work_on, batch, loop)
        try:
            loop.run_in_executor(None, work)
        except RuntimeError as error:  # no thread can be had
            self._end(batch, (), error, loop)

    def _work_on(
        self, batch: list[QueuedValue[V, R]], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Work on a batch, and set its results in the event loop."""
        results: Sequence[R] = ()
        error: BaseException | None = None
        try:
            results = self._work([queued.value for queued in batch])
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._end, batch, results, error, loop)

    def _end(
        self,
        batch: list[QueuedValue[V, R]],
        results: Sequence[R],
        error: BaseException | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Set the results of a batch, and begin the next one."""
        if error is None:
            for queued, result in zip(batch, results, strict=True):
                queued.succeed(result)
        else:
            self.error = error
            for queued in batch:
                queued.fail(error)
        if self._waiting:
            self._begin(loop)
        elif self._empty is not None:
            self._empty.set_result(None)
            self._empty = None


class StoreWriter:
    """Writes a run's answers to its store, off the event loop.

    Args:
        store: The store.
        rescue: What keeps the answers that the store does not take.
    """

    def __init__(
        self,
        store: CompletionCache,
        rescue: Rescue | None = None,
    ) -> None:
        self._store = store
        self._rescue = rescue
        self._queue = ThreadQueue(self._put)

    async def settle(self) -> None:
        """Wait until each answer is written."""
        await self._queue.settle()

    async def keep(self, key: str, model: str, completion: Completion) -> None:
        """Store a completion; it is durable when this returns.

        The answer is paid for, so a canceled caller still waits for the write before the
        cancellation takes effect.

        Raises:
            StoreError: If it cannot be written.
        """
        kept = self._queue.put((key, model, completion))
        try:
            await kept.result
        except asyncio.CancelledError:
            await asyncio.wait([kept.ended])
            raise

    def _put(self, answers: list[tuple[str, str, Completion]]) -> list[None]:
        try:
            self._store.put_many(answers)
        except StoreError:
            if self._rescue is not None:
                self._rescue.add(answers)
            raise
        return [None] * len(answers)


class ClaimQueue:
    """Claims keys and reads their answers, many in one round trip to the store, off the
    event loop.
    """

    def __init__(self, store: CompletionCache, claimer: BatchClaimer) -> None:
        self._store, self._claimer = store, claimer
        self._queue = ThreadQueue(self._exchange)

    async def claim(self, key: str) -> Completion | bool:
        """Claim a key; return the answer if it is stored by now, else whether it is claimed.

        Raises:
            StoreError: If the store fails, or failed when it gave up an earlier claim.
        """
        if self._queue.error is not None:
            raise self._queue.error
        claimed = self._queue.put((key, True))
        try:
            return await claimed.result
        except asyncio.CancelledError:
            # The claim may be granted after its caller is gone; others would wait for it in vain.
            claimed.ended.add_done_callback(partial(self._give_back, key))
            raise

    def release(self, key: str) -> None:
        """Give up a claim soon."""
        self._queue.put((key, False))

    async def settle(self) -> None:
        """Wait until all claims that are over are given up.

        Raises:
            StoreError: If the store failed at that.
        """
        await self._queue.settle()
        if self._queue.error is not None:
            raise self._queue.error

    def _give_back(self, key: str, claimed: asyncio.Future[Completion | bool]) -> None:
        if claimed.exception() is not None:
            return
        is_claimed = claimed.result() is not False
        if is_claimed:
            self.release(key)

    def _exchange(self, values: list[tuple[str, bool]]) -> list[Completion | bool]:
        """Release and claim keys; return the answer to each, or whether it is claimed."""
        keys = [key for key, is_claim in values if is_claim]
        # Releases first: a key that is given up and claimed in one batch is then granted.
        if over := [key for key, is_claim in values if not is_claim]:
            self._claimer.release_many(over)
        granted = self._claimer.claim_many(keys) if keys else set()
        # What is granted may have been answered since the run looked.
        stored = self._store.get_many([*granted]) if granted else {}
        return [stored.get(key, key in granted) for key, _ in values]


class AskedAnswers:
    """The answers in a store that this command has requested."""

    def __init__(self, store: CompletionCache, asked_keys: set[str]) -> None:
        self._store = store
        self._asked = asked_keys

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """Return the stored answers to these keys that this command has requested."""
        requested = [key for key in keys if key in self._asked]
        if requested:
            return self._store.get_many(requested)
        return {}

    def put_many(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        """Store completions."""
        self._store.put_many(answers)

    def claim(self, key: str) -> bool:
        """Claim a key."""
        return self._store.claim(key)

    def release(self, key: str) -> None:
        """Release a claim."""
        self._store.release(key)

    def recent(self, model: str, limit: int = 500) -> Sequence[Completion]:
        """Return a model's last completions."""
        return self._store.recent(model, limit)


def readable(
    store: CompletionCache | None, mode: str, asked_keys: set[str]
) -> CompletionCache | None:
    """Return where stored answers are read; in mode `refresh` only those that this
    command has stored.
    """
    if store is None or mode == "off":
        return None
    if mode == "refresh":
        return AskedAnswers(store, asked_keys)
    return store
