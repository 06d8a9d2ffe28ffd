"""`evalkit serve` in a thread of the test, and requests to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any
from unittest.mock import patch

import httpx

from evalkit.cli import main
from evalkit.serving.http import Server
from tests.support.servers import PATIENCE, free_port


@dataclass
class Served:
    """A server that a command runs, and the status of the command when it has ended."""

    port: int
    thread: Thread
    server: Server
    statuses: list[int] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        known = {"Content-Type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
        reply = httpx.post(f"{self.url}{path}", content=content, headers=known, timeout=PATIENCE, trust_env=False)
        return reply.status_code, reply.json()

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers=headers, timeout=PATIENCE, trust_env=False)

    def metric(self, name: str) -> float:
        """Return a metric that needs no key."""
        rows = dict(line.rsplit(" ", 1) for line in self.get("/metrics").text.splitlines() if line[0] != "#")
        return float(rows.get(f"evalkit_{name}", 0))

    def ended(self) -> int:
        """Stop the server as a signal does, wait for the command's end, and return its status."""
        loop = self.server.loop
        if self.thread.is_alive():
            loop.call_soon_threadsafe(self.server._stop, 15)
        self.thread.join(PATIENCE)
        (status,) = self.statuses
        return status


@contextmanager
def served(judge: Path, *words: str) -> Iterator[Served]:
    """Run `evalkit serve JUDGE` in a thread; it ends with the block."""
    port, statuses, started = free_port(), list[int](), list[Server]()
    ready = Event()
    startup = Server.startup

    async def noted(server: Server, sockets: Any = None) -> None:
        await startup(server, sockets)
        server.loop = asyncio.get_running_loop()
        started.append(server)
        ready.set()

    def run() -> None:
        statuses.append(main(["serve", str(judge), "--port", str(port), *words]))
        ready.set()

    with patch.object(Server, "startup", noted):
        thread = Thread(target=run)
        thread.start()
        assert ready.wait(PATIENCE)
    assert started, f"the command ended with status {statuses}"
    found = Served(port, thread, started[0], statuses)
    try:
        yield found
    finally:
        if thread.is_alive():
            found.ended()
