"""llama.cpp's own HTTP server in a process of its own, with the weights of the embedded judge."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

SLOTS = 2
CONTEXT = 2048
"""The tokens of one slot."""
_SECONDS = 120.0
_OPENER = build_opener(ProxyHandler({}))
_PROGRAM = f"""
import sys
import time
import xllamacpp
from evalkit.judges.smollm2_transport import weights
settings = xllamacpp.CommonParams()
settings.model.path = str(weights())
settings.port = int(sys.argv[1])
settings.n_parallel = {SLOTS}
settings.n_ctx = {SLOTS * CONTEXT}
settings.kv_unified = False
settings.verbosity = -1
settings.cpuparams.n_threads = 1
server = xllamacpp.Server(settings)
while True:
    time.sleep(1000)
"""


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


class LlamaServer:
    """A server that can be killed and started again at the same address."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def tasks(self) -> set[int]:
        """Return the numbers of the requests that are processed now."""
        with _OPENER.open(f"http://127.0.0.1:{self.port}/slots", timeout=60) as response:
            return {slot["id_task"] for slot in json.load(response) if slot["is_processing"]}

    def wait(self) -> None:
        """Wait until the model is loaded."""
        until = time.monotonic() + _SECONDS
        while time.monotonic() < until:
            assert self._process is not None
            assert self._process.poll() is None, "the server ended"
            try:
                with _OPENER.open(f"{self.api_base}/models", timeout=5) as response:
                    if json.load(response)["data"][0]["meta"]["n_ctx"] == CONTEXT:
                        return
            except (URLError, OSError, ValueError, KeyError, TypeError):
                pass  # it has not started, or still loads
            time.sleep(0.05)
        raise TimeoutError("llama.cpp's server does not answer")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def llama_server() -> Iterator[LlamaServer]:
    server = LlamaServer()
    server.start()
    try:
        server.wait()
        yield server
    finally:
        server.kill()
