"""Limit the rate of calls to one judge: first come, first served, at a pace that all
runs of the process share.

Workers on a store share rate limits and a budget, too: each takes what it needs now in one block.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from math import inf
from threading import Lock
from typing import NamedTuple
from uuid import uuid4
from weakref import WeakSet

from evalkit.config import RunnerConfig
from evalkit.core.errors import StoreError
from evalkit.core.protocols import Judge, SharedState
from evalkit.core.types import JudgeRequest, Usage
from evalkit.core.values import frozen
from evalkit.engine.answer_estimates import prompt_tokens
from evalkit.engine.event_loop import Clock
from evalkit.judges.adaptations import LIMITS
from evalkit.store.codec import REPAIR

MINUTE = 60.0
_DRIFT = 1e-9


@dataclass(slots=True)
class Turn:
    """A call that was let through at a time in seconds, with its tokens; it `counts`
    for one minute.
    """

    began: float
    tokens: float = 0.0
    counts: bool = False


class Window:
    """The calls of the last minute, against limits of requests and tokens.

    Times are in seconds and never decrease.

    It is exact; a token bucket refilled at `limit` per minute would allow twice the limit in the
    minute after it was full.
    """

    def __init__(self, rpm: float = inf, tpm: float = inf) -> None:
        self.rpm, self.tpm = rpm, tpm
        self._turns: deque[Turn] = deque()
        self._tokens = 0.0

    def wait(self, tokens: float, now: float) -> float:
        """Return the seconds until a call fits, 0 if it fits now.

        More tokens than the limit fit if the window is empty.

        Args:
            tokens: The tokens of the call.
            now: The time in seconds; calls that are older than a minute leave the window.
        """
        # calls of more than a minute ago do not count
        # Turns are in order of time, since times never decrease: the oldest is at index 0.
        while self._turns and self._turns[0].began + MINUTE <= now:
            turn = self._turns.popleft()
            turn.counts = False
            self._tokens -= turn.tokens
        # no rounding errors add up
        if not self._turns:
            self._tokens = 0.0
        # by how much the limits would be exceeded now
        # `min` lets a call of more tokens than the whole limit through an empty window; it would
        # otherwise wait forever.
        excess_calls = len(self._turns) + min(1, self.rpm) - self.rpm
        excess_tokens = self._tokens + min(tokens, self.tpm) - self.tpm
        wait = 0.0
        # the oldest calls leave the window first
        for turn in self._turns:
            if excess_calls <= _DRIFT and excess_tokens <= _DRIFT:
                break
            excess_calls = excess_calls - 1
            excess_tokens = excess_tokens - turn.tokens
            wait = max(0.0, turn.began + MINUTE - now)
        return wait

    def take(self, tokens: float, now: float) -> Turn:
        """Let a call through that fits now."""
        turn = Turn(now, tokens, counts=min(self.rpm, self.tpm) < inf)
        if turn.counts:
            self._turns.append(turn)
            self._tokens += tokens
        return turn

    def settle(self, turn: Turn, tokens: float) -> None:
        """Replace a call's estimated tokens by the actual ones; calls that were let
        through are not affected.
        """
        if turn.counts:
            self._tokens += tokens - turn.tokens
            turn.tokens = tokens


CUT = 0.5


class Pace:
    """Concurrency, requests and tokens of one model at one address; safe across threads
    and event loops.

    The number of concurrent calls is halved when the provider throttles. It grows by one after
    about as many answers as there are concurrent calls, up to `limit` (additive increase,
    multiplicative decrease: Chiu & Jain 1989, section 3).
    """

    def __init__(self) -> None:
        self.limit, self.allowed, self.in_flight = 0, 0.0, 0
        self.waiters: WeakSet[JudgeLimit] = WeakSet()
        self._lock = Lock()
        self._window = Window()
        self._not_before = self._cut_at = -inf

    def set_limits(self, limit: int, rpm: float | None, tpm: float | None) -> None:
        """Set the maximum of concurrent calls, requests per minute and tokens per
        minute; past usage still counts.
        """
        with self._lock:
            self.allowed = (
                # A run that starts while another was throttled must not reset what was learned.
                limit if self.allowed >= self.limit else min(self.allowed, limit)
            )
            self.limit = limit
            self._window.rpm = inf if rpm is None else rpm
            self._window.tpm = inf if tpm is None else tpm

    def enter(self, tokens: float, now: float) -> Turn | float:
        """Let a call through, or return the seconds until the next try; infinity if
        only a change can help.
        """
        with self._lock:
            # Infinity: only the end of another call can help, and that wakes the waiters.
            if self.in_flight >= max(1, int(self.allowed)):
                return inf
            if (
                wait := max(self._not_before - now, self._window.wait(tokens, now))
            ) > 0:
                return wait
            self.in_flight += 1
            return self._window.take(tokens, now)

    def let_through(self, now: float) -> Turn:
        """Let a call through that will not be sent: it only counts as in flight."""
        with self._lock:
            self.in_flight += 1
        return Turn(now)

    def leave(self) -> None:
        """Release a call's slot."""
        with self._changing():
            self.in_flight -= 1

    def answered(self, turn: Turn, tokens: float | None, *, grow: bool = True) -> None:
        """Record an answer and its number of tokens, if known; `grow` allows more
        concurrent calls.
        """
        with self._changing():
            growth = 1 / max(1.0, self.allowed) if grow else 0.0
            self.allowed = min(self.limit, self.allowed + growth)
            if tokens is not None:
                self._window.settle(turn, tokens)

    def throttled(self, turn: Turn, now: float) -> None:
        """Allow fewer concurrent calls, unless this call started before the last reduction."""
        with self._changing():
            # calls that were sent together are throttled together, and count once
            if turn.began > self._cut_at:
                self.allowed = max(1.0, min(self.allowed, self.limit) * CUT)
                self._cut_at = now

    def pause(self, until: float) -> None:
        """Let no call through before a time, because the provider asked for a pause."""
        with self._lock:
            self._not_before = max(self._not_before, until)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            yield
            # Wake outside of the lock: a waiter of another thread may take it at once.
            waiters = tuple(self.waiters)
        for waiter in waiters:
            waiter.wake()


