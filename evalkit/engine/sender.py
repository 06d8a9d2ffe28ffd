"""Send one request to one judge: retry it, and share its call among equal requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalkit.config import RunnerConfig
from evalkit.core.errors import AccessError, CallError, EvalkitError
from evalkit.core.protocols import BatchClaimer, ClaimChecker, CompletionCache, Judge
from evalkit.core.redaction import redact
from evalkit.core.spool import Spool
from evalkit.core.types import Completion, Failure, JudgeRequest, Unit
from evalkit.engine.backoff import (
    AFTERWARDS,
    GONE,
    LATER,
    LONGEST_RETRY_AFTER,
    NOTABLE,
    asked_to_wait,
    backoff,
    too_long,
    unavailable,
)
from evalkit.engine.budget import AnswerLengths, Budget, BudgetReached, Needs
from evalkit.engine.event_loop import Clock
from evalkit.engine.outages import Look, Outage
from evalkit.engine.progress import RunCounts
from evalkit.engine.rate_limits import JudgeLimit, SharedLimits, Turn
from evalkit.engine.requests import PlannedCall, answer_keys, steps_left
from evalkit.engine.run_ends import ClaimLost, RunAborted, RunStopped
from evalkit.engine.single_call import complete_safely, is_throttled
from evalkit.engine.store_access import ClaimQueue, StoreWriter
from evalkit.runs.results import Spent
from evalkit.store.rescue import Rescue

_log = logging.getLogger("evalkit.judges")


LAST_ANSWERS = 30.0
"""Seconds for which calls in flight are waited for after the key was refused."""
_TOO_LITTLE = "runner.budget_usd leaves too little for a complete answer"
# After these errors the provider may have done the work, and may bill it.
_MAYBE_BILLED = ("timeout", "connection", "bad_response")


_SLOW = 0.6
"""The share of the timeout from which on an answer is slow."""


FIRST_LOOK, LONGEST_LOOK = 0.02, 0.5
"""Seconds between checks whether another process has stored the answer."""


class Sender:
    """Sends requests, of one run or of the many runs of a session.

    Attributes:
        out: The tasks with a call in flight, to the provider or to the disk.
        lengths: The answer lengths per judge.
        also_checked: The judges to check before the first call to any judge: a problem with one
            that may be called later must show before anything is paid.
        changed: Called after each retry.
        has_answers: Returns whether there are answers that make a run, though no more can be
            requested; `None` if a refused key only ends its own question.
        empty: Whether a refused key ended the run before its first answer.
        stopping: Whether the run is stopping.
        stopped: Why requests are not sent any more; `None` if they are.

    Args:
        judges: The judges of the run.
        store: Where to store answers; `None` to not store them.
        runner: The concurrency, timeout, retries and budget.
        tally: The counts to update.
        clock: The source of time.
        calls: Whether calls may be sent at all.
        claims: Where to claim a request before sending it, so that other processes wait for its
            answer.
        spool: The folder for answers that equal requests may need later, if they are stored nowhere
            else.
        spent: The budget spent so far, shared with other runs.
        shared: The limits that workers on the store share.
        remembers: Whether an equal request later gets the outcome of an earlier one that is not in
            the store.
        asked_keys: Where to note the content keys of requests that are answered and stored.
        rescue: What keeps the answers that the store does not take.
    """

    def __init__(
        self,
        judges: Sequence[Judge],
        store: CompletionCache | None,
        runner: RunnerConfig,
        tally: RunCounts,
        clock: Clock,
        *,
        calls: bool,
        claims: CompletionCache | None,
        spool: Path | None,
        spent: Spent | None,
        shared: SharedLimits | None,
        remembers: bool = True,
        asked_keys: set[str] | None = None,
        rescue: Rescue | None = None,
    ) -> None:
        self._asked = asked_keys
        self._unstored: set[str] = set()  # answered, but not stored, such as refusals
        self._unclaimed: set[str] = set()
        self._judges, self._runner, self._tally, self._clock, self._may_send = (
            judges,
            runner,
            tally,
            clock,
            calls,
        )
        self._remembers = remembers
        self._rescue = rescue
        self._writer = None if store is None else StoreWriter(store, rescue)
        self._claims = claims
        self._checker = claims if isinstance(claims, ClaimChecker) else None
        self._queue = (
            ClaimQueue(claims, claims) if isinstance(claims, BatchClaimer) else None
        )
        self._limits = [JudgeLimit(judge, runner, clock, shared) for judge in judges]
        self._outages = [Outage(clock, runner.outage) for _ in judges]
        self._slots = asyncio.Semaphore(runner.concurrency)
        self.budget = Budget(
            runner, spent, None if shared is None else shared.budget(runner)
        )
        self.close = self.budget.close
        self._ready: set[int] = set()
        self._flights: dict[str, asyncio.Future[Completion | Failure]] = {}
        self._outcomes: Spool[Completion | Failure] = Spool(folder=spool)
        self._outcome_of: dict[bytes, int] = {}
        self._aborted = asyncio.Event()
        self.lengths = AnswerLengths()
        self.also_checked: tuple[int, ...] = ()
        self.out: set[asyncio.Task[Any] | None] = set()
        self._storing: set[asyncio.Task[Any]] = set()
        self.changed: Callable[[], None] = lambda: None
        self.has_answers: Callable[[], bool] | None = None
        self.empty = False
        self._answered = False
        self._idle = asyncio.Event()
        self.stopping = False
        self.stopped: str | None = None

    @property
    def aborted(self) -> bool:
        """Whether the run is given up."""
        return self._aborted.is_set()

    def waiting(self) -> str:
        """Return why calls wait now; nothing if they do not."""
        return self._tally.now_waiting(self._clock.now())

    @property
    def unanswered(self) -> int:
        """The number of calls that were sent and have no answer yet."""
        return len(self.out - self._storing)

    async def written(self) -> None:
        """Wait until each answer that has arrived is stored."""
        while self._storing:
            await asyncio.wait(self._storing)
        if self._writer is not None:
            await self._writer.settle()

    async def settle(self) -> None:
        """Wait until each answer that has arrived is stored, and every claim is given up.

        Raises:
            StoreError: If the store failed at that.
        """
        await self.written()
        if self._queue is not None:
            await self._queue.settle()

    def explained(self, error: Exception) -> Exception:
        """Return an error that ends the run, with what to do about unstored answers."""
        return error if self._rescue is None else self._rescue.explained(error)

    def give_up(self, why: str) -> None:
        """Stop sending: calls in flight may finish, and the rest fails with the reason `why`."""
        self.stopped = why
        self._aborted.set()
        for limit in self._limits:
            limit.lift()

    def was_asked(self, keys: Sequence[str]) -> bool:
        """Return whether this command has sent one of these requests."""
        asked_keys = self._asked or set()
        return any(key in asked_keys or key in self._unstored for key in keys)

    async def obtain(
        self, call: PlannedCall, *, again: bool = False
    ) -> tuple[Completion | Failure, bool]:
        """Return the answer to a request, and whether no call was made for this request.

        Equal requests of a run share one call. `again`: a stored answer is not used, so the request
        is not claimed.

        Raises:
            JudgeSetupError: If no call to this judge can succeed.
            StoreError: If the answer cannot be stored.
            RunStopped: If the run is stopping.
        """
        key = call.key
        if not self._may_send:
            return (
                Failure(
                    "not_stored",
                    "no stored answer, and store.mode=read_only makes no calls",
                    attempts=0,
                ),
                False,
            )
        # Shielded: if this caller is canceled, the call goes on for the others that wait for it.
        if (flight := self._flights.get(key)) is not None:
            return self._as_shared(await asyncio.shield(flight))
        if (
            self._outcome_of
            and (position := self._outcome_of.get(bytes.fromhex(key))) is not None
        ):
            return self._as_shared(self._outcomes[position])
        # No `await` between the look-up above and this line, so no second task can start the same
        # call.
        self._flights[key] = flight = asyncio.get_running_loop().create_future()
        try:
            if again:
                outcome, stored = await self._call_anew(call)
            else:
                outcome, stored = await self._call_once(call)
        except BaseException as error:
            if isinstance(error, AccessError) and await self._can_end_with_answers(
                error
            ):
                pass  # nothing more is sent, and the answers so far make a run
            # An error that ends the run ends it now, before another task takes the free slot.
            elif isinstance(error, Exception) and not isinstance(error, RunStopped):
                self.stopping = True
            flight.set_exception(
                error if isinstance(error, Exception) else RunStopped()
            )
            flight.exception()  # mark it as retrieved, so that asyncio does not warn
            raise
        else:
            flight.set_result(outcome)
            # With claims, a later equal request finds an answer in the store; a call that was never
            # made may be made.
            if self._remembers and (
                outcome.attempts
                if isinstance(outcome, Failure)
                else self._claims is None
            ):
                self._outcome_of[bytes.fromhex(key)] = len(self._outcomes)
                self._outcomes.append(outcome)
            return outcome, stored
        finally:
            del self._flights[key]

    async def _can_end_with_answers(self, error: AccessError) -> bool:
        """Return whether there are answers that make a run, though no more can be requested.

        Calls in flight are paid for, so they are waited for: one of them may be answered.
        """
        if self.has_answers is None:
            return False
        self.give_up(str(error))
        if not self.has_answers() and self.out:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), LAST_ANSWERS)
        self.empty = not self._answered and not self.has_answers()
        return not self.empty

    def _as_shared(
        self, outcome: Completion | Failure
    ) -> tuple[Completion | Failure, bool]:
        if isinstance(outcome, Failure):
            return replace(outcome, attempts=0), True
        self._tally.stored += 1
        return outcome, True

    async def _call_anew(self, call: PlannedCall) -> tuple[Completion | Failure, bool]:
        """Make a call although there is a stored answer."""
        self._unclaimed.add(call.key)
        try:
            return await self._attempt_if_it_fits(call), False
        except RunAborted:
            return Failure("stopped", str(self.stopped), attempts=0), False
        finally:
            self._unclaimed.discard(call.key)

    def _is_lost(self, call: PlannedCall) -> bool:
        """Return whether the claim on a request has ended before the request is sent."""
        if self._checker is None or call.key in self._unclaimed:
            return False
        return not self._checker.holds(call.key)

    async def _call_once(self, call: PlannedCall) -> tuple[Completion | Failure, bool]:
        """Make a call, unless another process makes it, or has made it since the store was read.

        Returns the answer or the failure, and whether another process stored the answer. A run
        that is over gets a failure of kind `stopped`.
        """
        while True:
            try:
                if self._claims is None:
                    return await self._attempt_if_it_fits(call), False
                stored = await self._claim_or_read(call.key, self._claims)
            except RunAborted:
                return Failure("stopped", str(self.stopped), attempts=0), False
            try:
                if self._queue is None:
                    # Read again after the claim: the process that had it may have stored the
                    # answer and released it since the run looked. A queue reads with the claim,
                    # in one round trip.
                    stored = self._claims.get_many([call.key]).get(call.key)
                # The claim is held until the answer is stored, so no other process pays for it
                # again.
                if stored is None:
                    return await self._attempt_if_it_fits(call), False
                self._tally.keep(call.key)
                return self._as_shared(stored)
            except ClaimLost:
                continue
            finally:
                (self._queue or self._claims).release(call.key)

    async def _claim_or_read(
        self, key: str, claims: CompletionCache
    ) -> Completion | None:
        """Claim a key, once nobody else has it; return the answer if it was read with the claim.

        Returns `None` if the key is claimed and no answer was read. The waits between attempts
        grow, in seconds, from `FIRST_LOOK` to `LONGEST_LOOK`.

        Raises:
            RunAborted: If the run is over.
        """
        wait = FIRST_LOOK
        while not (
            claimed := (
                await self._queue.claim(key)
                if self._queue is not None
                else claims.claim(key)
            )
        ):
            self._raise_if_over()
            await self._clock.pause_unless(self._aborted, wait)
            # Another process answers within seconds, or for a slow judge in minutes: look often
            # first, then rarely.
            wait = min(2 * wait, LONGEST_LOOK)
        if isinstance(claimed, Completion):
            return claimed
        return None

    async def _attempt_if_it_fits(self, call: PlannedCall) -> Completion | Failure:
        """Send a call until it has an answer; one that is too long for the judge fails unsent."""
        # Before the loop: a prompt that does not fit is never sent, so it costs nothing and no
        # retry.
        if (why := await self._prepare(call)) is not None:
            return Failure("too_long", why, attempts=0)
        with self._outages[call.judge].look() as look:
            return await self._attempt_until_answered(call, look)

    async def _attempt_until_answered(
        self, call: PlannedCall, look: Look
    ) -> Completion | Failure:
        """Send a call until it has an answer or may not be repeated.

        Returns:
            The answer, or why there is none: the last error, the budget, or the end of the run.

        Raises:
            RunStopped: If the run stops before the next attempt.
            AccessError: If the provider asks to wait too long.
        """
        attempt = 1
        outage = self._outages[call.judge]
        # Since when the attempts fail.
        failing: float | None = None
        # Whether the call was repeated to find out if the server is back.
        looked = False
        while True:
            try:
                return await self._attempt(
                    call, attempt, first=not looked and attempt == 1
                )
            except BudgetReached as reached:
                self.stopped = self.stopped or str(reached)
                return Failure("budget", str(reached), attempts=attempt - 1)
            except RunAborted:
                return Failure("stopped", str(self.stopped), attempts=attempt - 1)
            except CallError as fault:
                error = fault
                failure = Failure(error.kind, redact(error.message), attempts=attempt)
                wait = backoff(attempt, error.retry_after) if error.retryable else None
                # An outage stops the clock of the retries: a server that restarts must not use up
                # the attempts of every call in flight.
                outage.refused(error)
                if (why := too_long(error)) is not None:
                    # The others would be refused alike, one by one.
                    raise unavailable(why, failure, AFTERWARDS) from fault
                failing = self._clock.now() if failing is None else failing
                last = attempt > max(1, self._runner.retries)
                away = outage.explains(error, failing, last=last)
            look.end()
            if away:
                await self._wait_for_server(outage, look, failure)
            elif wait is None or attempt > self._runner.retries:
                return failure
            elif self.stopping:
                raise RunStopped
            else:
                await self._pause(wait, asked_to_wait(error, wait))
            # The error that came last says more than that the run was given up.
            if self._aborted.is_set():
                return failure
            if away:  # the server has not seen the call
                looked = True
            else:
                attempt += 1
                self._tally.retried += 1
            self.changed()

    async def _wait_for_server(
        self, outage: Outage, look: Look, failure: Failure
    ) -> None:
        """Wait until a server is back, or until it is this call's turn to find out.

        Raises:
            AccessError: If it has been away for too long.
            RunStopped: If the run is stopping.
        """
        outage.begin()
        await look.begin()
        if self.stopping:
            raise RunStopped
        if outage.over or self._aborted.is_set():
            look.end()  # nobody needs to look
            return
        wait = outage.wait()
        if not wait:
            raise unavailable(GONE, failure, LATER)
        await self._pause(wait, outage.describe())

    async def _pause(self, seconds: float, reason: str) -> None:
        """Wait, and say why; giving up ends the pause early."""
        self._tally.wait_until(self._clock.now() + seconds, reason)
        self.changed()
        await self._clock.pause_unless(self._aborted, seconds)

    async def prepare(self, calls: Sequence[PlannedCall]) -> None:
        """Prepare the judges of calls that are not stored; the calls report a failure."""
        for index in {call.judge for call in calls if call.stored is None}:
            with suppress(EvalkitError):
                await self._prepare_judge(index)

    async def _prepare_judge(self, index: int) -> None:
        prepare = getattr(self._judges[index], "prepare", None)
        if prepare is not None and index not in self._ready:
            await prepare()
            self._ready.add(index)

    async def _prepare(self, call: PlannedCall) -> str | None:
        """Prepare the judges that the call may need; return why its request is too
        long, `None` if it may fit.

        Raises:
            JudgeSetupError: If no call to one of these judges can succeed.
        """
        for index in (call.judge, *self.also_checked):
            await self._prepare_judge(index)
        measure = getattr(self._judges[call.judge], "too_long", None)
        why: str | None = None if measure is None else await measure(call.request)
        return why

    async def _attempt(
        self, call: PlannedCall, attempt: int, *, first: bool
    ) -> Completion:
        """Make one call and return its answer, which is stored unless it is a refusal.

        Raises:
            CallError: If the call fails.
            BudgetReached: If the cap leaves no room for the call.
            JudgeSetupError: If no call to this judge can succeed.
            StoreError: If the answer cannot be stored.
        """
        # Step 1: reserve. The full ceiling is tried first; the limited one only if the rest of
        # the budget does not cover a complete answer.
        longest = self.lengths.limit(call.judge, call.request)
        limited = call.request
        least: float | None = None
        if longest is not None:
            limited = replace(call.request, max_tokens=longest)
            least = self._ceiling(call.judge, limited)
        reservation = await self.budget.reserve(
            self._ceiling(call.judge, call.request), least
        )
        request = limited if reservation.limited else call.request
        cost: float | None = 0.0
        task = asyncio.current_task()
        assert task is not None
        try:
            # Step 2: wait for a slot of the run, then for the judge's limits. Both may take
            # minutes, so what may have changed meanwhile is checked again inside.
            async with self._slots, self._limits[call.judge].turn(request) as turn:
                self._raise_if_over()
                if self._is_lost(call):
                    raise ClaimLost
                # From here on the call may be billed. A cost of `None` makes `settle` spend the
                # whole reservation, also if the task is canceled in the middle.
                self._tally.count_sent(first=first)
                cost = None
                self.out.add(task)
                self._idle.clear()
                completion = await self._request_answer(call.judge, request, turn)
                if completion.attempts != attempt:
                    completion = replace(completion, attempts=attempt)
                self._answered = True
            # The slot is free again by now: writing to disk must not delay the next call.
            # Step 3: store. A caller gets the answer only after it is durable.
            cost = completion.cost_usd
            self.lengths.observe(call.judge, completion)
            # Cut off by our own limit, not by the configured one: such an answer must not be
            # stored under the key of the unlimited request.
            if reservation.limited and completion.finish_reason == "length":
                self._tally.count_paid(completion)
                raise BudgetReached(
                    f"{_TOO_LITTLE}: an answer was cut off at {request.max_tokens:,} tokens"
                )
            await self._store(call, completion)
        except CallError as error:
            # The provider may have answered before the connection broke: count the most that it
            # could have billed.
            cost = None if error.kind in _MAYBE_BILLED else 0.0
            if reservation.limited and error.kind == "bad_request":
                # No more limits for this judge: each would be refused, and the reservation would
                # be too small without one.
                self.lengths.unlimited.add(call.judge)
                raise BudgetReached(
                    f"{_TOO_LITTLE}, and the judge does not accept a token limit ({error.message})"
                ) from error
            raise
        finally:
            self.out.discard(task)
            self._storing.discard(task)
            if not self.out:
                self._idle.set()
            # Also on errors: calls that wait for this reservation would otherwise wait forever.
            await self.budget.settle(reservation, cost)
            self._tally.budget_left = self.budget.left
        self._tally.count_paid(completion)
        return completion

    async def _store(self, call: PlannedCall, completion: Completion) -> None:
        """Store an answer, unless there is no store or it is a refusal.

        Raises:
            StoreError: If it cannot be written.
        """
        # A refusal may be an accident, so it is not stored, and a later run asks again. It is
        # noted so that mode `retry` does not ask twice in one command.
        if self._writer is None or completion.refusal is not None:
            self._unstored.add(call.key)
            return
        judge = self._judges[call.judge]
        try:
            for key in answer_keys(call, judge):
                await self._writer.keep(key, judge.spec.model, completion)
        finally:  # also if this call is canceled
            self._tally.keep(call.key)
        if self._asked is not None:
            self._asked.add(call.key)

    async def _request_answer(
        self, index: int, request: JudgeRequest, turn: Turn
    ) -> Completion:
        """Send a request to a judge once, and count the answer or refusal for its limits.

        Args:
            index: The judge.
            request: The request.
            turn: The slot that the call has of the judge's limits.

        Raises:
            CallError: If there is no answer.
        """
        limit = self._limits[index]
        judge = self._judges[index]
        try:
            async with asyncio.timeout(self._runner.timeout) as deadline:
                completion = await complete_safely(judge, request)
        except TimeoutError as error:
            # A `TimeoutError` from elsewhere, not of this deadline, is a bug to show.
            if not deadline.expired():
                raise
            self._too_slow(index, turn)
            seconds = f"{self._runner.timeout:g}"
            raise CallError(
                "timeout",
                f"no answer within {seconds} s (runner.timeout); raise it, or lower"
                " judge.concurrency",
                retryable=True,
            ) from error
        except CallError as error:
            if is_throttled(error):
                limit.throttled(turn)
                self._tally.throttled += 1
            # A timeout that the provider's client raised, before our own deadline.
            if error.kind == "timeout":
                self._too_slow(index, turn)
            if (
                error.retry_after is not None
                and error.retry_after <= LONGEST_RETRY_AFTER
            ):
                # For all calls to this judge: the others would get the same refusal, and some
                # providers count refused calls against the limit.
                limit.pause(error.retry_after)
            raise
        if (task := asyncio.current_task()) is not None:
            self._storing.add(task)  # from here on, it waits for nobody but the store
        self._outages[index].answered()
        # A server that is nearly at its timeout gets no more calls at a time, or the next ones
        # time out.
        slow = completion.latency > _SLOW * self._runner.timeout
        limit.answered(turn, request, completion.usage, slow=slow)
        if (seconds_asked := getattr(judge, "rest", 0.0)) > 0:
            limit.pause(seconds_asked)
            if seconds_asked >= NOTABLE:
                reason = f"the provider asked to wait {seconds_asked:.0f} s"
                self._tally.wait_until(self._clock.now() + seconds_asked, reason)
        return completion

    def _too_slow(self, index: int, turn: Turn) -> None:
        """Send fewer calls at a time: on a server with few slots the others time out."""
        self._tally.throttled += 1
        if self._limits[index].congested(turn):
            _log.warning(
                "judge %s: calls time out (runner.timeout=%g); sending fewer at a time;"
                " set judge.concurrency to the number that the server answers at a time",
                self._judges[index].spec.name,
                self._runner.timeout,
            )

    def needs(self, calls: Sequence[PlannedCall], follow_ups: int) -> Needs:
        """Return the most that the calls of one question can need that are neither
        stored nor in flight.

        Args:
            calls: The calls, with the stored answers.
            follow_ups: How many additional calls each of its units can need.
        """
        needs = Needs()
        units = set[tuple[int, Unit]]()
        keys = set[str]()
        for call in calls:
            if call.stored is not None or call.key in keys or call.key in self._flights:
                continue
            # Equal calls share one answer, and one in flight has its own reservation already.
            keys.add(call.key)
            # Follow-ups are counted once for a unit and a judge, with the first of its calls.
            count = 1 + steps_left(call.request)
            unit = (call.judge, call.request.unit)
            if unit not in units:
                units.add(unit)
                count += follow_ups
            ceiling = self._ceiling(call.judge, call.request) or 0.0
            longest = self.lengths.limit(call.judge, call.request)
            limited = ceiling
            if longest is not None:
                shortened = replace(call.request, max_tokens=longest)
                limited = self._ceiling(call.judge, shortened) or ceiling
            needs.calls += count
            needs.usd += count * ceiling
            needs.limited_usd += count * min(limited, ceiling)
        return needs

    def _ceiling(self, judge: int, request: JudgeRequest) -> float | None:
        ceiling = getattr(self._judges[judge], "ceiling", None)
        if self._runner.budget_usd is None or ceiling is None:
            return None
        cost: float | None = ceiling(request)
        return cost

    def _raise_if_over(self) -> None:
        if self.stopping:
            raise RunStopped
        if self._aborted.is_set():
            raise RunAborted
