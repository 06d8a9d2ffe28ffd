"""Report on a run of the engine: its progress, what it took, and its result."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeAlias, TypeVar

from evalkit.core.types import Case, Completion, Judgment
from evalkit.core.values import frozen
from evalkit.runs.results import Calls

T = TypeVar("T", bound=Any)


def add(first: T, second: T) -> T:
    """Return the sum of two records, field by field; a number that one of them does not
    know is unknown.
    """

    def total(first: Any, second: Any) -> Any:
        if first is None or second is None:
            return None
        if is_dataclass(first):
            return add(first, second)
        return first + second

    sums = {
        part.name: total(getattr(first, part.name), getattr(second, part.name))
        for part in fields(first)
    }
    return replace(first, **sums)


@frozen
class Spend:
    """The counts of calls, the tokens of those that were sent, and their cost in USD;
    `None` if a price is unknown.
    """

    calls: Calls = field(default_factory=Calls)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0


@dataclass(slots=True)
class Progress:
    """The progress of a run.

    Attributes:
        done: The judgments so far.
        total: The expected judgments, estimated until every case is planned; `None` if there is no
            estimate yet.
        stored: The answers from the store.
        sent: The calls sent.
        failed: The failed judgments.
        retried: The repeated attempts.
        prompt_tokens: The prompt tokens of the calls sent.
        completion_tokens: The completion tokens of the calls sent.
        cost_usd: The cost of the calls sent, in USD; `None` if the price of one of them is unknown.
        elapsed: Seconds since the start.
        throttled: The calls that the provider refused because of its rate limits.
        budget_left: The rest of the budget, in USD; `None` without a cap.
        answers: The number of different answers in the store, once an interrupted run has ended.
        waiting: Why calls wait now, as a clause; empty if they do not.
    """

    done: int = 0
    total: int | None = 0
    stored: int = 0
    sent: int = 0
    failed: int = 0
    retried: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    elapsed: float = 0.0
    throttled: int = 0
    budget_left: float | None = None
    answers: int | None = None
    waiting: str = ""


@frozen
class JudgingResult:
    """The result of a run of the engine.

    Attributes:
        judgments: The finished judgments, in case order, then by judge, then as planned.
        spend: The calls, and the tokens and cost of those sent in this run.
        interrupted: Whether a signal stopped the run, so that judgments are missing.
        stopped: Why requests were not sent, on one line; `None` if all were.
        dropped: The parameters that each judge's provider refused, by the judge's name.
        adapted: How each judge's requests differ from the config, and what its answers show about
            the server, by the judge's name.
        sending: Seconds from the first call to the last judgment; 0 if nothing was sent.
        signal: The signal that interrupted the run.
        whole: The number of judgments that an interrupted run would have had; `None` if it is
            unknown.
        answers: The number of different answers that are in the store.
        again: The requests whose stored answer could not be used and that were sent again.
    """

    judgments: Sequence[Judgment]
    spend: Spend = field(default_factory=Spend)
    interrupted: bool = False
    stopped: str | None = None
    dropped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    adapted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sending: float = 0.0
    signal: int | None = None
    whole: int | None = None
    answers: int = 0
    again: int = 0

    @property
    def calls(self) -> Calls:
        """The counts of calls."""
        return self.spend.calls

    @property
    def tokens(self) -> dict[str, int]:
        """The tokens of the calls sent in this run, by `prompt` and `completion`."""
        return {
            "prompt": self.spend.prompt_tokens,
            "completion": self.spend.completion_tokens,
        }

    @property
    def cost_usd(self) -> float | None:
        """The cost of these calls, in USD; `None` if the price of one of them is unknown."""
        return self.spend.cost_usd

    def after(self, first: JudgingResult) -> JudgingResult:
        """Return this result with the calls, tokens and cost of an earlier step of the same run."""
        return replace(
            self,
            spend=add(self.spend, first.spend),
            stopped=self.stopped or first.stopped,
            sending=self.sending + first.sending,
            # `whole` counts what this step would have had, and the earlier step is complete.
            whole=None if self.whole is None else self.whole + first.calls.planned,
            answers=self.answers + first.answers,
            again=self.again + first.again,
        )


@dataclass(slots=True)
class RunCounts(Progress):
    """The running counts of a run.

    Attributes:
        planned: The requests.
        broken: The judgments that failed although their request was sent.
        started: When the run started, in seconds of the monotonic clock.
        first_sent: When the first call was sent; `None` before it.
        waits: Until when calls wait, in seconds of the clock, and why.
        kept: The answers that are in the store, as 64 bits of their content keys.
        again: The requests that were sent although there was a stored answer.
    """

    planned: int = 0
    broken: int = 0
    started: float = field(default_factory=time.monotonic)
    first_sent: float | None = None
    waits: tuple[float, str] = (0.0, "")
    kept: array[int] = field(default_factory=lambda: array("Q"))
    again: int = 0

    def wait_until(self, moment: float, reason: str) -> None:
        """Record that a call waits until a moment for a reason, if it is the longest wait."""
        if reason and moment >= self.waits[0]:
            self.waits = (moment, reason)

    def now_waiting(self, now: float) -> str:
        """Return why calls wait now; nothing if they do not."""
        moment, reason = self.waits
        self.waiting = reason if now < moment else ""
        return self.waiting

    def keep(self, key: str) -> None:
        """Count an answer that is in the store, by its content key."""
        # 16 hexadecimal digits are 64 bits: 8 bytes for each answer, instead of a string.
        self.kept.append(int(key[:16], 16))

    def count_sent(self, *, first: bool) -> None:
        """Count a call that is sent now; only first attempts count as sent."""
        self.sent += first
        self.first_sent = (
            time.monotonic() if self.first_sent is None else self.first_sent
        )

    def count_paid(self, paid: Completion | RunCounts) -> None:
        """Add the tokens and the cost of a call, or of those that another tally counts."""
        usage = paid.usage if isinstance(paid, Completion) else paid
        self.prompt_tokens += usage.prompt_tokens or 0
        self.completion_tokens += usage.completion_tokens or 0
        is_priced = self.cost_usd is not None and paid.cost_usd is not None
        self.cost_usd = (
            (self.cost_usd or 0.0) + (paid.cost_usd or 0.0) if is_priced else None
        )

    def progress(self, total: int | None) -> Progress:
        """Return the current counts."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        return Progress(
            **{**counts, "total": total, "elapsed": time.monotonic() - self.started}
        )

    @property
    def spend(self) -> Spend:
        """The calls so far, with their tokens and cost."""
        calls = Calls(self.planned, self.stored, self.sent, self.retried, self.failed)
        return Spend(calls, self.prompt_tokens, self.completion_tokens, self.cost_usd)


_COUNTS = tuple(part.name for part in fields(Progress))


TICK = 5.0
"""Seconds between two reports while calls wait."""


Observe = Callable[[Progress], None]


Until: TypeAlias = Callable[[Case, Sequence[Judgment]], bool]
"""Takes all judgments of a case, in the order in which cases are complete; returns whether no more
are needed."""
