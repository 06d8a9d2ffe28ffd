"""A served judge under load that clients choose: 100 clients with questions of every
size up to the bounds.

uv run python benchmarks/serving_load.py [--seconds 600] [--clients 100] [--latency 0.1] [--stop 3]

Three servers in turn. The first answers all clients: `/health` is asked every 50 ms meanwhile, by
another process, and the memory is read every second. The second has a budget of calls that is
reached. The third is stopped by SIGTERM in the middle. Targets: `/health` within 0.5 s in 99%; the
memory in the last third at most 1.2 times that in the second; no call beyond the budget; SIGTERM
ends within 2 s; and each answer that the provider has sent is in the store, except those of the
calls that the server reports as unanswered. The status is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from math import log2
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from throughput import ENVIRONMENT, HERE

LARGEST = 900_000
MOST_CRITERIA, MOST_RESPONSES = 100, 10
SLOW, SHARE, GROWTH, STOP = 0.5, 0.99, 1.2, 2.0
EVERY = 0.05
REPEATED = 0.2
BUSY = (429, 503)
_CRITERION = re.compile(rb"- \*\*(.+?)\*\*")


class Answering(asyncio.Protocol):
    """Answers as a judge of pairs that prefers the first response; `GET /` says how
    often it has answered.
    """

    answered = 0

    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._parts: list[bytes] = []
        self._missing = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._parts:
            head, _, rest = data.partition(b"\r\n\r\n")
            if head.startswith(b"GET"):
                self._write(json.dumps({"answered": Answering.answered}).encode())
                return
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            self._missing = int(length[1]) - len(rest) if length else 0
            self._parts = [rest]
        else:
            self._parts.append(data)
            self._missing -= len(data)
        if self._missing <= 0:
            body = b"".join(self._parts)
            self._parts = []
            asyncio.get_running_loop().call_later(self._latency, self._answer, body)

    def _answer(self, body: bytes) -> None:
        names = dict.fromkeys(name.decode() for name in _CRITERION.findall(body))
        said = {
            "comparison": [
                {"criterion": name, "reasoning": "It says so.", "winner": "A"}
                for name in names
            ],
            "result": {"reasoning": "It says so.", "winner": "A", "confidence": 0.8},
        }
        message = {"role": "assistant", "content": json.dumps(said)}
        reply = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "loopback",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
        }
        if self._transport is not None and not self._transport.is_closing():
            self._write(json.dumps(reply).encode())
            Answering.answered += 1

    def _write(self, body: bytes) -> None:
        assert self._transport is not None
        head = (
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        self._transport.write(head.encode() + body)


async def provide(latency: float) -> None:
    """Run the provider until its standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Answering(latency), "127.0.0.1", 0, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


def probe(url: str) -> None:
    """Ask `/health` until standard input ends, and print the seconds of each answer."""
    address = urlsplit(url).netloc
    ended = subprocess.Popen(["cat"], stdout=subprocess.DEVNULL)
    taken = list[float]()
    while ended.poll() is None:
        began = time.perf_counter()
        with closing(http.client.HTTPConnection(address, timeout=60)) as client:
            client.request("GET", "/health")
            assert client.getresponse().read()
        taken.append(time.perf_counter() - began)
        time.sleep(EVERY)
    print(json.dumps(taken))


