"""A loopback server that answers as OpenAI does, every request after the same time, at
next to no cost of its own.

uv run python benchmarks/openai_server.py --latency 0.1     prints its port; GET /stats tells what
it has seen
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from bisect import bisect_left


class Seen:
    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.requests = self.now = self.most = 0
        self.first = self.last = 0.0
        self.times: list[float] = []

    def report(self) -> dict[str, float]:
        return {
            "requests": self.requests,
            "most_in_flight": self.most,
            "seconds": self.last - self.first,
            "after_a_minute": len(self.times)
            - bisect_left(self.times, self.first + 60),
            "busiest_minute": max(
                (bisect_left(self.times, t + 60) - n for n, t in enumerate(self.times)),
                default=0,
            ),
        }


class Answering(asyncio.Protocol):
    def __init__(self, seen: Seen, latency: float, answer: bytes) -> None:
        self._seen, self._latency, self._answer = seen, latency, answer
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return
        fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields.get(b"content-length", b"0"))
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        path = head.split(b" ", 2)[1]
        if path == b"/stats":
            self._write(json.dumps(self._seen.report()).encode())
            self._seen.clear()
        else:
            self._begin()

    def _begin(self) -> None:
        seen = self._seen
        seen.requests += 1
        seen.now += 1
        seen.most = max(seen.most, seen.now)
        seen.times.append(time.monotonic())
        seen.first = seen.first or seen.times[-1]
        asyncio.get_running_loop().call_later(self._latency, self._end)

    def _end(self) -> None:
        self._seen.now -= 1
        self._seen.last = time.monotonic()
        self._write(self._answer)

    def _write(self, body: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            head = (
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:"
                f" {len(body)}\r\n\r\n"
            )
            self._transport.write(head.encode() + body)


async def serve(latency: float, text: str) -> None:
    message = {"role": "assistant", "content": text}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "loopback",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 300, "completion_tokens": 60, "total_tokens": 360},
    }
    seen, answer = Seen(), json.dumps(body).encode()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Answering(seen, latency, answer), "127.0.0.1", 0, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    # Whoever started it ends it by closing its standard input, so that none is ever left behind.
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.1)
    parser.add_argument("--text", default="yes")
    given = parser.parse_args()
    asyncio.run(serve(given.latency, given.text))
