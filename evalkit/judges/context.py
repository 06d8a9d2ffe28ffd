"""Whether messages fit a model's context, found before they are sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from evalkit.config import JudgeConfig
from evalkit.core.tokens import message_tokens
from evalkit.core.types import Message
from evalkit.core.values import Json

TEXT = "text"
"""The role of a message that is the whole input of the model, already rendered."""
CERTAIN = 2.0
"""A text whose estimate is this many times what fits is too long, whatever the tokenizer."""


def room(config: JudgeConfig, entry: Json, served: int | None) -> int | None:
    """Return how many tokens messages may have; `None` if that is unknown.

    Args:
        config: The judge's config; its `context` takes precedence, and holds the answer too.
        entry: The model's entry in LiteLLM's price list.
        served: The context that the server reports.
    """
    whole = config.context or served
    if whole is None:
        listed = entry.get("max_input_tokens")
        if type(listed) is int and listed > 0:
            return listed
        return None
    return max(
        1, whole - (0 if config.rewards or config.decides else config.max_tokens or 0)
    )


Count = Callable[[], Awaitable[int | None]]


async def excess(
    messages: Sequence[Message], fits: int | None, count: Count
) -> str | None:
    """Return why messages are too long, as a clause; `None` if they fit, or if only the
    provider can tell.

    Args:
        messages: The messages.
        fits: How many tokens they may have.
        count: Counts their tokens, or returns `None`. It is called only if they can be too long at
            all: a token has at least one byte.
    """
    if (
        fits is None
        or sum(
            len(message["content"].encode("utf-8", "surrogatepass"))
            for message in messages
        )
        <= fits
    ):
        return None
    tokens = await count()
    if tokens is None:
        estimate = message_tokens(messages)
        if estimate > CERTAIN * fits:
            return f"about {estimate:,} tokens, and {fits:,} fit (estimated)"
        return None
    if tokens > fits:
        return f"{tokens:,} tokens, and {fits:,} fit"
    return None
