"""Run the jobs that Hydra composes from a command's words, collect their exit statuses,
and finish a sweep.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stdout,
    suppress,
)
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, Final, Protocol

from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.errors import CompactHydraException, MissingConfigException
from hydra.types import RunMode, TaskFunction
from omegaconf import DictConfig, OmegaConf

from evalkit.cli.console import CommandSettings, is_verbose, log, log_style, reported
from evalkit.cli.language import ENGLISH, speaker
from evalkit.cli.parser import check_overrides, is_override
from evalkit.cli.summary import print_recording
from evalkit.compose import (
    DEFAULT,
    add_study,
    as_composed,
    as_written,
    check_place,
    enter_project_of,
    find_study,
    for_hydra,
    hydra_error,
    is_multirun,
    load_jobs,
    own_hydra,
    to_run_config,
    unusable,
)
from evalkit.compose.error_mapping import EACH
from evalkit.compose.studies import unknown_study_error
from evalkit.compose.user_files import hidden_files, user_files
from evalkit.config import NOT_MEASURED, RunConfig, TrackingConfig
from evalkit.core.claims import Claim
from evalkit.core.errors import ConfigError, EvalkitError, ExitStatus
from evalkit.core.optional_features import load_feature
from evalkit.core.redaction import redact, secret_in
from evalkit.core.regular_files import read_file
from evalkit.core.values import JsonObject, frozen
from evalkit.runs import claim_run, claim_unused_run
from evalkit.runs.results import RunResult, Spent
from evalkit.scoring.catalog.removed import metric_remedy


class BackgroundRecordings:
    """The background recordings of a sweep's jobs, at most one at a time.

    `statuses` collects the exit statuses of failed recordings.
    """

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self._open: Callable[[], RunResult] | None = None
        self._claim: Claim | None = None
        self._say = ENGLISH

    def begin(self, config: TrackingConfig, result: RunResult) -> None:
        """Begin to record a job's run after the previous one is recorded."""
        from evalkit.tracking.recording import begin_recording

        self.settle()
        self._say = speaker(result.config)
        with reported(self.statuses):
            self._open = begin_recording(config, result)
            if result.folder is not None:
                # Another command must not change the folder while it is being recorded.
                self._claim = claim_run(Path(result.folder))

    def settle(self) -> None:
        """Wait until the last job is recorded, and print its run id or the error."""
        if self._open is None:
            return
        end = self._open
        # First, so that a recording that fails is not settled twice.
        self._open = None
        with reported(self.statuses), self._claim or nullcontext():
            manifest = end().manifest
            if is_verbose() and not log_style():
                print_recording(manifest, self._say)


class JobError(CompactHydraException):
    """A job of a sweep that failed with `status` after reporting why; it can be pickled."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(status)

    def __str__(self) -> str:
        return f"a job ended with status {self.status}"


def objective_value(
    folder: Path, objective: str | Sequence[str]
) -> float | list[float]:
    """Return the value of a finished run's metric, or of several.

    Raises:
        JobError: if the run has no such metric, or it has no value; this is logged.
    """
    metrics = json.loads(read_file(folder / "metrics.json"))["metrics"]
    names = [objective] if isinstance(objective, str) else list(objective)
    for name in names:
        if name not in metrics:
            log(
                "error",
                f"objective: no metric '{name}': {metric_remedy(name, metrics)}",
            )
        elif metrics[name]["value"] is None:
            log(
                "error",
                f"objective: {name} has no value in {folder}: {metrics[name]['note']}",
            )
        else:
            continue
        raise JobError(ExitStatus.WRONG)
    # An optimizer gets numbers in the order of `objective`.
    values = [float(metrics[name]["value"]) for name in names]
    if isinstance(objective, str):
        return values[0]
    return values


_SWEEPS: Final = "evalkit.cli.sweep_jobs"
"""By name: only some commands run a sweep."""
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
"""The name of the folder that Hydra gives the runs and sweeps of a day."""
ANOTHER = "choose another folder with hydra.sweep.dir"
MULTIRUN = ("-m", "--multirun")
VALUED = ("--cfg", "--package", "--info")


class Sweep(Protocol):
    """A sweep about to run."""

    constant: Collection[str]
    """The keys that have the same value in every job."""

    @property
    def words(self) -> list[str]:
        """The overrides that are added to the command's words."""

    def running(self) -> AbstractContextManager[None]:
        """Mark the sweep as begun, and release its folder after the block."""

    def finish(self) -> int:
        """Compare the jobs, and return the exit status."""


