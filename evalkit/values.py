"""What every layer says of its values: `frozen` classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class a dataclass whose objects cannot be changed and have no other attributes."""
    return dataclass(frozen=True, slots=True)(cls)
