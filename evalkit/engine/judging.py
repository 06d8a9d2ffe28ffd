"""Judge cases with a pool of workers; judgments are in case order, whatever order the
answers arrive in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from evalkit.config import SIMULATED, RunnerConfig
from evalkit.core.planners import Planners
from evalkit.core.protocols import CompletionCache, Evaluator, Judge
from evalkit.core.spool import Spool
from evalkit.core.types import Case, Judgment
from evalkit.engine.budget import QUESTION, Needs
from evalkit.engine.event_loop import Clock, freeze_imports, on_interrupt
from evalkit.engine.judging_run import JudgingRun
from evalkit.engine.progress import JudgingResult, Observe, RunCounts, Until
from evalkit.engine.rate_limits import SharedLimits
from evalkit.engine.requests import (
    BATCH,
    PlannedCall,
    PlannedCalls,
)
from evalkit.engine.sender import Sender
from evalkit.engine.store_access import readable
from evalkit.engine.useless_judges import UselessJudges
from evalkit.runs.results import Spent
from evalkit.store.rescue import Rescue


class Session:
    """Judges cases, in one or many calls, with the same judges, store, limits and budget.

    Equal requests in flight are paid for once, whichever call they belong to. All calls must come
    from one event loop.

    Args:
        evaluator: Plans requests and reads completions.
        judges: The judges, in the order in which each case is sent to them.
        store: Where completions are stored; `None` for no store.
        runner: The concurrency, timeout, retries and budget.
        store_mode: `read_write`, `read_only` (nothing is sent), `retry` (stored answers that
            cannot be used are requested again), `refresh` (nothing is read) or `off`.
        arbiter: The judge for follow-up requests; without one, the judge of the preceding
            judgments.
        clock: The source of time.
        spool: The folder, or a folder below it, for a temporary file of judgments that exceed the
            memory limit.
        spent: The budget that other runs have spent.
        shared: The limits that workers on the store share.
        remembers: Whether an equal request later gets the outcome of an earlier one that is not in
            the store, failures included.
        asked_keys: The content keys of requests that this command has sent, also for other runs: in
            modes `retry` and `refresh`, their stored answers are used.
        rescue: What keeps the answers that the store does not take.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        judges: Sequence[Judge],
        store: CompletionCache | None,
        runner: RunnerConfig,
        *,
        store_mode: str = "read_write",
        arbiter: Judge | None = None,
        clock: Clock | None = None,
        spool: Path | None = None,
        spent: Spent | None = None,
        shared: SharedLimits | None = None,
        remembers: bool = False,
        asked_keys: set[str] | None = None,
        rescue: Rescue | None = None,
    ) -> None:
        self._evaluator = evaluator
        self.mode = store_mode
        self._asked = set() if asked_keys is None else asked_keys
        self._runner = runner
        self._spool = spool
        # the judges of planned requests; the arbiter comes after them
        self._own = tuple(judges)
        self._everyone = (*judges, *((arbiter,) if arbiter is not None else ()))
        self._planners = self._new_planners(evaluator)
        self._reads = readable(store, store_mode, self._asked)
        self._arbiter = None if arbiter is None else len(judges)
        self.tally = RunCounts()
        self._sender = Sender(
            self._everyone,
            store if store_mode in ("read_write", "retry", "refresh") else None,
            runner,
            self.tally,
            clock or Clock(),
            calls=store_mode != "read_only",
            claims=store if store_mode in ("read_write", "retry") else None,
            spool=spool,
            spent=spent,
            shared=shared,
            remembers=remembers,
            asked_keys=self._asked if store_mode in ("retry", "refresh") else None,
            rescue=rescue,
        )
        if self._arbiter is not None:
            self._sender.also_checked = (self._arbiter,)
        if runner.budget_usd is not None and self._reads is not None:
            for index, judge in enumerate(self._everyone):
                # a first guess of how long answers get
                if lengths := [
                    answer.usage.completion_tokens or 0
                    for answer in self._reads.recent(judge.spec.model)
                ]:
                    self._sender.lengths.earlier[index] = max(lengths)

    @property
    def stopped(self) -> bool:
        """Whether no more requests are sent: an error ended a call, or too many requests failed."""
        return self._sender.stopping or self._sender.aborted

    def begin(
        self,
        cases: Iterable[Case],
        tally: RunCounts,
        observe: Observe | None = None,
        evaluator: Evaluator | None = None,
    ) -> JudgingRun:
        """Return what judges `cases`, by another evaluator if it is given; it counts in `tally`."""
        evaluator = evaluator or self._evaluator
        specs = [judge.spec for judge in self._own]
        calls = PlannedCalls(cases, self._planners_of(evaluator), specs, self._reads)
        judgments = Spool[Judgment](folder=self._spool)
        run = JudgingRun(
            evaluator=evaluator,
            judges=self._everyone,
            runner=self._runner,
            observe=observe,
            reads=self._reads,
            calls=calls,
            tally=tally,
            sender=self._sender,
            judgments=judgments,
        )
        run.arbiter = self._arbiter
        run.retries = self.mode == "retry"
        return run

    def _planners_of(self, evaluator: Evaluator) -> Planners:
        """Return what plans the requests by an evaluator; that of the session is prepared once."""
        if evaluator is self._evaluator:
            return self._planners
        return self._new_planners(evaluator)

    def _new_planners(self, evaluator: Evaluator) -> Planners:
        return Planners(evaluator, (judge.spec.name for judge in self._own))

    async def judge(
        self, cases: Sequence[Case], evaluator: Evaluator | None = None
    ) -> Sequence[Judgment]:
        """Return one judgment per request that the evaluator plans for `cases` and per
        follow-up request.

        Raises:
            ConfigError, JudgeSetupError, StoreError: As `judge_cases`; the session is then stopped.
        """
        evaluator = evaluator or self._evaluator
        run = self.begin(cases, RunCounts(), evaluator=evaluator)
        # The budget is held before any worker starts: a worker that reserves alone could spend
        # the last dollar on half of a question.
        async with self._whole_question(cases, evaluator):
            workers = run.first_calls()
            if workers >= BATCH:
                # not more workers than the requests of these cases
                workers = self._planners_of(evaluator).count(cases)
            await run.run_workers(workers)
        return run.result().judgments

    @asynccontextmanager
    async def _whole_question(
        self, cases: Sequence[Case], evaluator: Evaluator
    ) -> AsyncIterator[None]:
        """Reserve the budget of a single case before its first call, so that it is answered whole
        or not at all.

        Nothing is reserved for several cases, without a cap, or if nothing may be sent.
        """
        budget = self._sender.budget
        if not budget.capped or len(cases) != 1 or self.mode == "read_only":
            yield
            return
        specs = [judge.spec for judge in self._own]

        def planned() -> list[PlannedCall]:
            planners = self._planners_of(evaluator)
            return PlannedCalls(cases, planners, specs, self._reads).batch()

        def needs() -> Needs:
            calls = planned()
            return self._sender.needs(calls, getattr(evaluator, "most_further", 0))

        # Judges learn their prices when they are prepared, and the needs below are in USD.
        await self._sender.prepare(planned())
        hold = await budget.hold(needs)
        token = QUESTION.set(hold)
        try:
            yield
        finally:
            QUESTION.reset(token)
            budget.release(hold)

    def stop(self, why: str) -> None:
        """Send nothing more: calls in flight may finish, and the rest fails with the
        reason `why`.
        """
        self._sender.give_up(why)

    @property
    def unanswered(self) -> int:
        """The number of calls that were sent and have no answer yet."""
        return self._sender.unanswered

    async def written(self) -> None:
        """Wait until each answer that has arrived is stored."""
        await self._sender.written()

    async def settle(self) -> None:
        """Wait until each answer that has arrived is stored, and every claim is given up."""
        await self._sender.settle()

    async def close(self) -> None:
        """Close the judges and give back what is left of a shared budget; the store stays open."""
        for judge in self._everyone:
            await judge.close()
        await self._sender.close()


