"""The shipped templates for lists read as agreed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalkit.prompting import Prompts

GOLDEN = Path(__file__).parent / "golden"
LIST = {
    "original_prompt": "Name the capital of France.",
    "context": "",
    "reference": "",
    "responses": [
        {"label": label, "text": text} for label, text in zip("ABC", ("Paris.", " Lyon\n", "Nice"), strict=True)
    ],
    "criteria": [{"name": "accuracy", "description": "What it states is true."}, {"name": "tone", "description": ""}],
    "tie_allowed": True,
    "output": "json",
}


def shown(language: str, **variables: Any) -> str:
    prompts, given = Prompts(language), LIST | variables
    instruction = prompts.instruction("listwise_json", **given)
    messages = prompts.render("listwise", **given, output_instruction=instruction)
    return "".join(f"=== {one['role']}\n{one['content']}\n" for one in messages)


@pytest.mark.parametrize(
    ("golden", "language", "variables"),
    [
        ("listwise_en", "en", {}),
        ("listwise_en_no_ties", "en", {"tie_allowed": False, "context": "France is in Europe."}),
        ("listwise_zh", "zh", {"context": "背景", "reference": "巴黎"}),
    ],
)
def test_shipped_prompts_for_lists_read_as_agreed(golden: str, language: str, variables: dict[str, Any]) -> None:
    assert shown(language, **variables) == (GOLDEN / f"{golden}.txt").read_text("utf-8")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_shared_ranks_are_not_offered_where_there_are_no_ties(language: str) -> None:
    words = ("same rank", "名次相同")
    assert any(word in shown(language) for word in words)
    assert not any(word in shown(language, tie_allowed=False) for word in words)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_system_message_does_not_depend_on_the_case(language: str) -> None:
    first, second = (
        Prompts(language).render("listwise", **LIST | more, output_instruction="")[0]
        for more in ({}, {"responses": LIST["responses"][:2], "context": "C", "original_prompt": "Other"})
    )
    assert first == second
    assert first["role"] == "system"
