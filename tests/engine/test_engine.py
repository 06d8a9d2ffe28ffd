from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

import pytest

from evalkit.config import RunnerConfig
from evalkit.engine import JudgingResult, Progress, judge
from evalkit.errors import CallError, ConfigError, JudgeSetupError
from evalkit.results import Calls
from evalkit.types import Completion, JudgeSpec, Usage
from tests.support.engine_fakes import DONE, Both, Memory, Scripted, Time, cases

QUICK = RunnerConfig(retries=2)
BUSY = CallError("rate_limit", "slow down", retryable=True)


async def run(n=3, evaluator=None, judges=None, store=None, runner=QUICK, time=None, **more) -> JudgingResult:
    judges = judges if judges is not None else [Scripted()]
    clock = (time or Time()).clock
    return await judge(cases(n), evaluator or Both(), judges, store, runner, clock=clock, **more)


def where(judged: JudgingResult) -> list[tuple[str, tuple[int, ...], str]]:
    return [(j.case_id, j.shown, j.judge) for j in judged.judgments]


async def test_judgments_stand_in_case_order_whatever_order_answers_come_in():
    gates = {f"c{i}": asyncio.Event() for i in range(4)}

    class Backwards(Scripted):
        async def complete(self, request):
            number = int(request.case_id[1])
            if number < 3:
                await gates[f"c{number + 1}"].wait()
            gates[request.case_id].set()
            return replace(DONE, text=request.case_id)

    judged = await run(4, judges=[Backwards(), Backwards(spec=JudgeSpec("second", "fake/other"))])
    assert where(judged) == [
        (f"c{i}", shown, name) for i in range(4) for name in ("fake", "second") for shown in ((0, 1), (1, 0))
    ]
    assert [j.completion.text for j in judged.judgments] == [f"c{i}" for i in range(4) for _ in range(4)]


async def test_a_second_run_sends_nothing_and_gives_the_same_judgments():
    store, second = Memory(), Scripted()
    first = await run(store=store)
    again = await run(judges=[second], store=store)
    assert first.calls == Calls(planned=6, stored=0, sent=6)
    assert again.calls == Calls(planned=6, stored=6, sent=0)
    assert not second.asked
    assert again.cost_usd == 0
    assert again.tokens == {"prompt": 0, "completion": 0}
    assert all(j.stored for j in again.judgments)
    assert [replace(j, stored=False) for j in again.judgments] == list(first.judgments)


async def test_tokens_and_cost_of_what_was_sent_are_added_up_and_an_unknown_price_is_not_zero():
    store = Memory()
    judged = await run(store=store)
    assert judged.tokens == {"prompt": 60, "completion": 12}
    assert judged.cost_usd == pytest.approx(3.0)
    assert sorted(j.keys[0] for j in judged.judgments) == sorted(store.kept)
    assert all(j.completion == DONE for j in judged.judgments)
    judged = await run(judges=[Scripted(lambda r, n: replace(DONE, cost_usd=None if n == 2 else 0.5))])
    assert judged.cost_usd is None
    judged = await run(1, judges=[Scripted(lambda r, n: Completion("x", usage=Usage()))])
    assert (judged.tokens, judged.cost_usd) == ({"prompt": 0, "completion": 0}, None)


async def test_no_more_calls_than_allowed_are_in_flight():
    pool, own = Scripted(), Scripted(concurrency=2)
    await run(20, judges=[pool], runner=RunnerConfig(concurrency=5))
    await run(20, judges=[own], runner=RunnerConfig(concurrency=5))
    assert pool.most_at_once == 5
    assert own.most_at_once == 2


async def test_a_failed_call_is_tried_again_with_growing_waits_and_counts_its_attempts():
    time = Time()
    judged = await run(1, Both(orders=1), [Scripted(lambda r, n: DONE if n == 3 else BUSY)], time=time)
    assert judged.judgments[0].status == "ok"
    assert judged.judgments[0].completion.attempts == 3
    assert judged.calls == Calls(planned=1, sent=1, retried=2)
    assert time.pauses[0] <= 0.5
    assert time.pauses[1] <= 1.0


