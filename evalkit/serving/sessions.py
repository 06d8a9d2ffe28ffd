"""Judge single cases outside a run, by judges, a store and templates that are prepared once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalkit.config import RunConfig, refuse_cascade
from evalkit.core.planners import Planners
from evalkit.core.resources import project
from evalkit.core.types import Case, Judgment, Verdict
from evalkit.datasets import with_examples
from evalkit.engine.cascade import Escalated, Units
from evalkit.engine.judging import Session
from evalkit.judges import make_arbiter, make_judges
from evalkit.runs.results import Spent
from evalkit.scoring.verdict_rules import escalated
from evalkit.serving.scoring_queue import ScoringQueue
from evalkit.store import open_store, rescue_for
from evalkit.workflows.asking import shared_limits
from evalkit.workflows.materials import build_evaluator


class JudgingSession:
    """The judges, the store and the templates of a config, prepared once to judge single cases.

    All calls must come from one event loop. Only the store is written.

    Args:
        config: the judge and its settings; without a dataset, `online`.
        templates: the texts of the templates, if they are not the installed ones.
        spent: what was spent of the budget before.

    Raises:
        ConfigError: if a template, a plug-in or a judge's name cannot be used, or labels choose a
            cascade's thresholds.
        StoreError: if the store cannot be used.
    """

    def __init__(
        self,
        config: RunConfig,
        templates: Mapping[str, str] | None = None,
        spent: Spent | None = None,
    ) -> None:
        """Open the store, and a session for each judge that is asked in turn."""
        refuse_cascade(
            config,
            "set judge.thresholds as in cascade.json of a run with labels, or use one of its"
            " judges",
        )
        self.config = config = config.with_({"runner.kind": "online"})
        self.evaluator = build_evaluator(self.config, templates)
        self._store = open_store(config.store)
        self._scoring = ScoringQueue(config)
        self.closed = False
        # A budget is for all judges of a cascade together.
        if spent is None and len(config.judge.in_turn) > 1:
            spent = Spent()
        self._sessions = [
            Session(
                self.evaluator,
                make_judges(judge, config.runner),
                self._store,
                config.runner,
                store_mode=config.store.mode,
                arbiter=make_arbiter(config),
                spent=spent,
                shared=shared_limits(config, self._store),
                rescue=rescue_for(config.store),
            )
            # A cascade has a session for each judge, and a panel one session for all of them.
            for judge in config.judge.in_turn
        ]

    @property
    def stopped(self) -> bool:
        """Whether an error has ended the session."""
        return any(session.stopped for session in self._sessions)

    async def judge(
        self, cases: Sequence[Case]
    ) -> tuple[Sequence[Judgment], Sequence[Verdict]]:
        """Judge cases and return their judgments and verdicts.

        Raises:
            JudgeSetupError: if a judge cannot be called.
            StoreError: if the store fails.
        """
        judgments = list[Judgment]()
        evaluator = self.evaluator
        for session in self._sessions:
            judgments += await session.judge(cases, evaluator)
            # The next judge is asked only about what the ones before left open.
            if session.stopped or not (units := self._escalated(cases, judgments)):
                break
            evaluator = Escalated(self.evaluator, units)
        return judgments, await self._scoring.verdicts(cases, judgments)

    def _escalated(self, cases: Sequence[Case], judgments: Sequence[Judgment]) -> Units:
        """Return what the judges so far have not decided, if others follow."""
        if len(self._sessions) == 1:
            return ()
        return escalated(self.config, cases, judgments)

    def complete(self, cases: Sequence[Case], judgments: Sequence[Judgment]) -> bool:
        """Return whether every request of some cases has a judgment, also after an
        error has ended the session.
        """
        evaluator = self.evaluator
        # As in `judge`, but counting: how far a cascade goes depends on its answers.
        expected = 0
        asked_judges = set[str]()
        for judge in self.config.judge.in_turn:
            names = [member.label for member in judge.members]
            expected += Planners(evaluator, names).count(cases)
            asked_judges.update(names)
            units = self._escalated(
                cases,
                [judgment for judgment in judgments if judgment.judge in asked_judges],
            )
            if not units:
                break
            evaluator = Escalated(self.evaluator, units)
        return len(judgments) >= expected

    def stop(self, why: str) -> None:
        """Send nothing more: calls in flight may finish, and the rest fails with the
        reason `why`.
        """
        for session in self._sessions:
            session.stop(why)

    @property
    def unanswered(self) -> int:
        """The number of calls that were sent and have no answer yet."""
        return sum(session.unanswered for session in self._sessions)

    async def written(self) -> None:
        """Wait until each answer that has arrived is stored."""
        for session in self._sessions:
            await session.written()

    async def close(self) -> None:
        """Close the connections, and wait for the store."""
        self.closed = True
        try:
            for session in self._sessions:
                await session.close()
                # Answers that are paid for reach the store before it closes.
                await session.settle()
        finally:
            if self._store:
                self._store.close()


async def judge_one(
    config: RunConfig, case: Case
) -> tuple[Sequence[Judgment], Sequence[Verdict]]:
    """Judge one case and return its judgments and verdicts; only the store is written."""
    session = JudgingSession(with_examples(config, base=project()))
    try:
        return await session.judge([case])
    finally:
        await session.close()
