"""Keep completions by content key in one SQLite file: paid for once, available to every
later run and process.

Equal requests of all processes share one call: the process that claims a key makes it. A claim is a
lock on one byte of an empty file next to the store, at an offset from the key's hash. It writes
nothing, and the operating system releases it when its process ends, for whatever reason: no lease,
no clock, no cleanup.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from evalkit.core.errors import StoreError
from evalkit.core.regular_files import NOT_A_FILE, open_file
from evalkit.core.types import StoredCompletion, StoreDescription
from evalkit.store.codec import Row, row_digest, stored_in
from evalkit.store.database import CHUNK, COLUMNS, DatabaseStore, Execute

SCHEMA_VERSION = 2
APPLICATION_ID = (
    0x65766B74  # "evkt": distinguishes evalkit's files from other SQLite files
)
BUSY_SECONDS = 30.0
LARGEST_CHECKED = (
    128 * 2**20
)  # bytes; checking a file reads all of it, at about 1 GB per second

_TABLE = """
CREATE TABLE IF NOT EXISTS completions (
  key TEXT PRIMARY KEY, model TEXT NOT NULL, created REAL NOT NULL,
  value TEXT NOT NULL, digest INTEGER
)
"""


def connect(uri: str) -> sqlite3.Connection:
    """Open a file by URI, waiting while another process holds it; texts are read as bytes."""
    db = sqlite3.connect(
        uri,
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    db.text_factory = bytes  # for both the digest and the parser
    return db


def check(db: sqlite3.Connection, path: Path, *, read_only: bool, verify: bool) -> None:
    """Check that a file is an undamaged store of a supported version, and migrate an older version.

    Args:
        db: A connection to the file.
        path: The file.
        read_only: Whether to never write, so not to migrate either.
        verify: Whether to check for damage.

    Raises:
        StoreError: If the file is not evalkit's, is damaged, or is of a newer version; it is not
            changed.
    """
    application, version, empty = _identity(db)
    # An empty file becomes a store; tables of another program are never touched.
    if application != APPLICATION_ID and (read_only or not empty):
        raise StoreError(
            f"{path}: an SQLite file, but not an evalkit store; set store.url to another file"
        )
    # A newer version may store what this one would misread or overwrite.
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path}: written by a newer evalkit (store version {version}; this version reads "
            f"{SCHEMA_VERSION}); update evalkit, or set store.url to another file"
        )
    if verify and path.stat().st_size <= LARGEST_CHECKED:
        _check_pages(db)
    if not read_only:
        _prepare_file(db)


def _identity(db: sqlite3.Connection) -> tuple[int, int, bool]:
    """Return application id, version and whether the file is empty, at one moment: it
    may be being created.
    """
    # All three reads see the same state of the file.
    db.execute("BEGIN")
    try:
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return pragma(db, "application_id"), pragma(db, "user_version"), not tables
    finally:
        db.execute("ROLLBACK")


def pragma(db: sqlite3.Connection, name: str) -> int:
    """Return an integer that SQLite stores in the file's header."""
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def _check_pages(db: sqlite3.Connection) -> None:
    result = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if result != b"ok":
        raise sqlite3.DatabaseError(
            "malformed: " + " ".join(result.decode(errors="replace").split())
        )


def _prepare_file(db: sqlite3.Connection) -> None:
    """Bring a file to the current schema, and set how it is written."""
    _set_wal(db)
    # FULL: in WAL mode, NORMAL does not flush at commit, and a power failure would lose
    # acknowledged answers.
    db.execute("PRAGMA synchronous = FULL")
    # Read again inside the transaction: another process may have migrated the file meanwhile.
    if pragma(db, "user_version") < SCHEMA_VERSION:
        with _transaction(db):
            _migrate(db, pragma(db, "user_version"))
    db.execute(
        "CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
    )  # older versions ignore it
    db.create_function("now", 0, time.time)


