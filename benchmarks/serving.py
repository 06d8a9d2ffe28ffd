"""A served judge against a run: questions a second on the same requests, and the time
of a stored answer.

uv run python benchmarks/serving.py [--runs 3] [--requests 500] [--latency 0.1] [--in-flight 64]
                                    [--transport litellm]

`run` is the judging phase of `evalkit run` (the manifest's `timing.sending`), `serve` the time from
the first question to the last verdict over HTTP; both judge the same cases without stored answers.
A run has two workers for each call in flight, so that one call is made while another answer is
stored and read. Two clients for each call in flight are alike; with one client for each, fewer
calls are in flight than in the run. Where other work keeps the machine busy, the processor time of
a question says more (Linux only), and so does that of the client, which shares the processors.
Targets: serve, with two clients for each call in flight, within 10% of run, and a stored answer in
at most 5 ms at the median. The status is 1 if a target is missed.
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
WARM = "The first question prepares the judge."
CLIENTS = (1, 2)
"""Clients for each call in flight."""


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
        [*command, "--concurrent", str(4 * at_once), *limits],
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
    stored = list[float]()
    # clients for each call in flight -> the seconds of all questions
    serves: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    # the same -> the processor time of the server, and of the client
    server_times: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    client_times = list[float]()
    with tempfile.TemporaryDirectory() as name, server(given.latency) as base:
        folder = Path(name)
        dataset(folder, given.requests)
        cases = [
            json.loads(line)
            for line in (folder / "cases.jsonl").read_text().splitlines()
        ]
        for _ in range(given.runs):
            remove_stores(folder)
            run = words(base, folder, given.in_flight, given.transport, tracked=False)
            evalkit(run)
            manifest = json.loads((folder / "run" / "manifest.json").read_text())
            runs.append(manifest["timing"]["sending"])
            judge = str(folder / "judge")
            evalkit(["export", str(folder / "run"), "--to", "judge", "--output", judge])
            for clients in CLIENTS:
                remove_stores(folder)
                with served(base, folder, given.in_flight) as (url, process):
                    asyncio.run(ask(url, [{**cases[0], "prompt": WARM}], 1))
                    before = processor(process)
                    client_before = time.process_time()
                    at_once = clients * given.in_flight
                    serves[clients].append(asyncio.run(ask(url, cases, at_once))[0])
                    client_times.append(time.process_time() - client_before)
                    server_times[clients].append(processor(process) - before)
                    stored += asyncio.run(ask(url, cases[:STORED], 1))[1]
    milliseconds = median(stored) * 1000
    print(
        "| | quickest phase | of a run's | questions a second | processor time |\n"
        "| --- | --- | --- | --- | --- |"
    )
    print(
        f"| `evalkit run` | {min(runs):.2f} s | | {given.requests / min(runs):.0f} | |"
    )
    shares = {clients: min(serves[clients]) / min(runs) for clients in CLIENTS}
    for clients in CLIENTS:
        seconds = min(serves[clients])
        each = median(server_times[clients]) / given.requests * 1000
        title = f"`evalkit serve`, {clients * given.in_flight} clients"
        rate = given.requests / seconds
        print(
            f"| {title} | {seconds:.2f} s | {shares[clients]:.0%} | {rate:.0f} | {each:.2f} ms |"
        )
    client_each = median(client_times) / given.requests * 1000
    print(
        f"\na stored answer takes {milliseconds:.1f} ms at the median; a question takes the client"
        f" {client_each:.2f} ms of processor time"
    )
    return int(shares[CLIENTS[-1]] > 1.1 or milliseconds > 5)


def evalkit(arguments: Sequence[str]) -> None:
    """Run a command to its end."""
    command = [sys.executable, "-m", "evalkit", *arguments]
    subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)


def remove_stores(folder: Path) -> None:
    """Remove the stores of a folder."""
    for file in folder.glob("*.db*"):
        if file.is_file():
            file.unlink()


if __name__ == "__main__":
    sys.exit(main())
