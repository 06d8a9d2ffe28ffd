"""The JSON schemas of answers, with every reason before its score or winner.

They use only what strict structured output accepts: all properties required, no others allowed, no string limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evalkit.core.scale import Scale
from evalkit.types import AnswerFormat

_TEXT = {"type": "string"}
_MOST_NUMBERS = 100  # providers limit how many values an enum has
_CONFIDENCE = {"type": "number", "minimum": 0, "maximum": 1}


def pairwise_format(criteria: Sequence[str], *, tie_allowed: bool) -> AnswerFormat:
    """Return the answer format for a comparison of two responses."""
    winner = {"type": "string", "enum": ["A", "B", "TIE"] if tie_allowed else ["A", "B"]}
    sides = _object(strengths=_texts(), weaknesses=_texts())
    compared = _object(
        criterion=_one_of(criteria), aAssessment=_TEXT, bAssessment=_TEXT, reasoning=_TEXT, winner=winner
    )
    return AnswerFormat(
        "pairwise_comparison",
        _object(
            analysis=_object(responseA=sides, responseB=sides),
            comparison=_one_each(compared, criteria),
            result=_object(reasoning=_TEXT, differentiators=_texts(), winner=winner, confidence=_CONFIDENCE),
        ),
    )


def pointwise_format(criteria: Sequence[str], scale: Scale) -> AnswerFormat:
    """Return the answer format for scores of one response."""
    scored = _object(criterion=_one_of(criteria), justification=_TEXT, examples=_texts(), score=scale.schema())
    summary = _object(strengths=_texts(), weaknesses=_texts(), suggestions=_texts())
    return AnswerFormat("direct_score", _object(scores=_one_each(scored, criteria), summary=summary))


def class_format(answers: Sequence[str]) -> AnswerFormat:
    """Return the answer format for the class of one response; `answers` are the classes and the abstention."""
    return AnswerFormat(
        "classification", _object(**{"reasoning": _TEXT, "quotes": _texts(), "class": _one_of(answers)})
    )


def listwise_format(criteria: Sequence[str], labels: Sequence[str]) -> AnswerFormat:
    """Return the answer format for a ranking of several responses, shown under `labels`."""
    viewed = _object(response=_one_of(labels), strengths=_texts(), weaknesses=_texts())
    rank = {"type": "integer", "minimum": 1, "maximum": len(labels)}
    ranking = _one_each(_object(response=_one_of(labels), rank=rank), labels)
    compared = _object(criterion=_one_of(criteria), reasoning=_TEXT, ranking=ranking)
    return AnswerFormat(
        "listwise_ranking",
        _object(
            analysis=_one_each(viewed, labels),
            comparison=_one_each(compared, criteria),
            result=_object(reasoning=_TEXT, ranking=ranking, confidence=_CONFIDENCE),
        ),
    )


def item_format(count: int | None) -> AnswerFormat:
    """Return the answer format for one checklist item, or for items numbered from 1 to `count`."""
    answer = _one_of(("met", "not_met", "cannot_assess"))
    if count is None:
        return AnswerFormat("checklist_item", _object(reason=_TEXT, answer=answer))
    number: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": count}
    if count <= _MOST_NUMBERS:
        number = {"type": "integer", "enum": list(range(1, count + 1))}
    numbered = _object(item=number, reason=_TEXT, answer=answer)
    items = {"type": "array", "items": numbered, "minItems": count, "maxItems": count}
    return AnswerFormat("checklist", _object(items=items))


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _one_of(names: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(names)}


def _one_each(item: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {"type": "array", "items": item, "minItems": len(names), "maxItems": len(names)}


def _texts() -> dict[str, Any]:
    return {"type": "array", "items": _TEXT, "maxItems": 3}
