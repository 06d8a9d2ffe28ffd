"""One request to one judge, seen through: one call for equal requests, here and in other processes, and retries."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from evalkit.config import RunnerConfig
from evalkit.engine.attempts import LONGEST_RETRY_AFTER, Call, Caller
from evalkit.engine.budget import BudgetReached
from evalkit.engine.collecting import Landed
from evalkit.engine.outcome import Tally
from evalkit.engine.waiting import Clock
from evalkit.errors import CallError
from evalkit.protocols import Judge, Store
from evalkit.redaction import redact
from evalkit.types import Completion, Failure, JudgeRequest, Spent

FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
FIRST_LOOK, LONGEST_LOOK = 0.02, 0.5  # seconds between looks whether another process has its answer


@runtime_checkable
class Claiming(Protocol):
    """What a store may have besides: claims on keys, so that of all runs that use it only one asks at a time."""

    def claim(self, key: str) -> bool:
        """Claim a key, and say whether it is claimed now; false while somebody else has it."""
        ...

    def release(self, key: str) -> None:
        """Let others claim a key that was claimed here."""
        ...

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """Return the stored completions among `keys`."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """A completion, and whether it was had without a call of this request's own."""

    completion: Completion
    stored: bool


class Stopped(Exception):  # noqa: N818
    """The run is being stopped: nothing new is sent."""


class GivenUp(Exception):  # noqa: N818
    """Nothing more is sent, since the run is hopeless: what is not stored is missing."""


def backoff(attempt: int, asked: float | None, draw: Callable[[], float] = random.random) -> float | None:
    """Return the seconds to wait after a failed attempt (1 the first), or none if the provider asks for too long.

    Exponential with full jitter (Brooker, Exponential Backoff and Jitter, AWS 2015); never sooner than asked.
    """
    if asked is not None and asked > LONGEST_RETRY_AFTER:
        return None
    ceiling = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (attempt - 1))
    return ceiling * draw() if asked is None else asked + FIRST_WAIT * draw()


class Sender:
    """Sends a run's requests; `writes` says whether answers are kept, `calls` whether any may be sent at all.

    `claims` is where a request is claimed before it is sent, so that other processes wait for its answer. `spool` is
    the folder for answers that equal requests may ask for again, if they are found nowhere else.
    """

    def __init__(
        self,
        judges: Sequence[Judge],
        store: Store | None,
        runner: RunnerConfig,
        tally: Tally,
        *,
        calls: bool = True,
        claims: Store | None = None,
        clock: Clock,
        changed: Callable[[], None] = lambda: None,
        spool: Path | None = None,
        spent: Spent | None = None,
    ) -> None:
        self._caller = Caller(judges, store, runner, tally, clock, self._unless_over, spent)
        self.lengths = self._caller.lengths
        self._runner, self._tally, self._calls, self._clock, self._changed = runner, tally, calls, clock, changed
        self._claims = claims if isinstance(claims, Claiming) else None
        self._flights: dict[str, asyncio.Future[Completion | Failure]] = {}
        self._landed = Landed(spool)
        self._given_up = asyncio.Event()
        self.out = self._caller.out
        self.stopping = False
        self.stopped: str | None = None

    def check_also(self, judge: int) -> None:
        """Check a judge, too, before the first call to any."""
        self._caller.also_checked = (judge,)

    def give_up(self, why: str) -> None:
        """Send nothing more: what is in flight may finish, what is stored still counts, the rest fails with `why`."""
        self.stopped = why
        self._given_up.set()
        self._caller.lift_limits()

    async def obtain(self, judge: int, request: JudgeRequest, key: str) -> Answer | Failure:
        """Return the answer to a request that is not stored; equal requests of a run share one call.

        Raises:
            JudgeSetupError: if no call to this judge can succeed.
            StoreError: if the answer cannot be kept.
            Stopped: if the run is being stopped.
        """
        if not self._calls:
            return Failure("not_stored", "no stored answer, and store.mode=read_only sends nothing", attempts=0)
        if (flight := self._flights.get(key)) is not None:
            return self._shared(await asyncio.shield(flight))
        if (landed := self._landed.get(key)) is not None:
            return self._shared(landed)
        self._flights[key] = flight = asyncio.get_running_loop().create_future()
        try:
            outcome = await self._once(Call(judge, request, key))
        except BaseException as error:
            # What ends the run ends it now: a place that is free again must not be taken first.
            self.stopping = self.stopping or (isinstance(error, Exception) and not isinstance(error, Stopped))
            flight.set_exception(error if isinstance(error, Exception) else Stopped())
            flight.exception()  # looked at here, so that nobody else has to
            raise
        else:
            told = outcome.completion if isinstance(outcome, Answer) else outcome
            flight.set_result(told)
            # Where answers are claimed, an equal request that comes later finds this one in the store.
            if isinstance(told, Failure) or self._claims is None:
                self._landed.keep(key, told)
            return outcome
        finally:
            del self._flights[key]

    def _shared(self, outcome: Completion | Failure) -> Answer | Failure:
        if isinstance(outcome, Failure):
            return replace(outcome, attempts=0)
        self._tally.stored += 1
        return Answer(outcome, stored=True)

    async def _once(self, call: Call) -> Answer | Failure:
        """See a call through, unless another process does, or has done since this one looked."""
        try:
            if self._claims is None:
                return await self._see_through(call)
            await self._claim(call.key, self._claims)
        except GivenUp:
            return Failure("stopped", str(self.stopped), attempts=0)
        try:
            found = self._claims.get_many([call.key])
            return self._shared(found[call.key]) if found else await self._see_through(call)
        finally:
            self._claims.release(call.key)

    async def _claim(self, key: str, claims: Claiming) -> None:
        wait = FIRST_LOOK
        while not claims.claim(key):
            self._unless_over()
            await self._clock.pause_unless(self._given_up, wait)
            wait = min(2 * wait, LONGEST_LOOK)

    async def _see_through(self, call: Call) -> Answer | Failure:
        while True:
            try:
                return Answer(await self._caller.attempt(call), stored=False)
            except BudgetReached as reached:
                self.stopped = self.stopped or str(reached)
                return Failure("budget", str(reached), attempts=call.attempt - 1)
            except GivenUp:
                return Failure("stopped", str(self.stopped), attempts=call.attempt - 1)
            except CallError as error:
                failure = Failure(error.kind, redact(error.message), attempts=call.attempt)
                wait = backoff(call.attempt, error.retry_after) if error.retryable else None
            if wait is None or call.attempt > self._runner.retries:
                return failure
            if self.stopping:
                raise Stopped
            await self._clock.pause_unless(self._given_up, wait)
            if self._given_up.is_set():
                return failure
            call = replace(call, attempt=call.attempt + 1)
            self._tally.retried += 1
            self._changed()

    def _unless_over(self) -> None:
        if self.stopping:
            raise Stopped
        if self._given_up.is_set():
            raise GivenUp
