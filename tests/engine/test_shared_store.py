"""A store that several share: claims, their queue, and what is kept."""

import asyncio
import gc
from threading import Event

import pytest

from evalkit.config import RunnerConfig
from evalkit.core.errors import CallError, StoreError
from evalkit.core.types import Completion
from evalkit.engine.event_loop import run_async
from evalkit.engine.judging import judge_cases
from evalkit.engine.store_access import ClaimQueue, StoreWriter
from evalkit.store.sqlite import SqliteStore
from tests.support.engine_fakes import DONE, Both, Memory, Scripted, cases


@pytest.mark.parametrize("failing", [False, True])
def test_two_runs_on_one_store_share_calls_and_what_fails_for_one_is_asked_by_the_other(
    tmp_path, failing
):
    """Two runs with a connection each, as two processes have."""
    judges = [
        Scripted(lambda r, n: CallError("bad_request", "no", retryable=False))
        if failing
        else Scripted(),
        Scripted(),
    ]

    async def runs():
        stores = [SqliteStore(tmp_path / "s.sqlite") for _ in judges]
        settings = RunnerConfig(concurrency=4, max_failure_rate=1.0)
        work = [
            judge_cases(cases(20), Both(orders=1), [j], s, settings)
            for j, s in zip(judges, stores, strict=True)
        ]
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
    task = asyncio.create_task(
        judge_cases(cases(1), Both(orders=1), [Scripted()], store, RunnerConfig())
    )
    await writing.wait()
    task.cancel()
    loop.call_later(0.05, release.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(store.kept) == 1


async def test_texts_that_no_file_takes_are_mended_before_they_count():
    store = Memory()
    judge_ = Scripted(lambda r, n: Completion("half \ud83d", reasoning="\udc00"))
    judged = await judge_cases(cases(1), Both(orders=1), [judge_], store, RunnerConfig())
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
    judged = await judge_cases(
        cases(3), Both(orders=1), [judge_], store, RunnerConfig(concurrency=1)
    )
    assert {one.status for one in judged.judgments} == {"ok"}
    assert (len(judge_.asked), judged.calls.sent, judged.calls.stored) == (2, 2, 1)
    assert store.claimed == 5


class Server:
    """A store whose claims take a round trip; each is noted."""

    def __init__(self) -> None:
        self.trips: list[tuple[str, list[str]]] = []
        self.held: set[str] = set()
        self.fault: StoreError | None = None

    def claim_many(self, keys):
        self.trips.append(("claim", [*keys]))
        free = {*keys} - self.held
        self.held |= free
        return free

    def release_many(self, keys):
        self.trips.append(("release", [*keys]))
        if self.fault:
            raise self.fault
        self.held -= {*keys}

    def get_many(self, keys):
        return {key: f"answer {key}" for key in keys if key.startswith("stored")}


async def test_claims_share_a_round_trip_and_what_is_stored_comes_with_them():
    server = Server()
    server.held = {"taken"}
    queue = ClaimQueue(server, server)
    keys = ["a", "b", "stored", "taken"]
    assert await asyncio.gather(*map(queue.claim, keys)) == [True, True, "answer stored", False]
    for key in keys[:3]:
        queue.release(key)
    await queue.settle()
    assert [(what, sorted(some)) for what, some in server.trips] == [
        ("claim", keys),
        ("release", ["a", "b", "stored"]),
    ]
    assert server.held == {"taken"}


async def test_a_claim_that_nobody_waits_for_any_more_is_given_up():
    server = Server()
    queue = ClaimQueue(server, server)
    waiting = asyncio.create_task(queue.claim("a"))
    await asyncio.sleep(0)
    waiting.cancel()
    await queue.settle()
    assert server.held == set()


async def test_a_failure_to_give_up_a_claim_is_told():
    server = Server()
    server.fault = StoreError("claims do not hold")
    queue = ClaimQueue(server, server)
    assert await queue.claim("a")
    queue.release("a")
    with pytest.raises(StoreError, match="do not hold"):
        await queue.settle()
    with pytest.raises(StoreError, match="do not hold"):
        await queue.claim("b")


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
    judged = await judge_cases(
        cases(20), Both(orders=1), [judge_], store, RunnerConfig(concurrency=4)
    )
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
    ends = await asyncio.gather(
        *(keeper.keep(key, "m", DONE) for key in ("a", "large")), return_exceptions=True
    )
    assert [type(end) for end in ends] == [StoreError, StoreError]
    with pytest.raises(StoreError):
        await keeper.keep("large", "m", DONE)
    await keeper.keep("b", "m", DONE)
    assert set(store.kept) == {"b"}


async def test_what_was_imported_is_left_out_of_collections_only_as_long_as_a_run_lasts():
    frozen: list[int] = []
    judge_ = Scripted(lambda request, nth: frozen.append(gc.get_freeze_count()) or DONE)
    await judge_cases(cases(1), Both(orders=1), [judge_], None, RunnerConfig())
    assert frozen[0] > 0
    assert gc.get_freeze_count() == 0


def test_a_result_is_not_written_out_when_the_loop_ends():
    class Result:
        def __repr__(self) -> str:
            raise AssertionError("written out")

    async def work() -> Result:
        return Result()

    assert isinstance(run_async(work()), Result)
