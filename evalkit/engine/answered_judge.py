"""A judge that sends nothing: its answers are stored, or were collected in another way."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from evalkit.core.errors import CallError
from evalkit.core.types import Completion, JudgeRequest, JudgeSpec
from evalkit.engine.requests import call_key

Outcome: TypeAlias = CallError | Completion


class AnsweredJudge:
    """A judge that sends nothing: what is not stored ends as in `outcomes`, by content key."""

    free = True

    def __init__(
        self, spec: JudgeSpec, outcomes: Mapping[str, Outcome] = MappingProxyType({})
    ) -> None:
        self.spec = spec
        self._outcomes = outcomes

    def ceiling(self, _: JudgeRequest) -> float:
        """Return 0: nothing is sent."""
        return 0.0

    async def complete(self, request: JudgeRequest) -> Completion:
        """Return or raise what a request came to."""
        outcome = self._outcomes.get(call_key(self.spec, request)) or not_stored()
        if isinstance(outcome, Completion):
            return outcome
        raise CallError(outcome.kind, outcome.message, retryable=False)

    async def close(self) -> None:
        """Do nothing."""


def not_stored() -> CallError:
    """Return the error of a request whose answer is not there yet."""
    return CallError(
        "not_stored", "no batch has the answer yet; repeat the run", retryable=False
    )
