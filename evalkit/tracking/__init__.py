"""Record finished runs in MLflow, or in the tracker of a plug-in, and fetch them from there."""

from __future__ import annotations

from evalkit.datasets.sources import TRACES
from evalkit.tracking.connection import (
    PAGE_SERVER,
    VIEW,
    check_tracking,
    server_environment,
    tracking_uri,
)
from evalkit.tracking.fetch import (
    dataset_fetchers,
    fetch_run,
    fetch_traces,
    find_run,
    is_run_id,
    job_runs,
)
from evalkit.tracking.recording import (
    begin_recording,
    register_prompt,
    running_run,
    update_gate,
    warm_up,
)
from evalkit.tracking.tracker_registry import MLFLOW, make_tracker

__all__ = [
    "MLFLOW",
    "PAGE_SERVER",
    "TRACES",
    "VIEW",
    "begin_recording",
    "check_tracking",
    "dataset_fetchers",
    "fetch_run",
    "fetch_traces",
    "find_run",
    "is_run_id",
    "job_runs",
    "make_tracker",
    "register_prompt",
    "running_run",
    "server_environment",
    "tracking_uri",
    "update_gate",
    "warm_up",
]
