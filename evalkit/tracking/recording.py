"""Record finished runs for comparison, at once or in the background.

MLflow is imported only when a run is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from evalkit.config import RunConfig, TrackingConfig
from evalkit.core.errors import ConfigError, TrackingError
from evalkit.runs import write_manifest
from evalkit.runs.results import RunResult
from evalkit.tracking.mlflow_environment import has_surrounding_run
from evalkit.tracking.started_runs import forget, settle, shown_as_running
from evalkit.tracking.tracker_registry import (
    MLFLOW,
    make_tracker,
    mlflow_here,
    mlflow_tracker,
    start_in_background,
)


def warm_up(config: TrackingConfig) -> None:
    """Start a second process that imports MLflow while this one judges, unless
    `tracking.background` is false.
    """
    if config.enabled and config.background and config.tracker == MLFLOW:
        start_in_background(config)


@runtime_checkable
class BackgroundRecording(Protocol):
    """A tracker that can record a run in the background."""

    def begin(self, result: RunResult) -> Callable[[], str]:
        """Begin to record a run; return a function that waits and returns the run's id."""


def running_run(
    config: RunConfig, folder: Path, run_id: str
) -> AbstractContextManager[None]:
    """Show a run at the tracker as running within a block, if the tracker can do that."""
    tracker = make_tracker(config.tracking)
    if (
        tracker is not None
        and config.tracking.tracker == MLFLOW
        and has_surrounding_run()
    ):
        _check_surrounding_run(config.tracking)
    return shown_as_running(tracker, config, folder, run_id)


def _check_surrounding_run(config: TrackingConfig) -> None:
    """Check that the run that $MLFLOW_RUN_ID names can get runs.

    Raises:
        ConfigError: if it cannot: nothing is paid yet.
    """
    try:
        mlflow_here(config).check_surrounding_run()
    except TrackingError as error:
        raise ConfigError(str(error)) from None


def begin_recording(
    config: TrackingConfig, result: RunResult
) -> Callable[[], RunResult]:
    """Begin to record a run; return a function that waits and returns the run with its
    id in the manifest.

    Args:
        config: which tracker records the run; one that cannot work in the background records it at
            once.
        result: the run.

    Raises:
        TrackingError: if the run could not be recorded; the returned function raises it too.
    """
    tracker = make_tracker(config)
    if tracker is None or result.folder is None:
        return lambda: result
    settle(str(result.manifest.get("run_id") or ""))
    if isinstance(tracker, BackgroundRecording):
        wait = tracker.begin(result)
        return lambda: _note_run_id(config, result, wait())
    recorded = _note_run_id(config, result, tracker.record(result))
    return lambda: recorded


def _note_run_id(config: TrackingConfig, result: RunResult, run: str) -> RunResult:
    """Return a result with the tracker's id of its run, and write it to the manifest."""
    name = config.tracker
    where = (
        {"mlflow_run_id": run}
        if name == MLFLOW
        else {"tracked": {"tracker": name, "id": str(run)}}
    )
    recorded = replace(result, manifest={**result.manifest, **where})
    folder = Path(result.folder or "")
    # The id is written before the note of an unfinished recording is removed, so that a crash
    # between them leaves one of the two.
    write_manifest(folder, recorded.manifest)
    forget(folder)
    return recorded


def register_prompt(
    config: TrackingConfig, name: str, text: str, tags: Mapping[str, str]
) -> str:
    """Register a prompt in MLflow, and return its name and version; empty if runs are
    not recorded there.

    Args:
        config: which tracker records runs.
        name: the name of the prompt.
        text: its text.
        tags: tags of the version.

    Raises:
        TrackingError: if it could not be sent.
    """
    if not config.enabled or config.tracker != MLFLOW:
        return ""
    return mlflow_here(config).register(name, text, tags)


def update_gate(config: TrackingConfig, result: RunResult) -> None:
    """Update the outcome of a run's gate in MLflow, if the run was recorded there.

    Args:
        config: which tracker recorded the run.
        result: the run with its gate.

    Raises:
        TrackingError: if the update could not be sent.
    """
    run = result.manifest.get("mlflow_run_id")
    if run and config.enabled and config.tracker == MLFLOW:
        mlflow_tracker(config).renew(result, str(run))
