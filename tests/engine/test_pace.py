"""The pace of requests: found by probing, within limits that processes may share."""

import asyncio
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import RunnerConfig
from evalkit.core.errors import CallError
from evalkit.core.types import Completion, JudgeRequest, JudgeSpec, Usage
from evalkit.engine.judging import judge_cases
from evalkit.engine.plan import PilotSample, SubsetEvaluator, plan
from evalkit.engine.rate_limits import (
    GRAIN,
    LATE,
    JudgeLimit,
    Pace,
    SharedBudget,
    SharedLimits,
    SharedWindow,
    Turn,
    Window,
    shared_pace,
)
from evalkit.store import open_url
from tests.support.engine_fakes import DONE, Both, Memory, Scripted, Time, cases
from tests.support.thorough import examples
from tests.support.virtual_time import run_virtually, virtual_clock


@given(
    st.lists(st.tuples(st.integers(1, 12), st.floats(0, 30)), min_size=1, max_size=40),
    st.integers(5, 20),
)
def test_a_window_never_gives_more_than_its_limit_in_a_minute_and_wastes_nothing(asked, limit):
    window, now, taken = Window(tpm=limit), 0.0, []
    for amount, pause in asked:
        now += pause
        while (wait := window.wait(amount, now)) > 0:
            now += wait
        taken.append(window.take(min(amount, limit), now))
    for first in taken:
        assert (
            sum(t.tokens for t in taken if first.began <= t.began < first.began + 60 - 1e-6)
            <= limit + 1e-6
        )
    for (_, pause), (before, after) in zip(asked[1:], pairwise(taken), strict=True):
        if (
            after.began > before.began + pause + 1e-6
        ):  # it waited: a moment earlier there was no room
            earlier = [t.tokens for t in taken if after.began - 60 - 1e-6 < t.began < after.began]
            assert sum(earlier) + after.tokens > limit


def request(words: int = 0) -> JudgeRequest:
    return JudgeRequest("c", (0,), (0,), ({"role": "user", "content": "word" * words},))


@dataclass
class Sent:
    at: float
    tokens: int


async def send_all(judge_, n, *, at_once, latency, tokens):
    """Make `n` calls as fast as the judge's limits let them through, and return when each began and what it took."""
    limit = JudgeLimit(judge_, RunnerConfig(concurrency=at_once), clock := virtual_clock())
    sent: list[Sent] = []

    async def call(nth):
        took = tokens(nth)
        async with limit.turn(request()) as turn:
            sent.append(Sent(clock.now(), took))
            await asyncio.sleep(latency(nth))
            limit.answered(turn, request(), Usage(0, took))

    await asyncio.gather(*(call(nth) for nth in range(n)))
    return sent


def most_in_a_minute(sent, amount):
    return max(
        sum(amount(s) for s in sent if first.at <= s.at < first.at + 60 - 1e-6) for first in sent
    )


def busy_minutes(sent, amount):
    """What was given in each whole minute in which there was still work to do."""
    end = max(s.at for s in sent)
    return [sum(amount(s) for s in sent if m <= s.at < m + 60) for m in range(0, int(end) - 60, 60)]


@examples(12)
@given(st.integers(3, 120), st.integers(1, 64), st.floats(0, 1.5), st.integers(0, 2**31))
def test_never_more_requests_than_rpm_in_any_minute_and_at_least_95_percent_of_them(
    rpm, at_once, slowest, seed
):
    draw = random.Random(seed)
    work = send_all(
        Scripted(rpm=rpm),
        4 * rpm,
        at_once=at_once,
        latency=lambda n: draw.random() * slowest / 4,
        tokens=lambda n: 1,
    )
    sent = run_virtually(work)
    assert most_in_a_minute(sent, lambda s: 1) <= rpm
    if at_once * 60 > 2 * rpm * slowest:  # else the answers, not the limit, are what is waited for
        assert all(given >= 0.95 * rpm for given in busy_minutes(sent, lambda s: 1))


@examples(12)
@given(st.integers(2000, 20000), st.integers(16, 64), st.integers(0, 2**31))
def test_never_more_tokens_than_tpm_in_any_minute_and_at_least_95_percent_of_them(
    tpm, at_once, seed
):
    draw, most = random.Random(seed), tpm // 50
    judge_ = Scripted(spec=JudgeSpec("j", "a/b", None, {"max_tokens": most}), tpm=tpm)
    work = send_all(
        judge_,
        300,
        at_once=at_once,
        latency=lambda n: draw.random() * 0.2,
        tokens=lambda n: draw.randint(1, most),
    )
    sent = run_virtually(work)
    assert most_in_a_minute(sent, lambda s: s.tokens) <= tpm
    assert all(given >= 0.95 * tpm for given in busy_minutes(sent, lambda s: s.tokens))


def test_answers_shorter_than_expected_make_room_at_once():
    judge_ = Scripted(spec=JudgeSpec("j", "a/b", None, {"max_tokens": 900}), tpm=1000)
    sent = run_virtually(
        send_all(judge_, 9, at_once=9, latency=lambda n: 1.0, tokens=lambda n: 100)
    )
    assert [s.at for s in sent] == [0, 1, 60, 61, 120, 121, 180, 181, 240]


