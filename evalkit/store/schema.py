"""The store's file format: its table, its versions and the way from one to the next, and what SQLite's errors mean."""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path

from evalkit.errors import StoreError

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
    return zlib.crc32("\0".join((key, model, value)).encode("utf-8", "surrogatepass"))


def connect(uri: str) -> sqlite3.Connection:
    """Open a file by URI, waiting where another process holds it."""
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def check(db: sqlite3.Connection, path: Path, *, read_only: bool, whole: bool) -> None:
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
    if whole and path.stat().st_size <= LARGEST_CHECKED:
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
