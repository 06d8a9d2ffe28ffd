"""A store backend: completions in this process's memory, by the name in `store.url=memory://NAME`.

A backend that keeps them longer follows the same protocol, `evalkit.core.protocols.Store`;
`evalkit.testing.check_store` checks what it promises.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from evalkit.core.errors import StoreError
from evalkit.core.protocols import Store
from evalkit.core.types import Completion, StoredCompletion, StoreDescription


@dataclass
class _Shared:
    """What all who open one URL share."""

    rows: dict[str, StoredCompletion] = field(default_factory=dict)
    claimed: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


_STORES: dict[str, _Shared] = {}


class MemoryStore(Store):
    """A store as long as the process lives."""

    def __init__(self, url: str, *, read_only: bool = False, verify: bool = True) -> None:
        if read_only and url not in _STORES:
            raise StoreError(f"{url}: is not there")
        self._url, self._read_only, self._mine = url, read_only, set[str]()
        self._shared = _STORES.setdefault(url, _Shared())

    @staticmethod
    def exists(url: str) -> bool:
        """Say whether anybody opened this URL before."""
        return url in _STORES

    @staticmethod
    def check_creatable(url: str) -> None:
        """Do nothing: there is room for another name."""

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """Return the stored completions among `keys`."""
        rows = self._shared.rows
        return {key: rows[key].completion for key in keys if key in rows}

    def put_many(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        """Keep completions."""
        now = time.time()
        self._write(
            {
                key: StoredCompletion(key, model, now, completion)
                for key, model, completion in answers
            }
        )

    def add_many(self, rows: Sequence[StoredCompletion]) -> int:
        """Keep completions that are not there yet, and return how many were new."""
        before = len(self._shared.rows)
        self._write({row.key: row for row in rows if row.key not in self._shared.rows})
        return len(self._shared.rows) - before

    def claim(self, key: str) -> bool:
        """Claim a key, and say whether it is claimed now."""
        if self._read_only:
            return True
        with self._shared.lock:
            if key in self._shared.claimed:
                return False
            self._shared.claimed.add(key)
            self._mine.add(key)
        return True

    def release(self, key: str) -> None:
        """Give up a claim that was made here."""
        with self._shared.lock:
            if key in self._mine:
                self._mine.discard(key)
                self._shared.claimed.discard(key)

    def recent(self, model: str, limit: int = 500) -> list[Completion]:
        """Return a model's last completions."""
        found = [row.completion for row in self._shared.rows.values() if row.model == model]
        return found[::-1][:limit]

    def scan(self) -> Iterator[StoredCompletion | None]:
        """Yield every completion."""
        yield from list(self._shared.rows.values())

    def prune(self, before: float) -> int:
        """Delete what was stored before a time, and return how many."""
        old = [key for key, row in self._shared.rows.items() if row.created < before]
        self._write({}, old)
        return len(old)

    def describe(self) -> StoreDescription:
        """Return where the store is, its version, and no size."""
        return StoreDescription(self._url, 1, None)

    def close(self) -> None:
        """Give up all claims."""
        for key in tuple(self._mine):
            self.release(key)

    def _write(self, new: dict[str, StoredCompletion], old: Sequence[str] = ()) -> None:
        if self._read_only:
            raise StoreError(f"{self._url}: opened read-only, nothing can be changed")
        with self._shared.lock:
            self._shared.rows = {
                key: row for key, row in (self._shared.rows | new).items() if key not in old
            }
