"""A stored completion as a row of the file: written as JSON with a digest, read back whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple
from zlib import crc32

from evalkit.store.schema import row_digest
from evalkit.types import Completion

Decode = Callable[[bytes, bytes, bytes, "int | None"], Completion]


class Row(NamedTuple):
    """One stored completion as the file holds it; `created` in seconds since 1970, `value` JSON."""

    key: str
    model: str
    created: float
    value: str
    digest: int | None


def row_of(key: str, model: str, created: float, completion: Completion) -> Row:
    """Return a completion as a row."""
    value = _codec().serializer.to_json(completion, exclude_defaults=True).decode()
    return Row(key, model, created, value, row_digest(key, model, value))


def completion_in(row: Row) -> Completion:
    """Return the completion in a row.

    Raises:
        ValueError: if the row is damaged.
    """
    key, model, value = (text.encode("utf-8", "surrogatepass") for text in (row.key, row.model, row.value))
    return decoder()(key, model, value, row.digest)


@cache
def decoder() -> Decode:
    """Return what makes a completion of key, model and value, each in UTF-8, and digest.

    Rows of older versions have no digest, and count as whole. It raises ValueError on a damaged row.
    """
    read = _codec().validator.validate_json

    def decode(key: bytes, model: bytes, value: bytes, digest: int | None) -> Completion:
        if digest is not None and digest != crc32(value, crc32(b"%b\0%b\0" % (key, model))):
            raise ValueError("not what was written")
        completion: Completion = read(value)
        return completion

    return decode


@cache
def _codec() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Completion)
