"""Judge cases with a pool of workers; judgments are in case order, whatever order the answers arrive in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from evalkit.config import RunnerConfig
from evalkit.engine.dispatch import Answer, RunStopped, Sender
from evalkit.engine.event_loop import Clock, freeze_imports, on_interrupt
from evalkit.engine.progress import JudgingResult, Progress, Tally
from evalkit.engine.requests import CallGroup, JudgmentCollector, OpenGroups, PlannedCall, PlannedCalls, call_key
from evalkit.engine.shared_limits import SharedLimits
from evalkit.errors import EvalkitError
from evalkit.protocols import CompletionCache, Evaluator, FollowUpEvaluator, Judge
from evalkit.results import Spent
from evalkit.types import Case, Completion, Failure, JudgeRequest, Judgment

GRACE_SECONDS = 30.0
MOST_TURNS = 1
WORKERS = 2
"""Workers per concurrent call: while one waits for an answer, another stores and reads one."""
HOPELESS_FROM = 20  # a run with fewer failures is always finished
NEVER_SENT = ("budget", "not_stored", "stopped")
Observe = Callable[[Progress], None]


async def judge(
    cases: Iterable[Case],
    evaluator: Evaluator,
    judges: Sequence[Judge],
    store: CompletionCache | None,
    runner: RunnerConfig,
    *,
    store_mode: str = "read_write",
    arbiter: Judge | None = None,
    observe: Observe | None = None,
    clock: Clock | None = None,
    spool: Path | None = None,
    spent: Spent | None = None,
    shared: SharedLimits | None = None,
) -> JudgingResult:
    """Judge `cases` with every judge; return one judgment per planned request and per follow-up request.

    If the evaluator has a `follow` method, it may plan follow-up requests once all judgments of a unit are complete.

    Answers come from the store or else from a call, and a call's answer is stored before it counts. A failed request
    becomes a judgment with status `failed`, and so does a request that was not sent because the budget was reached or
    too many requests had failed. SIGINT, SIGTERM and SIGHUP stop the run: calls in flight may finish (a second signal
    ends them, too), and finished judgments are returned with `interrupted` set. Canceling the task ends calls in flight
    and raises, as usual. The judges are closed at the end; the store is not.

    Args:
        cases: The cases, read lazily.
        evaluator: Plans requests and reads completions.
        judges: The judges, in the order in which each case is sent to them.
        store: Where completions are stored; `None` for no store.
        runner: The concurrency, timeout, retries and budget.
        store_mode: `read_write`, `read_only` (nothing is sent), `refresh` (nothing is read) or `off`.
        arbiter: The judge for follow-up requests; without one, the judge of the preceding judgments.
        observe: Called after each judgment and each retry.
        clock: The source of time.
        spool: The folder, or a folder below it, for a temporary file of judgments that exceed the memory limit.
        spent: The budget that other runs have spent.
        shared: The limits that workers on the store share.

    Raises:
        ConfigError: If that file cannot be written; answers so far are stored.
        JudgeSetupError: If a judge cannot be called at all; answers so far are stored.
        StoreError: If the store fails.
    """
    everyone = (*judges, *((arbiter,) if arbiter is not None else ()))
    run = _Run(evaluator, everyone, store, runner, store_mode, observe, clock or Clock(), spool, spent, shared)
    run.calls = PlannedCalls(cases, evaluator, [j.spec for j in judges], run.reads)
    if arbiter is not None:
        run.set_arbiter(len(judges))
    if runner.budget_usd is not None:
        run.read_earlier_lengths()
    try:
        with on_interrupt(run.interrupt), freeze_imports():
            await run.workers()
            await run.settle()
    finally:
        for each in everyone:
            await each.close()
        await run.close()
    return run.result()


class _Run:
    calls: PlannedCalls
    arbiter: int | None = None

    def __init__(
        self,
        evaluator: Evaluator,
        judges: Sequence[Judge],
        store: CompletionCache | None,
        runner: RunnerConfig,
        store_mode: str,
        observe: Observe | None,
        clock: Clock,
        spool: Path | None,
        spent: Spent | None,
        shared: SharedLimits | None,
    ) -> None:
        self._evaluator, self._judges, self._runner, self._observe = evaluator, judges, runner, observe
        self._follow = evaluator.follow if isinstance(evaluator, FollowUpEvaluator) else None
        self.reads = store if store_mode in ("read_write", "read_only") else None
        writes = store if store_mode in ("read_write", "refresh") else None
        self._tally = Tally()
        self._sender = Sender(
            judges,
            writes,
            runner,
            self._tally,
            calls=store_mode != "read_only",
            claims=store if store_mode == "read_write" else None,
            clock=clock,
            changed=self._report,
            spool=spool,
            spent=spent,
            shared=shared,
        )
        self._queue: deque[PlannedCall] = deque()
        self._done, self._groups = JudgmentCollector(spool), OpenGroups()
        self._tasks: list[asyncio.Task[None]] = []
        self._signal: int | None = None
        self._followed = 0
        self.sending = 0.0

    def set_arbiter(self, judge: int) -> None:
        """Send follow-up requests to the judge at this index."""
        self.arbiter = judge
        self._sender.check_also(judge)

    def read_earlier_lengths(self) -> None:
        """Read the lengths of the judges' earlier answers from the store."""
        if self.reads is None:
            return
        for index, judge in enumerate(self._judges):
            lengths = [one.usage.completion_tokens or 0 for one in self.reads.recent(judge.spec.model)]
            if lengths:
                self._sender.lengths.earlier[index] = max(lengths)

    async def close(self) -> None:
        """Give back what the run had taken of a shared budget."""
        await self._sender.close()

    async def workers(self) -> None:
        """Run the workers until every call is done, one of them fails, or the run is stopped."""
        self._tasks = [asyncio.create_task(self._work()) for _ in range(WORKERS * self._runner.concurrency)]
        try:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
            self.sending = self._tally.sending()
            self._stop()
            await asyncio.wait(self._tasks, timeout=GRACE_SECONDS)
        finally:
            self._end()
            ends = await asyncio.gather(*self._tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def settle(self) -> None:
        """Wait until every claim on a request is given up."""
        await self._sender.settle()

    def interrupt(self, number: int) -> None:
        """Handle a signal: the first lets calls in flight finish, the second ends them."""
        if self._signal is not None:
            self._end()
            return
        self._signal = number
        self._stop()
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._end)

    def result(self) -> JudgingResult:
        """Return the result of the run."""
        tally = self._tally
        interrupted = self._signal is not None
        stopped = "interrupted" if interrupted else self._sender.stopped
        rest = self.calls.whole() if interrupted else None
        answers = tally.answers()
        if interrupted and self._observe is not None:
            self._observe(replace(tally.progress(None), answers=answers))
        dropped = {judge.spec.name: names for judge in self._judges if (names := getattr(judge, "dropped", ()))}
        return JudgingResult(
            self._done.in_order(),
            tally.calls(),
            tally.tokens(),
            tally.cost_usd,
            interrupted,
            stopped,
            dropped,
            self.sending,
            self._signal,
            None if rest is None else rest + self._followed,
            answers,
        )

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _stop(self) -> None:
        self._sender.stopping = True
        for task in self._tasks:
            if task not in self._sender.out:
                task.cancel()

    async def _work(self) -> None:
        while (call := await self._next()) is not None:
            try:
                judgment = await self._judgment(call)
            except RunStopped:
                return
            self._finish(call, judgment)

    def _finish(self, call: PlannedCall, judgment: Judgment) -> None:
        if call.after and not call.request.items:  # a checklist's follow-up asks the same judge for missing items
            owner = self._judges[call.group.judge].spec.name
            judgment = replace(judgment, judge=owner, arbiter=self._judges[call.judge].spec.name)
        self._done.add(call, judgment)
        self._tally.done += 1
        self._tally.failed += judgment.status == "failed"
        self._tally.broken += judgment.status == "failed" and judgment.error_kind not in NEVER_SENT
        self._abort_if_hopeless()
        if self._follow is not None and not call.after:
            self._queue.extendleft(self._following(call, judgment, self._follow))
        self._report()

    def _abort_if_hopeless(self) -> None:
        """Give up a run whose failure rate will exceed the maximum, whatever happens to the other requests."""
        broken, total, highest = self._tally.broken, self.calls.total, self._runner.max_failure_rate
        if total is None or self._sender.stopped or broken < HOPELESS_FROM or broken <= highest * total:
            return
        self._sender.give_up(
            f"{broken:,} of about {total:,} requests failed, more than runner.max_failure_rate={highest:.1%} allows"
        )

    def _following(
        self,
        call: PlannedCall,
        judgment: Judgment,
        follow: Callable[[Case, Sequence[Judgment]], Sequence[JudgeRequest]],
    ) -> list[PlannedCall]:
        group = call.group
        if (whole := self._groups.complete(call, judgment)) is None:
            return []
        judge = group.judge if self.arbiter is None else self.arbiter
        calls = [
            self._unplanned_call(judge, request, group, after)
            for after, request in enumerate(follow(group.case, whole), start=1)
        ]
        self._followed += len(calls)
        return calls

    def _unplanned_call(
        self, judge: int, request: JudgeRequest, group: CallGroup, after: int, position: int | None = None
    ) -> PlannedCall:
        """Return a call that was not planned, with its stored answer if there is one."""
        self._tally.planned += 1
        spec = self._judges[judge].spec
        key = call_key(spec, request)
        found = self.reads.get_many([key]) if self.reads is not None else {}
        at = group.positions[-1] if position is None else position
        return PlannedCall(at, judge, replace(request, judge=spec.name), key, group, found.get(key), after)

    async def _next(self) -> PlannedCall | None:
        if self._sender.stopping:
            return None
        while not self._queue:
            if not (batch := self.calls.batch()):
                return None
            self._queue.extend(batch)
            self._tally.planned += len(batch)
            # Stored answers never wait: let signals and other tasks run once per batch.
            await asyncio.sleep(0)
        return self._queue.popleft()

    async def _judgment(self, call: PlannedCall) -> Judgment:
        keys: tuple[str, ...] = ()
        earlier: tuple[Completion, ...] = ()
        stored = True
        while True:
            outcome = await self._answer(call)
            if isinstance(outcome, Failure):
                return replace(_failed(call.request, outcome, keys), earlier=earlier)
            keys, stored = (*keys, call.key), stored and outcome.stored
            read = self._read(call.request, outcome.completion)
            if not isinstance(read, Judgment) and not _may_follow(call.request, read):
                read = _unparseable(call.request, "unreadable, even when asked again")
            if isinstance(read, Judgment):
                return replace(
                    read,
                    judge=call.request.judge,
                    keys=keys,
                    completion=outcome.completion,
                    stored=stored,
                    earlier=earlier,
                )
            earlier = (*earlier, outcome.completion)
            call = self._unplanned_call(call.judge, read, call.group, call.after, call.position)

    def _read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        try:
            return self._evaluator.read(request, completion)
        except EvalkitError:
            raise
        except Exception as error:  # an unforeseen answer costs one row, and stays in the store
            return _unparseable(request, f"unreadable ({type(error).__name__})")

    async def _answer(self, call: PlannedCall) -> Answer | Failure:
        if call.found is None:
            return await self._sender.obtain(call.judge, call.request, call.key)
        self._tally.stored += 1
        self._tally.keep(call.key)
        self._sender.lengths.observe(call.judge, call.found)
        return Answer(call.found, stored=True)

    def _report(self) -> None:
        if self._observe is not None:
            total = self.calls.total
            self._observe(self._tally.progress(None if total is None else total + self._followed))


def _may_follow(before: JudgeRequest, after: JudgeRequest) -> bool:
    """Return whether a request may follow another: it has fewer steps left, or repeats the same step once."""
    left_before, left_after = _steps_left(before), _steps_left(after)
    return left_after < left_before or (left_after == left_before and before.turn < after.turn <= MOST_TURNS)


def _steps_left(request: JudgeRequest) -> int:
    return 0 if request.then is None else 1 + _steps_left(request.then)


def _failed(request: JudgeRequest, failure: Failure, keys: tuple[str, ...]) -> Judgment:
    blank = Judgment(request.case_id, request.unit, request.shown, request.sample, request.judge, "failed")
    items = dict.fromkeys(request.items)
    return replace(blank, error=failure.message, error_kind=failure.kind, keys=keys, items=items)


def _unparseable(request: JudgeRequest, why: str) -> Judgment:
    blank = Judgment(request.case_id, request.unit, request.shown, request.sample, request.judge, "unparseable")
    return replace(blank, error=why, items=dict.fromkeys(request.items))
