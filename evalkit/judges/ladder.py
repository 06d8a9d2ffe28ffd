"""Choose the structured-output rung of a request, and drop parameters that the provider refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evalkit.types import AnswerFormat, JudgeRequest, Rung

RUNGS: tuple[Rung, ...] = ("json_schema", "tool", "json_object", "text")
OPTIONAL = ("temperature", "seed", "logprobs", "top_logprobs")

_COMPLAINTS: Mapping[Rung, re.Pattern[str]] = {
    "json_schema": re.compile(r"response_?format|json_?schema|schema|structured.?output|guided|grammar", re.IGNORECASE),
    "tool": re.compile(r"\btools?\b|tool_choice|tool.?call|function", re.IGNORECASE),
    "json_object": re.compile(r"response_?format|json_?object|json.?mode", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """The rung in use, and the optional parameters that are dropped because the provider refuses them."""

    rung: Rung
    dropped: frozenset[str] = field(default_factory=frozenset)


def top_rung(*, known: bool, response_schema: bool, functions: bool, supported: Collection[str]) -> Rung:
    """Return the highest rung that a model can be expected to support.

    Args:
        known: Whether the price list has the model; for an unknown model, the best rung is tried first.
        response_schema: Whether the model supports a JSON schema.
        functions: Whether the model can call tools.
        supported: The parameters that the provider accepts.
    """
    if "response_format" in supported and (response_schema or not known):
        return "json_schema"
    if "tools" in supported and functions:
        return "tool"
    return "json_object" if "response_format" in supported else "text"


def settings(shape: Shape, request: JudgeRequest, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments that send `request` in this shape.

    Args:
        shape: The rung and the dropped parameters.
        request: The request to send.
        params: The sampling parameters.
    """
    kept = {name: value for name, value in params.items() if name not in shape.dropped}
    return kept if request.answer is None else {**kept, **_format_settings(shape.rung, request.answer)}


def adapted(shape: Shape, complaint: str, *, fixed: bool, sent: Collection[str]) -> Shape | None:
    """Return the next shape to try after a provider refused a request, or `None` if no other shape can help.

    Args:
        shape: The shape that was sent.
        complaint: The provider's message.
        fixed: Whether the user chose the rung, so that it must not change.
        sent: The names of the parameters that were sent.
    """
    blamed = {name for name in OPTIONAL if name in sent and re.search(rf"\b{name}\b", complaint, re.IGNORECASE)}
    if blamed:
        # `top_logprobs` is invalid without `logprobs`.
        companions = {"top_logprobs"} if "logprobs" in blamed else set()
        return replace(shape, dropped=shape.dropped | blamed | companions)
    pattern = _COMPLAINTS.get(shape.rung)
    if fixed or pattern is None or not pattern.search(complaint):
        return None
    return replace(shape, rung=RUNGS[RUNGS.index(shape.rung) + 1])


def _format_settings(rung: Rung, answer: AnswerFormat) -> dict[str, Any]:
    schema = json.loads(json.dumps(dict(answer.schema)))
    if rung == "json_schema":
        json_schema = {"name": answer.name, "schema": schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": json_schema}}
    if rung == "tool":
        tool = {"name": answer.name, "description": "Give the answer.", "parameters": schema}
        return {
            "tools": [{"type": "function", "function": tool}],
            "tool_choice": {"type": "function", "function": {"name": answer.name}},
        }
    return {"response_format": {"type": "json_object"}} if rung == "json_object" else {}
