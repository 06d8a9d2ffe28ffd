"""One attempt of one request: budget, limits, the call within its time, and its answer on disk before it counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalkit.config import RunnerConfig
from evalkit.engine.budget import AnswerLengths, Budget, BudgetReached, Reservation
from evalkit.engine.keeping import Keeper
from evalkit.engine.limits import JudgeLimit
from evalkit.engine.outcome import Tally
from evalkit.engine.pace import Turn
from evalkit.engine.waiting import Clock
from evalkit.errors import CallError, EvalkitError
from evalkit.judges.faults import clean
from evalkit.judges.reading import sane
from evalkit.protocols import Judge, Store
from evalkit.types import Completion, JudgeRequest, Spent

LONGEST_RETRY_AFTER = 600.0
# After these the provider may have worked, and may bill, though nothing came back.
_TOO_LITTLE = "runner.budget_usd leaves too little for a whole answer"
_MAYBE_BILLED = ("timeout", "connection", "bad_response")


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the judge of an index, under its content key; `attempt` is 1 for the first."""

    judge: int
    request: JudgeRequest
    key: str
    attempt: int = 1


class Caller:
    """Makes the calls of a run; `store` is where answers are kept, if anywhere.

    `out` holds the tasks whose call is on its way, to the provider or to the disk; `allowed` raises where a call that
    waited may no longer be made.
    """

    def __init__(
        self,
        judges: Sequence[Judge],
        store: Store | None,
        runner: RunnerConfig,
        tally: Tally,
        clock: Clock,
        allowed: Callable[[], None],
        spent: Spent | None = None,
    ) -> None:
        self._judges, self._runner, self._tally = judges, runner, tally
        self._keeper = None if store is None else Keeper(store)
        self._limits = [JudgeLimit(judge, runner, clock) for judge in judges]
        self._places = asyncio.Semaphore(runner.concurrency)
        self._budget = Budget(runner, spent)
        self.lengths = AnswerLengths()
        self._ready: set[int] = set()
        self._allowed = allowed
        self.out: set[asyncio.Task[Any] | None] = set()
        self.also_checked: tuple[int, ...] = ()
        """Judges that may be asked later: what is wrong with one must show before anything is paid."""

    async def attempt(self, call: Call) -> Completion:
        """Make one call and return its answer, which is stored by then unless it is a refusal.

        Raises:
            CallError: if no answer came.
            BudgetReached: if the cap leaves no room for the call.
            JudgeSetupError: if no call to this judge can succeed.
            StoreError: if the answer cannot be kept.
        """
        await self._prepare(call.judge)
        call, reservation = await self._reserve(call)
        cost: float | None = 0.0
        me = asyncio.current_task()
        try:
            async with self._places, self._limits[call.judge].turn(call.request) as turn:
                self._allowed()
                self._tally.sends(call.attempt)
                cost = None
                self.out.add(me)
                completion = replace(await self._answer(call, turn), attempts=call.attempt)
            # Its place is another's by now: the disk must not hold up the provider.
            cost = completion.cost_usd
            self.lengths.see(call.judge, completion)
            if reservation.limited and completion.finish_reason == "length":
                self._tally.paid(completion)
                raise BudgetReached(f"{_TOO_LITTLE}: an answer was cut at {call.request.max_tokens} tokens")
            await self._keep(call, completion)
        except CallError as error:
            cost = None if error.kind in _MAYBE_BILLED else 0.0
            if reservation.limited and error.kind == "bad_request":
                self.lengths.unlimited.add(call.judge)
                raise BudgetReached(f"{_TOO_LITTLE}, and the judge takes no limit ({error.message})") from error
            raise
        finally:
            self.out.discard(me)
            await self._budget.settle(reservation, cost)
            self._tally.budget_left = self._budget.left
        self._tally.paid(completion)
        return completion

    def lift_limits(self) -> None:
        """Let those through who wait for their turn, once no call may be made any more."""
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
                limit.hold(error.retry_after)
            raise
        limit.answered(turn, call.request, completion.usage)
        if (seconds_asked := getattr(judge, "rest", 0.0)) > 0:
            limit.hold(seconds_asked)
        return completion

    async def _keep(self, call: Call, completion: Completion) -> None:
        if self._keeper is not None and completion.refusal is None:
            await self._keeper.keep(call.key, self._judges[call.judge].spec.model, completion)

    async def _prepare(self, judge: int) -> None:
        for one in (judge, *self.also_checked):
            prepare = getattr(self._judges[one], "prepare", None)
            if prepare is not None and one not in self._ready:
                await prepare()
                self._ready.add(one)

    async def _reserve(self, call: Call) -> tuple[Call, Reservation]:
        """Set aside what a call may cost; return it with its limit, if it has one."""
        limit = self.lengths.limit(call.judge, call.request)
        limited = replace(call, request=replace(call.request, max_tokens=limit))
        least = None if limit is None else self._ceiling(limited)
        reservation = await self._budget.reserve(self._ceiling(call), least)
        return limited if reservation.limited else call, reservation

    def _ceiling(self, call: Call) -> float | None:
        ceiling = getattr(self._judges[call.judge], "ceiling", None)
        if self._runner.budget_usd is None or ceiling is None:
            return None
        most: float | None = ceiling(call.request)
        return most


async def _completed(judge: Judge, request: JudgeRequest) -> Completion:
    """Return a judge's completion, sane; what goes wrong in the judge's own code costs one call, never the run."""
    try:
        return sane(await judge.complete(request))
    except EvalkitError:
        raise
    except Exception as error:
        what = f"the judge failed on this request ({type(error).__name__}: {clean(str(error))})"
        raise CallError("bad_response", what, retryable=True) from error


def _throttled(error: CallError) -> bool:
    busy = error.kind == "server" and (error.retry_after is not None or "overloaded" in error.message.lower())
    return busy or (error.kind == "rate_limit" and error.retryable)
