"""Encode completions as JSON for stores and exported files: exactly, and with strict decoding."""

from __future__ import annotations

from functools import cache
from typing import Any

from evalkit.errors import StoreError
from evalkit.types import Completion


def encode(completion: Completion) -> str:
    """Return a completion as JSON, without default values.

    Raises:
        StoreError: If it has text that JSON cannot hold, such as an unpaired surrogate.
    """
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


@cache
def _codec() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Completion)
