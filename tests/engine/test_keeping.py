"""Answers on their way to the disk: several in one commit, and none of them in the way of a call."""

from __future__ import annotations

import asyncio
import gc
from threading import Event

import pytest

from evalkit.config import RunnerConfig
from evalkit.engine import judge
from evalkit.engine.dispatch import StoreWriter
from evalkit.engine.event_loop import run_async
from evalkit.errors import StoreError
from tests.support.engine_fakes import DONE, Both, Memory, Scripted, cases


class Disk(Memory):
    """A store whose first commit is not done before `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[int] = []
        self.go = Event()

    def put_many(self, answers) -> None:
        self.commits.append(len(answers))
        if len(self.commits) == 1:
            assert self.go.wait(300)
        for key, model, completion in answers:
            self.put(key, model, completion)


async def test_answers_that_come_while_one_is_written_share_the_next_commit_and_calls_go_on():
    store = Disk()

    def answer(request, nth):
        if nth == 8:  # that many are answered while the first is not yet on the disk
            store.go.set()
        return DONE

    judge_ = Scripted(answer)
    judged = await judge(cases(20), Both(orders=1), [judge_], store, RunnerConfig(concurrency=4))
    assert judge_.most_at_once == 4
    assert len(store.kept) == len(judged.judgments) == sum(store.commits) == 20
    assert store.commits[1] >= 4
    assert {j.status for j in judged.judgments} == {"ok"}


async def test_a_commit_that_fails_fails_each_of_its_answers_and_the_next_is_tried():
    class Full(Memory):
        def put_many(self, answers) -> None:
            if any(key == "large" for key, _, _ in answers):
                raise StoreError("s.sqlite: is the disk full?")
            for key, model, completion in answers:
                self.put(key, model, completion)

    keeper = StoreWriter(store := Full())
    ends = await asyncio.gather(*(keeper.keep(key, "m", DONE) for key in ("a", "large")), return_exceptions=True)
    assert [type(end) for end in ends] == [StoreError, StoreError]
    with pytest.raises(StoreError):
        await keeper.keep("large", "m", DONE)
    await keeper.keep("b", "m", DONE)
    assert set(store.kept) == {"b"}


async def test_what_was_imported_is_left_out_of_collections_only_as_long_as_a_run_lasts():
    frozen: list[int] = []
    judge_ = Scripted(lambda request, nth: frozen.append(gc.get_freeze_count()) or DONE)
    await judge(cases(1), Both(orders=1), [judge_], None, RunnerConfig())
    assert frozen[0] > 0
    assert gc.get_freeze_count() == 0


def test_a_result_is_not_written_out_when_the_loop_ends():
    class Result:
        def __repr__(self) -> str:
            raise AssertionError("written out")

    async def work() -> Result:
        return Result()

    assert isinstance(run_async(work()), Result)
