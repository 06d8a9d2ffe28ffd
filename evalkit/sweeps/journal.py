"""Record a sweep's state in its folder, so that an interrupted sweep can be resumed.

`sweep.json` lists the jobs by the hashes of their configs, and is closed when all of them are finished. A repeated
sweep resumes in the newest folder that lists the same jobs, is not closed, and is not locked by another process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from evalkit.config import TrackingConfig
from evalkit.errors import ConfigError
from evalkit.results import RunResult
from evalkit.runs import layout, read_run, remove_files, write_files, written_files
from evalkit.runs.folders import RunStatus, read_status
from evalkit.sweeps import journal
from evalkit.tracking import fetch_run, is_run_id, job_runs, tracking_uri

NAME: Final = layout.SWEEP
DERIVED: Final = (NAME, "leaderboard.json", "leaderboard.csv", "report.html", "reproduction.json")
_LOCK: Final = ".sweep.lock"
_MAX_FOLDERS: Final = 100  # the newest ones


def interrupted(root: Path, hashes: Sequence[str]) -> Path | None:
    """Return the newest unfinished sweep of exactly these jobs in `root/DATE/TIME`; `None` if there is none."""
    folders = sorted((path.parent for path in root.glob(f"*/*/{NAME}")), reverse=True)
    for folder in folders[:_MAX_FOLDERS]:
        state = _read(folder / NAME)
        if state.get("jobs") == list(hashes) and state.get("ended") is None and not _is_locked(folder):
            return folder
    return None


@contextmanager
def begun(folder: Path, hashes: Sequence[str]) -> Iterator[None]:
    """Record the start of a sweep in its folder, and lock the folder within the block.

    Raises:
        ConfigError: If the folder cannot be written.
    """
    started = _read(folder / NAME).get("started") or datetime.now(UTC).isoformat()
    _write(folder, {"jobs": list(hashes), "started": started, "ended": None})
    with _locked(folder):
        yield


def end(folder: Path) -> None:
    """Record that every job of a sweep is finished."""
    _write(folder, {**_read(folder / NAME), "ended": datetime.now(UTC).isoformat()})


def check_free(folder: Path, hashes: Sequence[str] | None, *, overwrite: bool = False) -> None:
    """Check that a sweep's folder has no runs except finished jobs of these configs.

    Args:
        folder: The sweep's folder.
        hashes: The config hashes of the jobs; `None` if they are unknown.
        overwrite: Whether to remove other jobs, and the files derived from them, instead of raising an error.

    Raises:
        ConfigError: If the folder has other jobs, or is a run folder.
    """
    if (folder / layout.MANIFEST).exists():
        raise ConfigError("contains a run", where=str(folder), remedy="choose another folder with hydra.sweep.dir")
    if hashes is None and not overwrite:
        return  # the sweeper chooses the jobs one by one, so each job checks its own folder
    others = [job for job, run in runs(folder).items() if not _is_job(job, run.config_hash, hashes)]
    if not others:
        return
    if not overwrite:
        remedy = "choose another folder with hydra.sweep.dir, or add --overwrite to replace it"
        raise ConfigError(f"contains another sweep (job {others[0]})", where=str(folder), remedy=remedy)
    for job in others:
        remove_files(folder / job, written_files(folder / job))
        with suppress(OSError):
            (folder / job).rmdir()
    remove_files(folder, DERIVED)


def _is_job(job: str, config_hash: str, hashes: Sequence[str] | None) -> bool:
    if hashes is None:
        return False
    number = int(job) if job.isdigit() else None
    return config_hash in hashes if number is None else number < len(hashes) and hashes[number] == config_hash


def runs(folder: Path) -> dict[str, RunStatus]:
    """Return the runs in a sweep's folder by the names of their folders, in numerical order."""
    found = {str(path.parent.relative_to(folder)): read_status(path.parent) for path in folder.glob("**/manifest.json")}
    return dict(sorted(found.items(), key=lambda item: (int(item[0]) if item[0].isdigit() else -1, item[0])))


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        content = json.loads(path.read_bytes())
        return content if isinstance(content, dict) else {}
    return {}


def _write(folder: Path, state: Mapping[str, Any]) -> None:
    try:
        write_files(folder, {NAME: json.dumps(state, indent=1) + "\n"})
    except ConfigError as error:
        raise ConfigError(error.what, where=error.where, remedy="choose another folder with hydra.sweep.dir") from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # Windows does not have it: resume a sweep there by naming its folder
        yield
        return
    path = folder / _LOCK
    with path.open("a") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _is_locked(folder: Path) -> bool:
    try:
        import fcntl
    except ImportError:
        return True
    try:
        with (folder / _LOCK).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


Jobs = Mapping[str, Callable[[], RunResult]]
"""Readers of a sweep's jobs, by job name."""


def find_jobs(word: str, tracking: TrackingConfig, *, folder: Path, scratch: Path) -> Jobs | None:
    """Return the jobs of the sweep that `word` names, or `None` if it does not name a sweep.

    Args:
        word: A sweep's folder, or the id of its parent run in MLflow.
        tracking: The tracking server with the recorded runs.
        folder: The current folder.
        scratch: A folder for downloads, which must exist as long as the jobs are used.

    Raises:
        ConfigError: If there is no such run.
        TrackingError: If the tracking server is not reachable.
    """
    path = folder / word
    if path.exists() or not is_run_id(word):
        jobs = {} if (path / layout.MANIFEST).exists() else journal.runs(path)
        return {job: partial(read_run, path / job) for job in jobs} or None
    uri = tracking_uri(tracking, folder)
    runs = job_runs(uri, word)
    if runs is None:
        return None
    return {name: partial(_fetch, uri, run, scratch / run) for name, run in runs.items()}


def _fetch(uri: str, run: str, into: Path) -> RunResult:
    return read_run(fetch_run(uri, run, into))
