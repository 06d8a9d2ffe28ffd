"""Store completions: choose the backend by the scheme of `store.url`, and guard
third-party backends.

A URL without a scheme is the path of an SQLite file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

from evalkit.config import StoreConfig
from evalkit.core.errors import PluginError, StoreError
from evalkit.core.plugins import STORES, Guarded, find, third_party_errors
from evalkit.core.protocols import SharedState, Store, StoreBackend
from evalkit.core.redaction import redact, without_password
from evalkit.store.rescue import Rescue
from evalkit.store.store_registry import BACKENDS

__all__ = [
    "BACKENDS",
    "backend_of",
    "is_local",
    "open_store",
    "open_url",
    "rescue_for",
    "shared_state",
    "store_location",
    "store_url",
]

WHERE = "store.url"
_SCHEME = re.compile(r"([A-Za-z][\w+.-]*)://")


def store_url(url: str | None) -> str:
    """Return the store's URL: `url` if given, else `$EVALKIT_STORE`, else a file in the
    user's cache folder.
    """
    if chosen := url or os.environ.get("EVALKIT_STORE"):
        return chosen
    from platformdirs import user_cache_path

    return str(user_cache_path("evalkit") / "completions.sqlite")


def store_location(url: str) -> str:
    """Return a URL for messages: the path of a file, or any other URL without user and password."""
    path = url.removeprefix("sqlite:///")
    if "://" in path:
        return redact(without_password(url))
    return str(Path(path).expanduser())


def is_local(url: str) -> bool:
    """Return whether the store at a URL is an SQLite file, which processes of one
    machine can share.
    """
    named = _SCHEME.match(url)
    return named is None or named[1] == "sqlite"


def backend_of(url: str) -> StoreBackend:
    """Return the backend for a URL by its scheme.

    Raises:
        PluginError: If there is no such backend, it cannot be imported, or it does not satisfy the
            protocol.
    """
    named = _SCHEME.match(url)
    scheme = named[1] if named else "sqlite"
    registered = find(STORES, scheme, BACKENDS, where=WHERE, methods=("get_many",))
    if scheme in BACKENDS:
        backend: StoreBackend = registered
        return backend
    if not isinstance(registered, StoreBackend):
        remedy = "register a class that implements evalkit.core.protocols.StoreBackend"
        raise PluginError(
            f"'{scheme}' is not a store backend", where=WHERE, remedy=remedy
        )
    return _GuardedBackend(registered, scheme)


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
    if config.mode == "off":
        return None
    return open_url(store_url(config.url), read_only=config.mode == "read_only")


def shared_state(store: Store | None) -> SharedState | None:
    """Return a store as the place of its users' shared state; `None` if it has none."""
    if isinstance(store, SharedState):
        return store
    return None


class _GuardedBackend(Guarded):
    """A third-party backend, whose errors and those of its stores are one line."""

    def __init__(self, backend: StoreBackend, name: str) -> None:
        self._backend = backend
        self._what = f"{WHERE}: the backend '{name}' failed"
        super().__init__(backend, StoreError, self._what)

    exists: Callable[[str], bool]
    check_creatable: Callable[[str], None]

    def __call__(
        self, url: str, *, read_only: bool = False, verify: bool = True
    ) -> Store:
        with third_party_errors(StoreError, self._what):
            store = self._backend(url, read_only=read_only, verify=verify)
        return cast("Store", Guarded(store, StoreError, self._what))


def rescue_for(config: StoreConfig, folder: Path | None = None) -> Rescue:
    """Return what keeps the answers that a store does not take, in a folder or else the
    current one.
    """
    url = config.url
    # A user in a URL is not printed, as in every message.
    shown = url is None or "://" not in url or url == without_password(url)
    return Rescue(folder or Path.cwd(), url, shown=shown)
