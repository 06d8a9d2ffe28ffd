"""Raise errors to users of Python as one exception with one line."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from functools import wraps
from types import UnionType
from typing import Any, ParamSpec, TypeVar

from evalkit.core.errors import ConfigError, EvalkitError

P = ParamSpec("P")
T = TypeVar("T")


def raises_plainly(function: Callable[P, T]) -> Callable[P, T]:
    """Return a public function that raises evalkit's errors without the frames and
    causes inside evalkit.

    A notebook then shows one exception with one line. With `HYDRA_FULL_ERROR=1` it shows
    everything.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except EvalkitError as error:
            if shows_everything():
                raise
            raise error.with_traceback(None) from None

    return call


def awaits_plainly(
    function: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return a coroutine function that raises errors of evalkit with one line, as
    `raises_plainly` does for a function.

    Everything is shown if the user asked for it; other errors are unchanged.
    """

    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await function(*args, **kwargs)
        except EvalkitError as error:
            if shows_everything():
                raise
            raise error.with_traceback(None) from None

    return call


def check_type(
    name: str, value: object, expected: type | UnionType, remedy: str
) -> None:
    """Check the type of an argument that users of Python give.

    Args:
        name: the name of the argument.
        value: what was given.
        expected: the type that it must have.
        remedy: what to write instead.

    Raises:
        ConfigError: if the value is of another type.
    """
    if not isinstance(value, expected):
        problem = f"cannot be of type {type(value).__name__}"
        raise ConfigError(problem, where=name, remedy=remedy)


def shows_everything() -> bool:
    """Return whether the user asked for whole tracebacks, as Hydra's users do."""
    return os.environ.get("HYDRA_FULL_ERROR") == "1"