async def test_a_call_that_keeps_failing_is_a_failed_judgment_and_is_not_stored():
    store = Memory()
    judged = await run(2, Both(orders=1), [Scripted(lambda r, n: BUSY)], store)
    assert [(j.status, j.error_kind, j.error, j.value) for j in judged.judgments] == [
        ("failed", "rate_limit", "slow down", None)
    ] * 2
    assert judged.calls == Calls(planned=2, sent=2, retried=4, failed=2)
    assert not store.kept


async def test_a_call_no_retry_mends_is_tried_once():
    fatal = Scripted(lambda r, n: CallError("too_long", "too long", retryable=False))
    judged = await run(1, Both(orders=1), [fatal])
    assert len(fatal.asked) == 1
    assert judged.judgments[0].error_kind == "too_long"


async def test_retry_after_is_waited_for_by_every_call_to_that_judge():
    time = Time()
    began: list[float] = []

    def answer(request, nth):
        began.append(time.now)
        return CallError("rate_limit", "wait", retryable=True, retry_after=7.0) if nth == 1 else DONE

    await run(3, Both(orders=1), [Scripted(answer)], runner=RunnerConfig(concurrency=1), time=time)
    assert began[0] == 0
    assert all(moment >= 7.0 for moment in began[1:])


async def test_a_provider_that_asks_for_an_hour_is_not_waited_for():
    time = Time()
    late = CallError("rate_limit", "tomorrow", retryable=True, retry_after=3600.0)
    judged = await run(1, Both(orders=1), [Scripted(lambda r, n: late)], time=time)
    assert judged.judgments[0].status == "failed"
    assert not time.pauses


async def test_a_call_that_hangs_is_ended_at_the_timeout():
    class Hanging(Scripted):
        async def complete(self, request):
            await asyncio.Event().wait()

    judged = await run(1, Both(orders=1), [Hanging()], runner=RunnerConfig(timeout=0.01, retries=1))
    assert judged.judgments[0].error_kind == "timeout"
    assert "runner.timeout" in judged.judgments[0].error
    assert judged.calls.retried == 1


class Same(Both):
    """Asks the same of every case."""

    def plan(self, case):
        return [replace(r, messages=({"role": "user", "content": "same"},)) for r in super().plan(case)]


async def test_equal_requests_share_one_call_and_its_failure():
    asked, failing = Scripted(), Scripted(lambda r, n: BUSY)
    judged = await run(5, Same(), [asked])
    assert len(asked.asked) == 1
    assert judged.calls == Calls(planned=10, stored=9, sent=1)
    failed = await run(2, Same(), [failing])
    assert {j.status for j in failed.judgments} == {"failed"}
    assert len(failing.asked) == 3
    assert failed.calls == Calls(planned=4, sent=1, retried=2, failed=4)


async def test_an_unreadable_answer_is_asked_for_once_more_and_both_are_stored():
    store = Memory()
    odd = Scripted(lambda r, n: replace(DONE, text="?" if r.turn == 0 else "yes"))
    judged = await run(1, Both(lambda t: t == "?", orders=1), [odd], store)
    [judgment] = judged.judgments
    assert judgment.status == "ok"
    assert [r.turn for r in odd.asked] == [0, 1]
    assert judgment.keys == tuple(store.puts)
    assert len(store.kept) == 2
    assert judged.calls == Calls(planned=2, sent=2)
    silent = Scripted()
    assert (await run(1, Both(lambda t: t == "?", orders=1), [silent], store)).judgments[0].keys == judgment.keys
    assert not silent.asked


async def test_an_evaluator_that_would_ask_for_ever_gets_an_unparseable_judgment():
    judge_ = Scripted()
    judged = await run(1, Both(lambda t: True, orders=1), [judge_])
    assert judged.judgments[0].status == "unparseable"
    assert len(judge_.asked) == 2


async def test_a_refusal_is_read_but_not_stored():
    store = Memory()
    judged = await run(1, judges=[Scripted(lambda r, n: replace(DONE, text="", refusal="no"))], store=store)
    assert judged.calls.sent == 2
    assert not store.kept


async def test_an_answer_is_stored_before_it_counts():
    store, seen = Memory(), []
    await run(2, store=store, observe=lambda p: seen.append((p.done, len(store.kept))))
    assert seen
    assert all(done <= kept for done, kept in seen)


