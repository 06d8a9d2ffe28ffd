"""A server on loopback with OpenAI's files, batches and chat completions; requests expire or fail as a test says."""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.fake_provider import Reply, said

PAGE = 2


@dataclass
class BatchServer:
    """`rule` answers a request, `fate` says what becomes of a line: `answer`, `expire`, `fail` or `lose`.

    A batch ends at look number `looks`. `submitted` counts the ids of all lines of batches,
    `online` the single calls. `lost` has the status with which a file is refused.
    `on` is called with the method and path of each call, after it took effect and before its reply.
    """

    rule: Callable[[dict[str, Any]], Reply] = lambda body: said()
    fate: Callable[[str], str] = lambda key: "answer"
    looks: int = 2
    end: str = "completed"
    on: Callable[[str, str], None] = lambda method, path: None
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    submitted: Counter[str] = field(default_factory=Counter)
    lost: dict[str, int] = field(default_factory=dict)
    looked: Counter[str] = field(default_factory=Counter)
    online: int = 0
    created: int = 0
    port: int = 0
    draw: random.Random = field(default_factory=lambda: random.Random(0))
    lock: Any = field(default_factory=threading.RLock)

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def keep(self, content: bytes) -> str:
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return name

    def post(self, path: str, content: bytes) -> tuple[int, Any]:
        if path == "/v1/files":
            boundary = content.partition(b"\r\n")[0]
            part = next(one for one in content.split(boundary) if b'name="file"' in one)
            name = self.keep(part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n"))
            return 200, {"id": name, "object": "file", "bytes": 1, "created_at": 1, "filename": "x", "purpose": "batch",
                         "status": "processed"}  # fmt: skip
        body = json.loads(content)
        if path == "/v1/batches":
            lines = self.files[body["input_file_id"]].splitlines()
            self.submitted.update(json.loads(line)["custom_id"] for line in lines)
            name, self.created = f"batch_{self.created}", self.created + 1
            self.batches[name] = {
                "id": name, "object": "batch", "endpoint": body["endpoint"], "input_file_id": body["input_file_id"],
                "completion_window": "24h", "status": "in_progress", "created_at": 10**10 + self.created,
                "metadata": body["metadata"], "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
            }  # fmt: skip
            return 200, self.batches[name]
        self.online += 1
        reply = self.rule(body)
        return reply.status, reply.body

    def get(self, path: str) -> tuple[int, Any]:
        if found := re.fullmatch(r"/v1/files/([^/]+)/content", path):
            if found[1] in self.lost:
                return self.lost[found[1]], {
                    "error": {"message": f"No such File object: {found[1]}", "code": None}
                }
            return 200, self.files[found[1]]
        if found := re.fullmatch(r"/v1/batches/([^/?]+)", path):
            if (batch := self.batches.get(found[1])) is None:
                return 404, {"error": {"message": "No such batch", "code": None}}
            self.looked[found[1]] += 1
            if self.looked[found[1]] >= self.looks and batch["status"] == "in_progress":
                self.finish(batch)
            return 200, batch
        if path.startswith("/v1/models"):
            return 404, {"error": {"message": "No list of models", "code": None}}
        after = re.search(r"after=([^&]+)", path)
        names = list(reversed(self.batches))  # the newest first, as OpenAI lists them
        names = names[names.index(after[1]) + 1 :] if after else names
        rows = [self.batches[name] for name in names[:PAGE]]
        return 200, {"object": "list", "data": rows, "has_more": len(names) > PAGE}

    def finish(self, batch: dict[str, Any]) -> None:
        output, errors = [], []
        for line in self.files[batch["input_file_id"]].splitlines():
            row = json.loads(line)
            key, fate = row["custom_id"], self.fate(row["custom_id"])
            if fate == "expire":
                error = {
                    "code": "batch_expired",
                    "message": "This request could not be executed in time.",
                }
                errors.append({"id": "1", "custom_id": key, "response": None, "error": error})
            elif fate != "lose":
                reply = (
                    self.rule(row["body"])
                    if fate == "answer"
                    else Reply({"error": {"message": "no"}}, 500)
                )
                made = {"status_code": reply.status, "request_id": "1", "body": reply.body}
                rows = output if reply.status < 400 else errors
                rows.append({"id": "1", "custom_id": key, "response": made, "error": None})
        self.draw.shuffle(output)
        batch["status"] = "expired" if errors and self.end == "completed" else self.end
        for name, rows in (("output_file_id", output), ("error_file_id", errors)):
            if rows:
                batch[name] = self.keep("".join(json.dumps(row) + "\n" for row in rows).encode())


@contextmanager
def batch_server() -> Iterator[BatchServer]:
    state = BatchServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # as in `fake_provider`

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            with state.lock:
                status, body = state.post(self.path, content)
            self.reply("POST", status, body)

        def do_GET(self) -> None:
            with state.lock:
                status, body = state.get(self.path)
            self.reply("GET", status, body)

        def reply(self, method: str, status: int, body: Any) -> None:
            state.on(method, self.path)
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.send_header(
                "connection", "close"
            )  # LiteLLM never closes the client with which it lists batches
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.port = server.server_address[1]
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
