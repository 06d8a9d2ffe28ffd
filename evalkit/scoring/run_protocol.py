"""What scoring reads of a finished run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from evalkit.config import RunConfig
from evalkit.core.types import Case, Judgment, Metric, Verdict


class FinishedRun(Protocol):
    """A run with its verdicts and metrics, as `evalkit.RunResult` has them."""

    @property
    def config(self) -> RunConfig:
        """Return the settings of the run."""
        ...

    @property
    def cases(self) -> Sequence[Case]:
        """Return its cases."""
        ...

    @property
    def judgments(self) -> Sequence[Judgment]:
        """Return the judgments of its cases."""
        ...

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """Return the verdicts that follow from the judgments."""
        ...

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Return its metrics by name."""
        ...
