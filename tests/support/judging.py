"""Inputs of the tools, and judges that answer them as told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.fake_provider import Reply, said

INPUT = {
    "responseA": "good: it strengthens the heart",
    "responseB": "bad: you will look better",
    "prompt": "Explain why exercise is healthy.",
    "criteria": ["accuracy", "clarity"],
}
SCORED: dict[str, Any] = {
    "response": "Machine learning finds patterns in data.",
    "prompt": "Explain machine learning to a beginner.",
    "criteria": [
        {"name": "accuracy", "description": "It is right.", "weight": 0.4},
        {"name": "clarity", "description": "A beginner can follow.", "weight": 0.3},
        {"name": "completeness", "description": "It covers the key ideas.", "weight": 0.3},
    ],
    "rubric": {"scale": "1-5", "levelDescriptions": {"1": "fails entirely", "5": "flawless"}},
}
Decide = Callable[[str, str], tuple[str, float]]


def good_first(first: str, second: str) -> tuple[str, float]:
    """Prefer the good response wherever it stands, a little less surely in second place."""
    return ("A", 0.9) if first.startswith("good") else ("B", 0.7)


def always_first(first: str, second: str) -> tuple[str, float]:
    return "A", 0.8


def judging(
    decide: Decide, by_criterion: Mapping[str, Decide] | None = None
) -> Callable[[dict[str, Any]], Reply]:
    """A judge whose prose names the sides as it sees them."""

    def rule(body: dict[str, Any]) -> Reply:
        text = body["messages"][1]["content"]
        first, second = (
            re.search(rf"<response_{x}>\n(.*?)\n</response_{x}>", text, re.S) for x in "ab"
        )
        assert first
        assert second
        sides = {"A": first[1], "B": second[1]}
        winner, confidence = decide(first[1], second[1])
        rows = []
        for name in re.findall(r"^- \*\*(.+?)\*\*", text, re.M):
            won, _ = (by_criterion or {}).get(name, decide)(first[1], second[1])
            rows.append(
                {
                    "criterion": name,
                    "aAssessment": f"of {sides['A']}",
                    "bAssessment": f"of {sides['B']}",
                    "reasoning": f"{won} wins as {sides.get(won)}",
                    "winner": won,
                }
            )
        answer = {
            "analysis": {
                f"response{x}": {"strengths": [f"+ {sides[x]}"], "weaknesses": [f"- {sides[x]}"]}
                for x in "AB"
            },
            "comparison": rows,
            "result": {
                "reasoning": f"Response {winner} is better: {sides.get(winner)}",
                "differentiators": ["one is better"],
                "winner": winner,
                "confidence": confidence,
            },
        }
        return said(json.dumps(answer))

    return rule


def scoring(scores: Mapping[str, Any]) -> Callable[[dict[str, Any]], Reply]:
    def rule(body: dict[str, Any]) -> Reply:
        names = re.findall(r"^- \*\*(.+?)\*\*", body["messages"][1]["content"], re.M)
        rows = [
            {
                "criterion": name,
                "justification": f"why {name}",
                "examples": ["patterns"],
                "score": scores[name],
            }
            for name in names
        ]
        summary = {"strengths": ["short"], "weaknesses": ["thin"], "suggestions": ["say more"]}
        return said(json.dumps({"scores": rows, "summary": summary}))

    return rule
