from __future__ import annotations

import asyncio

import pytest

from evalkit.config import RunnerConfig
from evalkit.engine import judge
from evalkit.errors import CallError
from evalkit.store.sqlite import SqliteStore
from evalkit.types import Completion
from tests.support.engine_fakes import DONE, Both, Memory, Scripted, cases


@pytest.mark.parametrize("failing", [False, True])
def test_two_runs_on_one_store_share_calls_and_what_fails_for_one_is_asked_by_the_other(tmp_path, failing):
    """Two runs with a connection each, as two processes have."""
    judges = [
        Scripted(lambda r, n: CallError("bad_request", "no", retryable=False)) if failing else Scripted(),
        Scripted(),
    ]

    async def runs():
        stores = [SqliteStore(tmp_path / "s.sqlite") for _ in judges]
        settings = RunnerConfig(concurrency=4, max_failure_rate=1.0)
        work = [judge(cases(20), Both(orders=1), [j], s, settings) for j, s in zip(judges, stores, strict=True)]
        try:
            return await asyncio.gather(*work)
        finally:
            for store in stores:
                store.close()

    one, two = asyncio.run(runs())
    assert {j.status for j in two.judgments} == {"ok"}
    if failing:
        assert len(judges[1].asked) + one.calls.stored == 20 or len(judges[1].asked) == 20
        assert sum(j.status == "ok" for j in one.judgments) == one.calls.stored
    else:
        assert len(judges[0].asked) + len(judges[1].asked) == 20
        assert (one.calls.sent + one.calls.stored, two.calls.sent + two.calls.stored) == (20, 20)


async def test_an_answer_is_kept_although_the_run_is_cancelled_while_it_is_written():
    writing, release = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    class Slow(Memory):
        def put(self, key, model, completion):
            loop.call_soon_threadsafe(writing.set)
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result(300)
            super().put(key, model, completion)

    store = Slow()
    task = asyncio.create_task(judge(cases(1), Both(orders=1), [Scripted()], store, RunnerConfig()))
    await writing.wait()
    task.cancel()
    loop.call_later(0.05, release.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(store.kept) == 1


async def test_texts_that_no_file_takes_are_mended_before_they_count():
    store = Memory()
    judge_ = Scripted(lambda r, n: Completion("half \ud83d", reasoning="\udc00"))
    judged = await judge(cases(1), Both(orders=1), [judge_], store, RunnerConfig())
    [kept] = store.kept.values()
    assert (kept.text, kept.reasoning) == ("half ?", "?")
    assert judged.judgments[0].completion == kept


async def test_a_request_whose_claim_was_lost_before_it_was_sent_is_claimed_and_read_again():
    """As after a lost connection: meanwhile another worker has claimed the first request, and stored its answer."""

    class Losing(Memory):
        claimed = lost = 0

        def claim(self, key):
            self.claimed += 1
            return True

        def holds(self, key):
            self.lost += 1
            if self.lost == 1:
                self.put(key, "fake/model", DONE)
            return self.lost > 2

    store, judge_ = Losing(), Scripted()
    judged = await judge(cases(3), Both(orders=1), [judge_], store, RunnerConfig(concurrency=1))
    assert {one.status for one in judged.judgments} == {"ok"}
    assert (len(judge_.asked), judged.calls.sent, judged.calls.stored) == (2, 2, 1)
    assert store.claimed == 5
