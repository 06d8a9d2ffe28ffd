"""Stored judge texts over HTTP: the server that replays them, and where the cases are that they judge."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"
FOLDERS = {"Natural": "Natural", "GPTInst": "Adversarial/GPTInst"}


@dataclass(frozen=True)
class Replay:
    """The server of stored texts: where it is, and what it was given."""

    port: int
    manifests: Path

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def stat(self) -> dict[str, int]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stat", timeout=60) as reply:
            counts: dict[str, int] = json.load(reply)
        return counts


@contextmanager
def replaying(folder: Path) -> Iterator[Replay]:
    """Serve the stored texts of LLMBar, and of every manifest that is in `folder` already."""
    tools = SHARED / "tools"
    if not tools.is_dir():
        pytest.skip(f"{tools} is not there: published judge outputs are not part of the repository")
    subprocess.run(
        [sys.executable, str(tools / "llmbar_manifest.py"), str(folder)],
        check=True,
        capture_output=True,
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    command = [
        sys.executable,
        str(tools / "replay_server.py"),
        str(port),
        *map(str, sorted(folder.glob("*.jsonl"))),
    ]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield _listening(Replay(port, folder), server)
    finally:
        server.terminate()
        server.wait(timeout=300)


def _listening(replay: Replay, server: subprocess.Popen[bytes]) -> Replay:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and server.poll() is None:
        try:
            replay.stat()
        except OSError:
            time.sleep(0.05)
        else:
            return replay
    raise AssertionError((replay.manifests / "log").read_text())


def replay_data(subset: str) -> Path:
    return SHARED / "data" / "llmbar" / FOLDERS[subset] / "dataset.json"
