"""Send one request to one judge: retry it, and share one call among equal requests of this and other processes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evalkit.config import RunnerConfig
from evalkit.core.redaction import redact
from evalkit.engine.budget import AnswerLengths, Budget, BudgetReached, Reservation
from evalkit.engine.event_loop import Clock
from evalkit.engine.progress import Tally
from evalkit.engine.rate_limits import JudgeLimit, Turn
from evalkit.engine.requests import CompletedCalls
from evalkit.engine.shared_limits import SharedLimits
from evalkit.errors import CallError, EvalkitError
from evalkit.judges.error_mapping import clean_message
from evalkit.judges.responses import sane
from evalkit.protocols import BatchClaimer, ClaimChecker, CompletionCache, Judge
from evalkit.results import Spent
from evalkit.types import Completion, Failure, JudgeRequest


@dataclass(frozen=True, slots=True)
class _Waiting:
    answer: tuple[str, str, Completion]
    kept: asyncio.Future[None]


class StoreWriter:
    """Writes a run's answers to its store, off the event loop."""

    def __init__(self, store: CompletionCache) -> None:
        self._store = store
        self._queue: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None

    async def keep(self, key: str, model: str, completion: Completion) -> None:
        """Store a completion; it is durable when this returns.

        The answer is paid for, so a canceled caller still waits for the write before the cancellation takes effect.

        Raises:
            StoreError: If it cannot be written.
        """
        kept = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting((key, model, completion), kept))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        try:
            await asyncio.shield(kept)
        except asyncio.CancelledError:
            await asyncio.wait([kept])
            raise

    async def _write(self) -> None:
        while self._queue:
            batch, self._queue = self._queue, []
            outcome: BaseException | None = None
            try:
                await asyncio.to_thread(self._store.put_many, [one.answer for one in batch])
            except BaseException as error:
                outcome = error
            for one in batch:
                _settle(one.kept, outcome)
        self._writing = None


def _settle(kept: asyncio.Future[None], error: BaseException | None) -> None:
    if kept.done():
        return
    if error is None:
        kept.set_result(None)
        return
    kept.set_exception(error)
    kept.exception()  # mark it as retrieved, so that asyncio does not warn


