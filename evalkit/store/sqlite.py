"""Completions by content key in one SQLite file: paid for once, there for every later run and every process."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar
from zlib import crc32

from evalkit.errors import StoreError
from evalkit.protocols import Store
from evalkit.store.claims import Claims
from evalkit.store.codec import decode, encode
from evalkit.types import Completion, StoredCompletion, StoreDescription

SCHEMA_VERSION = 2
APPLICATION_ID = 0x65766B74  # "evkt": tells our files from other people's
BUSY_SECONDS = 30.0
LARGEST_CHECKED = 128 * 2**20  # bytes; a whole file is read through at about 1 GB a second

_TABLE = """
CREATE TABLE IF NOT EXISTS completions (
  key TEXT PRIMARY KEY, model TEXT NOT NULL, created REAL NOT NULL, value TEXT NOT NULL, digest INTEGER
)
"""


def row_digest(key: str, model: str, value: str) -> int:
    """Return the CRC-32 of a row: SQLite notices damaged pages, but not other letters in a value."""
    return crc32("\0".join((key, model, value)).encode())


def connect(uri: str) -> sqlite3.Connection:
    """Open a file by URI, waiting where another process holds it."""
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def check(db: sqlite3.Connection, path: Path, *, read_only: bool, verify: bool) -> None:
    """Make sure that a file is evalkit's, whole and of a version that is understood, and bring an older one up to date.

    Raises:
        StoreError: if it is somebody else's, damaged, or newer than this version; it is left as it is.
    """
    application, version, empty = _identity(db)
    if application != APPLICATION_ID and (read_only or not empty):
        raise StoreError(f"{path}: an SQLite file, but not evalkit's; name another file in store.url")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path}: written by a newer evalkit (store version {version}, this one reads "
            f"{SCHEMA_VERSION}); update evalkit, or name another file in store.url"
        )
    if verify and path.stat().st_size <= LARGEST_CHECKED:
        _check_pages(db)
    if not read_only:
        _prepare(db)


def _identity(db: sqlite3.Connection) -> tuple[int, int, bool]:
    """Return application, version and whether nothing is in it, as of one moment: another process may be making it."""
    db.execute("BEGIN")
    try:
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return pragma(db, "application_id"), pragma(db, "user_version"), not tables
    finally:
        db.execute("ROLLBACK")


def pragma(db: sqlite3.Connection, name: str) -> int:
    """Return a whole number that SQLite keeps on the file."""
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def _check_pages(db: sqlite3.Connection) -> None:
    found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError("malformed: " + " ".join(str(found).split()))


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    # FULL: in WAL mode NORMAL does not flush at commit, and a power cut would take acknowledged answers with it.
    db.execute("PRAGMA synchronous = FULL")
    if pragma(db, "user_version") < SCHEMA_VERSION:
        db.execute("BEGIN IMMEDIATE")
        try:
            _migrate(db, pragma(db, "user_version"))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def _migrate(db: sqlite3.Connection, version: int) -> None:
    """Bring a file from `version` to the present one, in one transaction; 0 is a file that was just made."""
    if version < 1:
        db.execute(_TABLE)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    elif version < 2:
        db.create_function("row_digest", 3, row_digest, deterministic=True)
        db.execute("ALTER TABLE completions ADD COLUMN digest INTEGER")
        db.execute("UPDATE completions SET digest = row_digest(key, model, value)")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def explain(error: sqlite3.DatabaseError) -> str:
    """Return what an error of SQLite's means to the user, and what to do about it."""
    text = str(error)
    if "not a database" in text:
        return f"not a store ({text}); name another file in store.url"
    if "malformed" in text:
        return (
            f"damaged ({text}); save what can be read with `evalkit store export FILE.jsonl`, "
            "move it away, or name another file in store.url"
        )
    if "locked" in text or "busy" in text:
        return f"held by another process for more than {BUSY_SECONDS:.0f} s ({text}); try again when it is done"
    if "readonly" in text:
        return "the file or its folder is read-only; name a writable file in store.url, or set store.mode=read_only"
    if "unable to open" in text:
        return "cannot be opened; check that it exists and may be read, or name another file in store.url"
    if "full" in text or "I/O" in text:
        return f"cannot be written to the end ({text}): is the disk full? What was stored before is kept"
    return f"cannot be used ({text}); name another file in store.url"


