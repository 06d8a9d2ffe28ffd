"""A real HTTP server on loopback that answers as OpenAI does, fault by fault as scripted."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """One answer: JSON or raw bytes with a status; `cut` ends the connection half-way; `hang` waits for the event."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hang: threading.Event | None = None


def said(
    text: str | None = "yes",
    *,
    finish: str = "stop",
    usage: tuple[int, int] = (12, 3),
    **message: Any,
) -> Reply:
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": text, **message},
    }
    return Reply(completion([choice], usage))


def completion(choices: list[Any], usage: tuple[int, int] = (12, 3)) -> dict[str, Any]:
    prompt, out = usage
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": choices,
        "usage": {"prompt_tokens": prompt, "completion_tokens": out, "total_tokens": prompt + out},
    }


def refused(status: int, message: str, *, code: str | None = None, **headers: str) -> Reply:
    body = {"error": {"message": message, "type": "some_error", "code": code, "param": None}}
    return Reply(body, status, {name.replace("_", "-"): value for name, value in headers.items()})


class Provider:
    """Replies from `script` in turn, then by the rule of the path in `routes`, or by `rule` if there are no routes.

    `requests` holds the bodies received, `headers` their headers, `paths` their paths.
    """

    def __init__(self) -> None:
        self.script: deque[Reply] = deque()
        self.rule: Callable[[dict[str, Any]], Reply] = lambda body: said()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.routes: dict[str, Callable[[dict[str, Any]], Reply]] | None = None
        self.paths: list[str] = []
        self.port = 0
        self._lock = threading.Lock()

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def reply(self, body: dict[str, Any], headers: dict[str, str], path: str = "") -> Reply:
        with self._lock:
            self.paths.append(path)
            self.requests.append(body)
            self.headers.append(headers)
            if self.script:
                return self.script.popleft()
            rule = self.rule if self.routes is None else self.routes.get(path)
            return Reply({"detail": "Not Found"}, 404) if rule is None else rule(body)


@contextmanager
def serving(port: int = 0) -> Iterator[Provider]:
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = (
            True  # else the body waits until the client has confirmed the headers, 40 ms
        )

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._send(
                provider.reply(
                    body, {name.lower(): value for name, value in self.headers.items()}, self.path
                )
            )

        def do_GET(self) -> None:
            rule = (provider.routes or {}).get(self.path)
            self._send(Reply({"detail": "Not Found"}, 404) if rule is None else rule({}))

        def _send(self, reply: Reply) -> None:
            if reply.hang is not None:
                reply.hang.wait(600)
            data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            try:
                self.send_response(reply.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data[: len(data) // 2] if reply.cut else data)
            except ConnectionError:
                self.close_connection = True
            if reply.cut:
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    provider.port = server.server_address[1]
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
