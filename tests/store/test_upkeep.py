import json
import random
import sqlite3
import stat
from pathlib import Path

import pytest

from evalkit.cli import main
from evalkit.core.errors import StoreError
from evalkit.core.types import Completion, StoreDescription, TokenLogprob, Usage
from evalkit.engine.rate_limits import SharedBudget
from evalkit.store.codec import completions_in
from evalkit.store.maintenance import export_to, import_from, prune, prune_damaged, stats
from evalkit.store.sqlite import SCHEMA_VERSION, SqliteStore, pragma

FULL = Completion(
    'a "text"\u2028中文',
    usage=Usage(7, 3),
    cost_usd=0.25,
    reasoning="so",
    logprobs=(TokenLogprob("é", -0.5, (("a", -9999.0),), (195,)),),
)
DAY = 86400.0


def key(n: int) -> str:
    return f"{n:064x}"


@pytest.fixture
def store(tmp_path):
    opened = SqliteStore(tmp_path / "s.sqlite")
    yield opened
    opened.close()


def old_store(path: Path, rows: int) -> None:
    """A file as the first version wrote it."""
    db = sqlite3.connect(path)
    db.execute(
        "CREATE TABLE completions "
        "(key TEXT PRIMARY KEY, model TEXT NOT NULL, created REAL NOT NULL, value TEXT NOT NULL)"
    )
    db.executemany(
        "INSERT INTO completions VALUES (?, 'm', 1.0, ?)",
        ((key(n), json.dumps({"text": f"é{n}"})) for n in range(rows)),
    )
    db.execute(f"PRAGMA application_id = {0x65766B74}")
    db.execute("PRAGMA user_version = 1")
    db.commit()
    db.close()


def test_what_is_stored_is_counted_by_model(store):
    store.put_many([(key(1), "m", FULL)])
    store.put_many([(key(2), "m", Completion("x", cost_usd=None))])
    store.put_many([(key(3), "n", Completion("x", cost_usd=1.0))])
    found = stats(store)
    assert (found.completions, found.damaged, found.version) == (3, 0, SCHEMA_VERSION)
    assert (
        *(found.models["m"].completions, found.models["m"].tokens, found.models["m"].unpriced),
    ) == (2, 10, 1)
    assert (found.models["m"].cost_usd, found.models["n"].cost_usd) == (0.25, 1.0)
    assert 0 < found.oldest <= found.newest
    assert found.size > 0


def test_old_answers_are_taken_out_and_their_room_given_back(store):
    store.put_many([(key(n), "m", Completion("x" * 2000)) for n in range(200)])
    store.locked(
        lambda db: db.execute(
            "UPDATE completions SET created = created - ? WHERE rowid > 20", (40 * DAY,)
        )
    )
    before = stats(store).size
    assert prune(store, 30 * DAY) == 180
    assert stats(store).completions == 20
    assert stats(store).size < before / 2
    assert prune(store, 30 * DAY) == 0
    assert len(store.get_many([key(n) for n in range(200)])) == 20


