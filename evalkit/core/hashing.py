"""Canonical JSON and hashes of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeGuard

from pydantic_core import PydanticSerializationError, to_json

from evalkit.core.json_encoders import quick_encoder
from evalkit.core.regular_files import open_file

KEY_VERSION = 1
canonical_text = quick_encoder(
    json.JSONEncoder(
        sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
)
"""Encodes a value as `canonical_json` does, as a text."""


def canonical_json(value: Any) -> bytes:
    """Encode `value` as JSON with sorted keys, no spaces, UTF-8 and finite numbers only.

    Raises:
        ValueError: If the value contains NaN or an infinity.
        TypeError: If JSON cannot represent the value.
    """
    return canonical_text(value).encode("utf-8", "surrogatepass")


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `value`, in hexadecimal."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def pair_digest(name: str, text: str) -> str:
    """Return `digest([name, text])`, which many texts need, in half the time."""
    return hashlib.sha256(b"[%b,%b]" % (text_json(name), text_json(text))).hexdigest()


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    Raises:
        OSError: If it cannot be read.
    """
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_key(
    *,
    model: str,
    api_base: str | None,
    messages: Sequence[tuple[str, str]],
    params: bytes,
    answer: bytes,
    sample: int,
    look: str | None = None,
) -> str:
    """Return the content key of one call.

    It is the hash of everything that can change its answer, and of nothing else.

    Args:
        model: The model's name.
        api_base: The address of the server.
        messages: The messages as (role, content).
        params: The canonical JSON of the sampling parameters.
        answer: The canonical JSON of the answer's format, or of null. Both are passed encoded,
            because all requests of a run share them, and the format is longer than most prompts.
        sample: The index of the sample.
        look: What keeps the answers of a look apart from those of others; not in the key if it is
            `None`.
    """
    hashed = _prefix_hash(answer, api_base, look, tuple(messages[:-1])).copy()
    for role, content in messages[-1:]:
        hashed.update(_message(role, content))
    hashed.update(
        b'],"model":%b,"params":%b,"sample":%d,"v":%d}'
        % (text_json(model), params, sample, KEY_VERSION)
    )
    return str(hashed.hexdigest())


def is_content_key(value: object) -> TypeGuard[str]:
    """Return whether a value has the form of a content key."""
    return (
        isinstance(value, str)
        and len(value) == 64
        and not value.strip("0123456789abcdef")
    )


@lru_cache(maxsize=16)
def _prefix_hash(
    answer: bytes,
    api_base: str | None,
    look: str | None,
    before: tuple[tuple[str, str], ...],
) -> Any:
    """Return the hash state before the last message, which most requests of a run
    share; keys are sorted.
    """
    hashed = hashlib.sha256(
        b'{"answer":%b,"api_base":%b'
        % (answer, b"null" if api_base is None else text_json(api_base))
    )
    hashed.update(b"" if look is None else b',"look":%b' % text_json(look))
    hashed.update(
        b',"messages":['
        + b"".join(_message(role, content) + b"," for role, content in before)
    )
    return hashed


def _message(role: str, content: str) -> bytes:
    return b'{"content":%b,"role":%b}' % (text_json(content), text_json(role))


def text_json(text: str) -> bytes:
    """Return a text as canonical JSON, in a third of the time of the standard library."""
    try:
        return to_json(text)
    except PydanticSerializationError:  # it has half of a surrogate pair
        return canonical_json(text)
