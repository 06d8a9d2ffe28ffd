"""What becomes of shards, by the ends of their workers; the engine is a list of ends."""

import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from evalkit import load_config
from evalkit.core.errors import ConfigError, ExitStatus
from evalkit.core.resources import PROJECT_VARIABLE, project
from evalkit.engine.progress import Progress, Spend
from evalkit.engine.workers import (
    Lost,
    Shard,
    ShardReport,
    ShardTask,
    judge_in_workers,
)
from evalkit.runs.results import Calls

Ends = Callable[[ShardTask, int], Any]


class ListedPool:
    """Workers that end as a function says, by their shard and attempt."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self.waiting: list[ShardTask] = []
        self.attempts: dict[Shard, int] = {}
        self.stopped = self.closed = False

    @property
    def busy(self) -> bool:
        return bool(self.waiting)

    def start(self, task: ShardTask) -> None:
        self.waiting.append(task)
        self.attempts[task.shard] = self.attempts.get(task.shard, 0) + 1

    def poll(self, seconds: float) -> Iterator[tuple[Shard, Any]]:
        task = self.waiting.pop(0)
        end = self._ends(task, self.attempts[task.shard])
        if isinstance(end, BaseException) and not isinstance(end, Lost):
            raise end
        yield task.shard, end

    def progress(self) -> Iterable[Progress]:
        return [Progress(5, 10, 2, 3, 1, 0, 30, 20, 0.25, elapsed=1.0) for _ in self.attempts]

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None:
        self.closed = True


def done(task: ShardTask, attempt: int) -> ShardReport:
    return ShardReport(task.shard, "host", Spend(Calls(3, 0, 3)))


@pytest.fixture
def judge(here, monkeypatch):
    def run(ends: Ends, *overrides: str, observe: Any = None) -> tuple[ListedPool, Any]:
        pool = ListedPool(ends)
        monkeypatch.setattr("evalkit.engine.workers._make_pool", lambda *_: pool)
        words = [
            *("judge=simulated/good", "runner=ray", "runner.workers=2", "store.url=a.sqlite"),
            *overrides,
        ]
        try:
            return pool, judge_in_workers(
                load_config(overrides=words), here, lambda *_: None, observe
            )
        except BaseException as error:  # the pool is closed whatever happens
            return pool, error

    return run


def test_every_shard_is_judged_once_and_their_progress_is_summed(judge):
    seen: list[Progress] = []
    pool, (reports, seconds) = judge(done, observe=seen.append)
    assert sorted(str(report.shard) for report in reports) == ["1/2", "2/2"]
    assert seconds >= 0
    assert (pool.closed, pool.stopped, set(pool.attempts.values())) == (True, False, {1})
    last = seen[-1]
    assert (last.done, last.total, last.sent, last.failed, last.cost_usd) == (10, 20, 6, 2, 0.5)


def test_a_shard_whose_worker_died_is_judged_again(judge):
    pool, (reports, _) = judge(
        lambda task, n: (
            Lost("node 7 is gone") if task.shard.index == 2 and n == 1 else done(task, n)
        )
    )
    assert len(reports) == 2
    assert pool.attempts == {Shard(1, 2): 1, Shard(2, 2): 2}


def test_a_shard_whose_workers_die_again_and_again_ends_the_run(judge):
    pool, error = judge(
        lambda task, n: Lost("node 7 is gone") if task.shard.index == 2 else done(task, n)
    )
    assert "shard 2/2: its worker died " in str(error)
    assert "(node 7 is gone); " in str(error)
    assert error.status == ExitStatus.WRONG
    assert (pool.stopped, pool.closed) == (True, True)


def test_an_error_names_the_shard_and_its_host_and_stops_the_others(judge):
    failed = ShardReport(Shard(1, 2), "node-3", error="no API key", status=2)
    pool, error = judge(lambda task, n: failed if task.shard.index == 1 else done(task, n))
    assert str(error) == "shard 1/2 on node-3: no API key"
    assert error.status == 2
    assert (pool.busy, pool.stopped, pool.closed) == (False, True, True)


def test_an_interrupt_waits_for_the_workers_and_counts_their_answers(judge):
    pool, error = judge(
        lambda task, n: KeyboardInterrupt() if task.shard.index == 1 else done(task, n)
    )
    assert error.number == signal.SIGINT
    assert str(error).startswith("interrupted: 8 answers are stored")
    assert (pool.busy, pool.stopped, pool.closed) == (False, True, True)


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("store.mode=read_only", "workers share the store, but store.mode is read_only"),
        ("runner.budget_calls=5", "runner.budget_calls: each worker would spend it"),
        ("runner.budget_usd=5", "runner.budget_usd: each worker would spend it"),
    ],
)
def test_what_workers_cannot_share_is_refused_before_any_starts(judge, setting, what):
    pool, error = judge(done, setting)
    assert isinstance(error, ConfigError)
    assert what in str(error)
    assert not pool.attempts


def task(work: Any, **more: Any) -> ShardTask:
    config = load_config(overrides=["judge=simulated/good", "store.url=a.sqlite"])
    return ShardTask(work, config, Shard(1, 1), **{"store": "a.sqlite", **more})


@pytest.mark.parametrize(
    ("raised", "error", "status"),
    [
        (ConfigError("no API key", where="judge"), "judge: no API key", 1),
        (KeyError("x"), "KeyError: 'x'", 1),
    ],
)
def test_an_error_in_a_worker_is_a_part_of_its_report(here, monkeypatch, raised, error, status):
    monkeypatch.setenv(PROJECT_VARIABLE, str(project()))  # a worker sets it

    def work(*_: Any) -> None:
        raise raised

    report = task(work)(lambda _: None)
    assert (report.error, report.status) == (error, status)
    other = task(work, store="b.sqlite")(lambda _: None)
    assert "store.url: the worker's store is a.sqlite, not b.sqlite" in other.error