async def judge_cases(
    cases: Iterable[Case],
    evaluator: Evaluator,
    judges: Sequence[Judge],
    store: CompletionCache | None,
    runner: RunnerConfig,
    *,
    observe: Observe | None = None,
    until: Until | None = None,
    **settings: Any,
) -> JudgingResult:
    """Judge `cases` with every judge; return one judgment per planned request and per
    follow-up request.

    If the evaluator has a `follow` method, it may plan follow-up requests once all judgments of a
    unit are complete.

    Answers come from the store or else from a call, and a call's answer is stored before it counts.
    A failed request becomes a judgment with status `failed`, and so does a request that was not
    sent because the budget was reached or too many requests had failed. SIGINT, SIGTERM and SIGHUP
    stop the run: calls in flight may finish (a second signal ends them, too), and finished
    judgments are returned with `interrupted` set. Canceling the task ends calls in flight and
    raises, as usual. The judges are closed at the end; the store is not.

    Args:
        cases: The cases, read lazily.
        evaluator: Plans requests and reads completions.
        judges: The judges, in the order in which each case is sent to them.
        store: Where completions are stored; `None` for no store.
        runner: The concurrency, timeout, retries and budget.
        observe: Called with the progress after each judgment and each retry.
        until: Whether no more cases are needed: then calls in flight may finish, nothing else is
            sent, and what was not asked has no judgment. By default all cases are judged.
        **settings: The other settings of `Session`.

    Raises:
        ConfigError: If a file of the settings cannot be written; answers so far are stored.
        JudgeSetupError: If a judge cannot be called at all; answers so far are stored.
        StoreError: If the store fails.
    """
    session = Session(evaluator, judges, store, runner, remembers=True, **settings)
    run = session.begin(cases, session.tally, observe)
    run.until = until
    if runner.stop_if_useless and runner.kind != "batch":
        simulated = {
            judge.spec.name for judge in judges if SIMULATED in judge.spec.model
        }
        run.useless = UselessJudges(run.retries, simulated)
    # Set only here, not in `Session.begin`: one sender serves many runs of a session, and these
    # two belong to a single run.
    run.sender.changed = run.report
    run.sender.has_answers = run.has_answers
    try:
        with on_interrupt(run.interrupt), freeze_imports():
            await run.run_workers()
            await session.settle()
    finally:
        await session.close()
    return run.result()