@frozen
class Job:
    """One job of a command: its checked config, its folder, and its number in a sweep
    if it belongs to one.

    `recordings` records sequential jobs in the background, unless the next job needs the result of
    this one. `overwrite`: whether to replace another run in the folder. `spent`: what earlier jobs
    spent of a shared budget. `noted`: the notes on configs that this command has printed.
    `asked_keys`: the content keys of requests that this command has sent.
    """

    config: RunConfig
    folder: Path
    sweep: JsonObject | None
    recordings: BackgroundRecordings | None = None
    overwrite: bool = False
    spent: Spent | None = None
    noted: set[str] = field(default_factory=set)
    asked_keys: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Driver:
    """Run `work` for each job that Hydra composes, and collect the exit statuses in `statuses`.

    `words`: the overrides of the command line. `constant`: the keys that have the same value in
    every job of a sweep.
    """

    work: Callable[[Job], int]
    study: Path | None
    words: Sequence[str] = ()
    constant: Collection[str] = ()
    statuses: list[int] = field(default_factory=list)
    pid: int = field(default_factory=os.getpid)
    recordings: BackgroundRecordings = field(default_factory=BackgroundRecordings)
    overwrite: bool = False
    spent: Spent = field(default_factory=Spent)
    noted: set[str] = field(default_factory=set)
    asked_keys: set[str] = field(default_factory=set)

    def __call__(self, cfg: DictConfig) -> int | float | list[float]:
        """Run one job as Hydra's task function; return its status, or the value of `objective` if
        it is set.

        Raises:
            JobError: If the job failed, in a search or in another process: only an exception tells
                Hydra.
        """
        objective = OmegaConf.select(cfg, "objective")
        folder, status = self._run_in_own_folder(cfg, searched=objective is not None)
        self.statuses.append(status)
        # A failed gate has numbers: the sweep continues and reports it at the end.
        # In a search, or in another process, only an exception tells Hydra that the job failed.
        failed = status not in (
            ExitStatus.DONE,
            ExitStatus.GATE_FAILED,
            ExitStatus.GATE_UNDECIDED,
        )
        if failed and (objective or os.getpid() != self.pid):
            raise JobError(status)
        if objective:
            return objective_value(folder, objective)
        return status

    def _run_in_own_folder(
        self, cfg: DictConfig, *, searched: bool
    ) -> tuple[Path, int]:
        """Run one job in a folder that no other process has.

        An error of evalkit is logged and becomes the exit status; an empty folder is removed.

        Args:
            cfg: The composed config.
            searched: Whether a sweeper chooses the next job by this one's result.

        Returns:
            The folder, which may be a numbered neighbor of the one in the config, and the exit
                status.
        """
        settings = HydraConfig.get()
        folder = Path(settings.runtime.output_dir)
        claim = None
        try:
            check_place(folder, Path(settings.runtime.cwd), self.words)
            if (secret := secret_in(str(folder))) is not None:
                raise ConfigError(
                    secret,
                    where="the run folder's name",
                    remedy="give another hydra.run.dir",
                )
            # The folder may change here: without a name, a taken one gets a numbered neighbor.
            folder, claim = _claimed(folder, settings)
            return folder, self._run_job(cfg, folder, searched=searched)
        except EvalkitError as error:
            log("error", str(error))
            return folder, error.status
        finally:
            if claim is not None:
                claim.release()
            # Hydra creates the folder before the job; one that failed early leaves nothing.
            _remove_if_empty(folder)

    def _run_job(self, cfg: DictConfig, folder: Path, *, searched: bool) -> int:
        """Run the job of a composed config, and return its exit status.

        `searched`: an optimizer chooses the jobs, and so reads the result of each.
        """
        settings = HydraConfig.get()
        config = to_run_config(
            cfg,
            [*([self.study] if self.study else ()), *user_files()],
            study=self.study,
            words=[word for word in self.words if not word.startswith("-")],
        )
        sweep = None
        if settings.mode == RunMode.MULTIRUN:
            sweep = _sweep_entry(settings, self.study, self.constant)
        # A launcher may use processes or threads.
        # Jobs side by side cannot share a budget, a recording or the set of sent requests.
        in_sequence = os.getpid() == self.pid and current_thread() is main_thread()
        if sweep is None or not in_sequence:
            _check_budget(config)
            return self.work(
                Job(
                    config,
                    folder,
                    sweep,
                    overwrite=self.overwrite,
                    noted=self.noted,
                )
            )
        # An optimizer reads the result of a job before it chooses the next one.
        recordings = None if searched else self.recordings
        return self.work(
            Job(
                config=config,
                folder=folder,
                sweep=sweep,
                recordings=recordings,
                overwrite=self.overwrite,
                spent=self.spent,
                noted=self.noted,
                asked_keys=self.asked_keys,
            )
        )


