"""Estimate the length of the answers to a plan's requests, what they cost, and how long
they take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.core.types import Completion
from evalkit.core.values import frozen
from evalkit.engine.answer_estimates import AnswerEstimate, sample_fits
from evalkit.engine.plan import Plan
from evalkit.judges import max_concurrency
from evalkit.judges.pricing import price_of

Origin: TypeAlias = Literal["own", "alike", "assumed"]
"""The origin of an estimated length, the most reliable first: answers to the same prompts, or alike
ones, or none."""


def total(amounts: Iterable[float | None]) -> float | None:
    """Return the sum of amounts, `None` if one is unknown."""
    subtotal = 0.0
    for amount in amounts:
        if amount is None:
            return None
        subtotal += amount
    return subtotal


@frozen
class Length:
    """The estimated length of an answer in tokens and, if known, seconds.

    `origin` is the basis of the estimate, over `answers` answers. `within` is half the width of the
    95% interval of `tokens`, and `cost_usd` what one of these answers cost with its prompt; `None`
    if unknown.
    """

    tokens: float
    seconds: float | None
    origin: Origin
    answers: int = 0
    within: float | None = None
    cost_usd: float | None = None


@frozen
class Part:
    """The requests of one judge of a job, whose settings are at `key`."""

    judge: JudgeConfig
    plan: Plan
    length: Length
    batch: bool = False
    key: str = "judge"

    @property
    def answer_tokens(self) -> float:
        """The tokens of all answers to be requested."""
        return self.plan.unique * self.length.tokens

    @property
    def cost(self) -> float | None:
        """The cost of these requests in USD, `None` if neither the judge's price nor
        that of answers is known.
        """
        if not self.plan.unique:
            return 0.0
        if (price := price_of(self.judge, batch=self.batch)) is None:
            answer_cost = None if self.batch else self.length.cost_usd
            if answer_cost is None:
                return None
            return self.plan.unique * answer_cost
        return (
            self.plan.prompt_tokens * price.input + self.answer_tokens * price.output
        ) / 1e6


def sent_after(parts: Sequence[Part], earlier: Sequence[Part] = ()) -> list[Part]:
    """Return parts without the requests that `earlier` parts or those before them send anyway."""
    plans = [part.plan for part in (*earlier, *parts)]
    return [
        # `plans` has the earlier parts first, so part n comes after `len(earlier) + n` plans.
        replace(part, plan=part.plan.after(plans[: len(earlier) + n]))
        for n, part in enumerate(parts)
    ]


def estimate_length(
    plan: Plan, recent: Callable[[], Sequence[Completion]], limit: int | None
) -> Length:
    """Estimate the length of a plan's answers, as the mean over their formats.

    The estimate for a format rests on the answers stored for the plan's prompts, else on recent
    answers of the same judge in this format, else on an assumed length. The least reliable of
    these origins is that of the mean. A plan without requests to send has a length of 0. Seconds
    and USD are `None` if they are not known.

    Args:
        plan: the planned requests.
        recent: returns recent answers of the same judge.
        limit: the most tokens of an answer, if it is limited.
    """
    # Pairs of the number of answers to request and their length, one for each format.
    lengths = [
        (kind.to_request, _length_of_kind(kind, recent, limit))
        for kind in plan.kinds
        if kind.to_request
    ]
    if not lengths:
        return Length(0.0, None, "own")
    # the mean over formats, by their numbers of answers to request
    count = sum(n for n, _ in lengths)
    timed = [(n, length.seconds) for n, length in lengths if length.seconds is not None]
    variance = total(
        None if length.within is None else (n / count * length.within) ** 2
        for n, length in lengths
    )
    cost = total(
        None if length.cost_usd is None else n * length.cost_usd
        for n, length in lengths
    )
    return Length(
        sum(n * length.tokens for n, length in lengths) / count,
        sum(n * seconds for n, seconds in timed) / sum(n for n, _ in timed)
        if timed
        else None,
        # The least reliable origin counts for the whole.
        max((length.origin for _, length in lengths), key=get_args(Origin).index),
        sum(length.answers for _, length in lengths),
        None if variance is None else variance**0.5,  # the means are independent
        None if cost is None else cost / count,
    )


def _length_of_kind(
    kind: AnswerEstimate, recent: Callable[[], Sequence[Completion]], limit: int | None
) -> Length:
    """Return how long answers of a kind are: by stored ones, by recent ones like them, or guessed.

    Args:
        kind: The format, and the stored answers to the planned prompts.
        recent: Returns recent answers of the judge to any prompt.
        limit: The most tokens of an answer; `None` for no limit.
    """
    sample = kind
    origin = get_args(Origin)[0]
    # No answer to these prompts: recent answers of the judge in the same format stand for them.
    if not kind.stored:
        sample = AnswerEstimate(kind.answer)
        origin = "alike"
        for completion in recent():
            if sample_fits(kind.answer, completion):
                sample.add(completion)
    if not sample.stored:
        guess = kind.guess()
        return Length(guess if limit is None else min(guess, limit), None, "assumed")
    seconds = sample.seconds / sample.stored or None  # batch answers have no latency
    cost = None if sample.cost_usd is None else sample.cost_usd / sample.stored
    # How far answers to other prompts differ from these is unknown: they have no interval.
    return Length(
        sample.tokens / sample.stored,
        seconds,
        origin,
        sample.stored,
        kind.half_width(),
        cost,
    )


def minutes(parts: Sequence[Part], runner: RunnerConfig) -> float | None:
    """Estimate the minutes that a job's calls take, from `rpm`, `tpm`, and concurrency if latency
    is known.

    The slowest of these bounds counts. 0 if nothing is sent; `None` if nothing bounds the time,
    and for batches, whose time only the provider knows.
    """
    sending = [part for part in parts if part.plan.unique]
    if runner.kind == "batch":
        if sending:
            return None
        return 0.0
    # All bounds are in minutes.
    # the slowest bound counts: each judge's limits per minute, all slots, and the slots
    # of each judge
    bounds = [
        amount / limit
        for part in sending
        for amount, limit in (
            (part.plan.unique, part.judge.rpm),
            (part.plan.prompt_tokens + part.answer_tokens, part.judge.tpm),
        )
        if limit
    ]
    waits = [
        (part, part.plan.unique * part.length.seconds)
        for part in sending
        if part.length.seconds is not None
    ]
    bounds += (
        [sum(wait for _, wait in waits) / runner.concurrency / 60] if waits else []
    )
    bounds += [
        wait
        / min(max_concurrency(part.judge) or runner.concurrency, runner.concurrency)
        / 60
        for part, wait in waits
    ]
    return max(bounds, default=None if sending else 0.0)
