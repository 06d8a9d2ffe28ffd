"""Evaluators of someone else's: whatever goes wrong in them is one line that names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any

from evalkit.errors import EvalkitError, PluginError
from evalkit.protocols import Evaluator, FollowUpEvaluator
from evalkit.types import Case, Completion, JudgeRequest, Judgment

PAID = "fix the plug-in; answers are stored"


def guard_evaluator(inner: Evaluator, name: str) -> Evaluator:
    """Return an evaluator whose errors, but for evalkit's own, are PluginErrors that name it and the case."""
    return _FollowingGuarded(inner, name) if isinstance(inner, FollowUpEvaluator) else _Guarded(inner, name)


def impossible(judgment: Judgment) -> str | None:
    """Return what is wrong with a judgment's numbers, none if they can be.

    Margins lie between -1 and 1, confidences between 0 and 1; scores of single responses are finite.
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
        if name == "inner":  # asked for before it is there, by what copies objects
            raise AttributeError(name)
        return getattr(self.inner, name)

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return what the plug-in asks."""
        with self._blamed("plan", case.id):
            return tuple(self.inner.plan(case))

    def read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        """Return what the plug-in reads."""
        with self._blamed("read", request.case_id):
            read = self.inner.read(request, completion)
        if isinstance(read, Judgment) and (fault := impossible(read)):
            what = f"'{self._name}' reads on case '{request.case_id}' what cannot be: {fault}"
            raise PluginError(what, where="mode.name", remedy=PAID)
        return read

    @contextmanager
    def _blamed(self, method: str, case_id: str) -> Iterator[None]:
        try:
            yield
        except EvalkitError:
            raise
        except Exception as error:  # a plug-in's own code runs here, and may fail in any way
            what = f"'{self._name}' fails in {method} on case '{case_id}': {type(error).__name__}: {error}"
            raise PluginError(what, where="mode.name", remedy=PAID) from error


class _FollowingGuarded(_Guarded):
    def follow(self, case: Case, judgments: Sequence[Judgment]) -> Sequence[JudgeRequest]:
        """Return what the plug-in asks once all judgments of a unit are there."""
        with self._blamed("follow", case.id):
            return tuple(self.inner.follow(case, judgments)) if isinstance(self.inner, FollowUpEvaluator) else ()
