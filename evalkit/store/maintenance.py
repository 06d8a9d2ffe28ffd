"""Maintain stores: report their contents, delete old answers, and copy answers between stores."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from evalkit.core.atomic_files import write_file
from evalkit.core.display import shorten
from evalkit.core.errors import StoreError
from evalkit.core.protocols import DamagePruner, Store
from evalkit.core.regular_files import open_file
from evalkit.core.types import StoredCompletion
from evalkit.core.values import JsonObject, frozen
from evalkit.store.codec import decode, encode

BATCH = 1000


@dataclass(slots=True)
class ModelStats:
    """The stored answers of one model; tokens and cost in USD as far as the provider
    reported them.
    """

    completions: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0


@frozen
class StoreStats:
    """The contents of a store; times in seconds since 1970, `size` in bytes if known."""

    path: str
    version: int
    size: int | None
    completions: int
    damaged: int
    oldest: float | None
    newest: float | None
    models: dict[str, ModelStats] = field(default_factory=dict)


def stats(store: Store) -> StoreStats:
    """Scan a store and return its contents.

    Raises:
        StoreError: If it cannot be read.
    """
    models: defaultdict[str, ModelStats] = defaultdict(ModelStats)
    completions = damaged = 0
    oldest: float | None = None
    newest: float | None = None
    for row in store.scan():
        if row is None:
            damaged += 1
            continue
        completions += 1
        oldest = row.created if oldest is None else min(oldest, row.created)
        newest = row.created if newest is None else max(newest, row.created)
        _add(models[row.model], row)
    description = store.describe()
    return StoreStats(
        path=description.location,
        version=description.version,
        size=description.size,
        completions=completions,
        damaged=damaged,
        oldest=oldest,
        newest=newest,
        models=dict(sorted(models.items())),
    )


def _add(total: ModelStats, row: StoredCompletion) -> None:
    completion = row.completion
    total.completions += 1
    total.tokens += (completion.usage.prompt_tokens or 0) + (
        completion.usage.completion_tokens or 0
    )
    total.cost_usd += completion.cost_usd or 0.0
    total.unpriced += completion.cost_usd is None


def prune(store: Store, older_than: float, *, now: float | None = None) -> int:
    """Delete the answers stored more than `older_than` seconds ago, and return their number.

    Raises:
        StoreError: If the store cannot be written; then nothing is deleted.
    """
    return store.prune((time.time() if now is None else now) - older_than)


def prune_damaged(store: Store) -> int:
    """Delete what is damaged, and return how much it was.

    Raises:
        StoreError: If the store cannot do that or cannot be written; then nothing is deleted.
    """
    if not isinstance(store, DamagePruner):
        problem = (
            f"{store.describe().location}: this store cannot delete single answers"
        )
        raise StoreError(
            f"{problem}; copy the readable ones with `evalkit store copy FROM TO`"
        )
    return store.prune_damaged()


class Exported(NamedTuple):
    """The numbers of answers that were written, and of damaged ones that were not."""

    written: int
    damaged: int


def export_to(store: Store, path: Path) -> Exported:
    """Write every readable answer as a line of JSON, and return the numbers of readable
    and damaged answers.

    An existing file is replaced. It is readable only by its owner.

    Raises:
        StoreError: If the file cannot be written; then an existing file is unchanged.
    """
    written = damaged = 0

    # The file is written row by row, since a store may be larger than the memory.
    def lines() -> Iterator[bytes]:
        nonlocal written, damaged
        for row in store.scan():
            written += row is not None
            damaged += row is None
            if row is not None:
                yield line_of(row).encode()

    try:
        write_file(path, lines(), private=True)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written ({error.strerror or error}); choose another file"
        ) from error
    return Exported(written, damaged)


def line_of(row: StoredCompletion) -> str:
    """Return an answer as a line of an exported file.

    Raises:
        StoreError: If it has text that JSON cannot hold.
    """
    completion = json.loads(encode(row.completion))
    entry = {
        "key": row.key,
        "model": row.model,
        "created": row.created,
        "completion": completion,
    }
    return json.dumps(entry, ensure_ascii=False) + "\n"


class Added(NamedTuple):
    """The numbers of answers that are new in a store, of those that it had already, and of damaged
    ones that were omitted.
    """

    new: int
    present: int
    damaged: int = 0


def import_from(store: Store, path: Path) -> tuple[int, int]:
    """Add the answers of an exported file, and return the numbers of new and already
    stored answers.

    Every line is checked before the first one is added. Stored answers are not replaced.

    Raises:
        StoreError: If a line cannot be read, which the message names, or the store cannot be
            written; then nothing is added.
    """
    # A first pass only checks: a bad line at the end must not leave half of the file added.
    for _ in _imported(path):
        pass
    return _add_all(store, _imported(path))


def copy_answers(source: Store, target: Store) -> Added:
    """Add the answers of one store to another.

    An answer that is there already stays, so a copy that was interrupted is completed by
    repeating it.

    Raises:
        StoreError: if a store fails; then the answers so far are in `target`.
    """
    damaged = 0

    def rows() -> Iterator[StoredCompletion]:
        nonlocal damaged
        for row in source.scan():
            if row is None:
                damaged += 1
            else:
                yield row

    added, present = _add_all(target, rows())
    return Added(added, present, damaged)


def _add_all(store: Store, rows: Iterator[StoredCompletion]) -> tuple[int, int]:
    """Add rows that the store does not have; return the numbers of new and of already stored
    answers.
    """
    added = read = 0
    # One commit for each batch; a repeated call skips what is there.
    while batch := list(islice(rows, BATCH)):
        added += store.add_many(batch)
        read += len(batch)
    return added, read - added


def _imported(path: Path) -> Iterator[StoredCompletion]:
    try:
        with TextIOWrapper(open_file(path), encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _read_completion(line, f"{path}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        raise StoreError(
            f"{path}: cannot be read ({why}); choose a file from `evalkit store export`"
        ) from error


def _read_completion(line: str, where: str) -> StoredCompletion:
    """Return the stored answer in a line of an exported file.

    Raises:
        StoreError: if it is not one.
    """
    try:
        entry: JsonObject = json.loads(line)
        key = entry["key"]
        model = entry["model"]
        created = float(entry["created"])
        # Raises if the key is not hexadecimal.
        int(key, 16)
        # Raises if a text cannot be stored in UTF-8.
        f"{key}{model}".encode()
        return StoredCompletion(
            key, model, created, decode(json.dumps(entry["completion"]))
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(
            f"{where}: not a stored answer ({_why(error)}); choose a file from `evalkit store"
            " export`"
        ) from error


def _why(error: Exception) -> str:
    text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return shorten(" ".join(text.split()), 120)
