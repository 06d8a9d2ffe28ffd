"""Recording in a second process, which imports MLflow while this one judges.

That process reads a line of JSON for each thing to do from standard input, and answers with a line on standard output.
When its input ends, however this process ended, so does it: it finishes what it is recording. The run folder is
complete before a recording begins, so `evalkit track` can send whatever was lost.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from evalkit.config import TrackingConfig
from evalkit.errors import TrackingError
from evalkit.tracking.connection import import_all
from evalkit.tracking.location import sqlite_file
from evalkit.tracking.mlflow_tracker import MlflowTracker
from evalkit.types import RunResult

LARGEST = 20_000
"""Judgments of a run that is read again from its folder to be recorded; a larger one is recorded where it is."""
_CODE = "import sys; sys.path[:] = sys.argv[1:]; from evalkit.tracking.background import main; main()"


@dataclass(eq=False, slots=True)
class Answer:
    """What the recording process says of one thing that it was asked for; none before, or if it has ended."""

    said: dict[str, str] | None = None


class Worker:
    """A recording process; it ends with this one, however this one ends."""

    def __init__(self, uri: str) -> None:
        self.owner = os.getpid()
        self._lock = Lock()
        self._owed: Answer | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # else Ctrl-C would end it before it can ignore that
        )
        self._tell({"uri": uri})
        atexit.register(self.close)

    @property
    def runs(self) -> bool:
        """Whether it is there for this process; a fork of this one has none."""
        return self.owner == os.getpid() and self._process.poll() is None

    def record(self, uri: str, config: TrackingConfig, folder: str) -> str | None:
        """Record the run in a folder and return its MLflow run id, or none if the recording process has ended.

        Raises:
            TrackingError: if it could not be recorded.
        """
        return self._done({"uri": uri, "config": config.model_dump(mode="json"), "folder": folder})

    def attach(self, uri: str, config: TrackingConfig, run: str, files: Sequence[Path]) -> str | None:
        """Log files with the parent of a recorded run, and return its id, or none if the recording process has ended.

        Raises:
            TrackingError: if they could not be sent.
        """
        asked = {"uri": uri, "config": config.model_dump(mode="json"), "folder": "", "attach": run}
        return self._done({**asked, "files": [str(file) for file in files]})

    def renew(self, uri: str, config: TrackingConfig, folder: str, run: str) -> str | None:
        """Bring a recorded run up to date with its folder, and return its id; none if the recording process has ended.

        Raises:
            TrackingError: if that could not be sent.
        """
        return self._done({"uri": uri, "config": config.model_dump(mode="json"), "folder": folder, "renew": run})

    def begin(self, uri: str, config: TrackingConfig, folder: str) -> Answer:
        """Begin to record the run in a folder; `end` waits for it."""
        return self._ask({"uri": uri, "config": config.model_dump(mode="json"), "folder": folder})

    def end(self, answer: Answer) -> str | None:
        """Return the MLflow run id of a run that it began to record, or none if the recording process has ended.

        Raises:
            TrackingError: if it could not be recorded.
        """
        with self._lock:
            if self._owed is answer:
                self._take()
        if answer.said is None:
            self.close()
            return None
        if "error" in answer.said:
            raise TrackingError(answer.said["error"])
        return str(answer.said["run"])

    def _done(self, asked: dict[str, Any]) -> str | None:
        return self.end(self._ask(asked))

    def _ask(self, asked: dict[str, Any]) -> Answer:
        with self._lock:
            self._take()  # its answers come in the order of what was asked
            self._tell({**asked, "environment": dict(os.environ), "standing": str(Path.cwd())})
            self._owed = Answer()
            return self._owed

    def _take(self) -> None:
        """Wait for the answer that is owed, if one is."""
        if self._owed is None:
            return
        owed, self._owed = self._owed, None
        try:
            owed.said = self._answer()
        except BaseException:
            owed.said = {"error": "interrupted before it was recorded in MLflow: `evalkit track` sends it later"}
            self.close()  # its answer would be taken for the next one's
            raise

    def close(self) -> None:
        """End the process; nothing is lost, since it does nothing that is not waited for."""
        if self.owner != os.getpid():
            return
        atexit.unregister(self.close)
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what it did not read is of no use to anybody
                    pipe.close()

    def _tell(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it has ended, which its missing answer tells
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()

    def _answer(self) -> dict[str, str] | None:
        assert self._process.stdout is not None
        try:
            said: dict[str, str] = json.loads(self._process.stdout.readline())
        except ValueError:
            return None
        return said


@dataclass(frozen=True, slots=True)
class BackgroundTracker:
    """Records runs in the process beside this one; in this one where that has ended, or would have too much to read."""

    recorder: Worker
    here: MlflowTracker

    def record(self, result: RunResult) -> str:
        """Record a run and return its MLflow run id.

        Raises:
            TrackingError: if it could not be recorded; the run folder is complete all the same.
        """
        if result.folder is not None and len(result.judgments) <= LARGEST:
            run = self.recorder.record(self.here.uri, self.here.config, result.folder)
            if run is not None:
                return run
        return self.here.record(result)

    def begin(self, result: RunResult) -> Callable[[], str]:
        """Begin to record a run beside what comes next; what is returned waits for it and returns its MLflow run id.

        It is recorded at once where that is not possible, and at the end where it has not been.

        Raises:
            TrackingError: if it could not be recorded, and what is returned does too.
        """
        if result.folder is None or len(result.judgments) > LARGEST:
            run = self.here.record(result)
            return lambda: run
        answer = self.recorder.begin(self.here.uri, self.here.config, result.folder)
        return lambda: self.recorder.end(answer) or self.here.record(result)

    def renew(self, result: RunResult, run: str) -> None:
        """Bring a recorded run up to date whose result was held against another gate.

        Raises:
            TrackingError: if that could not be sent.
        """
        if result.folder is not None and self.recorder.renew(self.here.uri, self.here.config, result.folder, run):
            return
        self.here.renew(result, run)

    def attach(self, run: str, files: Sequence[Path]) -> None:
        """Log files with the parent run of the sweep that `run` is a job of.

        Raises:
            TrackingError: if they could not be sent; they stand where they stood.
        """
        if self.recorder.attach(self.here.uri, self.here.config, run, files) is None:
            self.here.attach(run, files)


_recorder: Worker | None = None
_starting = Lock()


def start(uri: str) -> None:
    """Start the recording process, unless there is one, or MLflow has been imported here already."""
    global _recorder
    with _starting:
        if "mlflow" in sys.modules or not sys.executable or (_recorder is not None and _recorder.runs):
            return
        with suppress(OSError):  # no process to be had: then MLflow is imported here, later
            _recorder = Worker(uri)


def running() -> Worker | None:
    """Return the recording process of this one, or none; it is ended once MLflow has been imported here."""
    if _recorder is None or not _recorder.runs:
        return None
    if "mlflow" in sys.modules:
        _recorder.close()
        return None
    return _recorder


def main() -> None:
    """Do what standard input asks for, a line at a time, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run to act on
    # What MLflow may print is not an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        asked = json.loads(line)
        if "folder" not in asked:
            _make_ready(asked["uri"])
            continue
        print(json.dumps(_record(asked)), file=answers, flush=True)


def _make_ready(uri: str) -> None:
    gc.disable()  # as in evalkit.judges.loading: what an import makes is not garbage
    # What goes wrong goes wrong again when a run is recorded, and is said there.
    with suppress(Exception):
        import_all(uri)
        import evalkit.runs.read  # noqa: F401

        if (file := sqlite_file(uri)) is not None and file.exists():
            MlflowTracker(uri, TrackingConfig()).greet()
    gc.freeze()
    gc.enable()


def _record(asked: Mapping[str, Any]) -> dict[str, str]:
    from evalkit.runs import read_run

    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["standing"])
    try:
        config = TrackingConfig.model_validate(asked["config"])
        tracker = MlflowTracker(asked["uri"], config)
        if "attach" in asked:
            tracker.attach(asked["attach"], [Path(file) for file in asked["files"]])
            return {"run": asked["attach"]}
        result = read_run(Path(asked["folder"]))
        if "renew" in asked:
            tracker.renew(result, asked["renew"])
            return {"run": asked["renew"]}
        return {"run": tracker.record(result)}
    except TrackingError as error:
        return {"error": str(error)}