def _check_budget(config: RunConfig) -> None:
    """Refuse a budget for a sweep whose jobs run in several processes."""
    runner = config.runner
    capped = runner.budget_usd is not None or runner.budget_calls is not None
    if (
        capped
        and runner.budget_scope == "sweep"
        and HydraConfig.get().mode == RunMode.MULTIRUN
    ):
        raise ConfigError(
            "jobs that run in several processes cannot share a budget",
            where="runner.budget_scope",
            remedy="use Hydra's basic launcher, or budget_scope=run",
        )


def _claimed(folder: Path, settings: Any) -> tuple[Path, Claim]:
    """Claim the folder that Hydra chose, or if nobody named it a numbered one next to it."""
    if settings.mode == RunMode.MULTIRUN:
        return folder, claim_run(folder, ANOTHER)
    if any(word.startswith("hydra.run.dir=") for word in settings.overrides.hydra):
        return folder, claim_run(folder)
    return claim_unused_run(folder)


def _sweep_entry(
    settings: Any, study: Path | None, constant: Collection[str]
) -> JsonObject:
    """Return what a job's manifest says of its sweep: its id and name, and the job's own words.

    Args:
        settings: Hydra's settings of the job.
        study: The file of the study; `None` for the default run.
        constant: The keys that have the same value in all jobs.
    """
    folder = Path(settings.sweep.dir).resolve()
    dated = bool(DATE.fullmatch(folder.parent.name))
    if study:
        name = study.stem
    elif dated:
        # Hydra's default: a folder for the day, and one for the time.
        name = f"sweep {folder.parent.name} {folder.name}"
    else:
        name = folder.name
    words = [str(word) for word in settings.overrides.task]
    # The name of a job has only the words that distinguish it from the others.
    differing = [word for word in words if _key(word) not in constant]
    if not differing:
        differing = [
            word for word in words if _key(word).partition(".")[0] not in NOT_MEASURED
        ]
    return {
        "id": str(folder.relative_to(folder.parent.parent)),
        "job": settings.job.num,
        "name": name,
        "overrides": [as_written(word) for word in differing],
    }


def _key(word: str) -> str:
    return word.partition("=")[0].lstrip("+~")


