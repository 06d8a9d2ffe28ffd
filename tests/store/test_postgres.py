import os
import random
import signal
import subprocess
import sys
import threading

import psycopg
import pytest

from evalkit.config import StoreConfig
from evalkit.core.errors import StoreError
from evalkit.core.redaction import secrets_of
from evalkit.core.types import Completion, StoredCompletion, TokenLogprob, Usage
from evalkit.store import open_store, open_url, store_location
from evalkit.store import postgres as module
from evalkit.store.maintenance import prune_damaged, stats
from evalkit.store.postgres import PostgresStore
from evalkit.store.sqlite import SqliteStore
from evalkit.testing import ODD, check_store
from tests.support.servers import free_port

pytestmark = pytest.mark.postgres
FULL = Completion(
    "x",
    usage=Usage(7, 3),
    cost_usd=0.25,
    logprobs=(TokenLogprob("é", -0.5, (("a", -9999.0),), (195,)),),
)
VERSION = len(module.MIGRATIONS)
NEWER = rf"newer evalkit \(store version {VERSION + 1}, this one reads {VERSION}\); update"
HOLDER = """
import sys
from evalkit.store.postgres import PostgresStore
store = PostgresStore(sys.argv[1])
for line in sys.stdin:
    print([store.claim(key) for key in line.split()], flush=True)
"""


@pytest.fixture
def url(postgres):
    return postgres.new_database()


@pytest.fixture
def store(url):
    opened = PostgresStore(url)
    yield opened
    opened.close()


def execute(url: str, query: str, *values: object) -> list[tuple]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query, values or None)
        return cursor.fetchall() if cursor.description else []


def end_connections(url: str) -> None:
    """End every other connection to the database, and wait until the server has."""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    execute(url, f"SELECT pg_terminate_backend(pid, 60000) {others}")


def one_line(error: Exception) -> str:
    assert isinstance(error, StoreError)
    assert "\n" not in str(error)
    return str(error)


def test_postgresql_keeps_what_a_store_promises(url):
    check_store(PostgresStore, url)


def test_any_text_comes_back_as_it_was_put(store, url):
    draw = random.Random(7)
    texts = [
        "\0",
        "a\0b\\x00'\"{},NULL",
        "\ufffe\u202e\U0010ffff",
        *(o.text for o in ODD.values() if "\ud800" not in o.text),
    ]
    texts += [
        "".join(
            chr(draw.choice([draw.randrange(0xD800), draw.randrange(0xE000, 0x110000)]))
            for _ in range(200)
        )
        for _ in range(20)
    ]
    kept = {
        f"{n:064x}": Completion(text, reasoning=text, usage=Usage(n, None))
        for n, text in enumerate(texts)
    }
    kept["\0 key {'"] = FULL
    store.put_many([(key, "model \0 中'", one) for key, one in kept.items()])
    assert store.get_many(list(kept)) == kept
    assert {row.key: row.completion for row in store.scan()} == kept
    assert store.recent("model \0 中'", 1) == [FULL]
    with pytest.raises(StoreError, match="valid Unicode") as error:
        store.put_many([("a", "m", Completion("x")), ("b", "m", Completion("\ud800"))])
    one_line(error.value)
    assert len(list(store.scan())) == len(kept)


def test_a_batch_with_a_key_twice_is_written_as_if_one_after_the_other(store):
    store.put_many([("a", "m", Completion("1")), ("b", "m", FULL), ("a", "m", Completion("2"))])
    assert store.get_many(["a"])["a"].text == "2"
    rows = [StoredCompletion("c", "m", 1.0, Completion(text)) for text in "12"]
    assert store.add_many(rows) == 1
    assert store.get_many(["c"])["c"].text == "1"
    assert [row.key for row in store.scan()] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "damage",
    [
        """value = replace(encode(value, 'escape'), '"x"', '"y"')::bytea""",
        "value = '\\\\xff'", "value = '{'", "model = '\\\\xff'", "digest = 0",
        "key = '\\\\xff'", "created = 'NaN'", "created = 'Infinity'", "created = 1e18",
    ],
)  # fmt: skip
def test_a_damaged_row_is_named_and_can_be_deleted(store, url, damage):
    keys = [str(number) * 64 for number in range(3)]
    store.put_many([(key, "m", Completion("x")) for key in keys])
    execute(url, f"UPDATE evalkit_completions SET {damage} WHERE key = %b", keys[1].encode())
    if not damage.startswith(("created", "key")):
        with pytest.raises(
            StoreError, match=rf"key {keys[1]} is damaged; .*`evalkit store prune --damaged`"
        ):
            store.get_many(keys)
    assert [row and row.key for row in store.scan()] == [keys[0], None, keys[2]]
    assert stats(store).damaged == 1
    assert prune_damaged(store) == 1
    assert sorted(store.get_many(keys)) == [keys[0], keys[2]]


