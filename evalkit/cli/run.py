"""`evalkit run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evalkit.cli import STATUS
from evalkit.cli.hydra_runner import Job, run_jobs


def main(words: Sequence[str]) -> int:
    """Judge, score, write and record each job; return the exit status.

    `--quiet` says only what went wrong; `--json-logs` says everything as JSON, a line at a time, on standard error.
    """
    status = run_jobs(words, _run)
    if {"-h", "--help"} & {*words}:
        print(STATUS)
    return status


def _run(job: Job) -> int:
    # Imported once a config has been found right, so that what is wrong with one is said at once; MLflow, beside.
    from evalkit.tracking import warm_up

    warm_up(job.config.tracking, folder=Path.cwd())
    from evalkit.cli.job import run_job

    return run_job(job)
