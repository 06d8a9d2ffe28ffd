"""The settings of `tracking`, with their defaults."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from evalkit.config.sections import Name, PluginSection


class TrackingConfig(PluginSection):
    """Where runs are recorded."""

    named: ClassVar[str] = "tracker"

    enabled: bool = True
    """Record runs."""
    tracker: Name = "mlflow"
    """`mlflow`, or the name of a plug-in's tracker."""
    uri: str | None = None
    """MLflow tracking URI; by default `MLFLOW_TRACKING_URI`, or `mlflow.db` in the current
    folder."""
    experiment: Name = "evalkit"
    """Name of the MLflow experiment."""
    run_name: str | None = None
    """Name of the run; by default mode, judge and a hash. A job of a sweep is named by its
    overrides."""
    tags: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it
    """Additional tags of the run."""
    traces: Annotated[int, Field(ge=0)] = 10
    """How many judgments become MLflow traces."""
    metrics: Literal["main", "all"] = "main"
    """Which metrics are logged: `all`, or the `main` ones, at most 40 numbers with their intervals,
    and in an audit one metric for each probe."""
    background: bool = True
    """Import MLflow and record in a second process while this one judges."""
    params: dict[str, Any] = {}  # noqa: RUF012
    """Settings of a plug-in's tracker."""