def test_a_damaged_shared_text_is_named_and_can_be_deleted(store, url):
    for name in ("budget/x", "budget/y"):
        store.change_state(name, lambda *_: "0.5")
    execute(url, "UPDATE evalkit_state SET value = %b WHERE name = %b", b"\xff", b"budget/x")
    for work in (
        lambda: store.states("budget/"),
        lambda: store.change_state("budget/x", lambda *_: "1"),
    ):
        with pytest.raises(
            StoreError,
            match=r"shared text 'budget/x' is damaged; .*`evalkit store prune --damaged`",
        ):
            work()
    assert prune_damaged(store) == 1
    assert dict(store.states("budget/")) == {"budget/y": "0.5"}


def test_many_stores_are_created_at_once(url):
    problems = []

    def create() -> None:
        try:
            PostgresStore(url).close()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert execute(url, "SELECT version FROM evalkit_store") == [(VERSION,)]


def test_an_older_schema_is_brought_up_to_date_and_a_newer_one_refused(url, monkeypatch):
    store = PostgresStore(url)
    store.put_many([("a", "m", FULL)])
    store.close()
    monkeypatch.setattr(
        module, "MIGRATIONS", (*module.MIGRATIONS, "ALTER TABLE evalkit_completions ADD extra text")
    )
    PostgresStore(url, read_only=True).close()
    assert execute(url, "SELECT version FROM evalkit_store") == [(VERSION,)]
    store = PostgresStore(url)
    assert store.get_many(["a"]) == {"a": FULL}
    assert (store.describe().version, execute(url, "SELECT extra FROM evalkit_completions")) == (
        VERSION + 1,
        [(None,)],
    )
    store.close()
    monkeypatch.undo()
    for read_only in (False, True):
        with pytest.raises(StoreError, match=NEWER) as error:
            PostgresStore(url, read_only=read_only)
        one_line(error.value)


def test_a_migration_that_fails_changes_nothing(url, monkeypatch):
    PostgresStore(url).close()
    steps = ("ALTER TABLE evalkit_completions ADD extra text", "ALTER TABLE nowhere ADD extra text")
    monkeypatch.setattr(module, "MIGRATIONS", (*module.MIGRATIONS, *steps))
    with pytest.raises(StoreError) as error:
        PostgresStore(url)
    one_line(error.value)
    monkeypatch.undo()
    store = PostgresStore(url)
    assert store.describe().version == VERSION
    store.close()


