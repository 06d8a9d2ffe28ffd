from __future__ import annotations

import asyncio
import random
import threading
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.config import RunnerConfig
from evalkit.engine import judge
from evalkit.engine.rate_limits import JudgeLimit, Pace, Turn, Window, shared_pace
from evalkit.errors import CallError
from evalkit.types import JudgeRequest, JudgeSpec, Usage
from tests.support.engine_fakes import DONE, Both, Scripted, Time, cases
from tests.support.virtual_time import run_virtually, virtual_clock


@given(st.lists(st.tuples(st.integers(1, 12), st.floats(0, 30)), min_size=1, max_size=40), st.integers(5, 20))
def test_a_window_never_gives_more_than_its_limit_in_a_minute_and_wastes_nothing(asked, limit):
    window, now, taken = Window(tpm=limit), 0.0, []
    for amount, pause in asked:
        now += pause
        while (wait := window.wait(amount, now)) > 0:
            now += wait
        taken.append(window.take(min(amount, limit), now))
    for first in taken:
        assert sum(t.tokens for t in taken if first.began <= t.began < first.began + 60 - 1e-6) <= limit + 1e-6
    for (_, pause), (before, after) in zip(asked[1:], pairwise(taken), strict=True):
        if after.began > before.began + pause + 1e-6:  # it waited: a moment earlier there was no room
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
    return max(sum(amount(s) for s in sent if first.at <= s.at < first.at + 60 - 1e-6) for first in sent)


def busy_minutes(sent, amount):
    """What was given in each whole minute in which there was still work to do."""
    end = max(s.at for s in sent)
    return [sum(amount(s) for s in sent if m <= s.at < m + 60) for m in range(0, int(end) - 60, 60)]


@settings(max_examples=30)
@given(st.integers(3, 120), st.integers(1, 64), st.floats(0, 1.5), st.integers(0, 2**31))
def test_never_more_requests_than_rpm_in_any_minute_and_at_least_95_percent_of_them(rpm, at_once, slowest, seed):
    draw = random.Random(seed)
    work = send_all(
        Scripted(rpm=rpm), 4 * rpm, at_once=at_once, latency=lambda n: draw.random() * slowest / 4, tokens=lambda n: 1
    )
    sent = run_virtually(work)
    assert most_in_a_minute(sent, lambda s: 1) <= rpm
    if at_once * 60 > 2 * rpm * slowest:  # else the answers, not the limit, are what is waited for
        assert all(given >= 0.95 * rpm for given in busy_minutes(sent, lambda s: 1))


@settings(max_examples=30)
@given(st.integers(2000, 20000), st.integers(16, 64), st.integers(0, 2**31))
def test_never_more_tokens_than_tpm_in_any_minute_and_at_least_95_percent_of_them(tpm, at_once, seed):
    draw, most = random.Random(seed), tpm // 50
    judge_ = Scripted(spec=JudgeSpec("j", "a/b", None, {"max_tokens": most}), tpm=tpm)
    work = send_all(
        judge_, 300, at_once=at_once, latency=lambda n: draw.random() * 0.2, tokens=lambda n: draw.randint(1, most)
    )
    sent = run_virtually(work)
    assert most_in_a_minute(sent, lambda s: s.tokens) <= tpm
    assert all(given >= 0.95 * tpm for given in busy_minutes(sent, lambda s: s.tokens))


def test_answers_shorter_than_expected_make_room_at_once():
    judge_ = Scripted(spec=JudgeSpec("j", "a/b", None, {"max_tokens": 900}), tpm=1000)
    sent = run_virtually(send_all(judge_, 9, at_once=9, latency=lambda n: 1.0, tokens=lambda n: 100))
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
        return await judge(cases(n), Both(orders=1), [judge_], None, config, clock=virtual_clock())

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
            await judge(cases(3), Both(orders=1), [Scripted(answer, rpm=4)], None, RunnerConfig(), clock=clock)
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
        asyncio.run(judge(cases(40), Both(orders=1), judges, None, RunnerConfig(concurrency=8)))

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
        return await judge(cases(100), Both(orders=1), judges, None, RunnerConfig(concurrency=8), clock=virtual_clock())

    assert len(run_virtually(work()).judgments) == 200
    ahead = [order[:n].count(f"j{1 - slow}") - order[:n].count(f"j{slow}") for n in range(len(order))]
    assert max(ahead) <= 16


def test_a_hold_asked_for_by_an_answer_is_kept():
    time = Time()
    began = []

    class Resting(Scripted):
        rest = 9.0

        async def complete(self, request):
            began.append(time.now)
            return DONE

    asyncio.run(judge(cases(2), Both(orders=1), [Resting()], None, RunnerConfig(concurrency=1), clock=time.clock))
    assert began == [0, 9.0]
