"""How fast one judge is asked in one run: first come, first served, at the pace that all runs of the process share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from evalkit.config import RunnerConfig
from evalkit.engine.lengths import prompt_tokens
from evalkit.engine.pace import Turn, Waker, pace_of
from evalkit.engine.waiting import Clock
from evalkit.protocols import Judge
from evalkit.types import JudgeRequest, Usage

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
        self._pace = pace_of(judge.spec.model, judge.spec.api_base, clock.now)
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
