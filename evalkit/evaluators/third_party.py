"""Wrap third-party evaluators so that their errors are one line with the plug-in's name."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from math import isfinite
from typing import Any

from evalkit.core.third_party import third_party_errors
from evalkit.errors import PluginError
from evalkit.protocols import Evaluator, FollowUpEvaluator
from evalkit.types import Case, Completion, JudgeRequest, Judgment

PAID = "fix the plug-in; answers are stored"


def guard_evaluator(inner: Evaluator, name: str) -> Evaluator:
    """Return an evaluator whose errors, except evalkit's own, are PluginErrors with its name and the case."""
    return _FollowingGuarded(inner, name) if isinstance(inner, FollowUpEvaluator) else _Guarded(inner, name)


def impossible(judgment: Judgment) -> str | None:
    """Return the problem with a judgment's numbers; `None` if they are valid.

    Margins must be from -1 to 1, confidences from 0 to 1, and scores of single responses finite.
    """
    values = [*judgment.criteria.values(), *([] if judgment.value is None else [judgment.value])]
    if not all(isfinite(value) and (len(judgment.unit) == 1 or -1 <= value <= 1) for value in values):
        return f"values {values} are not finite, or margins not between -1 and 1"
    if judgment.confidence is not None and not 0 <= judgment.confidence <= 1:
        return f"confidence {judgment.confidence} is not between 0 and 1"
    return None


class _Guarded:
    def __init__(self, inner: Evaluator, name: str) -> None:
        self.inner, self._name = inner, name

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # copying an object asks for it before it exists
            raise AttributeError(name)
        return getattr(self.inner, name)

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the plug-in's requests."""
        with self._blamed("plan", case.id):
            return tuple(self.inner.plan(case))

    def read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        """Return the plug-in's judgment or retry request."""
        with self._blamed("read", request.case_id):
            read = self.inner.read(request, completion)
        if isinstance(read, Judgment) and (fault := impossible(read)):
            what = f"'{self._name}' returned an invalid judgment for case '{request.case_id}': {fault}"
            raise PluginError(what, where="mode.name", remedy=PAID)
        return read

    def _blamed(self, method: str, case_id: str) -> AbstractContextManager[None]:
        what = f"'{self._name}' fails in {method} on case '{case_id}'"
        return third_party_errors(PluginError, what, where="mode.name", remedy=PAID)


class _FollowingGuarded(_Guarded):
    def follow(self, case: Case, judgments: Sequence[Judgment]) -> Sequence[JudgeRequest]:
        """Return the plug-in's follow-up requests."""
        with self._blamed("follow", case.id):
            return tuple(self.inner.follow(case, judgments)) if isinstance(self.inner, FollowUpEvaluator) else ()
