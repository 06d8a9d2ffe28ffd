"""`evalkit serve` in a thread of the test, and requests to it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any
from unittest.mock import patch

import httpx

from evalkit.cli import main
from evalkit.serving.http import Server
from tests.support.fake_provider import Provider
from tests.support.servers import PATIENCE, free_port


@dataclass
class Served:
    """A server that a command runs, and the status of the command when it has ended."""

    port: int
    thread: Thread
    server: Server
    statuses: list[int] = field(default_factory=list)

    key: str = ""
    provider: Provider | None = None
    words: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The requests that the provider got: what is paid for."""
        assert self.provider is not None
        return self.provider.requests

    def headers(self, given: Mapping[str, str]) -> dict[str, bytes]:
        known = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {self.key}" if self.key else "",
        }
        return {name: text.encode() for name, text in {**known, **given}.items() if text}

    def post(self, path: str, body: Any, given: Mapping[str, str] = {}) -> tuple[int, Any]:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {
            "content": content,
            "headers": self.headers(given),
            "timeout": PATIENCE,
            "trust_env": False,
        }
        reply = httpx.post(f"{self.url}{path}", **sent)
        return reply.status_code, reply.json()

    def get(self, path: str, **given: str) -> httpx.Response:
        return httpx.get(
            f"{self.url}{path}", headers=self.headers(given), timeout=PATIENCE, trust_env=False
        )

    def head(self, path: str) -> bytes:
        """Return the head of a request that lacks the length of its body."""
        lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        return "".join(
            f"{line}\r\n"
            for line in [*lines, *(f"{k}: {v.decode()}" for k, v in self.headers({}).items())]
        ).encode()

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def metric(self, name: str) -> float:
        rows = dict(
            line.rsplit(" ", 1) for line in self.get("/metrics").text.splitlines() if line[0] != "#"
        )
        return float(rows.get(f"evalkit_{name}", 0))

    def stop(self) -> None:
        """Stop the server as a signal does, once it has handled that."""
        if self.thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._stop(), self.server.loop).result(PATIENCE)

    async def _stop(self) -> None:
        self.server._stop(15)
        await asyncio.sleep(0)

    def ended(self) -> int:
        """Stop the server, wait for the command's end, and return its status."""
        self.stop()
        self.thread.join(PATIENCE)
        (status,) = self.statuses
        return status


@contextmanager
def served(*words: str | Path) -> Iterator[Served]:
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
        try:
            statuses.append(main(["serve", *map(str, words), "--port", str(port)]))
        finally:
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
        found.ended()
