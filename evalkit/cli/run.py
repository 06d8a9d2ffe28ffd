"""`evalkit run`: judge, score and record each job of a study."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from signal import SIGINT

from evalkit.cli.console import is_verbose, log, log_handler, log_style, reported
from evalkit.cli.gate_outcome import print_gate
from evalkit.cli.hydra_runner import Job, run_jobs
from evalkit.cli.language import speaker
from evalkit.cli.parser import study_words
from evalkit.cli.progress import ProgressDisplay
from evalkit.cli.summary import print_job, print_summary
from evalkit.config import RunConfig
from evalkit.core.errors import ExitStatus, Signaled
from evalkit.core.resources import own_version
from evalkit.core.types import Judgment
from evalkit.engine.progress import JudgingResult
from evalkit.report.texts import note_text
from evalkit.runs import read_config, read_outcome, read_run
from evalkit.runs.folders import read_status
from evalkit.runs.results import RunResult
from evalkit.tracking import update_gate
from evalkit.workflows.finishing import track
from evalkit.workflows.gating import shortfall, unusable
from evalkit.workflows.materials import load_materials
from evalkit.workflows.rescoring import rescore
from evalkit.workflows.run import RunInterruption, judge_and_score


def main(arguments: Namespace) -> int:
    """Judge, score, write and record each job; return the exit status."""
    words = [*study_words(arguments), *study_flags(arguments)]
    return run_study(words, output=arguments.output, overwrite=arguments.overwrite)


def study_flags(arguments: Namespace) -> list[str]:
    """Return Hydra's flags among a command's arguments."""
    flags = ["--multirun"] * arguments.multirun + ["--resolve"] * arguments.resolve
    flags += ["--hydra-help"] * arguments.hydra_help
    for name in ("cfg", "package", "info"):
        if (value := getattr(arguments, name)) is not None:
            flags += [f"--{name}", value]
    return flags


def run_study(
    words: Sequence[str], *, output: Path | None = None, overwrite: bool = False
) -> int:
    """Run each job that a study and overrides describe; Hydra's flags may follow them."""
    return run_jobs(words, _run_or_resume, output=output, overwrite=overwrite)


def _run_or_resume(job: Job) -> int:
    # MLflow is imported in a separate process, and only for a valid config.
    from evalkit.tracking import warm_up

    warm_up(job.config.tracking)
    return run_job(job)


def run_job(job: Job) -> int:
    """Run one job and return its exit status.

    A finished job of a sweep is only recorded, if it was not. Failures of calls and of recording
    are printed and become the status.

    Raises:
        EvalkitError: If the run cannot be judged, scored or written.
        Signaled: If a signal stopped it.
    """
    # A resumed sweep runs only what is missing.
    if job.sweep is not None and not job.overwrite and _is_finished(job):
        return _resume_finished(job)
    # The jobs of a sweep have mostly the same notes: each is printed once.
    say = speaker(job.config)
    for note in job.config.notes():
        if note not in job.noted:
            log("note", say(note_text(note)))
            job.noted.add(note)
    with ProgressDisplay(job) as display, log_handler():
        try:
            result = judge_and_score(
                job.config,
                job.folder,
                sweep=job.sweep,
                observe=display.update,
                overwrite=job.overwrite,
                spent=job.spent,
                asked_keys=job.asked_keys,
            )
        # The progress line is closed first, or the message would be written over it.
        except RunInterruption as stop:
            display.close()
            raise Signaled(
                stop.judged.signal or SIGINT, interruption(job.config, stop.judged)
            ) from None
    statuses: list[int] = []
    if job.recordings is not None:
        # In the background, while the next job calls its judges.
        job.recordings.begin(job.config.tracking, result)
    else:
        with reported(statuses):
            result = track(job.config, result)
    _print_result(result, job.noted)
    for line in failure_lines(result.judgments):
        log("failure", line)
    # Not an exception: the run is written and printed, and only its status says that it is short.
    if lacking := shortfall(job.config, result):
        log("error", lacking)
        statuses = [ExitStatus.TOO_MANY_FAILURES]
    return max([*statuses, print_gate(result)])