class Row(NamedTuple):
    """One stored completion as the file holds it; `created` in seconds since 1970, `value` JSON."""

    key: str
    model: str
    created: float
    value: str
    digest: int | None


def row_of(key: str, model: str, created: float, completion: Completion) -> Row:
    """Return a completion as a row.

    Raises:
        StoreError: if its texts are not valid Unicode.
    """
    value = encode(completion)
    try:
        return Row(key, model, created, value, row_digest(key, model, value))
    except UnicodeEncodeError as error:
        raise StoreError(f"the key or the model's name {model!r} is not valid Unicode; name another model") from error


def completion_in(key: bytes, model: bytes, value: bytes, digest: int | None) -> Completion:
    """Return the completion in a row whose texts are in UTF-8; rows of older versions have no digest.

    Raises:
        ValueError: if the row is damaged.
    """
    if digest is not None and digest != crc32(value, crc32(b"%b\0%b\0" % (key, model))):
        raise ValueError("not what was written")
    return decode(value)


CHUNK = 500
_HEADER = b"SQLite format 3\0"
_log = logging.getLogger("evalkit.store")

_INSERT = (
    "INSERT INTO completions (key, model, created, value, digest) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET model = excluded.model, created = excluded.created, "
    "value = excluded.value, digest = excluded.digest"
)
_ADD = "INSERT OR IGNORE INTO completions (key, model, created, value, digest) VALUES (?, ?, ?, ?, ?)"
LOOKED_AT = 5_000
"""Rows, the last ones, among which a model's recent completions are looked for: there is no index by model."""
T = TypeVar("T")


def path_of(url: str) -> Path:
    """Return the file that a URL of SQLite's, or a plain path, names.

    Raises:
        StoreError: if it names a host.
    """
    if url.startswith("sqlite://") and not url.startswith("sqlite:///"):
        raise StoreError("store.url: 'sqlite://' needs a third slash before the file; write sqlite:///path")
    return Path(url.removeprefix("sqlite:///")).expanduser()


