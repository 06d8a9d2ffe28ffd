"""Sequences that are not held: what comes back is what was put in, and nothing is left behind."""

import pickle
import resource
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import field
from types import MappingProxyType

import pytest

from evalkit.core import spool
from evalkit.core.errors import ConfigError
from evalkit.core.spool import Spool
from evalkit.core.types import Case, Completion, Judgment, Response
from evalkit.core.values import frozen

VALUES = [
    Judgment(
        f"c{k}",
        (0, 1),
        (1, 0),
        0,
        "m",
        "ok",
        1.0,
        answer={"n": [k]},
        completion=Completion("é" * k),
    )
    for k in range(60)
]


@pytest.fixture
def written(monkeypatch):
    """Every spool goes to its file with the first value."""
    monkeypatch.setattr(spool, "MEMORY_LIMIT", 0)


@contextmanager
def files_of(size: int) -> Iterator[None]:
    """Let this process write no file above a size, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("held", [0, 2000, 2**30])
def test_what_is_read_back_equals_what_was_put_in(held, monkeypatch, tmp_path):
    monkeypatch.setattr(spool, "MEMORY_LIMIT", held)
    found = Spool(VALUES, folder=tmp_path)
    assert len(found) == 60
    assert list(found) == VALUES
    assert [found[place] for place in (59, -1, 0, 30)] == [
        VALUES[place] for place in (59, -1, 0, 30)
    ]
    assert found[10:40:7] == tuple(VALUES[10:40:7])
    assert found == VALUES
    assert tuple(VALUES) == found
    assert found != VALUES[1:]
    assert found != [*VALUES[1:], VALUES[0]]
    with pytest.raises(IndexError):
        found[60]
    assert VALUES[3] in found
    assert pickle.loads(pickle.dumps(found)) == tuple(VALUES)


@frozen
class Computed:
    """Values with one that is made of the others."""

    numbers: tuple[int, ...]
    name: str
    total: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", sum(self.numbers))


class Named(Response):
    """An undecorated subclass."""


@pytest.mark.parametrize("value", [VALUES[0], Named("x", "m"), Computed((1, 2), "n")])
def test_frozen_values_are_pickled_as_arguments_of_their_own_class(value):
    for again in (pickle.loads(pickle.dumps(value)), copy(value)):
        assert type(again) is type(value)
        assert repr(again) == repr(value)


def test_appending_goes_on_after_reading(written):
    found = Spool(VALUES[:5])
    assert found[2] == VALUES[2]
    found.extend(VALUES[5:])
    assert list(found) == VALUES


def test_another_order_is_a_view(written):
    assert list(Spool(VALUES).arrange([5, 0, 5])) == [VALUES[5], VALUES[0], VALUES[5]]


@pytest.mark.parametrize("large", [1, 2, 3, 7, 8])
def test_values_of_uneven_sizes_go_to_the_file_when_they_take_about_what_may_be_held(
    large, tmp_path
):
    """Of every eight values as many are large."""
    found = Spool[bytes](folder=tmp_path)
    number = 0
    while found._file is None:
        found.append(b"x" * (100_000 if number % 8 < large else 10))
        number += 1
    assert spool.MEMORY_LIMIT / 2 < sum(map(len, found)) < 2 * spool.MEMORY_LIMIT


def test_values_that_could_not_be_put_down_are_still_there(written, tmp_path, monkeypatch):
    found = Spool(VALUES[:0], folder=tmp_path)
    monkeypatch.setattr(spool, "MEMORY_LIMIT", 2**30)
    found.extend(VALUES)
    monkeypatch.setattr(spool, "MEMORY_LIMIT", 0)
    with files_of(10_000), pytest.raises(ConfigError, match="a temporary file cannot be written"):
        found.append(Completion("x" * 50_000))
    assert list(found)[:60] == VALUES
    found.append(VALUES[0])
    assert list(found)[:60] == VALUES


def test_what_cannot_be_pickled_is_held(written):
    odd = Case("c", "q", (Response("a"),), metadata=MappingProxyType({"f": lambda: 1}))
    found = Spool([Case("b", "q", ()), odd, Case("d", "q", ())])
    assert [case.id for case in found] == ["b", "c", "d"]
    assert found[1] is odd


def test_the_file_has_no_name_and_is_beside_what_is_being_made(written, tmp_path, monkeypatch):
    asked = []
    real = tempfile.TemporaryFile
    monkeypatch.setattr(
        tempfile, "TemporaryFile", lambda **more: asked.append(more["dir"]) or real(**more)
    )
    found = Spool(VALUES, folder=tmp_path / "not" / "there" / "yet")
    assert asked == [tmp_path]
    assert list(tmp_path.iterdir()) == []
    assert list(found) == VALUES


def test_a_full_disk_is_one_line(written, tmp_path):
    found = Spool(VALUES[:1], folder=tmp_path)
    fault = rf"{tmp_path}: a temporary file cannot be written \(File too large\); free"
    with files_of(20_000), pytest.raises(ConfigError, match=fault):
        found.extend(VALUES * 50)
    assert found[0] == VALUES[0]
