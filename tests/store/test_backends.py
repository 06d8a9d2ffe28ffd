"""Backends by the scheme of `store.url`: ours, an installed one, and ones that break what a store promises."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

import pytest

from evalkit.config import StoreConfig
from evalkit.core.errors import PluginError, StoreError
from evalkit.core.types import Completion, StoredCompletion, StoreDescription
from evalkit.store import open_store
from evalkit.store.sqlite import SqliteStore
from evalkit.testing import check_store, store_faults


def test_sqlite_keeps_what_a_store_promises(tmp_path):
    check_store(SqliteStore, f"sqlite:///{tmp_path}/new/answers.sqlite")


class Forgetful(SqliteStore):
    """Strips texts, lets everybody claim, prunes everything, and writes whatever it was opened for."""

    def put_many(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        super().put_many(
            [(key, model, Completion(one.text.strip())) for key, model, one in answers]
        )

    def claim(self, key: str) -> bool:
        return True

    def prune(self, before: float) -> int:
        return super().prune(1e12)

    def recent(self, model: str, limit: int = 500) -> list[Completion]:
        return super().recent(model, limit)[::-1]

    def scan(self) -> Iterator[StoredCompletion | None]:
        yield from reversed(list(super().scan()))


def test_a_store_that_breaks_its_promises_is_told_all_of_them(tmp_path):
    found = "\n".join(store_faults(Forgetful, f"{tmp_path}/s.sqlite"))
    for said in (
        *("returns", "claimed twice, or not at all", "threads claim", "`prune`", "`recent`"),
        "`scan`",
    ):
        assert said in found
    with pytest.raises(AssertionError, match="there already is a store at"):
        check_store(Forgetful, f"{tmp_path}/s.sqlite")


class FirstKept(SqliteStore):
    """Keeps the first of two completions, and of a batch what can be kept."""

    def put_many(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        for key, model, one in answers:
            if not self.get_many([key]):
                with suppress(StoreError):
                    super().put_many([(key, model, one)])


class EveryKey(SqliteStore):
    """Returns everything if it is asked for nothing."""

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        return super().get_many(keys or [row.key for row in self.scan() if row is not None])


class ReleasedByAll(SqliteStore):
    """Releases the claims of every open store."""

    opened: ClassVar[list[SqliteStore]] = []

    def __init__(self, url: str, *, read_only: bool = False, verify: bool = True) -> None:
        super().__init__(url, read_only=read_only, verify=verify)
        self.opened.append(self)

    def release(self, key: str) -> None:
        for store in self.opened:
            SqliteStore.release(store, key)


class NeverReleased(SqliteStore):
    """Grants a claim once, forever."""

    claimed: ClassVar[set[str]] = set()

    def claim(self, key: str) -> bool:
        if key in self.claimed:
            return False
        self.claimed.add(key)
        return super().claim(key)


class Replacing(SqliteStore):
    """Replaces stored completions by added ones."""

    def add_many(self, rows: Sequence[StoredCompletion]) -> int:
        self.put_many([(row.key, row.model, row.completion) for row in rows])
        return len(rows)


class AnyModel(SqliteStore):
    def recent(self, model: str, limit: int = 500) -> list[Completion]:
        return [Completion("4"), Completion("3")]


class Nameless(SqliteStore):
    def describe(self) -> StoreDescription:
        return StoreDescription("", 0, -1)


class Writable(SqliteStore):
    def __init__(self, url: str, *, read_only: bool = False, verify: bool = True) -> None:
        super().__init__(url, read_only=False, verify=verify)


class Absent(SqliteStore):
    @staticmethod
    def exists(url: str) -> bool:
        return False


class InMemory(SqliteStore):
    """Forgets everything when it is closed."""

    def close(self) -> None:
        with suppress(StoreError):
            self.prune(1e12)
        super().close()


class Hasty(SqliteStore):
    """Reads a shared text before it may change it, keeps what it should remove, and finds names by any part."""

    def states(self, prefix: str) -> Mapping[str, str]:
        return {name: text for name, text in super().states("").items() if prefix in name}

    def change_state(self, name: str, change: Callable[[str | None, float], str | None]) -> None:
        # Whether threads meet is chance: the text that they change together is never read.
        old = None if name == "sum" else super().states(name).get(name)
        with suppress(ZeroDivisionError):
            new = change(old, 0.0)
            super().change_state(name, lambda *_: new or old)


@pytest.mark.parametrize(
    ("backend", "faults"),
    [
        (
            Hasty,
            [
                "`states` does not return exactly the texts",
                "`change_state` does not give the store's time",
                "`change_state` hides an error",
                "`change_state` does not remove a text",
                "a change was lost",
            ],
        ),
        (
            FirstKept,
            [
                "a newer completion does not replace an older one",
                "an unpaired surrogate is neither",
            ],
        ),
        (EveryKey, ["looking up 5,000 keys, or none, does not return exactly the stored ones"]),
        (ReleasedByAll, ["a claim ends when another user of the store releases the key"]),
        (NeverReleased, ["a released key cannot be claimed", "does not grant every claim"]),
        (Replacing, ["`add_many` does not return the number", "`add_many` replaces stored ones"]),
        (AnyModel, ["`recent` returns completions of another model"]),
        (Nameless, ["`describe` returns no location, version or size"]),
        (Writable, ["a missing store can be opened read-only", "a read-only store can be changed"]),
        (Absent, ["`exists` does not find an existing store"]),
        (
            InMemory,
            [
                "a reopened store does not have the completions",
                "a read-only store does not return its",
            ],
        ),
    ],
)
def test_each_broken_promise_is_named(tmp_path, backend, faults):
    found = "\n".join(store_faults(backend, f"{tmp_path}/s.sqlite"))
    for fault in faults:
        assert fault in found


def test_half_a_surrogate_pair_is_refused_in_one_line_and_nothing_of_its_batch_is_kept(tmp_path):
    store = SqliteStore(tmp_path / "s.sqlite")
    for model, text in (("m", "\ud800"), ("m\ud800", "x")):
        with pytest.raises(StoreError, match="valid Unicode") as error:
            store.put_many([("a", "m", Completion("x")), ("b", model, Completion(text))])
        assert "\n" not in str(error.value)
    assert not list(store.scan())
    store.close()


@pytest.mark.parametrize("scheme", ["mysql", "sqlite+aio", "evalkit.store.sqlite.SqliteStore"])
def test_a_scheme_that_no_backend_has_is_named_without_the_rest_of_the_url(scheme):
    with pytest.raises(PluginError, match=r"store\.url: ") as error:
        open_store(StoreConfig(url=f"{scheme}://user:hidden@host/db"))
    assert scheme in str(error.value)
    assert "hidden" not in str(error.value)


def test_a_store_is_written_where_a_file_stood_empty(tmp_path):
    path = tmp_path / "s.sqlite"
    path.touch()
    assert not SqliteStore.exists(str(path))
    SqliteStore(path).close()
    assert SqliteStore.exists(f"sqlite:///{path}")
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM completions").fetchone() == (0,)