async def test_read_only_sends_nothing_and_says_which_answers_are_missing():
    store, judge_ = Memory(), Scripted()
    await run(1, store=store)
    judged = await run(2, judges=[judge_], store=store, store_mode="read_only")
    assert not judge_.asked
    assert [j.error_kind for j in judged.judgments] == [None, None, "not_stored", "not_stored"]
    assert judged.calls == Calls(planned=4, stored=2, failed=2)


@pytest.mark.parametrize(("mode", "kept"), [("refresh", "new"), ("off", "yes")])
async def test_refresh_asks_anew_and_keeps_the_new_answers_and_off_neither_reads_nor_writes(mode, kept):
    store = Memory()
    await run(1, store=store)
    judged = await run(1, judges=[Scripted(lambda r, n: replace(DONE, text="new"))], store=store, store_mode=mode)
    assert judged.calls.sent == 2
    assert {c.text for c in store.kept.values()} == {kept}


async def test_a_judge_that_cannot_be_called_stops_the_run_and_what_was_paid_is_stored():
    store = Memory()

    def answer(request, nth):
        return DONE if nth <= 3 else JudgeSetupError("no key", remedy="set KEY")

    judge_ = Scripted(answer)
    with pytest.raises(JudgeSetupError, match="no key; set KEY"):
        await run(50, judges=[judge_], store=store, runner=RunnerConfig(concurrency=2))
    assert len(store.kept) == 3
    assert len(judge_.asked) <= 5
    assert judge_.closed == 1


async def test_calls_in_flight_when_another_judge_cannot_be_called_are_kept():
    store, arrived, refused = Memory(), asyncio.Event(), asyncio.Event()

    class Slow(Scripted):
        async def complete(self, request):
            arrived.set()
            await refused.wait()
            return DONE

    class Locked(Scripted):
        async def complete(self, request):
            await arrived.wait()
            asyncio.get_running_loop().call_soon(refused.set)
            raise JudgeSetupError("no key")

    judges = [Slow(), Locked(spec=JudgeSpec("locked", "fake/locked"))]
    with pytest.raises(JudgeSetupError):
        await run(1, Both(orders=1), judges, store)
    assert len(store.kept) == 1


async def test_an_answer_that_breaks_the_reader_costs_one_row_and_is_named():
    class Broken(Both):
        def read(self, request, completion):
            raise ZeroDivisionError("bug")

    judged = await run(1, Broken())
    assert [one.status for one in judged.judgments] == ["unparseable"] * len(judged.judgments)
    assert all("ZeroDivisionError" in one.error for one in judged.judgments)


async def test_at_an_interrupt_what_is_in_flight_is_kept_and_nothing_more_is_sent():
    store, judge_ = Memory(), None

    class Interrupted(Scripted):
        async def complete(self, request):
            self.asked.append(request)
            if len(self.asked) == 3:
                os.kill(os.getpid(), signal.SIGINT)
            for _ in range(20):
                await asyncio.sleep(0)
            return DONE

    judge_ = Interrupted()
    before = signal.getsignal(signal.SIGINT)
    judged = await run(50, judges=[judge_], store=store, runner=RunnerConfig(concurrency=3))
    assert judged.interrupted
    assert judged.stopped == "interrupted"
    assert len(judged.judgments) == len(judge_.asked) == len(store.kept) == 3
    assert signal.getsignal(signal.SIGINT) is before


async def test_a_second_interrupt_ends_calls_in_flight():
    class Hanging(Scripted):
        async def complete(self, request):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

    judged = await run(1, Both(orders=1), [Hanging()])
    assert judged.interrupted
    assert judged.judgments == ()


async def test_an_interrupt_does_not_wait_for_a_pause_between_attempts():
    class Forever(Time):
        async def pause(self, seconds):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()

    judged = await run(1, Both(orders=1), [Scripted(lambda r, n: BUSY)], time=Forever())
    assert judged.interrupted


async def test_cancelling_ends_calls_and_raises():
    started = asyncio.Event()

    class Hanging(Scripted):
        async def complete(self, request):
            started.set()
            await asyncio.Event().wait()

    judge_ = Hanging()
    task = asyncio.create_task(run(1, judges=[judge_]))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert judge_.closed == 1


