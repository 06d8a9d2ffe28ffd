"""A run that is complete on disk, told to its tracker: at once, or while something else is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from evalkit.config import TrackingConfig
from evalkit.runs import write_manifest
from evalkit.tracking import MLFLOW, make_tracker
from evalkit.types import RunResult


@runtime_checkable
class BackgroundRecording(Protocol):
    """A tracker that can record a run while something else is done."""

    def begin(self, result: RunResult) -> Callable[[], str]:
        """Begin to record a run; what is returned waits for that and returns the run's id."""


def begin_recording(config: TrackingConfig, result: RunResult, *, folder: Path) -> Callable[[], RunResult]:
    """Begin to record a run; what is returned waits for that and returns the run with its id in the manifest.

    A tracker that cannot do so records it at once. `folder` is where one stands.

    Raises:
        TrackingError: if it could not be recorded; what is returned raises it too.
    """
    tracker = make_tracker(config, folder=folder)
    if tracker is None or result.folder is None:
        return lambda: result
    if isinstance(tracker, BackgroundRecording):
        wait = tracker.begin(result)
        return lambda: _noted(config, result, wait())
    recorded = _noted(config, result, tracker.record(result))
    return lambda: recorded


def _noted(config: TrackingConfig, result: RunResult, run: str) -> RunResult:
    name = config.tracker
    where = {"mlflow_run_id": run} if name == MLFLOW else {"tracked": {"tracker": name, "id": str(run)}}
    recorded = replace(result, manifest={**result.manifest, **where})
    write_manifest(Path(result.folder or ""), recorded.manifest)
    return recorded


@runtime_checkable
class GateTracker(Protocol):
    """A tracker whose runs say what became of their gates."""

    def renew(self, result: RunResult, run: str) -> None:
        """Bring the run of this id up to date with a result whose gate was decided anew."""


def update_gate(config: TrackingConfig, result: RunResult, *, folder: Path) -> None:
    """Tell MLflow what became of a run's gate, if the run was recorded there; `folder` is where one stands.

    Raises:
        TrackingError: if that could not be sent.
    """
    run = result.manifest.get("mlflow_run_id")
    tracker = make_tracker(config, folder=folder) if run and config.tracker == MLFLOW else None
    if isinstance(tracker, GateTracker):
        tracker.renew(result, str(run))
