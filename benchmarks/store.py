"""Looking 10,000 stored judgments up, as a ratio to one plain SQLite scan of the same rows.

uv run python benchmarks/store.py [--rows 10000] [--runs 5] [--postgres
postgresql://…/empty_database]

With --postgres, also reads, writes and claims per second on SQLite and on PostgreSQL, side by side.
"""

from __future__ import annotations

import argparse
import hashlib
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median

from evalkit.core.protocols import BatchClaimer
from evalkit.core.types import Completion, Usage
from evalkit.store import open_url, store_location
from evalkit.store.sqlite import SqliteStore

BATCH = 256
LIMIT = 5.0


def filled(path: Path, rows: int) -> list[str]:
    keys = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(rows)]
    store = SqliteStore(path)
    answer = Completion(
        '{"scores": []}' * 40, "loopback", "stop", Usage(300, 60), latency=0.1
    )
    store.put_many([(key, "openai/x", answer) for key in keys])
    store.close()
    return keys


def looked_up(path: Path, keys: list[str]) -> float:
    began = time.perf_counter()
    store = SqliteStore(path)
    found = sum(
        len(store.get_many(keys[i : i + BATCH])) for i in range(0, len(keys), BATCH)
    )
    taken = time.perf_counter() - began
    store.close()
    assert found == len(keys)
    return taken


def scanned(path: Path) -> float:
    began = time.perf_counter()
    db = sqlite3.connect(path)
    db.execute("SELECT * FROM completions").fetchall()
    taken = time.perf_counter() - began
    db.close()
    return taken


def rates(url: str, rows: int) -> None:
    """Print how many answers a store writes and reads per second, and how many claims
    it gives and takes.
    """
    answer = Completion(
        '{"scores": []}' * 40, "loopback", "stop", Usage(300, 60), latency=0.1
    )
    keys = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(rows)]
    with closing(open_url(url)) as store:
        for size in (1, 16, BATCH):
            some = keys[: min(rows, 500 * size)]
            began = time.perf_counter()
            for i in range(0, len(some), size):
                store.put_many(
                    [(key, "openai/x", answer) for key in some[i : i + size]]
                )
            written = len(some) / (time.perf_counter() - began)
            began = time.perf_counter()
            for i in range(0, len(some), size):
                assert len(store.get_many(some[i : i + size])) == len(
                    some[i : i + size]
                )
            read = len(some) / (time.perf_counter() - began)
            print(
                f"{store_location(url)}: {written:,.0f} writes/s, {read:,.0f} reads/s, {size} at"
                " once"
            )
        began = time.perf_counter()
        for key in keys[:2000]:
            assert store.claim(key)
            store.release(key)
        print(
            f"{store_location(url)}: {2000 / (time.perf_counter() - began):,.0f} claims/s"
        )
        if isinstance(store, BatchClaimer):
            began = time.perf_counter()
            for i in range(0, len(keys), BATCH):
                assert len(store.claim_many(keys[i : i + BATCH])) == len(
                    keys[i : i + BATCH]
                )
                store.release_many(keys[i : i + BATCH])
            rate = len(keys) / (time.perf_counter() - began)
            print(f"{store_location(url)}: {rate:,.0f} claims/s, {BATCH} at once")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--postgres", metavar="URL")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        keys = filled(path, given.rows)
        looked_up(path, keys)
        pairs = [(looked_up(path, keys), scanned(path)) for _ in range(given.runs)]
        if given.postgres:
            for url in (f"{folder}/rates.db", given.postgres):
                rates(url, given.rows)
    mine, plain = (median(times) for times in zip(*pairs, strict=True))
    print(
        f"{given.rows} looked up {mine:.3f} s, plain scan {plain:.3f} s: {mine / plain:.1f} ×"
    )
    return int(mine / plain > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
