"""A cap on calls and US$ that is never exceeded: reserved at the most a call can cost, settled at what it did cost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from math import inf

from evalkit.config import RunnerConfig
from evalkit.errors import ConfigError


class BudgetReached(Exception):  # noqa: N818
    """One more call might exceed the cap; `str()` of it says which."""


@dataclass(slots=True)
class Reservation:
    """What is set aside for one call, in US$."""

    amount: float


class Budget:
    """The cap of one run; every attempt counts as a call, since a provider may bill it."""

    def __init__(self, runner: RunnerConfig) -> None:
        self._calls, self._usd = runner.budget_calls, runner.budget_usd
        self.calls = 0
        self.spent = self.reserved = 0.0
        self._in_flight = 0
        self._settled = asyncio.Condition()

    @property
    def left(self) -> float | None:
        """The US$ that are neither spent nor set aside, or none without a cap."""
        return None if self._usd is None else max(0.0, self._usd - self.spent - self.reserved)

    async def reserve(self, ceiling: float | None) -> Reservation:
        """Set aside one call that costs at most `ceiling` US$, waiting while calls in flight may yet leave room.

        Raises:
            BudgetReached: if the cap leaves no room for it.
            ConfigError: if there is a cap in US$, and what a call may cost is not known.
        """
        if self._usd is not None:
            await self._room_for(_known(ceiling), self._usd)
        if self._calls is not None and self.calls >= self._calls:
            raise BudgetReached(f"runner.budget_calls={self._calls} is reached")
        self.calls += 1
        reservation = Reservation(ceiling or 0.0)
        self.reserved += reservation.amount
        self._in_flight += 1
        return reservation

    async def settle(self, reservation: Reservation, cost: float | None) -> None:
        """Replace what was set aside by what the call cost; by itself when that is not known."""
        self._in_flight -= 1
        # Sums of floats drift; what is left when nothing is in flight is drift alone.
        self.reserved = self.reserved - reservation.amount if self._in_flight else 0.0
        # A budget never grows, whatever a call is said to have cost.
        self.spent += reservation.amount if cost is None or not 0 <= cost < inf else cost
        if self._usd is not None:
            async with self._settled:
                self._settled.notify_all()

    async def _room_for(self, amount: float, cap: float) -> None:
        while self.spent + self.reserved + amount > cap:
            if not self._in_flight:
                raise BudgetReached(f"runner.budget_usd={cap:g} is reached: US$ {self.spent:.4f} spent")
            async with self._settled:
                await self._settled.wait()


def _known(ceiling: float | None) -> float:
    if ceiling is None:
        raise ConfigError(
            "what a call may cost is not known",
            where="runner.budget_usd",
            remedy="set judge.price and judge.max_tokens, or use runner.budget_calls",
        )
    return ceiling