LONGEST_RETRY_AFTER = 600.0
_TOO_LITTLE = "runner.budget_usd leaves too little for a complete answer"
# After these errors the provider may have done the work, and may bill it.
_MAYBE_BILLED = ("timeout", "connection", "bad_response")


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the judge at an index, with its content key; the first `attempt` is 1."""

    judge: int
    request: JudgeRequest
    key: str
    attempt: int = 1


class Caller:
    """Makes the calls of a run.

    Attributes:
        out: The tasks with a call in flight, to the provider or to the disk.
        lengths: The answer lengths per judge.
        also_checked: The judges to check before the first call to any judge.

    Args:
        judges: The judges of the run.
        store: Where to store answers; `None` to not store them.
        runner: The concurrency, timeout, retries and budget.
        tally: The counts to update.
        clock: The source of time.
        allowed: Raises an exception if a call with this content key must not be made now.
        spent: The budget spent so far, shared with other runs.
        shared: The limits that workers on the store share.
    """

    def __init__(
        self,
        judges: Sequence[Judge],
        store: CompletionCache | None,
        runner: RunnerConfig,
        tally: Tally,
        clock: Clock,
        allowed: Callable[[str], None],
        spent: Spent | None = None,
        shared: SharedLimits | None = None,
    ) -> None:
        self._judges, self._runner, self._tally = judges, runner, tally
        self._writer = None if store is None else StoreWriter(store)
        self._limits = [JudgeLimit(judge, runner, clock, shared) for judge in judges]
        self._slots = asyncio.Semaphore(runner.concurrency)
        self._budget = Budget(runner, spent, None if shared is None else shared.budget(runner))
        self.close = self._budget.close
        self.lengths = AnswerLengths()
        self._ready: set[int] = set()
        self._allowed = allowed
        self.out: set[asyncio.Task[Any] | None] = set()
        self.also_checked: tuple[int, ...] = ()
        """Judges that may be called later: a problem with one must show before anything is paid."""

    async def attempt(self, call: Call) -> Completion:
        """Make one call and return its answer, which is stored unless it is a refusal.

        Raises:
            CallError: If the call fails.
            BudgetReached: If the cap leaves no room for the call.
            JudgeSetupError: If no call to this judge can succeed.
            StoreError: If the answer cannot be stored.
        """
        await self._prepare(call.judge)
        call, reservation = await self._reserve(call)
        cost: float | None = 0.0
        task = asyncio.current_task()
        try:
            async with self._slots, self._limits[call.judge].turn(call.request) as turn:
                self._allowed(call.key)
                self._tally.count_sent(call.attempt)
                cost = None
                self.out.add(task)
                completion = replace(await self._answer(call, turn), attempts=call.attempt)
            # The slot is free again by now: writing to disk must not delay the next call.
            cost = completion.cost_usd
            self.lengths.observe(call.judge, completion)
            if reservation.limited and completion.finish_reason == "length":
                self._tally.count_paid(completion)
                raise BudgetReached(f"{_TOO_LITTLE}: an answer was cut off at {call.request.max_tokens:,} tokens")
            await self._keep(call, completion)
        except CallError as error:
            cost = None if error.kind in _MAYBE_BILLED else 0.0
            if reservation.limited and error.kind == "bad_request":
                self.lengths.unlimited.add(call.judge)
                raise BudgetReached(
                    f"{_TOO_LITTLE}, and the judge does not accept a token limit ({error.message})"
                ) from error
            raise
        finally:
            self.out.discard(task)
            await self._budget.settle(reservation, cost)
            self._tally.budget_left = self._budget.left
        self._tally.count_paid(completion)
        return completion

    def lift_limits(self) -> None:
        """Let waiting calls through, once no call may be sent any more."""
        for limit in self._limits:
            limit.lift()

    async def _answer(self, call: Call, turn: Turn) -> Completion:
        limit, judge = self._limits[call.judge], self._judges[call.judge]
        try:
            async with asyncio.timeout(self._runner.timeout) as deadline:
                completion = await _completed(judge, call.request)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            seconds = f"{self._runner.timeout:g}"
            raise CallError("timeout", f"no answer within {seconds} s (runner.timeout)", retryable=True) from error
        except CallError as error:
            if _throttled(error):
                limit.throttled(turn)
                self._tally.throttled += 1
            if error.retry_after is not None and error.retry_after <= LONGEST_RETRY_AFTER:
                limit.pause(error.retry_after)
            raise
        limit.answered(turn, call.request, completion.usage)
        if (seconds_asked := getattr(judge, "rest", 0.0)) > 0:
            limit.pause(seconds_asked)
        return completion

    async def _keep(self, call: Call, completion: Completion) -> None:
        if self._writer is not None and completion.refusal is None:
            try:
                await self._writer.keep(call.key, self._judges[call.judge].spec.model, completion)
            finally:  # also if this call is canceled
                self._tally.keep(call.key)

    async def _prepare(self, judge: int) -> None:
        for one in (judge, *self.also_checked):
            prepare = getattr(self._judges[one], "prepare", None)
            if prepare is not None and one not in self._ready:
                await prepare()
                self._ready.add(one)

    async def _reserve(self, call: Call) -> tuple[Call, Reservation]:
        """Reserve the cost of a call; return the call, limited if necessary, and the reservation."""
        limit = self.lengths.limit(call.judge, call.request)
        limited = replace(call, request=replace(call.request, max_tokens=limit))
        least = None if limit is None else self._ceiling(limited)
        reservation = await self._budget.reserve(self._ceiling(call), least)
        return limited if reservation.limited else call, reservation

    def _ceiling(self, call: Call) -> float | None:
        ceiling = getattr(self._judges[call.judge], "ceiling", None)
        if self._runner.budget_usd is None or ceiling is None:
            return None
        cost: float | None = ceiling(call.request)
        return cost


async def _completed(judge: Judge, request: JudgeRequest) -> Completion:
    """Return a judge's sanitized completion; an error in the judge's own code fails one call, never the run."""
    try:
        return sane(await judge.complete(request))
    except EvalkitError:
        raise
    except Exception as error:
        message = f"the judge failed on this request ({type(error).__name__}: {clean_message(str(error))})"
        raise CallError("bad_response", message, retryable=True) from error


def _throttled(error: CallError) -> bool:
    busy = error.kind == "server" and (error.retry_after is not None or "overloaded" in error.message.lower())
    return busy or (error.kind == "rate_limit" and error.retryable)


FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
FIRST_LOOK, LONGEST_LOOK = 0.02, 0.5  # seconds between checks whether another process has stored the answer


@dataclass(frozen=True, slots=True)
class Answer:
    """A completion, and whether it was obtained without a call for this request."""

    completion: Completion
    stored: bool


class RunStopped(Exception):  # noqa: N818
    """Raised if the run is stopping: nothing new is sent."""


class RunAborted(Exception):  # noqa: N818
    """Raised if the run is given up: nothing more is sent, and answers that are not stored are missing."""


class ClaimLost(Exception):  # noqa: N818
    """Raised if a claim ended before its request was sent: another process may be making the call."""


def backoff(attempt: int, retry_after: float | None, draw: Callable[[], float] = random.random) -> float | None:
    """Return the seconds to wait after a failed attempt; `None` if the provider asks for too long a wait.

    Exponential backoff with full jitter (Brooker, "Exponential Backoff and Jitter", AWS, 2015).

    Args:
        attempt: The number of the failed attempt, from 1.
        retry_after: The shortest wait in seconds, if the provider asked for one.
        draw: Returns a random number in [0, 1).
    """
    if retry_after is not None and retry_after > LONGEST_RETRY_AFTER:
        return None
    ceiling = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (attempt - 1))
    return ceiling * draw() if retry_after is None else retry_after + FIRST_WAIT * draw()


@dataclass(frozen=True, slots=True)
class _Asked:
    key: str
    granted: asyncio.Future[Completion | bool]


class ClaimQueue:
    """Claims keys and reads their answers, many in one round trip to the store, off the event loop."""

    def __init__(self, store: CompletionCache, claimer: BatchClaimer) -> None:
        self._store, self._claimer = store, claimer
        self._asked: list[_Asked] = []
        self._over: list[str] = []
        self._working: asyncio.Task[None] | None = None
        self._error: BaseException | None = None

    async def claim(self, key: str) -> Completion | bool:
        """Claim a key; return the answer if it is stored by now, else whether it is claimed.

        Raises:
            StoreError: If the store fails, or failed when it gave up an earlier claim.
        """
        if self._error is not None:
            raise self._error
        self._asked.append(asked := _Asked(key, asyncio.get_running_loop().create_future()))
        self._begin()
        return await asked.granted

    def release(self, key: str) -> None:
        """Give up a claim soon."""
        self._over.append(key)
        self._begin()

    async def settle(self) -> None:
        """Wait until all claims that are over are given up.

        Raises:
            StoreError: If the store failed at that.
        """
        while self._working is not None:
            await asyncio.wait([self._working])
        if self._error is not None:
            raise self._error

    def _begin(self) -> None:
        if self._working is None:
            self._working = asyncio.create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._asked or self._over:
                asked, over, self._asked, self._over = self._asked, self._over, [], []
                try:
                    granted, found = await asyncio.to_thread(self._exchange, over, [one.key for one in asked])
                except BaseException as error:
                    self._error = error
                    for one in asked:
                        _fail(one.granted, error)
                    continue
                for one in asked:
                    if not one.granted.done():
                        one.granted.set_result(found.get(one.key, one.key in granted))
                    elif one.key in granted:
                        self._over.append(one.key)
        finally:
            self._working = None

    def _exchange(self, over: Sequence[str], keys: Sequence[str]) -> tuple[set[str], dict[str, Completion]]:
        if over:
            self._claimer.release_many(over)
        granted = self._claimer.claim_many(keys) if keys else set()
        # What is granted may have been answered since the run looked.
        return granted, self._store.get_many([*granted]) if granted else {}


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # mark it as retrieved, so that asyncio does not warn


class Sender:
    """Sends a run's requests.

    Args:
        judges: The judges of the run.
        store: Where to store answers; `None` to not store them.
        runner: The concurrency, timeout, retries and budget.
        tally: The counts to update.
        calls: Whether calls may be sent at all.
        claims: Where to claim a request before sending it, so that other processes wait for its answer.
        clock: The source of time.
        changed: Called after each retry.
        spool: The folder for answers that equal requests may need later, if they are stored nowhere else.
        spent: The budget spent so far, shared with other runs.
        shared: The limits that workers on the store share.
    """

    def __init__(
        self,
        judges: Sequence[Judge],
        store: CompletionCache | None,
        runner: RunnerConfig,
        tally: Tally,
        *,
        calls: bool = True,
        claims: CompletionCache | None = None,
        clock: Clock,
        changed: Callable[[], None] = lambda: None,
        spool: Path | None = None,
        spent: Spent | None = None,
        shared: SharedLimits | None = None,
    ) -> None:
        self._caller = Caller(judges, store, runner, tally, clock, self._check_allowed, spent, shared)
        self.close = self._caller.close
        self.lengths = self._caller.lengths
        self._runner, self._tally, self._calls, self._clock, self._changed = runner, tally, calls, clock, changed
        self._claims = claims
        self._checker = claims if isinstance(claims, ClaimChecker) else None
        self._queue = ClaimQueue(claims, claims) if isinstance(claims, BatchClaimer) else None
        self._flights: dict[str, asyncio.Future[Completion | Failure]] = {}
        self._completed = CompletedCalls(spool)
        self._aborted = asyncio.Event()
        self.out = self._caller.out
        self.stopping = False
        self.stopped: str | None = None

    def check_also(self, judge: int) -> None:
        """Check this judge, too, before the first call to any judge."""
        self._caller.also_checked = (judge,)

    async def settle(self) -> None:
        """Wait until every claim is given up.

        Raises:
            StoreError: If the store failed at that.
        """
        if self._queue is not None:
            await self._queue.settle()

    def give_up(self, why: str) -> None:
        """Stop sending: calls in flight may finish, stored answers count, and the rest fails with the reason `why`."""
        self.stopped = why
        self._aborted.set()
        self._caller.lift_limits()

    async def obtain(self, judge: int, request: JudgeRequest, key: str) -> Answer | Failure:
        """Return the answer to a request that is not stored; equal requests of a run share one call.

        Raises:
            JudgeSetupError: If no call to this judge can succeed.
            StoreError: If the answer cannot be stored.
            RunStopped: If the run is stopping.
        """
        if not self._calls:
            return Failure("not_stored", "no stored answer, and store.mode=read_only makes no calls", attempts=0)
        if (flight := self._flights.get(key)) is not None:
            return self._shared(await asyncio.shield(flight))
        if (completed := self._completed.get(key)) is not None:
            return self._shared(completed)
        self._flights[key] = flight = asyncio.get_running_loop().create_future()
        try:
            outcome = await self._once(Call(judge, request, key))
        except BaseException as error:
            # An error that ends the run ends it now, before another task takes the free slot.
            self.stopping = self.stopping or (isinstance(error, Exception) and not isinstance(error, RunStopped))
            flight.set_exception(error if isinstance(error, Exception) else RunStopped())
            flight.exception()  # mark it as retrieved, so that asyncio does not warn
            raise
        else:
            result = outcome.completion if isinstance(outcome, Answer) else outcome
            flight.set_result(result)
            # With claims, a later equal request finds this answer in the store.
            if isinstance(result, Failure) or self._claims is None:
                self._completed.keep(key, result)
            return outcome
        finally:
            del self._flights[key]

    def _shared(self, outcome: Completion | Failure) -> Answer | Failure:
        if isinstance(outcome, Failure):
            return replace(outcome, attempts=0)
        self._tally.stored += 1
        return Answer(outcome, stored=True)

    async def _once(self, call: Call) -> Answer | Failure:
        """Make a call, unless another process is making it, or has made it since the store was read."""
        while True:
            try:
                if self._claims is None:
                    return await self._retry(call)
                found = await self._claim(call.key, self._claims)
            except RunAborted:
                return Failure("stopped", str(self.stopped), attempts=0)
            try:
                if self._queue is None:
                    found = self._claims.get_many([call.key]).get(call.key)
                if found is None:
                    return await self._retry(call)
                self._tally.keep(call.key)
                return self._shared(found)
            except ClaimLost:
                continue
            finally:
                (self._queue or self._claims).release(call.key)

    async def _claim(self, key: str, claims: CompletionCache) -> Completion | None:
        """Claim a key, once nobody else has it; return the answer if it was read with the claim."""
        wait = FIRST_LOOK
        while not (claimed := await self._queue.claim(key) if self._queue is not None else claims.claim(key)):
            self._raise_if_over()
            await self._clock.pause_unless(self._aborted, wait)
            wait = min(2 * wait, LONGEST_LOOK)
        return claimed if isinstance(claimed, Completion) else None

    async def _retry(self, call: Call) -> Answer | Failure:
        while True:
            try:
                return Answer(await self._caller.attempt(call), stored=False)
            except BudgetReached as reached:
                self.stopped = self.stopped or str(reached)
                return Failure("budget", str(reached), attempts=call.attempt - 1)
            except RunAborted:
                return Failure("stopped", str(self.stopped), attempts=call.attempt - 1)
            except CallError as error:
                failure = Failure(error.kind, redact(error.message), attempts=call.attempt)
                wait = backoff(call.attempt, error.retry_after) if error.retryable else None
            if wait is None or call.attempt > self._runner.retries:
                return failure
            if self.stopping:
                raise RunStopped
            await self._clock.pause_unless(self._aborted, wait)
            if self._aborted.is_set():
                return failure
            call = replace(call, attempt=call.attempt + 1)
            self._tally.retried += 1
            self._changed()

    def _check_allowed(self, key: str) -> None:
        self._raise_if_over()
        if self._checker is not None and not self._checker.holds(key):
            raise ClaimLost

    def _raise_if_over(self) -> None:
        if self.stopping:
            raise RunStopped
        if self._aborted.is_set():
            raise RunAborted
