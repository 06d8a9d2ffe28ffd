"""A process that answers as OpenAI does, and fails as a seeded script says.

    python fault_server.py SEED SHARE LOG

SHARE of the requests meet a fault, drawn from SEED, the request's text and how often it was asked
before. Prints its port. LOG gets a line for each request before anything is sent: its text, and
what is about to be done.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

DRIP_SECONDS = 0.2
# How often each is drawn among the faults. Hangs and drips are rare since each takes the whole of
# runner.timeout.
FAULTS = {
    **dict.fromkeys(
        (
            "429_seconds",
            "429_date",
            "500",
            "502",
            "503",
            "529",
            "reset",
            "truncated",
            "html",
            "empty",
        ),
        10,
    ),
    **dict.fromkeys(("length", "filtered", "context", "policy"), 2),
    **dict.fromkeys(("hang", "drip"), 1),
}


def completion(text: str, finish: str = "stop") -> dict[str, Any]:
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": text},
    }
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


def error(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "some_error", "param": None, "code": code}}


def soon() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)


def plain(name: str) -> tuple[int, Any, dict[str, str]] | None:
    """The answer of a fault that is a whole HTTP response, or none."""
    known: dict[str, tuple[int, Any, dict[str, str]]] = {
        "429_seconds": (429, error("slow down"), {"Retry-After": "1"}),
        "429_date": (429, error("slow down"), {"Retry-After": soon()}),
        "500": (500, error("oops"), {}),
        "502": (502, "<html>bad gateway</html>", {}),
        "503": (503, error("unavailable"), {"Retry-After": "1"}),
        "529": (529, error("overloaded"), {}),
        "truncated": (200, json.dumps(completion("yes"))[:60], {}),
        "html": (200, "<html>come back later</html>", {"Content-Type": "text/html"}),
        "empty": (200, {**completion("yes"), "choices": []}, {}),
        "length": (200, completion("ye", "length"), {}),
        "filtered": (200, completion("", "content_filter"), {}),
        "context": (
            400,
            error("This model's maximum context length is 9 tokens", "context_length_exceeded"),
            {},
        ),
        "policy": (400, error("filtered due to content management policy", "content_filter"), {}),
        "unsupported": (
            400,
            error("Unsupported parameter: 'temperature' is not supported with this model"),
            {},
        ),
        "401": (
            401,
            error("Incorrect API key provided: sk-secret-secret-1234", "invalid_api_key"),
            {},
        ),
        "404": (404, error("The model `m` does not exist", "model_not_found"), {}),
    }
    return known.get(name)


def response(status: int, body: Any, headers: dict[str, str]) -> bytes:
    content = (body if isinstance(body, str) else json.dumps(body)).encode()
    lines = {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Said\r\n{head}\r\n".encode() + content


class Server:
    def __init__(self, seed: str, share: float, log: str) -> None:
        self.seed, self.share = seed, share
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.asked: Counter[str] = Counter()

    def fate(self, request: dict[str, Any], text: str) -> str:
        if self.seed in ("401", "404"):
            return self.seed
        if self.seed == "unsupported":
            return "unsupported" if "temperature" in request else "answered"
        draw = random.Random(f"{self.seed} {text} {self.asked[text]}")
        return (
            draw.choices(list(FAULTS), list(FAULTS.values()))[0]
            if draw.random() < self.share
            else "answered"
        )

    def note(self, text: str, done: str) -> None:
        os.write(self.log, json.dumps([text, done]).encode() + b"\n")

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                request = json.loads(await reader.readexactly(length))
                text = request["messages"][-1]["content"]
                self.asked[text] += 1
                if not await self.answer(writer, text, self.fate(request, text)):
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # whoever asked is gone, or the server ends
        finally:
            writer.close()

    async def answer(self, writer: asyncio.StreamWriter, text: str, fate: str) -> bool:
        """Do to a request what was drawn for it; say whether the connection goes on."""
        self.note(text, fate)
        whole = response(*(plain(fate) or (200, completion("yes"), {})))
        if fate == "hang":
            await asyncio.sleep(60)
        elif fate == "reset":
            writer.write(whole[: len(whole) // 2])
            await writer.drain()
            writer.transport.abort()
            return False
        elif fate == "drip":
            for byte in whole:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(DRIP_SECONDS)
        writer.write(whole)
        await writer.drain()
        return True


async def serve(seed: str, share: float, log: str) -> None:
    server = await asyncio.start_server(Server(seed, share, log).handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(
        None, sys.stdin.read
    )  # until whoever started it closes


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2]), sys.argv[3]))
