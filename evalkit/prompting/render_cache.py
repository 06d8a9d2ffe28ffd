"""Prompts that were filled lately: a run renders each for its judge and its report, and so does each job of a sweep."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from evalkit.types import Message

CHARACTERS = 8_000_000
"""So many are kept at most; where they become more, all are let go."""


class RenderCache:
    """Messages by template, its files' hashes and the values put into it."""

    def __init__(self, most: int = CHARACTERS) -> None:
        self._most, self._size = most, 0
        self._kept: dict[bytes, tuple[Message, ...]] = {}

    def key(self, name: str, files: Mapping[str, str], variables: Mapping[str, Any]) -> bytes | None:
        """Return what a prompt is known by, or none where a value is not a plain one, that is the same when equal."""
        try:
            content = marshal.dumps((name, dict(files), dict(variables)), 2)
        except ValueError:
            return None
        return blake2b(content, digest_size=16).digest()

    def get(self, key: bytes | None) -> tuple[Message, ...] | None:
        """Return the messages known by a key, if they are kept."""
        return None if key is None else self._kept.get(key)

    def keep(self, key: bytes | None, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Keep messages for the next who asks, and return them."""
        if key is not None:
            size = sum(len(message["content"]) for message in messages)
            if self._size + size > self._most:
                self._kept, self._size = {}, 0
            self._size += size
            self._kept[key] = messages
        return messages


RENDER_CACHE = RenderCache()
