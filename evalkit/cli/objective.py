"""What a sweeper that searches is told of a job: the value of the metric it is to make larger or smaller."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from hydra.errors import CompactHydraException

from evalkit.cli.voice import say
from evalkit.errors import ExitStatus, did_you_mean


class JobError(CompactHydraException):
    """A job of a sweep that ended with `status`, having said why; it can go from process to process."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(status)

    def __str__(self) -> str:
        return f"a job ended with status {self.status}"


def objective_of(folder: Path, objective: str | Sequence[str]) -> float | list[float]:
    """Return the value of a finished run's metric, or of several.

    Raises:
        JobError: if the run has no such metric, or it has no value; that is said.
    """
    metrics = json.loads((folder / "metrics.json").read_bytes())["metrics"]
    names = [objective] if isinstance(objective, str) else list(objective)
    for name in names:
        if name not in metrics:
            say("error", f"objective: no metric '{name}': {did_you_mean(name, metrics)}")
        elif metrics[name]["value"] is None:
            say("error", f"objective: {name} has no value in {folder}: {metrics[name]['note']}")
        else:
            continue
        raise JobError(int(ExitStatus.WRONG))
    values = [float(metrics[name]["value"]) for name in names]
    return values[0] if isinstance(objective, str) else values
