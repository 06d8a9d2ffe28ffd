"""A cap on calls and USD that is never exceeded: reserve the most that a call can cost,
then settle its actual cost.

If the rest of a budget does not cover the longest possible answer of a judge, the call is limited
to a length that observed answers rarely exceed, and the reservation is for that length.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf

from evalkit.config import RunnerConfig
from evalkit.core.display import dollars
from evalkit.core.errors import ConfigError
from evalkit.core.types import Completion, JudgeRequest
from evalkit.engine.answer_estimates import expected_tokens
from evalkit.engine.rate_limits import SharedBudget
from evalkit.runs.results import Spent

AMPLE = 2
"""Factor on the longest answer so far, for the token limit of a limited call."""
UNOBSERVED = 4
"""Factor on the expected length of a format, for the token limit before any answer."""
LEAST = 64
_DRIFT = 1e-9
ENOUGH = 5
"""The number of answers in a run from which answers of earlier runs no longer count."""


class BudgetReached(Exception):  # noqa: N818
    """Raised if one more call might exceed the cap; `str()` names the cap."""


@dataclass(slots=True)
class Reservation:
    """The amount reserved for one call, in USD; a `limited` call must not be longer
    than the amount pays for.
    """

    amount: float
    limited: bool = False
    held: float = 0.0
    """The part that the call's question had reserved before."""


@dataclass(slots=True)
class Needs:
    """The most that a question can need: its calls, their cost in USD, and the cost of
    limited calls.
    """

    calls: int = 0
    usd: float = 0.0
    limited_usd: float = 0.0


@dataclass(slots=True)
class Hold:
    """What one question has reserved and not used yet; nothing is sent for one that was refused."""

    calls: int = 0
    usd: float = 0.0
    refused: str | None = None


QUESTION: ContextVar[Hold | None] = ContextVar("question", default=None)
"""What the question reserved to which the calls in this context belong."""
_LOOK = 0.25
"""How many seconds a question waits before it looks again at what other questions released."""


