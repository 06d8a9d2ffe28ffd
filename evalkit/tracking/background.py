"""Record runs in a second process, which imports MLflow while this process judges.

The recording process reads one JSON request per line from standard input and writes one JSON reply
per line to standard output. When its input ends, for whatever reason, it finishes the current
recording and exits. The run folder is complete before a recording begins, so `evalkit track` can
send a run that was lost.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from evalkit.config import RunConfig, TrackingConfig
from evalkit.core.errors import TrackingError
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.runs.results import RunResult
from evalkit.tracking.connection import import_all, sqlite_file
from evalkit.tracking.mlflow_tracker import MlflowTracker

LARGEST = 20_000
"""The most judgments of a run that the recording process reads; larger runs are recorded in this
process."""
_CODE = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from evalkit.tracking.background import main; main()"
)


@dataclass(eq=False, slots=True)
class RecorderReply:
    """The reply to one request: `None` until it arrives, or if the recording process has ended."""

    content: dict[str, str] | None = None


class Worker:
    """A recording process, which ends when this process ends, for whatever reason."""

    def __init__(self, uri: str) -> None:
        self.owner = os.getpid()
        self._lock = Lock()
        self._pending: deque[RecorderReply] = (
            deque()
        )  # replies come in the order of the requests
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # otherwise Ctrl-C ends it before it ignores SIGINT
        )
        self._write({"uri": uri})
        atexit.register(self.close)

    @property
    def runs(self) -> bool:
        """Whether the process is alive and belongs to this process, not to a parent
        that was forked.
        """
        return self.owner == os.getpid() and self._process.poll() is None

    def send(
        self, tracker: MlflowTracker, action: str, **arguments: Any
    ) -> RecorderReply:
        """Send a request to call the method `action` of a tracker; `end` waits for the reply."""
        # The process was started earlier: each job of a sweep may have another folder and other
        # variables.
        context = {"environment": dict(os.environ), "cwd": str(Path.cwd())}
        config = tracker.config.model_dump(mode="json")
        with self._lock:
            self._write(
                {
                    "uri": tracker.uri,
                    "config": config,
                    "action": action,
                    **arguments,
                    **context,
                }
            )
            self._pending.append(RecorderReply())
            return self._pending[-1]

    def end(self, reply: RecorderReply) -> str | None:
        """Return the MLflow run id of a request, or `None` if the recording process has ended.

        Raises:
            TrackingError: if the request failed.
        """
        with self._lock:
            # Replies come in order, so those before this one are read first and kept for their
            # own callers.
            while reply in self._pending:
                self._receive()
        # The process has ended: the caller records the run in this process instead.
        if reply.content is None:
            self.close()
            return None
        if "error" in reply.content:
            raise TrackingError(reply.content["error"])
        return str(reply.content["run"])

    def _receive(self) -> None:
        """Wait for the first pending reply."""
        pending = self._pending.popleft()
        try:
            pending.content = self._read()
        except BaseException:
            pending.content = {
                "error": (
                    "interrupted before the run was recorded in MLflow: `evalkit track` sends it"
                    " later"
                )
            }
            self.close()  # otherwise its reply would be taken for the next one
            raise

    def close(self) -> None:
        """End the process. Nothing is lost, because every recording is waited for."""
        # A fork has a copy of this object, but the process belongs to its parent.
        if self.owner != os.getpid():
            return
        atexit.unregister(self.close)
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # unread requests do not matter
                    pipe.close()

    def _write(self, request: JsonObject) -> None:
        assert self._process.stdin is not None
        with suppress(
            OSError, ValueError
        ):  # the process has ended: its reply will be missing
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def _read(self) -> dict[str, str] | None:
        assert self._process.stdout is not None
        try:
            reply: dict[str, str] = json.loads(self._process.stdout.readline())
        except ValueError:
            return None
        return reply


@frozen
class BackgroundTracker:
    """Record runs in the recording process, or in this process if that has ended or the
    run is large.
    """

    recorder: Worker
    here: MlflowTracker

    def record(self, result: RunResult) -> str:
        """Record a run and return its MLflow run id.

        Raises:
            TrackingError: if it could not be recorded; the run folder is complete anyway.
        """
        return self.begin(result)()

    def begin(self, result: RunResult) -> Callable[[], str]:
        """Begin to record a run in the background; return a function that waits and
        returns the MLflow run id.

        A run that cannot be recorded in the background is recorded at once. If the recording
        process ends first, the returned function records the run.

        Raises:
            TrackingError: if the run could not be recorded; the returned function raises it too.
        """
        # The recording process reads the run from its folder, and would need the memory a second
        # time.
        if result.folder is None or len(result.judgments) > LARGEST:
            run = self.here.record(result)
            return lambda: run
        reply = self.recorder.send(self.here, "record", folder=result.folder)
        return lambda: self.recorder.end(reply) or self.here.record(result)

    def start(self, config: RunConfig, run_id: str) -> None:
        """Ask the recording process to create a run that is running; nothing is waited for."""
        self.recorder.send(self.here, "start", study=config.dump(), identity=run_id)

    def end(self, run_id: str, status: str) -> None:
        """End a started run that is not recorded.

        Raises:
            TrackingError: if that could not be sent.
        """
        sent = self.recorder.send(self.here, "end", identity=run_id, status=status)
        if self.recorder.end(sent) is None:
            self.here.end(run_id, status)

    def renew(self, result: RunResult, run: str) -> None:
        """Update a recorded run after its gate was decided again.

        Raises:
            TrackingError: if the update could not be sent.
        """
        sent = result.folder and self.recorder.send(
            self.here, "renew", folder=result.folder, run=run
        )
        if not (sent and self.recorder.end(sent)):
            self.here.renew(result, run)

    def attach(self, run: str, files: Sequence[Path]) -> None:
        """Log files with the parent run of the sweep that `run` is a job of.

        Raises:
            TrackingError: if they could not be sent; they remain where they are.
        """
        sent = self.recorder.send(
            self.here, "attach", run=run, files=[str(file) for file in files]
        )
        if not self.recorder.end(sent):
            self.here.attach(run, files)


# Of the process: whether MLflow is imported is, and every job of a sweep records with the same
# worker.
_recorder: Worker | None = None
_starting = Lock()


def start(uri: str) -> None:
    """Start the recording process, unless there is one or this process has already
    imported MLflow.
    """
    global _recorder
    with _starting:
        if (
            "mlflow" in sys.modules
            or not sys.executable
            or (_recorder is not None and _recorder.runs)
        ):
            return
        with suppress(OSError):  # no process: MLflow is imported here later
            _recorder = Worker(uri)


def running() -> Worker | None:
    """Return the recording process, or `None`; it is closed once this process has
    imported MLflow.
    """
    if _recorder is None or not _recorder.runs:
        return None
    if "mlflow" in sys.modules:
        # The import is paid for here by now, so a second process has no use.
        _recorder.close()
        return None
    return _recorder


def main() -> None:
    """Handle each request on standard input, one per line, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles Ctrl-C
    # MLflow may print to standard output, which would corrupt the replies.
    # Replies get a descriptor of their own; what MLflow prints then goes to standard error.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    started: dict[str, Json] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "action" not in request:
            _warm_up(request["uri"])
            continue
        reply = _handle_request(request)
        _note_started(started, request, reply)
        with suppress(BrokenPipeError):
            print(json.dumps(reply), file=replies, flush=True)
    # Without an end, the main process was killed.
    for identity, request in started.items():
        _handle_request(
            {**request, "action": "end", "identity": identity, "status": "KILLED"}
        )


