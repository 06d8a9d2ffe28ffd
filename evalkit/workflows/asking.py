"""Have the judges of a config asked about cases: one step of a run, or a question
outside of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from evalkit.config import JudgeConfig, RunConfig
from evalkit.core.errors import ConfigError
from evalkit.core.protocols import Evaluator, Judge, Store
from evalkit.core.types import Case, Judgment
from evalkit.core.values import frozen
from evalkit.engine.cascade import Units, ask_in_turn
from evalkit.engine.judging import judge_cases
from evalkit.engine.progress import JudgingResult, Observe, Until
from evalkit.engine.rate_limits import SharedLimits
from evalkit.engine.runner_kinds import runner_kind
from evalkit.judges import make_arbiter, make_judges
from evalkit.runs.results import Spent
from evalkit.scoring.verdict_rules import calibrated, escalated
from evalkit.store import open_store, rescue_for, shared_state


@frozen
class Circumstances:
    """What the steps of a run share.

    Attributes:
        observe: Called with the progress.
        folder: Where many judgments are kept in a temporary file.
        spent: What the other steps of the run, or the jobs of the sweep, have spent of a shared
            budget.
        study: The config of the run that this is a step of, if it is another one.
        until: Whether no more cases are needed; by default all are.
        asked_keys: The content keys of requests that this command has sent already.
    """

    observe: Observe | None = None
    folder: Path | None = None
    spent: Spent | None = None
    study: RunConfig | None = None
    until: Until | None = None
    asked_keys: set[str] | None = None


ALONE: Final = Circumstances()
"""Those of a question outside of a run."""


async def ask_judges(
    config: RunConfig,
    cases: Sequence[Case],
    evaluator: Evaluator,
    shared: Circumstances = ALONE,
    *,
    chosen_on: Sequence[Case] | None = None,
) -> JudgingResult:
    """Judge every case, from stored answers where possible; only the store is written.

    Args:
        config: judges, store and limits.
        cases: the cases.
        evaluator: plans and reads the requests.
        shared: what the steps of a run share.
        chosen_on: the cases whose labels choose the thresholds of a cascade, if not all.

    Raises:
        ConfigError: If a judge or the store cannot be used.
        StoreError: If the store fails.
    """
    several = len(config.judge.in_turn) > 1
    # All judges of a cascade are asked under one budget.
    spent = shared.spent
    if several and spent is None and config.runner.budget_scope != "store":
        spent = Spent()

    async def ask(judge: JudgeConfig, remaining: Evaluator) -> JudgingResult:
        if not several:
            return await _ask_together(config, cases, remaining, shared)
        # No stop is possible here: which judge decides a case is known only after the last one.
        study = shared.study or config
        alone = replace(shared, spent=spent, study=study, until=None)
        return await _ask_together(
            config.with_({"judge": judge}), cases, remaining, alone
        )

    # Thresholds are chosen on the original cases only, since edited ones have no labels of their
    # own.
    def waiting(judgments: Sequence[Judgment]) -> Units:
        fixed = calibrated(config, chosen_on or cases, judgments)
        return escalated(fixed, cases, judgments)

    return await ask_in_turn(
        config.judge.in_turn, cases, evaluator, ask, waiting, shared.folder
    )


async def _ask_together(
    config: RunConfig,
    cases: Sequence[Case],
    evaluator: Evaluator,
    shared: Circumstances,
) -> JudgingResult:
    """Ask a judge or panel about every case, and its arbiter about those on which it disagrees.

    A runner that collects answers first, such as a batch, may be stopped while it waits: then
    nothing is judged. The judges and the store are closed at the end.
    """
    spent = shared.spent
    async with AsyncExitStack() as closing:
        # Closed in the reverse order: the last answers of the judges are still written.
        store = open_store(config.store)
        if store is not None:
            closing.callback(store.close)
        judges = make_judges(config.judge, config.runner)
        for judge in judges:
            closing.push_async_callback(judge.close)
        arbiter = make_arbiter(config)
        if arbiter is not None:
            closing.push_async_callback(arbiter.close)
        # Where answers are collected first, the engine below finds all of them in the store.
        collector = runner_kind(config).collector(
            config, cases, evaluator, store, shared.observe, spent
        )
        members: Sequence[Judge] = judges
        if collector is not None:
            if (stopped := await collector.collect()) is not None:
                return stopped
            members = [collector.judge(member) for member in judges]
            spent = collector.spent
            if arbiter is not None:
                arbiter = collector.judge(arbiter)
        judged = await judge_cases(
            cases,
            evaluator,
            members,
            store,
            config.runner,
            store_mode=config.store.mode,
            arbiter=arbiter,
            observe=shared.observe,
            spool=shared.folder,
            until=shared.until,
            spent=spent,
            shared=shared_limits(shared.study or config, store),
            asked_keys=shared.asked_keys,
            rescue=rescue_for(config.store, shared.folder),
        )
        if collector is not None:
            judged = collector.counted(judged)
        return judged


def shared_limits(config: RunConfig, store: Store | None) -> SharedLimits | None:
    """Return the limits that workers on the store share; `None` if the run does not
    write to one that has them.

    Raises:
        ConfigError: if the budget must be one of them.
    """
    state = None if config.store.mode == "read_only" else shared_state(store)
    if state is None and config.runner.budget_scope == "store":
        problem = "workers cannot share a budget without a writable SQLite or PostgreSQL store"
        raise ConfigError(
            problem,
            where="runner.budget_scope",
            remedy="set store.mode=read_write, or budget_scope=run",
        )
    if state is None:
        return None
    return SharedLimits(state, config.hash())
