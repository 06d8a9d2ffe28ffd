"""Recording a run in MLflow beside an SQLite store: what it takes, and what of it grows
with judgments.

    uv run python benchmarks/recording.py [CASES ...]

Runs of each number of cases, in both orders, with the default 10 traces, are judged by a loopback
server and written, and then recorded in one process, as `evalkit track` does, MLflow imported and
its database made before. Each is recorded as three runs, of which the quickest counts.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from sweep import SERVER, evalkit

from evalkit.config import TrackingConfig
from evalkit.runs import read_run
from evalkit.tracking.mlflow_tracker import MlflowTracker

CASES = (50, 1_000, 10_000)
REPEATS = 3
LIMIT = 3.0


def judged(folder: Path, port: str, cases: int) -> Path:
    """Judge and write a run of so many cases, and return its folder."""
    rows = (
        {
            "id": str(k),
            "prompt": f"Question {k}?",
            "response_a": "yes " * (k % 7 + 1),
            "response_b": "no " * (k % 5 + 1),
            "label": "AB"[k % 2],
        }
        for k in range(cases)
    )
    (folder / f"{cases}.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    evalkit(
        folder, "dataset=file", f"dataset.path={cases}.jsonl", "output=bracket", "judge=openai_compatible",
        "judge.model=openai/m", f"judge.api_base=http://127.0.0.1:{port}/v1", "judge.transport=direct",
        "tracking=none", f"hydra.run.dir=run-{cases}",
    )  # fmt: skip
    return folder / f"run-{cases}"


def recorded(folder: Path, run: Path) -> tuple[float, float, int]:
    """Return the seconds of recording a run, those of copying its files, and by how
    many bytes the database grows.
    """
    database = folder / "mlflow.db"
    took = []
    files = []
    tracker = MlflowTracker(f"sqlite:///{database}", TrackingConfig())
    result = read_run(run)
    before = database.stat().st_size if database.exists() else 0
    for _ in range(REPEATS):
        one = replace(
            result, manifest={**result.manifest, "run_id": uuid4().hex}
        )  # no run is recorded twice
        started = time.perf_counter()
        tracker.record(one)
        took.append(time.perf_counter() - started)
        started = time.perf_counter()
        shutil.copytree(run, folder / "copy")
        files.append(time.perf_counter() - started)
        shutil.rmtree(folder / "copy")
    return min(took), min(files), (database.stat().st_size - before) // REPEATS


@contextmanager
def serving() -> Iterator[str]:
    """Run the loopback server, and give its port."""
    command = [
        sys.executable,
        str(Path(__file__).with_name("openai_server.py")),
        *SERVER,
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def main() -> int:
    counts = [int(given) for given in sys.argv[1:]] or list(CASES)
    warnings.simplefilter("ignore")
    slowest = 0.0
    with (
        tempfile.TemporaryDirectory(prefix="evalkit-recording-") as scratch,
        serving() as port,
    ):
        folder = Path(scratch)
        runs = [judged(folder, port, cases) for cases in counts]
        recorded(
            folder, runs[0]
        )  # imports MLflow, makes the database and the prompt's version
        print(
            "| judgments | recorded in | a copy of its files | database grows by | run folder |"
        )
        print("| --- | --- | --- | --- | --- |")
        for cases, run in zip(counts, runs, strict=True):
            seconds, files, grown = recorded(folder, run)
            slowest = max(slowest, seconds)
            size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
            print(
                f"| {2 * cases:,} | {seconds:.2f} s | {files:.2f} s | {grown / 1024:.0f} KiB |"
                f" {size / 2**20:.1f} MiB |"
            )
    print(f"wanted: under {LIMIT:g} s: {'held' if slowest < LIMIT else 'NOT HELD'}")
    return int(slowest >= LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
