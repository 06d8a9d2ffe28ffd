"""Canonical JSON and the hashes made of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any

KEY_VERSION = 1
_text = encode_basestring
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
    messages: Sequence[tuple[str, str]],
    params: Mapping[str, Any],
    answer: bytes,
    sample: int,
) -> str:
    """Return the content key of one call: the hash of everything that could change its answer, and of nothing else.

    `messages` are (role, content). `answer` is the canonical JSON of the answer's format, or of null: a run has one for
    all its requests, and it is longer than most prompts.
    """
    hashed = _begun(answer, api_base, tuple(messages[:-1])).copy()
    content = "".join([_message(role, content) for role, content in messages[-1:]])
    ends = f'],"model":{_text(model)},"params":{_CANONICAL(dict(params))},"sample":{sample},"v":{KEY_VERSION}}}'
    hashed.update(f"{content}{ends}".encode("utf-8", "surrogatepass"))
    return str(hashed.hexdigest())


@lru_cache(maxsize=16)
def _begun(answer: bytes, api_base: str | None, before: tuple[tuple[str, str], ...]) -> Any:
    """Return the hash of what most requests of a run begin with, all up to the last message; the names are sorted."""
    hashed = hashlib.sha256(b'{"answer":' + answer)
    texts = "".join(f"{_message(role, content)}," for role, content in before)
    hashed.update(f',"api_base":{_CANONICAL(api_base)},"messages":[{texts}'.encode("utf-8", "surrogatepass"))
    return hashed


def _message(role: str, content: str) -> str:
    return f'{{"content":{_text(content)},"role":{_text(role)}}}'
