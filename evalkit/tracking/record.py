"""Record a run that is complete on disk, at once or in the background."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from evalkit.config import TrackingConfig
from evalkit.results import RunResult
from evalkit.runs import write_manifest
from evalkit.tracking import MLFLOW, make_tracker


@runtime_checkable
class BackgroundRecording(Protocol):
    """A tracker that can record a run in the background."""

    def begin(self, result: RunResult) -> Callable[[], str]:
        """Begin to record a run; return a function that waits and returns the run's id."""


def begin_recording(config: TrackingConfig, result: RunResult, *, folder: Path) -> Callable[[], RunResult]:
    """Begin to record a run; return a function that waits and returns the run with its id in the manifest.

    Args:
        config: which tracker records the run; one that cannot work in the background records it at once.
        result: the run.
        folder: where relative stores start.

    Raises:
        TrackingError: if the run could not be recorded; the returned function raises it too.
    """
    tracker = make_tracker(config, folder=folder)
    if tracker is None or result.folder is None:
        return lambda: result
    if isinstance(tracker, BackgroundRecording):
        wait = tracker.begin(result)
        return lambda: _with_run_id(config, result, wait())
    recorded = _with_run_id(config, result, tracker.record(result))
    return lambda: recorded


def _with_run_id(config: TrackingConfig, result: RunResult, run: str) -> RunResult:
    name = config.tracker
    where = {"mlflow_run_id": run} if name == MLFLOW else {"tracked": {"tracker": name, "id": str(run)}}
    recorded = replace(result, manifest={**result.manifest, **where})
    write_manifest(Path(result.folder or ""), recorded.manifest)
    return recorded


@runtime_checkable
class GateTracker(Protocol):
    """A tracker that can update the outcome of a run's gate."""

    def renew(self, result: RunResult, run: str) -> None:
        """Update the run `run` after its gate was decided again."""


def update_gate(config: TrackingConfig, result: RunResult, *, folder: Path) -> None:
    """Update the outcome of a run's gate in MLflow, if the run was recorded there.

    Args:
        config: which tracker recorded the run.
        result: the run with its gate.
        folder: where relative stores start.

    Raises:
        TrackingError: if the update could not be sent.
    """
    run = result.manifest.get("mlflow_run_id")
    tracker = make_tracker(config, folder=folder) if run and config.tracker == MLFLOW else None
    if isinstance(tracker, GateTracker):
        tracker.renew(result, str(run))
