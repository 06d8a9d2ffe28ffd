"""Workers that are actors of Ray: each judges one shard after the other; another one
takes over if it dies.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalkit.core.values import Json, JsonObject

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Under `uv run`, Ray would otherwise upload the current folder and install the project anew for
# each worker.
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
os.environ.setdefault(
    "RAY_raylet_start_wait_time_s", "120"
)  # of a busy machine; Ray's own 30 s were too few
os.environ.setdefault(
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0"
)  # the default to be, else there is a warning

import ray

from evalkit.core.errors import ConfigError, EvalkitError
from evalkit.engine.progress import Progress
from evalkit.engine.shards import Shard
from evalkit.engine.workers import Lost, NoWorkers, Pool, ShardReport, ShardTask

_CLUSTER = ("address", "runtime_env", "namespace")
_REACHABLE_SECONDS = 10.0
_NODE_SECONDS = 60.0
"""How long a run waits for a node once none is left."""
_log = logging.getLogger(__name__)


class ShardActor:
    """Judges shards in one thread, and answers in another what its state is."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._stops = 0
        self._parent = os.getppid()

    def host(self) -> str:
        """Return the name of the machine."""
        return socket.gethostname()

    def judge(self, task: ShardTask) -> ShardReport:
        """Judge a shard."""
        self._progress = None

        def observe(progress: Progress) -> None:
            self._progress = progress

        # One whose node is lost stops at once.
        # The parent is Ray's process of the node; without it, this one has another parent.
        return task(observe, lambda: self._stops if os.getppid() == self._parent else 2)

    def progress(self) -> Progress | None:
        """Return the state of the current shard."""
        return self._progress

    def stop(self) -> None:
        """Stop once calls in flight have finished; the second time, at once."""
        self._stops += 1


