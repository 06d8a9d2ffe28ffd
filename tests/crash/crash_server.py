"""A process that answers judge requests over HTTP on loopback and writes down what it was asked, before it answers.

    python crash_server.py LOG

Prints its port. LOG gets a line for each request: the key, the process that asked, and as that
process tells it (on the monotonic clock) when it began to look for the answer in the store, and
when it began to check its claim before it sent. A request may arrive much later on a busy machine,
so the moment of arrival says nothing. As long as there is a file `held` beside LOG, nothing is
answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path

DRAW = random.Random(4)


def answer(prompt: str) -> str:
    return "Thinking. [[" + "AABC"[sum(prompt.encode()) % 4] + "]]"


async def serve(log: int, held: Path) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                asked = json.loads(await reader.readexactly(length))
                os.write(log, "{key} {pid} {looked:.9f} {checked:.9f}\n".format_map(asked).encode())
                await asyncio.sleep(DRAW.random() * 0.01)
                while held.exists():
                    await asyncio.sleep(0.005)
                body = json.dumps({"text": answer(asked["prompt"])}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(
        None, sys.stdin.read
    )  # until whoever started it closes


if __name__ == "__main__":
    asked = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    asyncio.run(serve(asked, Path(sys.argv[1]).with_name("held")))
