"""Call third-party code, whose errors become one line of evalkit's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from evalkit.core.redaction import redact
from evalkit.errors import EvalkitError

T = TypeVar("T")


@contextmanager
def third_party_errors(kind: Callable[..., EvalkitError], what: str, **details: str) -> Iterator[None]:
    """Turn any error in the block that is not evalkit's own into one line without secrets.

    Args:
        kind: The type of the error to raise.
        what: What fails; the type and text of the error follow.
        **details: Other arguments of the error, such as `where` and `remedy`.

    Raises:
        EvalkitError: An error of type `kind`, or evalkit's own error as it is.
    """
    try:
        yield
    except EvalkitError:
        raise
    except Exception as error:  # third-party code can raise anything
        text = redact(" ".join(f"{type(error).__name__}: {error}".split()))
        raise kind(f"{what}: {text}", **details) from error


class Guarded:
    """An object with the public methods of another one, each within `third_party_errors`.

    Args:
        inner: The third-party object. Iterators that a method returns are guarded as well.
        kind: The type of the error to raise.
        what: What fails.
    """

    def __init__(self, inner: object, kind: Callable[..., EvalkitError], what: str) -> None:
        # On the object itself, where `isinstance` finds the methods of a protocol.
        for name in dir(inner):
            if not name.startswith("_") and callable(method := getattr(inner, name)):
                setattr(self, name, self._guard(method, kind, what))

    @staticmethod
    def _guard(method: Any, kind: Callable[..., EvalkitError], what: str) -> Any:
        def iterate(values: Iterator[T]) -> Iterator[T]:
            with third_party_errors(kind, what):
                yield from values

        def call(*arguments: Any, **named: Any) -> Any:
            with third_party_errors(kind, what):
                result = method(*arguments, **named)
            return iterate(result) if isinstance(result, Iterator) else result

        return call
