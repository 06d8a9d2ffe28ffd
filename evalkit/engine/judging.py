"""Judging cases: a pool of workers that pull asks, and judgments in case order whatever order answers come in."""

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
from evalkit.errors import EvalkitError
from evalkit.protocols import CompletionCache, Evaluator, FollowUpEvaluator, Judge
from evalkit.types import Case, Completion, Failure, JudgeRequest, Judgment, Spent

GRACE_SECONDS = 30.0
MOST_TURNS = 1
WORKERS = 2
"""For each call at once: while one waits for an answer, another's is kept and read."""
# A small run is worth its end whatever fails of it.
HOPELESS_FROM = 20
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
) -> JudgingResult:
    """Judge `cases` with every judge and return one judgment for each planned request, and for each that follows.

    Once all judgments of a unit are there, an evaluator's `follow`, if it has one, may ask for more.

    Answers come from the store, else from a call; a call's answer is stored before it counts. What fails is a judgment
    of status `failed`; so is what was not sent because the budget was reached, or too much had failed. SIGINT,
    SIGTERM or SIGHUP stops it: calls in flight may finish (a second signal ends them too), and what is finished is
    returned with `interrupted` set. Cancelling the task ends calls in flight and raises, as everywhere.
    The judges are closed at the end, the store is not.

    Args:
        cases: read lazily.
        evaluator: describes requests and reads completions.
        judges: asked in this order for each case.
        store: where completions are kept, if anywhere.
        runner: concurrency, timeout, retries and budget.
        store_mode: `read_write`, `read_only` (nothing is sent), `refresh` (nothing is read) or `off`.
        arbiter: whom what follows is put to; without one, the judge that it follows from.
        observe: called after each judgment and each retry.
        clock: how time passes between attempts.
        spool: the folder in or above which judgments wait in a temporary file when they are too many to be held.
        spent: what other runs have spent of the same budget.

    Raises:
        ConfigError: if that file cannot be written; what was answered before is stored.
        JudgeSetupError: if a judge cannot be called at all; what was answered before is stored.
        StoreError: if the store fails.
    """
    everyone = (*judges, *((arbiter,) if arbiter is not None else ()))
    run = _Run(evaluator, everyone, store, runner, store_mode, observe, clock or Clock(), spool, spent)
    run.asks = PlannedCalls(cases, evaluator, [j.spec for j in judges], run.reads)
    if arbiter is not None:
        run.have_arbiter(len(judges))
    if runner.budget_usd is not None:
        run.look_back()
    try:
        with on_interrupt(run.interrupt), freeze_imports():
            await run.workers()
    finally:
        for each in everyone:
            await each.close()
    return run.judged()


