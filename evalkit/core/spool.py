"""Sequences and sets of hashes that exceed memory."""

from __future__ import annotations

import os
import pickle
import sqlite3
import tempfile
import weakref
from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import IO, Any, TypeVar, overload

from evalkit.core.errors import ConfigError

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """A sequence that creates its values one at a time with `_make`.

    It equals every sequence of equal values, and is pickled as a tuple.
    """

    @abstractmethod
    def _make(self, index: int) -> T:
        """Return the value at an index from 0 to below the length."""

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            # `range` handles negative indexes and bounds as a list does.
            return tuple(self._make(at) for at in range(*index.indices(len(self))))
        return self._make(range(len(self))[index])

    def __iter__(self) -> Iterator[T]:
        return map(self._make, range(len(self)))

    def __eq__(self, value: object) -> bool:
        if value is self:
            return True
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            return NotImplemented
        return len(self) == len(value) and all(
            first == second for first, second in zip(self, value, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        first = ", ".join(map(repr, self[:3]))
        return f"{type(self).__name__}([{first}{', …' if len(self) > 3 else ''}])"

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (list(self),)


class ReorderedSequence(LazySequence[T]):
    """The values of another sequence, in the order of a list of its indices."""

    def __init__(self, values: Sequence[T], order: Sequence[int]) -> None:
        self._values, self._order = values, order

    def __len__(self) -> int:
        return len(self._order)

    def _make(self, index: int) -> T:
        return self._values[self._order[index]]


MEMORY_LIMIT = 4 * 2**20
"""Values up to this many bytes stay in memory: most runs need no temporary file."""
SAMPLED_ONE_IN = 8
_GOLDEN = 0.6180339887498949


class Spool(LazySequence[T]):
    """A sequence of values to append and read back, exactly as they were added.

    Up to `MEMORY_LIMIT` bytes, values stay in memory. Beyond it, all of them are in an unnamed
    temporary file, which the operating system removes when the process ends, for whatever reason.
    Values that cannot be pickled stay in memory. The size is estimated from a sample of one in
    `SAMPLED_ONE_IN` values, starting with the first. A spool must not be shared between threads.
    """

    def __init__(self, values: Iterable[T] = (), *, folder: Path | None = None) -> None:
        """Add `values`; a temporary file is created in `folder` or its closest existing parent."""
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._held: list[T] = []
        self._weighed = self._weight = 0
        self._odd: dict[int, T] = {}
        # ends[i] and ends[i + 1] enclose value i in the file, so there is one more end than
        # values.
        self._ends = array("q", [0])
        self.extend(values)

    def append(self, value: T) -> None:
        """Append a value.

        Raises:
            ConfigError: If the temporary file cannot be written.
        """
        if self._file is not None:
            self._write_value(self._file, value)
            return
        self._held.append(value)
        if self._is_sampled(len(self._held)):
            self._weighed += 1
            self._weight += len(_pickled(value) or b"")
        # The mean weight of the sample, times the number of values, against the limit; multiplied
        # out to stay in integers.
        if self._weighed * MEMORY_LIMIT < self._weight * len(self._held):
            self._move_to_file()

    def extend(self, values: Iterable[T]) -> None:
        """Append values one by one."""
        for value in values:
            self.append(value)

    def arrange(self, order: Sequence[int]) -> Sequence[T]:
        """Return the values in another order, given by their indices, without copying them."""
        return ReorderedSequence(self, order)

    def __len__(self) -> int:
        if self._file is None:
            return len(self._held)
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[T]:
        if self._file is None:
            return iter(self._held)
        return super().__iter__()

    def _make(self, index: int) -> T:
        """Return a value, from memory or from the file."""
        if self._file is None:
            return self._held[index]
        # Values that cannot be pickled stay in memory; their span in the file is empty.
        if index in self._odd:
            return self._odd[index]
        try:
            self._file.seek(self._ends[index])
            content = self._file.read(self._ends[index + 1] - self._ends[index])
        except OSError as bad:
            raise self._disk_error(bad) from None
        value: T = pickle.loads(content)
        return value

    @staticmethod
    def _is_sampled(number: int) -> bool:
        # Multiples of the golden ratio are spread evenly over [0, 1), so no periodic order of
        # values evades the sample.
        return number == 1 or number * _GOLDEN % 1 < 1 / SAMPLED_ONE_IN

    def _move_to_file(self) -> None:
        """Move all values to a file, which later values also go to."""
        try:
            # It is closed with the spool.
            file = tempfile.TemporaryFile(dir=self._writable_folder())  # noqa: SIM115
        except OSError as bad:
            raise self._disk_error(bad) from None
        weakref.finalize(self, _close, file)
        try:
            for value in self._held:
                self._write_value(file, value)
        except ConfigError:
            # As before the attempt: the values are all in memory still.
            del self._ends[1:]
            raise
        self._file = file
        self._held = []

    def _write_value(self, file: IO[bytes], value: T) -> None:
        """Append a value to the file; one that cannot be pickled stays in memory."""
        content = _pickled(value)
        if content is None:
            # The index of the value that is being written.
            self._odd[len(self._ends) - 1] = value
            content = b""
        try:
            # Reading moves the position of the same file.
            file.seek(self._ends[-1])
            file.write(content)
        except OSError as bad:
            raise self._disk_error(bad) from None
        self._ends.append(self._ends[-1] + len(content))

    def _writable_folder(self) -> Path | None:
        parents = (
            ()
            if self._folder is None
            else (self._folder.absolute(), *self._folder.absolute().parents)
        )
        return next(
            (path for path in parents if path.is_dir() and os.access(path, os.W_OK)),
            None,
        )

    def _disk_error(self, bad: OSError) -> ConfigError:
        return ConfigError(
            f"a temporary file cannot be written ({bad.strerror or bad})",
            where=str(self._writable_folder() or tempfile.gettempdir()),
            remedy="free disk space there, or set TMPDIR or hydra.run.dir to another disk",
        )


def _pickled(value: object) -> bytes | None:
    """Return a value as bytes for the file; `None` if it cannot be pickled."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError):
        return None


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # data that was not flushed is no longer needed
        file.close()


_HELD = 2**13
_names = (f"hashes_{number}" for number in count())


@cache
def _database() -> sqlite3.Connection:
    """Open a database without a name: SQLite keeps it in a temporary file beyond its
    page cache, and removes it.
    """
    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    # No journal: the data is temporary, and nothing is ever rolled back.
    database.execute("PRAGMA journal_mode = OFF")
    return database


class HashSet:
    """64-bit hashes, each with a weight; equal hashes have equal weights."""

    def __init__(self) -> None:
        self._table = next(_names)
        self._recent = list[tuple[int, int]]()
        self._size = 0
        _database().execute(
            f"CREATE TABLE {self._table} (hash INTEGER NOT NULL, weight INTEGER NOT NULL)"
        )
        weakref.finalize(
            self, _database().execute, f"DROP TABLE {self._table}"
        ).atexit = False

    def __len__(self) -> int:
        return self._size

    def add(self, hash_: int, weight: int = 0) -> None:
        """Add a hash, a signed 64-bit integer."""
        # Collected, because one insert for each hash would be slow.
        self._recent.append((hash_, weight))
        self._size += 1
        if len(self._recent) >= _HELD:
            self.table()

    def extend(self, hashes: Sequence[int]) -> None:
        """Add many hashes without weights."""
        query = (  # one statement, half the time
            f"INSERT INTO {self._table} SELECT value, 0 FROM json_each(?)"
        )
        _database().execute(query, (str([*hashes]),))
        self._size += len(hashes)

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
    """Return how many distinct hashes are not in `before`, and the sum of their weights."""
    new = " AND ".join(
        [
            "true",
            *(
                f"hash NOT IN (SELECT hash FROM {earlier.table()})"
                for earlier in before
            ),
        ]
    )
    distinct = (
        f"SELECT max(weight) AS weight FROM {hashes.table()} WHERE {new} GROUP BY hash"
    )
    number, weight = (
        _database()
        .execute(f"SELECT count(*), ifnull(sum(weight), 0) FROM ({distinct})")
        .fetchone()
    )
    return number, weight