def test_what_a_call_takes_is_learnt_where_nothing_tells():
    async def expected():
        limit = JudgeLimit(Scripted(tpm=10_000), RunnerConfig(), virtual_clock())
        seen = []
        for _ in range(3):
            async with limit.turn(request(100)) as turn:
                seen.append(turn.tokens)
                limit.answered(turn, request(100), Usage(200, 40))
        return seen

    assert run_virtually(expected()) == [100 + 256, 200 + 40, 200 + 40]


async def test_a_judges_own_rate_is_kept():
    time = Time()
    judge_ = Scripted(rpm=2, spec=JudgeSpec("fake", "fake/model"))
    limit = JudgeLimit(judge_, RunnerConfig(), time.clock)
    began = []
    for _ in range(5):
        async with limit.turn(request()):
            began.append(time.now)
    assert began == [0, 0, 60, 60, 120]


def throttling(capacity):
    """A provider that takes `capacity` calls at once, and refuses what is more."""

    class Throttling(Scripted):
        refused = 0

        async def complete(self, request):
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            try:
                if self.at_once > capacity():
                    self.refused += 1
                    raise CallError("rate_limit", "slow down", retryable=True)
                await asyncio.sleep(1.0)
                return DONE
            finally:
                self.at_once -= 1

    return Throttling()


def judged_by(judge_, n, **runner):
    async def work():
        config = RunnerConfig(max_failure_rate=1.0, **runner)
        return await judge_cases(
            cases(n), Both(orders=1), [judge_], None, config, clock=virtual_clock()
        )

    return run_virtually(work())


def test_fewer_calls_are_made_at_once_while_the_provider_throttles_and_none_is_lost():
    judge_ = throttling(lambda: 4)
    judged = judged_by(judge_, 400, concurrency=64, retries=8)
    assert {j.status for j in judged.judgments} == {"ok"}
    # Without holding back, every call beyond the fourth would be refused at each attempt.
    assert judge_.refused < 200


def test_the_number_of_calls_at_once_recovers():
    pace = Pace()
    pace.set_limits(16, None, None)
    pace.throttled(Turn(0.0), 1.0)
    pace.throttled(Turn(0.5), 1.5)  # began before the cut: the same jam
    assert pace.allowed == 8
    pace.throttled(Turn(2.0), 3.0)
    assert pace.allowed == 4
    answers = 0
    while pace.allowed < 16:
        pace.answered(Turn(4.0), None)
        answers += 1
    assert 16 * 16 / 2 - 4 * 4 / 2 - 16 <= answers <= 16 * 16 / 2 - 4 * 4 / 2 + 16
    for _ in range(100):
        pace.throttled(Turn(pace._cut_at + 1), pace._cut_at + 2)
    assert pace.allowed == 1
    assert isinstance(pace.enter(0, 1e6), Turn)


def test_jobs_of_a_sweep_share_one_pace_and_other_addresses_do_not():
    def now() -> float:
        return 0.0

    one = shared_pace("m", "http://a", now)
    assert shared_pace("m", "http://a", now) is one
    assert shared_pace("m", "http://b", now) is not one
    assert shared_pace("n", "http://a", now) is not one


def test_requests_of_one_run_count_in_the_next():
    async def runs():
        clock, began = virtual_clock(), []

        def answer(request, nth):
            began.append(clock.now())
            return DONE

        for _ in range(2):
            await judge_cases(
                cases(3),
                Both(orders=1),
                [Scripted(answer, rpm=4)],
                None,
                RunnerConfig(),
                clock=clock,
            )
        return began

    assert run_virtually(runs()) == [0, 0, 0, 0, 60, 60]


def test_runs_in_several_threads_share_places():
    at_once, most, lock = 0, 0, threading.Lock()

    class Counting(Scripted):
        async def complete(self, request):
            nonlocal at_once, most
            with lock:
                at_once += 1
                most = max(most, at_once)
            await asyncio.sleep(0.001)
            with lock:
                at_once -= 1
            return DONE

    spec = JudgeSpec("j", f"threads/{random.random()}")

    def work():
        judges = [Counting(spec=spec, concurrency=3)]
        asyncio.run(
            judge_cases(cases(40), Both(orders=1), judges, None, RunnerConfig(concurrency=8))
        )

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads)
    assert most == 3


@pytest.mark.parametrize("slow", [0, 1])
def test_a_panels_judges_go_forward_together(slow):
    order = []

    class Slow(Scripted):
        async def complete(self, request):
            await asyncio.sleep(5.0 if self.spec.name == f"j{slow}" else 0.1)
            order.append(self.spec.name)
            return DONE

    async def work():
        judges = [Slow(spec=JudgeSpec(f"j{i}", f"m/{i}")) for i in range(2)]
        return await judge_cases(
            cases(100),
            Both(orders=1),
            judges,
            None,
            RunnerConfig(concurrency=8),
            clock=virtual_clock(),
        )

    assert len(run_virtually(work()).judgments) == 200
    ahead = [
        order[:n].count(f"j{1 - slow}") - order[:n].count(f"j{slow}") for n in range(len(order))
    ]
    assert max(ahead) <= 16