def test_two_processes_claim_at_once_and_a_killed_ones_claims_are_free(store, url):
    keys = [f"key{n}" for n in range(50)]
    words = [sys.executable, "-c", HOLDER, url]
    processes = [
        subprocess.Popen(words, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in "12"
    ]
    try:
        for process, key in zip(processes, keys, strict=False):
            print(key, file=process.stdin, flush=True)  # so that each has one
            assert process.stdout.readline() == "[True]\n"
        for process in processes:
            print(*keys[2:], file=process.stdin, flush=True)
        one, two = (eval(process.stdout.readline()) for process in processes)
        one, two = [True, False, *one], [False, True, *two]
        assert all(a != b for a, b in zip(one, two, strict=True))
        assert not any(store.claim(key) for key in keys)
        os.kill(processes[0].pid, signal.SIGKILL)
        processes[0].wait()
        # The server notices the end by itself, a moment later.
        execute(url, "SELECT pg_advisory_lock(%s)", module._place(keys[0]))
        while not all(
            store.claim(key) or store.holds(key)
            for key, mine in zip(keys, one, strict=True)
            if mine
        ):
            pass
        assert not any(store.claim(key) for key, mine in zip(keys, two, strict=True) if mine)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_a_lost_connection_ends_its_claims_and_the_first_of_two_answers_stays(store, url):
    other = PostgresStore(url)
    assert store.claim("a")
    assert store.claim("b")
    assert store.holds("a")
    end_connections(url)
    assert not store.holds("a")
    assert other.claim("a")
    assert not store.claim("a")
    other.put_many([("a", "m", Completion("first"))])
    store.put_many([("a", "m", Completion("second")), ("b", "m", Completion("in flight"))])
    assert {key: one.text for key, one in store.get_many(["a", "b"]).items()} == {
        "a": "first",
        "b": "in flight",
    }
    store.release("a")  # not its own any more
    assert not store.claim("a")
    other.release("a")
    assert store.claim("a")
    store.put_many([("a", "m", Completion("third"))])
    assert store.get_many(["a"])["a"].text == "third"
    other.close()


def test_nothing_is_lost_over_a_restart_of_the_server(postgres):
    url = postgres.new_database()
    store = PostgresStore(url)
    assert store.claim("a")
    store.put_many([("a", "m", FULL)])
    postgres.control(f"{postgres.bin}/pg_ctl", "-D", "data", "-w", "-m", "fast", "stop")
    restart = threading.Timer(0.3, postgres.start)
    restart.start()
    store.put_many([("b", "m", FULL)])
    restart.join()
    assert not store.holds("a")
    assert set(store.get_many(["a", "b"])) == {"a", "b"}
    assert store.claim("a")
    store.close()


def test_a_server_that_stays_down_is_one_line_without_the_password(monkeypatch, url, store):
    monkeypatch.setattr(module, "RECONNECT_SECONDS", 0.2)
    monkeypatch.setenv("PGPASSWORD", "open-sesame-17")
    down = f"postgresql://me:hidden-word@127.0.0.1:{free_port()}/answers?password=other-word"
    with pytest.raises(StoreError) as error:
        open_store(StoreConfig.model_construct(url=down, mode="read_write"))
    said = one_line(error.value)
    assert "Connection refused" in said
    assert said.startswith("postgresql://127.0.0.1:")
    monkeypatch.setattr(
        store._database, "_options", {**store._database._options, "port": free_port()}
    )
    end_connections(url)
    with pytest.raises(StoreError) as again:
        store.put_many([("a", "m", FULL)])
    for text in (said, one_line(again.value), store_location(down)):
        assert not any(secret in text for secret in ("hidden-word", "other-word", "open-sesame"))


@pytest.mark.parametrize(
    "rest",
    ["me:p%zz@h/db", "me:12/hidden@h/db", "me:hid@den@h/db", "h:hidden/db", "me:hid/den@h/db"],
)
def test_a_url_that_cannot_be_read_is_not_shown(rest):
    with pytest.raises(StoreError, match=r"store\.url: not a PostgreSQL URL; write") as error:
        PostgresStore(f"postgresql://{rest}")
    assert not any(part in one_line(error.value) for part in ("hid", "den", "%zz"))


def test_what_the_user_must_do_is_said(url, postgres):
    for wrong, said in (
        (
            postgres.url("nowhere"),
            'database "nowhere" does not exist; create the database with createdb',
        ),
        (f"{url}?options=-csearch_path%3Dnowhere", "let its owner GRANT CREATE"),
    ):
        with pytest.raises(StoreError) as error:
            PostgresStore.check_creatable(wrong)
        assert said in one_line(error.value)
    execute(url, "CREATE TABLE evalkit_completions (mine text)")
    with pytest.raises(StoreError, match="has another table of this name") as error:
        PostgresStore(url)
    one_line(error.value)
    assert execute(url, "SELECT to_regclass('evalkit_store')") == [(None,)]


def test_a_pooler_that_shares_a_connection_is_noticed(store, url):
    assert store.claim("a")
    store._session.run(lambda connection: connection.execute("SELECT pg_advisory_unlock_all()"))
    with pytest.raises(StoreError, match="transaction pooling") as error:
        store.release("a")
    one_line(error.value)


def test_a_config_with_the_password_is_refused():
    for url in ("postgresql://me:hidden@h/db", "postgresql://h/db?user=me&password=hidden"):
        assert dict(secrets_of({"store": {"url": url}}))
    assert not dict(secrets_of({"store": {"url": "postgresql://me@h:5432/db"}}))


def test_answers_are_copied_between_stores_both_ways(call, url, tmp_path):
    source = SqliteStore(tmp_path / "from.sqlite")
    rows = [
        StoredCompletion(f"{n:064x}", "m", 1e9 + n / 3, Completion(f"{n} \0")) for n in range(2500)
    ]
    source.add_many(rows)
    source.locked(lambda db: db.execute("UPDATE completions SET value = 'x' WHERE rowid = 7"))
    source.close()
    with PostgresStoreClosing(url) as target:
        target.put_many([(rows[0].key, "m", Completion("mine"))])
    done = call("store", "copy", "from.sqlite", url)
    where = store_location(url)
    assert (
        done.out == f"2,498 answers added to {where}; already stored: 1; damaged and omitted: 1\n"
    )
    assert call("store", "copy", f"sqlite:///{tmp_path}/from.sqlite", url).out.startswith(
        "0 answers added"
    )
    assert call("store", "copy", url, "back.sqlite").out.startswith(
        "2,499 answers added to back.sqlite; already stored: 0"
    )
    back = SqliteStore(tmp_path / "back.sqlite")
    assert [row.completion.text for row in back.scan()] == [
        "mine",
        *(r.completion.text for n, r in enumerate(rows) if n not in (0, 6)),
    ]
    assert [row.created for row in back.scan()][1:] == [
        row.created for n, row in enumerate(rows) if n not in (0, 6)
    ]
    back.close()
    assert (
        "no store"
        in call(
            "store", "copy", f"{url}?options=-csearch_path%3Dnowhere", "x.sqlite", status=1
        ).line()
    )
    assert not (tmp_path / "x.sqlite").exists()


class PostgresStoreClosing(PostgresStore):
    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def test_psycopg_is_loaded_only_by_a_store_that_needs_it(tmp_path, monkeypatch):
    code = (
        "import sys, evalkit, evalkit.cli; from evalkit.store import open_url; open_url(sys.argv[1]).close()\n"
        "print(sorted(name for name in sys.modules if name.startswith('psycopg')))"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "s.sqlite")]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[]\n"
    monkeypatch.setattr(module, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install 'evalkit-judge\[postgres\]'") as error:
        open_url("postgres://host/db")
    one_line(error.value)
