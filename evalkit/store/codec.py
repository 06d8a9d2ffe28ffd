"""Encode completions as JSON texts and checked rows, exactly and with strict decoding, for stores and files."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import isfinite
from typing import Any, NamedTuple
from zlib import crc32

from evalkit.errors import StoreError
from evalkit.types import Completion, StoredCompletion


def encode(completion: Completion) -> str:
    """Return a completion as JSON, without default values.

    Raises:
        StoreError: If it has text that JSON cannot hold, such as an unpaired surrogate, or a latency that is no number.
    """
    if not isfinite(completion.latency):
        raise StoreError(f"a completion cannot be stored (its latency is {completion.latency}); correct the judge")
    try:
        text: bytes = _codec().serializer.to_json(completion, exclude_defaults=True)
    except ValueError as error:
        why = str(error).rpartition(": ")[2]
        raise StoreError(f"a completion cannot be stored ({why}); replace invalid Unicode in the answer") from error
    return text.decode()


def decode(text: str | bytes) -> Completion:
    """Return the completion in a JSON text.

    Raises:
        ValueError: If the text is not JSON or a field has the wrong type.
    """
    completion: Completion = _codec().validator.validate_json(text)
    return completion


def row_digest(key: str, model: str, value: str) -> int:
    """Return the CRC-32 of a row: databases detect damaged pages, but not changed letters in a value."""
    return crc32("\0".join((key, model, value)).encode())


class Row(NamedTuple):
    """One stored completion as in a database; `created` in seconds since 1970, `value` as JSON."""

    key: str
    model: str
    created: float
    value: str
    digest: int | None


def row_of(key: str, model: str, created: float, completion: Completion) -> Row:
    """Return a completion as a row.

    Raises:
        StoreError: If its texts are not valid Unicode.
    """
    value = encode(completion)
    try:
        return Row(key, model, created, value, row_digest(key, model, value))
    except UnicodeEncodeError as error:
        raise StoreError(f"the key or model name {model!r} is not valid Unicode; set another judge.model") from error


def completion_in(key: bytes, model: bytes, value: bytes, digest: int | None) -> Completion:
    """Return the completion in a row with texts in UTF-8; rows of older versions have no digest.

    Raises:
        ValueError: If the row is damaged.
    """
    if digest is not None and digest != crc32(value, crc32(b"%b\0%b\0" % (key, model))):
        raise ValueError("the row was changed after it was written")
    return decode(value)


def completions_in(rows: Iterable[tuple[bytes, bytes, bytes, int | None]], store: object) -> dict[str, Completion]:
    """Return the completions in a store's rows by key.

    Raises:
        StoreError: If a row is damaged.
    """
    found: dict[str, Completion] = {}
    for key, model, value, digest in rows:
        try:
            found[key.decode()] = completion_in(key, model, value, digest)
        except ValueError as error:
            what = f"{store}: the completion with key {key.decode()[:12]} is damaged"
            raise StoreError(f"{what}; rerun with store.mode=refresh") from error
    return found


def stored_in(key: bytes, model: bytes, created: float, value: bytes, digest: int | None) -> StoredCompletion | None:
    """Return the completion in a row with all that is stored about it; `None` if the row is damaged."""
    try:
        return StoredCompletion(key.decode(), model.decode(), created, completion_in(key, model, value, digest))
    except ValueError:
        return None


@cache
def _codec() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Completion)
