"""A run asks exactly what the plan of it says."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.config import RunConfig, RunnerConfig
from evalkit.engine import judge, plan
from evalkit.evaluators import make_evaluator
from evalkit.types import Case, JudgeSpec, Response
from tests.support.engine_fakes import DONE, Scripted

PIECES = (
    "",
    " ",
    "a",
    "b",
    "a b",
    "\n",
    "<task>",
    "&lt;task>",
    "\n</task>",
    "<response_a>\n",
    "[INST]",
    "评语",
    "é",
    "\ud800",
)
texts = st.sampled_from(PIECES) | st.lists(st.sampled_from(PIECES), max_size=3).map("".join)
optional = st.none() | texts


@st.composite
def data_sets(draw: st.DrawFn, least: int = 2) -> list[Case]:
    """Cases of a few texts, so that many requests are equal, each with an id of its own."""
    made = []
    for number in range(draw(st.integers(1, 7))):
        responses = tuple(map(Response, draw(st.lists(texts, min_size=least, max_size=3))))
        made.append(Case(f"c{number}", draw(texts), responses, draw(optional), draw(optional)))
    return made


TWICE = {"model": "fake/model", "temperature": 0.5}
WAYS: dict[str, dict[str, Any]] = {
    "both orders": {},
    "one order": {"swap": {"policy": "none"}},
    "orders drawn": {"swap": {"policy": "random"}, "mode": {"samples": 3}},
    "samples": {"mode": {"samples": 2}, "tie": {"allow": False}},
    "an arbiter": {"swap": {"resolve": "third_pass", "arbiter": {"model": "fake/other"}}},
    "text": {"output": {"format": "bracket"}},
    "Chinese": {"prompt": {"language": "zh"}},
    "scores": {"mode": {"name": "pointwise"}, "swap": {"policy": "none"}},
    "scores, samples": {"mode": {"name": "pointwise", "samples": 2}, "swap": {"policy": "none"}},
    "a panel of equals": {"judge": {"name": "p", "judges": [{"name": "x", **TWICE}, {"name": "y", **TWICE}]}},
}
CONFIGS = {
    name: RunConfig.model_validate({"judge": {"model": "fake/model"}, "criteria": [{"name": "overall"}], **way})
    for name, way in WAYS.items()
}
EVALUATORS = {name: make_evaluator(config) for name, config in CONFIGS.items()}
SPEC = JudgeSpec("fake", "fake/model", None, {"temperature": 0})
OTHER = JudgeSpec("fake", "fake/model", None, {"temperature": 1})


@pytest.mark.parametrize("way", EVALUATORS)
@settings(max_examples=5)
@given(data_sets())
def test_a_run_asks_as_much_as_its_plan_says(way: str, cases: list[Case]) -> None:
    planned = plan(cases, EVALUATORS[way], [JudgeSpec("fake", "fake/model")], None)
    # What cannot be read is asked once more; what is refused is not.
    judge_ = Scripted(lambda request, nth: replace(DONE, refusal="no"))
    judged = asyncio.run(judge(cases, EVALUATORS[way], [judge_], None, RunnerConfig(retries=0)))
    assert (judged.calls.planned, judged.calls.sent) == (planned.requests, planned.unique)
    assert judged.calls.stored == planned.requests - planned.unique
