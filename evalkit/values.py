"""What every layer says of its values: `frozen` classes, and the types of JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, dataclass_transform

Json: TypeAlias = Mapping[str, Any]
"""Values by name that are only read, such as a JSON object."""
JsonObject: TypeAlias = dict[str, Any]
"""Values by name that may be changed."""
T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class a dataclass whose objects cannot be changed and have no other attributes."""
    return dataclass(frozen=True, slots=True)(cls)
