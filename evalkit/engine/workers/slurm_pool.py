"""Workers that are jobs of Slurm, an array of them, submitted by submitit; or processes
of this machine.
"""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import submitit
from submitit.core.job_environment import JobEnvironment
from submitit.core.utils import FailedJobError, UncompletedJobError

from evalkit.core.atomic_files import write_file
from evalkit.core.errors import ConfigError
from evalkit.core.values import Json
from evalkit.engine.event_loop import handled_signals
from evalkit.engine.progress import Progress
from evalkit.engine.shards import Shard
from evalkit.engine.workers import Lost, Pool, ShardReport, ShardTask

FOLDER = "workers"
_DAY = 24 * 60
_EVERY = 1.0


class ShardJob:
    """Judges a shard in a job; one that is preempted or out of time is queued again,
    and the store has its answers.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, task: ShardTask) -> ShardReport:
        """Judge a shard; on the signal of a preemption, calls in flight may finish first."""
        # submitit queues a job again in its handler of this signal. It would cut off calls in
        # flight, so the signal is only noted here and handed on after them.
        number = getattr(signal, f"SIG{JobEnvironment.USR_SIG}")
        requeue = signal.getsignal(number)
        preempted: list[tuple[int, Any]] = []
        signal.signal(number, lambda *arguments: preempted.append(arguments))
        updated = 0.0

        def observe(progress: Progress) -> None:
            nonlocal updated
            last = progress.done == progress.total or progress.answers is not None
            if last or time.monotonic() - updated > _EVERY:
                updated = time.monotonic()
                write_file(
                    _progress_file(self._folder, task.shard),
                    [json.dumps(asdict(progress)).encode()],
                )

        report = task(observe, lambda: max(bool(preempted), self._stops()))
        if preempted and callable(requeue):
            requeue(*preempted[0])
        signal.signal(number, requeue)
        return report

    def _stops(self) -> int:
        """Return how often the run asked its workers to stop; one that has removed
        their folder is over.
        """
        if not self._folder.is_dir():
            return 2
        try:
            return len(_stop_file(self._folder).read_bytes())
        except OSError:
            return 0

    def checkpoint(self, task: ShardTask) -> submitit.helpers.DelayedSubmission:
        """Return what is to be queued again: the same shard."""
        return submitit.helpers.DelayedSubmission(self, task)


class SlurmPool(Pool):
    """Jobs of Slurm, or processes of this machine with `runner.options.cluster=local`.

    Args:
        count: The number of jobs that run at the same time.
        options: `runner.options`.
        folder: The run folder, which every machine can reach; a folder in it is for the jobs.
        shared: Checks that workers on several machines can share the store.

    Raises:
        ConfigError: if Slurm is not here, or an option is wrong.
    """

    def __init__(
        self, count: int, options: Json, folder: Path, shared: Callable[[], None]
    ) -> None:
        super().__init__()
        parameters = dict(options)
        cluster = parameters.pop("cluster", "slurm")
        self._local = cluster != "slurm"
        self._folder = folder.absolute() / FOLDER
        shutil.rmtree(self._folder, ignore_errors=True)
        if not self._local:
            shared()
            parameters.setdefault("slurm_array_parallelism", count)
        try:
            self._executor = submitit.AutoExecutor(self._folder, cluster=cluster)
            self._executor.update_parameters(
                **{"name": "evalkit", "timeout_min": _DAY, **parameters}
            )
        except Exception as error:
            remedy = "see submitit's parameters, or set runner.options.cluster=local"
            raise ConfigError(
                " ".join(str(error).split()), where="runner.options", remedy=remedy
            ) from None
        self._started: set[Shard] = set()
        self._stops = b""
        self._keep_logs = False

    def poll(self, seconds: float) -> Iterable[tuple[Shard, ShardReport | Lost]]:
        """Wait for at most this long; yield each shard that ended, with its report or how its job
        was lost.

        Nothing is yielded if no job ended in time.
        """
        self._submit()
        until = time.monotonic() + seconds
        while not (done := [job for job in self.running if job.done()]):
            if not self.running or time.monotonic() > until:
                return
            time.sleep(min(0.1, seconds))
        for job in done:
            shard = self.running.pop(job)
            try:
                if self._local and not job.paths.result_pickle.exists():
                    # Of this machine's processes; submitit would wait 15 s for the file, as if the
                    # disk were slow.
                    raise UncompletedJobError(
                        f"Job {job.job_id} has not produced any output"
                    )
                yield shard, job.result()
            except (UncompletedJobError, FailedJobError) as error:
                # The error names a log, which must still be there after the run.
                self._keep_logs = True
                first = " ".join(str(error).split())[:120]
                yield shard, Lost(f"{first}; its log is {job.paths.stderr}")

    def progress(self) -> Iterable[Progress]:
        """Return the last reported state of each shard that was ever started."""
        for shard in self._started:
            with suppress(OSError, ValueError):
                yield Progress(
                    **json.loads(_progress_file(self._folder, shard).read_bytes())
                )

    def stop(self) -> None:
        """Ask every job to stop: its calls in flight may finish, unless asked again; a
        queued one is taken out.
        """
        self.queue.clear()
        self._stops += b"."
        # The length of the file is the number of stops; see `ShardJob._stops`.
        write_file(_stop_file(self._folder), [self._stops])
        # A queued job never sees the file, and could wait for days.
        for job in () if self._local else [*self.running]:
            if job.state == "PENDING":
                job.cancel()
                del self.running[job]

    def close(self) -> None:
        """End the jobs that are left, and remove their folder unless one died."""
        for job in self.running:
            job.cancel()
        if not self._keep_logs:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _submit(self) -> None:
        """Submit the queued shards as one array of jobs.

        Raises:
            ConfigError: If Slurm refuses them.
        """
        if not self.queue:
            return
        tasks = [*self.queue]
        self.queue.clear()
        try:
            # A signal between the submission and the assignment would leave jobs that nobody
            # cancels.
            with _deferred_signals():
                jobs = self._executor.map_array(ShardJob(self._folder), tasks)
                self.running |= {
                    job: task.shard for task, job in zip(tasks, jobs, strict=True)
                }
        except FailedJobError as error:
            problem = f"Slurm refused the jobs ({' '.join(str(error).split())[:200]})"
            raise ConfigError(problem, where="runner.options") from None
        self._started |= {task.shard for task in tasks}


ENGINE = SlurmPool


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Handle signals when the block ends, so that no job that is started inside is forgotten.

    Processes that are started inside never see Ctrl-C: a file asks them to stop.
    """
    arrived: list[int] = []
    with handled_signals(arrived.append):
        # Child processes inherit the mask.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for number in arrived[:1]:
        signal.raise_signal(number)


def _progress_file(folder: Path, shard: Shard) -> Path:
    return folder / f"progress-{shard.index}.json"


def _stop_file(folder: Path) -> Path:
    return folder / "stop"
