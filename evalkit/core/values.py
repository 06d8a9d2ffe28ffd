"""What every layer says of its values: `frozen` classes, and the types of JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import (
    MISSING,
    Field,
    FrozenInstanceError,
    dataclass,
    field,
    fields,
    is_dataclass,
)
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, NoReturn, TypeAlias, TypeVar, dataclass_transform

Json: TypeAlias = Mapping[str, Any]
"""Values by name that are only read, such as a JSON object."""
JsonObject: TypeAlias = dict[str, Any]
"""Values by name that may be changed."""
T = TypeVar("T")


def mapping_of(value: object) -> Json:
    """Return a value if it is a mapping, and else an empty one."""
    if isinstance(value, Mapping):
        return value
    return {}


def mapping_at(values: Json, key: str) -> Json:
    """Return the mapping at a key; empty if there is none."""
    return mapping_of(values.get(key))


def _reader(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads attributes of an object as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    # `attrgetter` of one name would return its value, not a tuple.
    return lambda value: tuple(getattr(value, name) for name in names)


def pickled(cls: type[T]) -> type[T]:
    """Have a frozen dataclass pickled as the arguments of its class, in half the time.

    Sequences on disk pickle millions of values, and a dataclass with slots looks up its fields for
    each.
    """
    names = [field.name for field in fields(cls) if field.init]  # type: ignore[arg-type]
    read = _reader(names)

    def reduce(value: object) -> tuple[type, tuple[Any, ...]]:
        return type(value), read(value)

    cls.__reduce__ = reduce  # type: ignore[assignment]
    return cls


def _is_plain(cls: type[Any]) -> bool:
    """Return whether each field of a class is a plain parameter, and nothing is computed."""
    class_fields = [value for value in vars(cls).values() if isinstance(value, Field)]
    for base in cls.__mro__[1:]:
        class_fields += getattr(base, "__dataclass_fields__", {}).values()
    if hasattr(cls, "__post_init__"):
        return False
    return all(field.init and field.kw_only is not True for field in class_fields)


def _set_by_slots(cls: type[Any]) -> None:
    """Have a frozen dataclass set its slots directly.

    This takes two thirds of the time that finding each by name takes.

    A run makes many millions of objects.
    """
    listed = fields(cls)
    scope = JsonObject(MISSING=MISSING)
    values = {slot.name: slot.name for slot in listed}
    for slot in listed:
        # The setter of the slot itself: a frozen class refuses ordinary assignment.
        scope[f"set_{slot.name}"] = getattr(cls, slot.name).__set__
        if slot.default_factory is not MISSING:
            scope[f"make_{slot.name}"] = slot.default_factory
            values[slot.name] = (
                f"make_{slot.name}() if {slot.name} is MISSING else {slot.name}"
            )
    parameters = ", ".join(values)
    body = ""
    for name, value in values.items():
        body += f"\n    set_{name}(self, {value})"
    body = body or " pass"
    exec(f"def __init__(self, {parameters}):{body}", scope)
    init = scope["__init__"]
    # Defaults belong to the last parameters, in order; `MISSING` stands for a factory.
    init.__defaults__ = tuple(
        slot.default
        for slot in listed
        if slot.default is not MISSING or slot.default_factory is not MISSING
    )
    annotations = {slot.name: slot.type for slot in listed}
    init.__annotations__ = {**annotations, "return": None}
    init.__module__ = cls.__module__
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = init


def _compared_by_fields(cls: type[Any]) -> None:
    """Give a class the methods of a dataclass that compare and print it.

    They are not compiled for each class.
    """
    compared = [field.name for field in fields(cls) if field.compare]
    printed = [field.name for field in fields(cls) if field.repr]
    read = _reader(compared)

    def equal(self: Any, value: object) -> Any:
        if value.__class__ is not self.__class__:
            return NotImplemented
        return read(self) == read(value)

    def hashed(self: Any) -> int:
        return hash(read(self))

    @recursive_repr()
    def text(self: Any) -> str:
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in printed)
        return f"{type(self).__qualname__}({parts})"

    methods = vars(cls)
    has_hash = methods.get("__hash__") is not None
    defaults = {"__eq__": equal, "__hash__": hashed, "__repr__": text}
    for name, method in defaults.items():
        is_given = has_hash if name == "__hash__" else name in methods
        if not is_given:
            setattr(cls, name, method)


def _refuse_assignment(_: object, name: str, _value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _refuse_changes(cls: type[Any]) -> None:
    """Give a class the methods of a frozen dataclass that refuse changes.

    They are the same for all classes, where `dataclass` compiles two for each.
    """
    cls.__setattr__ = _refuse_assignment  # type: ignore[assignment]
    cls.__delattr__ = _refuse_deletion  # type: ignore[assignment]
    # Dataclasses that inherit from this one must be frozen, too.
    cls.__dataclass_params__.frozen = True


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class a dataclass whose objects cannot be changed and have no other attributes.

    It is one of `dataclass(frozen=True, slots=True)`, made in a third of the time: evalkit has
    hundreds.
    """
    inherits = any(map(is_dataclass, cls.__mro__[1:]))
    if inherits or not _is_plain(cls):
        return pickled(dataclass(frozen=True, slots=True)(cls))
    frozen_class: type[T] = dataclass(slots=True, init=False, repr=False, eq=False)(cls)
    _refuse_changes(frozen_class)
    _set_by_slots(frozen_class)
    _compared_by_fields(frozen_class)
    return pickled(frozen_class)
