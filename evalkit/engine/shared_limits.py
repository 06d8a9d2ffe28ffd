"""Share rate limits and a budget among all workers on a store: each worker takes what it needs now in one block."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple
from uuid import uuid4

from evalkit.config import RunnerConfig
from evalkit.errors import StoreError
from evalkit.protocols import Judge, SharedState
from evalkit.store.codec import REPAIR

LATE = 0.2
"""Seconds within which a permit is used; the rest of a block is given back. Taken permits count this much longer."""
GRAIN = 0.2
"""Seconds of permits that are counted together, and between two tries of a worker."""
BURST = 1.0
"""Seconds of requests that several workers may send at once: what a busy machine delays would pile up in a minute."""
BLOCK = 0.002
"""The share of a budget that is taken at a time, unless one call needs more."""


class _Taken(NamedTuple):
    """Calls and tokens that were taken from `first` to `last`, in seconds of the store's clock."""

    first: float
    last: float
    calls: int = 0
    tokens: float = 0.0


class SharedWindow:
    """The requests and tokens that all workers send to one model in `window` seconds, by the store's clock."""

    def __init__(
        self, state: SharedState, name: str, rpm: float | None, tpm: float | None, window: float = 60.0
    ) -> None:
        self._state, self._name, self._span = state, name, window + LATE
        self._rpm, self._tpm = inf if rpm is None else rpm, inf if tpm is None else tpm
        self._permits, self._until, self._each, self._owed = 0, 0.0, 0.0, 0.0
        self._worker = uuid4().hex[:8]

    def correct(self, tokens: float) -> None:
        """Count more tokens, or fewer, with the next block."""
        self._owed += tokens

    async def take(self, tokens: float, waiting: int, now: float) -> float:
        """Take a permit for a call of so many tokens and return 0, or return the seconds until the next try.

        Args:
            tokens: The tokens expected.
            waiting: How many calls wait for a permit, this one included.
            now: Seconds of this process's clock, which never decrease.
        """
        if not self._permits or now > self._until:
            unused, self._permits = self._permits, 0
            self._owed -= unused * self._each
            self._permits, wait = await asyncio.to_thread(self._fetch, tokens, waiting, unused)
            self._each, self._until = tokens, now + LATE
            if not self._permits:
                return max(wait, GRAIN)
        self._permits -= 1
        self._owed += tokens - self._each
        return 0.0

    def _fetch(self, tokens: float, waiting: int, unused: int) -> tuple[int, float]:
        """Take a block, and return its permits and the seconds until there may be one."""
        granted, wait, owed = 0, 0.0, self._owed

        def change(text: str | None, now: float) -> str:
            nonlocal granted, wait
            shared = json.loads(text or '{"taken": [], "workers": {}, "next": 0}')
            taken = [block for block in map(_Taken._make, shared["taken"]) if block.last + self._span > now]
            workers = {name: at for name, at in shared["workers"].items() if at + self._span > now}
            workers[self._worker] = now
            pace = self._rpm / (self._span - LATE) if len(workers) > 1 else inf
            start = max(shared["next"], now - max(BURST, 1 / pace))
            paced = (now - start + unused / pace) * pace // 1 if pace < inf else inf
            calls, used = sum(block.calls for block in taken), sum(block.tokens for block in taken)
            by_tokens = (self._tpm - used - owed) // tokens if tokens and self._tpm < inf else inf
            # Like one worker's: an amount above the limit fits into an empty window.
            granted = int(max(0 if taken else 1, min(waiting, (self._rpm - calls + unused) // 1, by_tokens, paced)))
            wait = taken[0].last + self._span - now if taken and paced else 1 / pace
            if granted or unused or owed:
                if not taken or now - taken[-1].first >= GRAIN:
                    taken.append(_Taken(now, now))
                first, _, calls, used = taken[-1]
                taken[-1] = _Taken(first, now, calls + granted - unused, used + granted * tokens + owed)
            return json.dumps({"taken": taken, "workers": workers, "next": start + (granted - unused) / pace})

        _change(self._state, self._name, change)
        self._owed -= owed
        return granted, wait


@dataclass(frozen=True, slots=True)
class SharedBudget:
    """A budget of `cap` USD that workers never exceed together; what a killed one had taken counts as spent."""

    state: SharedState
    name: str
    cap: float

    def take(self, need: float) -> float:
        """Take an amount, a little more if there is some left; return it, or 0 if the budget does not cover it."""
        got = 0.0

        def change(text: str | None, _: float) -> str:
            nonlocal got
            taken = float(text or 0.0)
            got = min(max(need, self.cap * BLOCK), self.cap - taken)
            got = got if got >= need else 0.0
            return repr(taken + got)

        _change(self.state, self.name, change)
        return got

    def give_back(self, amount: float) -> None:
        """Give back what was taken and not spent."""
        _change(self.state, self.name, lambda text, _: repr(max(0.0, float(text or 0.0) - amount)))


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """The limits that a run shares with all workers on its store; the budget is that of a `study`."""

    state: SharedState
    study: str

    def window(self, judge: Judge) -> SharedWindow | None:
        """Return the rate limits of a judge's model; `None` if it has none."""
        rpm, tpm = getattr(judge, "rpm", None), getattr(judge, "tpm", None)
        name = f"limit/{judge.spec.model} {judge.spec.api_base or ''}"
        return None if rpm is None and tpm is None else SharedWindow(self.state, name, rpm, tpm)

    def budget(self, runner: RunnerConfig) -> SharedBudget | None:
        """Return the shared budget; `None` if it is not shared."""
        shared = runner.budget_usd if runner.budget_scope == "store" else None
        return None if shared is None else SharedBudget(self.state, f"budget/{self.study}", shared)


def _change(state: SharedState, name: str, change: Callable[[str | None, float], str]) -> None:
    try:
        state.change_state(name, change)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise StoreError(f"the store's shared text '{name}' is damaged; {REPAIR}") from error