class SqliteStore(Store):
    """A store in one SQLite file in WAL mode, for any number of threads and processes.

    Args:
        url: `sqlite:///path`, or the file's path; it and its folder are made when missing, for the owner's eyes only.
        read_only: never write; a missing file is an error.
        verify: whether the file must be undamaged; false to save what can be read of it.

    Raises:
        StoreError: if the file is corrupt, foreign, newer than this version, locked or not writable.
    """

    def __init__(self, url: str | Path, *, read_only: bool = False, verify: bool = True) -> None:
        self.path = url if isinstance(url, Path) else path_of(url)
        self.read_only, self._verify = read_only, verify
        self._file_lock, self._look_lock, self._claims_lock = threading.Lock(), threading.Lock(), threading.Lock()
        self._claims: Claims | None = None
        self._db = self.guard(self._open)
        # To look up must not wait for others' answers to reach the disk: it has a connection of its own.
        self._eyes = self.guard(self._connect_eyes)
        # A file that was only opened to be read may be of the version before rows had a digest.
        self._digest = "digest" if pragma(self._db, "user_version") > 1 else "NULL"

    @staticmethod
    def exists(url: str) -> bool:
        """Say whether there is a file at `url`; an empty one is none yet."""
        path = path_of(url)
        try:
            return path.stat().st_size > 0
        except OSError:
            return path.exists()

    @staticmethod
    def check_creatable(url: str) -> None:
        """Check that the file could be made.

        Raises:
            StoreError: if its folder cannot be written.
        """
        folder = next(folder for folder in path_of(url).absolute().parents if folder.exists())
        if not os.access(folder, os.W_OK):
            raise StoreError(f"{folder} cannot be written; set store.url")

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """Return the stored completions among `keys`."""
        found: dict[str, Completion] = {}
        for key, model, value, digest in self._looked_up(keys):
            try:
                found[key.decode()] = completion_in(key, model, value, digest)
            except ValueError as error:
                raise StoreError(
                    f"{self.path}: the completion stored under {key.decode()[:12]} is damaged; "
                    "judge again with store.mode=refresh"
                ) from error
        return found

    def put(self, key: str, model: str, completion: Completion) -> None:
        """Keep a completion; it is on disk when this returns.

        Raises:
            StoreError: if it could not be written, or the store is read only.
        """
        self.put_many([(key, model, completion)])

    def put_many(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        """Keep completions, each given as (key, model, completion), in one commit: one flush is for all of them.

        Raises:
            StoreError: if they could not be written, or the store is read only; then none of them was.
        """
        now = time.time()
        self.commit([row_of(key, model, now, completion) for key, model, completion in answers])

    def add_many(self, rows: Sequence[StoredCompletion]) -> int:
        """Keep completions that are not there yet, with the times they have, and return how many were new.

        Raises:
            StoreError: if they could not be written, or the store is read only; then none of them was.
        """
        return self.commit([row_of(row.key, row.model, row.created, row.completion) for row in rows], _ADD)

    def claim(self, key: str) -> bool:
        """Say whether this run may ask for a key: not while another run, in any process, is asking.

        Raises:
            StoreError: if the file of claims cannot be made.
        """
        if self.read_only:
            return True
        with self._claims_lock:
            if self._claims is None:
                self._claims = self.guard(lambda: Claims(self.path))
            return self._claims.take(key)

    def release(self, key: str) -> None:
        """Let others ask for a key; what was answered must have been put before."""
        with self._claims_lock:
            if self._claims is not None:
                self._claims.give_back(key)

    def recent(self, model: str, limit: int = 500) -> list[Completion]:
        """Return a model's last completions among the last `LOOKED_AT` rows, at most `limit`, without damaged ones.

        Raises:
            StoreError: if the file cannot be read.
        """
        last = "rowid > (SELECT max(rowid) FROM completions) - ?"
        query = f"SELECT key, model, created, value, NULL FROM completions WHERE {last} AND model = ?"
        values = (LOOKED_AT, model, limit)
        rows = self.locked(lambda db: db.execute(f"{query} ORDER BY rowid DESC LIMIT ?", values).fetchall())
        found = (_stored(Row(*row)) for row in rows)
        return [one.completion for one in found if one is not None]

    def scan(self) -> Iterator[StoredCompletion | None]:
        """Yield every completion in the order in which they were first put, and `None` for each damaged one.

        Raises:
            StoreError: if not even the list of rows can be read.
        """
        for (place,) in self.places():
            try:
                rows = self.at(place)
            except StoreError:
                yield None
                continue
            yield from map(_stored, rows)

    def prune(self, before: float) -> int:
        """Delete the rows stored before a time, give their room back, and return how many.

        Raises:
            StoreError: if the file cannot be written; then nothing was deleted.
        """
        gone = self.locked(lambda db: db.execute("DELETE FROM completions WHERE created < ?", (before,)).rowcount)
        if gone:
            # Only room is at stake: where the disk is full, or others are at work, the file stays as large as it is.
            with suppress(StoreError):
                self.locked(_shrink)
        return gone

    def describe(self) -> StoreDescription:
        """Return the file's path, version and size.

        Raises:
            StoreError: if the file cannot be read.
        """
        version = self.locked(lambda db: pragma(db, "user_version"))
        files = (self.path, Path(f"{self.path}-wal"))
        size = sum(file.stat().st_size for file in files if file.exists())
        return StoreDescription(str(self.path), version, size)

    def close(self) -> None:
        """Let go of the file."""
        with self._file_lock, self._look_lock, self._claims_lock:
            self._db.close()
            self._eyes.close()
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
        query = f"SELECT key, model, created, value, {self._digest} FROM completions WHERE rowid = ?"
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
        if self.read_only:
            raise StoreError(f"{self.path}: opened read-only (store.mode=read_only), nothing can be added")
        with self._file_lock:
            self.guard(self._keep_file)
            return self.guard(lambda: _commit(self._db, rows, statement))

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

    def _looked_up(self, keys: Sequence[str]) -> list[tuple[bytes, bytes, bytes, int | None]]:
        what = f"SELECT key, model, value, {self._digest} FROM completions WHERE key IN"
        with self._look_lock:
            return self.guard(lambda: [row for some in _chunks(keys) for row in _select(self._eyes, what, some)])

    def _keep_file(self) -> None:
        """Write a file that was deleted or replaced meanwhile anew: the connection still has all that was in it."""
        if self.read_only or _is_same(self.path, self._identity):
            return
        lost, self._db = self._db, self._open()
        with self._look_lock:
            self._eyes.close()
            self._eyes = self._connect_eyes()
        rows = lost.execute("SELECT key, model, created, value, digest FROM completions ORDER BY rowid")
        saved = 0
        while some := rows.fetchmany(CHUNK):
            saved += _commit(self._db, [Row(*row) for row in some], _INSERT)
        lost.close()
        _log.warning("the store %s was deleted while it was in use; its %s answers are saved there", self.path, saved)

    def _connect_eyes(self) -> sqlite3.Connection:
        eyes = connect(self._uri())
        eyes.text_factory = bytes  # which both the digest and the parser want
        return eyes

    def _open(self) -> sqlite3.Connection:
        _refuse_foreign(self.path)
        if self.read_only:
            return self._ready(connect(self._uri()))
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Made before SQLite makes it, so that it never is readable by others, not even for a moment.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        return self._ready(connect(self._uri()))

    def _uri(self) -> str:
        uri = self.path.resolve().as_uri()
        return f"{uri}?{self._reading()}" if self.read_only else uri

    def _reading(self) -> str:
        # Even to read a WAL file SQLite writes beside it; where it cannot, the file cannot change under us either.
        frozen = not os.access(self.path.parent, os.W_OK) and not Path(f"{self.path}-wal").exists()
        return "immutable=1" if frozen else "mode=ro"

    def _ready(self, db: sqlite3.Connection) -> sqlite3.Connection:
        try:
            check(db, self.path, read_only=self.read_only, verify=self._verify)
        except BaseException:
            db.close()
            raise
        self._identity = _identity_of(self.path)
        return db


def _stored(row: Row) -> StoredCompletion | None:
    """Return the completion in a row, or `None` if the row is damaged."""
    try:
        key, model, value = (text.encode() for text in (row.key, row.model, row.value))
        return StoredCompletion(row.key, row.model, row.created, completion_in(key, model, value, row.digest))
    except ValueError:
        return None


def _shrink(db: sqlite3.Connection) -> None:
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _identity_of(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _is_same(path: Path, identity: tuple[int, int]) -> bool:
    try:
        return _identity_of(path) == identity
    except FileNotFoundError:
        return False


def _refuse_foreign(path: Path) -> None:
    """Refuse a file that is not SQLite's: a short one it would take for an empty one, and write over.

    Raises:
        StoreError: if the file holds something else.
    """
    if not path.is_file():
        return
    with path.open("rb") as file:
        begun = file.read(len(_HEADER))
    if begun and begun != _HEADER:
        raise StoreError(f"{path}: not a store (file is not a database); name another file in store.url")


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


def _select(db: sqlite3.Connection, what: str, keys: Sequence[str]) -> list[tuple[bytes, bytes, bytes, int | None]]:
    return db.execute(f"{what} ({','.join('?' * len(keys))})", keys).fetchall()


def _chunks(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), CHUNK):
        yield keys[start : start + CHUNK]
