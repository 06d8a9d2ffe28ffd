"""`evalkit serve`: what each client gets, and that nothing is paid for which may not be asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving.conftest import CASES
from tests.support.fake_provider import Provider
from tests.support.serving import Served, served

NEW = {
    "prompt": "Question 77: is sport healthy?",
    "response_a": "bad: you will sweat a lot",
    "response_b": "good: it is fun to run",
}
TOOL = {"prompt": NEW["prompt"], "responseA": NEW["response_a"], "responseB": NEW["response_b"]}
CRITERIA = ["accuracy", "instruction following", "clarity"]


def kinds(trust: dict[str, Any]) -> list[str]:
    return [warning["kind"] for warning in trust["warnings"]]


@pytest.fixture
def judge(judge_folder: Path, provider: Provider) -> tuple[str, ...]:
    """Return the words that serve the judge; the calls of its validation are forgotten."""
    provider.requests.clear()
    return str(judge_folder), "--api-base", provider.api_base


@pytest.fixture
def server(judge: tuple[str, ...]) -> Iterator[Served]:
    with served(*judge) as server:
        yield server


def test_answers_are_those_of_the_judge(server: Served, provider: Provider) -> None:
    stored = {name: CASES[0][name] for name in ("id", "prompt", "response_a", "response_b")}
    status, verdict = server.post("/judge", stored)
    assert (status, verdict["status"], verdict["winner"], verdict["stored"]) == (200, "ok", "A", True)
    assert verdict["verdicts"][0]["case_id"] == stored["id"]
    assert not provider.requests
    status, verdict = server.post("/judge", NEW)
    assert (status, verdict["winner"], verdict["stored"], kinds(verdict["trust"])) == (200, "B", False, [])
    # A tool with the validated criteria asks the same, whatever their order.
    status, result = server.post("/pairwise_compare", {**TOOL, "criteria": CRITERIA[::-1]})
    assert (status, result["winner"], kinds(result["trust"])) == (200, "B", [])
    assert len(provider.requests) == 2
    assert [row["criterion"] for row in result["comparison"]] == CRITERIA
    assert json.loads(server.get("/trust").text)["decision"]["use"] == verdict["trust"]["use"]
    assert server.metric('verdicts_total{status="ok"}') == 3
    assert server.ended() == 0