def _set_wal(db: sqlite3.Connection) -> None:
    """Set WAL mode (a write-ahead log); SQLite itself does not wait for a process that creates
    the file at the same moment.

    Raises:
        OperationalError: If it fails, or the file is busy for `BUSY_SECONDS`.
    """
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if (
                # The low byte is the kind; the bytes above are its details.
                error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY
                or time.monotonic() > until
            ):
                raise
            time.sleep(0.01)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    # The write lock at once: one taken after a read fails if another process has written since.
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # Some errors, such as a full disk, end the transaction by themselves.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _migrate(db: sqlite3.Connection, version: int) -> None:
    """Migrate a file from `version` to the current one in one transaction; 0 is a new file."""
    if version < 1:
        db.execute(_TABLE)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    elif version < 2:
        # Old rows get digests now; damage from before is not found by them.
        db.create_function("row_digest", 3, row_digest, deterministic=True)
        db.execute("ALTER TABLE completions ADD COLUMN digest INTEGER")
        db.execute("UPDATE completions SET digest = row_digest(key, model, value)")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def explain(error: sqlite3.DatabaseError) -> str:
    """Return what an SQLite error means, with a remedy, to follow the name of the store."""
    text = str(error)
    if "not a database" in text:
        return f"not a store ({text}); set store.url to another file"
    if "malformed" in text or "decode" in text.lower():
        return (
            f"damaged ({text}); save the readable answers with `evalkit store export FILE.jsonl`, "
            "then move the file away, or set store.url to another file"
        )
    if "locked" in text or "busy" in text:
        return (
            f"locked by another process for more than {BUSY_SECONDS:.0f} s ({text}); retry when"
            " that process is done"
        )
    if "readonly" in text:
        return (
            "the file or its folder is read-only; set store.url to a writable file, or set"
            " store.mode=read_only"
        )
    if "unable to open" in text:
        return (
            "cannot be opened; check that it exists and is readable, or set store.url to another"
            " file"
        )
    if "full" in text or "I/O" in text:
        return f"the write failed ({text}); free disk space and rerun: earlier answers are kept"
    return f"cannot be used ({text}); set store.url to another file"


_HEADER = b"SQLite format 3\0"
_log = logging.getLogger("evalkit.store")

_ADD = f"INSERT OR IGNORE INTO completions ({COLUMNS}) VALUES {{rows}}"
_REPLACE = (
    f"INSERT INTO completions ({COLUMNS}) VALUES {{rows}} ON CONFLICT (key) DO UPDATE SET"
    " model = excluded.model, created = excluded.created, value = excluded.value, digest ="
    " excluded.digest"
)
_ROW = "(?, ?, ?, ?, ?)"
_ROWS_AT_ONCE = 100
"""The most rows of one statement."""
T = TypeVar("T")


def path_of(url: str) -> Path:
    """Return the file of an SQLite URL or a plain path.

    Raises:
        StoreError: If the URL has a host.
    """
    if url.startswith("sqlite://") and not url.startswith("sqlite:///"):
        raise StoreError(
            "store.url: 'sqlite://' needs a third slash before the path; write sqlite:///path"
        )
    return Path(url.removeprefix("sqlite:///")).expanduser()


