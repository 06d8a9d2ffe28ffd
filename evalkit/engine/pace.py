"""How fast one model at one address may be asked, by everything in this process that asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from threading import Lock
from weakref import WeakSet

from evalkit.engine.windows import Taken, Window

CUT = 0.5


@dataclass(frozen=True, slots=True)
class Turn:
    """A call that was let through: when, and the tokens that it was expected to take."""

    began: float
    tokens: Taken | None = None


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


def pace_of(model: str, api_base: str | None, now: Callable[[], float]) -> Pace:
    """Return the one pace of a model at an address, by the clock that measures it."""
    with _shared_lock:
        return _shared.setdefault((model, api_base, now), Pace())
