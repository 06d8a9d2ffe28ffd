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


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class a dataclass whose objects cannot be changed and have no other attributes.

    Sequences on disk pickle millions of them: as the arguments of their class, that takes a quarter of the time.
    """
    made = dataclass(frozen=True, slots=True)(cls)
    names = [one.name for one in fields(made) if one.init]  # type: ignore[arg-type]
    if len(names) < 2:
        return made
    read = attrgetter(*names)

    def reduce(value: object) -> tuple[type, tuple[Any, ...]]:
        return type(value), read(value)

    made.__reduce__ = reduce  # type: ignore[method-assign, assignment]
    return made