def _remove_if_empty(folder: Path) -> None:
    """Remove an empty folder and its two parents if they are empty, but never the
    current folder or its parents.
    """
    here = Path.cwd()
    with suppress(OSError):
        # Hydra created the folder with its parents. `rmdir` refuses one that is not empty, and
        # that ends the loop.
        for empty in (folder, *folder.parents[:2]):
            if here.is_relative_to(empty.resolve()):
                return
            empty.rmdir()


def split_study(words: Sequence[str]) -> tuple[Path | None, list[str]]:
    """Return the study file and the other words of a command; `None` for the file if the first
    word is an override or an option.

    The command continues in the project of the study.

    Raises:
        ConfigError: if the first word is no file, no study and no override, or the file cannot be
            used.
    """
    if not words or words[0].startswith(("-", "+", "~")) or "=" in words[0]:
        return None, list(words)
    study = find_study(words[0])
    if study is None:
        raise unknown_study_error(words[0])
    if (fault := unusable(study)) is not None:
        raise fault
    # The study's own conf/ and prompts/ count, not those of where the command runs.
    enter_project_of(study)
    return study, list(words[1:])


def study_jobs(
    words: Sequence[str], multirun: bool | None = None
) -> list[tuple[tuple[str, ...], RunConfig]]:
    """Return the overrides and the config of each job that a study and overrides describe.

    Args:
        words: study and overrides.
        multirun: whether lists of values are a sweep, also if the study does not say so; `None` for
            one job.

    Raises:
        ConfigError: if a word is no override, or a config is invalid.
    """
    study, overrides = split_study(words)
    check_overrides(overrides)
    sweep = multirun is not None and (multirun or is_sweep(study, overrides))
    try:
        return load_jobs(str(study) if study else DEFAULT, overrides, sweep=sweep)
    except ConfigError as error:
        if multirun is None and EACH in error.remedy:  # the command has no -m
            remedy = error.remedy.replace(EACH, "choose one of them")
            raise ConfigError(error.what, where=error.where, remedy=remedy) from None
        raise


def run_jobs(
    words: Sequence[str],
    work: Callable[[Job], int],
    *,
    output: Path | None = None,
    overwrite: bool = False,
) -> int:
    """Compose and run each job; return the highest exit status.

    Args:
        words: study, overrides and Hydra's flags.
        work: runs one job and returns its exit status.
        output: the folder of the run or sweep.
        overwrite: whether to replace another run in that folder.

    Raises:
        EvalkitError: if the config cannot be composed.
    """
    study, arguments = split_study(words)
    # Overrides come first; everything from the first flag on is Hydra's.
    flags = next(
        (index for index, word in enumerate(arguments) if word.startswith("-")),
        len(arguments),
    )
    check_overrides(arguments[:flags])
    sweeping = is_sweep(study, arguments)
    if output is not None:
        key = "hydra.sweep.dir" if sweeping else "hydra.run.dir"
        escaped = str(output).replace("'", "\\'")
        arguments = [f"{key}='{escaped}'", *arguments]
    for file in hidden_files():
        print(
            f"evalkit: note: {file} is hidden by evalkit's file of the same name; rename it",
            file=sys.stderr,
        )
    name = add_study(study) if study else DEFAULT
    arguments = for_hydra(arguments, sweep=sweeping)
    # With flags such as --cfg, Hydra prints the config and no job is run.
    if not sweeping or _only_prints(arguments):
        driver = Driver(work, study, arguments, overwrite=overwrite)
        _run_hydra(name, arguments, driver)
        return max(driver.statuses, default=0)
    sweeps = load_feature(_SWEEPS, "--multirun")
    sweep: Sweep = sweeps.find_sweep_jobs(study, arguments, overwrite=overwrite)
    driver = Driver(work, study, arguments, sweep.constant, overwrite=overwrite)
    with sweep.running():
        try:
            _run_hydra(name, [*arguments, *sweep.words], driver, sweep=True)
        finally:
            # Also after an error: an open recording would be cut off with the process.
            driver.recordings.settle()
        return max([*driver.statuses, *driver.recordings.statuses, sweep.finish()])


