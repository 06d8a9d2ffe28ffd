from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import RunnerConfig
from evalkit.engine import plan
from evalkit.engine.budget import Budget, BudgetReached
from evalkit.engine.dispatch import LONGEST_WAIT, backoff
from evalkit.engine.requests import PlannedCalls, call_key
from evalkit.types import AnswerFormat, Completion, JudgeRequest, JudgeSpec
from tests.support.engine_fakes import Both, Memory, Prepared, cases


@given(st.lists(st.tuples(st.floats(0.01, 3), st.floats(0, 1)), max_size=40), st.floats(0.1, 20), st.integers(1, 8))
def test_a_budget_is_never_exceeded_under_any_interleaving(calls, cap, at_once):
    budget = Budget(RunnerConfig(budget_usd=cap))
    spent = 0.0

    async def call(ceiling, share, gate):
        nonlocal spent
        async with gate:
            try:
                reservation = await budget.reserve(ceiling)
            except BudgetReached:
                return
            assert budget.spent + budget.reserved <= cap + 1e-9
            for _ in range(int(share * 5)):
                await asyncio.sleep(0)
            spent += ceiling * share
            await budget.settle(reservation, ceiling * share)

    async def all_calls():
        gate = asyncio.Semaphore(at_once)
        await asyncio.gather(*(call(ceiling, share, gate) for ceiling, share in calls))

    asyncio.run(all_calls())
    assert spent <= cap + 1e-9
    assert budget.reserved == 0.0


async def test_a_call_whose_cost_is_unknown_is_settled_at_the_most_it_can_have_cost():
    budget = Budget(RunnerConfig(budget_usd=1.0))
    await budget.settle(await budget.reserve(0.75), None)
    with pytest.raises(BudgetReached, match="budget_usd=1"):
        await budget.reserve(0.5)


@given(st.integers(1, 50), st.floats(0, 1))
def test_backoff_grows_to_a_ceiling_and_is_never_sooner_than_asked(attempt, drawn):
    wait = backoff(attempt, None, lambda: drawn)
    assert 0 <= wait <= min(LONGEST_WAIT, 0.5 * 2 ** (attempt - 1))
    assert backoff(attempt, 11.0, lambda: drawn) >= 11.0
    assert backoff(attempt, 601.0, lambda: drawn) is None


def test_a_plan_counts_what_is_stored_and_each_equal_request_once():
    store, spec = Memory(), JudgeSpec("fake", "fake/model")
    request = Both().plan(cases(1)[0])[0]
    store.kept[call_key(spec, request)] = Completion("x")
    one, twice = (plan(cases(3) * n, Both(), [spec], store) for n in (1, 2))
    assert (one.requests, one.stored, one.unique) == (6, 1, 5)
    assert (twice.requests, twice.stored, twice.unique) == (12, 2, 5)
    assert one.prompt_tokens == sum(-(-len(f"question {i} (0, 1)") // 4) for i in (0, 1, 1, 2, 2))
    assert (one.after([]).unique, twice.after([one]).unique, twice.after([one]).prompt_tokens) == (5, 0, 0)


@given(
    st.text(max_size=9),
    st.none() | st.text(max_size=9),
    st.lists(st.text(max_size=9), min_size=1, max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
    st.none() | st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
    st.integers(0, 5),
)
def test_the_content_key_is_the_hash_that_the_contract_says(model, api_base, texts, params, schema, sample):
    messages = tuple({"role": "user", "content": text} for text in texts)
    answer = None if schema is None else AnswerFormat("a", schema)
    request = JudgeRequest("c", (0,), (0,), messages, answer, sample=sample)
    content = {
        "v": 1,
        "model": model,
        "api_base": api_base,
        "messages": [dict(message) for message in messages],
        "params": params,
        "answer": None if schema is None else {"name": "a", "schema": schema},
        "sample": sample,
    }
    encoded = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    expected = hashlib.sha256(encoded).hexdigest()
    spec = JudgeSpec("name", model, api_base, params)
    assert call_key(spec, request) == call_key(spec, request) == expected
    content["look"] = look = '2026-11-25 "é"'
    encoded = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    assert call_key(replace(spec, look=look), request) == hashlib.sha256(encoded).hexdigest()


def test_the_content_key_knows_what_changes_an_answer_and_nothing_else():
    spec = JudgeSpec("name", "p/m", None, {"temperature": 0})
    request = JudgeRequest(
        "c", (0, 1), (0, 1), ({"role": "user", "content": "x"},), AnswerFormat("a", {"type": "object"})
    )
    key = call_key(spec, request)
    same = [
        (JudgeSpec("other name", "p/m", None, {"temperature": 0}), request),
        (spec, JudgeRequest("d", (1,), (1,), request.messages, request.answer, turn=1, judge="j")),
    ]
    other = [
        (JudgeSpec("name", "p/m2", None, {"temperature": 0}), request),
        (JudgeSpec("name", "p/m", "http://h/v1", {"temperature": 0}), request),
        (JudgeSpec("name", "p/m", None, {"temperature": 1}), request),
        (JudgeSpec("name", "p/m", None, {"temperature": 0}, "second look"), request),
        (spec, JudgeRequest("c", (0, 1), (0, 1), request.messages, None)),
        (spec, JudgeRequest("c", (0, 1), (0, 1), request.messages, request.answer, sample=1)),
    ]
    assert {call_key(*pair) for pair in same} == {key}
    assert key not in {call_key(*pair) for pair in other}
    assert len({call_key(*pair) for pair in other}) == len(other)


def test_the_engine_and_the_judges_import_nothing_heavy():
    import subprocess

    code = (
        "import sys; import evalkit.engine, evalkit.judges, evalkit.store\n"
        "from evalkit.config import JudgeConfig, RunnerConfig\n"
        "evalkit.judges.make_judges(JudgeConfig(model='openai/gpt-4o-mini'), RunnerConfig())\n"
        "heavy = {'litellm', 'openai', 'aiohttp', 'httpx', 'http.client'}\n"
        "heavy |= {'mlflow', 'hydra', 'xllamacpp', 'numpy', 'scipy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_plan_counts_what_is_prepared_for_and_asks_shared_preparations_once():
    evaluator = Prepared(Both())
    plans = plan(cases(2), evaluator, [JudgeSpec("j", "a/b")], None)
    assert (plans.requests, plans.stored, plans.unique) == (8, 0, 6)
    store = Memory()
    for ask in PlannedCalls(cases(1), evaluator, [JudgeSpec("j", "a/b")], None).batch():
        store.put(ask.key, "a/b", Completion("my answer"))
    plans = plan(cases(2), evaluator, [JudgeSpec("j", "a/b")], store)
    assert (plans.requests, plans.stored, plans.unique) == (8, 2, 5)


def test_samples_that_share_an_answer_share_its_key():
    one, two = (JudgeRequest("c", (0,), (0,), (), sample=k, shared=True) for k in (0, 1))
    spec = JudgeSpec("j", "a/b")
    assert call_key(spec, one) == call_key(spec, two) == call_key(spec, replace(one, shared=False))
    assert call_key(spec, replace(two, shared=False)) != call_key(spec, one)
