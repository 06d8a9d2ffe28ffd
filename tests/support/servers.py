"""Servers that tests start as processes of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE = 300.0  # of whoever waits for a process: on a busy machine an import may take a minute


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def wait_until_answered(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers; if it ends or takes too long, say what it wrote."""
    deadline = time.monotonic() + PATIENCE
    while not answers(url):
        assert process.poll() is None, log.read_text("utf-8", "replace")
        assert time.monotonic() < deadline, log.read_text("utf-8", "replace")
        time.sleep(0.05)


@contextmanager
def served(
    command: Sequence[str], health: str, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server in a folder, wait until `health` answers, and end it with all of its processes."""
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until_answered(health, process, log)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=PATIENCE)