class SqliteStore(DatabaseStore):
    """A store in one SQLite file in WAL mode, for any number of threads and processes.

    Args:
        url: `sqlite:///path` or the file's path. A missing file and its folder are created,
            readable by the owner only.
        read_only: Whether to never write; then a missing file is an error.
        verify: Whether to refuse a damaged file; `False` to save what is readable.

    Raises:
        StoreError: If the file is corrupt, foreign, newer than this version, locked or not
            writable.
    """

    _completions, _state, _position, _state_id, _now = (
        "completions",
        "state",
        "rowid",
        "rowid",
        "now()",
    )

    def __init__(
        self, url: str | Path, *, read_only: bool = False, verify: bool = True
    ) -> None:
        """Open the file with two connections, for writing and for lookups."""
        self.path = url if isinstance(url, Path) else path_of(url)
        self.name = str(self.path)
        self.read_only = read_only
        self._verify = verify
        self._file_lock = threading.Lock()
        # One lock for each connection, since a connection is for one thread at a time.
        self._read_lock = threading.Lock()
        self._claims_lock = threading.Lock()
        # Opened at the first claim, so that reading alone creates no file.
        self._claims: Claims | None = None
        self._db = self.guard(self._open)
        # Lookups have a separate connection, so that they do not wait for answers to reach the
        # disk.
        self._reader = self.guard(lambda: connect(self._uri()))
        if (
            pragma(self._db, "user_version") < 2
        ):  # a read-only file of the version in which rows had no digest
            self._columns = COLUMNS.replace("digest", "NULL")

    @staticmethod
    def exists(url: str) -> bool:
        """Return whether there is a store at `url`; an empty file is not one yet."""
        path = path_of(url)
        try:
            return path.stat().st_size > 0
        except OSError:
            return path.exists()

    @staticmethod
    def check_creatable(url: str) -> None:
        """Check that the file can be created.

        Raises:
            StoreError: If its folder is not writable.
        """
        folder = next(
            folder for folder in path_of(url).absolute().parents if folder.exists()
        )
        if not os.access(folder, os.W_OK):
            raise StoreError(
                f"{folder} is not writable; set store.url to a file in another folder"
            )

    def claim(self, key: str) -> bool:
        """Claim a key; return `False` if another run, in any process, has claimed it.

        Raises:
            StoreError: If the file of claims cannot be created.
        """
        if self.read_only:
            return True
        with self._claims_lock:
            if self._claims is None:
                self._claims = self.guard(lambda: Claims(self.path))
            return self._claims.take(key)

    def release(self, key: str) -> None:
        """Release the claim on a key; its answer must be stored first."""
        with self._claims_lock:
            if self._claims is not None:
                self._claims.release(key)

    def describe(self) -> StoreDescription:
        """Return the file's path, version and size.

        Raises:
            StoreError: If the file cannot be read.
        """
        version = self.locked(lambda db: pragma(db, "user_version"))
        # The newest answers are in the second file until a checkpoint.
        files = (self.path, Path(f"{self.path}-wal"))
        size = sum(file.stat().st_size for file in files if file.exists())
        return StoreDescription(self.name, version, size)

    def close(self) -> None:
        """Close the file."""
        # Waits for a write and a lookup in progress.
        with self._file_lock, self._read_lock, self._claims_lock:
            self._db.close()
            self._reader.close()
            if self._claims is not None:
                self._claims.close()
                self._claims = None

    def locked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` with the connection, while no other thread uses it.

        Raises:
            StoreError: Instead of SQLite's errors.
        """
        with self._file_lock:
            return self.guard(lambda: work(self._db))

    def guard(self, work: Callable[[], T]) -> T:
        """Call `work`, and turn errors of SQLite and the operating system into one line.

        Raises:
            StoreError: Instead of those errors.
        """
        try:
            return work()
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{self.path}: {explain(error)}") from error
        except UnicodeDecodeError as error:
            # SQLite reports some damage in bytes of the file that are no text.
            damage = sqlite3.DatabaseError(f"malformed: {error.reason}")
            raise StoreError(f"{self.path}: {explain(damage)}") from error
        except OSError as error:
            raise StoreError(
                f"{self.path}: cannot be opened ({error.strerror or error}); set store.url "
                "or the environment variable EVALKIT_STORE to a writable file"
            ) from error

    def _fetch(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._read_lock:
            return self.guard(
                lambda: self._reader.execute(statement, values).fetchall()
            )

    def _look_up(self, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        columns = self._columns.replace("created, ", "")
        # SQLite limits the number of values in one statement.
        chunks = [keys[start : start + CHUNK] for start in range(0, len(keys), CHUNK)]
        query = f"SELECT {columns} FROM completions WHERE key IN"
        return [
            row
            for some in chunks
            for row in self._fetch(f"{query} ({','.join('?' * len(some))})", *some)
        ]

    def _rows(self) -> Iterator[tuple[int, StoredCompletion | None]]:
        """Yield the id and the content of each row; `None` for one that cannot be read."""
        # One by one: on a damaged page, only the rows that are there cannot be read.
        for (row_id,) in self._fetch("SELECT rowid FROM completions ORDER BY rowid"):
            try:
                rows = self._fetch(
                    f"SELECT {self._columns} FROM completions WHERE rowid = ?", row_id
                )
            except StoreError:
                yield row_id, None
                continue
            for row in rows:
                yield row_id, stored_in(*row)

    # The name is unused: there is one transaction at a time.
    def _change(self, work: Callable[[Execute], T], name: str = "") -> T:  # noqa: ARG002
        def transaction(db: sqlite3.Connection) -> T:
            with _transaction(db):
                return work(lambda statement, *values: db.execute(statement, values))

        return self._write(transaction)

    def _insert(self, rows: Sequence[Row], *, replace: bool) -> int:
        return self._write(lambda db: _insert(db, rows, _REPLACE if replace else _ADD))

    def _free_space(self) -> None:
        # Not in a transaction, which SQLite does not allow here. It writes the file anew into the
        # WAL; the checkpoint then makes the file itself smaller.
        self.locked(lambda db: db.execute("VACUUM"))
        self.locked(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)"))

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._file_lock:
            # Before each write: an answer written to a deleted file would be lost.
            self.guard(self._rewrite_lost_file)
            return self.guard(lambda: work(self._db))

    def _rewrite_lost_file(self) -> None:
        """Rewrite a file that was deleted or replaced in the meantime: the connection
        still has its contents.
        """
        if self.read_only or _is_same(self.path, self._identity):
            return
        deleted = self._db
        self._db = self._open()
        with self._read_lock:
            self._reader.close()
            self._reader = connect(self._uri())
        # Rows go back as texts, as they were inserted.
        deleted.text_factory = str
        rows = deleted.execute(f"SELECT {COLUMNS} FROM completions ORDER BY rowid")
        saved = 0
        while some := rows.fetchmany(CHUNK):
            saved += _insert(self._db, some, _REPLACE)
        deleted.close()
        _log.warning(
            "the store %s was deleted while in use; its %s answers were saved there again",
            self.path,
            saved,
        )

    def _open(self) -> sqlite3.Connection:
        _refuse_foreign(self.path)
        if self.read_only:
            return self._ready(connect(self._uri()))
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Created before SQLite would, so that the file is never readable by others, not even for a
        # moment.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        return self._ready(connect(self._uri()))

    def _uri(self) -> str:
        uri = self.path.resolve().as_uri()
        if self.read_only:
            return f"{uri}?{self._read_only_mode()}"
        return uri

    def _read_only_mode(self) -> str:
        # SQLite writes next to a WAL file even to read it. If the folder is read-only, the file
        # cannot change either.
        frozen = (
            not os.access(self.path.parent, os.W_OK)
            and not Path(f"{self.path}-wal").exists()
        )
        if frozen:
            return "immutable=1"
        return "mode=ro"

    def _ready(self, db: sqlite3.Connection) -> sqlite3.Connection:
        try:
            check(db, self.path, read_only=self.read_only, verify=self._verify)
        except BaseException:
            db.close()
            raise
        self._identity = _identity_of(self.path)
        return db


def _identity_of(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _is_same(path: Path, identity: tuple[int, int]) -> bool:
    try:
        return _identity_of(path) == identity
    except FileNotFoundError:
        return False


def _refuse_foreign(path: Path) -> None:
    """Refuse a file that is not an SQLite file: SQLite would take a short one for an
    empty one, and overwrite it.

    Raises:
        StoreError: If the file has other contents.
    """
    if not path.exists():
        return
    # Reading a pipe would wait forever. A folder is left to the open below, which explains it.
    if not (path.is_file() or path.is_dir()):
        raise StoreError(f"{path}: is {NOT_A_FILE}; set store.url to another file")
    with open_file(path) as file:
        header = file.read(len(_HEADER))
    # An empty file is fine: SQLite makes a store of it.
    if header and header != _HEADER:
        raise StoreError(
            f"{path}: not a store (file is not a database); set store.url to another file"
        )


def _insert(
    db: sqlite3.Connection, rows: Sequence[Sequence[Any]], statement: str
) -> int:
    """Write rows in one commit, and return their number."""
    if not rows or len(rows) > _ROWS_AT_ONCE:
        with _transaction(db):
            return db.executemany(statement.format(rows=_ROW), rows).rowcount
    # One statement is a transaction by itself. Each statement, and each row of `executemany`,
    # gives up Python's lock, and waits for it until a busy event loop lets it go.
    marks = ", ".join([_ROW] * len(rows))
    values = [value for row in rows for value in row]
    return db.execute(statement.format(rows=marks), values).rowcount


try:
    import fcntl
except ImportError:  # Windows: claims work only within the process
    fcntl = None  # type: ignore[assignment]

SUFFIX = "-claims"


@dataclass(slots=True)
class _File:
    """An open file of claims.

    Its locks belong to the process, and closing any of its descriptors drops all of them.
    """

    descriptor: int
    held: set[int] = field(default_factory=set)
    users: int = 0


_files: dict[str, _File] = {}
_lock = Lock()


def _forget() -> None:
    """Drop the claims in a forked child process, which does not inherit its parent's locks."""
    global _lock
    _lock = Lock()
    _files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class Claims:
    """The claims on one store, shared within the process.

    Args:
        store: The store's file.

    Raises:
        OSError: If the file of claims cannot be created.
    """

    def __init__(self, store: Path) -> None:
        self._name = f"{store.resolve()}{SUFFIX}"
        self._mine: set[int] = set()
        with _lock:
            # One descriptor per process and file: closing a second one would drop the locks of
            # the first.
            if self._name not in _files:
                _files[self._name] = _File(
                    os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                )
            self._file = _files[self._name]
            self._file.users += 1

    def take(self, key: str) -> bool:
        """Claim a key; return `False` if another process or another user of the store has it."""
        offset = _offset(key)
        with _lock:
            # POSIX locks do not exclude threads of one process, so what is held here is looked up
            # first.
            if offset in self._file.held or not _locked(self._file.descriptor, offset):
                return False
            self._file.held.add(offset)
            self._mine.add(offset)
        return True

    def release(self, key: str) -> None:
        """Release a claim of this object."""
        with _lock:
            self._unlock(_offset(key))

    def close(self) -> None:
        """Release every claim of this object."""
        with _lock:
            for offset in tuple(self._mine):
                self._unlock(offset)
            self._file.users -= 1
            # After a fork, the entry may be another one.
            if not self._file.users and _files.get(self._name) is self._file:
                del _files[self._name]
                os.close(self._file.descriptor)

    def _unlock(self, offset: int) -> None:
        if offset in self._mine:
            self._mine.discard(offset)
            self._file.held.discard(offset)
            if fcntl is not None:
                fcntl.lockf(self._file.descriptor, fcntl.LOCK_UN, 1, offset)


def _offset(key: str) -> int:
    # 7 bytes, because offsets in a file are signed numbers of 8 bytes. Two keys with one offset
    # only wait for each other.
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big")


def _locked(descriptor: int, offset: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
    except (
        BlockingIOError,
        PermissionError,
    ):  # POSIX allows either if another process has the lock
        return False
    return True
