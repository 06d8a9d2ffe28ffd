"""Store completions: choose the backend by the scheme of `store.url`, and guard third-party backends.

A URL without a scheme is the path of an SQLite file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar, cast

from evalkit.config import StoreConfig
from evalkit.core.redaction import redact, without_password
from evalkit.errors import EvalkitError, PluginError, StoreError
from evalkit.plugins import STORES, find
from evalkit.protocols import ClaimChecker, SharedState, Store, StoreBackend
from evalkit.types import Completion, StoredCompletion, StoreDescription

__all__ = [
    "BACKENDS",
    "backend_of",
    "is_local",
    "open_store",
    "open_url",
    "shared_state",
    "store_location",
    "store_url",
]

BACKENDS: Mapping[str, str] = MappingProxyType(
    {
        "sqlite": "evalkit.store.sqlite:SqliteStore",
        "postgresql": "evalkit.store.postgres:PostgresStore",
        "postgres": "evalkit.store.postgres:PostgresStore",
    }
)
"""URL scheme → `module:class`; other packages register theirs as entry points of the group `evalkit.stores`."""
WHERE = "store.url"
_SCHEME = re.compile(r"([A-Za-z][\w+.-]*)://")
T = TypeVar("T")


def store_url(url: str | None) -> str:
    """Return the store's URL: `url` if given, else `$EVALKIT_STORE`, else a file in the user's cache folder."""
    if chosen := url or os.environ.get("EVALKIT_STORE"):
        return chosen
    from platformdirs import user_cache_path

    return str(user_cache_path("evalkit") / "completions.sqlite")


def store_location(url: str) -> str:
    """Return a URL for messages: the path of a file, or any other URL without user and password."""
    path = url.removeprefix("sqlite:///")
    return redact(without_password(url)) if "://" in path else str(Path(path).expanduser())


def is_local(url: str) -> bool:
    """Return whether the store at a URL is an SQLite file, which processes of one machine can share."""
    named = _SCHEME.match(url)
    return named is None or named[1] == "sqlite"


def backend_of(url: str) -> StoreBackend:
    """Return the backend for a URL by its scheme.

    Raises:
        PluginError: If there is no such backend, it cannot be imported, or it does not satisfy the protocol.
    """
    named = _SCHEME.match(url)
    scheme = named[1] if named else "sqlite"
    found = find(STORES, scheme, BACKENDS, where=WHERE, methods=("get_many",))
    if scheme in BACKENDS:
        backend: StoreBackend = found
        return backend
    if not isinstance(found, StoreBackend):
        remedy = "register a class that implements evalkit.protocols.StoreBackend"
        raise PluginError(f"'{scheme}' is not a store backend", where=WHERE, remedy=remedy)
    return _GuardedBackend(found, scheme)


def open_url(url: str, *, read_only: bool = False, verify: bool = True) -> Store:
    """Open the store at a URL, or create it.

    Args:
        url: A URL from `store_url`.
        read_only: Whether to never write; then a missing store is an error.
        verify: Whether to refuse a damaged store; `False` to save what is readable.

    Raises:
        PluginError: If there is no backend for the URL.
        StoreError: If the store cannot be opened.
    """
    return backend_of(url)(url, read_only=read_only, verify=verify)


def open_store(config: StoreConfig) -> Store | None:
    """Open the store that `config` describes, or return `None` if its mode is `off`.

    In mode `refresh`, the engine does not read the store, but the store itself is readable.

    Raises:
        PluginError: If there is no backend for the URL.
        StoreError: If the store cannot be opened, or is missing in mode `read_only`.
    """
    return None if config.mode == "off" else open_url(store_url(config.url), read_only=config.mode == "read_only")


def shared_state(store: Store | None) -> SharedState | None:
    """Return a store as the place of its users' shared state; `None` if it has none."""
    inner = store._store if isinstance(store, _GuardedStore) else store
    return store if isinstance(store, SharedState) and isinstance(inner, SharedState) else None


class _Guard:
    """Turns any error of a third-party backend into a StoreError on one line, without secrets."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except EvalkitError:
            raise
        except Exception as error:  # a plug-in's own code may fail in any way
            text = redact(" ".join(f"{type(error).__name__}: {error}".split()))
            raise StoreError(f"{WHERE}: the backend '{self._name}' failed: {text}") from error


class _GuardedBackend:
    def __init__(self, backend: StoreBackend, name: str) -> None:
        self._backend, self._guard = backend, _Guard(name)

    def __call__(self, url: str, *, read_only: bool = False, verify: bool = True) -> Store:
        return _GuardedStore(self._guard(lambda: self._backend(url, read_only=read_only, verify=verify)), self._guard)

    def exists(self, url: str) -> bool:
        return self._guard(lambda: self._backend.exists(url))

    def check_creatable(self, url: str) -> None:
        self._guard(lambda: self._backend.check_creatable(url))


class _GuardedStore(Store):
    def __init__(self, store: Store, guard: _Guard) -> None:
        self._store, self._guard = store, guard

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        return self._guard(lambda: self._store.get_many(keys))

    def put_many(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        self._guard(lambda: self._store.put_many(answers))

    def claim(self, key: str) -> bool:
        return self._guard(lambda: self._store.claim(key))

    def release(self, key: str) -> None:
        self._guard(lambda: self._store.release(key))

    def holds(self, key: str) -> bool:
        store = self._store
        return not isinstance(store, ClaimChecker) or self._guard(lambda: store.holds(key))

    def states(self, prefix: str) -> Mapping[str, str]:
        store = cast("SharedState", self._store)
        return self._guard(lambda: store.states(prefix))

    def change_state(self, name: str, change: Callable[[str | None, float], str | None]) -> None:
        store = cast("SharedState", self._store)
        self._guard(lambda: store.change_state(name, change))

    def recent(self, model: str, limit: int = 500) -> Sequence[Completion]:
        return self._guard(lambda: self._store.recent(model, limit))

    def add_many(self, rows: Sequence[StoredCompletion]) -> int:
        return self._guard(lambda: self._store.add_many(rows))

    def scan(self) -> Iterator[StoredCompletion | None]:
        rows = self._guard(lambda: iter(self._store.scan()))
        end = object()
        while (row := self._guard(lambda: next(rows, end))) is not end:
            yield cast("StoredCompletion | None", row)

    def prune(self, before: float) -> int:
        return self._guard(lambda: self._store.prune(before))

    def describe(self) -> StoreDescription:
        return self._guard(lambda: self._store.describe())

    def close(self) -> None:
        self._guard(lambda: self._store.close())
