"""Backends by the scheme of `store.url`: ours, an installed one, and ones that break what a store promises."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from evalkit.config import StoreConfig
from evalkit.errors import PluginError, StoreError
from evalkit.store import open_store
from evalkit.store.sqlite import SqliteStore
from evalkit.testing import check_store, store_faults
from evalkit.types import Completion, StoredCompletion


def test_sqlite_keeps_what_a_store_promises(tmp_path: Path) -> None:
    check_store(SqliteStore, f"sqlite:///{tmp_path}/new/answers.sqlite")


class Forgetful(SqliteStore):
    """Strips texts, lets everybody claim, prunes everything, and writes whatever it was opened for."""

    def put_many(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        super().put_many([(key, model, Completion(one.text.strip())) for key, model, one in answers])

    def claim(self, key: str) -> bool:
        return True

    def prune(self, before: float) -> int:
        return super().prune(1e12)

    def recent(self, model: str, limit: int = 500) -> list[Completion]:
        return super().recent(model, limit)[::-1]

    def scan(self) -> Iterator[StoredCompletion | None]:
        yield from reversed(list(super().scan()))


def test_a_store_that_breaks_its_promises_is_told_all_of_them(tmp_path: Path) -> None:
    found = "\n".join(store_faults(Forgetful, f"{tmp_path}/s.sqlite"))
    for said in ("returns", "claimed twice, or not at all", "threads claim", "`prune`", "`recent`", "`scan`"):
        assert said in found
    with pytest.raises(AssertionError, match="there already is a store at"):
        check_store(Forgetful, f"{tmp_path}/s.sqlite")


def test_half_a_surrogate_pair_is_refused_in_one_line_and_nothing_of_its_batch_is_kept(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.sqlite")
    for model, text in (("m", "\ud800"), ("m\ud800", "x")):
        with pytest.raises(StoreError, match="valid Unicode") as error:
            store.put_many([("a", "m", Completion("x")), ("b", model, Completion(text))])
        assert "\n" not in str(error.value)
    assert not list(store.scan())
    store.close()


@pytest.mark.parametrize("scheme", ["mysql", "sqlite+aio", "evalkit.store.sqlite.SqliteStore"])
def test_a_scheme_that_no_backend_has_is_named_without_the_rest_of_the_url(scheme: str) -> None:
    with pytest.raises(PluginError, match=r"store\.url: ") as error:
        open_store(StoreConfig(url=f"{scheme}://user:hidden@host/db"))
    assert scheme in str(error.value)
    assert "hidden" not in str(error.value)


def test_a_store_is_written_where_a_file_stood_empty(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    path.touch()
    assert not SqliteStore.exists(str(path))
    SqliteStore(path).close()
    assert SqliteStore.exists(f"sqlite:///{path}")
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM completions").fetchone() == (0,)
