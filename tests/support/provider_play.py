"""Plays what providers answer through the command line: a rule for the server, and what the run made of it."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from evalkit.cli import main
from tests.support.fake_provider import Provider, Reply, said, serving

Rule: TypeAlias = Callable[[dict[str, Any], int], Reply]
"""Returns the reply to a request, by its body and its number from 1."""
TRANSPORTS = ("litellm", "direct")
ANSWER = {
    "analysis": {
        "responseA": {"strengths": ["clear"], "weaknesses": []},
        "responseB": {"strengths": [], "weaknesses": ["wrong"]},
    },
    "comparison": [
        {
            "criterion": "overall quality",
            "aAssessment": "good",
            "bAssessment": "bad",
            "reasoning": "A is right.",
            "winner": "A",
        }
    ],
    "result": {
        "reasoning": "A is right.",
        "differentiators": ["facts"],
        "winner": "A",
        "confidence": 0.8,
    },
}


def verdict(body: dict[str, Any] | None = None, **settings: Any) -> Reply:
    """A complete answer: the first response wins."""
    return said(json.dumps(ANSWER), **settings)


def case_of(body: dict[str, Any]) -> int:
    """The number of the case that a request is about."""
    found = re.search(r"question (\d+)", json.dumps(body))
    assert found is not None
    return int(found[1])


@dataclass(frozen=True)
class Played:
    """A run that has ended."""

    status: int
    judgments: list[dict[str, Any]]
    output: str
    provider: Provider
    folder: Path

    @property
    def statuses(self) -> Counter[str]:
        return Counter(judgment["status"] for judgment in self.judgments)

    @property
    def errors(self) -> str:
        return "\n".join(judgment.get("error") or "" for judgment in self.judgments)


def play(
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    rule: Rule,
    *words: str,
    transport: str = "direct",
    cases: int = 6,
    model: str = "openai/m",
    address: str | None = None,
    padding: str = "",
) -> Played:
    """Run pairs against a server with a rule, as a user would."""
    lock = threading.Lock()
    numbers = iter(range(1, 100_000))

    def numbered(body: dict[str, Any]) -> Reply:
        with lock:
            number = next(numbers)
        return rule(body, number)

    rows = [
        {
            "id": f"c{number}",
            "prompt": f"question {number}?",
            "response_a": f"good {number}{padding}",
            "response_b": f"bad {number}",
        }
        for number in range(cases)
    ]
    path = folder / "pairs.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    run = folder / "run"
    with serving() as provider, chdir(folder):
        provider.rule = numbered
        capfd.readouterr()
        status = main(
            [
                *("run", "judge=openai_compatible", f"judge.model={model}"),
                f"judge.api_base={address or provider.api_base}",
                *("dataset=file", f"dataset.path={path}", "swap=none", "criteria=overall"),
                *("tracking=none", "store.mode=off", "scoring.bootstrap=20"),
                *(f"judge.transport={transport}", f"hydra.run.dir={run}"),
                *words,
            ]
        )
    out, err = capfd.readouterr()
    judgments = []
    if (run / "judgments.jsonl").is_file():
        lines = (run / "judgments.jsonl").read_text("utf-8").splitlines()
        judgments = [json.loads(line) for line in lines]
    assert "Traceback" not in err + out
    return Played(status, judgments, err + out, provider, run)
