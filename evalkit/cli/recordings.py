"""Recording one job of a sweep while the next is judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from evalkit.cli.voice import manner, say
from evalkit.config import TrackingConfig
from evalkit.errors import ExitStatus, TrackingError
from evalkit.types import RunResult


class Recordings:
    """The recordings of a sweep's jobs: of those that were begun, one at most is not waited for yet.

    `statuses` collects what those came to that were.
    """

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self._open: Callable[[], RunResult] | None = None

    def begin(self, config: TrackingConfig, result: RunResult) -> None:
        """Begin to record a job's run, once the one before is recorded."""
        from evalkit.tracking.telling import begin

        self.settle()
        try:
            self._open = begin(config, result, folder=Path.cwd())
        except TrackingError as error:
            self._failed(error)

    def settle(self) -> None:
        """Wait until the last job that was begun is recorded, and say where, or why not."""
        if self._open is None:
            return
        end, self._open = self._open, None
        try:
            result = end()
        except TrackingError as error:
            self._failed(error)
            return
        run, sweep = result.manifest.get("mlflow_run_id"), result.manifest.get("sweep") or {}
        tracked = result.manifest.get("tracked") or {"tracker": "MLflow", "id": run}
        if tracked["id"] and not manner():
            print(f"{tracked['tracker']}: run {tracked['id']} is job {sweep.get('job')}", flush=True)

    def _failed(self, error: TrackingError) -> None:
        say("error", str(error))
        self.statuses.append(int(ExitStatus.NOT_TRACKED))