_shared: dict[tuple[str, str | None, Callable[[], float]], Pace] = {}
_shared_lock = Lock()


def shared_pace(model: str, api_base: str | None, now: Callable[[], float]) -> Pace:
    """Return the shared pace of a model at an address, for the clock that measures it."""
    with _shared_lock:
        # The clock is a part of the key: times of two clocks cannot be compared.
        return _shared.setdefault((model, api_base, now), Pace())


LATE = 0.2
"""Seconds within which a permit is used; the rest of a block is given back. Taken permits count
this much longer."""
GRAIN = 0.2
"""Seconds of permits that are counted together, and between two tries of a worker."""
BURST = 1.0
"""Seconds of requests that several workers may send at once: what a busy machine delays would pile
up in a minute."""
BLOCK = 0.002
"""The share of a budget that is taken at a time, unless one call needs more."""


class _Taken(NamedTuple):
    """Calls and tokens that were taken from `first` to `last`, in seconds of the store's clock."""

    first: float
    last: float
    calls: int = 0
    tokens: float = 0.0


class SharedWindow:
    """The requests and tokens that all workers send to one model in `window` seconds,
    by the store's clock.
    """

    def __init__(
        self,
        state: SharedState,
        name: str,
        rpm: float | None,
        tpm: float | None,
        window: float = 60.0,
    ) -> None:
        self._state = state
        self._name = name
        self._span = window + LATE
        self._rpm = inf if rpm is None else rpm
        self._tpm = inf if tpm is None else tpm
        # `_each`: the tokens that each permit of the block was counted with. `_owed`: the
        # difference between actual and counted tokens, to be corrected with the next block.
        self._permits, self._until, self._each, self._owed = 0, 0.0, 0.0, 0.0
        self._worker = uuid4().hex[:8]

    def correct(self, tokens: float) -> None:
        """Count more tokens, or fewer, with the next block."""
        self._owed += tokens

    async def take(self, tokens: float, waiting: int, now: float) -> float:
        """Take a permit for a call of so many tokens and return 0, or return the
        seconds until the next try.

        Args:
            tokens: The tokens expected.
            waiting: How many calls wait for a permit, this one included.
            now: Seconds of this process's clock, which never decrease.
        """
        if not self._permits or now > self._until:
            # The store counts a permit only as long as it may be used: the rest of an old block
            # goes back.
            unused = self._permits
            self._permits = 0
            self._owed -= unused * self._each
            self._permits, wait = await asyncio.to_thread(
                self._fetch, tokens, waiting, unused
            )
            self._each = tokens
            self._until = now + LATE
            if not self._permits:
                return max(wait, GRAIN)
        self._permits -= 1
        self._owed += tokens - self._each
        return 0.0

    def _fetch(self, tokens: float, waiting: int, unused: int) -> tuple[int, float]:
        """Take a block, and return its permits and the seconds until there may be one."""
        granted = 0
        wait = 0.0
        # A fixed copy: `correct` may add to `_owed` while this thread is at the store. Only what
        # was written is subtracted at the end.
        owed = self._owed

        def change(text: str | None, now: float) -> str:
            """Return the shared text with this worker's block; runs in a transaction."""
            nonlocal granted, wait
            # `taken`: blocks in order of time. `workers`: when each was last here. `next`: the
            # time up to which the even pace has been used.
            shared = json.loads(text or '{"taken": [], "workers": {}, "next": 0}')
            taken = [
                block
                for block in map(_Taken._make, shared["taken"])
                if block.last + self._span > now
            ]
            workers = {
                name: at
                for name, at in shared["workers"].items()
                if at + self._span > now
            }
            workers[self._worker] = now
            # One worker alone may burst, as without sharing. Several are spread over the minute.
            pace = self._rpm / (self._span - LATE) if len(workers) > 1 else inf
            start = max(shared["next"], now - max(BURST, 1 / pace))
            paced = (now - start + unused / pace) * pace // 1 if pace < inf else inf
            calls = sum(block.calls for block in taken)
            used = sum(block.tokens for block in taken)
            if tokens and self._tpm < inf:
                by_tokens = (self._tpm - used - owed) // tokens
            else:
                by_tokens = inf
            # Like one worker's: an amount above the limit fits into an empty window.
            granted = int(
                max(
                    0 if taken else 1,
                    min(waiting, (self._rpm - calls + unused) // 1, by_tokens, paced),
                )
            )
            wait = taken[0].last + self._span - now if taken and paced else 1 / pace
            if granted or unused or owed:
                # Blocks of the same moment are merged, so that the text in the store stays short.
                if not taken or now - taken[-1].first >= GRAIN:
                    taken.append(_Taken(now, now))
                first, _, calls, used = taken[-1]
                taken[-1] = _Taken(
                    first, now, calls + granted - unused, used + granted * tokens + owed
                )
            return json.dumps(
                {
                    "taken": taken,
                    "workers": workers,
                    "next": start + (granted - unused) / pace,
                }
            )

        _change_shared(self._state, self._name, change)
        self._owed -= owed
        return granted, wait


@frozen
class SharedBudget:
    """A budget of `cap` USD that workers never exceed together; what a killed one had
    taken counts as spent.
    """

    state: SharedState
    name: str
    cap: float

    def take(self, need: float) -> float:
        """Take an amount, a little more if there is some left; return it, or 0 if the
        budget does not cover it.
        """
        got = 0.0

        def change(text: str | None, _: float) -> str:
            nonlocal got
            taken = float(text or 0.0)
            got = min(max(need, self.cap * BLOCK), self.cap - taken)
            # All or nothing: a part of the need would be locked here and help no call.
            got = got if got >= need else 0.0
            return repr(taken + got)

        _change_shared(self.state, self.name, change)
        return got

    def give_back(self, amount: float) -> None:
        """Give back what was taken and not spent."""
        _change_shared(
            self.state,
            self.name,
            lambda text, _: repr(max(0.0, float(text or 0.0) - amount)),
        )


@frozen
class SharedLimits:
    """The limits that a run shares with all workers on its store; the budget is that of
    a `study`.
    """

    state: SharedState
    study: str

    def window(self, judge: Judge) -> SharedWindow | None:
        """Return the rate limits of a judge's model; `None` if it has none."""
        rpm = getattr(judge, "rpm", None)
        tpm = getattr(judge, "tpm", None)
        name = f"limit/{judge.spec.model} {judge.spec.api_base or ''}"
        if rpm is None and tpm is None:
            return None
        return SharedWindow(self.state, name, rpm, tpm)

    def budget(self, runner: RunnerConfig) -> SharedBudget | None:
        """Return the shared budget; `None` if it is not shared."""
        shared = runner.budget_usd if runner.budget_scope == "store" else None
        if shared is None:
            return None
        return SharedBudget(self.state, f"budget/{self.study}", shared)


def _change_shared(
    state: SharedState, name: str, change: Callable[[str | None, float], str]
) -> None:
    """Change a shared text of the store.

    Raises:
        StoreError: If the text cannot be read.
    """
    try:
        state.change_state(name, change)
    # The text may be of another version or changed by hand. Counting from zero would exceed the
    # limits, so it is an error.
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise StoreError(
            f"the store's shared text '{name}' is damaged; {REPAIR}"
        ) from error


FIRST_GUESS = 256  # tokens of an answer, before any answer and without max_tokens


class JudgeLimit:
    """The rate limits of one judge, from its optional attributes `concurrency`, `rpm` and `tpm`.

    Args:
        judge: The judge; judges with the same model and address share their limits, even across
            runs.
        runner: The default concurrency.
        clock: The source of time.
        shared: The limits of all workers on a store.
    """

    def __init__(
        self,
        judge: Judge,
        runner: RunnerConfig,
        clock: Clock,
        shared: SharedLimits | None = None,
    ) -> None:
        concurrency, rpm, tpm = (
            getattr(judge, name, None) for name in ("concurrency", "rpm", "tpm")
        )
        self._pace = shared_pace(judge.spec.model, judge.spec.api_base, clock.now)
        self._pace.set_limits(concurrency or runner.concurrency, rpm, tpm)
        self._pace.waiters.add(self)
        self._longest = next(
            (judge.spec.params[name] for name in LIMITS if name in judge.spec.params),
            None,
        )
        # The guess counts as one answer until the first real one replaces it; see `answered`.
        self._answers, self._answer_tokens = 1, FIRST_GUESS
        self._guessed = self._counted = 0
        self._congested = False
        self._clock = clock
        self._counts = tpm is not None
        self._queue = asyncio.Lock()
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        self._window = None if shared is None else shared.window(judge)
        self._waiting = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None

    def wake(self) -> None:
        """Check again whether a call is possible; callable from any thread."""
        if self._loop is None:
            return
        with suppress(RuntimeError):  # the loop of a finished run is closed
            if threading.get_ident() == self._thread:
                self._changed.set()
            else:
                self._loop.call_soon_threadsafe(self._changed.set)

    def lift(self) -> None:
        """Let all waiting calls through: they will find that nothing is sent any more."""
        self._over.set()
        self._changed.set()

    def pause(self, seconds: float) -> None:
        """Start no call for `seconds`, because the provider asked for a pause."""
        self._pace.pause(self._clock.now() + seconds)

    def throttled(self, turn: Turn) -> None:
        """Record that the provider refused a call because of its rate limits."""
        self._pace.throttled(turn, self._clock.now())

    def congested(self, turn: Turn) -> bool:
        """Record that a call timed out, as if it had been throttled; return whether it
        is the first one.
        """
        self.throttled(turn)
        first = not self._congested
        self._congested = True
        return first

    def answered(
        self, turn: Turn, request: JudgeRequest, usage: Usage, *, slow: bool = False
    ) -> None:
        """Record an answer and its usage; after a timeout, `slow` answers allow no more
        calls at a time.
        """
        read = usage.prompt_tokens
        written = usage.completion_tokens
        tokens: int | None = None
        if read is not None and written is not None:
            tokens = read + written
            self._guessed += prompt_tokens(request)
            self._counted += read
            self._answer_tokens = written + (
                written if self._answers == 1 else self._answer_tokens
            )
            self._answers += 1
        if self._window is not None and self._counts and tokens is not None:
            self._window.correct(tokens - turn.tokens)
        self._pace.answered(turn, tokens, grow=not (slow and self._congested))

    @asynccontextmanager
    async def turn(self, request: JudgeRequest) -> AsyncIterator[Turn]:
        """Wait for a slot for a call, and hold it within the block."""
        tokens = 0.0
        # The tokens of the prompt, and of the longest or the mean answer.
        if self._counts:
            # The provider's own count of past prompts corrects the estimate, which knows no
            # tokenizer.
            ratio = self._counted / self._guessed if self._guessed else 1.0
            if self._longest is not None:
                answer = self._longest
            else:
                answer = self._answer_tokens / self._answers
            tokens = prompt_tokens(request) * ratio + answer
        self._waiting += 1
        try:
            turn = await self._wait_in_line(tokens)
        finally:
            self._waiting -= 1
        try:
            yield turn
        finally:
            self._pace.leave()

    async def _wait_in_line(self, tokens: float) -> Turn:
        """Wait until the limits allow a call of so many tokens, and return its slot."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        # First come, first served: only the first in line looks at the pace.
        async with self._queue:
            while True:
                # Clear before looking: a change between the look and the wait then still wakes
                # us.
                self._changed.clear()
                entered = self._pace.enter(tokens, self._clock.now())
                if isinstance(entered, Turn):
                    # This process's slot first, then the shared permit: a permit that waits for a
                    # slot expires.
                    await self._share(tokens)
                    return entered
                if self._over.is_set():
                    return self._pace.let_through(self._clock.now())
                await self._clock.pause_unless(self._changed, entered)

    async def _share(self, tokens: float) -> None:
        """Wait for a permit of the limit that all workers share, with a slot of this process."""
        try:
            while self._window is not None and not self._over.is_set():
                if not (
                    wait := await self._window.take(
                        tokens, self._waiting, self._clock.now()
                    )
                ):
                    return
                await self._clock.pause_unless(self._over, wait)
        except BaseException:
            self._pace.leave()
            raise
