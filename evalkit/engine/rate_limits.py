"""How fast one judge is asked in one run: first come, first served, at the pace that all runs of the process share."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from math import inf
from threading import Lock
from weakref import WeakSet

from evalkit.config import RunnerConfig
from evalkit.engine.event_loop import Clock
from evalkit.engine.token_estimates import prompt_tokens
from evalkit.protocols import Judge
from evalkit.types import JudgeRequest, Usage

MINUTE = 60.0
_DRIFT = 1e-9


@dataclass(slots=True)
class WindowUsage:
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
        self._taken: deque[WindowUsage] = deque()
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

    def take(self, amount: float, now: float) -> WindowUsage:
        """Take an amount that fits now."""
        taken = WindowUsage(now, amount)
        self._taken.append(taken)
        self._sum += amount
        return taken

    def settle(self, taken: WindowUsage, amount: float) -> None:
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


CUT = 0.5


@dataclass(frozen=True, slots=True)
class Turn:
    """A call that was let through: when, and the tokens that it was expected to take."""

    began: float
    tokens: WindowUsage | None = None


class Waker:
    """Something that waits for a change of pace."""

    def wake(self) -> None:
        """Be told, from any thread, that there may be room."""


class Pace:
    """Places, requests and tokens of one model at one address; safe to use from several threads and event loops.

    The number of calls at once is halved when the provider throttles, and grows again by one for about as many answers
    as there are places, up to `most` (additive increase, multiplicative decrease: Chiu & Jain 1989, section 3).
    """

    def __init__(self) -> None:
        self.most, self.allowed, self.at_once = 0, 0.0, 0
        self.waiters: WeakSet[Waker] = WeakSet()
        self._lock = Lock()
        self._requests: Window | None = None
        self._tokens: Window | None = None
        self._not_before = self._cut_at = -inf

    def set_limits(self, most: int, rpm: float | None, tpm: float | None) -> None:
        """Set the most calls at once, requests a minute and tokens a minute; what was taken before still counts."""
        with self._lock:
            self.allowed = most if self.allowed >= self.most else min(self.allowed, most)
            self.most = most
            self._requests, self._tokens = _limited(self._requests, rpm), _limited(self._tokens, tpm)

    def enter(self, tokens: float, now: float) -> Turn | float:
        """Let a call through, or return the seconds after which to ask again: infinity if only a change can help."""
        with self._lock:
            if self.at_once >= max(1, int(self.allowed)):
                return inf
            if (wait := self._wait(tokens, now)) > 0:
                return wait
            self.at_once += 1
            if self._requests is not None:
                self._requests.take(1, now)
            return Turn(now, None if self._tokens is None else self._tokens.take(tokens, now))

    def _wait(self, tokens: float, now: float) -> float:
        waits = [self._not_before - now]
        waits += [self._requests.wait(1, now)] if self._requests is not None else []
        waits += [self._tokens.wait(tokens, now)] if self._tokens is not None else []
        return max(waits)

    def let_through(self, now: float) -> Turn:
        """Let a call through that will not be sent: it takes a place, and nothing else."""
        with self._lock:
            self.at_once += 1
        return Turn(now)

    def leave(self) -> None:
        """Give back a call's place."""
        with self._changing():
            self.at_once -= 1

    def answered(self, turn: Turn, tokens: float | None) -> None:
        """Note that a call was answered, and how many tokens it took, if that is known."""
        with self._changing():
            self.allowed = min(self.most, self.allowed + 1 / max(1.0, self.allowed))
            if self._tokens is not None and turn.tokens is not None and tokens is not None:
                self._tokens.settle(turn.tokens, tokens)

    def throttled(self, turn: Turn, now: float) -> None:
        """Allow fewer calls at once, unless this call began before that was done already."""
        with self._changing():
            if turn.began > self._cut_at:
                self.allowed = max(1.0, min(self.allowed, self.most) * CUT)
                self._cut_at = now

    def hold(self, until: float) -> None:
        """Let no call through until a moment, since the provider asked for it."""
        with self._lock:
            self._not_before = max(self._not_before, until)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            yield
            waiters = tuple(self.waiters)
        for waiter in waiters:
            waiter.wake()


def _limited(window: Window | None, limit: float | None) -> Window | None:
    if limit is None:
        return None
    window = window or Window(limit)
    window.limit = limit
    return window


