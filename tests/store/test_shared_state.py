"""Texts that the users of a store share: limits, budgets, submitted batches."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from evalkit.errors import StoreError
from evalkit.protocols import SharedState
from evalkit.store import open_url, shared_state


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/s.sqlite"
    return request.getfixturevalue("postgres").new_database()


def test_changes_by_several_users_are_made_one_after_the_other(url):
    def count() -> None:
        store = open_url(url)
        for _ in range(50):
            store.change_state("sum/é", lambda old, _: str(int(old or 0) + 1))
        store.close()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = open_url(url)
    assert isinstance(shared_state(store), SharedState)
    assert store.states("sum/") == {"sum/é": "200"}
    store.close()


def test_a_text_is_found_by_its_prefix_removed_and_kept_when_a_change_fails(url):
    store, other = open_url(url), open_url(url)
    times = []
    for name in ("b/2", "a", "b/1", "b%", "bb"):
        store.change_state(name, lambda old, now: times.append(now) or "\0é")
    assert list(other.states("b/").items()) == [("b/1", "\0é"), ("b/2", "\0é")]
    assert abs(times[0] - time.time()) < 60
    with pytest.raises(ZeroDivisionError):
        other.change_state("b/1", lambda old, now: str(1 // 0))
    store.change_state("b/2", lambda old, now: None)
    assert list(store.states("b/")) == ["b/1"]
    reader = open_url(url, read_only=True)
    with pytest.raises(StoreError):
        reader.change_state("a", lambda old, now: "x")
    for one in (store, other, reader):
        one.close()
