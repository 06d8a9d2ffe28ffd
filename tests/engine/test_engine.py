"""The engine and its steps: what is asked, retried and stored, also for many cases."""

import asyncio
import gc
import os
import signal
from dataclasses import replace

import pytest

from evalkit.config import RunnerConfig
from evalkit.core import spool
from evalkit.core.errors import AccessError, CallError, ConfigError, JudgeSetupError
from evalkit.core.types import Completion, JudgeRequest, JudgeSpec, Judgment, Usage
from evalkit.engine.judging import judge_cases
from evalkit.engine.progress import JudgingResult, Progress
from evalkit.runs.results import Calls
from tests.support.counted_text import CountedText, most_texts
from tests.support.engine_fakes import DONE, Both, Memory, Prepared, Scripted, Third, Time, cases

QUICK = RunnerConfig(retries=2)
BUSY = CallError("rate_limit", "slow down", retryable=True)


async def run(
    n=3, evaluator=None, judges=None, store=None, runner=QUICK, time=None, **more
) -> JudgingResult:
    judges = judges if judges is not None else [Scripted()]
    clock = (time or Time()).clock
    return await judge_cases(
        cases(n), evaluator or Both(), judges, store, runner, clock=clock, **more
    )


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
        (f"c{i}", shown, name)
        for i in range(4)
        for name in ("fake", "second")
        for shown in ((0, 1), (1, 0))
    ]
    assert [j.completion.text for j in judged.judgments] == [
        f"c{i}" for i in range(4) for _ in range(4)
    ]


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
    judged = await run(
        judges=[Scripted(lambda r, n: replace(DONE, cost_usd=None if n == 2 else 0.5))]
    )
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
    judged = await run(
        1, Both(orders=1), [Scripted(lambda r, n: DONE if n == 3 else BUSY)], time=time
    )
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
        return (
            CallError("rate_limit", "wait", retryable=True, retry_after=7.0) if nth == 1 else DONE
        )

    await run(3, Both(orders=1), [Scripted(answer)], runner=RunnerConfig(concurrency=1), time=time)
    assert began[0] == 0
    assert all(moment >= 7.0 for moment in began[1:])


async def test_a_provider_that_asks_for_an_hour_is_not_waited_for():
    time = Time()
    late = CallError("rate_limit", "tomorrow", retryable=True, retry_after=3600.0)
    with pytest.raises(AccessError, match="asks to wait 1 h"):
        await run(1, Both(orders=1), [Scripted(lambda r, n: late)], time=time)
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
        return [
            replace(r, messages=({"role": "user", "content": "same"},)) for r in super().plan(case)
        ]


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
    assert (await run(1, Both(lambda t: t == "?", orders=1), [silent], store)).judgments[
        0
    ].keys == judgment.keys
    assert not silent.asked


async def test_an_evaluator_that_would_ask_for_ever_gets_an_unparseable_judgment():
    judge_ = Scripted()
    judged = await run(1, Both(lambda t: True, orders=1), [judge_])
    assert judged.judgments[0].status == "unparseable"
    assert len(judge_.asked) == 2


async def test_a_refusal_is_read_but_not_stored():
    store = Memory()
    judged = await run(
        1, judges=[Scripted(lambda r, n: replace(DONE, text="", refusal="no"))], store=store
    )
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
async def test_refresh_asks_anew_and_keeps_the_new_answers_and_off_neither_reads_nor_writes(
    mode, kept
):
    store = Memory()
    await run(1, store=store)
    judged = await run(
        1, judges=[Scripted(lambda r, n: replace(DONE, text="new"))], store=store, store_mode=mode
    )
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
    judged = await run(
        50, judges=[judge_], runner=RunnerConfig(budget_usd=10.0, concurrency=at_once)
    )
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
        await judge_cases(
            endless(), Both(), [Scripted(lambda r, n: JudgeSetupError("no"))], None, QUICK
        )
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
    judged = await run(
        3, Same(), [failing], Memory(), runner=RunnerConfig(concurrency=1, retries=0)
    )
    assert {j.status for j in judged.judgments} == {"failed"}
    assert len(failing.asked) == 1