_shared: dict[tuple[str, str | None, Callable[[], float]], Pace] = {}
_shared_lock = Lock()


def shared_pace(model: str, api_base: str | None, now: Callable[[], float]) -> Pace:
    """Return the one pace of a model at an address, by the clock that measures it."""
    with _shared_lock:
        return _shared.setdefault((model, api_base, now), Pace())


FIRST_GUESS = 256  # tokens of an answer, where neither max_tokens nor an answer tells
_LONGEST = ("max_tokens", "max_completion_tokens")


class JudgeLimit(Waker):
    """The limits of one judge: its attributes `concurrency`, `rpm` and `tpm`, where it has them.

    Args:
        judge: whose limits; two of one model and address share them, also in runs one after another.
        runner: for the calls at once of a judge that sets none of its own.
        clock: how time passes.
    """

    def __init__(self, judge: Judge, runner: RunnerConfig, clock: Clock) -> None:
        at_once, rpm, tpm = (getattr(judge, name, None) for name in ("concurrency", "rpm", "tpm"))
        self._pace = shared_pace(judge.spec.model, judge.spec.api_base, clock.now)
        self._pace.set_limits(at_once or runner.concurrency, rpm, tpm)
        self._pace.waiters.add(self)
        self._expected = _Expected(next((judge.spec.params[n] for n in _LONGEST if n in judge.spec.params), None))
        self._clock, self._counts = clock, tpm is not None
        self._line, self._changed = asyncio.Lock(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None
        self._lifted = False

    @property
    def allowed(self) -> int:
        """How many calls at once the provider is found to take now."""
        return max(1, int(self._pace.allowed))

    def wake(self) -> None:
        """Look again whether there is room; may be called from any thread."""
        if self._loop is None:
            return
        with suppress(RuntimeError):  # a run that is over, whose loop is closed
            if threading.get_ident() == self._thread:
                self._changed.set()
            else:
                self._loop.call_soon_threadsafe(self._changed.set)

    def lift(self) -> None:
        """Let everybody through who waits: they will find that nothing is to be sent any more."""
        self._lifted = True
        self._changed.set()

    def hold(self, seconds: float) -> None:
        """Let no call begin for `seconds`, since the provider asked for it."""
        self._pace.hold(self._clock.now() + seconds)

    def throttled(self, turn: Turn) -> None:
        """Note that the provider refused a call since there were too many."""
        self._pace.throttled(turn, self._clock.now())

    def answered(self, turn: Turn, request: JudgeRequest, usage: Usage) -> None:
        """Note that a call was answered, and what it took."""
        self._expected.learn(request, usage)
        self._pace.answered(turn, _total(usage))

    @asynccontextmanager
    async def turn(self, request: JudgeRequest) -> AsyncIterator[Turn]:
        """Wait for a place for a call, and hold it."""
        turn = await self._enter(self._expected.tokens(request) if self._counts else 0.0)
        try:
            yield turn
        finally:
            self._pace.leave()

    async def _enter(self, tokens: float) -> Turn:
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        async with self._line:
            while True:
                self._changed.clear()
                entered = self._pace.enter(tokens, self._clock.now())
                if isinstance(entered, Turn):
                    return entered
                if self._lifted:
                    return self._pace.let_through(self._clock.now())
                await self._clock.pause_unless(self._changed, entered)


class _Expected:
    """How many tokens a call will take: `longest` or else the mean answer, and the prompt as it was counted so far."""

    def __init__(self, longest: int | None) -> None:
        self._longest = longest
        self._answers, self._answer_tokens = 1, FIRST_GUESS
        self._guessed = self._counted = 0

    def tokens(self, request: JudgeRequest) -> float:
        ratio = self._counted / self._guessed if self._guessed else 1.0
        answer = self._longest if self._longest is not None else self._answer_tokens / self._answers
        return prompt_tokens(request) * ratio + answer

    def learn(self, request: JudgeRequest, usage: Usage) -> None:
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            return
        self._guessed += prompt_tokens(request)
        self._counted += usage.prompt_tokens
        if self._answers == 1:
            self._answer_tokens = usage.completion_tokens
        self._answer_tokens += usage.completion_tokens
        self._answers += 1


def _total(usage: Usage) -> float | None:
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    return usage.prompt_tokens + usage.completion_tokens