class RayPool(Pool):
    """Actors on the cluster at `address`, on that of `RAY_ADDRESS`, or on this machine.

    Args:
        count: The number of actors.
        options: `runner.options`.
        shared: Checks that workers on several machines can share the store.

    Raises:
        ConfigError: if Ray cannot be started or reached, or an option is wrong.
    """

    def __init__(
        self, count: int, options: Json, _: Path, shared: Callable[[], None]
    ) -> None:
        super().__init__()
        cluster = {name: value for name, value in options.items() if name in _CLUSTER}
        actor_options = {
            name: value for name, value in options.items() if name not in _CLUSTER
        }
        try:
            connect(count, cluster)
            if sum(bool(node["Alive"]) for node in ray.nodes()) > 1:
                shared()
            # Spread over the machines, so that the loss of one leaves the others.
            kind = ray.remote(ShardActor).options(
                **{
                    "scheduling_strategy": "SPREAD",
                    **actor_options,
                    # One thread judges, the other answers `progress` and `stop`.
                    "max_concurrency": 2,
                }
            )
            self._start: Callable[[], Any] = kind.remote
            self._actors = [self._start() for _ in range(count)]
        except EvalkitError:
            raise
        except Exception as error:
            text = str(error).strip().partition("\n")[0]
            raise ConfigError(
                f"Ray cannot start the workers ({text})", where="runner.options"
            ) from None
        self._idle: list[Any] = []
        # By the reference of what an actor does now: first its host name, which shows that it is
        # there, then a shard.
        self._actor: dict[Any, Any] = {
            actor.host.remote(): actor for actor in self._actors
        }
        self._hosts: dict[Any, str] = {}
        self._progress: dict[Shard, Progress] = {}
        self._alone: float | None = None
        """When the last node was lost, if none is there."""

    def poll(self, seconds: float) -> Iterable[tuple[Shard, ShardReport | Lost]]:
        """Wait for at most this long; yield each shard that ended, with its report or how its
        worker was lost.

        A lost worker is replaced.

        Raises:
            ConfigError: If every worker has died.
        """
        self._check_nodes()
        while self.queue and self._idle:
            actor = self._idle.pop()
            task = self.queue.popleft()
            ref = actor.judge.remote(task)
            self._actor[ref] = actor
            self.running[ref] = task.shard
        if self.queue and not self._actor:
            raise ConfigError(
                "every worker has died",
                where="Ray",
                remedy="see its logs, and run again to continue",
            )
        done, _ = (
            ray.wait([*self._actor], num_returns=1, timeout=seconds)
            if self._actor
            else ((), ())
        )
        for ref in done:
            actor = self._actor.pop(ref)
            shard = self.running.pop(ref, None)
            try:
                end = ray.get(ref)
                if shard is not None:
                    self._note(shard, actor.progress.remote())
                self._idle.append(actor)
            except ray.exceptions.RayError as error:
                text = " ".join(str(error).split())[:200]
                end = Lost(
                    f"on {self._hosts.get(actor, 'a host that Ray did not reach')}: {text}"
                )
                if shard is not None:  # at most as often as shards are started again
                    # The new actor is idle only after it has reported its host, as those at the
                    # start.
                    self._actors[self._actors.index(actor)] = new = self._start()
                    self._actor[new.host.remote()] = new
            if shard is not None:
                yield shard, end
            elif isinstance(end, str):
                self._hosts[actor] = end

    def _check_nodes(self) -> None:
        """Warn if no node is left, and give up if none joins within `_NODE_SECONDS`; Ray would wait
        forever.

        Raises:
            NoWorkers: If none joined.
        """
        if any(node["Alive"] for node in ray.nodes()):
            self._alone = None
        elif self._alone is None:
            self._alone = time.monotonic()
            _log.warning(
                "Ray has no node left: waiting %g s for one to join", _NODE_SECONDS
            )
        elif time.monotonic() - self._alone > _NODE_SECONDS:
            self.running.clear()  # no actor is left to stop
            self._actor.clear()
            raise NoWorkers(
                f"Ray has no node left, and none joined in {_NODE_SECONDS:g} s"
            )

    def progress(self) -> Iterable[Progress]:
        """Return the last reported state of each shard that was ever started."""
        refs = {
            self._actor[ref].progress.remote(): shard
            for ref, shard in self.running.items()
        }
        done, _ = (
            # With a timeout, because an actor on a lost node never answers.
            ray.wait(list(refs), num_returns=len(refs), timeout=1.0)
            if refs
            else ((), ())
        )
        for ref in done:
            self._note(refs[ref], ref)
        return self._progress.values()

    def _note(self, shard: Shard, ref: Any) -> None:
        with suppress(ray.exceptions.RayError):  # poll tells of an actor that died
            if (progress := ray.get(ref)) is not None:
                self._progress[shard] = progress

    def stop(self) -> None:
        """Ask every actor to stop: its calls in flight may finish, unless asked again."""
        self.queue.clear()
        for actor in self._actors:
            actor.stop.remote()

    def close(self) -> None:
        """End the actors."""
        for actor in self._actors:
            ray.kill(actor)


ENGINE = RayPool


def connect(count: int, cluster: Json, *, show: bool = False) -> None:
    """Connect to a Ray cluster, unless this process is connected.

    It is the named one, that of `RAY_ADDRESS`, or one on this machine.

    Args:
        count: The number of workers.
        cluster: Ray's own arguments, such as `address`.
        show: Whether to print what the workers print.

    Raises:
        ConfigError: if nothing listens at the address: Ray would try for minutes.
    """
    if ray.is_initialized():
        return
    address = str(cluster.get("address") or os.environ.get("RAY_ADDRESS") or "")
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection(
                (host.strip("[]"), int(port)), timeout=_REACHABLE_SECONDS
            ).close()
        except (OSError, OverflowError):
            remedy = "start one there with `ray start --head`, or correct the address"
            raise ConfigError(
                f"no cluster answers at {address}", where="Ray", remedy=remedy
            ) from None
    quiet = {
        "log_to_driver": show,
        "configure_logging": False,
        "logging_level": "ERROR",
    }
    local: JsonObject = {}
    if not address:  # workers wait for answers, so there may be more than processors
        local = {
            "include_dashboard": False,
            "num_cpus": max(count, os.cpu_count() or 1),
        }
    before = signal.getsignal(signal.SIGTERM)
    ray.init(**quiet, **local, **cluster)
    signal.signal(signal.SIGTERM, before)  # Ray's own would exit without a word