@pytest.mark.parametrize(
    ("planned", "failing", "ends_early"),
    [(400, 20, False), (400, 21, True), (300, 19, False), (300, 20, True)],
)
async def test_a_run_ends_early_once_its_failures_are_too_many_whatever_else_is_answered(
    planned, failing, ends_early
):
    """0.05 of 400 requests are 20; fewer than 20 failures never end a run."""
    judge_ = Scripted(lambda r, n: BUSY if n <= failing else DONE)
    runner = RunnerConfig(concurrency=1, retries=0, max_failure_rate=0.05)
    judged = await run(planned, Both(orders=1), [judge_], runner=runner)
    assert len(judged.judgments) == planned
    assert (bool(judged.stopped), len(judge_.asked)) == (
        ends_early,
        failing if ends_early else planned,
    )


OVERLOADED = CallError("rate_limit", "slow down", retryable=False)
ARBITER = JudgeSpec("arbiter", "fake/arbiter")


async def run_steps(n, evaluator, judges, store=None, **more) -> JudgingResult:
    return await judge_cases(
        cases(n), evaluator, judges, store, RunnerConfig(retries=0), clock=Time().clock, **more
    )


def words(request: JudgeRequest) -> list[str]:
    return [message["content"] for message in request.messages]


async def test_an_ask_that_others_share_is_sent_once_and_its_answer_stands_in_each():
    store = Memory()
    asked = Scripted(lambda r, n: replace(DONE, text=f"about {r.case_id}" if r.then else "yes"))
    judged = await run_steps(2, Prepared(Both()), [asked], store)
    assert sum(r.then is not None for r in asked.asked) == 2
    said = sorted(words(r)[0] for r in asked.asked if r.then is None)
    assert said == ["you said about c0"] * 2 + ["you said about c1"] * 2
    assert {r.judge for r in asked.asked} == {"fake"}
    assert judged.calls == Calls(planned=8, stored=2, sent=6)
    assert [len(j.keys) for j in judged.judgments] == [2] * 4
    assert judged.judgments[0].keys[0] == judged.judgments[1].keys[0]
    assert {key for j in judged.judgments for key in j.keys} == set(store.kept)
    assert [j.shown for j in judged.judgments] == [(0, 1), (1, 0)] * 2
    again = await run_steps(2, Prepared(Both()), [silent := Scripted()], store)
    assert not silent.asked
    assert all(j.stored for j in again.judgments)


async def test_a_judgment_asked_for_in_two_steps_may_still_be_asked_for_once_more_and_no_more():
    odd = Scripted(
        lambda r, n: replace(DONE, text="mine" if r.then else "?" if r.turn == 0 else "yes")
    )
    [judgment] = (await run_steps(1, Prepared(Both(lambda t: t == "?", orders=1)), [odd])).judgments
    assert (judgment.status, len(judgment.keys)) == ("ok", 3)
    endless = Scripted(lambda r, n: replace(DONE, text="?"))
    [judgment] = (await run_steps(1, Prepared(Both(lambda t: True, orders=1)), [endless])).judgments
    assert (judgment.status, len(endless.asked)) == ("unparseable", 3)


async def test_an_evaluator_that_prepares_for_ever_gets_an_unparseable_judgment():
    asked = Scripted(lambda r, n: replace(DONE, text="endless"))
    [judgment] = (await run_steps(1, Prepared(Both(orders=1)), [asked])).judgments
    assert (judgment.status, len(asked.asked)) == ("unparseable", 1)


async def test_a_failed_preparation_is_a_failed_judgment_of_each_order():
    judged = await run_steps(
        1, Prepared(Both()), [Scripted(lambda r, n: OVERLOADED if r.then else DONE)]
    )
    assert [(j.status, j.shown, j.keys) for j in judged.judgments] == [
        ("failed", (0, 1), ()),
        ("failed", (1, 0), ()),
    ]


def at_odds(name: str = "c1"):
    """A judge that answers a case's two orders differently."""
    return lambda r, n: replace(
        DONE, text=str(r.shown) if r.case_id == name and not r.third else "same"
    )


async def test_what_follows_stands_behind_its_unit_and_is_the_judges_own():
    store = Memory()
    judged = await run_steps(3, Third(), [Scripted(at_odds())], store)
    assert [(j.case_id, j.shown, j.sample, j.judge, j.arbiter) for j in judged.judgments] == [
        ("c0", (0, 1), 0, "fake", None),
        ("c0", (1, 0), 0, "fake", None),
        ("c1", (0, 1), 0, "fake", None),
        ("c1", (1, 0), 0, "fake", None),
        ("c1", (0, 1), 1, "fake", "fake"),
        ("c2", (0, 1), 0, "fake", None),
        ("c2", (1, 0), 0, "fake", None),
    ]
    assert judged.calls == Calls(planned=7, sent=7)
    again = await run_steps(3, Third(), [silent := Scripted()], store)
    assert not silent.asked
    assert again.calls == Calls(planned=7, stored=7)


