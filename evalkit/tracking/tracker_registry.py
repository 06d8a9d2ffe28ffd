"""The registry of trackers; other packages register theirs in the entry-point group
`evalkit.trackers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isclass
from typing import Final, Protocol, cast

from evalkit.config import TrackingConfig
from evalkit.core.errors import PluginError, TrackingError
from evalkit.core.optional_features import load_feature
from evalkit.core.plugins import TRACKERS, Guarded, construct, find
from evalkit.runs.results import RunResult, Tracker
from evalkit.tracking.connection import tracking_uri

MLFLOW = "mlflow"
BUILT_IN = {MLFLOW: "evalkit.tracking.mlflow_tracker:MlflowTracker"}
"""The built-in tracker by the value of `tracking.tracker`; those of plug-ins are constructed with a
`TrackingConfig`."""
_BACKGROUND: Final = "evalkit.tracking.background"
_WHERE: Final = "tracking.tracker"
_METHODS: Final = ("record",)


class RenewingTracker(Tracker, Protocol):
    """A tracker that updates a run which it has recorded."""

    def renew(self, result: RunResult, run: str) -> None:
        """Update a recorded run after its gate was decided again."""


class MlflowRuns(RenewingTracker, Protocol):
    """What MLflow does besides recording runs."""

    def register(self, name: str, text: str, tags: Mapping[str, str]) -> str:
        """Register a prompt, and return its name and version."""

    def check_surrounding_run(self) -> None:
        """Check that the run that $MLFLOW_RUN_ID names can get runs."""


def make_tracker(config: TrackingConfig) -> Tracker | None:
    """Return the configured tracker, or `None` if tracking is off.

    Relative paths start from the current folder.

    Raises:
        PluginError: if `tracking.tracker` names no tracker.
    """
    if not config.enabled:
        return None
    if config.tracker == MLFLOW:
        return mlflow_tracker(config)
    return _plugin_tracker(config)


def mlflow_tracker(config: TrackingConfig) -> RenewingTracker:
    """Return the tracker of MLflow: in the background if `warm_up` has started it."""
    background = load_feature(_BACKGROUND, "tracking.background")
    here = mlflow_here(config)
    recorder = background.running() if config.background else None
    if recorder is None:
        return here
    tracker: RenewingTracker = background.BackgroundTracker(recorder, here)
    return tracker


def mlflow_here(config: TrackingConfig) -> MlflowRuns:
    """Return the tracker of MLflow in this process."""
    tracker_class = find(TRACKERS, MLFLOW, BUILT_IN, where=_WHERE, methods=_METHODS)
    tracker: MlflowRuns = tracker_class(tracking_uri(config), config)
    return tracker


def start_in_background(config: TrackingConfig) -> None:
    """Start a second process that imports MLflow, unless there is one."""
    load_feature(_BACKGROUND, "tracking.background").start(tracking_uri(config))


def _plugin_tracker(config: TrackingConfig) -> Tracker:
    """Return the tracker of a plug-in; its errors become `TrackingError`.

    Raises:
        PluginError: if the name is not that of a tracker.
    """
    tracker_class = find(
        TRACKERS, config.tracker, BUILT_IN, where=_WHERE, methods=_METHODS
    )
    if not (isclass(tracker_class) and issubclass(tracker_class, Tracker)):
        raise PluginError(
            f"'{config.tracker}' is not a tracker",
            where=_WHERE,
            remedy="name a class with a method `record`",
        )
    tracker = construct(tracker_class, config, name=config.tracker, where=_WHERE)
    return cast(
        "Tracker",
        Guarded(tracker, TrackingError, f"tracking.tracker '{config.tracker}' failed"),
    )
