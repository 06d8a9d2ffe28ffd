"""Completions as JSON texts, for stores and exported files: exact, and strict about what is read back."""

from __future__ import annotations

from functools import cache
from typing import Any

from evalkit.errors import StoreError
from evalkit.types import Completion


def encode(completion: Completion) -> str:
    """Return a completion as JSON, without what is at its default.

    Raises:
        StoreError: if it holds what JSON cannot, such as half a surrogate pair.
    """
    try:
        text: bytes = _codec().serializer.to_json(completion, exclude_defaults=True)
    except ValueError as error:
        why = str(error).rpartition(": ")[2]
        raise StoreError(f"a completion cannot be stored ({why}); replace what is not valid Unicode") from error
    return text.decode()


def decode(text: str | bytes) -> Completion:
    """Return the completion in a JSON text.

    Raises:
        ValueError: if there is none, or its fields are of other types.
    """
    completion: Completion = _codec().validator.validate_json(text)
    return completion


@cache
def _codec() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Completion)
