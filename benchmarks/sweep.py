"""A sweep of scoring only: what a job takes, at most a second.

    uv run python benchmarks/sweep.py [JOBS] [CASES]

The cases are judged once by a loopback server; then JOBS jobs that differ in their tie threshold
are run as one sweep, with tracking and without. A job lasts from one job's last file (its manifest,
with its MLflow run's id) to the next one's, and all are composed once before the first, which is
measured apart and added: so a process's start, the imports of the first job and the making of
MLflow's database count for none. Where other work keeps the machine busy, the processor time of a
job says more than its seconds. A bare run is `create_run`, one `log_batch` of as many metrics and
params, and `set_terminated`.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

JOBS, CASES, FEW, LIMIT = 50, 1000, 4, 1.0
SERVER = ("--latency", "0", "--text", "[[A]]")


def evalkit(folder: Path, *words: str) -> float:
    """Run evalkit and return the processor seconds that it and the process beside it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {
        **os.environ,
        "EVALKIT_STORE": str(folder / "store.sqlite"),
        "OPENAI_API_KEY": "any",
    }
    command = [sys.executable, "-m", "evalkit", "run", *words]
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True
    )
    if ended.returncode:
        raise SystemExit(ended.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def between(sweep: Path) -> float:
    """Return the seconds from the end of one job to the end of the next, the mean over a sweep."""
    ends = sorted(path.stat().st_mtime for path in sweep.glob("*/manifest.json"))
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def composed(folder: Path, words: Sequence[str]) -> float:
    """Return the seconds that composing all jobs takes, as is done before the first is run."""
    os.chdir(folder)
    from evalkit.compose import load_jobs

    load_jobs("config", words[:-1], sweep=False)
    started = time.perf_counter()
    load_jobs("config", words, sweep=True)
    return time.perf_counter() - started


def bare(folder: Path, sample: Path, runs: int) -> float:
    """Return the seconds that one bare MLflow run takes, with what one job logs."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'bare.db'}")
    experiment = client.create_experiment("bare")
    found = json.loads((sample / "metrics.json").read_bytes())["metrics"]
    values = {
        f"{name}{end}": one[key]
        for name, one in found.items()
        for end, key in (("", "value"), ("/low", "low"), ("/high", "high"))
        if one[key] is not None
    }
    metrics = [Metric(name, value, 0, 0) for name, value in values.items()]
    params = [Param(f"param.{number}", "value") for number in range(60)]
    started = time.perf_counter()
    for _ in range(runs):
        run = client.create_run(experiment).info.run_id
        client.log_batch(run, metrics=metrics, params=params)
        client.set_terminated(run)
    return (time.perf_counter() - started) / runs


def main() -> int:
    jobs, cases = (
        int(given)
        for given in (sys.argv[1:] + [str(JOBS), str(CASES)][len(sys.argv) - 1 :])[:2]
    )
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("openai_server.py")), *SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdin is not None
        assert server.stdout is not None
        with tempfile.TemporaryDirectory(prefix="evalkit-sweep-") as folder:
            return measured(Path(folder), server.stdout.readline().strip(), jobs, cases)
    finally:
        server.terminate()
        server.wait()


def measured(folder: Path, port: str, jobs: int, cases: int) -> int:
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
    (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = [
        "dataset=file",
        "dataset.path=cases.jsonl",
        "output=bracket",
        "judge=openai_compatible",
        "judge.model=openai/m",
    ]
    common = [
        *data,
        f"judge.api_base=http://127.0.0.1:{port}/v1",
        "judge.transport=direct",
    ]
    evalkit(folder, *common, "tracking=none", "hydra.run.dir=once")
    thresholds = "tie.threshold=" + ",".join(f"{k / (2 * jobs):g}" for k in range(jobs))
    few = "tie.threshold=" + ",".join(f"{k / (2 * jobs):g}" for k in range(FEW))
    evalkit(folder, *common, thresholds, "tracking=none", "hydra.sweep.dir=plain", "-m")
    processor = -evalkit(folder, *common, few, "hydra.sweep.dir=few", "-m")
    processor += evalkit(folder, *common, thresholds, "hydra.sweep.dir=tracked", "-m")
    scoring = [
        json.loads(path.read_bytes())["timing"]["scoring"]
        for path in folder.glob("tracked/*/manifest.json")
    ]
    runs = [
        json.loads(path.read_bytes())["calls"]
        for path in folder.glob("*/*/metrics.json")
    ]
    composing = composed(folder, [*common, thresholds]) / jobs
    plain = between(folder / "plain") + composing
    tracked = between(folder / "tracked") + composing
    alone = bare(folder, folder / "once", 5)
    print(
        f"{jobs} jobs on {cases:,} cases, {sum(calls['sent'] for calls in runs)} calls sent in"
        f" {len(runs)} jobs"
    )
    print(
        f"a job            {tracked:6.2f} s: MLflow {tracked - plain:.2f}, scoring"
        f" {sum(scoring) / jobs:.2f}"
    )
    print(
        f"the rest         {plain - sum(scoring) / jobs:6.2f} s: composing, reading, report, files"
    )
    print(
        f"of processors    {processor / (jobs - FEW):6.2f} s, by a sweep of {jobs} jobs less one of"
        f" {FEW}"
    )
    print(f"a bare run       {alone:6.2f} s")
    print(
        f"a job            {tracked:6.2f} s; wanted at most {LIMIT}:"
        f" {'held' if tracked <= LIMIT else 'NOT HELD'}"
    )
    return int(tracked > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
