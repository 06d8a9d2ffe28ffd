"""What plans the requests to each judge: an evaluator may have others by judge, for
judges of different kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Self

from evalkit.core.protocols import Evaluator, EvaluatorOfSeveral
from evalkit.core.types import Case, Completion, JudgeRequest, Judgment


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


class SelectedRequests:
    """Plans only some requests of another evaluator, without follow-up requests.

    Args:
        inner: The evaluator.
        selects: Returns whether a request about a case is planned.
    """

    def __init__(
        self, inner: Evaluator, selects: Callable[[Case, JudgeRequest], bool]
    ) -> None:
        self.inner = inner
        self.selects = selects

    def for_judge(self, judge: str) -> Self:
        """Return what plans the selected requests to a judge."""
        planner = planner_for(self.inner, judge)
        if planner is self.inner:
            return self
        of_judge = copy(self)
        of_judge.inner = planner
        return of_judge

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the selected requests of the inner evaluator."""
        return [
            request for request in self.inner.plan(case) if self.selects(case, request)
        ]

    def read(
        self, request: JudgeRequest, completion: Completion
    ) -> Judgment | JudgeRequest:
        """Read a completion with the inner evaluator."""
        return self.inner.read(request, completion)
