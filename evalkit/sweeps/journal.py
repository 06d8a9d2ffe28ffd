"""What a sweep notes in its folder, so that it can be gone on with when it was interrupted.

`sweep.json` lists the jobs by the hashes of their configs, and is closed when all of them are finished. A sweep that is
repeated goes on in the newest folder that lists the same jobs, is not closed, and is locked by no process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from evalkit.errors import ConfigError
from evalkit.runs import layout, remove_files, write_files, written_files
from evalkit.runs.status import RunStatus, read_status

NAME: Final = layout.SWEEP
DERIVED: Final = (NAME, "leaderboard.json", "leaderboard.csv", "report.html", "reproduction.json")
_LOCK: Final = ".sweep.lock"
_LOOKED_AT: Final = 100  # folders, the newest first


def interrupted(root: Path, hashes: Sequence[str]) -> Path | None:
    """Return the newest sweep under `root` (at DATE/TIME) of just these jobs begun and not finished, if any."""
    folders = sorted((path.parent for path in root.glob(f"*/*/{NAME}")), reverse=True)
    for folder in folders[:_LOOKED_AT]:
        noted = _read(folder / NAME)
        if noted.get("jobs") == list(hashes) and noted.get("ended") is None and not _is_locked(folder):
            return folder
    return None


@contextmanager
def begun(folder: Path, hashes: Sequence[str]) -> Iterator[None]:
    """Note a sweep in its folder, and hold the folder's lock meanwhile.

    Raises:
        ConfigError: if the folder cannot be written.
    """
    started = _read(folder / NAME).get("started") or datetime.now(UTC).isoformat()
    _write(folder, {"jobs": list(hashes), "started": started, "ended": None})
    with _locked(folder):
        yield


def end(folder: Path) -> None:
    """Note that every job of a sweep is finished."""
    _write(folder, {**_read(folder / NAME), "ended": datetime.now(UTC).isoformat()})


def check_free(folder: Path, hashes: Sequence[str] | None, *, overwrite: bool = False) -> None:
    """Check that a sweep's folder holds no run but finished jobs of these configs; `hashes` is `None` if unknown.

    With `overwrite`, remove other jobs instead, and what is derived from them.

    Raises:
        ConfigError: if it holds other jobs, or is itself a run folder.
    """
    if (folder / layout.MANIFEST).exists():
        raise ConfigError("holds a run", where=str(folder), remedy="choose another folder with hydra.sweep.dir")
    if hashes is None and not overwrite:
        return  # the sweeper chooses jobs as it goes, so each job checks its own folder
    others = [job for job, run in runs(folder).items() if not _is_job(job, run.config_hash, hashes)]
    if not others:
        return
    if not overwrite:
        remedy = "choose another folder with hydra.sweep.dir, or add --overwrite to replace it"
        raise ConfigError(f"holds another sweep (job {others[0]})", where=str(folder), remedy=remedy)
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
    """Return the runs in a sweep's folder by their folders' names, numbers in their order."""
    found = {str(path.parent.relative_to(folder)): read_status(path.parent) for path in folder.glob("**/manifest.json")}
    return dict(sorted(found.items(), key=lambda item: (int(item[0]) if item[0].isdigit() else -1, item[0])))


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_bytes())
        return found if isinstance(found, dict) else {}
    return {}


def _write(folder: Path, noted: Mapping[str, Any]) -> None:
    try:
        write_files(folder, {NAME: json.dumps(noted, indent=1) + "\n"})
    except ConfigError as error:
        raise ConfigError(error.what, where=error.where, remedy="give another hydra.sweep.dir") from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # Windows has none: there a sweep is gone on with by naming its folder
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
