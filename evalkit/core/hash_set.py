"""Count new and repeated hashes among any number of them, in constant memory."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Sequence
from functools import cache
from itertools import count

_HELD = 2**13
_names = (f"hashes_{number}" for number in count())


@cache
def _database() -> sqlite3.Connection:
    """Open a database without a name: SQLite keeps it in a temporary file beyond its page cache, and removes it."""
    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode = OFF")
    return database


class HashSet:
    """64-bit hashes, each with a weight; equal hashes have equal weights."""

    def __init__(self) -> None:
        self._table, self._recent = next(_names), list[tuple[int, int]]()
        self._size = 0
        _database().execute(f"CREATE TABLE {self._table} (hash INTEGER NOT NULL, weight INTEGER NOT NULL)")
        weakref.finalize(self, _database().execute, f"DROP TABLE {self._table}").atexit = False

    def __len__(self) -> int:
        return self._size

    def add(self, hash_: int, weight: int = 0) -> None:
        """Add a hash, a signed 64-bit integer."""
        self._recent.append((hash_, weight))
        self._size += 1
        if len(self._recent) >= _HELD:
            self.table()

    def extend(self, hashes: Sequence[int]) -> None:
        """Add many hashes without weights."""
        for hash_ in hashes:
            self.add(hash_)

    def table(self) -> str:
        """Return the name of the table that holds all hashes."""
        database = _database()
        database.execute("BEGIN")
        database.executemany(f"INSERT INTO {self._table} VALUES (?, ?)", self._recent)
        database.execute("COMMIT")
        self._recent.clear()
        return self._table


def count_repeats(hashes: HashSet) -> set[int]:
    """Return the hashes that occur more than once in `hashes`."""
    query = f"SELECT hash FROM {hashes.table()} GROUP BY hash HAVING count(*) > 1"
    return {hash_ for (hash_,) in _database().execute(query)}


def find_new(hashes: HashSet, before: Sequence[HashSet] = ()) -> tuple[int, int]:
    """Return the number of distinct hashes of `hashes` that are not in `before`, and the sum of their weights."""
    new = " AND ".join(["true", *(f"hash NOT IN (SELECT hash FROM {other.table()})" for other in before)])
    distinct = f"SELECT max(weight) AS weight FROM {hashes.table()} WHERE {new} GROUP BY hash"
    number, weight = _database().execute(f"SELECT count(*), ifnull(sum(weight), 0) FROM ({distinct})").fetchone()
    return number, weight
