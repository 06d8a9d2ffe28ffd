"""Judge a study's cases in several processes: shards of the cases, and the workers that judge them.

Workers share nothing but the store. What they leave, because they were killed or a request failed,
the run that started them judges itself.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import reduce
from importlib import import_module
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any

from evalkit.config import RunConfig
from evalkit.core.errors import ConfigError, EvalkitError, ExitStatus, Signaled
from evalkit.core.plugins import allowing_code, code_allowed
from evalkit.core.redaction import secret_in
from evalkit.core.resources import PROJECT_VARIABLE, project
from evalkit.core.values import frozen
from evalkit.engine.event_loop import handled_signals, interrupt
from evalkit.engine.progress import JudgingResult, Progress, Spend, add
from evalkit.engine.runner_kinds import Work
from evalkit.engine.shards import Shard, check_budget
from evalkit.guard.credentials import withheld_servers, withhold_all
from evalkit.runs.results import Calls
from evalkit.store import is_local, store_location, store_url

ATTEMPTS = 3
"""How often a shard is started: again after its worker died."""
POLL_SECONDS = 0.5
GRACE_SECONDS = 40.0
"""How long workers may take to stop; their calls in flight may take 30 s."""
LAST_SECONDS = 10.0
"""How long workers may take to stop at once."""
STOP_SECONDS = 0.2
STOPPED = "stopped"


@frozen
class ShardReport:
    """What became of a shard; with `error`, the run ends."""

    shard: Shard
    host: str
    spend: Spend = field(default_factory=Spend)
    error: str | None = None
    status: int = 0


class Lost(Exception):  # noqa: N818
    """Raised if a worker died; `str()` says on one line where, and of what."""


@frozen
class ShardTask:
    """What a worker receives: it can be pickled.

    `work` is a function of a module, and judges a shard.
    """

    work: Work
    config: RunConfig
    shard: Shard
    folder: str = field(default_factory=os.getcwd)
    project: str = field(default_factory=lambda: str(project()))
    allow_code: bool = field(default_factory=code_allowed)
    store: str = ""
    withheld: tuple[str, ...] = field(default_factory=withheld_servers)

    def __call__(
        self, observe: Callable[[Progress], None], stops: Callable[[], int] = lambda: 0
    ) -> ShardReport:
        """Judge the shard, in a worker's process; an error is a part of the report.

        Args:
            observe: called with the progress.
            stops: returns how often the worker was asked to stop: the second time ends its calls in
                flight.
        """
        report = ShardReport(self.shard, socket.gethostname())
        if Path(
            self.folder
        ).is_dir():  # paths are relative to where the run was started
            os.chdir(self.folder)
        # A worker's process starts without the settings of the run that sent the task.
        os.environ[PROJECT_VARIABLE] = self.project
        withhold_all(self.withheld)
        # A worker with another store would pay for answers that the run never finds.
        location = store_location(store_url(self.config.store.url))
        if location != self.store:
            problem = (
                f"store.url: the worker's store is {location}, not {self.store}; set"
                " EVALKIT_STORE where"
                " workers run"
            )
            return replace(report, error=problem, status=int(ExitStatus.WRONG))
        try:
            with allowing_code(self.allow_code), _interrupt_when_stopped(stops):
                judged = self.work(self.config, self.shard, observe)
        except Exception as error:  # a traceback in a worker's log helps nobody
            text = f"{type(error).__name__}: {error}"
            status = ExitStatus.WRONG
            if isinstance(error, EvalkitError):
                text = str(error)
                status = error.status
            return replace(report, error=text, status=int(status))
        return replace(
            report, spend=judged.spend, error=STOPPED if judged.interrupted else None
        )


@contextmanager
def _interrupt_when_stopped(stops: Callable[[], int]) -> Iterator[None]:
    """Interrupt what runs in this process each time that `stops` grows, at most twice.

    A thread looks every `STOP_SECONDS`, because an answer may be slow.

    Args:
        stops: Returns how often the run was asked to stop.
    """
    ended = threading.Event()

    def watch() -> None:
        delivered = 0
        while not ended.wait(STOP_SECONDS):
            # `interrupt` is false until the run has begun to listen; the stop is then delivered
            # later.
            while delivered < min(stops(), 2) and interrupt(SIGTERM):
                delivered += 1

    watcher = threading.Thread(target=watch, name="evalkit-stop", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


class Pool(ABC):
    """Workers, started by an engine. All methods are called from one thread."""

    def __init__(self) -> None:
        self.queue: deque[ShardTask] = deque()
        self.running: dict[Any, Shard] = {}

    @property
    def busy(self) -> bool:
        """Whether a shard is being judged."""
        return bool(self.running)

    def start(self, task: ShardTask) -> None:
        """Have a shard judged as soon as a worker is free."""
        self.queue.append(task)

    @abstractmethod
    def poll(self, seconds: float) -> Iterable[tuple[Shard, ShardReport | Lost]]:
        """Wait for at most this long; return the shards that ended and how.

        Raises:
            ConfigError: if the engine starts no workers for what is queued.
            NoWorkers: if the engine has had nowhere to run workers for too long.
        """

    @abstractmethod
    def progress(self) -> Iterable[Progress]:
        """Return the last reported state of each shard that was ever started."""

    @abstractmethod
    def stop(self) -> None:
        """Ask every worker to stop: its calls in flight may finish, unless it is asked again."""

    @abstractmethod
    def close(self) -> None:
        """End what is left, and remove what was only of use to the workers."""


class NoWorkers(Exception):  # noqa: N818
    """Raised if the engine has nowhere left to run workers; `str()` says why on one line."""


class WorkerError(EvalkitError):
    """A worker cannot judge its shard."""

    def __init__(self, text: str, status: int) -> None:
        self.status = ExitStatus(status)
        super().__init__(" ".join(text.split()))


def judge_in_workers(
    config: RunConfig,
    folder: Path,
    work: Work,
    observe: Callable[[Progress], None] | None = None,
    stored: Callable[[], int] | None = None,
) -> tuple[Sequence[ShardReport], float]:
    """Have the cases judged into the store by `runner.workers` workers.

    Returns their reports and the seconds that it took.

    Args:
        config: the config of the run.
        folder: the run folder.
        work: judges a shard in a worker.
        observe: called with the progress.
        stored: counts the answers in the store, for workers that end without a report.

    Raises:
        ConfigError: if the engine is not installed, or the workers cannot share the store.
        WorkerError: if a worker cannot go on, naming its shard and host, or there is no place left
            for workers; what the others have answered is stored.
        Signaled: on Ctrl-C, once every worker has stopped.
    """
    if (mode := config.store.mode) != "read_write":
        problem = f"workers share the store, but store.mode is {mode}"
        where = f"runner.kind={config.runner.kind}"
        raise ConfigError(problem, where=where, remedy="use read_write")
    # Before any worker starts: each problem here concerns all of them.
    check_budget(config)
    pool = _make_pool(config, folder)
    begun = time.monotonic()
    show = observe or (lambda _: None)
    count = config.runner.workers
    url = store_url(config.store.url)
    # A worker must not start workers of its own.
    online = config.with_({"runner.kind": "online", "runner.options": {}})
    if secret_in(url) is None:  # workers get the store's URL, unless it has a password
        online = online.with_({"store.url": url})
    store = store_location(url)
    numbered = [Shard(n, count) for n in range(1, count + 1)]
    shards = _Shards(
        pool, {shard: ShardTask(work, online, shard, store=store) for shard in numbered}
    )
    signals = list[int]()
    # A signal that arrives while workers are stopped must not leave them behind.
    with handled_signals(signals.append):
        try:
            shards.start()
            while shards.open_tasks:
                if signals:
                    raise Signaled(signals[0])
                for shard, end in pool.poll(POLL_SECONDS):
                    shards.ended(shard, end)
                parts = [*pool.progress()]
                combined = reduce(add, parts, Progress())
                # The total is known once every shard has reported its own.
                total = combined.total if len(parts) == count else None
                show(replace(combined, elapsed=time.monotonic() - begun, total=total))
        except (KeyboardInterrupt, EvalkitError, NoWorkers) as stop:
            # Whatever the reason, workers are stopped first: they would go on and pay.
            answers = _stop_workers(pool, stored, signals)
            kept = f"{answers:,} answers are stored; run again to continue"
            if isinstance(stop, KeyboardInterrupt):
                number = stop.number if isinstance(stop, Signaled) else SIGINT
                raise Signaled(number, f"interrupted: {kept}") from None
            if isinstance(stop, NoWorkers):
                status = int(ExitStatus.TOO_MANY_FAILURES)
                raise WorkerError(f"{stop}: {kept}", status) from None
            raise
        finally:
            pool.close()
    return shards.reports, time.monotonic() - begun


class _Shards:
    """Shards that are judged by a pool.

    Attributes:
        open_tasks: the tasks of the shards that have no report yet.
        reports: the reports of the others.
    """

    def __init__(self, pool: Pool, tasks: dict[Shard, ShardTask]) -> None:
        self.open_tasks = tasks
        self.reports = list[ShardReport]()
        self._pool = pool
        self._attempts = dict.fromkeys(tasks, 1)

    def start(self) -> None:
        """Have all shards judged."""
        for task in self.open_tasks.values():
            self._pool.start(task)

    def ended(self, shard: Shard, end: ShardReport | Lost) -> None:
        """Keep the report of a shard, or have it judged again if its worker was lost.

        Raises:
            WorkerError: if the worker cannot judge it, or was lost too often.
        """
        # Stopped from outside, such as by the cluster: it is started again.
        if isinstance(end, ShardReport) and end.error == STOPPED:
            end = Lost(f"on {end.host}: it was stopped")
        if isinstance(end, ShardReport):
            if end.error is not None:
                problem = f"shard {shard} on {end.host}: {end.error}"
                raise WorkerError(problem, end.status)
            self.reports.append(end)
            del self.open_tasks[shard]
            return
        if self._attempts[shard] == ATTEMPTS:
            problem = (
                f"shard {shard}: its worker died {ATTEMPTS} times ({end}); run again to"
                " continue"
            )
            raise WorkerError(problem, int(ExitStatus.WRONG))
        # What the dead worker had stored is found there, so a new start pays only for the rest.
        self._attempts[shard] += 1
        self._pool.start(self.open_tasks[shard])


def _stop_workers(
    pool: Pool, stored: Callable[[], int] | None, signals: Sequence[int]
) -> int:
    """Stop the workers and wait until they have; return how many answers there are.

    A second signal ends calls.
    """
    # The second round asks again, which ends calls in flight.
    for seconds in (GRACE_SECONDS, LAST_SECONDS):
        pool.stop()
        until = time.monotonic() + seconds
        while (
            pool.busy
            and time.monotonic() < until
            and (len(signals) < 2 or seconds == LAST_SECONDS)
        ):
            # `poll` is a generator: without the list it would not run.
            list(pool.poll(POLL_SECONDS))
        if not pool.busy:
            break
    parts = list(pool.progress())
    if stored is not None and any(part.answers is None for part in parts):
        return stored()
    return sum(
        part.done - part.failed if part.answers is None else part.answers
        for part in parts
    )


def add_spent(
    judged: JudgingResult, reports: Sequence[ShardReport], seconds: float
) -> JudgingResult:
    """Return the result of a run with what its workers have sent and spent; a request
    that failed there is a retry.
    """
    workers = reduce(add, (report.spend for report in reports), Spend())
    sent = workers.calls.sent
    failed = workers.calls.failed
    answered = max(0, sent - failed)
    # The run sends again what failed in a worker, so that is a retry of the same request.
    retried = workers.calls.retried + min(failed, judged.calls.sent)
    calls = Calls(
        stored=-min(answered, judged.calls.stored), sent=answered, retried=retried
    )
    spend = add(judged.spend, replace(workers, calls=calls))
    return replace(
        judged, spend=spend, sending=judged.sending + (seconds if sent else 0.0)
    )


def _make_pool(config: RunConfig, folder: Path) -> Pool:
    """Return the workers that `runner.kind` names.

    Raises:
        ConfigError: if its package is not installed, or it cannot be used.
    """
    kind = config.runner.kind
    runner = config.runner
    try:
        module = import_module(f"evalkit.engine.workers.{kind}_pool")
    except ImportError as error:
        remedy = f"run pip install 'evalkit-judge[{kind}]'"
        raise ConfigError(
            f"needs a package that is not installed ({error})",
            where="runner",
            remedy=remedy,
        ) from None

    def check_shared() -> None:
        if is_local(store_url(config.store.url)):
            remedy = "use a PostgreSQL store: store.url=postgresql://user@host/database"
            problem = "workers on several machines cannot share an SQLite file"
            raise ConfigError(problem, where="store.url", remedy=remedy)

    pool: Pool = module.ENGINE(runner.workers, runner.options, folder, check_shared)
    return pool
