"""A cap on calls and US$ that is never exceeded: reserved at the most a call can cost, settled at what it did cost.

Where the rest of a budget does not cover the longest answer that a judge may give, a call is limited to a length that
observed answers seldom have, and the reserve is for that length.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from math import inf

from evalkit.config import RunnerConfig
from evalkit.engine.token_estimates import expected_tokens
from evalkit.errors import ConfigError
from evalkit.types import Completion, JudgeRequest, Spent

AMPLE = 2
"""A limited call may have so many times the tokens of the longest answer so far."""
UNOBSERVED = 4
"""Without any answer so far, so many times those that its format suggests."""
LEAST = 64
ENOUGH = 5
"""So many answers of a run count more than those of earlier runs."""


class BudgetReached(Exception):  # noqa: N818
    """One more call might exceed the cap; `str()` of it says which."""


@dataclass(slots=True)
class Reservation:
    """What is set aside for one call, in US$; a `limited` call must not be longer than that pays for."""

    amount: float
    limited: bool = False


class Budget:
    """The cap of one run or, with a shared `total`, of a sweep; every attempt is a call, as a provider may bill it."""

    def __init__(self, runner: RunnerConfig, total: Spent | None = None) -> None:
        self._calls, self._usd = runner.budget_calls, runner.budget_usd
        self._total = total or Spent()
        self._of_sweep = " by the sweep" if total is not None else ""
        self.reserved = 0.0
        self._in_flight = 0
        self._settled = asyncio.Condition()

    @property
    def calls(self) -> int:
        """The calls made so far."""
        return self._total.calls

    @property
    def spent(self) -> float:
        """The US$ spent so far."""
        return self._total.usd

    @property
    def left(self) -> float | None:
        """The US$ that are neither spent nor set aside, or none without a cap."""
        return None if self._usd is None else max(0.0, self._usd - self.spent - self.reserved)

    async def reserve(self, ceiling: float | None, limited: float | None = None) -> Reservation:
        """Set aside one call that costs at most `ceiling` US$, waiting while calls in flight may yet leave room.

        Where there is no room for that, but for `limited` US$, the call is to be limited.

        Raises:
            BudgetReached: if the cap leaves no room for it.
            ConfigError: if there is a cap in US$, and what a call may cost is not known.
        """
        reservation = Reservation(ceiling or 0.0)
        if self._usd is not None:
            reservation = await self._room_for(_known(ceiling), limited, self._usd)
        if self._calls is not None and self.calls >= self._calls:
            raise BudgetReached(f"runner.budget_calls={self._calls} is reached{self._of_sweep}")
        self._total.calls += 1
        self.reserved += reservation.amount
        self._in_flight += 1
        return reservation

    async def settle(self, reservation: Reservation, cost: float | None) -> None:
        """Replace what was set aside by what the call cost; by itself when that is not known."""
        self._in_flight -= 1
        # Sums of floats drift; what is left when nothing is in flight is drift alone.
        self.reserved = self.reserved - reservation.amount if self._in_flight else 0.0
        # A budget never grows, whatever a call is said to have cost.
        self._total.usd += reservation.amount if cost is None or not 0 <= cost < inf else cost
        if self._usd is not None:
            async with self._settled:
                self._settled.notify_all()

    async def _room_for(self, ceiling: float, limited: float | None, cap: float) -> Reservation:
        while True:
            taken = self.spent + self.reserved
            if taken + ceiling <= cap:
                return Reservation(ceiling)
            if limited is not None and limited < ceiling and taken + limited <= cap:
                return Reservation(limited, limited=True)
            if not self._in_flight:
                least = ceiling if limited is None else min(limited, ceiling)
                spent = f"US$ {self.spent:.4f} spent, and the next call may cost US$ {least:.4f}"
                raise BudgetReached(f"runner.budget_usd={cap:g} is reached{self._of_sweep}: {spent}")
            async with self._settled:
                await self._settled.wait()


@dataclass(slots=True)
class AnswerLengths:
    """The longest answer of each judge, by its index, in this run and in `earlier` ones, and judges without limits."""

    earlier: dict[int, int] = field(default_factory=dict)
    unlimited: set[int] = field(default_factory=set)
    _longest: dict[int, int] = field(default_factory=dict)
    _seen: Counter[int] = field(default_factory=Counter)

    def see(self, judge: int, completion: Completion) -> None:
        """Take an answer into account, stored or new."""
        tokens = completion.usage.completion_tokens
        if tokens is not None:
            self._seen[judge] += 1
            self._longest[judge] = max(tokens, self._longest.get(judge, 0))

    def limit(self, judge: int, request: JudgeRequest) -> int | None:
        """Return the tokens that an answer of this judge seldom exceeds, or `None` if it takes no limit."""
        if judge in self.unlimited:
            return None
        longest = AMPLE * self._longest.get(judge, 0)
        if self._seen[judge] < ENOUGH:
            earlier = self.earlier.get(judge)
            guess = UNOBSERVED * expected_tokens(request.answer) if earlier is None else AMPLE * earlier
            longest = max(longest, guess)
        return max(LEAST, longest)


def _known(ceiling: float | None) -> float:
    if ceiling is None:
        raise ConfigError(
            "what a call may cost is not known",
            where="runner.budget_usd",
            remedy="set judge.price and judge.max_tokens, or use runner.budget_calls",
        )
    return ceiling
