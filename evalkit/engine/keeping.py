"""Answers on their way to the disk: all that have come while one commit was under way share the next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from evalkit.protocols import Store
from evalkit.types import Completion


@runtime_checkable
class KeepsMany(Protocol):
    """What a store may have besides: a way to keep several completions at the price of one."""

    def put_many(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        """Keep completions, each given as (key, model, completion); all are durable when this returns."""
        ...


@dataclass(frozen=True, slots=True)
class _Waiting:
    answer: tuple[str, str, Completion]
    kept: asyncio.Future[None]


class Keeper:
    """Writes a run's answers to its store, away from the event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None

    async def keep(self, key: str, model: str, completion: Completion) -> None:
        """Keep a completion; it is durable when this returns.

        What is paid for is kept also if whoever waits for it is cancelled: that shows only once it is written.

        Raises:
            StoreError: if it could not be written.
        """
        kept = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting((key, model, completion), kept))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        try:
            await asyncio.shield(kept)
        except asyncio.CancelledError:
            await asyncio.wait([kept])
            raise

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            outcome: BaseException | None = None
            try:
                await asyncio.to_thread(self._put, [one.answer for one in batch])
            except BaseException as error:
                outcome = error
            for one in batch:
                _settle(one.kept, outcome)
        self._writing = None

    def _put(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        if isinstance(self._store, KeepsMany):
            self._store.put_many(answers)
            return
        for key, model, completion in answers:
            self._store.put(key, model, completion)


def _settle(kept: asyncio.Future[None], error: BaseException | None) -> None:
    if kept.done():
        return
    if error is None:
        kept.set_result(None)
        return
    kept.set_exception(error)
    kept.exception()  # looked at here, so that nobody else has to