async def test_a_budget_of_calls_is_not_exceeded_and_the_rest_says_so():
    judge_ = Scripted(lambda r, n: BUSY if n == 2 else DONE)
    judged = await run(10, judges=[judge_], runner=RunnerConfig(budget_calls=7, concurrency=4))
    assert len(judge_.asked) == 7
    assert [j.error_kind for j in judged.judgments].count("budget") == 14
    assert sum(j.status == "ok" for j in judged.judgments) == 6
    assert "budget_calls=7" in judged.stopped


@pytest.mark.parametrize("at_once", [1, 64])
async def test_a_budget_in_dollars_is_not_exceeded_however_many_are_in_flight(at_once):
    class Priced(Scripted):
        def ceiling(self, request):
            return 1.0

    judge_ = Priced(lambda r, n: replace(DONE, cost_usd=1.0 if n % 2 else 0.25))
    judged = await run(50, judges=[judge_], runner=RunnerConfig(budget_usd=10.0, concurrency=at_once))
    assert judged.cost_usd <= 10.0
    assert judged.cost_usd > 9.0
    assert {j.error_kind for j in judged.judgments} == {None, "budget"}


async def test_a_budget_in_dollars_needs_a_price():
    with pytest.raises(ConfigError, match=r"runner\.budget_usd: .*judge\.price"):
        await run(1, runner=RunnerConfig(budget_usd=1.0))


async def test_progress_is_told_and_its_total_is_exact_once_all_is_planned():
    seen: list[Progress] = []
    await run(4, judges=[Scripted(lambda r, n: BUSY if n == 1 else DONE)], observe=seen.append)
    last = seen[-1]
    assert (last.done, last.total, last.sent, last.retried, last.failed) == (8, 8, 8, 1, 0)
    assert last.cost_usd == pytest.approx(4.0)
    assert [p.done for p in seen] == sorted(p.done for p in seen)


async def test_cases_are_read_lazily():
    read = 0

    def endless():
        nonlocal read
        for case in cases(5000):
            read += 1
            yield case

    with pytest.raises(JudgeSetupError):
        await judge(endless(), Both(), [Scripted(lambda r, n: JudgeSetupError("no"))], None, QUICK)
    assert read < 1000


async def test_no_cases_are_no_judgments():
    assert await run(0) == JudgingResult(())


async def test_a_judgment_is_stored_only_if_every_answer_behind_it_was():
    store = Memory()
    odd = Scripted(lambda r, n: replace(DONE, text="?" if r.turn == 0 else "yes"))
    [first] = (await run(1, Both(lambda t: t == "?", orders=1), [odd], store)).judgments
    del store.kept[first.keys[0]]
    [half] = (await run(1, Both(lambda t: t == "?", orders=1), [odd], store)).judgments
    [whole] = (await run(1, Both(lambda t: t == "?", orders=1), [odd], store)).judgments
    assert (half.keys, whole.keys) == (first.keys, first.keys)
    assert (first.stored, half.stored, whole.stored) == (False, False, True)


async def test_an_equal_request_later_takes_a_failure_over_also_where_answers_are_claimed():
    failing = Scripted(lambda r, n: BUSY)
    judged = await run(3, Same(), [failing], Memory(), runner=RunnerConfig(concurrency=1, retries=0))
    assert {j.status for j in judged.judgments} == {"failed"}
    assert len(failing.asked) == 1


@pytest.mark.parametrize(
    ("planned", "failing", "ends_early"), [(400, 20, False), (400, 21, True), (300, 19, False), (300, 20, True)]
)
async def test_a_run_ends_early_once_its_failures_are_too_many_whatever_else_is_answered(planned, failing, ends_early):
    """0.05 of 400 requests are 20; fewer than 20 failures never end a run."""
    judge_ = Scripted(lambda r, n: BUSY if n <= failing else DONE)
    runner = RunnerConfig(concurrency=1, retries=0, max_failure_rate=0.05)
    judged = await run(planned, Both(orders=1), [judge_], runner=runner)
    assert len(judged.judgments) == planned
    assert (bool(judged.stopped), len(judge_.asked)) == (ends_early, failing if ends_early else planned)
