"""Convert answers to completions, with their prices, and clean completions of any judge."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

from evalkit.config import Price
from evalkit.core.finish_reasons import end_of
from evalkit.core.types import Completion, Rung, TokenLogprob, Usage
from evalkit.core.values import JsonObject
from evalkit.judges.error_mapping import writable
from evalkit.judges.responses import Answer, bad_response, count


def check_logprobs(answer: Answer, *, weighable: bool) -> bool:
    """Check the answer of a judge that must return log-probabilities; return whether it
    has returned any so far.

    Raises:
        CallError: If the answer has no usable ones, and the judge has returned some before.
    """
    # What has never come in a usable format will not come in one when the call is repeated.
    retryable = weighable
    weighable = weighable or answer.logprobs is not None
    if answer.broken_logprobs or (
        weighable and answer.content and answer.logprobs is None
    ):
        message = (
            "judge.logprobs is true, but the answer has no usable log-probabilities; set"
            " judge.logprobs=fallback to do without them"
        )
        raise bad_response(message, retryable=retryable)
    return weighable


def completion_of(answer: Answer, *, rung: Rung, latency: float) -> Completion:
    """Convert an answer to a completion without a cost.

    Args:
        answer: The provider's answer.
        rung: The rung that the request was sent with.
        latency: Seconds from sending to receiving.
    """
    text = _text_in(answer, rung)
    filtered = None
    if end_of(answer.finish_reason) == "refused":
        filtered = "stopped by the provider's content filter"
        if answer.finish_reason != "content_filter":
            filtered += f" ({answer.finish_reason})"
    return Completion(
        text=text,
        model=answer.model,
        finish_reason=answer.finish_reason,
        usage=answer.usage,
        latency=latency,
        rung=rung,
        reasoning=answer.reasoning,
        refusal=answer.refusal or filtered,
        logprobs=answer.logprobs or None,
        fingerprint=answer.fingerprint,
    )


def _text_in(answer: Answer, rung: Rung) -> str:
    """Return the text of an answer; that of a tool call if there is nothing else, or if
    it was asked for.
    """
    content = answer.content or ""
    if not answer.arguments:
        return content
    if rung != "tool":
        if not content.strip():
            return answer.arguments
        if "{" not in content:
            return content
        return f"{content}\n{answer.arguments}"
    # A second verdict next to the tool call would be hidden otherwise.
    if "{" not in content:
        return answer.arguments
    return f"{content}\n{answer.arguments}"


def priced(
    completion: Completion, listed: float | None, price: Price | None
) -> Completion:
    """Add the cost of a completion in USD.

    Args:
        completion: The completion without a cost.
        listed: The cost by the price list; `None` if it is unknown.
        price: The judge's own price per million tokens, which takes precedence; `None` if it is not
            set.
    """
    if price is None:
        return replace(completion, cost_usd=listed)
    prompt = completion.usage.prompt_tokens
    written = completion.usage.completion_tokens
    if prompt is None or written is None:
        return completion
    return replace(
        completion, cost_usd=(prompt * price.input + written * price.output) / 1e6
    )


def sane(completion: Completion) -> Completion:
    """Return a completion of any judge, including custom ones, without values that
    files and sums cannot hold.
    """
    names = ("model", "finish_reason", "reasoning", "refusal", "fingerprint")
    texts: JsonObject = {
        name: value if (value := getattr(completion, name)) is None else writable(value)
        for name in names
    }
    prompt = completion.usage.prompt_tokens
    written = completion.usage.completion_tokens
    cost = completion.cost_usd
    logprobs = completion.logprobs
    return replace(
        completion,
        text=writable(completion.text or ""),
        **texts,
        usage=Usage(count(prompt), count(written)),
        cost_usd=None if cost is None else amount(cost),
        logprobs=None
        if logprobs is None
        else tuple(_writable_token(token) for token in logprobs),
    )


def amount(value: object) -> float | None:
    """Return a plausible amount in USD, finite and not negative; else `None`."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not isfinite(value)
        or value < 0
    ):
        return None
    return float(value)


def _writable_token(token: TokenLogprob) -> TokenLogprob:
    if token.token.isascii() and all(text.isascii() for text, _ in token.top):
        return token
    return replace(
        token,
        token=writable(token.token),
        top=tuple((writable(text), p) for text, p in token.top),
    )
