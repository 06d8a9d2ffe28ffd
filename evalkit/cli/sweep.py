"""A sweep as a whole: its folder, whether it resumes an interrupted one, and its leaderboard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evalkit.cli.console import log, log_style
from evalkit.cli.summary import print_leaderboard
from evalkit.config import RunConfig, TrackingConfig
from evalkit.core.display import relative
from evalkit.errors import EvalkitError, ExitStatus, TrackingError
from evalkit.hydra_app import DEFAULT, check_place, find_sweep, load_jobs
from evalkit.results import RunResult
from evalkit.sweeps import journal
from evalkit.sweeps.leaderboard_files import leaderboard_of, track_leaderboard, write_leaderboard

DIRECTORY = "hydra.sweep.dir="


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep about to run: its folder, and its jobs' configs unless the sweeper chooses jobs during the sweep."""

    folder: Path
    jobs: tuple[RunConfig, ...] | None
    resumed: bool

    @property
    def words(self) -> list[str]:
        """The overrides that are added to the command's words."""
        escaped = str(self.folder).replace("'", "\\'")
        return [f"{DIRECTORY}'{escaped}'"]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Mark the sweep as begun inside the block, and lock its folder against other processes."""
        with journal.begun(self.folder, _hashes(self.jobs or ())):
            if self.resumed:
                log("note", f"resuming in {relative(self.folder)}: finished jobs are not run again")
            yield

    def finish(self) -> int:
        """Compare the jobs, mark the sweep as finished if all jobs are, and return the exit status.

        Gates are read from the job folders, because jobs may have run in other processes.
        """
        done = journal.runs(self.folder)
        if self.jobs is not None:
            hashes = _hashes(self.jobs)
            done = {job: run for job, run in done.items() if run.config_hash in hashes}
            if set(hashes) <= {run.config_hash for run in done.values() if run.complete}:
                journal.end(self.folder)
        gates = int(ExitStatus.GATE_FAILED) if any(run.gate == "failed" for run in done.values()) else 0
        try:
            return max(gates, show_leaderboard(self.folder, list(done)))
        except EvalkitError as error:
            log("error", str(error))
            return max(gates, int(error.status))


def find_sweep_jobs(study: Path | None, words: Sequence[str], *, overwrite: bool = False) -> Sweep:
    """Compose every job of a sweep before the first is run, and return the sweep.

    Args:
        study: the study, if there is one.
        words: the other words of the command.
        overwrite: whether to remove the jobs of another sweep in the folder.

    Raises:
        ConfigError: if a job's config is invalid, the folder has another sweep or a run, or the study writes outside
            the current folder.
    """
    overrides = [word for word in words if word.startswith("~") or ("=" in word and not word.startswith("-"))]
    name = str(study) if study else DEFAULT
    place = find_sweep(name, overrides)
    folder = place.folder.absolute()
    check_place(folder, Path.cwd(), overrides)
    if not place.known:
        journal.check_free(folder, None, overwrite=overwrite)
        return Sweep(folder, None, resumed=False)
    jobs = tuple(config for _, config in load_jobs(name, overrides, sweep=True))
    before = None
    if not any(word.startswith(DIRECTORY) for word in overrides) and Path.cwd() in folder.parents[2:]:
        before = journal.interrupted(folder.parent.parent, _hashes(jobs))
    journal.check_free(before or folder, _hashes(jobs), overwrite=overwrite)
    return Sweep(before or folder, jobs, resumed=before is not None)


def _hashes(jobs: Sequence[RunConfig]) -> list[str]:
    return [config.hash() for config in jobs]


def show_leaderboard(folder: Path, jobs: Sequence[str]) -> int:
    """Compare a sweep's runs; print, write and record the leaderboard; return the exit status.

    Raises:
        ConfigError: if a run's file is damaged, or the leaderboard cannot be written.
    """
    board = leaderboard_of(folder, jobs)
    if board is None:
        return int(ExitStatus.DONE)
    files = write_leaderboard(folder, board)
    if log_style():
        log("leaderboard", f"written to {files[0]}", by=board.by, best=board.rows[0].name, path=str(files[0]))
    else:
        print_leaderboard(board, files)
    try:
        track_leaderboard(folder, jobs, files)
    except TrackingError as error:
        log("error", str(error))
        return int(ExitStatus.NOT_TRACKED)
    return int(ExitStatus.DONE)


class BackgroundRecordings:
    """The background recordings of a sweep's jobs, at most one at a time.

    `statuses` collects the exit statuses of failed recordings.
    """

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self._open: Callable[[], RunResult] | None = None

    def begin(self, config: TrackingConfig, result: RunResult) -> None:
        """Begin to record a job's run after the previous one is recorded."""
        from evalkit.tracking.record import begin_recording

        self.settle()
        try:
            self._open = begin_recording(config, result, folder=Path.cwd())
        except TrackingError as error:
            self._failed(error)

    def settle(self) -> None:
        """Wait until the last job is recorded, and print its run id or the error."""
        if self._open is None:
            return
        end, self._open = self._open, None
        try:
            result = end()
        except TrackingError as error:
            self._failed(error)
            return
        run, sweep = result.manifest.get("mlflow_run_id"), result.manifest.get("sweep") or {}
        tracked = result.manifest.get("tracked") or {"tracker": "MLflow", "id": run}
        if tracked["id"] and not log_style():
            print(f"{tracked['tracker']}: run {tracked['id']} is job {sweep.get('job')}", flush=True)

    def _failed(self, error: TrackingError) -> None:
        log("error", str(error))
        self.statuses.append(int(ExitStatus.NOT_TRACKED))
