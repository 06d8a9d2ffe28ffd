"""The finished jobs of a sweep, by the sweep's folder or its parent run in MLflow."""

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
"""What reads each job of a sweep, by the job's name."""


def find_jobs(word: str, tracking: TrackingConfig, *, folder: Path, scratch: Path) -> Jobs | None:
    """Return the jobs of the sweep that `word` names, or `None` if it does not name a sweep.

    Args:
        word: a sweep's folder, or the id of its parent run in MLflow.
        tracking: the store that holds recorded runs.
        folder: the current folder.
        scratch: the folder for downloads, needed as long as the jobs are.

    Raises:
        ConfigError: if there is no such run.
        TrackingError: if the store cannot be reached.
    """
    place = folder / word
    if place.exists() or not is_run_id(word):
        jobs = {} if (place / layout.MANIFEST).exists() else journal.runs(place)
        return {job: partial(read_run, place / job) for job in jobs} or None
    uri = tracking_uri(tracking, folder)
    runs = job_runs(uri, word)
    if runs is None:
        return None
    return {name: partial(_fetched, uri, run, scratch / run) for name, run in runs.items()}


def _fetched(uri: str, run: str, into: Path) -> RunResult:
    return read_run(fetch_run(uri, run, into))
