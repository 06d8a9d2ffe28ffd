"""From a response, with the attributes that OpenAI's have, to a Completion."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import Any

from evalkit.config import Price
from evalkit.errors import CallError
from evalkit.types import Completion, Rung, TokenLogprob, Usage


def completion_of(response: Any, *, rung: Rung, latency: float) -> Completion:
    """Return what a response says, leaving none where it says nothing; its cost is left out.

    Args:
        response: an object with the attributes of OpenAI's chat completion.
        rung: the rung the request was sent with.
        latency: seconds from sending to receiving.

    Raises:
        CallError: of kind `bad_response`, if it holds no choice.
    """
    choices = getattr(response, "choices", None)
    if not choices:
        raise CallError("bad_response", "the answer holds no choices", retryable=True)
    choice = choices[0]
    message, finish = choice.message, getattr(choice, "finish_reason", None)
    return Completion(
        text=_text(message, rung),
        model=getattr(response, "model", None),
        finish_reason=finish,
        usage=usage_of(response),
        latency=latency,
        rung=rung,
        reasoning=getattr(message, "reasoning_content", None) or None,
        refusal=_refusal(message, finish),
        logprobs=_logprobs(choice),
    )


def priced(completion: Completion, listed: float | None, price: Price | None) -> Completion:
    """Return a completion with its US$: by `price`, for a million tokens, where one is set, else as `listed`."""
    if price is None:
        return replace(completion, cost_usd=listed)
    prompt, written = completion.usage.prompt_tokens, completion.usage.completion_tokens
    if prompt is None or written is None:
        return completion
    return replace(completion, cost_usd=(prompt * price.input + written * price.output) / 1e6)


def _text(message: Any, rung: Rung) -> str:
    if rung == "tool":
        for call in getattr(message, "tool_calls", None) or []:
            if arguments := call.function.arguments:
                return str(arguments)
    return str(getattr(message, "content", None) or "")


def _refusal(message: Any, finish: str | None) -> str | None:
    extra = getattr(message, "provider_specific_fields", None) or {}
    said = getattr(message, "refusal", None) or extra.get("refusal")
    if said:
        return str(said)
    return "stopped by the provider's content filter" if finish == "content_filter" else None


def usage_of(response: Any) -> Usage:
    """Return the tokens that a response counts, or none where it does not say."""
    usage = getattr(response, "usage", None)
    prompt, completion = (getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens"))
    # LiteLLM puts zeros where the provider said nothing; no prompt has no tokens.
    return Usage(prompt, completion) if prompt else Usage()


def _logprobs(choice: Any) -> tuple[TokenLogprob, ...] | None:
    content = getattr(getattr(choice, "logprobs", None), "content", None)
    if not content:
        return None
    return tuple(
        TokenLogprob(
            t.token,
            _finite(t.logprob),
            tuple((a.token, _finite(a.logprob)) for a in t.top_logprobs or ()),
            _raw(t),
        )
        for t in content
    )


def _raw(token: Any) -> tuple[int, ...] | None:
    held = getattr(token, "bytes", None)
    return None if held is None or bytes(held) == token.token.encode("utf-8", "surrogatepass") else tuple(held)


def _finite(logprob: float) -> float:
    # llama.cpp writes -inf, others null, for what cannot be; -9999 is how OpenAI writes it, and JSON can hold it.
    return logprob if logprob is not None and isfinite(logprob) else -9999.0
