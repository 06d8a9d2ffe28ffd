"""Read answers: a judgment, the next request about the same unit, or why there is no judgment."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from evalkit.core.errors import EvalkitError
from evalkit.core.protocols import Evaluator
from evalkit.core.types import Completion, JudgeRequest, Judgment
from evalkit.engine.requests import steps_left

MOST_TURNS: Final = 1
"""How often a step may be asked again."""


def read_answer(
    evaluator: Evaluator, request: JudgeRequest, completion: Completion
) -> Judgment | JudgeRequest:
    """Return what an evaluator reads; an answer that it does not foresee is unparseable."""
    try:
        return evaluator.read(request, completion)
    except EvalkitError:
        raise
    except Exception as error:  # it costs one row, and the answer stays in the store
        problem = f"unreadable ({type(error).__name__})"
        return without_answer(request, "unparseable", problem)


def comes_to_an_end(request: JudgeRequest, following: JudgeRequest) -> bool:
    """Return whether the next request is closer to a judgment than the one that was answered.

    It has fewer steps left, or repeats the same step once.
    """
    steps = steps_left(following)
    before = steps_left(request)
    if steps == before:
        return request.turn < following.turn <= MOST_TURNS
    return steps < before


def without_answer(
    request: JudgeRequest, status: Literal["failed", "unparseable"], error: str
) -> Judgment:
    """Return the judgment of a request without a usable answer, with the reason."""
    blank = Judgment(
        request.case_id,
        request.unit,
        request.shown,
        request.sample,
        request.judge,
        status,
    )
    return replace(blank, error=error, items=dict.fromkeys(request.items))