def _note_started(
    started: dict[str, Json], request: Json, reply: Mapping[str, str]
) -> None:
    """Note the runs that were started and have not ended, with the request that started each."""
    identity = str(request.get("identity") or reply.get("identity") or "")
    if request["action"] == "start":
        started[identity] = request
    elif "error" not in reply:
        started.pop(identity, None)


def _warm_up(uri: str) -> None:
    gc.disable()  # imports create no garbage
    # An error here occurs again, and is reported, when a run is recorded.
    with suppress(Exception):
        import_all(uri)
        import evalkit.runs.read  # noqa: F401

        if (file := sqlite_file(uri)) is not None and file.exists():
            MlflowTracker(uri, TrackingConfig()).greet()
    gc.freeze()
    gc.enable()


def _handle_request(request: Json) -> dict[str, str]:
    """Do what another process asked of MLflow, and return the run or an error."""
    from evalkit.runs import read_run

    # As in the process that asks: MLflow reads its settings from the environment.
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    tracker = MlflowTracker(
        request["uri"], TrackingConfig.model_validate(request["config"])
    )
    run = request.get("run", "")
    try:
        match request["action"]:
            case "start":
                study = RunConfig.model_validate(request["study"])
                tracker.start(study, request["identity"])
            case "end":
                tracker.end(request["identity"], request["status"])
            case "attach":
                tracker.attach(run, [Path(file) for file in request["files"]])
            case "renew":
                tracker.renew(read_run(Path(request["folder"])), run)
            case _:
                result = read_run(Path(request["folder"]))
                run = tracker.record(result)
                return {"run": run, "identity": str(result.manifest.get("run_id"))}
    except TrackingError as error:
        return {"error": str(error)}
    return {"run": run}
