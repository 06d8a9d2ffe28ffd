"""A served judge against a run: questions a second on the same requests, and the time
of a stored answer.

uv run python benchmarks/serving.py [--runs 3] [--requests 500] [--latency 0.1] [--in-flight 64]
                                    [--transport litellm]

`run` is the judging phase of `evalkit run` (the manifest's `timing.sending`), `serve` the time from
the first question to the last verdict over HTTP; both judge the same cases without stored answers.
Where other work keeps the machine busy, the processor time of a question says more (Linux only).
Targets: serve within 10% of run, and a stored answer in at most 5 ms at the median. The status is 1
if a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
from throughput import ENVIRONMENT, dataset, server, words

STORED = 200


@contextmanager
def served(base: str, folder: Path, at_once: int) -> Iterator[tuple[str, int]]:
    """Serve the judge of the run; give the address, and the process, once it listens."""
    limits = [f"store.url={folder / 'served.db'}", f"runner.concurrency={at_once}"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [
        sys.executable,
        "-m",
        "evalkit",
        "serve",
        str(folder / "judge"),
        "--port",
        port,
        "--api-base",
        base,
    ]
    process = subprocess.Popen(
        [*command, "--concurrent", str(2 * at_once), *limits],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        url = process.stdout.readline().split(" on ")[1].partition(";")[0]
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(60)


def processor(process: int) -> float:
    """Return the seconds of processor time that a process has taken."""
    # The fields after the name, which may have blanks: 11 and 12 are user and system time.
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def ask(
    url: str, cases: Sequence[dict[str, Any]], at_once: int
) -> tuple[float, list[float]]:
    """Return the seconds of all questions together, and of each."""
    gate, each = asyncio.Semaphore(at_once), list[float]()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:

        async def one(case: dict[str, Any]) -> None:
            async with gate:
                began = time.perf_counter()
                async with client.post(f"{url}/judge", json=case) as reply:
                    verdict = await reply.json()
                    assert (reply.status, verdict["status"]) == (200, "ok"), verdict
                each.append(time.perf_counter() - began)

        began = time.perf_counter()
        await asyncio.gather(*map(one, cases))
        return time.perf_counter() - began, each


def main() -> int:
    """Measure both in turn, print one table and return the status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--latency", type=float, default=0.1)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--transport", choices=("litellm", "direct"), default="litellm")
    given = parser.parse_args()
    runs = list[float]()
    serves = list[float]()
    stored = list[float]()
    taken = list[float]()
    with tempfile.TemporaryDirectory() as name, server(given.latency) as base:
        folder = Path(name)
        dataset(folder, given.requests)
        cases = [
            json.loads(line)
            for line in (folder / "cases.jsonl").read_text().splitlines()
        ]
        command = [sys.executable, "-m", "evalkit"]
        warm = {**cases[0], "prompt": "The first question prepares the judge."}
        for _ in range(given.runs):
            for file in folder.glob("*.db*"):
                file.unlink() if file.is_file() else None
            run = [
                *command,
                *words(base, folder, given.in_flight, given.transport, tracked=False),
            ]
            subprocess.run(run, env=ENVIRONMENT, check=True, capture_output=True)
            runs.append(
                json.loads((folder / "run" / "manifest.json").read_text())["timing"][
                    "sending"
                ]
            )
            export = [
                *command,
                "export",
                str(folder / "run"),
                "--to",
                "judge",
                "--output",
                str(folder / "judge"),
            ]
            subprocess.run(export, env=ENVIRONMENT, check=True, capture_output=True)
            with served(base, folder, given.in_flight) as (url, process):
                asyncio.run(ask(url, [warm], 1))
                before = processor(process)
                serves.append(asyncio.run(ask(url, cases, given.in_flight))[0])
                taken.append(processor(process) - before)
                stored += asyncio.run(ask(url, cases[:STORED], 1))[1]
    share = min(serves) / min(runs)
    milliseconds = median(stored) * 1000
    each = median(taken) / given.requests * 1000
    print("| | quickest phase | questions a second |\n| --- | --- | --- |")
    for title, seconds in (("evalkit run", min(runs)), ("evalkit serve", min(serves))):
        print(f"| `{title}` | {seconds:.2f} s | {given.requests / seconds:.0f} |")
    print(
        f"\nserve takes {share:.0%} of the run's time; a stored answer takes {milliseconds:.1f} ms"
        f" at the median; a question takes the server {each:.2f} ms of processor time"
    )
    return int(share > 1.1 or milliseconds > 5)


if __name__ == "__main__":
    sys.exit(main())
