"""What plans the requests to each judge: an evaluator may have others by judge, for
judges of different kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evalkit.core.protocols import Evaluator, EvaluatorOfSeveral
from evalkit.core.types import Case, JudgeRequest


def planner_for(evaluator: Evaluator, judge: str) -> Evaluator:
    """Return what plans the requests to a judge: the evaluator itself, unless it has
    others by judge.
    """
    if isinstance(evaluator, EvaluatorOfSeveral):
        return evaluator.for_judge(judge)
    return evaluator


class Planners:
    """What plans the requests to each of several judges."""

    def __init__(self, evaluator: Evaluator, judges: Iterable[str]) -> None:
        self._of_judges = [planner_for(evaluator, judge) for judge in judges]
        # Judges of one kind share their planner, so a case is planned once for all of them.
        # identity of a planner -> the planner
        self._different = {id(planner): planner for planner in self._of_judges}

    def plan(self, case: Case) -> Sequence[Sequence[JudgeRequest]]:
        """Return the requests of a case to each judge, in the order of the judges."""
        planned = {
            identity: planner.plan(case)
            for identity, planner in self._different.items()
        }
        return [planned[id(planner)] for planner in self._of_judges]

    def count(self, cases: Iterable[Case]) -> int:
        """Return the number of requests about some cases to all judges."""
        return sum(len(requests) for case in cases for requests in self.plan(case))