def test_an_exported_store_comes_back_whole(store, tmp_path):
    kept = {key(1): FULL, key(2): Completion("")}
    for name, completion in kept.items():
        store.put_many([(name, "m", completion)])
    file = tmp_path / "out.jsonl"
    assert export_to(store, file) == (2, 0)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    other = SqliteStore(tmp_path / "other.sqlite")
    other.put_many([(key(2), "m", Completion("mine"))])
    assert import_from(other, file) == (1, 1)
    assert other.get_many([*kept]) == {key(1): FULL, key(2): Completion("mine")}
    assert import_from(other, file) == (0, 2)
    times = [
        s.locked(
            lambda db: db.execute(
                "SELECT created FROM completions WHERE key = ?", (key(1),)
            ).fetchone()
        )
        for s in (store, other)
    ]
    assert times[0] == times[1]
    other.close()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "Expecting"),
        ("[]", "list"),
        ('{"key": "ff", "created": 1, "completion": {"text": ""}}', "'model' is missing"),
        ('{"key": "not hex", "model": "m", "created": 1, "completion": {"text": ""}}', "hex"),
        ('{"key": "ff", "model": "m", "created": 1, "completion": {"text": 5}}', "text"),
        ('{"key": "ff", "model": "m", "created": 1, "completion": null}', "Completion"),
    ],
)
def test_a_line_that_is_no_answer_is_named_and_nothing_is_added(store, tmp_path, line, said):
    file = tmp_path / "in.jsonl"
    good = json.dumps({"key": key(1), "model": "m", "created": 1.0, "completion": {"text": "x"}})
    file.write_text(f"{good}\n\n{line}\n")
    with pytest.raises(StoreError) as error:
        import_from(store, file)
    assert str(error.value).startswith(f"{file}:3: ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(store.scan())


def test_an_export_that_cannot_be_written_leaves_what_was_there(store, tmp_path, monkeypatch):
    store.put_many([(key(1), "m", FULL)])
    file = tmp_path / "out.jsonl"
    file.write_text("before")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        export_to(store, file)
    assert [p.name for p in tmp_path.iterdir() if "out" in p.name] == ["out.jsonl"]
    assert file.read_text() == "before"
    with pytest.raises(StoreError, match="cannot be written"):
        export_to(store, tmp_path / "s.sqlite" / "below a file.jsonl")


def test_a_store_of_the_first_version_is_brought_up_to_date(tmp_path):
    path = tmp_path / "old.sqlite"
    old_store(path, 3)
    looking = SqliteStore(path, read_only=True)
    assert looking.get_many([key(0)])[key(0)].text == "é0"
    assert pragma(looking._db, "user_version") == 1
    looking.close()
    store = SqliteStore(path)
    assert pragma(store._db, "user_version") == SCHEMA_VERSION
    assert [row.completion.text for row in store.scan()] == ["é0", "é1", "é2"]
    undigested = "SELECT count(*) FROM completions WHERE digest IS NULL"
    assert store.locked(lambda db: db.execute(undigested).fetchone()) == (0,)
    assert store.get_many([key(2)])[key(2)].text == "é2"
    store.close()


def flipped(path: Path, draw: random.Random, times: int) -> bytes:
    data = bytearray(path.read_bytes())
    for _ in range(times):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    return bytes(data)


def unless_refused(work):
    """Return what it gives, or none if it is refused, in one line."""
    try:
        return work()
    except StoreError as error:
        if "\n" in str(error):
            raise
        return None


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bits_never_give_another_answer_and_what_can_be_read_is_saved(tmp_path, seed):
    path, draw = tmp_path / "s.sqlite", random.Random(seed)
    store = SqliteStore(path)
    kept = {key(n): Completion(f"answer {n} " * 20) for n in range(60)}
    store.put_many([(name, "m", completion) for name, completion in kept.items()])
    store.close()
    data = flipped(path, draw, times=1 + seed % 4)
    file = tmp_path / "saved.jsonl"
    if (opened := unless_refused(lambda: SqliteStore(path, read_only=True))) is not None:
        found = [unless_refused(lambda name=name: opened.get_many([name])) for name in kept]
        assert all(
            one in (None, {}, {name: kept[name]}) for name, one in zip(kept, found, strict=True)
        )
        assert sum(bool(one) for one in found) >= 30
        opened.close()
    assert path.read_bytes() == data
    if (
        saving := unless_refused(lambda: SqliteStore(path, read_only=True, verify=False))
    ) is not None:
        saved = unless_refused(lambda: export_to(saving, file))
        lines = [json.loads(line) for line in file.read_text().splitlines()] if saved else []
        assert all(line["completion"]["text"] == kept[line["key"]].text for line in lines)
        saving.close()


UNREADABLE = {
    "a changed letter": "value = replace(value, 'é', 'e')",
    "a value that is not UTF-8": "value = CAST(x'ff' AS TEXT), digest = NULL",
    "a value that is not JSON": "value = '{', digest = NULL",
    "a value of bytes": "value = x'80'",
    "no value": "value = NULL, digest = NULL",
    "a number for a value": "value = 7, digest = NULL",
    "a value nested too deeply": f"value = '{'[' * 5000}', digest = NULL",
    "a model that is not UTF-8": "model = CAST(x'ff' AS TEXT)",
    "no model": "model = NULL",
    "a text for a digest": "digest = 'x'",
    "bytes for a digest": "digest = x'00ff'",
}
UNDATED = {
    "a text for a time": "created = 'yesterday'",
    "bytes for a time": "created = x'ff'",
    "no time": "created = NULL",
    "an endless time": "created = 9e999",
    "a time beyond all dates": "created = 1e18",
}


@pytest.mark.parametrize("damage", UNREADABLE | UNDATED)
def test_a_damaged_row_is_named_and_can_be_deleted(tmp_path, damage, capsys):
    """The file may be damaged so that SQLite no longer knows what its columns must hold."""
    path = tmp_path / "answers.sqlite"
    store = SqliteStore(path)
    store.put_many([(key(n), "m", Completion(f"é{n}")) for n in range(3)])
    store.locked(lambda db: db.executescript(
        "ALTER TABLE completions RENAME TO old; CREATE TABLE completions (key TEXT PRIMARY KEY, model, created, value, "
        "digest); INSERT INTO completions SELECT * FROM old; DROP TABLE old"
    ))  # fmt: skip
    change = (UNREADABLE | UNDATED)[damage]
    store.locked(lambda db: db.execute(f"UPDATE completions SET {change} WHERE key = ?", (key(1),)))
    if damage in UNREADABLE:
        with pytest.raises(StoreError) as error:
            store.get_many([key(n) for n in range(3)])
        assert str(error.value).startswith(f"{path}: the completion with key {key(1)} is damaged; ")
        assert "`evalkit store prune --damaged`" in str(error.value)
        assert "\n" not in str(error.value)
    assert [row and row.key for row in store.scan()] == [key(0), None, key(2)]
    assert len(store.recent("m")) in (2, 3)
    assert stats(store).damaged == 1
    store.close()
    url = f"store.url={path}"
    commands = (
        (["stats", url], "1 damaged answer: `evalkit store prune --damaged` deletes damaged"),
        (["export", str(tmp_path / "out.jsonl"), url], "; damaged and omitted: 1\n"),
        (["copy", str(path), str(tmp_path / "copy")], "; damaged and omitted: 1\n"),
    )
    # They read with `scan`, so one of each kind shows what they say.
    for command, said in commands if damage in (*[*UNREADABLE][:1], *[*UNDATED][:1]) else ():
        assert main(["store", *command]) == 0
        assert said in capsys.readouterr().out
    assert main(["store", "prune", "--damaged", f"store.url={path}"]) == 0
    assert capsys.readouterr().out == f"1 damaged answer deleted from {path}\n"
    store = SqliteStore(path)
    assert sorted(store.get_many([key(n) for n in range(3)])) == [key(0), key(2)]
    store.close()


@pytest.mark.parametrize("value", ["CAST(x'ff' AS TEXT)", "x'80ff'", "'{'"])
def test_a_damaged_shared_text_is_named_and_can_be_deleted(store, value):
    store.change_state("budget/x", lambda *_: "0.5")
    store.change_state("budget/y", lambda *_: "0.5")
    store.locked(lambda db: db.execute(f"UPDATE state SET value = {value} WHERE name = 'budget/x'"))
    with pytest.raises(
        StoreError, match=r"the (store's )?shared text 'budget/x' is damaged; .*prune --damaged"
    ):
        SharedBudget(store, "budget/x", 1.0).take(0.1)
    assert prune_damaged(store) == 1
    assert dict(store.states("budget/")) == {"budget/y": "0.5"}
    assert SharedBudget(store, "budget/x", 1.0).take(0.1) == 0.1


def test_a_third_party_store_says_how_to_save_what_is_readable():
    class Memory:
        def describe(self):
            return StoreDescription("memory://x", 1, None)

    with pytest.raises(
        StoreError,
        match="memory://x: this store cannot delete single answers; copy the readable ones",
    ):
        prune_damaged(Memory())


def test_a_run_on_a_damaged_store_names_the_row_and_the_command(here, capsys):
    words = [
        *("run", "judge=simulated/good", "dataset.limit=2", "tracking=none"),
        f"store.url={here}/a.sqlite",
    ]
    path = here / "a.sqlite"
    assert main([*words, "hydra.run.dir=one"]) == 0
    store = SqliteStore(path)
    [(name,), *_] = store.locked(lambda db: db.execute("SELECT key FROM completions").fetchall())
    name = name.decode()
    store.locked(
        lambda db: db.execute(
            "UPDATE completions SET value = CAST(x'ff' AS TEXT) WHERE key = ?", (name,)
        )
    )
    store.close()
    capsys.readouterr()
    for command in ([*words, "hydra.run.dir=two"], ["plan", *words[1:]]):
        assert main(command) == 1
        [line] = [
            one for one in capsys.readouterr().err.splitlines() if one.startswith("evalkit: ")
        ]
        assert line.startswith(
            f"evalkit: {path}: the completion with key {name} is damaged; rerun with store.mode="
        )
    assert main(["store", "prune", "--damaged", words[-1]]) == 0
    assert main([*words, "hydra.run.dir=two"]) == 0


@pytest.mark.parametrize("key", [b"ab\ncd\x1b[31m\xff", "no bytes\n"])
def test_a_damaged_row_is_named_on_one_line(key):
    with pytest.raises(StoreError) as damaged:
        completions_in([(key, b"m", b"{", None)], "s.sqlite")
    assert str(damaged.value).isprintable()


def test_a_row_that_was_replaced_since_the_look_is_not_deleted(store, monkeypatch):
    store.put_many([(key(1), "m", Completion("x"))])
    store.locked(lambda db: db.execute("UPDATE completions SET value = '{'"))
    look = store._rows

    def rows_then_replaced():
        looked = [*look()]
        store.put_many([(key(1), "m", FULL)])
        return iter(looked)

    monkeypatch.setattr(store, "_rows", rows_then_replaced)
    assert prune_damaged(store) == 0
    assert store.get_many([key(1)]) == {key(1): FULL}
