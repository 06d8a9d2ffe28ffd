"""Canonical JSON and the hashes made of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

KEY_VERSION = 1
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical_json(value: Any) -> bytes:
    """Encode `value` as JSON with sorted keys, no spaces, UTF-8 and finite numbers only.

    Raises:
        ValueError: on NaN or an infinity.
        TypeError: on a value JSON does not have.
    """
    return _CANONICAL(value).encode("utf-8", "surrogatepass")


def digest(value: Any) -> str:
    """Return the SHA-256, in hex, of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def text_digest(text: str) -> str:
    """Return the SHA-256, in hex, of a text's UTF-8."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256, in hex, of a file's bytes.

    Raises:
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_key(
    *,
    model: str,
    api_base: str | None,
    messages: Sequence[Mapping[str, object]],
    params: Mapping[str, Any],
    answer: bytes,
    sample: int,
) -> str:
    """Return the content key of one call: the hash of everything that could change its answer, and of nothing else.

    `answer` is the canonical JSON of the answer's format, or of null: a run has one for all its requests, and it is
    longer than most prompts.
    """
    # Sorted, `answer` comes first of all names.
    rest = canonical_json(
        {
            "v": KEY_VERSION,
            "model": model,
            "api_base": api_base,
            "messages": list(messages),
            "params": dict(params),
            "sample": sample,
        }
    )
    return hashlib.sha256(b'{"answer":' + answer + b"," + rest[1:]).hexdigest()
