"""The registry of trackers; other packages register theirs in the entry-point group
`evalkit.trackers`.
"""

from __future__ import annotations

from inspect import isclass
from typing import TYPE_CHECKING, cast

from evalkit.config import TrackingConfig
from evalkit.core.errors import PluginError, TrackingError
from evalkit.core.plugins import TRACKERS, Guarded, construct, find
from evalkit.runs.results import Tracker
from evalkit.tracking.connection import tracking_uri

if TYPE_CHECKING:
    from evalkit.tracking.background import BackgroundTracker
    from evalkit.tracking.mlflow_tracker import MlflowTracker

MLFLOW = "mlflow"
BUILT_IN = {MLFLOW: "evalkit.tracking.mlflow_tracker:MlflowTracker"}
"""The trackers by the value of `tracking.tracker`; each is constructed with a `TrackingConfig`."""


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


def mlflow_tracker(config: TrackingConfig) -> MlflowTracker | BackgroundTracker:
    """Return the tracker of MLflow: in the background if `warm_up` has started it."""
    from evalkit.tracking.background import BackgroundTracker, running
    from evalkit.tracking.mlflow_tracker import MlflowTracker

    here = MlflowTracker(tracking_uri(config), config)
    recorder = running() if config.background else None
    if recorder is None:
        return here
    return BackgroundTracker(recorder, here)


def _plugin_tracker(config: TrackingConfig) -> Tracker:
    """Return the tracker of a plug-in; its errors become `TrackingError`.

    Raises:
        PluginError: if the name is not that of a tracker.
    """
    where = "tracking.tracker"
    tracker_class = find(
        TRACKERS, config.tracker, BUILT_IN, where=where, methods=("record",)
    )
    if not (isclass(tracker_class) and issubclass(tracker_class, Tracker)):
        raise PluginError(
            f"'{config.tracker}' is not a tracker",
            where=where,
            remedy="name a class with a method `record`",
        )
    tracker = construct(tracker_class, config, name=config.tracker, where=where)
    return cast(
        "Tracker",
        Guarded(tracker, TrackingError, f"tracking.tracker '{config.tracker}' failed"),
    )
