"""A store in two tables of a database: the statements that SQLite and PostgreSQL share.

A subclass is a dialect. It connects, locks, claims keys, and looks up and inserts rows in the way
that is fast there. Statements mark values by `?`; texts that are read are bytes in UTF-8, because a
damaged text may not be UTF-8.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, TypeAlias, TypeVar

from evalkit.core.errors import StoreError
from evalkit.core.protocols import Store
from evalkit.core.types import Completion, StoredCompletion
from evalkit.store.codec import (
    Row,
    completions_in,
    is_damaged_state,
    row_of,
    state_in,
    stored_in,
)

CHUNK = 500
"""The number of rows that one statement reads."""
RECENT_ROWS = 5_000
"""The number of last rows to search for a model's recent completions: there is no index by
model."""
COLUMNS = "key, model, created, value, digest"
T = TypeVar("T")
Execute: TypeAlias = Callable[..., Any]
"""Executes a statement with values, and returns a cursor."""


class DatabaseStore(Store):
    """A store in a table of completions and a table of shared texts.

    Attributes:
        name: The store in messages, without user and password.
        read_only: Whether to never write.
    """

    name: str
    read_only: bool
    _completions: ClassVar[str]
    _state: ClassVar[str]
    _position: ClassVar[str]
    """The column of ascending numbers in the order of first storage."""
    _state_id: ClassVar[str]
    """The column that identifies a shared text, even a damaged one."""
    _now: ClassVar[str]
    """The time in seconds since 1970."""
    _columns = COLUMNS

    def _fetch(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        raise NotImplementedError

    def _change(self, work: Callable[[Execute], T], name: str = "") -> T:
        """Do work in one transaction, while nobody else changes the shared text `name`."""
        raise NotImplementedError

    def _look_up(self, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return key, model, value and digest of the rows with these keys, without
        waiting for a write.
        """
        raise NotImplementedError

    def _insert(self, rows: Sequence[Row], *, replace: bool) -> int:
        """Write rows in one commit, replacing stored ones or not, and return their number."""
        raise NotImplementedError

    def _rows(self) -> Iterator[tuple[int, StoredCompletion | None]]:
        """Yield the position of each row and its completion, `None` if it is damaged."""
        raise NotImplementedError

    def _free_space(self) -> None:
        """Make the space of deleted rows available."""
        raise NotImplementedError

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """Return the stored completions among `keys`."""
        return completions_in(self._look_up(keys), self.name)

    def put_many(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        """Store completions, each a tuple (key, model, completion), in one commit; a
        newer one replaces an older one.

        Raises:
            StoreError: If they cannot be written, or the store is read-only; then none is stored.
        """
        # One time for the batch, which is one commit.
        now = time.time()
        self._store(
            [row_of(key, model, now, completion) for key, model, completion in answers],
            replace=True,
        )

    def add_many(self, rows: Sequence[StoredCompletion]) -> int:
        """Store completions with new keys, with their creation times, and return their number.

        Raises:
            StoreError: If they cannot be written, or the store is read-only; then none is stored.
        """
        return self._store(
            [row_of(row.key, row.model, row.created, row.completion) for row in rows],
            replace=False,
        )

    def _store(self, rows: Sequence[Row], *, replace: bool) -> int:
        if self.read_only:
            raise StoreError(
                f"{self.name}: opened read-only (store.mode=read_only), so nothing can be added"
            )
        return self._insert(rows, replace=replace)

    def states(self, prefix: str) -> Mapping[str, str]:
        """Return the texts whose names start with `prefix`.

        Raises:
            StoreError: If the store cannot be read.
        """
        query = (
            f"SELECT name, value FROM {self._state} WHERE substr(name, 1, length(?)) = ? ORDER BY"
            " name"
        )
        return dict(
            state_in(self.name, *row) for row in self._fetch(query, prefix, prefix)
        )

    def change_state(
        self, name: str, change: Callable[[str | None, float], str | None]
    ) -> None:
        """Replace a text by what `change` returns for it and the time of the database's machine.

        `change` gets `None` if there is no text, and the time in seconds since 1970; if it
        returns `None`, the text is removed. It may be called again if the transaction is
        repeated.

        Raises:
            StoreError: If the store cannot be written.
        """
        row = f"FROM {self._state} WHERE name = ?"

        def work(execute: Execute) -> None:
            """Replace the state under a name by what `change` makes of it, or remove it."""
            old, now = execute(
                # The database's clock: those of the workers may differ.
                f"SELECT (SELECT value {row}), {self._now}",
                name,
            ).fetchone()
            text = None
            if old is not None:
                _, text = state_in(self.name, name.encode(), old)
            new = change(text, now)
            execute(f"DELETE {row}", name)
            if new is not None:
                execute(f"INSERT INTO {self._state} VALUES (?, ?)", name, new)

        self._change(work, name)

    def recent(self, model: str, limit: int = 500) -> list[Completion]:
        """Return a model's last completions among the last `RECENT_ROWS` rows, newest first,
        without damaged ones.

        Args:
            model: The model.
            limit: The most completions to return.

        Raises:
            StoreError: If the store cannot be read.
        """
        last = f"SELECT {self._position} AS n FROM {self._completions} ORDER BY n DESC LIMIT ?"
        query = (
            f"SELECT {self._columns} FROM {self._completions} WHERE {self._position} >= (SELECT"
            f" min(n) FROM ({last}) AS last) AND model = ? ORDER BY {self._position} DESC LIMIT ?"
        )
        rows = (
            stored_in(*row) for row in self._fetch(query, RECENT_ROWS, model, limit)
        )
        return [row.completion for row in rows if row is not None]

    def scan(self) -> Iterator[StoredCompletion | None]:
        """Yield every completion in the order of first storage, and `None` for each damaged one.

        Raises:
            StoreError: If the store cannot be read.
        """
        for _, row in self._rows():
            yield row

    def prune_damaged(self) -> int:
        """Delete the rows and shared texts that are damaged, and return their number.

        Raises:
            StoreError: If the store cannot be written; then nothing is deleted.
        """
        positions = [position for position, row in self._rows() if row is None]
        again = f"SELECT {self._columns} FROM {self._completions} WHERE {self._position} = ?"

        def is_damaged(execute: Execute, position: int) -> bool:
            row = execute(again, position).fetchone()
            return row is not None and stored_in(*row) is None

        def work(execute: Execute) -> int:
            """Remove damaged rows and states, and return how many there were."""
            # Another process may have put a good answer in a row's place since the look.
            rows = [
                (self._completions, self._position, position)
                for position in positions
                if is_damaged(execute, position)
            ]
            texts = execute(
                f"SELECT {self._state_id}, name, value FROM {self._state}"
            ).fetchall()
            damaged = [
                (self._state, self._state_id, at)
                for at, *text in texts
                if is_damaged_state(*text)
            ]
            return sum(
                execute(f"DELETE FROM {table} WHERE {column} = ?", at).rowcount
                for table, column, at in (*rows, *damaged)
            )

        return self._change(work)

    def prune(self, before: float) -> int:
        """Delete the rows stored before a time, free their space, and return their number.

        Raises:
            StoreError: If the store cannot be written; then nothing is deleted.
        """
        query = f"DELETE FROM {self._completions} WHERE created < ?"
        deleted: int = self._change(lambda execute: execute(query, before).rowcount)
        if deleted:
            with suppress(
                StoreError
            ):  # if the disk is full or the store is in use, it keeps its size
                # The rows are gone by now, so an error here is no reason to report a failure.
                self._free_space()
        return deleted
