"""The jobs of a sweep: their folder, those that are finished, and the leaderboard."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from evalkit.cli.console import log, log_style, reported
from evalkit.cli.hydra_runner import ANOTHER, DATE
from evalkit.cli.language import speaker
from evalkit.cli.leaderboard import print_leaderboard
from evalkit.cli.parser import is_override
from evalkit.cli.summary import print_report
from evalkit.compose import (
    DEFAULT,
    check_place,
    find_sweep,
    load_jobs,
)
from evalkit.config import RunConfig
from evalkit.core.claims import Claim
from evalkit.core.display import relative
from evalkit.core.errors import EvalkitError, ExitStatus
from evalkit.core.values import frozen
from evalkit.runs import claim_run, read_config
from evalkit.runs.folders import read_status
from evalkit.tracking import MLFLOW
from evalkit.workflows import sweeps
from evalkit.workflows.sweeps import (
    leaderboard_of,
    track_leaderboard,
    write_leaderboard,
)


@frozen
class Sweep:
    """A sweep about to run: its folder, and its jobs' configs unless the sweeper
    chooses jobs during the sweep.
    """

    folder: Path
    jobs: tuple[RunConfig, ...] | None
    constant: Collection[str]
    """The keys that have the same value in every job."""
    resumed: bool
    claim: Claim

    @property
    def words(self) -> list[str]:
        """The overrides that are added to the command's words."""
        # Hydra's grammar would read commas, spaces and braces in a path as syntax.
        escaped = str(self.folder).replace("'", "\\'")
        return [f"{DIRECTORY}'{escaped}'"]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Mark the sweep as begun, and release its folder after the block."""
        with self.claim:
            sweeps.begin(self.folder, _hashes(self.jobs or ()))
            if self.resumed:
                log(
                    "note",
                    f"resuming in {relative(self.folder)}: finished jobs are not run again",
                )
            yield

    def finish(self) -> int:
        """Compare the jobs, mark the sweep as finished if all jobs are, and return the exit status.

        Gates are read from the job folders, because jobs may have run in other processes.
        """
        done = sweeps.runs(self.folder)
        if self.jobs is not None:
            # Only this command's jobs count, not those of an earlier, larger sweep.
            hashes = _hashes(self.jobs)
            done = {job: run for job, run in done.items() if run.config_hash in hashes}
            # The mark is set only if every job is complete; else the same command resumes here.
            if set(hashes) <= {
                run.config_hash for run in done.values() if run.complete
            }:
                sweeps.end(self.folder)
        gates = (
            ExitStatus.GATE_FAILED
            if any(run.gate == "failed" for run in done.values())
            else 0
        )
        statuses: list[int] = [gates]
        # The numbers are written by now: an error here only adds to the exit status.
        with reported(statuses, EvalkitError):
            statuses.append(show_leaderboard(self.folder, list(done)))
        return max(statuses)


def find_sweep_jobs(
    study: Path | None, words: Sequence[str], *, overwrite: bool = False
) -> Sweep:
    """Compose every job of a sweep before the first is run, claim its folder, and return the sweep.

    Args:
        study: the study, if there is one.
        words: the other words of the command.
        overwrite: whether to remove the jobs of another sweep in the folder.

    Raises:
        ConfigError: if a job's config is invalid, the folder has another sweep or a run, another
            process has it, or the study writes outside the current folder.
    """
    # All configs are composed before the first job: no error after hours of paid calls.
    overrides = list(filter(is_override, words))
    name = str(study) if study else DEFAULT
    sweep_place = find_sweep(name, overrides)
    folder = sweep_place.folder.absolute()
    check_place(folder, Path.cwd(), overrides)
    jobs = None
    # an optimizing sweeper chooses its jobs one by one
    if sweep_place.known:
        jobs = tuple(config for _, config in load_jobs(name, overrides, sweep=True))
    folder, claim, resumed = _claim_sweep(folder, jobs, overrides)
    try:
        hashes = None if jobs is None else _hashes(jobs)
        sweeps.check_free(folder, hashes, overwrite=overwrite)
    except BaseException:
        claim.release()
        raise
    return Sweep(folder, jobs, sweep_place.constant, resumed, claim)


def _claim_sweep(
    folder: Path, jobs: Sequence[RunConfig] | None, overrides: Sequence[str]
) -> tuple[Path, Claim, bool]:
    """Claim the folder of a sweep: the named one, else that of an interrupted sweep of
    the same jobs, else a new one.

    Returns:
        The folder, the claim, and whether the sweep is resumed.
    """
    # A folder that the user names is used, or refused; it is never replaced by another one.
    if any(word.startswith(DIRECTORY) for word in overrides):
        return folder, claim_run(folder, ANOTHER), False
    # The folder of sweeps has a folder for each day, and in it one for each time.
    if jobs is not None and Path.cwd() in folder.parents[2:]:
        interrupted = sweeps.claim_interrupted(folder.parent.parent, _hashes(jobs))
        if interrupted is not None:
            return *interrupted, True
    # Two sweeps that start in the same second would get the same name.
    if DATE.fullmatch(folder.parent.name):
        return *sweeps.claim_sweep(folder), False
    return folder, claim_run(folder, ANOTHER), False


def _hashes(jobs: Sequence[RunConfig]) -> list[str]:
    return [config.hash() for config in jobs]


def show_leaderboard(folder: Path, jobs: Sequence[str]) -> int:
    """Compare a sweep's runs; print, write and record the leaderboard; return the exit status.

    A sweep that cannot be compared has none: of a single run, the report is printed.

    Args:
        folder: The folder of the sweep.
        jobs: The names of its finished jobs, at least one.

    Raises:
        ConfigError: if a run's file is damaged, or the leaderboard cannot be written.
    """
    board = leaderboard_of(folder, jobs)
    if board is None:
        if len(jobs) == 1 and not log_style():
            print_report(folder / jobs[0])
        return ExitStatus.DONE
    files = write_leaderboard(folder, board)
    if log_style():
        log(
            "leaderboard",
            f"written to {files[0]}",
            by=board.by,
            best=board.rows[0].name,
            path=str(files[0]),
        )
    else:
        config = read_config(folder / jobs[0])
        recorded = config.tracking.tracker == MLFLOW and any(
            read_status(folder / job).recorded for job in jobs
        )
        print_leaderboard(board, files, speaker(config), recorded=recorded)
    statuses: list[int] = [ExitStatus.DONE]
    # A tracker that cannot be reached must not hide the leaderboard, which is written.
    with reported(statuses):
        track_leaderboard(folder, jobs, files)
    return max(statuses)


DIRECTORY = "hydra.sweep.dir="
