"""Workers on one store share rate limits and a budget."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path

import pytest

from evalkit.config import RunnerConfig
from evalkit.engine import judge
from evalkit.engine.rate_limits import GRAIN, LATE, SharedBudget, SharedLimits, SharedWindow
from evalkit.store import open_url
from evalkit.types import Completion, Usage
from tests.support.engine_fakes import Both, Scripted, cases

WORKERS = 8


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/s.sqlite"
    return request.getfixturevalue("postgres").new_database()


def work(url, run) -> None:
    """Run `run(store)` in threads, each with its own connections and event loop."""
    problems = []

    def one() -> None:
        store = open_url(url)
        try:
            asyncio.run(run(store))
        except BaseException as error:
            problems.append(error)
        finally:
            store.close()

    threads = [threading.Thread(target=one) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


@pytest.mark.slow
@pytest.mark.parametrize(
    "url", ["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.thorough])], indirect=True
)
def test_no_window_has_more_requests_than_the_limit_and_little_is_left_unused(url):
    window, limit, windows = 2.0, 200, 2
    taken: list[float] = []
    end = time.monotonic() + windows * (window + LATE + GRAIN)

    async def run(store):
        shared = SharedWindow(store, "limit/m", limit, None, window)
        while (now := time.monotonic()) < end:
            if wait := await shared.take(0.0, 30, now):
                await asyncio.sleep(wait)
            else:
                taken.append(time.monotonic())

    work(url, run)
    taken.sort()
    # A thread that the machine holds up notes its permits later, so half of `LATE` is allowed for.
    most = max(sum(start <= one < start + window - LATE / 2 for one in taken) for start in taken)
    assert most <= limit * 1.01
    assert len(taken) >= 0.7 * limit * windows


async def test_a_window_counts_tokens_as_they_are_reported(tmp_path):
    store = open_url(f"sqlite:///{tmp_path}/s.sqlite")
    one, two = (SharedWindow(store, "limit/m", None, 1000) for _ in range(2))
    assert [await one.take(100, 5, time.monotonic()) for _ in range(5)] == [0.0] * 5
    one.correct(-250)
    assert await one.take(100, 1, time.monotonic()) == 0.0  # 350 now
    assert await two.take(600, 1, time.monotonic()) == 0.0
    assert await two.take(100, 1, time.monotonic()) > 50
    store.close()


async def test_permits_that_are_not_used_at_once_are_given_back(tmp_path):
    store = open_url(f"sqlite:///{tmp_path}/s.sqlite")
    one, two = (SharedWindow(store, "limit/m", 10, None) for _ in range(2))
    assert await one.take(0, 10, 0.0) == 0.0
    assert await two.take(0, 10, 0.0) > 5
    assert await one.take(0, 1, 1.0) == 0.0  # nine were given back, and one was taken
    assert await two.take(0, 10, 1.0) == 0.0
    store.close()


class Paid(Scripted):
    """A judge whose calls cost at most $0.05, and in fact $0.02."""

    def ceiling(self, request):
        return 0.05

    async def complete(self, request):
        await asyncio.sleep(0.001)
        found = await super().complete(request)
        return Completion(found.text, usage=Usage(10, 5), cost_usd=0.02)


def test_workers_never_spend_more_than_their_budget_and_give_back_what_they_do_not_spend(url):
    results = []
    settings = RunnerConfig(concurrency=2, budget_usd=1.0, budget_scope="store", max_failure_rate=1.0)

    async def run(store):
        limits = SharedLimits(store, "study")
        results.append(await judge(cases(30), Both(orders=1), [Paid()], None, settings, shared=limits))

    work(url, run)
    sent = sum(result.calls.sent for result in results)
    store = open_url(url)
    assert float(store.states("budget/")["budget/study"]) == pytest.approx(0.02 * sent)
    assert 0.02 * sent <= 1.0
    assert sent >= 30  # with 16 calls in flight at $0.05 each, at least (1 - 0.8) / 0.02 and what they gave back
    store.close()
    assert any("runner.budget_usd=1 is reached by all workers" in (result.stopped or "") for result in results)


async def test_what_a_killed_worker_had_taken_counts_as_spent(tmp_path):
    store = open_url(f"sqlite:///{tmp_path}/s.sqlite")
    killed, other = (SharedBudget(store, "budget/b", 1.0) for _ in range(2))
    assert killed.take(0.25) == 0.25
    assert other.take(0.5) == 0.5
    assert other.take(0.3) == 0.0
    other.give_back(0.5)
    assert other.take(0.75) == pytest.approx(0.75)
    assert SharedBudget(store, "budget/b", 2.0).take(1.0) == pytest.approx(1.0)
    store.close()


async def test_a_run_asks_its_store_for_permits(tmp_path):
    store = open_url(f"sqlite:///{tmp_path}/s.sqlite")
    one = Scripted()
    one.rpm = 1000
    await judge(cases(5), Both(orders=1), [one], None, RunnerConfig(), shared=SharedLimits(store, "s"))
    [(name, text)] = store.states("limit/").items()
    assert one.spec.model in name
    assert sum(entry[2] for entry in json.loads(text)["taken"]) == 5
    store.close()
