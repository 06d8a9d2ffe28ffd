"""Runs the real command line in a folder, and answers as a judge that a test can follow."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main
from tests.support.fake_provider import Provider, Reply, said
from tests.support.servers import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
BRIEF = ("tracking=none", "scoring.bootstrap=50")


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    words: Sequence[str]
    status: int
    out: str
    err: str

    def line(self) -> str:
        """The one line on standard error; nothing else may be said anywhere."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        assert self.out == ""
        assert lines[0].startswith(("evalkit: ", "evalkit "))
        return lines[0].removeprefix("evalkit: ")


def call_main(capfd: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Done:
    """Run a command in this process, in the folder where it is."""
    capfd.readouterr()
    ended = main(words)
    out, err = capfd.readouterr()
    assert ended == status, err + out
    return Done(words, ended, out, err)


def run_once(folder: Path, *words: str) -> None:
    """Run a command in a folder, with a store there, for all tests of a module; they read it, or change a copy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("EVALKIT_STORE", str(folder / "store.sqlite"))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.setenv("OPENAI_API_KEY", "any")
        assert main(words) == 0


@dataclass(frozen=True)
class Started:
    """A command that runs, its output, and the pipe on which it notes that it has handled a signal."""

    process: subprocess.Popen[bytes]
    log: Path
    notes: int

    def send(self, number: int) -> None:
        """Send a signal, and wait until it has been handled."""
        self.process.send_signal(number)
        assert os.read(self.notes, 1), self.said()

    def ended(self) -> int:
        """Wait for its end; return its exit status."""
        return self.process.wait(PATIENCE)

    def wait_for(self, event: threading.Event) -> None:
        """Wait for what it is to bring about; its end and a long time are failures."""
        deadline = time.monotonic() + PATIENCE
        while not event.wait(0.1):
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()

    def said(self) -> str:
        return self.log.read_text("utf-8", "replace")


SEVERAL = """
import contextlib, io, json, sys
from evalkit.cli import main
done = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words)
    done.append((words, status, out.getvalue(), err.getvalue()))
print(json.dumps(done))
"""


@dataclass
class Commands:
    """Runs evalkit's commands in `folder` with `environment` beside the test's own."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    python: str = sys.executable

    def __call__(
        self, *words: str, status: int = 0, timeout: float = PATIENCE, **environment: str
    ) -> Done:
        ended = subprocess.run(
            [self.python, "-m", "evalkit", *words],
            cwd=self.folder,
            env=self.env(environment),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in ended.stderr, ended.stderr
        assert "Warning" not in ended.stderr, ended.stderr
        assert ended.returncode == status, ended.stderr + ended.stdout
        return Done(words, ended.returncode, ended.stdout, ended.stderr)

    def several(self, *commands: Sequence[str], **environment: str) -> list[Done]:
        """Run commands one after the other in one process, which starts and imports once."""
        process = subprocess.run(
            [self.python, "-c", SEVERAL, json.dumps(commands)],
            cwd=self.folder,
            env=self.env(environment),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        return [Done(*outcome) for outcome in json.loads(process.stdout.splitlines()[-1])]

    @contextmanager
    def started(self, *words: str, log: Path, **environment: str) -> Iterator[Started]:
        """Start a command that the test interrupts; its output goes to `log`.

        It is killed at the end.
        """
        notes, write = os.pipe()
        path = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [self.python, "-m", "tests.support.noted_signals", str(write), *words],
                cwd=self.folder,
                env=self.env({**path, **environment}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[write],
            )
        os.close(write)
        try:
            yield Started(process, log, notes)
        finally:
            process.kill()
            process.wait()
            os.close(notes)

    def env(self, more: Mapping[str, str] = {}) -> dict[str, str]:
        return {**os.environ, **self.environment, **more}

    def write(self, name: str, *rows: Any) -> Path:
        """Write rows as JSON lines, or texts as they are."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows),
            "utf-8",
        )
        return path

    def metrics(self, run: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / run / "metrics.json").read_text("utf-8"))
        return loaded

    def files(self) -> set[str]:
        return {str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file()}


def fake(provider: Provider, model: str = "fake") -> list[str]:
    """The overrides that send a run to a fake provider."""
    return [
        "judge=openai_compatible",
        f"judge.model=openai/{model}",
        f"judge.api_base={provider.api_base}",
    ]


def pair(number: int, **more: Any) -> dict[str, Any]:
    """A case whose first response is the better one, which `prefers` can see."""
    return {
        "id": f"c{number}",
        "prompt": f"Question {number}?",
        "response_a": f"good {number}",
        "response_b": f"bad {number}",
        "label": "A",
        **more,
    }


def shown(body: Mapping[str, Any]) -> tuple[str, str]:
    """The two responses as a request shows them, first and second."""
    text = "\n".join(message["content"] for message in body["messages"])
    first, second = (
        re.search(rf"<response_{x}>\n(.*?)\n</response_{x}>", text, re.S) for x in "ab"
    )
    assert first
    assert second
    return first[1], second[1]


def prefers(good: str = "good") -> Any:
    """A judge without bias: it finds the response that begins with `good`, wherever it stands."""

    def rule(body: Mapping[str, Any]) -> Reply:
        return said(f"[[{'A' if shown(body)[0].startswith(good) else 'B'}]]")

    return rule


def rows(table: str) -> dict[str, list[int]]:
    """The counts of a plan's table by job; a job's words may go on over several lines."""
    found: dict[str, list[int]] = {}
    for line in table.splitlines()[1:]:
        name, *counts = [part for part in line.split("  ") if part.strip()]
        if counts:
            found[name.strip() + f" #{len(found)}" * (name.strip() in found)] = [
                int(count.strip().replace(",", "")) for count in counts[:3]
            ]
    return found
