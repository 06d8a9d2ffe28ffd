"""Completions by content key in one SQLite file: paid for once, there for every later run and every process."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from evalkit.errors import StoreError
from evalkit.store.claims import Claims
from evalkit.store.schema import check, connect, explain, pragma, row_digest
from evalkit.types import Completion

CHUNK = 500

_INSERT = (
    "INSERT INTO completions (key, model, created, value, digest) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET model = excluded.model, created = excluded.created, "
    "value = excluded.value, digest = excluded.digest"
)
T = TypeVar("T")


@cache
def _codec() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Completion)


class Row(NamedTuple):
    """One stored completion as the file holds it; `created` in seconds since 1970, `value` JSON."""

    key: str
    model: str
    created: float
    value: str
    digest: int | None

    @property
    def whole(self) -> bool:
        """Whether it still is what was written; rows of older versions cannot say, and count as whole."""
        return self.digest is None or self.digest == row_digest(self.key, self.model, self.value)


def row_of(key: str, model: str, created: float, completion: Completion) -> Row:
    """Return a completion as a row."""
    value = _codec().dump_json(completion, exclude_defaults=True).decode()
    return Row(key, model, created, value, row_digest(key, model, value))


def completion_in(row: Row) -> Completion:
    """Return the completion in a row.

    Raises:
        ValueError: if the row is damaged.
    """
    if not row.whole:
        raise ValueError("not what was written")
    completion: Completion = _codec().validate_json(row.value)
    return completion


@dataclass(slots=True)
class _Pending:
    row: Row
    done: bool = False
    error: Exception | None = None


class SqliteStore:
    """A store in one SQLite file in WAL mode, for any number of threads and processes.

    Args:
        path: the file; it and its folder are made when missing, for the owner's eyes only.
        read_only: never write; a missing file is an error.
        reads: whether `get_many` looks; false to judge anew and keep the new answers.
        whole: whether the file must be undamaged; false to save what can be read of it.

    Raises:
        StoreError: if the file is corrupt, foreign, newer than this version, locked or not writable.
    """

    def __init__(self, path: Path, *, read_only: bool = False, reads: bool = True, whole: bool = True) -> None:
        self.path, self.read_only, self.reads, self._whole = path, read_only, reads, whole
        self._queue: list[_Pending] = []
        self._queue_lock, self._file_lock = threading.Lock(), threading.Lock()
        self._claims: Claims | None = None
        self._db = self.guard(self._open)
        # A file that was only opened to be read may be of the version before rows had a digest.
        self._columns = "key, model, created, value, " + ("digest" if pragma(self._db, "user_version") > 1 else "NULL")

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """Return the stored completions among `keys`; none of them when the store is only written."""
        if not self.reads:
            return {}
        rows = self.locked(lambda db: [row for chunk in _chunks(keys) for row in self._select(db, chunk)])
        return {row.key: self._decode(row) for row in rows}

    def put(self, key: str, model: str, completion: Completion) -> None:
        """Keep a completion; it is on disk when this returns.

        Calls from several threads at once share one commit, so that durability costs one flush for all of them.

        Raises:
            StoreError: if it could not be written, or the store is read only.
        """
        if self.read_only:
            raise StoreError(f"{self.path}: opened read-only (store.mode=read_only), nothing can be added")
        mine = _Pending(row_of(key, model, time.time(), completion))
        with self._queue_lock:
            self._queue.append(mine)
        with self._file_lock:
            if not mine.done:
                self._write_queue()
        if mine.error is not None:
            raise mine.error

    def claim(self, key: str) -> bool:
        """Say whether this run may ask for a key: not while another run, in any process, is asking.

        Raises:
            StoreError: if the file of claims cannot be made.
        """
        if self.read_only or not self.reads:
            return True
        if self._claims is None:
            self._claims = self.guard(lambda: Claims(self.path))
        return self._claims.take(key)

    def release(self, key: str) -> None:
        """Let others ask for a key; what was answered must have been put before."""
        if self._claims is not None:
            self._claims.give_back(key)

    def close(self) -> None:
        """Let go of the file."""
        with self._file_lock:
            self._db.close()
            if self._claims is not None:
                self._claims.close()
                self._claims = None

    def places(self) -> list[tuple[int]]:
        """Return where every row stands, in the order in which they were first put.

        Raises:
            StoreError: if the file is too damaged to tell.
        """
        return self.locked(lambda db: db.execute("SELECT rowid FROM completions ORDER BY rowid").fetchall())

    def at(self, place: int) -> list[Row]:
        """Return the row at a place, or an empty list where it is gone.

        Raises:
            StoreError: if the file is damaged there.
        """
        query = f"SELECT {self._columns} FROM completions WHERE rowid = ?"
        return self.locked(lambda db: [Row(*values) for values in db.execute(query, (place,))])

    def locked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something with the connection while nobody else of this process does.

        Raises:
            StoreError: in place of SQLite's own errors.
        """
        with self._file_lock:
            return self.guard(lambda: work(self._db))

    def commit(self, rows: Sequence[Row], statement: str = _INSERT) -> int:
        """Write rows in one transaction, and return how many were written.

        Raises:
            StoreError: if they could not be; then none was.
        """
        return self.locked(lambda db: _commit(db, rows, statement))

    def guard(self, work: Callable[[], T]) -> T:
        """Do something, with errors of SQLite's and the system's told in one line.

        Raises:
            StoreError: in place of those.
        """
        try:
            return work()
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{self.path}: {explain(error)}") from error
        except OSError as error:
            raise StoreError(
                f"{self.path}: cannot be opened ({error.strerror or error}); name a writable file in store.url "
                "or the environment variable EVALKIT_STORE"
            ) from error

    def _write_queue(self) -> None:
        with self._queue_lock:
            batch, self._queue = self._queue, []
        try:
            self.guard(lambda: _commit(self._db, [p.row for p in batch], _INSERT))
        except StoreError as error:
            for pending in batch:
                pending.error = error
        for pending in batch:
            pending.done = True

    def _select(self, db: sqlite3.Connection, keys: Sequence[str]) -> list[Row]:
        marks = ",".join("?" * len(keys))
        found = db.execute(f"SELECT {self._columns} FROM completions WHERE key IN ({marks})", keys)
        return [Row(*values) for values in found]

    def _decode(self, row: Row) -> Completion:
        try:
            return completion_in(row)
        except ValueError as error:
            raise StoreError(
                f"{self.path}: the completion stored under {row.key[:12]} is damaged; "
                "judge again with store.mode=refresh"
            ) from error

    def _open(self) -> sqlite3.Connection:
        if self.read_only:
            return self._ready(connect(f"{self.path.resolve().as_uri()}?{self._reading()}"))
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Made before SQLite makes it, so that it never is readable by others, not even for a moment.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        return self._ready(connect(self.path.resolve().as_uri()))

    def _reading(self) -> str:
        # Even to read a WAL file SQLite writes beside it; where it cannot, the file cannot change under us either.
        frozen = not os.access(self.path.parent, os.W_OK) and not Path(f"{self.path}-wal").exists()
        return "immutable=1" if frozen else "mode=ro"

    def _ready(self, db: sqlite3.Connection) -> sqlite3.Connection:
        try:
            check(db, self.path, read_only=self.read_only, whole=self._whole)
        except BaseException:
            db.close()
            raise
        return db


def _commit(db: sqlite3.Connection, rows: Sequence[Row], statement: str) -> int:
    db.execute("BEGIN IMMEDIATE")
    try:
        written = db.executemany(statement, rows).rowcount
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return written


def _chunks(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), CHUNK):
        yield keys[start : start + CHUNK]
