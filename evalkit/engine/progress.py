"""What a run of the engine tells: while it goes on, and at its end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evalkit.types import Calls, Completion, Judgment


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. `total` is none, or an estimate, until every case is planned; tokens and US$ are of calls sent.

    `cost_usd` is none once a call's price is not known; `elapsed` is in seconds. `throttled` counts the calls refused
    since there were too many. `budget_left` is in US$, none without a cap.
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


@dataclass(frozen=True, slots=True)
class JudgingResult:
    """What a run of the engine gave.

    `judgments` stand in case order, within a case by judge, then as the evaluator planned them. When `interrupted`,
    only those are there that were finished. `stopped` says in one line why requests were not made, or none. `tokens`
    (`prompt` and `completion`) and `cost_usd` are of the calls sent in this run; `cost_usd` is none if the price of one
    of them is not known. `dropped` names by judge the parameters that its provider refused and that were left out.
    `sending` is how many seconds it took from the first call to the last judgment; 0 if nothing was sent. `signal` is
    what interrupted it, and `whole` how many judgments the whole run has then, if that can be counted.
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


@dataclass(slots=True)
class Tally:
    """The counts of a run in the making."""

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

    def sends(self, attempt: int) -> None:
        """Count a call that leaves now; only first attempts count as sent."""
        self.sent += attempt == 1
        self.first_sent = time.monotonic() if self.first_sent is None else self.first_sent

    def sending(self) -> float:
        """Return the seconds since the first call left; 0 if none has."""
        return 0.0 if self.first_sent is None else time.monotonic() - self.first_sent

    def paid(self, completion: Completion) -> None:
        """Count what a completion that was sent for took."""
        self.prompt_tokens += completion.usage.prompt_tokens or 0
        self.completion_tokens += completion.usage.completion_tokens or 0
        known = self.cost_usd is not None and completion.cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (completion.cost_usd or 0.0) if known else None

    def progress(self, total: int | None) -> Progress:
        """Return the counts as they stand."""
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
        """Return the counts as a run's result holds them."""
        return Calls(self.planned, self.stored, self.sent, self.retried, self.failed)

    def tokens(self) -> dict[str, int]:
        """Return the tokens of the calls sent."""
        return {"prompt": self.prompt_tokens, "completion": self.completion_tokens}
