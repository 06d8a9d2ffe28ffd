"""What became of a recorded run since: it was held against another gate."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from evalkit.config import TrackingConfig
from evalkit.tracking import MLFLOW, make_tracker
from evalkit.types import RunResult


@runtime_checkable
class KeepsGates(Protocol):
    """A tracker whose runs say what became of their gates."""

    def renew(self, result: RunResult, run: str) -> None:
        """Bring the run of this id up to date with a result whose gate was decided anew."""


def renew(config: TrackingConfig, result: RunResult, *, folder: Path) -> None:
    """Tell MLflow what became of a run's gate, if the run was recorded there; `folder` is where one stands.

    Raises:
        TrackingError: if that could not be sent.
    """
    run = result.manifest.get("mlflow_run_id")
    tracker = make_tracker(config, folder=folder) if run and config.tracker == MLFLOW else None
    if isinstance(tracker, KeepsGates):
        tracker.renew(result, str(run))