def test_a_hold_asked_for_by_an_answer_is_kept():
    time = Time()
    began = []

    class Resting(Scripted):
        rest = 9.0

        async def complete(self, request):
            began.append(time.now)
            return DONE

    asyncio.run(
        judge_cases(
            cases(2),
            Both(orders=1),
            [Resting()],
            None,
            RunnerConfig(concurrency=1),
            clock=time.clock,
        )
    )
    assert began == [0, 9.0]


WORKERS = 8


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request, tmp_path):
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
    "url",
    ["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.thorough])],
    indirect=True,
)
def test_no_window_has_more_requests_than_the_limit_and_little_is_left_unused(url):
    window, limit, windows = 2.0, 200, 2
    taken: list[tuple[float, float]] = []
    end = time.monotonic() + windows * (window + LATE + GRAIN)

    async def run(store):
        shared = SharedWindow(store, "limit/m", limit, None, window)
        while (now := time.monotonic()) < end:
            if wait := await shared.take(0.0, 30, now):
                await asyncio.sleep(wait)
            else:
                taken.append((now, time.monotonic()))

    work(url, run)
    # A busy machine holds up threads, so those count that were asked for and noted in a window.
    most = max(
        sum(start <= asked and noted < start + window for asked, noted in taken)
        for start, _ in taken
    )
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
    settings = RunnerConfig(
        concurrency=2, budget_usd=1.0, budget_scope="store", max_failure_rate=1.0
    )

    async def run(store):
        limits = SharedLimits(store, "study")
        results.append(
            await judge_cases(cases(30), Both(orders=1), [Paid()], None, settings, shared=limits)
        )

    work(url, run)
    sent = sum(result.calls.sent for result in results)
    store = open_url(url)
    assert float(store.states("budget/")["budget/study"]) == pytest.approx(0.02 * sent)
    assert 0.02 * sent <= 1.0
    assert (
        sent >= 30
    )  # with 16 calls in flight at $0.05 each, at least (1 - 0.8) / 0.02 and what they gave back
    store.close()
    assert any(
        "runner.budget_usd=1 is reached by all workers" in (result.stopped or "")
        for result in results
    )


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
    await judge_cases(
        cases(5), Both(orders=1), [one], None, RunnerConfig(), shared=SharedLimits(store, "s")
    )
    [(name, text)] = store.states("limit/").items()
    assert one.spec.model in name
    assert sum(entry[2] for entry in json.loads(text)["taken"]) == 5
    store.close()


SPEC, OTHER = (
    JudgeSpec("one", "fake/one"),
    JudgeSpec("two", "fake/two", "http://127.0.0.1:1", {"seed": 1}),
)


def drawn(draw: PilotSample) -> set[str]:
    return {call.request.messages[0]["content"] for call in draw.calls}


def test_every_judge_is_asked_the_same_in_whatever_order_the_cases_come():
    draws = [PilotSample(5) for _ in range(3)]
    plan(cases(30), Both(), [SPEC], None, draws[0])
    plan(cases(30)[::-1], Both(), [OTHER], Memory(), draws[1])
    plan(
        [*cases(30), *(replace(case, id=f"again {case.id}") for case in cases(30))],
        Both(),
        [SPEC],
        None,
        draws[2],
    )
    assert drawn(draws[0]) == drawn(draws[1]) == drawn(draws[2])
    assert len(drawn(draws[0])) == len(draws[2].calls) == 5
    assert [call.position for call in draws[0].calls] == sorted(
        call.position for call in draws[0].calls
    )


def test_all_are_drawn_where_there_are_fewer():
    draw = PilotSample(50)
    plan(cases(3) * 2, Both(), [SPEC], None, draw)
    assert len(draw.calls) == 6
    assert [case.id for case in draw.cases] == ["c0", "c1", "c2"]


def test_every_request_is_drawn_about_as_often():
    counts: Counter[str] = Counter()
    for seed in range(600):
        draw = PilotSample(5, seed)
        plan(cases(10), Both(), [SPEC], None, draw)
        counts.update(drawn(draw))
    assert sum(counts.values()) == 3000
    # 600 draws of 5 out of 20: 150 each, standard deviation 10.6
    assert len(counts) == 20
    assert all(abs(count - 150) < 4 * 10.6 for count in counts.values())


def test_only_what_was_drawn_is_asked_and_nothing_after_it():
    draw = PilotSample(4)
    plan(cases(9), Both(), [SPEC], None, draw)
    only = SubsetEvaluator(Both(), draw)
    asked = [request for case in cases(9) for request in only.plan(case)]
    assert {request.messages[0]["content"] for request in asked} == drawn(draw)
    assert not hasattr(only, "follow")