def _is_finished(job: Job) -> bool:
    """Return whether the job's folder has a complete run of its config.

    The run must have the current data, prompts and version of evalkit.
    """
    status = read_status(job.folder)
    if (
        not status.complete
        or status.config_hash != job.config.hash()
        or status.evalkit != own_version()
        or (job.config.store.mode == "retry" and not status.usable)
    ):
        return False
    # The same config with other data or another prompt is not the same measurement. This is
    # compared last, because it reads the dataset.
    materials = load_materials(job.config)
    prompts = dict(getattr(materials.evaluator, "prompt_hashes", {}))
    # A run with repeated requests also has that template's hash.
    return (
        materials.dataset.fingerprint == status.fingerprint
        and prompts.items() <= status.prompts.items()
    )


def _resume_finished(job: Job) -> int:
    """Do what is left of a finished job: a new gate, or tracking. Return its exit status."""
    overrides = ", ".join(job.sweep["overrides"]) if job.sweep else ""
    log("note", f"already finished: {overrides} ({job.folder})")
    statuses: list[int] = [ExitStatus.DONE]
    # The gate is not part of the config's hash, since it does not change the measurement:
    # a new one needs no new answers.
    if read_config(job.folder).gate != job.config.gate:
        again = rescore(job.config, read_run(job.folder), job.folder)
        print_gate(again)
        with reported(statuses):
            update_gate(job.config.tracking, again)
    elif read_status(job.folder).gate == "failed":
        log("error", f"gate failed: {job.folder / 'gate.md'}")
    status = read_status(job.folder)
    if lacking := unusable(job.config, read_outcome(job.folder).metrics):
        log("error", lacking)
        statuses = [ExitStatus.TOO_MANY_FAILURES]
    # an earlier command could not reach the tracking server
    if job.config.tracking.enabled and status.recorded is None:
        with reported(statuses):
            track(job.config, read_run(job.folder))
    if status.gate == "failed":
        return ExitStatus.GATE_FAILED
    return max(statuses)


def failure_lines(judgments: Sequence[Judgment]) -> Iterator[str]:
    """Yield a line for each kind of failed request, most frequent first, with its count
    and an example.
    """
    counts: Counter[str | None] = Counter()
    examples: dict[str | None, Judgment] = {}
    for judgment in judgments:
        if judgment.status == "failed":
            counts[judgment.error_kind] += 1
            examples.setdefault(judgment.error_kind, judgment)
    for kind, count in counts.most_common():
        example = examples[kind]
        yield (
            f"{count} failed ({kind}), for example case {example.case_id} by {example.judge}:"
            f" {example.error}"
        )


def _print_result(result: RunResult, noted: Collection[str]) -> None:
    """Print the summary of a run, or log it in the style of the command."""
    if not log_style():
        if result.manifest.get("sweep") and not is_verbose():
            print_job(result)
        else:
            print_summary(result, noted)
        return
    values = {
        name: metric.value
        for name, metric in result.metrics.items()
        if metric.value is not None
    }
    calls = {
        name: getattr(result.calls, name)
        for name in ("planned", "stored", "sent", "retried", "failed")
    }
    log(
        "finished",
        f"written to {result.folder}",
        folder=result.folder,
        calls=calls,
        cost_usd=result.cost_usd,
        metrics=values,
    )


def interruption(config: RunConfig, judged: JudgingResult) -> str:
    """Return how far an interrupted run came, and how to continue."""
    unstored = config.store.mode == "off"
    if unstored:
        answers = sum(judgment.status != "failed" for judgment in judged.judgments)
    else:
        answers = judged.answers
    if judged.whole is not None:
        share = f"{answers:,} of {judged.whole:,}"
    else:
        share = f"{answers:,}"
    if judged.stopped not in (None, "interrupted"):
        return f"interrupted: {judged.stopped}"
    if unstored:
        return f"interrupted after {share} answers; none is stored, because store.mode is off"
    return f"interrupted: {share} answers are stored; run again to continue"
