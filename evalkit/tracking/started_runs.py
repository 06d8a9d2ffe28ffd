"""Show a run at the tracker while it is judged, and end it there if it fails or is killed.

Nothing here delays or fails a run: a tracker is asked in the background, and its errors show when
the run is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Final, Protocol, runtime_checkable

from evalkit.config import RunConfig
from evalkit.core.atomic_files import write_file
from evalkit.core.errors import EvalkitError
from evalkit.core.regular_files import read_text
from evalkit.runs.results import Tracker

NAME: Final = ".running"
"""The file of a run folder with the identity of the run that is shown as running."""
_IDENTITY: Final = re.compile(r"[0-9a-f]{32}")
_PATIENCE: Final = 5.0
"""How many seconds to wait for a tracker to end a run."""
FAILED: Final = "FAILED"
KILLED: Final = "KILLED"


@runtime_checkable
class StartingTracker(Protocol):
    """What a tracker also has if it shows runs while they are judged."""

    def start(self, config: RunConfig, run_id: str) -> None:
        """Show a run as running; `record` later gets the same `run_id` in the manifest.

        It is called in the background. An error is ignored: the run is recorded at the end.
        """


@runtime_checkable
class EndingTracker(Protocol):
    """What a tracker also has if started runs can end without being recorded."""

    def end(self, run_id: str, status: str) -> None:
        """End a started run as `FAILED` or `KILLED`."""


# The threads of runs that are being started, until they are recorded or end.
_threads: dict[str, Thread] = {}


@contextmanager
def shown_as_running(
    tracker: Tracker | None, config: RunConfig, folder: Path, run_id: str
) -> Iterator[None]:
    """Show a run as running inside the block; an error ends it as failed, and an
    interruption as killed.

    A run that an earlier process in this folder left is ended as killed.

    Args:
        tracker: The tracker; `None` without tracking.
        config: The config of the run.
        folder: The run folder, which this process has claimed.
        run_id: The identity of the run.
    """
    if tracker is None or not isinstance(tracker, StartingTracker):
        yield
        return
    earlier_run = _left(folder)
    with suppress(OSError):
        write_file(folder / NAME, [run_id.encode()])

    def begin() -> None:
        if earlier_run is not None and isinstance(tracker, EndingTracker):
            tracker.end(earlier_run, KILLED)
        tracker.start(config, run_id)

    _threads[run_id] = _in_background(begin)
    try:
        yield
    except Exception:
        _end(tracker, folder, run_id, FAILED)
        raise
    except BaseException:
        _end(tracker, folder, run_id, KILLED)
        raise


def settle(run_id: str) -> None:
    """Wait until a run is started, before it is recorded."""
    thread = _threads.pop(run_id, None)
    if thread is not None:
        thread.join(_PATIENCE)


def forget(folder: Path) -> None:
    """Remove the note that a run is shown as running, once it is recorded."""
    with suppress(OSError):
        (folder / NAME).unlink(missing_ok=True)


def _end(tracker: Tracker, folder: Path, run_id: str, status: str) -> None:
    settle(run_id)
    if isinstance(tracker, EndingTracker):
        ending = tracker
        thread = _in_background(lambda: ending.end(run_id, status))
        thread.join(_PATIENCE)
        if thread.is_alive():
            return  # the next command in the folder ends it
    forget(folder)


def _in_background(work: Callable[[], None]) -> Thread:
    """Do something in a thread; errors of the tracker show when the run is recorded."""

    def attempt() -> None:
        with suppress(EvalkitError, OSError):
            work()

    thread = Thread(target=attempt, name="evalkit-tracker", daemon=True)
    thread.start()
    return thread


def _left(folder: Path) -> str | None:
    """Return the identity of the run that an earlier process in this folder left as running."""
    with suppress(OSError, ValueError):
        text = read_text(folder / NAME, "ascii")
        if _IDENTITY.fullmatch(text):
            return text
    return None
