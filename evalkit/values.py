"""What every layer says of its values: `frozen` classes, and the types of JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import wraps
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar, dataclass_transform

Json: TypeAlias = Mapping[str, Any]
"""Values by name that are only read, such as a JSON object."""
JsonObject: TypeAlias = dict[str, Any]
"""Values by name that may be changed."""
T = TypeVar("T")


def pickled(cls: type[T]) -> type[T]:
    """Have a frozen dataclass pickled as the arguments of its class, in half the time.

    Sequences on disk pickle millions of values, and a dataclass with slots looks up its fields for
    each.
    """
    names = [one.name for one in fields(cls) if one.init]  # type: ignore[arg-type]
    if len(names) < 2:
        return cls
    read = attrgetter(*names)

    def reduce(value: object) -> tuple[type, tuple[Any, ...]]:
        return type(value), read(value)

    cls.__reduce__ = reduce  # type: ignore[method-assign, assignment]
    return cls


def set_by_slots(cls: type[T]) -> type[T]:
    """Have a frozen dataclass set its slots directly, in two thirds of the time that finding each by name takes.

    A run makes many millions of objects. Classes that compute a field, or have one that is not a
    plain parameter, are unchanged.
    """
    listed = fields(cls)  # type: ignore[arg-type]
    if hasattr(cls, "__post_init__") or not all(
        one.init and not one.kw_only for one in listed
    ):
        return cls
    scope = JsonObject(MISSING=MISSING)
    values = {one.name: one.name for one in listed}
    for one in listed:
        scope[f"set_{one.name}"] = getattr(cls, one.name).__set__
        if one.default_factory is not MISSING:
            scope[f"make_{one.name}"] = one.default_factory
            values[one.name] = (
                f"make_{one.name}() if {one.name} is MISSING else {one.name}"
            )
    body = "".join(f"\n    set_{name}(self, {value})" for name, value in values.items())
    exec(f"def init(self, {', '.join(values)}):{body or ' pass'}", scope)
    scope["init"].__defaults__ = tuple(
        one.default
        for one in listed
        if one.default is not MISSING or one.default_factory is not MISSING
    )
    cls.__init__ = wraps(cls.__init__)(scope["init"])  # type: ignore[method-assign]
    return cls


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class a dataclass whose objects cannot be changed and have no other attributes."""
    return pickled(set_by_slots(dataclass(frozen=True, slots=True)(cls)))