async def test_an_arbiter_is_asked_for_each_judge_and_closed():
    arbiter = Scripted(spec=ARBITER)
    judges = [Scripted(at_odds()), Scripted(at_odds("c0"), spec=JudgeSpec("second", "fake/other"))]
    judged = await run_steps(2, Third(), judges, arbiter=arbiter)
    thirds = [(j.case_id, j.judge, j.arbiter) for j in judged.judgments if j.arbiter]
    assert thirds == [("c0", "second", "arbiter"), ("c1", "fake", "arbiter")]
    assert [r.judge for r in arbiter.asked] == ["arbiter"] * 2
    assert (arbiter.closed, judges[0].closed) == (1, 1)


async def test_an_arbiter_that_fails_is_a_failed_judgment_of_the_judge_it_was_asked_for():
    judged = await run_steps(
        2, Third(), [Scripted(at_odds())], arbiter=Scripted(lambda r, n: OVERLOADED, spec=ARBITER)
    )
    last = judged.judgments[-1]
    assert (last.status, last.judge, last.arbiter) == ("failed", "fake", "arbiter")
    assert judged.calls.failed == 1


class Checked(Scripted):
    """A judge that is found wanting when it is checked."""

    async def prepare(self) -> None:
        raise JudgeSetupError("no API key", where="swap.arbiter")


async def test_an_arbiter_that_cannot_be_called_ends_a_run_before_anything_is_paid():
    asked, store = Scripted(at_odds("none")), Memory()
    with pytest.raises(JudgeSetupError, match="no API key"):
        await run_steps(2, Third(), [asked], store, arbiter=Checked(spec=ARBITER))
    assert not asked.asked
    await run_steps(2, Third(), [asked], store)
    stored = await run_steps(2, Third(), [asked], store, arbiter=Checked(spec=ARBITER))
    assert stored.calls == Calls(planned=4, stored=4)


async def test_the_total_grows_by_what_follows():
    seen = []
    await run_steps(3, Third(), [Scripted(at_odds())], observe=seen.append)
    assert {progress.total for progress in seen} == {6, 7}
    assert all(progress.done <= progress.total for progress in seen)
    assert (seen[-1].done, seen[-1].total) == (7, 7)


class Wordy(Scripted):
    """Answers in no order."""

    async def complete(self, request):
        for _ in range(hash(request.case_id) % 5):
            await asyncio.sleep(0)
        return replace(DONE, text=CountedText(f"{request.case_id} {request.shown}"))


async def judged(n, evaluator=None, **more):
    runner = RunnerConfig(concurrency=8)
    return await judge_cases(
        cases(n), evaluator or Both(), [Wordy()], None, runner, clock=Time().clock, **more
    )


@pytest.fixture
def written(monkeypatch):
    monkeypatch.setattr(spool, "MEMORY_LIMIT", 0)


@pytest.mark.parametrize("evaluator", [Both(), Third()])
async def test_four_times_the_cases_take_hardly_more_memory(written, evaluator):
    peaks = []
    for count in (200, 800):
        with most_texts() as held:
            found = await judged(count, evaluator)
        assert len(found.judgments) >= 2 * count
        peaks += held
    more = peaks[1] - peaks[0]
    assert more < 1200 / 8, f"{more} of 1,200 more answers at once"


async def test_they_stand_in_case_order_and_are_the_same_as_when_held(monkeypatch, tmp_path):
    held = await judged(40, Third())
    assert [one.case_id for one in held.judgments] == [f"c{k}" for k in range(40) for _ in range(3)]
    monkeypatch.setattr(spool, "MEMORY_LIMIT", 0)
    assert (await judged(40, Third(), spool=tmp_path)).judgments == held.judgments


async def test_nothing_has_a_name_while_it_goes_on(written, tmp_path):
    seen, alive = [], []

    def look(progress: Progress) -> None:
        if progress.done % 50 == 25:
            seen.extend(tmp_path.rglob("*"))
            alive.append(sum(isinstance(one, Judgment) for one in gc.get_objects()))

    found = await judged(100, observe=look, spool=tmp_path / "run")
    assert len(alive) == 4
    assert max(alive) - alive[0] < 20
    assert seen == []
    assert list(tmp_path.iterdir()) == []
    assert len(found.judgments) == 200
