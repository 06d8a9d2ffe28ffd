"""A recorded run's folder, back from the tracker."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

from evalkit.errors import ConfigError, TrackingError
from evalkit.tracking.connection import open_client
from evalkit.tracking.location import without_password

_RUN_ID = re.compile(r"[0-9a-f]{32}")


def is_run_id(word: str) -> bool:
    """Say whether a word looks like an MLflow run id."""
    return bool(_RUN_ID.fullmatch(word))


def fetch_run(uri: str, run_id: str, into: Path) -> Path:
    """Download the run folder that was recorded as `run_id` into a folder, and return where it stands.

    Raises:
        ConfigError: if the store has no such run, or the run no run folder.
        TrackingError: if the store cannot be reached.
    """
    place = without_password(uri)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            folder = Path(_download(uri, run_id, into))
    except ConfigError:
        raise
    except Exception as problem:
        reason = without_password(" ".join((str(problem) or type(problem).__name__).split()))[:300]
        raise TrackingError(f"{place}: run {run_id} could not be fetched: {reason}") from problem
    if not (folder / "manifest.json").is_file():
        raise ConfigError(
            "holds no run folder", where=f"MLflow run {run_id}", remedy="name a run that evalkit recorded"
        )
    return folder


def _download(uri: str, run_id: str, into: Path) -> str:
    client = open_client(uri)
    from mlflow.exceptions import MlflowException

    try:
        client.get_run(run_id)
    except MlflowException as problem:
        if problem.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise ConfigError(
            "no such run",
            where=f"MLflow run {run_id} in {without_password(uri)}",
            remedy="name a run folder, or set tracking.uri to the store that holds it",
        ) from None
    into.mkdir(parents=True, exist_ok=True)
    return str(client.download_artifacts(run_id, "", str(into)))
