"""Turn a completion into a judgment or a retry request; common to all evaluators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evalkit.parsing import UnreadableError, drop_thinking, is_refusal, read_json
from evalkit.prompting import marked_texts, neutralize
from evalkit.types import (
    Completion,
    ItemAnswer,
    JudgeRequest,
    Judgment,
    Message,
    Ranking,
    Status,
    WeightedJudgment,
)

_FINAL = ("refusal", "content_filter", "truncated", "logprobs")
"""Kinds of errors that a retry would not fix."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of one completion, in the case's order, and the parsing step that read it."""

    read_by: str
    value: float | None = None
    confidence: float | None = None
    criteria: Mapping[str, float] = field(default_factory=dict)
    answer: Mapping[str, Any] | None = None
    ranking: Ranking | None = None
    rankings: Mapping[str, Ranking] = field(default_factory=dict)
    weighted: WeightedJudgment | None = None
    class_name: str | None = None
    items: Mapping[str, ItemAnswer | None] = field(default_factory=dict)


def conclude(
    request: JudgeRequest,
    completion: Completion,
    read: Callable[[], Reading],
    retry: Callable[[str], str] | None,
) -> Judgment | JudgeRequest:
    """Return the judgment from `read`, a missing judgment with its reason, or one retry request for an unusable answer.

    A truncated answer is not retried: the same limit would truncate it again.

    Args:
        request: The request.
        completion: The completion.
        read: Reads the completion, or raises UnreadableError.
        retry: Returns the message that explains the problem to the judge; `None` for no retry.
    """
    try:
        _check_refusal(completion)
        return _judged(request, completion, read())
    except UnreadableError as fault:
        fault = _explained(fault, completion)
        if retry is None or request.turn > 0 or fault.kind in _FINAL:
            return missing_judgment(request, completion, fault)
        return _again(request, completion, retry(neutralize(fault.reason)))  # it may quote the answer


def missing_judgment(request: JudgeRequest, completion: Completion, fault: UnreadableError) -> Judgment:
    """Return a missing judgment with its reason."""
    status: Status = "refused" if fault.kind in ("refusal", "content_filter") else "unparseable"
    return replace(_blank(request, completion, status), error=fault.reason, error_kind=fault.kind)


def read_object(request: JudgeRequest, completion: Completion, keys: Collection[str]) -> tuple[dict[str, Any], str]:
    """Return the JSON object in a completion, and the parsing step that read it.

    Raises:
        UnreadableError: If no object has `keys`, or it is quoted from the texts under judgment.
    """
    sources, schema = marked_texts(request.messages), request.answer.schema if request.answer else None
    cut_off = is_cut_off(completion)
    return read_json(completion.text, keys=keys, cut_off=cut_off, sources=sources, schema=schema)


def is_cut_off(completion: Completion) -> bool:
    """Return whether the provider reports that the answer ended at the length limit."""
    return completion.finish_reason in ("length", "max_tokens")


def _check_refusal(completion: Completion) -> None:
    if completion.refusal:
        raise UnreadableError("refusal", f"the judge refused: {completion.refusal[:200]}")
    if completion.finish_reason == "content_filter":
        raise UnreadableError("content_filter", "the provider's content filter stopped the answer")


def _explained(fault: UnreadableError, completion: Completion) -> UnreadableError:
    """Return a more specific error if the completion indicates one."""
    answer = drop_thinking(completion.text)
    if fault.kind == "no_answer" and is_refusal(answer):
        return UnreadableError("refusal", f"the judge refused: {answer.strip()[:200]}")
    if is_cut_off(completion) and fault.kind not in ("refusal", "content_filter"):
        return UnreadableError("truncated", f"the answer was truncated at judge.max_tokens: {fault.reason}")
    return fault


def _judged(request: JudgeRequest, completion: Completion, reading: Reading) -> Judgment:
    repaired = reading.read_by == "repaired" or request.turn > 0
    return replace(
        _blank(request, completion, "repaired" if repaired else "ok"),
        value=reading.value,
        confidence=reading.confidence,
        criteria=reading.criteria,
        answer=reading.answer,
        ranking=reading.ranking,
        rankings=reading.rankings,
        weighted=reading.weighted,
        class_name=reading.class_name,
        read_by=reading.read_by,
        items=reading.items,
    )


def _blank(request: JudgeRequest, completion: Completion, status: Status) -> Judgment:
    return Judgment(
        case_id=request.case_id,
        unit=request.unit,
        shown=request.shown,
        sample=request.sample,
        judge=request.judge,
        status=status,
        completion=completion,
        items=dict.fromkeys(request.items),
    )


def _again(request: JudgeRequest, completion: Completion, message: str) -> JudgeRequest:
    # An answer can quote the texts under judgment.
    answer = neutralize(drop_thinking(completion.text).strip())
    if answer:
        added: tuple[Message, ...] = ({"role": "assistant", "content": answer}, {"role": "user", "content": message})
        messages = (*request.messages, *added)
    else:
        # Some providers refuse an empty assistant message.
        *before, last = request.messages
        messages = (*before, {"role": last["role"], "content": f"{last['content']}\n\n{message}"})
    return replace(request, messages=messages, turn=request.turn + 1)