def _only_prints(words: Sequence[str]) -> bool:
    return any(
        word.startswith("--") or word in VALUED
        for word in words
        if word not in MULTIRUN
    )


def is_sweep(study: Path | None, words: Sequence[str]) -> bool:
    """Return whether a command's words, or the config that they compose, request a sweep.

    Raises:
        ConfigError: if the config cannot be composed.
    """
    if any(word in MULTIRUN for word in words):
        return True
    # The last word counts, as for all overrides.
    modes = [
        word.partition("=")[2].strip("'\"")
        for word in words
        if word.lstrip("+").startswith("hydra.mode=")
    ]
    if modes:
        return modes[-1] == "MULTIRUN"
    overrides = [word for word in words if is_override(word)]
    return is_multirun(str(study) if study else DEFAULT, overrides)


@contextmanager
def _decoded_output(words: Sequence[str]) -> Iterator[None]:
    """Decode the criteria in a config that Hydra prints, and redact secrets."""
    if not _only_prints(words):
        yield
        return
    changed = any(word != as_written(word) for word in words)
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            yield
    finally:
        print(
            # A config may hold a secret that the user set on the command line; it must not get
            # into logs.
            redact(as_composed(printed.getvalue()) if changed else printed.getvalue()),
            end="",
        )


def _call_hydra(
    hydra: Any, name: str, words: Sequence[str], task: TaskFunction, *, sweep: bool
) -> None:
    """Call Hydra as `hydra.main` does, which can only read `sys.argv`.

    Args:
        hydra: Hydra, set up.
        name: The name of the config.
        words: The overrides, and options of Hydra, such as `--cfg`.
        task: Runs one job.
        sweep: Whether lists of values are a sweep.
    """
    parser = get_args_parser()
    # argparse needs consecutive overrides: a flag between them would be an error.
    args = parser.parse_args(
        [
            *filter(is_override, words),
            *(word for word in words if not is_override(word)),
        ]
    )
    if args.hydra_help:
        hydra.hydra_help(name, parser, args)
    elif args.cfg:
        hydra.show_cfg(name, args.overrides, args.cfg, args.package, args.resolve)
    elif args.info:
        hydra.show_info(args.info, name, args.overrides)
    elif args.shell_completion:
        hydra.shell_completion(name, args.overrides)
    elif sweep:
        hydra.multirun(name, task, [*args.overrides, "hydra.mode=MULTIRUN"])
    else:
        hydra.run(name, task, args.overrides)


def _run_hydra(
    name: str, words: Sequence[str], driver: Driver, *, sweep: bool = False
) -> None:
    """Run jobs through Hydra; their exit statuses are added to those of the driver.

    Raises:
        ConfigError: if Hydra refuses the words, or its folder cannot be written.
    """
    settings = CommandSettings.current()

    def task(cfg: DictConfig) -> int | float | list[float]:
        # A launcher may run this in another process or thread.
        # Trust and flags are settings of the process; a new one would have the defaults.
        with settings.applied():
            return driver(cfg)

    try:
        with _decoded_output(words), own_hydra(words) as hydra:
            _call_hydra(hydra, name, words, task, sweep=sweep)
    except JobError as error:
        driver.statuses.append(error.status)
    except (EvalkitError, KeyboardInterrupt, BrokenPipeError):
        raise
    except SystemExit as stop:
        if stop.code:
            driver.statuses.append(ExitStatus.WRONG)
    # Before `OSError`, whose message would be about writing.
    except MissingConfigException as error:  # also an OSError
        raise hydra_error(error) from error
    except OSError as error:
        remedy = "give another hydra.run.dir"
        raise ConfigError(
            f"cannot be written ({error.strerror})",
            where=str(error.filename),
            remedy=remedy,
        ) from None
    except Exception as error:
        raise hydra_error(error) from error
