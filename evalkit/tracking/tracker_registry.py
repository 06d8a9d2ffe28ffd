"""The registry of trackers; other packages register theirs in the entry-point group
`evalkit.trackers`.
"""

BUILT_IN = {"mlflow": "evalkit.tracking.mlflow_tracker:MlflowTracker"}
"""The trackers by the value of `tracking.tracker`; each is constructed with a `TrackingConfig`."""
