"""Stored completions: where they are, and how they are kept, claimed and looked after."""

from __future__ import annotations

import os
from pathlib import Path

from evalkit.config import StoreConfig
from evalkit.errors import StoreError
from evalkit.store.sqlite import SqliteStore

__all__ = ["SqliteStore", "open_store", "store_path"]


def store_path(url: str | None) -> Path:
    """Return the file a store's url names: `sqlite:///path`, a plain path, or none for the user's cache folder.

    Raises:
        StoreError: on a url that is not SQLite's.
    """
    named = url or os.environ.get("EVALKIT_STORE")
    if not named:
        from platformdirs import user_cache_path

        return user_cache_path("evalkit") / "completions.sqlite"
    if named.startswith("sqlite:///"):
        named = named.removeprefix("sqlite:///")
    elif "://" in named:
        raise StoreError(f"store.url: '{named}' is not an SQLite file; write sqlite:///path or a plain path")
    return Path(named).expanduser()


def open_store(config: StoreConfig) -> SqliteStore | None:
    """Open the store that `config` describes, or return none when its mode is `off`.

    Raises:
        StoreError: if the file cannot be used, or is to be read only and is not there.
    """
    if config.mode == "off":
        return None
    return SqliteStore(store_path(config.url), read_only=config.mode == "read_only", reads=config.mode != "refresh")
