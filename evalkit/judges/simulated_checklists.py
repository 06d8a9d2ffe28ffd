"""Simulated answers to checklist items: planted accuracy, halo and missing answers.

Whether an item is met is a function of the response and the criterion, with probability 1/2; `truth` of this module
says it to tests. The judge answers correctly with probability `accuracy`. With several items in one request, an answer
is that of most items with probability `halo`, and is missing with probability `missing`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

BOUNDS = {"halo": (0.0, 1.0), "missing": (0.0, 1.0)}
_NUMBERED = re.compile(r"^(\d+)\. (.*)$", re.MULTILINE)
_WORDS = {"en": ("met", "not met"), "zh": ("满足", "不满足")}
Uniform = Callable[..., float]


def truth(response: str, criterion: str, uniform: Uniform) -> bool:
    """Return whether a response meets a criterion."""
    return uniform("item", response, criterion) < 0.5


def answer_items(
    response: str,
    items: str,
    call: Mapping[str, Any],
    schema: Mapping[str, Any] | None,
    accuracy: float,
    uniform: Uniform,
) -> str:
    """Return the answer to the items of a request, in the requested format.

    Args:
        response: The response.
        items: The items as shown: a criterion, or one numbered criterion on each line.
        call: The request.
        schema: The schema of the answer; `None` for double brackets.
        accuracy: The share of correct answers.
        uniform: Returns a number in (0, 1) that is a function of its arguments.
    """
    prompt = "\n".join(message["content"] for message in call["messages"])
    several = "items" in schema["properties"] if schema is not None else "[[1:" in prompt
    criteria: Sequence[str] = [text for _, text in _NUMBERED.findall(items)] if several else [items.strip()]
    seed, halo, missing = call.get("seed", 0), call.get("halo", 0.0), call.get("missing", 0.0)
    overall = sum(truth(response, criterion, uniform) for criterion in criteria) * 2 > len(criteria)
    met: list[bool | None] = []
    for criterion in criteria:
        key = (seed, response, criterion)
        right = truth(response, criterion, uniform) == (uniform("slip", several, *key) < accuracy)
        led = several and uniform("halo", *key) < halo
        gone = several and uniform("missing", len(criteria), *key) < missing
        met.append(None if gone else overall if led else right)
    reason = "Simulated judge: no model read this."
    if schema is not None:
        given = [
            {"item": number, "reason": reason, "answer": "met" if one else "not_met"}
            for number, one in enumerate(met, 1)
            if one is not None
        ]
        alone = {"reason": reason, "answer": "met" if met[0] else "not_met"}
        return json.dumps({"items": given} if several else alone)
    yes, no = _WORDS["zh" if "满足]]" in prompt else "en"]
    if not several:
        return f"{reason}\n[[{yes if met[0] else no}]]"
    lines = [f"{reason} [[{number}: {yes if one else no}]]" for number, one in enumerate(met, 1) if one is not None]
    return "\n".join(lines) or reason
