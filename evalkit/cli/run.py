"""`evalkit run`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from evalkit.cli.hydra_runner import Job, run_jobs
from evalkit.cli.parser import study_words


def main(arguments: Namespace) -> int:
    """Judge, score, write and record each job; return the exit status."""
    flags = ["--multirun"] * arguments.multirun + ["--resolve"] * arguments.resolve
    flags += ["--hydra-help"] * arguments.hydra_help
    for name in ("cfg", "package", "info"):
        if (value := getattr(arguments, name)) is not None:
            flags += [f"--{name}", value]
    return run_study([*study_words(arguments), *flags], output=arguments.output, overwrite=arguments.overwrite)


def run_study(words: Sequence[str], *, output: Path | None = None, overwrite: bool = False) -> int:
    """Run each job that a study and overrides describe; Hydra's flags may follow them."""
    return run_jobs(words, _run, output=output, overwrite=overwrite)


def _run(job: Job) -> int:
    # Imported only for a valid config, so that errors in one are reported at once; MLflow in its own process.
    from evalkit.tracking import warm_up

    warm_up(job.config.tracking, folder=Path.cwd())
    from evalkit.cli.job import run_job

    return run_job(job)
