"""Record finished runs for comparison. MLflow is imported only when a run is recorded."""

from __future__ import annotations

from inspect import isclass
from pathlib import Path
from typing import cast

from evalkit.config import TrackingConfig
from evalkit.core.third_party import Guarded
from evalkit.errors import PluginError, TrackingError
from evalkit.plugins import TRACKERS, construct, find
from evalkit.results import Tracker
from evalkit.tracking.connection import VIEW, check_tracking, server_environment, tracking_uri
from evalkit.tracking.fetch import dataset_fetchers, fetch_run, find_run, is_run_id, job_runs

__all__ = [
    "VIEW",
    "check_tracking",
    "dataset_fetchers",
    "fetch_run",
    "find_run",
    "is_run_id",
    "job_runs",
    "make_tracker",
    "server_environment",
    "tracking_uri",
    "warm_up",
]


MLFLOW = "mlflow"


def make_tracker(config: TrackingConfig, *, folder: Path) -> Tracker | None:
    """Return the configured tracker, or `None` if tracking is off. Relative paths start from `folder`.

    Raises:
        PluginError: if `tracking.tracker` names no tracker.
    """
    if not config.enabled:
        return None
    if config.tracker != MLFLOW:
        return _own(config)
    from evalkit.tracking.background import BackgroundTracker, running
    from evalkit.tracking.mlflow_tracker import MlflowTracker

    here = MlflowTracker(tracking_uri(config, folder), config)
    recorder = running() if config.background else None
    return here if recorder is None else BackgroundTracker(recorder, here)


def warm_up(config: TrackingConfig, *, folder: Path) -> None:
    """Start a second process that imports MLflow while this one judges, unless `tracking.background` is false."""
    if config.enabled and config.background and config.tracker == MLFLOW:
        from evalkit.tracking.background import start

        start(tracking_uri(config, folder))


def _own(config: TrackingConfig) -> Tracker:
    where = "tracking.tracker"
    ours = {MLFLOW: "evalkit.tracking.mlflow_tracker:MlflowTracker"}
    found = find(TRACKERS, config.tracker, ours, where=where, methods=("record",))
    if not (isclass(found) and issubclass(found, Tracker)):
        raise PluginError(
            f"'{config.tracker}' is not a tracker", where=where, remedy="name a class with a method `record`"
        )
    tracker = construct(found, config, name=config.tracker, where=where)
    return cast("Tracker", Guarded(tracker, TrackingError, f"tracking.tracker '{config.tracker}' failed"))