@contextmanager
def helper(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Run this file as another process, which ends with its standard input."""
    command = [sys.executable, str(HERE / "serving_load.py"), *words]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait(60)


@dataclass
class Run:
    """What was seen of one server."""

    statuses: Counter[int] = field(default_factory=Counter)
    health: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    answered: int = 0
    stored: int = 0
    unanswered: int = 0
    stop: float = 0.0

    @property
    def in_time(self) -> float:
        """The share of answers of `/health` in time."""
        return sum(one <= SLOW for one in self.health) / max(1, len(self.health))

    @property
    def growth(self) -> float:
        """The memory in the last third over that in the second."""
        third = len(self.memory) // 3
        if not third:
            return 1.0
        return max(self.memory[-third:]) / max(self.memory[third:-third])

    @property
    def lost(self) -> int:
        """Answers that the provider has sent and that are neither stored nor reported."""
        return max(0, self.answered - self.stored - self.unanswered)


def question(chance: random.Random, number: int) -> tuple[str, dict[str, Any]]:
    """Return a path and a question; sizes are uniform on a log scale up to the bounds."""

    def size(most: float) -> int:
        return int(2 ** chance.uniform(0, log2(most)))

    if chance.random() < 0.5:
        names = [f"criterion {one}" for one in range(size(MOST_CRITERIA))]
        text = "It is so, é. " * (1 + size(LARGEST / 2 / 14))
        fields = {"responseA": text, "responseB": text + "Is it?", "criteria": names}
        return "/pairwise_compare", {"prompt": f"Question {number}?", **fields}
    count = chance.randint(2, MOST_RESPONSES)
    text = "It is so, é. " * (1 + size(LARGEST / count / 14))
    responses = [f"{one}. {text}" for one in range(count)]
    return "/judge", {"prompt": f"Question {number}?", "responses": responses}


async def load(url: str, seconds: float, clients: int, seed: int, seen: Run) -> None:
    """Ask questions by many clients for some seconds; the last ones are answered, too."""
    until = time.monotonic() + seconds
    chance = random.Random(seed)
    asked: list[tuple[str, bytes]] = []

    async def ask(session: aiohttp.ClientSession) -> None:
        while time.monotonic() < until:
            if asked and chance.random() < REPEATED:
                path, body = chance.choice(asked)
            else:
                path, fields = question(chance, len(asked) + 1000 * seed)
                body = json.dumps(fields).encode()
                asked.append((path, body if len(body) < 50_000 else b""))
            if not body:
                continue
            try:
                async with session.post(url + path, data=body) as reply:
                    await reply.read()
                    seen.statuses[reply.status] += 1
                    if reply.status in BUSY:
                        await asyncio.sleep(0.2)
            except (aiohttp.ClientError, OSError):
                seen.statuses[0] += 1
                await asyncio.sleep(0.2)

    kind = {"Content-Type": "application/json"}
    wait = aiohttp.ClientTimeout(total=600)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, timeout=wait, headers=kind
    ) as session:
        await asyncio.gather(*(ask(session) for _ in range(clients)))


async def watch_memory(process: int, seen: Run) -> None:
    """Note the resident memory of a process every second, in MB."""
    while True:
        text = Path(f"/proc/{process}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", text)
        seen.memory.append(int(found[1]) / 1024 if found else 0.0)
        await asyncio.sleep(1)


def evalkit(*words: str | Path, folder: Path) -> None:
    """Run a command to its end."""
    command = [sys.executable, "-m", "evalkit", *map(str, words)]
    done = subprocess.run(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)


def validate(base: str, folder: Path) -> Path:
    """Return the folder of a judge of pairs."""
    rows = [
        {"id": str(n), "prompt": f"Q{n}?", "response_a": "x", "response_b": f"y{n}"}
        for n in range(4)
    ]
    lines = (json.dumps({**row, "label": "A"}) + "\n" for row in rows)
    (folder / "cases.jsonl").write_text("".join(lines))
    own = ("judge=openai_compatible", "judge.model=openai/x", f"judge.api_base={base}")
    more = ("judge.transport=direct", "dataset.path=cases.jsonl", "tracking=none")
    evalkit("run", *own, *more, "store.url=run.db", "hydra.run.dir=run", folder=folder)
    evalkit("export", "run", "--to", "judge", "--output", "judge", folder=folder)
    return folder / "judge"


def serve(
    base: str,
    judge: Path,
    seconds: float,
    clients: int,
    *words: str,
    stop_at: float | None = None,
    seed: int = 1,
) -> Run:
    """Serve a judge under load, and return what was seen.

    Args:
        base: The provider.
        judge: The folder of the judge.
        seconds: How long clients ask.
        clients: How many there are.
        *words: Settings of the server.
        stop_at: Seconds from the first answer until SIGTERM; after the last answer by default.
        seed: The seed of the questions.
    """
    seen = Run()
    store = judge.parent / f"served-{seed}.db"
    before = answered(base)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "evalkit", "serve", str(judge), "--port", port]
    messages = judge.parent / f"messages-{seed}.txt"
    with messages.open("w") as file:  # a pipe that nobody reads would fill
        process = subprocess.Popen(
            [*command, "--api-base", base, f"store.url={store}", *words],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
    assert process.stdout is not None
    process.stdout.readline()
    if " on " not in process.stdout.readline():
        process.wait(120)
        raise SystemExit(messages.read_text())
    url = f"http://127.0.0.1:{port}"

    async def run() -> None:
        memory = asyncio.create_task(watch_memory(process.pid, seen))
        asking = asyncio.create_task(load(url, seconds, clients, seed, seen))
        if stop_at is not None:
            while await asyncio.to_thread(answered, base) == before:
                await asyncio.sleep(0.05)
            await asyncio.sleep(stop_at)
            memory.cancel()
            began = time.perf_counter()
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait, 120)
            seen.stop = time.perf_counter() - began
            asking.cancel()
            await asyncio.wait([asking])
            return
        await asking
        memory.cancel()

    with helper("--probe", url) if stop_at is None else _nothing() as prober:
        asyncio.run(run())
        if prober is not None:
            seen.health = json.loads(prober.communicate("")[0])
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    if found := re.search(r"(\d+) calls? .*unanswered", messages.read_text()):
        seen.unanswered = int(found[1])
    seen.answered = answered(base) - before
    with closing(sqlite3.connect(store)) as database:
        (seen.stored,) = database.execute("SELECT count(*) FROM completions").fetchone()
    return seen


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


def answered(base: str) -> int:
    """Return how often the provider has answered."""
    with closing(http.client.HTTPConnection(urlsplit(base).netloc)) as client:
        client.request("GET", "/")
        return int(json.loads(client.getresponse().read())["answered"])


def measure(
    folder: Path, seconds: float, clients: int, latency: float, stop_at: float
) -> tuple[Run, Run, Run, int]:
    """Return what was seen of the three servers, and the budget of the second."""
    with helper("--provide", str(latency)) as provider:
        assert provider.stdout is not None
        base = f"http://127.0.0.1:{int(provider.stdout.readline())}/v1"
        judge = validate(base, folder)
        free = serve(base, judge, seconds, clients)
        budget = max(20, min(500, free.answered // 4))
        brief = min(20.0, seconds / 3)
        limit = f"runner.budget_calls={budget}"
        limited = serve(base, judge, brief, clients, limit, seed=2)
        stopped = serve(base, judge, 60.0, clients, stop_at=stop_at, seed=3)
    return free, limited, stopped, budget


def problems(free: Run, limited: Run, stopped: Run, budget: int) -> Sequence[str]:
    """Return the targets that were missed."""
    slowest = max(free.health)
    checks = {
        f"/health in time in {free.in_time:.2%}, slowest {slowest:.2f} s": free.in_time
        >= SHARE,
        f"memory grew to {free.growth:.2f} times": free.growth <= GROWTH,
        f"{limited.answered} calls of a budget of {budget}": limited.answered <= budget,
        f"SIGTERM ended after {stopped.stop:.2f} s": stopped.stop <= STOP,
        **{
            f"{run.lost} answers were lost": not run.lost
            for run in (free, limited, stopped)
        },
    }
    return [what for what, holds in checks.items() if not holds]


def main() -> int:
    """Measure, print a table and return the status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--latency", type=float, default=0.1)
    parser.add_argument("--stop", type=float, default=3)
    parser.add_argument("--provide", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.provide is not None:
        asyncio.run(provide(given.provide))
        return 0
    if given.probe is not None:
        probe(given.probe)
        return 0
    with tempfile.TemporaryDirectory() as name:
        runs = measure(
            Path(name), given.seconds, given.clients, given.latency, given.stop
        )
    print("| | questions by status | provider answered | stored | unanswered |")
    print("| --- | --- | --- | --- | --- |")
    titles = ("every size", "with a budget", "stopped")
    for title, run in zip(titles, runs[:3], strict=True):
        statuses = ", ".join(f"{k}: {v}" for k, v in sorted(run.statuses.items()))
        counts = f"{run.answered} | {run.stored} | {run.unanswered}"
        print(f"| {title} | {statuses} | {counts} |")
    free, _, stopped, budget = runs
    print(
        f"\n/health in time in {free.in_time:.2%} of {len(free.health)}, slowest"
        f" {max(free.health):.2f} s; memory {free.memory[0]:.0f} to"
        f" {free.memory[-1]:.0f} MB, {free.growth:.2f} times in the last third;"
        f" budget {budget}; SIGTERM {stopped.stop:.2f} s"
    )
    missed = problems(*runs)
    print("\n".join(missed))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
