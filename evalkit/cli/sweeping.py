"""A sweep as a whole: where it goes, whether it goes on with one that was interrupted, and what it comes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evalkit.cli.voice import say
from evalkit.compose import DEFAULT, find_sweep, load_jobs
from evalkit.config import RunConfig
from evalkit.errors import EvalkitError, ExitStatus
from evalkit.sweeps import journal

DIRECTORY = "hydra.sweep.dir="


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep about to run: its folder, and its jobs' configs unless its sweeper chooses them as it goes."""

    folder: Path
    jobs: tuple[RunConfig, ...] | None
    resumed: bool

    @property
    def words(self) -> list[str]:
        """What Hydra is told besides the command's own words."""
        return [f"{DIRECTORY}'{self.folder}'"]

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Note in the folder that the sweep was begun, and hold it against others that would go on with it."""
        with journal.begun(self.folder, _hashes(self.jobs or ())):
            if self.resumed:
                say("note", f"going on in {_short(self.folder)}: jobs that are finished there are not run again")
            yield

    def finish(self) -> int:
        """Compare the jobs, and close the sweep if all are finished; return the exit status of that.

        A job in another process cannot tell what became of its gate but by its folder.
        """
        done = journal.runs(self.folder)
        if self.jobs is not None:
            hashes = _hashes(self.jobs)
            done = {job: run for job, run in done.items() if run.config_hash in hashes}
            if set(hashes) <= {run.config_hash for run in done.values() if run.complete}:
                journal.end(self.folder)
        gates = int(ExitStatus.GATE_FAILED) if any(run.gate == "failed" for run in done.values()) else 0
        from evalkit.cli.board import show_leaderboard

        try:
            return max(gates, show_leaderboard(self.folder, list(done)))
        except EvalkitError as error:
            say("error", str(error))
            return max(gates, int(error.status))


def find(study: Path | None, words: Sequence[str], *, overwrite: bool = False) -> Sweep:
    """Compose every job of a sweep before the first is run, and return where they go.

    With `overwrite`, the jobs of another sweep in that folder are removed.

    Raises:
        ConfigError: if any job is described wrongly, or the folder holds another sweep or a run.
    """
    overrides = [word for word in words if word.startswith("~") or ("=" in word and not word.startswith("-"))]
    name = str(study) if study else DEFAULT
    place = find_sweep(name, overrides)
    folder = place.folder.absolute()
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


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
