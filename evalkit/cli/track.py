"""`evalkit track RUN_DIR`: send a run to its tracker that could not be sent when it was made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evalkit.api import track
from evalkit.cli.run_folders import apply_settings, read_one_run
from evalkit.errors import ConfigError


def main(words: Sequence[str]) -> int:
    """Record a finished run; overrides may set other tracking.* values."""
    folder, result, overrides = read_one_run("track", words)
    # A run that was made without tracking is to be tracked now.
    config = apply_settings(result, ["tracking.enabled=true", *overrides], ("tracking",))
    if not config.tracking.enabled:
        raise ConfigError("is false", where="tracking.enabled", remedy="leave it out: this command tracks the run")
    recorded = track(config, result)
    tracked = recorded.manifest.get("tracked") or {"tracker": "MLflow", "id": recorded.manifest["mlflow_run_id"]}
    print(f"{tracked['tracker']}: run {tracked['id']} ({Path(folder).name})")
    return 0
