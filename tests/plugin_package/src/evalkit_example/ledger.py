"""A tracker: one line of text for each run, in a file."""

from __future__ import annotations

from pathlib import Path

from evalkit.config import TrackingConfig
from evalkit.runs.results import RunResult


class Ledger:
    """Append runs to the file that `tracking.params.path` names."""

    def __init__(self, config: TrackingConfig) -> None:
        self._path = Path(config.params.get("path", "ledger.txt"))

    def record(self, result: RunResult) -> str:
        """Write a run's metrics down and return the number of its line."""
        lines = self._path.read_text("utf-8").splitlines() if self._path.exists() else []
        known = {
            name: metric.value
            for name, metric in result.metrics.items()
            if metric.value is not None
        }
        self._path.write_text(
            "\n".join([*lines, f"{result.manifest['mode']} {known}", ""]), "utf-8"
        )
        return str(len(lines) + 1)
