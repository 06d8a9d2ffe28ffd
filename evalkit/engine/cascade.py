"""Ask the judges of a cascade in turn: each only about the units that those before it
did not decide.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from heapq import merge
from pathlib import Path
from typing import TypeAlias, TypeVar

from evalkit.core.planners import SelectedRequests
from evalkit.core.protocols import Evaluator, FollowUpEvaluator
from evalkit.core.spool import Spool
from evalkit.core.types import Case, JudgeRequest, Judgment, Unit
from evalkit.engine.progress import JudgingResult

Member = TypeVar("Member")
Units: TypeAlias = Collection[tuple[str, Unit]]
"""Units of cases, each by the case's id and the indices of its responses."""


class Escalated(SelectedRequests):
    """Plans only the requests of another evaluator about some units."""

    def __init__(self, inner: Evaluator, units: Units) -> None:
        super().__init__(inner, lambda case, request: (case.id, request.unit) in units)

    def follow(
        self, case: Case, judgments: Sequence[Judgment]
    ) -> Sequence[JudgeRequest]:
        """Return the follow-up requests of the inner evaluator."""
        if isinstance(self.inner, FollowUpEvaluator):
            return self.inner.follow(case, judgments)
        return ()


async def ask_in_turn(
    members: Sequence[Member],
    cases: Sequence[Case],
    evaluator: Evaluator,
    ask: Callable[[Member, Evaluator], Awaitable[JudgingResult]],
    escalated: Callable[[Sequence[Judgment]], Units],
    spool: Path | None = None,
) -> JudgingResult:
    """Return the judgments of all judges in case order, with the calls of all.

    A single member, such as a panel, is asked about everything. Nothing is asked after a judge that
    was stopped: its unread cases would all go to the next one.

    Args:
        members: the judges, in the order in which they are asked.
        cases: the cases.
        evaluator: plans and reads the requests.
        ask: has one judge judge the cases.
        escalated: returns the units that the judgments so far do not decide.
        spool: the folder for a temporary file of many judgments.
    """
    if len(members) == 1:
        return await ask(members[0], evaluator)
    # case id -> its position
    positions = {case.id: number for number, case in enumerate(cases)}
    result = JudgingResult(())
    judgments = Spool[Judgment](folder=spool)
    remaining = evaluator
    for number, member in enumerate(members):
        # Both parts are in case order, so merging keeps that order without holding all of them in
        # memory.
        judged = (await ask(member, remaining)).after(result)
        parts = (judgments, judged.judgments)
        judgments = Spool[Judgment](folder=spool)
        for judgment in merge(*parts, key=lambda judgment: positions[judgment.case_id]):
            judgments.append(judgment)
        result = replace(
            judged, judgments=judgments, dropped={**result.dropped, **judged.dropped}
        )
        if judged.interrupted or judged.stopped or number == len(members) - 1:
            break
        if not (units := escalated(judgments)):
            break
        remaining = Escalated(evaluator, units)
    if result.interrupted:
        # How many units the later judges would have got is not known.
        return replace(result, whole=None)
    return result
