from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.config import StoreConfig
from evalkit.errors import PluginError, StoreError
from evalkit.store import open_store, store_location, store_url
from evalkit.store.codec import Row, row_of
from evalkit.store.sqlite import SqliteStore, path_of
from evalkit.types import Completion, TokenLogprob, Usage

FULL = Completion(
    text='{"a": "中文 \\u0000"}',
    model="m",
    finish_reason="stop",
    usage=Usage(3, None),
    cost_usd=0.0,
    latency=0.25,
    attempts=2,
    rung="tool",
    reasoning="because",
    refusal=None,
    logprobs=(TokenLogprob("a", -0.5, (("a", -0.5), ("b", -1.25))), TokenLogprob("é", -9999.0)),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "answers.sqlite"


def test_a_completion_comes_back_as_it_was(path):
    with_all, bare = FULL, Completion("")
    store = SqliteStore(path)
    store.put("k1", "m", with_all)
    store.put("k2", "m", bare)
    store.close()
    again = SqliteStore(path)
    assert again.get_many(["k2", "missing", "k1"]) == {"k1": with_all, "k2": bare}
    again.close()


@settings(max_examples=25)
@given(st.text(), st.none() | st.floats(0, 100), st.none() | st.integers(0, 10**9))
def test_any_completion_comes_back_as_it_was(tmp_path_factory, text, cost, tokens):
    store = SqliteStore(tmp_path_factory.mktemp("s") / "s.sqlite")
    completion = Completion(text, cost_usd=cost, usage=Usage(tokens, tokens))
    try:
        store.put("k", "m", completion)
        assert store.get_many(["k"]) == {"k": completion}
    finally:
        store.close()


def test_a_newer_answer_replaces_the_older(path):
    store = SqliteStore(path)
    for text in ("old", "new"):
        store.put("k", "m", Completion(text))
    assert store.get_many(["k"])["k"].text == "new"
    store.close()


def test_more_keys_than_one_statement_takes_are_looked_up(path):
    store = SqliteStore(path)
    store.put("1999", "m", FULL)
    assert list(store.get_many([str(i) for i in range(2000)])) == ["1999"]
    assert store.get_many([]) == {}
    store.close()


def test_only_the_owner_may_read_it(path):
    SqliteStore(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_every_commit_is_flushed_to_disk(path):
    store = SqliteStore(path)
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()


def test_threads_write_at_once_and_nothing_is_lost(path):
    store = SqliteStore(path)
    start = threading.Barrier(8)

    def write(thread: int) -> None:
        start.wait()
        for i in range(25):
            store.put(f"{thread}-{i}", "m", Completion(str(i)))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = [f"{n}-{i}" for n in range(8) for i in range(25)]
    assert set(store.get_many(keys)) == set(keys)
    store.close()


def test_a_store_waits_for_a_process_that_creates_it(path, monkeypatch):
    # SQLite itself refuses to change the mode at once then, however long it may wait.
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(time, "sleep", lambda _: other.rollback())
        SqliteStore(path).close()


def test_processes_write_at_once_and_nothing_is_lost(path):
    code = (
        "import sys; from pathlib import Path; from evalkit.store.sqlite import SqliteStore\n"
        "from evalkit.types import Completion\n"
        "s = SqliteStore(Path(sys.argv[1]))\n"
        "for i in range(40): s.put(f'{sys.argv[2]}-{i}', 'm', Completion(str(i)))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in range(2)]
    assert [process.wait(60) for process in running] == [0, 0]
    store = SqliteStore(path, read_only=True)
    assert len(store.get_many([f"{n}-{i}" for n in range(2) for i in range(40)])) == 80
    store.close()


def test_a_killed_process_loses_nothing_it_was_told_is_kept(path):
    code = (
        "import os, sys; from pathlib import Path; from evalkit.store.sqlite import SqliteStore\n"
        "from evalkit.types import Completion\n"
        "s = SqliteStore(Path(sys.argv[1])); s.put('k', 'm', Completion('kept')); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == -9
    store = SqliteStore(path)
    assert store.get_many(["k"])["k"].text == "kept"
    store.close()


def test_modes(path):
    config = StoreConfig(url=str(path))
    writing = open_store(config)
    writing.put("k", "m", FULL)
    reading = open_store(config.model_copy(update={"mode": "read_only"}))
    assert reading.get_many(["k"]) == {"k": FULL}
    with pytest.raises(StoreError, match="read_only"):
        reading.put("k2", "m", FULL)
    anew = open_store(config.model_copy(update={"mode": "refresh"}))
    anew.put("k", "m", Completion("anew"))
    assert writing.get_many(["k"])["k"].text == "anew"
    assert open_store(config.model_copy(update={"mode": "off"})) is None
    for store in (writing, reading, anew):
        store.close()


def test_where_it_is(monkeypatch, tmp_path):
    assert path_of("sqlite:////a/b.sqlite") == Path("/a/b.sqlite")
    assert path_of("sqlite:///b.sqlite") == Path("b.sqlite")
    assert path_of("~/b") == Path.home() / "b"
    monkeypatch.setenv("EVALKIT_STORE", str(tmp_path / "env.sqlite"))
    assert store_url(None) == str(tmp_path / "env.sqlite")
    monkeypatch.delenv("EVALKIT_STORE")
    assert path_of(store_url(None)).name == "completions.sqlite"
    assert store_location("sqlite:////a/b.sqlite") == "/a/b.sqlite"
    with pytest.raises(PluginError, match=r"store\.url") as error:
        open_store(StoreConfig(url="mysql://user:hidden@host/db"))
    assert "hidden" not in str(error.value)
    with pytest.raises(StoreError, match="write sqlite:///path"):
        open_store(StoreConfig(url="sqlite://b.sqlite"))


def one_line(error: pytest.ExceptionInfo[StoreError], path: Path) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith(str(path))
    return text


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"my notes, " * 100)
    with pytest.raises(StoreError) as error:
        SqliteStore(path)
    assert "store.url" in one_line(error, path)
    assert path.read_bytes() == b"my notes, " * 100


def test_somebody_elses_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.sqlite"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE t (x)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError) as error:
        SqliteStore(path)
    assert "not an evalkit store" in one_line(error, path)
    assert path.read_bytes() == before


def test_a_store_of_a_newer_version_is_refused(path):
    store = SqliteStore(path)
    store._db.execute("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(StoreError) as error:
        SqliteStore(path)
    assert "update evalkit" in one_line(error, path)


def test_a_damaged_value_is_named(path):
    store = SqliteStore(path)
    store._db.execute("INSERT INTO completions VALUES ('k', 'm', 0, '{\"text\": 7', NULL)")
    with pytest.raises(StoreError) as error:
        store.get_many(["k"])
    assert "store.mode=refresh" in one_line(error, path)
    store.close()


def test_damaged_pages_are_named(path):
    store = SqliteStore(path)
    for i in range(200):
        store.put(str(i), "m", Completion("x" * 500))
    store.close()
    data = bytearray(path.read_bytes())
    data[4096 : len(data)] = bytes(len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(StoreError) as error:
        SqliteStore(path)
    assert "evalkit store export" in one_line(error, path)
    assert path.read_bytes() == data


def test_a_store_another_process_holds_is_said_to_be_held(path, monkeypatch):
    monkeypatch.setattr("evalkit.store.sqlite.BUSY_SECONDS", 0.0)
    store = SqliteStore(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError) as error:
        store.put("k", "m", FULL)
    assert "locked by another process" in one_line(error, path)
    holder.execute("ROLLBACK")
    holder.close()
    store.put("k", "m", FULL)
    assert "k" in store.get_many(["k"])
    store.close()


def test_a_missing_file_cannot_be_read_only(path):
    with pytest.raises(StoreError) as error:
        SqliteStore(path, read_only=True)
    assert "check that it exists" in one_line(error, path)
    assert not path.exists()


def test_a_folder_in_its_place_is_refused(tmp_path):
    with pytest.raises(StoreError) as error:
        SqliteStore(tmp_path)
    assert "cannot be opened" in one_line(error, tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="name a writable file"):
        SqliteStore(tmp_path / "s.sqlite")


def test_a_look_up_does_not_wait_for_what_is_being_written(path):
    store = SqliteStore(path)
    store.put("k", "m", FULL)
    found = store.locked(lambda db: (db.execute("BEGIN IMMEDIATE"), store.get_many(["k"]), db.execute("ROLLBACK"))[1])
    assert found == {"k": FULL}
    store.close()


def test_many_are_kept_in_one_commit_or_none_is(path):
    store = SqliteStore(path)
    commits: list[str] = []
    store._db.set_trace_callback(lambda statement: commits.append(statement) if statement == "COMMIT" else None)
    store.put_many([(str(n), "m", Completion(str(n))) for n in range(50)])
    assert len(commits) == 1
    assert len(store.get_many([str(n) for n in range(50)])) == 50
    store._db.set_trace_callback(None)
    with pytest.raises(StoreError):
        store.commit([row_of("new", "m", 0.0, Completion("x")), Row("k", None, 0.0, "{}", None)])
    assert store.get_many(["new"]) == {}
    store.close()


@pytest.mark.parametrize("text", [b"my notes", b"x", b"SQLite format 2\0 and more", b"\0" * 20])
def test_a_small_file_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(text)
    for read_only in (False, True):
        with pytest.raises(StoreError, match="not a store"):
            SqliteStore(path, read_only=read_only)
    assert path.read_bytes() == text
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_deleted_while_in_use_is_written_anew(
    tmp_path: Path, replaced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "folder" / "store.sqlite"
    store = SqliteStore(path)
    store.put("a" * 64, "m", Completion("one"))
    for file in list(path.parent.iterdir()):
        file.unlink()
    if replaced:
        SqliteStore(path).put("c" * 64, "m", Completion("three"))
    store.put("b" * 64, "m", Completion("two"))
    keys = [letter * 64 for letter in "abc"]
    assert [one.text for one in store.get_many(keys[:2]).values()] == ["one", "two"]
    store.close()
    assert set(SqliteStore(path).get_many(keys)) == set(keys if replaced else keys[:2])
    assert "was deleted while in use; its 1 answers were saved there" in caplog.text


def test_a_latency_that_is_no_number_is_refused_and_nothing_of_its_round_is_stored(tmp_path):
    store = SqliteStore(tmp_path / "store.sqlite")
    with pytest.raises(StoreError, match="its latency is nan"):
        store.put_many([("a", "m", Completion("A")), ("b", "m", Completion("B", latency=float("nan")))])
    assert store.get_many(["a", "b"]) == {}
