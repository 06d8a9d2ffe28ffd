"""The SQLite store: completions, and claims on requests."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.config import StoreConfig
from evalkit.core.errors import PluginError, StoreError
from evalkit.core.types import Completion, TokenLogprob, Usage
from evalkit.store import open_store, store_location, store_url
from evalkit.store.codec import Row, row_of
from evalkit.store.sqlite import SqliteStore, path_of

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
def path(tmp_path):
    return tmp_path / "deep" / "answers.sqlite"


@settings(max_examples=25)
@given(st.text(), st.none() | st.floats(0, 100), st.none() | st.integers(0, 10**9))
def test_any_completion_comes_back_as_it_was(tmp_path_factory, text, cost, tokens):
    store = SqliteStore(tmp_path_factory.mktemp("s") / "s.sqlite")
    completion = Completion(text, cost_usd=cost, usage=Usage(tokens, tokens))
    try:
        store.put_many([("k", "m", completion)])
        assert store.get_many(["k"]) == {"k": completion}
    finally:
        store.close()


def test_only_the_owner_may_read_it(path):
    SqliteStore(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_every_commit_is_flushed_to_disk(path):
    store = SqliteStore(path)
    assert store._db.execute("PRAGMA journal_mode").fetchone() == (b"wal",)
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()


def test_a_look_up_does_not_wait_for_what_is_being_written(path):
    store = SqliteStore(path)
    store.put_many([("k", "m", FULL)])
    found = store.locked(
        lambda db: (db.execute("BEGIN IMMEDIATE"), store.get_many(["k"]), db.execute("ROLLBACK"))[1]
    )
    assert found == {"k": FULL}
    store.close()


@pytest.mark.parametrize(
    ("count", "first", "last"), [(50, "INSERT", "INSERT"), (250, "BEGIN", "COMMIT")]
)
def test_many_are_kept_in_one_commit_or_none_is(path, count, first, last):
    store = SqliteStore(path)
    statements: list[str] = []
    store._db.set_trace_callback(lambda statement: statements.append(statement.split()[0]))
    store.put_many([(str(n), "m", Completion(str(n))) for n in range(count)])
    # One statement is a transaction by itself.
    assert (statements[0], statements[-1]) == (first, last)
    assert statements.count("INSERT") == (1 if first == "INSERT" else count)
    assert len(store.get_many([str(n) for n in range(count)])) == count
    store._db.set_trace_callback(None)
    with pytest.raises(StoreError):
        store._insert(
            [row_of("new", "m", 0.0, Completion("x")), Row("k", None, 0.0, "{}", None)],
            replace=True,
        )
    assert store.get_many(["new"]) == {}
    store.close()


def test_a_store_waits_for_a_process_that_creates_it(path, monkeypatch):
    # SQLite itself refuses to change the mode at once then, however long it may wait.
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(time, "sleep", lambda _: other.rollback())
        SqliteStore(path).close()


def test_no_store_and_one_that_is_not_read(path):
    assert open_store(StoreConfig(url=str(path), mode="off")) is None
    with closing(open_store(StoreConfig(url=str(path), mode="refresh"))) as store:
        store.put_many([("k", "m", FULL)])
        assert store.get_many(["k"]) == {"k": FULL}


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


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE t (x)")


def newer(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        store._db.execute("PRAGMA user_version = 99")


def torn(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        store.put_many([(str(n), "m", Completion("x" * 500)) for n in range(200)])
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(size - 4096))


REFUSED = {
    **{repr(text[:9]): (partial(Path.write_bytes, data=text), "set store.url to another file") for text in (
        b"my notes, " * 100, b"x", b"SQLite format 2\0 and more", b"\0" * 20
    )},
    "foreign": (foreign, "not an evalkit store"),
    "newer": (newer, "update evalkit"),
    "torn": (torn, "evalkit store export"),
    "folder": (Path.mkdir, "cannot be opened (Is a directory)"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_store_is_refused_in_one_line_and_left_as_it_is(tmp_path, make, said):
    path = tmp_path / "s.sqlite"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    for read_only in (True, False):
        with pytest.raises(StoreError) as error:
            SqliteStore(path, read_only=read_only)
        assert str(error.value).startswith(str(path))
        assert said in str(error.value)
        assert "\n" not in str(error.value)
    assert before is None or path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["s.sqlite"]


def test_a_store_another_process_holds_is_said_to_be_held(path, monkeypatch):
    monkeypatch.setattr("evalkit.store.sqlite.BUSY_SECONDS", 0.0)
    with (
        closing(SqliteStore(path)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as holder,
    ):
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=f"^{path}: locked by another process"):
            store.put_many([("k", "m", FULL)])
        holder.execute("ROLLBACK")
        store.put_many([("k", "m", FULL)])
        assert "k" in store.get_many(["k"])


@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_deleted_while_in_use_is_written_anew(tmp_path, replaced, caplog):
    path = tmp_path / "folder" / "store.sqlite"
    store = SqliteStore(path)
    store.put_many([("a" * 64, "m", Completion("one"))])
    for file in list(path.parent.iterdir()):
        file.unlink()
    if replaced:
        SqliteStore(path).put_many([("c" * 64, "m", Completion("three"))])
    store.put_many([("b" * 64, "m", Completion("two"))])
    keys = [letter * 64 for letter in "abc"]
    assert [one.text for one in store.get_many(keys[:2]).values()] == ["one", "two"]
    store.close()
    assert set(SqliteStore(path).get_many(keys)) == set(keys if replaced else keys[:2])
    assert "was deleted while in use; its 1 answers were saved there" in caplog.text


def test_a_latency_that_is_no_number_is_refused_and_nothing_of_its_round_is_stored(tmp_path):
    store = SqliteStore(tmp_path / "store.sqlite")
    with pytest.raises(StoreError, match="its latency is nan"):
        store.put_many(
            [("a", "m", Completion("A")), ("b", "m", Completion("B", latency=float("nan")))]
        )
    assert store.get_many(["a", "b"]) == {}


HOLDER = """
import sys
from pathlib import Path
from evalkit.store.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
print([store.claim(key) for key in sys.argv[2:]], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def claims_path(tmp_path):
    return tmp_path / "answers.sqlite"


def holder(path: Path, *keys: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", HOLDER, str(path), *keys]
    return subprocess.Popen(words, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_closing_one_store_keeps_the_claims_of_another_in_the_same_process(claims_path):
    with holder(claims_path, "theirs") as other:
        assert other.stdout.readline() == "[True]\n"
        one, two = SqliteStore(claims_path), SqliteStore(claims_path)
        assert one.claim("a")
        assert two.claim("b")
        assert not one.claim("theirs")
        two.close()
        with holder(claims_path, "a", "b") as third:
            assert third.stdout.readline() == "[False, True]\n"
            third.stdin.close()
        other.stdin.close()
    assert one.claim("theirs")
    one.close()


def test_a_killed_processs_claims_are_free_at_once(claims_path):
    store = SqliteStore(claims_path)
    with holder(claims_path, "a") as other:
        assert other.stdout.readline() == "[True]\n"
        assert not store.claim("a")
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        assert store.claim("a")
        other.stdin.close()
    store.close()


def test_claims_cost_no_write_and_are_the_owners_own(claims_path):
    store = SqliteStore(claims_path)
    for n in range(100):
        assert store.claim(str(n))
    file = Path(f"{claims_path}-claims")
    assert (file.stat().st_size, stat.S_IMODE(file.stat().st_mode)) == (0, 0o600)
    store.close()
