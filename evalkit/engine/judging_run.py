"""One run over cases: workers that ask, count and stop, and judgments in the order of the cases."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from evalkit.config import RunnerConfig
from evalkit.core.errors import AccessError
from evalkit.core.protocols import CompletionCache, Evaluator, Judge
from evalkit.core.spool import Spool
from evalkit.core.tokens import share_seen
from evalkit.core.types import Case, Completion, Failure, JudgeRequest, Judgment
from evalkit.engine.answer_reading import comes_to_an_end, read_answer, without_answer
from evalkit.engine.progress import TICK, JudgingResult, Observe, RunCounts, Until
from evalkit.engine.requests import (
    CallGroup,
    PlannedCall,
    PlannedCalls,
    call_key,
)
from evalkit.engine.run_ends import RunStopped
from evalkit.engine.sender import Sender
from evalkit.engine.useless_judges import UselessJudges

# A second signal, or this many seconds, ends what a first signal let finish.
GRACE_SECONDS = 30.0


MAX_FOLLOW_UPS = 2**20
"""The maximum number of follow-up judgments of one unit."""


WORKERS = 2
"""Workers per concurrent call: while one waits for an answer, another stores and reads one."""


HOPELESS_FROM = 20  # a run with fewer failures is always finished


NEVER_SENT = ("budget", "not_stored", "stopped")


SETTLED = "no more cases are needed"


AHEAD = 4
"""Calls per concurrent call ahead of the first unanswered one, where a run may end early."""


Follow: TypeAlias = Callable[[Case, Sequence[Judgment]], Sequence[JudgeRequest]]
"""Returns the follow-up requests for the judgments of a unit."""


@dataclass
class JudgingRun:
    """One run over cases, with what it counts; `Session` has what outlives it."""

    evaluator: Evaluator
    judges: Sequence[Judge]
    runner: RunnerConfig
    observe: Observe | None
    reads: CompletionCache | None
    calls: PlannedCalls
    tally: RunCounts
    sender: Sender
    judgments: Spool[Judgment]
    positions: array[int] = field(default_factory=lambda: array("q"))
    """The position of each judgment in the run; follow-up judgments come after their unit."""
    arbiter: int | None = None
    """The index of the judge of follow-up requests."""
    until: Until | None = None
    over: bool = False
    """Whether no more cases are needed."""
    why: str | None = None
    """Why requests were not sent any more before that."""
    begun: set[tuple[int, int]] = field(default_factory=set)
    """The calls without a judgment so far, by position and by `PlannedCall.after`."""
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    open_cases: dict[str, tuple[int, list[Judgment]]] = field(default_factory=dict)
    """The number of missing judgments of incomplete cases, and those that are there, by the case's
    id."""
    queue: deque[PlannedCall] = field(default_factory=deque)
    open_units: dict[int, dict[int, Judgment]] = field(default_factory=dict)
    """The judgments of incomplete units, by the position of the unit's first call and by their
    own."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    signal: int | None = None
    useless: UselessJudges | None = None
    """What stops a run whose answers cannot be used."""
    retries: bool = False
    """Whether stored answers that cannot be used are requested again."""
    followed: int = 0
    sending: float = 0.0
    answer_count: int = 0
    """The number of answers so far, stored ones included."""

    def __post_init__(self) -> None:
        # Not by its protocol: that check takes longer than planning a question.
        self.follow: Follow | None = getattr(self.evaluator, "follow", None)

    def first_calls(self) -> int:
        """Plan the first calls now, before any worker needs them, and return their number.

        Raises:
            StoreError: If the store fails.
        """
        try:
            return self._plan_batch()
        except Exception as error:
            raise self.sender.explained(error) from error.__cause__

    async def run_workers(self, planned: int | None = None) -> None:
        """Run workers until every call is done, one fails, or the run is stopped.

        There is at most one for each of `planned` calls, whose number may be unknown.
        """
        most = WORKERS * self.runner.concurrency
        if planned is not None:
            most = max(1, min(most, planned))
        self.tasks = [asyncio.create_task(self._work()) for _ in range(most)]
        # Without an observer there is nobody to report to.
        ticker = None if self.observe is None else asyncio.create_task(self._tick())
        try:
            # Wait for the first error, not for all: a setup error in one worker means that every
            # other call of the run would fail, too.
            pending = await _first_end(self.tasks)
            if (first := self.tally.first_sent) is not None:
                self.sending = time.monotonic() - first
            # one worker failed: the others finish their calls, for a while
            if pending:
                self._stop()
                await asyncio.wait(self.tasks, timeout=GRACE_SECONDS)
        finally:
            if ticker is not None:
                ticker.cancel()
            self._end()
            # Collect all ends before raising: a task whose exception nobody reads is reported by
            # asyncio as lost. `CancelledError` is no `Exception`, so canceled workers are not
            # errors.
            if unfinished := [task for task in self.tasks if not task.done()]:
                await asyncio.gather(*unfinished, return_exceptions=True)
            ends = [task.exception() for task in self.tasks if not task.cancelled()]
        for end in ends:
            if isinstance(end, Exception):
                raise self.sender.explained(end)

    def interrupt(self, number: int) -> None:
        """Handle a signal: the first lets calls in flight finish, the second ends them."""
        if self.signal is not None:
            self._end()
            return
        self.signal = number
        self._stop()
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._end)

    def result(self) -> JudgingResult:
        """Return the result of the run: its judgments in the order of the requests, and what it
        spent.

        After a signal, the result also has the number of judgments that the whole run would have
        had; `None` if that is not known.
        """
        interrupted = self.signal is not None
        whole = self.calls.whole() if interrupted else None
        answers = len(set(self.tally.kept))
        # judgments are in the order in which answers arrived, and the result in that of
        # the requests
        order = sorted(range(len(self.positions)), key=self.positions.__getitem__)
        if interrupted and self.observe is not None:
            self.observe(replace(self.tally.progress(None), answers=answers))
        stopped = self.sender.stopped
        if interrupted:
            stopped = "interrupted"
        elif self.over:
            stopped = self.why
        return JudgingResult(
            judgments=self.judgments.arrange(array("q", order)),
            spend=self.tally.spend,
            interrupted=interrupted,
            stopped=stopped,
            dropped={
                judge.spec.name: names
                for judge in self.judges
                if (names := getattr(judge, "dropped", ()))
            },
            adapted={
                judge.spec.name: tuple(notes)
                for judge in self.judges
                if (notes := getattr(judge, "notes", ()))
            },
            sending=self.sending,
            signal=self.signal,
            whole=None if whole is None else whole + self.followed,
            answers=answers,
            again=self.tally.again,
        )

    def _end(self) -> None:
        for task in self.tasks:
            task.cancel()

    def _stop(self) -> None:
        self.sender.stopping = True
        for task in self.tasks:
            # only workers that wait for no answer
            if task not in self.sender.out:
                task.cancel()

    async def _work(self) -> None:
        while (call := await self._next_call()) is not None:
            try:
                judgment = await self._judge_call(call)
            except RunStopped:
                return
            self._record_judgment(call, judgment)

    def _record_judgment(self, call: PlannedCall, judgment: Judgment) -> None:
        """Keep the judgment of a call, queue its follow-ups, and end a run that is of no use."""
        self.begun.discard((call.position, call.after))
        self.finished.set()
        # what was not sent, because no more cases are needed, has no judgment
        if self.over and judgment.status == "failed":
            self.tally.planned -= judgment.error_kind in NEVER_SENT
            return
        # A checklist's follow-up asks the same judge for missing items; others ask the arbiter.
        if call.after and not call.request.items:
            owner = self.judges[call.group.judge].spec.name
            judgment = replace(
                judgment, judge=owner, arbiter=self.judges[call.judge].spec.name
            )
        # `judgments` and `positions` are parallel: entry i of one belongs to entry i of the
        # other.
        self.judgments.append(judgment)
        # Each planned position has `MAX_FOLLOW_UPS` numbers: its own judgment is at 0, and
        # follow-ups come right after it.
        self.positions.append(call.position * MAX_FOLLOW_UPS + call.after)
        self.tally.done += 1
        self.tally.failed += judgment.status == "failed"
        self.tally.broken += (
            judgment.status == "failed" and judgment.error_kind not in NEVER_SENT
        )
        self._abort_if_hopeless()
        self._abort_if_useless(judgment)
        following: list[PlannedCall] = []
        if self.follow is not None and not call.after:
            following = self._follow_ups(call, judgment, self.follow)
            # first in the queue, so that a unit is complete soon
            self.queue.extendleft(following)
        if self.until is not None and not self.over:
            self._count_complete(call, judgment, len(following), self.until)
        self.report()

    def _count_complete(
        self, call: PlannedCall, judgment: Judgment, following: int, until: Until
    ) -> None:
        """Count a judgment of a case, before `following` more.

        A complete case may be the last that is needed.
        """
        missing, judgments = self.open_cases.pop(
            call.group.case.id, (call.group.whole, [])
        )
        judgments.append(judgment)
        # this judgment is one of the missing ones
        if missing + following > 1:
            self.open_cases[call.group.case.id] = missing + following - 1, judgments
        elif until(call.group.case, judgments):
            # Keep an earlier reason: a run that the budget stopped is not complete because this
            # case was.
            self.over = True
            self.why = self.sender.stopped
            self.tally.planned -= len(self.queue)
            self.queue.clear()
            # Wakes calls that wait for a slot or a retry; they come back as failures, which
            # `_record_judgment` drops.
            self.sender.give_up(self.why or SETTLED)

    def _abort_if_hopeless(self) -> None:
        """Give up a run whose failure rate will exceed the maximum, whatever happens to
        the other requests.
        """
        broken = self.tally.broken
        total = self.calls.total
        highest = self.runner.max_failure_rate
        if (
            total is None
            or self.sender.stopped
            or broken < HOPELESS_FROM
            or broken <= highest * total
        ):
            return
        self.sender.give_up(
            f"{broken:,} of about {total:,} requests failed, more than"
            f" runner.max_failure_rate={highest:.1%} allows"
        )

    def _abort_if_useless(self, judgment: Judgment) -> None:
        """Give up a run if a judge gives no usable answer."""
        if self.useless is None or self.sender.stopped:
            return
        why = self.useless.why(judgment)
        if why is not None:
            self.sender.give_up(why)

    def _follow_ups(
        self,
        call: PlannedCall,
        judgment: Judgment,
        follow: Follow,
    ) -> list[PlannedCall]:
        """Return the follow-up calls of a unit; none before all of its judgments are there.

        `follow` returns the follow-up requests for the judgments of a unit.
        """
        group = call.group
        first = group.positions[0]
        judgment_at = self.open_units.setdefault(first, {})
        judgment_at[call.position] = judgment
        # a follow-up needs all judgments of its unit
        if len(judgment_at) < len(group.positions):
            return []
        del self.open_units[first]
        judge = group.judge if self.arbiter is None else self.arbiter
        judgments = [judgment_at[position] for position in group.positions]
        requests = follow(group.case, judgments)
        calls = [
            self._unplanned_call(judge, request, group, after)
            for after, request in enumerate(requests, start=1)
        ]
        self.followed += len(calls)
        return calls

    def _unplanned_call(
        self,
        judge: int,
        request: JudgeRequest,
        group: CallGroup,
        after: int,
        position: int | None = None,
    ) -> PlannedCall:
        """Return a call that was not planned, with its stored answer if there is one."""
        self.tally.planned += 1
        spec = self.judges[judge].spec
        key = call_key(spec, request)
        # Follow-ups are not planned, so the batched look-up of `PlannedCalls` has not seen them.
        answers = self.reads.get_many([key]) if self.reads is not None else {}
        at = group.positions[-1] if position is None else position
        return PlannedCall(
            position=at,
            judge=judge,
            request=replace(request, judge=spec.name),
            key=key,
            group=group,
            stored=answers.get(key),
            after=after,
        )

    async def _next_call(self) -> PlannedCall | None:
        """Return the next call, planning more cases if needed; `None` at the end of the run."""
        if self.sender.stopping:
            return None
        while not self.queue:
            if self.over or not self._plan_batch():
                return None
            # Stored answers never wait: let signals and other tasks run once per batch.
            await asyncio.sleep(0)
        call = self.queue.popleft()
        # With a stopping rule, calls far ahead of a slow one might be paid for and not be needed.
        # A loop, because any finished call sets the event, also one that is not the slowest.
        while self.until is not None and self.begun and self._is_ahead(call):
            self.finished.clear()
            await self.finished.wait()
            if self.over:
                self.tally.planned -= 1
                return None
        self.begun.add((call.position, call.after))
        return call

    def _plan_batch(self) -> int:
        """Queue the next planned calls, and return their number."""
        batch = self.calls.batch()
        self.queue.extend(batch)
        self.tally.planned += len(batch)
        return len(batch)

    def _is_ahead(self, call: PlannedCall) -> bool:
        """Return whether a slow call may turn out to be the last one that is needed,
        long before this one.
        """
        return call.position - min(self.begun)[0] > AHEAD * self.runner.concurrency

    async def _judge_call(self, call: PlannedCall) -> Judgment:
        """Return the judgment of a call.

        In mode `retry`, a stored answer that cannot be used is requested again once.
        """
        judgment = await self._judgment_of_chain(call)
        if (
            not self.retries
            or not judgment.stored
            or judgment.status not in ("unparseable", "refused")
            or self.sender.was_asked(judgment.keys)
        ):
            return judgment
        # Undo what the stored answer counted: the new one is counted as sent.
        self.tally.stored -= len(judgment.keys)
        # a retry is one planned call, whatever the number of stored answers
        self.tally.planned -= len(judgment.keys) - 1
        self.tally.again += 1
        again = await self._judgment_of_chain(replace(call, stored=None), again=True)
        # without a new answer, the stored one counts
        never_sent = again.status == "failed" and again.error_kind in NEVER_SENT
        if never_sent:
            return judgment
        return again

    async def _judgment_of_chain(
        self, call: PlannedCall, *, again: bool = False
    ) -> Judgment:
        """Return the judgment of a call, after all requests that its evaluator makes on the way.

        Its keys and earlier answers are in the order in which they were asked for. A failure on the
        way makes a failed judgment.

        Args:
            call: The first call.
            again: Whether the call is sent although its answer is stored, since that was not
                usable.
        """
        # An evaluator may read an answer and ask again, for example for the next step of a
        # prompt. All answers on that way are kept, in the order in which they were asked for.
        keys: tuple[str, ...] = ()
        earlier: tuple[Completion, ...] = ()
        stored = True
        while True:
            if again:
                call = replace(call, stored=None)
            # One failure ends the whole chain; `earlier` keeps the answers that were paid for.
            outcome, is_stored = await self._outcome(call, again=again)
            if isinstance(outcome, Failure):
                failed = without_answer(call.request, "failed", outcome.message)
                return replace(
                    failed, error_kind=outcome.kind, keys=keys, earlier=earlier
                )
            self.answer_count += 1
            keys = (*keys, call.key)
            stored = stored and is_stored
            read = read_answer(self.evaluator, call.request, outcome)
            # An evaluator that always asks once more would spend the budget on one case.
            if not isinstance(read, Judgment) and not comes_to_an_end(
                call.request, read
            ):
                read = without_answer(
                    call.request, "unparseable", "unreadable, even when asked again"
                )
            if isinstance(read, Judgment):
                return replace(
                    read,
                    judge=call.request.judge,
                    keys=keys,
                    completion=outcome,
                    stored=stored,
                    earlier=earlier,
                    seen=share_seen(call.request.messages, outcome.usage.prompt_tokens),
                )
            earlier = (*earlier, outcome)
            call = self._unplanned_call(
                call.judge, read, call.group, call.after, call.position
            )

    async def _outcome(
        self, call: PlannedCall, *, again: bool
    ) -> tuple[Completion | Failure, bool]:
        """Return the answer to a call or its failure, and whether the answer was stored before.

        Raises:
            AccessError: If no call can succeed and the run has no answers yet.
        """
        if call.stored is None:
            try:
                return await self.sender.obtain(call, again=again)
            except AccessError as error:
                # What no call can get past ends a run that has no answers, as an error. With
                # answers, it ends only this call, and the run keeps what was paid for.
                if self.sender.empty or not self.sender.aborted:
                    raise
                return Failure(error.kind, str(error), attempts=1), False
        self.tally.stored += 1
        self.tally.keep(call.key)
        self.sender.lengths.observe(call.judge, call.stored)
        return call.stored, True

    async def _tick(self) -> None:
        """Report the progress while all calls wait."""
        while True:
            await asyncio.sleep(TICK)
            if self.sender.waiting():
                self.report()

    def has_answers(self) -> bool:
        """Return whether there are answers, or stored ones among the next calls."""
        return self.answer_count > 0 or any(
            call.stored is not None for call in self.queue
        )

    def report(self) -> None:
        """Report the progress."""
        if self.observe is not None:
            self.sender.waiting()
            total = (
                self.tally.planned - self.followed if self.over else self.calls.total
            )
            self.observe(
                self.tally.progress(None if total is None else total + self.followed)
            )


async def _first_end(
    tasks: Sequence[asyncio.Task[None]],
) -> Collection[asyncio.Task[None]]:
    """Wait until every task is done, or one fails; return those that are not done."""
    if len(tasks) > 1:
        _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        return pending
    # Awaited by itself, one task is noticed a step of the event loop earlier.
    try:
        await tasks[0]
    except asyncio.CancelledError:
        current = asyncio.current_task()
        # not only the worker was canceled
        if current is not None and current.cancelling():
            raise
    except Exception:
        pass  # the caller looks at how each task has ended
    return ()
