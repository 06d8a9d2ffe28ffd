"""Frozen classes are dataclasses, however their fields are set."""

from collections.abc import Hashable
from dataclasses import MISSING, FrozenInstanceError, field, fields, is_dataclass, make_dataclass

import pytest

from evalkit.core import types
from evalkit.core.values import frozen
from evalkit.engine.requests import CallGroup, PlannedCall

CLASSES = [CallGroup, PlannedCall, *filter(is_dataclass, map(vars(types).get, types.__all__))]


@pytest.mark.parametrize("cls", CLASSES)
def test_fields_are_those_that_the_dataclass_sets(cls):
    needed = [
        one.name for one in fields(cls) if one.default is MISSING and one.default_factory is MISSING
    ]
    listed = [(one.name, object, field(repr=one.repr, compare=one.compare)) for one in fields(cls)]
    as_dataclass = make_dataclass(cls.__name__, listed, frozen=True)
    short = cls(*needed)
    values = [getattr(short, one.name) for one in fields(cls)]
    assert values[: len(needed)] == needed
    assert short == cls(*needed) != cls(*needed[:-1], "other")
    assert repr(short) == repr(as_dataclass(*values))
    if all(isinstance(value, Hashable) for value in values):
        assert hash(short) == hash(as_dataclass(*values))
    named = {one.name: object() for one in fields(cls)}
    made = cls(**named)
    assert {name: getattr(made, name) for name in named} == named
    with pytest.raises(FrozenInstanceError):
        setattr(made, fields(cls)[0].name, 1)
    with pytest.raises(TypeError, match=cls.__name__):
        cls(unknown=1)


def test_a_default_that_is_made_is_not_shared():
    one, two = types.Case("1", "", ()), types.Case("2", "", ())
    assert one.metadata == two.metadata == {}
    assert one.metadata is not two.metadata


@frozen
class Named:
    name: str
    size: int = field(default=3, init=False)
    kind: str = field(default="case", kw_only=True)


def test_fields_that_are_not_plain_parameters_are_set_as_a_dataclass_sets_them():
    assert (Named("a", kind="pair").kind, Named("a").size) == ("pair", 3)
    with pytest.raises(TypeError, match="positional"):
        Named("a", 4)  # type: ignore[call-arg,misc]