class _Run:
    asks: PlannedCalls
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
        )
        self._waiting: deque[PlannedCall] = deque()
        self._done, self._groups = JudgmentCollector(spool), OpenGroups()
        self._tasks: list[asyncio.Task[None]] = []
        self._signal: int | None = None
        self._followed = 0
        self.sending = 0.0

    def have_arbiter(self, judge: int) -> None:
        """Put what follows to the judge of this index."""
        self.arbiter = judge
        self._sender.check_also(judge)

    def look_back(self) -> None:
        """Learn from the store how long the judges' answers have been."""
        if self.reads is None:
            return
        for index, judge in enumerate(self._judges):
            found = [one.usage.completion_tokens or 0 for one in self.reads.recent(judge.spec.model)]
            if found:
                self._sender.lengths.earlier[index] = max(found)

    async def workers(self) -> None:
        """Run the workers until every ask is answered, one of them fails, or the run is stopped."""
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

    def interrupt(self, number: int) -> None:
        """Stop by a signal: at the first after what is in flight, at the second at once."""
        if self._signal is not None:
            self._end()
            return
        self._signal = number
        self._stop()
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._end)

    def judged(self) -> JudgingResult:
        """Return what the run gave."""
        tally = self._tally
        interrupted = self._signal is not None
        stopped = "interrupted" if interrupted else self._sender.stopped
        rest = self.asks.whole() if interrupted else None
        dropped = {judge.spec.name: left_out for judge in self._judges if (left_out := getattr(judge, "dropped", ()))}
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
        while (ask := await self._next()) is not None:
            try:
                judgment = await self._judgment(ask)
            except RunStopped:
                return
            self._finish(ask, judgment)

    def _finish(self, ask: PlannedCall, judgment: Judgment) -> None:
        if ask.after:
            whose = self._judges[ask.group.judge].spec.name
            judgment = replace(judgment, judge=whose, arbiter=self._judges[ask.judge].spec.name)
        self._done.add(ask, judgment)
        self._tally.done += 1
        self._tally.failed += judgment.status == "failed"
        self._tally.broken += judgment.status == "failed" and judgment.error_kind not in NEVER_SENT
        self._unless_hopeless()
        if self._follow is not None and not ask.after:
            self._waiting.extendleft(self._following(ask, judgment, self._follow))
        self._report()

    def _unless_hopeless(self) -> None:
        """End a run early whose rate of failures exceeds the highest allowed, whatever else is answered."""
        broken, total, highest = self._tally.broken, self.asks.total, self._runner.max_failure_rate
        if total is None or self._sender.stopped or broken < HOPELESS_FROM or broken <= highest * total:
            return
        self._sender.give_up(
            f"{broken} of about {total} requests failed, more than runner.max_failure_rate allows ({highest:.1%})"
        )

    def _following(
        self, ask: PlannedCall, judgment: Judgment, follow: Callable[[Case, Sequence[Judgment]], Sequence[JudgeRequest]]
    ) -> list[PlannedCall]:
        group = ask.group
        if (whole := self._groups.complete(ask, judgment)) is None:
            return []
        judge = group.judge if self.arbiter is None else self.arbiter
        asks = [
            self._ask(judge, request, group, after) for after, request in enumerate(follow(group.case, whole), start=1)
        ]
        self._followed += len(asks)
        return asks

    def _ask(
        self, judge: int, request: JudgeRequest, group: CallGroup, after: int, position: int | None = None
    ) -> PlannedCall:
        """Return an ask that was not planned, with its stored answer if there is one."""
        self._tally.planned += 1
        spec = self._judges[judge].spec
        key = call_key(spec, request)
        found = self.reads.get_many([key]) if self.reads is not None else {}
        at = group.positions[-1] if position is None else position
        return PlannedCall(at, judge, replace(request, judge=spec.name), key, group, found.get(key), after)

    async def _next(self) -> PlannedCall | None:
        if self._sender.stopping:
            return None
        while not self._waiting:
            if not (batch := self.asks.batch()):
                return None
            self._waiting.extend(batch)
            self._tally.planned += len(batch)
            # Stored answers never wait for anything: let signals and other tasks in once a batch.
            await asyncio.sleep(0)
        return self._waiting.popleft()

    async def _judgment(self, ask: PlannedCall) -> Judgment:
        keys: tuple[str, ...] = ()
        earlier: tuple[Completion, ...] = ()
        stored = True
        while True:
            outcome = await self._answer(ask)
            if isinstance(outcome, Failure):
                return replace(_failed(ask.request, outcome, keys), earlier=earlier)
            keys, stored = (*keys, ask.key), stored and outcome.stored
            read = self._read(ask.request, outcome.completion)
            if not isinstance(read, Judgment) and not _leads_on(ask.request, read):
                read = _unparseable(ask.request, "not readable, also when asked again")
            if isinstance(read, Judgment):
                return replace(_finished(read, ask.request, Answer(outcome.completion, stored), keys), earlier=earlier)
            earlier = (*earlier, outcome.completion)
            ask = self._ask(ask.judge, read, ask.group, ask.after, ask.position)

    def _read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        try:
            return self._evaluator.read(request, completion)
        except EvalkitError:
            raise
        except Exception as error:  # an answer that nobody foresaw costs one row, and stays in the store
            return _unparseable(request, f"not readable ({type(error).__name__})")

    async def _answer(self, ask: PlannedCall) -> Answer | Failure:
        if ask.found is None:
            return await self._sender.obtain(ask.judge, ask.request, ask.key)
        self._tally.stored += 1
        self._sender.lengths.see(ask.judge, ask.found)
        return Answer(ask.found, stored=True)

    def _report(self) -> None:
        if self._observe is not None:
            total = self.asks.total
            self._observe(self._tally.progress(None if total is None else total + self._followed))


def _leads_on(before: JudgeRequest, after: JudgeRequest) -> bool:
    """Say whether an ask may come after another: it has fewer asks to prepare for, or is the same asked once more."""
    to_come, left = _asks_to_come(before), _asks_to_come(after)
    return left < to_come or (left == to_come and before.turn < after.turn <= MOST_TURNS)


def _asks_to_come(request: JudgeRequest) -> int:
    return 0 if request.then is None else 1 + _asks_to_come(request.then)


def _finished(judgment: Judgment, request: JudgeRequest, answer: Answer, keys: tuple[str, ...]) -> Judgment:
    return replace(judgment, judge=request.judge, keys=keys, completion=answer.completion, stored=answer.stored)


def _failed(request: JudgeRequest, failure: Failure, keys: tuple[str, ...]) -> Judgment:
    blank = Judgment(request.case_id, request.unit, request.shown, request.sample, request.judge, "failed")
    return replace(blank, error=failure.message, error_kind=failure.kind, keys=keys)


def _unparseable(request: JudgeRequest, why: str) -> Judgment:
    return Judgment(
        request.case_id, request.unit, request.shown, request.sample, request.judge, "unparseable", error=why
    )
