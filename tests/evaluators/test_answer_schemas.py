"""Answer schemas keep to what strict structured output accepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from evalkit.core.scale import Scale
from evalkit.evaluators.json_answers import pairwise_format, pointwise_format
from evalkit.types import AnswerFormat

FORMATS = [
    pairwise_format(["a", "b"], tie_allowed=True),
    pairwise_format(["只有一项"], tie_allowed=False),
    pointwise_format(["a", "b"], Scale(1, 5, 1)),
    pointwise_format(["a"], Scale(1, 10, 0.1)),
]
ACCEPTED = {
    *("type", "properties", "required", "additionalProperties", "items", "enum"),
    *("minimum", "maximum", "multipleOf", "minItems", "maxItems"),
}
REASONS = {"reasoning", "justification", "aAssessment", "bAssessment", "differentiators", "examples"}
DECISIONS = {"winner", "score", "confidence"}


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    yield schema
    for inner in [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]:
        yield from parts(inner)


@pytest.mark.parametrize("answer", FORMATS)
def test_only_accepted_keywords_are_used(answer: AnswerFormat) -> None:
    for part in parts(answer.schema):
        assert set(part) <= ACCEPTED
        if part["type"] == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])


@pytest.mark.parametrize("answer", FORMATS)
def test_in_every_object_the_reasons_come_before_the_decisions(answer: AnswerFormat) -> None:
    decided = 0
    for part in parts(answer.schema):
        names = list(part.get("properties", {}))
        reasons = [names.index(name) for name in names if name in REASONS]
        decisions = [names.index(name) for name in names if name in DECISIONS]
        decided += len(decisions)
        assert not (reasons and decisions) or max(reasons) < min(decisions)
        assert not decisions or reasons
    assert decided > 0
