"""The process beside a run that records it: imports MLflow while the run judges, then is told its folder.

It reads a line of JSON for each thing to do from standard input, and answers those that ask for it with a line on
standard output. When its input ends, however the run ended, so does it.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalkit.config import TrackingConfig
from evalkit.errors import TrackingError
from evalkit.tracking.connection import import_all
from evalkit.tracking.location import sqlite_file

_READ: dict[str, Any] = {}  # what the run before it had of cases and judgments


def main() -> None:
    """Do what standard input asks for, a line at a time, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run to act on
    # What MLflow may print is not an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        asked = json.loads(line)
        if "folder" not in asked:
            _make_ready(asked["uri"])
            continue
        print(json.dumps(_record(asked)), file=answers, flush=True)


def _make_ready(uri: str) -> None:
    gc.disable()  # as in evalkit.judges.loading: what an import makes is not garbage
    # What goes wrong goes wrong again when a run is recorded, and is said there.
    with suppress(Exception):
        import_all(uri)
        import evalkit.runs.read  # noqa: F401
        from evalkit.tracking.mlflow_tracker import MlflowTracker

        if (file := sqlite_file(uri)) is not None and file.exists():
            MlflowTracker(uri, TrackingConfig()).greet()
    gc.freeze()
    gc.enable()


def _record(asked: Mapping[str, Any]) -> dict[str, str]:
    from evalkit.runs import read_run
    from evalkit.tracking.mlflow_tracker import MlflowTracker

    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["standing"])
    try:
        config = TrackingConfig.model_validate(asked["config"])
        tracker = MlflowTracker(asked["uri"], config)
        if "attach" in asked:
            tracker.attach(asked["attach"], [Path(file) for file in asked["files"]])
            return {"run": asked["attach"]}
        result = read_run(Path(asked["folder"]), _READ)
        if "renew" in asked:
            tracker.renew(result, asked["renew"])
            return {"run": asked["renew"]}
        return {"run": tracker.record(result)}
    except TrackingError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    main()
