"""Judgments a second by 1, 2 and 4 workers on one store, and what limits them; store
reads and writes a second.

uv run python benchmarks/scale.py [--latency 1] [--in-flight 256] [--rounds 4] [--workers 1 2 4]
[--postgres URL] uv run python benchmarks/scale.py --rpm 6000 --workers 8    how well a shared limit
is used, over three minutes

Each worker is `evalkit work` on a shard, against a loopback server of fixed latency; its limit is
in flight ÷ latency. Without --postgres, Debian's PostgreSQL is started on loopback, durable as it
is shipped. The seconds are the server's, from the first request to the last answer, so that imports
do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store import rates  # the scripts beside this one
from throughput import ENVIRONMENT, HERE, MODEL, dataset, server

sys.path.insert(0, str(HERE.parent))


@contextmanager
def databases(given: str | None) -> Iterator[Iterator[str]]:
    """Yield the URLs of empty databases, or the one that is given again and again."""
    if given:
        yield iter(lambda: given, None)
        return
    from tests.support import postgres

    postgres.SETTINGS = ("max_connections=60",)  # the tests' own give up durability
    with postgres.postgres_server(postgres.binaries()) as started:
        yield iter(started.new_database, None)


def stats(base: str) -> dict[str, float]:
    with urllib.request.urlopen(base.removesuffix("/v1") + "/stats") as response:
        return json.load(response)


def machine() -> tuple[float, float]:
    """Return the seconds that all processors were busy, with other work too, and those
    that they were there.
    """
    user, nice, system, idle, wait, *rest = map(
        float, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    busy = user + nice + system + sum(rest)
    return busy, busy + idle + wait


def processor_seconds(processes: list[subprocess.Popen]) -> float:
    """Wait for processes and return the processor time that they took."""
    taken = 0.0
    for process in processes:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        taken += usage.ru_utime + usage.ru_stime
    return taken


def work(
    base: str,
    folder: Path,
    store: str,
    workers: int,
    given: argparse.Namespace,
    requests: int,
    *more: str,
):
    """Start the workers on so many requests."""
    words = [
        *(
            "judge=openai_compatible",
            f"judge.model={MODEL}",
            f"judge.api_base={base}",
            "judge.transport=direct",
        ),
        *(
            "mode=pointwise",
            "dataset=jsonl",
            f"dataset.path={folder / 'cases.jsonl'}",
            f"store.url={store}",
        ),
        *(f"runner.concurrency={given.in_flight}", *more),
    ]
    dataset(folder, requests)
    stats(base)
    return [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "evalkit",
                "work",
                *words,
                "--shard",
                f"{n}/{workers}",
                "--quiet",
            ],
            env=ENVIRONMENT,
        )
        for n in range(1, workers + 1)
    ]


def share(
    base: str, folder: Path, store: str, workers: int, given: argparse.Namespace
) -> str:
    """Return how much of a shared limit workers use in three minutes, and the most that
    they send in one.
    """
    processor_seconds(
        work(
            base, folder, store, workers, given, 3 * given.rpm, f"judge.rpm={given.rpm}"
        )
    )
    seen = stats(base)
    minutes = (
        seen["seconds"] - given.latency
    ) / 60 - 1  # the first one begins with a burst
    kind = store.partition("://")[0] if "://" in store else "sqlite"
    used = seen["after_a_minute"] / minutes / given.rpm
    most = seen["busiest_minute"] / given.rpm
    return f"| {kind} | {workers} | {given.rpm:,} | {used:.1%} | {most:.1%} |"


def judge(
    base: str, folder: Path, store: str, workers: int, given: argparse.Namespace
) -> str:
    before = machine()
    processor = processor_seconds(
        work(
            base,
            folder,
            store,
            workers,
            given,
            int(given.rounds * given.in_flight) * workers,
        )
    )
    after = machine()
    seen = stats(base)
    rate = seen["requests"] / seen["seconds"]
    ideal = workers * given.in_flight / given.latency
    busy = (after[0] - before[0]) / (after[1] - before[1])
    factor = (
        "the latency"
        if rate > 0.7 * ideal
        else f"the processors ({busy:.0%} busy)"
        if busy > 0.8
        else "the store"
    )
    kind = store.partition("://")[0] if "://" in store else "sqlite"
    return (
        f"| {kind} | {workers} | {seen['requests']:,.0f} | {rate:,.0f} | {rate / ideal:.0%} "
        f"| {processor / seen['requests'] * 1e3:.2f} ms | {factor} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument(
        "--rounds",
        type=float,
        default=4,
        help="requests of each worker, in times --in-flight",
    )
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument(
        "--rows", type=int, default=10_000, help="rows to read and write"
    )
    parser.add_argument("--postgres", metavar="URL")
    parser.add_argument(
        "--rpm", type=int, help="share a limit of so many requests per minute, instead"
    )
    parser.add_argument("--stores", nargs="*", default=["sqlite", "postgres"])
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        databases(given.postgres) as empty,
        server(given.latency) as base,
    ):
        folder = Path(name)
        for kind in given.stores if given.rpm is None else ():
            rates(
                str(folder / "rates.db") if kind == "sqlite" else next(empty),
                given.rows,
            )
        if given.rpm is None:
            print(
                "| store | workers | judgments | a second | of the limit | processor each | limited"
                " by |"
            )
            print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
        else:
            print(
                "| store | workers | limit per minute | used after a minute | busiest minute |"
            )
            print("| --- | --- | --- | --- | --- |", flush=True)
        for kind in given.stores:
            for workers in given.workers:
                store = (
                    str(folder / f"{workers}.db") if kind == "sqlite" else next(empty)
                )
                print(
                    (share if given.rpm else judge)(
                        base, folder, store, workers, given
                    ),
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