class Budget:
    """The cap of one run or, with a shared `total`, of a sweep.

    Every attempt counts: a provider may bill it.

    With a budget `shared` by the workers on a store, the run spends what it has taken of it.
    """

    def __init__(
        self,
        runner: RunnerConfig,
        total: Spent | None = None,
        shared: SharedBudget | None = None,
    ) -> None:
        self._calls = runner.budget_calls
        self._usd = runner.budget_usd
        self._total = total or Spent()
        self._of_sweep = {
            "run": "",
            "sweep": " by the sweep",
            "store": " by all workers",
        }[runner.budget_scope]
        self._shared, self._taken = shared, 0.0
        # With a shared budget, taking more of it awaits a thread: two calls at a time would each
        # count the same rest as theirs. Without one, no `await` comes between check and
        # reservation.
        self._turn = nullcontext() if shared is None else asyncio.Lock()
        self.reserved = 0.0
        self._in_flight = 0
        self._settled = asyncio.Condition()

    @property
    def calls(self) -> int:
        """The calls made so far."""
        return self._total.calls

    @property
    def spent(self) -> float:
        """The amount spent so far, in USD."""
        return self._total.usd

    @property
    def left(self) -> float | None:
        """The amount that is neither spent nor reserved, in USD; `None` without a cap."""
        if self._usd is None or self._shared is not None:
            return None
        return max(0.0, self._usd - self._committed())

    async def reserve(
        self, ceiling: float | None, limited: float | None = None
    ) -> Reservation:
        """Reserve the cost of one call; wait if calls in flight may release enough of the budget.

        Args:
            ceiling: The most that the call can cost, in USD; `None` if it is unknown.
            limited: The most that a limited call can cost, in USD, as a second choice; `None` if
                there is no limit.

        Raises:
            BudgetReached: If the cap leaves no room for the call.
            ConfigError: If there is a cap in USD, and the cost of a call is unknown.
        """
        hold = QUESTION.get() or Hold()
        # A question is answered whole or not at all, so all of its calls are refused.
        if hold.refused is not None:
            raise BudgetReached(hold.refused)
        reservation = Reservation(ceiling or 0.0)
        if self._usd is not None:
            async with self._turn:
                reservation = await self._reserve_within(
                    require_known(ceiling), limited, self._usd
                )
        if not hold.calls and not self._has_calls(1):
            raise BudgetReached(self._no_calls())
        # This call's number was reserved with the question; it moves from held to made.
        if hold.calls:
            hold.calls -= 1
            self._total.held_calls -= 1
        # The same for its amount; only what exceeds the question's hold is newly reserved.
        reservation.held = min(hold.usd, reservation.amount)
        hold.usd -= reservation.held
        self._total.calls += 1
        self.reserved += reservation.amount - reservation.held
        self._in_flight += 1
        return reservation

    async def settle(self, reservation: Reservation, cost: float | None) -> None:
        """Replace a reservation by the actual cost in USD, or spend it all if the cost
        is unknown.
        """
        self._in_flight -= 1
        # Sums of floats drift: without calls in flight, any remainder is drift.
        self._total.held_usd -= reservation.held
        free = reservation.amount - reservation.held
        self.reserved = self.reserved - free if self._in_flight else 0.0
        # A budget never grows, whatever cost a judge reports.
        self._total.usd += (
            reservation.amount if cost is None or not 0 <= cost < inf else cost
        )
        if self._usd is not None:
            async with self._settled:
                self._settled.notify_all()

    @property
    def capped(self) -> bool:
        """Whether there is a cap."""
        return self._calls is not None or self._usd is not None

    async def hold(self, needs: Callable[[], Needs]) -> Hold:
        """Reserve all calls of a question, or none; wait while other questions may release enough.

        Args:
            needs: Returns the most that the question can need now.
        """
        while True:
            hold = await self._try_hold(needs())
            # Without other questions, nothing will be released, so the refusal is final.
            if hold.refused is None or not self._total.questions:
                return hold
            await asyncio.sleep(_LOOK)

    def release(self, hold: Hold) -> None:
        """Give back what a question has reserved and not used."""
        if hold.refused is not None:
            return
        self._total.questions -= 1
        self._total.held_calls -= hold.calls
        self._total.held_usd -= hold.usd
        if not self._total.questions:
            self._total.held_usd = 0.0  # any remainder is drift

    async def _try_hold(self, need: Needs) -> Hold:
        """Reserve the calls and the cost of a whole question, or return why there is no room."""
        amount = need.usd
        if self._usd is not None:
            async with self._turn:
                if not await self._covers(amount, self._usd):
                    # Second choice: answers limited to a length that they rarely exceed.
                    amount = need.limited_usd
                    if not await self._covers(amount, self._usd):
                        spent = f"{dollars(self.spent)} spent"
                        most = dollars(amount)
                        return Hold(
                            refused=f"runner.budget_usd={self._usd:g} is reached{self._of_sweep}:"
                            f" {spent}, and the whole question may cost {most}"
                        )
        if not self._has_calls(need.calls):
            return Hold(refused=self._no_calls(need.calls))
        self._total.questions += 1
        self._total.held_calls += need.calls
        self._total.held_usd += amount
        return Hold(need.calls, amount)

    def _has_calls(self, count: int) -> bool:
        used = self.calls + self._total.held_calls
        return self._calls is None or not count or used + count <= self._calls

    def _no_calls(self, count: int = 1) -> str:
        reached = f"runner.budget_calls={self._calls} is reached{self._of_sweep}"
        if count == 1:
            return reached
        return f"{reached}: {self.calls} made, and the whole question may need {count}"

    def _committed(self) -> float:
        """Return what is spent or reserved, without what the question in this context
        still holds.
        """
        question = QUESTION.get()
        held = self._total.held_usd - (0.0 if question is None else question.usd)
        return self.spent + self.reserved + held

    async def close(self) -> None:
        """Give back what was taken of a shared budget and not spent."""
        if self._shared is not None and (unspent := self._taken - self.spent) > 0:
            # Set before the `await`, so that a second `close` gives back nothing twice.
            self._taken = self.spent
            await asyncio.to_thread(self._shared.give_back, unspent)

    async def _covers(self, amount: float, cap: float) -> bool:
        if self._shared is None:
            # Sums of what questions hold drift, too.
            return self._committed() + amount <= cap + _DRIFT * cap
        # Take only what is missing: the rest of the budget stays free for the other workers.
        if (short := self._committed() + amount - self._taken) > 0:
            self._taken += await asyncio.to_thread(self._shared.take, short)
        return self._committed() + amount <= self._taken + _DRIFT

    async def _reserve_within(
        self, ceiling: float, limited: float | None, cap: float
    ) -> Reservation:
        """Reserve the cost of a call within a cap; calls in flight that cost less may make room.

        Args:
            ceiling: The most that the call can cost.
            limited: The most with a shorter limit on its answer; `None` if there is no such limit.
            cap: The budget in USD.

        Raises:
            BudgetReached: If there is no room, and no call in flight can make any.
        """
        while True:
            if await self._covers(ceiling, cap):
                return Reservation(ceiling)
            if (
                limited is not None
                and limited < ceiling
                and await self._covers(limited, cap)
            ):
                return Reservation(limited, limited=True)
            # Calls in flight may cost less than reserved, so the cap is reached only without any.
            if not self._in_flight:
                least = ceiling if limited is None else min(limited, ceiling)
                by = "" if self._shared is None else " by this one"
                spent = (
                    f"{dollars(self.spent)} spent{by}, "
                    f"and the next call may cost {dollars(least)}"
                )
                raise BudgetReached(
                    f"runner.budget_usd={cap:g} is reached{self._of_sweep}: {spent}"
                )
            async with self._settled:
                await self._settled.wait()


@dataclass(slots=True)
class AnswerLengths:
    """The longest answer per judge index, in tokens, in this run and in `earlier` ones,
    and judges without limits.
    """

    earlier: dict[int, int] = field(default_factory=dict)
    unlimited: set[int] = field(default_factory=set)
    _longest: dict[int, int] = field(default_factory=dict)
    _observed: Counter[int] = field(default_factory=Counter)

    def observe(self, judge: int, completion: Completion) -> None:
        """Record the length of an answer, stored or new."""
        tokens = completion.usage.completion_tokens
        if tokens is not None:
            self._observed[judge] += 1
            self._longest[judge] = max(tokens, self._longest.get(judge, 0))

    def limit(self, judge: int, request: JudgeRequest) -> int | None:
        """Return the number of tokens that an answer rarely exceeds; `None` if the
        judge does not accept a limit.
        """
        if judge in self.unlimited:
            return None
        # Few answers say little about the longest one, so earlier runs or the format count, too.
        longest = AMPLE * self._longest.get(judge, 0)
        if self._observed[judge] < ENOUGH:
            earlier = self.earlier.get(judge)
            if earlier is None:
                guess = UNOBSERVED * expected_tokens(request.answer)
            else:
                guess = AMPLE * earlier
            longest = max(longest, guess)
        return max(LEAST, longest)


def require_known(ceiling: float | None) -> float:
    """Return the most that a call can cost.

    Raises:
        ConfigError: If it is unknown.
    """
    if ceiling is None:
        raise ConfigError(
            "the cost of a call is unknown",
            where="runner.budget_usd",
            remedy=(
                "set judge.price and judge.max_tokens (of each model), or use runner.budget_calls"
                " instead"
            ),
        )
    return ceiling
