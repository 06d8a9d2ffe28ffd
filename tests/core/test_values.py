"""Frozen classes are dataclasses, however their fields are set."""

import pickle
import re
from collections.abc import Hashable
from copy import copy
from dataclasses import (
    MISSING,
    FrozenInstanceError,
    dataclass,
    field,
    fields,
    is_dataclass,
    make_dataclass,
)

import pytest

from evalkit.core import types
from evalkit.core.patterns import lazy_pattern
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
    with pytest.raises(FrozenInstanceError, match="cannot delete field"):
        delattr(made, fields(cls)[0].name)
    assert copy(made) == made
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


@frozen
class Single:
    name: str


@frozen
class Inheriting(Single):
    size: int


def test_a_class_with_one_field_can_be_pickled():
    assert pickle.loads(pickle.dumps(Single("a"))) == Single("a")


def test_a_class_can_inherit_from_a_frozen_one():
    value = Inheriting("a", 2)
    assert pickle.loads(pickle.dumps(value)) == value
    with pytest.raises(FrozenInstanceError):
        value.name = "b"  # type: ignore[misc]
    with pytest.raises(TypeError, match="frozen"):
        dataclass(type("Changing", (Single,), {}))


def test_a_lazy_pattern_compiles_when_it_is_used_and_then_costs_nothing_more(monkeypatch):
    lazy = lazy_pattern("(a)|b", re.IGNORECASE)
    broken = lazy_pattern("(")
    assert broken.pattern == "("
    assert [match[1] for match in lazy.finditer("AbX")] == ["A", None]
    monkeypatch.setattr(re, "compile", None)
    assert lazy.finditer("c") is not None
    with pytest.raises(TypeError):
        lazy.sub("", "a")
