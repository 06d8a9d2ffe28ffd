"""Report on a run of the engine: its progress and its result."""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from evalkit.results import Calls
from evalkit.types import Completion, Judgment, Usage


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run.

    Attributes:
        done: The judgments so far.
        total: The expected judgments, estimated until every case is planned; `None` if there is no estimate yet.
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
    """

    done: int
    total: int | None
    stored: int
    sent: int
    failed: int
    retried: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    elapsed: float
    throttled: int = 0
    budget_left: float | None = None
    answers: int | None = None
    """The number of different answers in the store, once an interrupted run has ended."""


@dataclass(frozen=True, slots=True)
class JudgingResult:
    """The result of a run of the engine.

    Attributes:
        judgments: The finished judgments, in case order, then by judge, then as planned.
        calls: The counts of calls.
        tokens: The tokens of the calls sent in this run, by `prompt` and `completion`.
        cost_usd: The cost of these calls, in USD; `None` if the price of one of them is unknown.
        interrupted: Whether a signal stopped the run, so that judgments are missing.
        stopped: Why requests were not sent, on one line; `None` if all were.
        dropped: The parameters that each judge's provider refused, by the judge's name.
        sending: Seconds from the first call to the last judgment; 0 if nothing was sent.
        signal: The signal that interrupted the run.
        whole: The number of judgments that an interrupted run would have had; `None` if it is unknown.
        answers: The number of different answers that are in the store.
    """

    judgments: Sequence[Judgment]
    calls: Calls
    tokens: Mapping[str, int]
    cost_usd: float | None
    interrupted: bool = False
    stopped: str | None = None
    dropped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sending: float = 0.0
    signal: int | None = None
    whole: int | None = None
    answers: int = 0

    def after(self, first: JudgingResult) -> JudgingResult:
        """Return this result with the calls, tokens and cost of an earlier step of the same run."""
        names = ("planned", "stored", "sent", "retried", "failed")
        cost = None if self.cost_usd is None or first.cost_usd is None else self.cost_usd + first.cost_usd
        return replace(
            self,
            calls=Calls(*(getattr(self.calls, name) + getattr(first.calls, name) for name in names)),
            tokens={kind: count + first.tokens.get(kind, 0) for kind, count in self.tokens.items()},
            cost_usd=cost,
            stopped=self.stopped or first.stopped,
            sending=self.sending + first.sending,
            whole=None if self.whole is None else self.whole + first.calls.planned,
            answers=self.answers + first.answers,
        )


@dataclass(slots=True)
class Tally:
    """The running counts of a run."""

    planned: int = 0
    done: int = 0
    stored: int = 0
    sent: int = 0
    retried: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    throttled: int = 0
    budget_left: float | None = None
    broken: int = 0
    started: float = field(default_factory=time.monotonic)
    first_sent: float | None = None
    kept: array[int] = field(default_factory=lambda: array("Q"))

    def keep(self, key: str) -> None:
        """Count an answer that is in the store, by its content key."""
        self.kept.append(int(key[:16], 16))

    def answers(self) -> int:
        """Return the number of different answers in the store."""
        return len(set(self.kept))

    def count_sent(self, attempt: int) -> None:
        """Count a call that is sent now; only first attempts count as sent."""
        self.sent += attempt == 1
        self.first_sent = time.monotonic() if self.first_sent is None else self.first_sent

    def sending(self) -> float:
        """Return the seconds since the first call; 0 before it."""
        return 0.0 if self.first_sent is None else time.monotonic() - self.first_sent

    def count_paid(self, completion: Completion) -> None:
        """Add the tokens and the cost of a call."""
        self.prompt_tokens += completion.usage.prompt_tokens or 0
        self.completion_tokens += completion.usage.completion_tokens or 0
        known = self.cost_usd is not None and completion.cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (completion.cost_usd or 0.0) if known else None

    def add(self, other: Tally) -> None:
        """Add the tokens and the cost of other calls."""
        usage = Usage(other.prompt_tokens, other.completion_tokens)
        self.count_paid(Completion("", usage=usage, cost_usd=other.cost_usd))

    def progress(self, total: int | None) -> Progress:
        """Return the current counts."""
        return Progress(
            self.done,
            total,
            self.stored,
            self.sent,
            self.failed,
            self.retried,
            self.prompt_tokens,
            self.completion_tokens,
            self.cost_usd,
            time.monotonic() - self.started,
            self.throttled,
            self.budget_left,
        )

    def calls(self) -> Calls:
        """Return the counts of calls for a run's result."""
        return Calls(self.planned, self.stored, self.sent, self.retried, self.failed)

    def tokens(self) -> dict[str, int]:
        """Return the tokens of the calls sent, by `prompt` and `completion`."""
        return {"prompt": self.prompt_tokens, "completion": self.completion_tokens}
