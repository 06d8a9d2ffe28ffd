"""What MLflow's own environment variables say about where a run is recorded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from evalkit.config import TrackingConfig
from evalkit.core.errors import TrackingError
from evalkit.core.redaction import without_password

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

EXPERIMENT: Final = "MLFLOW_EXPERIMENT_NAME"
RUN: Final = "MLFLOW_RUN_ID"
DEFAULT_EXPERIMENT: Final = "evalkit"
_OPEN: Final = ("RUNNING", "SCHEDULED")
"""The states of a run that can still get jobs."""


def experiment_name(config: TrackingConfig) -> str:
    """Return the experiment's name: `tracking.experiment`, else
    $MLFLOW_EXPERIMENT_NAME, else `evalkit`.
    """
    return config.experiment or os.environ.get(EXPERIMENT) or DEFAULT_EXPERIMENT


def has_surrounding_run() -> bool:
    """Return whether $MLFLOW_RUN_ID names a run to record under."""
    return bool(os.environ.get(RUN))


def surrounding_run(
    client: MlflowClient, uri: str, config: TrackingConfig
) -> Run | None:
    """Return the run that $MLFLOW_RUN_ID names, which becomes the parent of recorded runs.

    Args:
        client: A client of the store.
        uri: The store, for errors.
        config: An experiment that it names must be that of the run.

    Raises:
        TrackingError: If the store has no such run, the run has ended, or it belongs to another
            experiment than the configured one.
    """
    run_id = os.environ.get(RUN)
    if not run_id:
        return None
    run = _find_run(client, uri, run_id)
    if run.info.lifecycle_stage == "deleted" or run.info.status not in _OPEN:
        is_deleted = run.info.lifecycle_stage == "deleted"
        state = "DELETED" if is_deleted else run.info.status
        raise TrackingError(
            f"{RUN}: run {run_id} has ended ({state}); unset {RUN}, or start a new run"
        )
    experiment = client.get_experiment(run.info.experiment_id).name
    if config.experiment is not None and config.experiment != experiment:
        raise TrackingError(
            f"{RUN}: run {run_id} is in the experiment '{experiment}', but tracking.experiment is"
            f" '{config.experiment}'; set only one of them"
        )
    return run


def _find_run(client: MlflowClient, uri: str, run_id: str) -> Run:
    """Return the run that is named in the environment.

    Raises:
        TrackingError: if the store has no such run.
    """
    from mlflow.exceptions import MlflowException

    try:
        return client.get_run(run_id)
    except MlflowException as problem:
        if problem.error_code not in (
            "RESOURCE_DOES_NOT_EXIST",
            "INVALID_PARAMETER_VALUE",
        ):
            raise
    raise TrackingError(
        f"{RUN}: {without_password(uri)} has no run {run_id}; unset {RUN}, or set"
        " MLFLOW_TRACKING_URI to its store"
    )
