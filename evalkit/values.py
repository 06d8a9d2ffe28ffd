"""What every layer says of its values: `frozen` classes, and the types of JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar, dataclass_transform

Json: TypeAlias = Mapping[str, Any]
"""Values by name that are only read, such as a JSON object."""
JsonObject: TypeAlias = dict[str, Any]
"""Values by name that may be changed."""
T = TypeVar("T")


def pickled(cls: type[T]) -> type[T]:
    """Have a frozen dataclass pickled as the arguments of its class, in half the time.

    Sequences on disk pickle millions of values, and a dataclass with slots looks up its fields for each.
    """
    names = [one.name for one in fields(cls) if one.init]  # type: ignore[arg-type]
    if len(names) < 2:
        return cls
    read = attrgetter(*names)

    def reduce(value: object) -> tuple[type, tuple[Any, ...]]:
        return type(value), read(value)

    cls.__reduce__ = reduce  # type: ignore[method-assign, assignment]
    return cls


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class a dataclass whose objects cannot be changed and have no other attributes."""
    return pickled(dataclass(frozen=True, slots=True)(cls))
