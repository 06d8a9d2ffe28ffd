"""What a plan comes to: how long its answers are, what they cost, and how long they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.engine import Plan
from evalkit.engine.lengths import Kind, fits
from evalkit.judges import at_once
from evalkit.judges.prices import price_of
from evalkit.types import Completion

Origin: TypeAlias = Literal["own", "alike", "assumed"]
ORIGINS: Final[Mapping[Origin, str]] = {
    "own": "from {} stored for the same prompts",
    "alike": "from {} stored of the same judge and format",
    "assumed": "assumed",
}
"""Where the length of answers is from, the surest first, as it is said of so many answers."""


@dataclass(frozen=True, slots=True)
class Length:
    """What an answer comes to: its tokens, the seconds it takes if any are known, and what that rests on.

    `within` is half the width of the 95 % interval of the tokens, none where it is not known.
    """

    tokens: float
    seconds: float | None
    origin: Origin
    answers: int = 0
    within: float | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What one judge of a job is to be asked."""

    judge: JudgeConfig
    plan: Plan
    length: Length

    def after(self, others: Sequence[Part]) -> Part:
        """Return this part without what is sent for `others` anyway."""
        return replace(self, plan=self.plan.after([other.plan for other in others])) if others else self

    @property
    def answer_tokens(self) -> float:
        """The tokens of all answers that are to come."""
        return self.plan.unique * self.length.tokens

    @property
    def cost(self) -> float | None:
        """US$ still to be paid; none where the judge's price is not known."""
        if not self.plan.unique:
            return 0.0
        if (price := price_of(self.judge)) is None:
            return None
        return (self.plan.prompt_tokens * price.input + self.answer_tokens * price.output) / 1e6


def length_of(plan: Plan, lately: Callable[[], Sequence[Completion]], most: int | None) -> Length:
    """Return what the answers that a plan wants come to, the mean over their formats.

    Of each format, by those stored for the plan's own prompts; else by those of the same judge that `lately` finds and
    that are of this format; else by what the format holds, at `most` so many tokens.
    """
    wanted = [kind for kind in plan.kinds if kind.wanted]
    lengths = [_length(kind, lately, most) for kind in wanted]
    if not lengths:
        return Length(0.0, None, "own")
    count = sum(kind.wanted for kind in wanted)
    pairs = list(zip(wanted, lengths, strict=True))
    known = [(kind.wanted, one.seconds) for kind, one in pairs if one.seconds is not None]
    return Length(
        sum(kind.wanted * one.tokens for kind, one in pairs) / count,
        sum(n * seconds for n, seconds in known) / sum(n for n, _ in known) if known else None,
        max((one.origin for one in lengths), key=list(ORIGINS).index),
        sum(one.answers for one in lengths),
        _joint([(kind.wanted / count, one.within) for kind, one in pairs]),
    )


def _joint(parts: Sequence[tuple[float, float | None]]) -> float | None:
    """Return the half-width of a mean of means with these weights, the parts being independent of one another."""
    known = [(weight * within) ** 2 for weight, within in parts if within is not None]
    return float(sum(known) ** 0.5) if len(known) == len(parts) else None


def _length(kind: Kind, lately: Callable[[], Sequence[Completion]], most: int | None) -> Length:
    if kind.found:
        return _mean(kind, "own")
    alike = Kind(kind.answer)
    for completion in lately():
        if fits(kind.answer, completion):
            alike.add(completion)
    if alike.found:
        return _mean(alike, "alike")
    guess = kind.guess()
    return Length(guess if most is None else min(guess, most), None, "assumed")


def _mean(kind: Kind, origin: Origin) -> Length:
    # Of answers to other prompts nobody can say how far they are from those to these.
    within = kind.half_width() if origin == "own" else None
    return Length(kind.tokens / kind.found, kind.seconds / kind.found, origin, kind.found, within)


def minutes(parts: Sequence[Part], runner: RunnerConfig) -> float | None:
    """Return about how many minutes a job's calls take: by `rpm`, `tpm`, and calls at once where latency is known."""
    asked = [part for part in parts if part.plan.unique]
    found = [
        amount / limit
        for part in asked
        for amount, limit in (
            (part.plan.unique, part.judge.rpm),
            (part.plan.prompt_tokens + part.answer_tokens, part.judge.tpm),
        )
        if limit
    ]
    waits = [(part, part.plan.unique * part.length.seconds) for part in asked if part.length.seconds is not None]
    found += [sum(wait for _, wait in waits) / runner.concurrency / 60] if waits else []
    found += [wait / min(at_once(part.judge) or runner.concurrency, runner.concurrency) / 60 for part, wait in waits]
    return max(found, default=None if asked else 0.0)
