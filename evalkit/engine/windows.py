"""Requests or tokens a minute: never more than the limit in any span of a minute, and all of it when there is work."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

MINUTE = 60.0
_DRIFT = 1e-9


@dataclass(slots=True)
class Taken:
    """An amount taken from a window at a moment; `counts` until that is a minute ago."""

    at: float
    amount: float
    counts: bool = True


class Window:
    """What was taken in the last minute, against a limit; times are given in seconds and never go back.

    Exact, where a bucket refilled at `limit` a minute would give out twice that in the minute after it was full.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._taken: deque[Taken] = deque()
        self._sum = 0.0

    def wait(self, amount: float, now: float) -> float:
        """Return the seconds until `amount` fits; more than the whole limit fits when nothing else is there."""
        self._forget(now)
        excess = self._sum + min(amount, self.limit) - self.limit
        for taken in self._taken:
            if excess <= _DRIFT:
                break
            excess -= taken.amount
            if excess <= _DRIFT:
                return max(0.0, taken.at + MINUTE - now)
        return 0.0

    def take(self, amount: float, now: float) -> Taken:
        """Take an amount that fits now."""
        taken = Taken(now, amount)
        self._taken.append(taken)
        self._sum += amount
        return taken

    def settle(self, taken: Taken, amount: float) -> None:
        """Put what it came to in place of what was expected; nobody is called back who has been let through."""
        if taken.counts:
            self._sum += amount - taken.amount
            taken.amount = amount

    def _forget(self, now: float) -> None:
        while self._taken and self._taken[0].at + MINUTE <= now:
            gone = self._taken.popleft()
            gone.counts = False
            self._sum -= gone.amount
        if not self._taken:
            self._sum = 0.0
