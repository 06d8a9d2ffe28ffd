"""How a request is put to a provider: the rung of structured output, and the parameters it turned out not to take."""

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
    """The rung in use, and the optional parameters left out because the provider refuses them."""

    rung: Rung
    dropped: frozenset[str] = field(default_factory=frozenset)


def top_rung(*, known: bool, response_schema: bool, functions: bool, supported: Collection[str]) -> Rung:
    """Return the highest rung that a model can be expected to take.

    Args:
        known: whether anything is known of the model; of an unknown one the best is tried first.
        response_schema: whether it takes a JSON schema.
        functions: whether it calls tools.
        supported: the parameters its provider takes.
    """
    if "response_format" in supported and (response_schema or not known):
        return "json_schema"
    if "tools" in supported and functions:
        return "tool"
    return "json_object" if "response_format" in supported else "text"


def settings(shape: Shape, request: JudgeRequest, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments that put `request` to the provider in this shape."""
    kept = {name: value for name, value in params.items() if name not in shape.dropped}
    return kept if request.answer is None else {**kept, **_asking(shape.rung, request.answer)}


def adapted(shape: Shape, complaint: str, *, fixed: bool, sent: Collection[str]) -> Shape | None:
    """Return the shape to try next when a provider refused a request with `complaint`, or none if nothing helps.

    Args:
        shape: what was sent.
        complaint: the provider's words.
        fixed: whether the user chose the rung, so that it must not change.
        sent: the names of the parameters that were sent.
    """
    blamed = {name for name in OPTIONAL if name in sent and re.search(rf"\b{name}\b", complaint, re.IGNORECASE)}
    if blamed:
        return replace(shape, dropped=shape.dropped | _with_companions(blamed))
    pattern = _COMPLAINTS.get(shape.rung)
    if fixed or pattern is None or not pattern.search(complaint):
        return None
    return replace(shape, rung=RUNGS[RUNGS.index(shape.rung) + 1])


def _with_companions(names: set[str]) -> set[str]:
    return names | {"top_logprobs"} if "logprobs" in names else names


def _asking(rung: Rung, answer: AnswerFormat) -> dict[str, Any]:
    schema = json.loads(json.dumps(dict(answer.schema)))
    if rung == "json_schema":
        wanted = {"name": answer.name, "schema": schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": wanted}}
    if rung == "tool":
        tool = {"name": answer.name, "description": "Give the answer.", "parameters": schema}
        return {
            "tools": [{"type": "function", "function": tool}],
            "tool_choice": {"type": "function", "function": {"name": answer.name}},
        }
    return {"response_format": {"type": "json_object"}} if rung == "json_object" else {}
