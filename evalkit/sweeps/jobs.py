"""Find the finished jobs of a sweep, by its folder or its parent run in MLflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from evalkit.config import TrackingConfig
from evalkit.runs import layout, read_run
from evalkit.sweeps import journal
from evalkit.tracking import fetch_run, is_run_id, job_runs, tracking_uri
from evalkit.types import RunResult

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
