"""Estimate the tokens of texts from their characters."""

from __future__ import annotations

from collections.abc import Iterable

from evalkit.types import Message

CHARACTERS_PER_TOKEN = 4
_PER_BYTE = 2
"""ASCII characters with as many tokens as one UTF-8 byte after the first of a non-ASCII character."""


def characters(text: str) -> int:
    """Return the number of ASCII characters with as many tokens as a text; a Chinese character counts as one token."""
    if text.isascii():
        return len(text)
    return len(text.encode("ascii", "ignore")) + _PER_BYTE * (len(text.encode("utf-8", "surrogatepass")) - len(text))


def message_tokens(messages: Iterable[Message]) -> int:
    """Return the estimated tokens of messages."""
    return -(-sum(characters(message["content"]) for message in messages) // CHARACTERS_PER_TOKEN)
