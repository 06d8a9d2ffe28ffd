"""Finished runs: what was judged, what it cost, and what may be concluded; and the
protocol of what records them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from evalkit.config import RunConfig
from evalkit.core.notebook_tables import Shown
from evalkit.core.types import Case, Judgment, Metric, Verdict
from evalkit.scoring.decision import Decision, decide, decide_for_judges

__all__ = ["Calls", "RunResult", "Spent", "Tracker"]

TableName: TypeAlias = Literal["cases", "judgments", "verdicts", "metrics"]


@dataclass(slots=True)
class Spent:
    """The amount spent under one budget; the jobs of a sweep may share it.

    Attributes:
        calls: The number of calls.
        usd: Their cost, in USD.
        questions: The number of questions in progress that have reserved all of their calls.
        held_calls: The calls that these have reserved and not made.
        held_usd: What these have reserved and not spent, in USD.
    """

    calls: int = 0
    usd: float = 0.0
    questions: int = 0
    held_calls: int = 0
    held_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one run: planned = stored + sent + not made; `retried` counts repeated
    attempts, `failed` requests.
    """

    planned: int = 0
    stored: int = 0
    sent: int = 0
    retried: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class RunResult(Shown):
    """One finished run, as in its folder.

    Cases, judgments and verdicts may exceed memory: iterate over them, and avoid repeated access to
    an item.
    """

    folder: str | None
    config: RunConfig
    manifest: Mapping[str, Any]
    cases: Sequence[Case]
    judgments: Sequence[Judgment]
    verdicts: Sequence[Verdict]
    metrics: Mapping[str, Metric]
    calls: Calls = Calls()
    tokens: Mapping[str, int] = field(default_factory=dict)
    cost_usd: float | None = None

    @property
    def decision(self) -> Decision:
        """What may be concluded about the judge, or about a panel as a whole, from the metrics.

        Its `use` is `single`, `rates`, `rates_corrected`, `order`, `none` or `unknown`. `reason`,
        `unit`, `limits`, `labels_needed` and `possible` are those of metrics.json; `metric` and
        `share` are the metrics that it is made from.
        """
        return decide(self.metrics, self.config.scoring.confidence)

    @property
    def decisions(self) -> dict[str, Decision]:
        """The same about each judge of a panel, by the name that it has in metrics;
        empty without a panel.
        """
        return decide_for_judges(self.metrics, self.config.scoring.confidence)

    def to_pandas(self, table: TableName = "verdicts") -> Any:
        """Return the cases, judgments, verdicts or metrics as a pandas data frame; all
        its rows are in memory.

        Cases have the fields of a data set, so `evalkit.run(config, cases=frame)` judges them
        again. Judgments are the rows of `evalkit export --to csv`.

        Raises:
            ConfigError: If there is no such table, or pandas is not installed.
        """
        return import_module("evalkit.runs.frames").frame(self, table, "pandas")

    def to_polars(self, table: TableName = "verdicts") -> Any:
        """Return the same table as `to_pandas` as a polars data frame.

        Raises:
            ConfigError: If there is no such table, or polars is not installed.
        """
        return import_module("evalkit.runs.frames").frame(self, table, "polars")


@runtime_checkable
class Tracker(Protocol):
    """Records finished runs; called once per run, at the end.

    It is constructed as `cls(config)` with the `tracking` group of the config.
    """

    def record(self, result: RunResult) -> str:
        """Record a run and return its id at the tracker.

        Raises:
            TrackingError: If it cannot be recorded; the run folder is complete anyway.
        """
        ...
