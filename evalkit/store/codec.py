"""Encode completions as JSON texts and checked rows, exactly and with strict decoding,
for stores and files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from math import isfinite
from typing import Any, NamedTuple
from zlib import crc32

from evalkit.core.display import one_line
from evalkit.core.errors import StoreError
from evalkit.core.types import Completion, StoredCompletion


def encode(completion: Completion) -> str:
    """Return a completion as JSON, without default values.

    Raises:
        StoreError: If it has text that JSON cannot hold, such as an unpaired surrogate, or a
            latency that is no number.
    """
    # JSON has no such number, and pydantic would write null, which cannot be decoded.
    if not isfinite(completion.latency):
        raise StoreError(
            f"a completion cannot be stored (its latency is {completion.latency}); correct the"
            " judge"
        )
    try:
        text: bytes = _codec().serializer.to_json(completion, exclude_defaults=True)
    except ValueError as error:
        why = str(error).rpartition(": ")[2]
        raise StoreError(
            f"a completion cannot be stored ({why}); replace invalid Unicode in the answer"
        ) from error
    return text.decode()


def decode(text: str | bytes) -> Completion:
    """Return the completion in a JSON text.

    Raises:
        ValueError: If the text is not JSON or a field has the wrong type.
    """
    completion: Completion = _codec().validator.validate_json(text)
    return completion


def row_digest(key: str, model: str, value: str) -> int:
    """Return the CRC-32 of a row: databases detect damaged pages, but not changed
    letters in a value.
    """
    # With separators, so that a letter cannot move from one text to the next unnoticed.
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
        raise StoreError(
            f"the key or model name {model!r} is not valid Unicode; set another judge.model"
        ) from error


_LAST = 250_000_000_000  # seconds since 1970: the year 9892, which dates can still show
REPAIR = (
    "delete damaged answers with `evalkit store prune --damaged` (with the same store.url) to"
    " request them again"
)


def completion_in(
    key: object, model: object, value: object, digest: object
) -> Completion:
    """Return the completion in a row with texts in UTF-8.

    Args:
        key: The content key.
        model: The model.
        value: The JSON of the completion.
        digest: The sum of the other three; `None` in rows of older versions, which are not
            checked for changes.

    Raises:
        ValueError: If the row is damaged.
    """
    if not (
        isinstance(key, bytes) and isinstance(model, bytes) and isinstance(value, bytes)
    ):
        raise ValueError("the row has a value of another type")
    # The same sum as in `row_digest`, without joining copies of long texts.
    if digest is not None and digest != crc32(value, crc32(b"%b\0%b\0" % (key, model))):
        raise ValueError("the row was changed after it was written")
    return decode(value)


def completions_in(
    rows: Iterable[Sequence[Any]], store: object
) -> dict[str, Completion]:
    """Return the completions in a store's rows (key, model, value, digest) by key.

    Raises:
        StoreError: If a row is damaged.
    """
    completions: dict[str, Completion] = {}
    for key, model, value, digest in rows:
        try:
            completions[key.decode()] = completion_in(key, model, value, digest)
        except (ValueError, AttributeError) as error:
            problem = (
                f"{store}: the completion with key {_shown(key, 64)} is damaged; rerun with"
                " store.mode=refresh"
            )
            raise StoreError(f"{problem}, or {REPAIR}") from error
    return completions


def stored_in(
    key: object, model: object, created: object, value: object, digest: object
) -> StoredCompletion | None:
    """Return the completion in a row with all that is stored about it; `None` if the row is
    damaged.

    Args:
        key: The content key, in UTF-8.
        model: The model, in UTF-8.
        created: When it was stored, in seconds since 1970.
        value: The JSON of the completion, in UTF-8.
        digest: The sum of the row; `None` in rows of older versions.
    """
    try:
        completion = completion_in(key, model, value, digest)
        texts = [text.decode() for text in (key, model) if isinstance(text, bytes)]
    except ValueError:
        return None
    # Also false for NaN. A damaged time would fail later, when it is shown.
    if not isinstance(created, float | int) or not abs(created) < _LAST:
        return None
    return StoredCompletion(texts[0], texts[1], created, completion)


def state_in(store: object, name: bytes, value: bytes) -> tuple[str, str]:
    """Return a text that the users of a store share, with its name.

    Raises:
        StoreError: If it is damaged.
    """
    try:
        return name.decode(), value.decode()
    except (ValueError, AttributeError) as error:
        raise StoreError(
            f"{store}: the shared text '{_shown(name, 200)}' is damaged; {REPAIR}"
        ) from error


def _shown(name: object, limit: int) -> str:
    """Return a name from a damaged row on one line, which can hold any bytes."""
    if isinstance(name, bytes):
        return one_line(name[:limit].decode("utf-8", "backslashreplace"))
    return one_line(repr(name)[:limit])


def is_damaged_state(name: bytes, value: bytes) -> bool:
    """Return whether a shared text is damaged: each that evalkit stores is JSON."""
    try:
        json.loads(state_in("", name, value)[1])
    except (ValueError, RecursionError, StoreError):
        return True
    return False


@cache
def _codec() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Completion)
