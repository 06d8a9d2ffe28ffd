"""Find a finished run by its folder or its MLflow run id."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.config import TrackingConfig
from evalkit.core.redaction import without_password
from evalkit.errors import ConfigError, TrackingError
from evalkit.runs import read_run
from evalkit.tracking.connection import mlflow_errors, open_client
from evalkit.tracking.location import sqlite_file, tracking_uri
from evalkit.tracking.parent_runs import PARENT, ROLE
from evalkit.types import RunResult

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


_REMEDY = "name a run folder, or set tracking.uri to the store that holds it"
_RUN_ID = re.compile(r"[0-9a-f]{32}")


def is_run_id(word: str) -> bool:
    """Return whether a word looks like an MLflow run id."""
    return bool(_RUN_ID.fullmatch(word))


def fetch_run(uri: str, run_id: str, into: Path) -> Path:
    """Download the recorded folder of the run `run_id` into a folder, and return its path.

    Raises:
        ConfigError: if the store has no such run, or the run has no run folder.
        TrackingError: if the store cannot be reached.
    """
    with _fetch_errors(uri, run_id):
        folder = Path(_download(uri, run_id, into))
    if not (folder / "manifest.json").is_file():
        raise ConfigError("has no run folder", where=f"MLflow run {run_id}", remedy="name a run that evalkit recorded")
    return folder


def job_runs(uri: str, run_id: str) -> dict[str, str] | None:
    """Return the MLflow run id of each job of a sweep by the job's name; `None` if `run_id` is not a parent run.

    Raises:
        ConfigError: if the store has no such run.
        TrackingError: if the store cannot be reached.
    """
    with _fetch_errors(uri, run_id):
        client = open_client(uri)
        run = _run(client, uri, run_id)
        if run.data.tags.get(ROLE) != "sweep":
            return None
        found = client.search_runs(
            [run.info.experiment_id], filter_string=f"tags.`{PARENT}` = '{run_id}'", max_results=5_000
        )
    jobs = sorted(found, key=lambda job: (job.info.start_time, job.info.run_id))
    names = [str(job.info.run_name) for job in jobs]
    return {
        name if names.count(name) == 1 else f"{name} ({job.info.run_id})": str(job.info.run_id)
        for name, job in zip(names, jobs, strict=True)
    }


def _download(uri: str, run_id: str, into: Path) -> str:
    client = open_client(uri)
    _run(client, uri, run_id)
    into.mkdir(parents=True, exist_ok=True)
    return str(client.download_artifacts(run_id, "", str(into)))


def _run(client: MlflowClient, uri: str, run_id: str) -> Run:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_run(run_id)
    except MlflowException as problem:
        if problem.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise ConfigError(
            "no such run",
            where=f"MLflow run {run_id} in {without_password(uri)}",
            remedy=_REMEDY,
        ) from None


def _fetch_errors(uri: str, run_id: str) -> AbstractContextManager[None]:
    """Turn any error inside the block into one line, and a store that does not exist."""
    place = without_password(uri)
    if (file := sqlite_file(uri)) is not None and not file.is_file():
        raise ConfigError(
            "no such run, since this database does not exist", where=f"MLflow run {run_id} in {uri}", remedy=_REMEDY
        )
    return mlflow_errors(lambda cause: TrackingError(f"{place}: run {run_id} could not be fetched: {cause}"))


def find_run(word: str, tracking: TrackingConfig, *, folder: Path, scratch: Path) -> RunResult:
    """Return the run with this name.

    Args:
        word: a run folder, or the id of a run at MLflow.
        tracking: which store holds recorded runs.
        folder: where relative stores start.
        scratch: a folder for downloads, which must exist as long as the run is used.

    Raises:
        ConfigError: if there is no such run, or it is damaged.
        TrackingError: if it must be fetched and the store cannot be reached.
    """
    if (folder / word).exists() or not is_run_id(word):
        return read_run(folder / word)
    return read_run(fetch_run(tracking_uri(tracking, folder), word, scratch / word))
