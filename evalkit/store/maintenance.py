"""Looking after a store: what is in it, taking old answers out, and carrying answers from one store to another."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalkit.errors import StoreError
from evalkit.store.sqlite import Row, SqliteStore, completion_in, pragma, row_of

BATCH = 1000
_IMPORT = "INSERT OR IGNORE INTO completions (key, model, created, value, digest) VALUES (?, ?, ?, ?, ?)"


@dataclass(slots=True)
class ModelStats:
    """What is stored of one model; tokens and US$ as far as the provider told them."""

    completions: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What a store holds; times in seconds since 1970, `size` in bytes."""

    path: str
    version: int
    size: int
    completions: int
    damaged: int
    oldest: float | None
    newest: float | None
    models: dict[str, ModelStats] = field(default_factory=dict)


def stats(store: SqliteStore) -> StoreStats:
    """Read a store through and return what it holds.

    Raises:
        StoreError: if the file cannot be read.
    """
    models: defaultdict[str, ModelStats] = defaultdict(ModelStats)
    times: list[float] = []
    damaged = 0
    for row in readable(store):
        damaged += row is None or not _add(models, row)
        times += [row.created] if row is not None else []
    version = store.locked(lambda db: pragma(db, "user_version"))
    files = (store.path, Path(f"{store.path}-wal"))
    size = sum(file.stat().st_size for file in files if file.exists())
    oldest, newest = min(times, default=None), max(times, default=None)
    found = dict(sorted(models.items()))
    return StoreStats(str(store.path), version, size, len(times), damaged, oldest, newest, found)


def _add(models: defaultdict[str, ModelStats], row: Row) -> bool:
    try:
        completion = completion_in(row)
    except ValueError:
        return False
    of = models[row.model]
    of.completions += 1
    of.tokens += (completion.usage.prompt_tokens or 0) + (completion.usage.completion_tokens or 0)
    of.cost_usd += completion.cost_usd or 0.0
    of.unpriced += completion.cost_usd is None
    return True


def readable(store: SqliteStore) -> Iterator[Row | None]:
    """Yield every row that can be read, and none for each that cannot.

    Raises:
        StoreError: if not even the list of rows can be read.
    """
    for (place,) in store.places():
        try:
            yield from store.at(place)
        except StoreError:
            yield None


def prune(store: SqliteStore, older_than: float, *, now: float | None = None) -> int:
    """Take out the answers stored more than `older_than` seconds ago, give their room back, and return how many.

    Raises:
        StoreError: if the store cannot be written; then nothing was taken out.
    """
    before = (time.time() if now is None else now) - older_than
    gone = store.locked(lambda db: db.execute("DELETE FROM completions WHERE created < ?", (before,)).rowcount)
    if gone:
        # Only room is at stake: where the disk is full, or others are at work, the file stays as large as it is.
        with suppress(StoreError):
            store.locked(_shrink)
    return gone


def _shrink(db: sqlite3.Connection) -> None:
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def export_to(store: SqliteStore, path: Path) -> tuple[int, int]:
    """Write every readable answer as a line of JSON, and return how many there were and how many were damaged.

    Raises:
        StoreError: if the file cannot be written; a file that was there before is left as it was.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        counts = _export(store, partial)
        partial.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror or error}); name another file") from error
    finally:
        with suppress(OSError):
            partial.unlink()
    return counts


def _export(store: SqliteStore, path: Path) -> tuple[int, int]:
    written = damaged = 0
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
        for row in readable(store):
            line = None if row is None else _line(row)
            damaged += line is None
            written += line is not None
            file.write(line or "")
        file.flush()
        os.fsync(file.fileno())
    return written, damaged


def _line(row: Row) -> str | None:
    try:
        completion_in(row)
    except ValueError:
        return None
    held = {"key": row.key, "model": row.model, "created": row.created, "completion": json.loads(row.value)}
    return json.dumps(held, ensure_ascii=False) + "\n"


def import_from(store: SqliteStore, path: Path) -> tuple[int, int]:
    """Add the answers of an exported file, and return how many were new and how many were there already.

    Every line is read before the first is added, and an answer that is there already stays.

    Raises:
        StoreError: naming the line that cannot be read, or if the store cannot be written; then nothing was added.
    """
    for _ in _imported(path):
        pass
    added = seen = 0
    batch: list[Row] = []
    for row in _imported(path):
        batch.append(row)
        seen += 1
        if len(batch) == BATCH:
            added += store.commit(batch, _IMPORT)
            batch = []
    added += store.commit(batch, _IMPORT) if batch else 0
    return added, seen - added


def _imported(path: Path) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _row(line, f"{path}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        raise StoreError(f"{path}: cannot be read ({why}); name a file that `evalkit store export` wrote") from error


def _row(line: str, where: str) -> Row:
    try:
        held: dict[str, Any] = json.loads(line)
        key, model, created = held["key"], held["model"], float(held["created"])
        int(key, 16)
        completion = completion_in(Row(key, model, created, json.dumps(held["completion"]), None))
        return row_of(key, model, created, completion)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(
            f"{where}: not a stored answer ({_why(error)}); name a file that `evalkit store export` wrote"
        ) from error


def _why(error: Exception) -> str:
    text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return " ".join(text.split())[:120]
