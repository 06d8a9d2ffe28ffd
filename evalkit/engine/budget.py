"""A cap on calls and USD that is never exceeded: reserve the most that a call can cost, then settle its actual cost.

If the rest of a budget does not cover the longest possible answer of a judge, the call is limited
to a length that observed answers rarely exceed, and the reservation is for that length.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import inf

from evalkit.config import RunnerConfig
from evalkit.core.display import dollars
from evalkit.engine.rate_limits import SharedBudget
from evalkit.engine.requests import expected_tokens
from evalkit.errors import ConfigError
from evalkit.results import Spent
from evalkit.types import Completion, JudgeRequest

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
    """The amount reserved for one call, in USD; a `limited` call must not be longer than the amount pays for."""

    amount: float
    limited: bool = False


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
        return (
            None
            if self._usd is None or self._shared is not None
            else max(0.0, self._usd - self.spent - self.reserved)
        )

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
        reservation = Reservation(ceiling or 0.0)
        if self._usd is not None:
            async with self._turn:
                reservation = await self._room_for(
                    require_known(ceiling), limited, self._usd
                )
        if self._calls is not None and self.calls >= self._calls:
            raise BudgetReached(
                f"runner.budget_calls={self._calls} is reached{self._of_sweep}"
            )
        self._total.calls += 1
        self.reserved += reservation.amount
        self._in_flight += 1
        return reservation

    async def settle(self, reservation: Reservation, cost: float | None) -> None:
        """Replace a reservation by the actual cost in USD, or spend it all if the cost is unknown."""
        self._in_flight -= 1
        # Sums of floats drift: without calls in flight, any remainder is drift.
        self.reserved = self.reserved - reservation.amount if self._in_flight else 0.0
        # A budget never grows, whatever cost a judge reports.
        self._total.usd += (
            reservation.amount if cost is None or not 0 <= cost < inf else cost
        )
        if self._usd is not None:
            async with self._settled:
                self._settled.notify_all()

    async def close(self) -> None:
        """Give back what was taken of a shared budget and not spent."""
        if self._shared is not None and (left := self._taken - self.spent) > 0:
            self._taken = self.spent
            await asyncio.to_thread(self._shared.give_back, left)

    async def _covers(self, amount: float, cap: float) -> bool:
        if self._shared is None:
            return self.spent + self.reserved + amount <= cap
        if (short := self.spent + self.reserved + amount - self._taken) > 0:
            self._taken += await asyncio.to_thread(self._shared.take, short)
        return self.spent + self.reserved + amount <= self._taken + _DRIFT

    async def _room_for(
        self, ceiling: float, limited: float | None, cap: float
    ) -> Reservation:
        while True:
            if await self._covers(ceiling, cap):
                return Reservation(ceiling)
            if (
                limited is not None
                and limited < ceiling
                and await self._covers(limited, cap)
            ):
                return Reservation(limited, limited=True)
            if not self._in_flight:
                least = ceiling if limited is None else min(limited, ceiling)
                by = "" if self._shared is None else " by this one"
                spent = f"{dollars(self.spent)} spent{by}, and the next call may cost {dollars(least)}"
                raise BudgetReached(
                    f"runner.budget_usd={cap:g} is reached{self._of_sweep}: {spent}"
                )
            async with self._settled:
                await self._settled.wait()


@dataclass(slots=True)
class AnswerLengths:
    """The longest answer per judge index, in tokens, in this run and in `earlier` ones, and judges without limits."""

    earlier: dict[int, int] = field(default_factory=dict)
    unlimited: set[int] = field(default_factory=set)
    _longest: dict[int, int] = field(default_factory=dict)
    _seen: Counter[int] = field(default_factory=Counter)

    def observe(self, judge: int, completion: Completion) -> None:
        """Record the length of an answer, stored or new."""
        tokens = completion.usage.completion_tokens
        if tokens is not None:
            self._seen[judge] += 1
            self._longest[judge] = max(tokens, self._longest.get(judge, 0))

    def limit(self, judge: int, request: JudgeRequest) -> int | None:
        """Return the number of tokens that an answer rarely exceeds; `None` if the judge does not accept a limit."""
        if judge in self.unlimited:
            return None
        longest = AMPLE * self._longest.get(judge, 0)
        if self._seen[judge] < ENOUGH:
            earlier = self.earlier.get(judge)
            guess = (
                UNOBSERVED * expected_tokens(request.answer)
                if earlier is None
                else AMPLE * earlier
            )
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
