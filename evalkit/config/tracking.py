"""The settings of `tracking`, with their defaults."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from evalkit.config.kinds import FreeParameters, Text, WrittenPath
from evalkit.config.sections import CodeName, Name, PluginSection


class TrackingConfig(PluginSection):
    """Where runs are recorded."""

    named: ClassVar[str] = "tracker"

    enabled: bool = True
    """Record runs."""
    tracker: CodeName = "mlflow"
    """`mlflow`, or the name of a plug-in's tracker."""
    uri: WrittenPath | None = None
    """MLflow tracking URI; by default `MLFLOW_TRACKING_URI`, or `mlflow.db` in the current
    folder."""
    experiment: Name | None = None
    """Name of the MLflow experiment; by default `MLFLOW_EXPERIMENT_NAME`, or `evalkit`."""
    run_name: Text | None = None
    """Name of the run; by default mode, judge and a hash. A job of a sweep is named by its
    overrides."""
    tags: dict[str, Text] = {}  # noqa: RUF012 - pydantic copies it
    """Additional tags of the run."""
    traces: Annotated[int, Field(ge=0)] = 10
    """How many judgments become MLflow traces."""
    metrics: Literal["main", "all"] = "main"
    """Which metrics are logged: `all`, or the `main` ones, at most 45 numbers with their intervals,
    and in an audit one metric for each probe."""
    background: bool = True
    """Import MLflow and record in a second process while this one judges."""
    params: FreeParameters = {}  # noqa: RUF012
    """Settings of a plug-in's tracker."""
