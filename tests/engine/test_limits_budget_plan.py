"""Limits, budgets and plans, the lengths that they estimate, and what runs then do."""

import asyncio
import base64
import hashlib
import json
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evalkit.config import RunConfig, RunnerConfig
from evalkit.core.planners import Planners
from evalkit.core.scale import Scale
from evalkit.core.types import (
    AnswerFormat,
    Case,
    Completion,
    JudgeRequest,
    JudgeSpec,
    Response,
    Usage,
)
from evalkit.engine.answer_estimates import (
    FREE_TEXT,
    AnswerEstimate,
    expected_tokens,
    prompt_tokens,
    sample_fits,
)
from evalkit.engine.backoff import LONGEST_WAIT, backoff
from evalkit.engine.budget import Budget, BudgetReached
from evalkit.engine.judging import judge_cases
from evalkit.engine.plan import plan
from evalkit.engine.requests import PlannedCalls, call_key
from evalkit.evaluators.factory import make_evaluator
from evalkit.evaluators.json_answers import pairwise_format, pointwise_format
from tests.support.engine_fakes import DONE, Both, Memory, Prepared, Scripted, cases


@given(
    st.lists(st.tuples(st.floats(0.01, 3), st.floats(0, 1)), max_size=40),
    st.floats(0.1, 20),
    st.integers(1, 8),
)
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
    assert (one.after([]).unique, twice.after([one]).unique, twice.after([one]).prompt_tokens) == (
        *(5, 0, 0),
    )


@given(
    st.text(max_size=9),
    st.none() | st.text(max_size=9),
    st.lists(st.text(max_size=9), min_size=1, max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
    st.none()
    | st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
    st.integers(0, 5),
)
def test_the_content_key_is_the_hash_that_the_contract_says(
    model, api_base, texts, params, schema, sample
):
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
    encoded = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8"
    )
    expected = hashlib.sha256(encoded).hexdigest()
    spec = JudgeSpec("name", model, api_base, params)
    assert call_key(spec, request) == call_key(spec, request) == expected
    content["look"] = look = '2026-11-25 "é"'
    encoded = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8"
    )
    assert call_key(replace(spec, look=look), request) == hashlib.sha256(encoded).hexdigest()


def test_the_content_key_knows_what_changes_an_answer_and_nothing_else():
    spec = JudgeSpec("name", "p/m", None, {"temperature": 0})
    request = JudgeRequest(
        "c",
        (0, 1),
        (0, 1),
        ({"role": "user", "content": "x"},),
        AnswerFormat("a", {"type": "object"}),
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
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "[]"
    )


def test_a_plan_counts_what_is_prepared_for_and_asks_shared_preparations_once():
    evaluator = Prepared(Both())
    plans = plan(cases(2), evaluator, [JudgeSpec("j", "a/b")], None)
    assert (plans.requests, plans.stored, plans.unique) == (8, 0, 6)
    store = Memory()
    calls = PlannedCalls(cases(1), Planners(evaluator, ["j"]), [JudgeSpec("j", "a/b")], None)
    for ask in calls.batch():
        store.put_many([(ask.key, "a/b", Completion("my answer"))])
    plans = plan(cases(2), evaluator, [JudgeSpec("j", "a/b")], store)
    assert (plans.requests, plans.stored, plans.unique) == (8, 2, 5)


def test_samples_that_share_an_answer_share_its_key():
    one, two = (JudgeRequest("c", (0,), (0,), (), sample=k, shared=True) for k in (0, 1))
    spec = JudgeSpec("j", "a/b")
    assert call_key(spec, one) == call_key(spec, two) == call_key(spec, replace(one, shared=False))
    assert call_key(spec, replace(two, shared=False)) != call_key(spec, one)


ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cl100k():
    """GPT-4's own vocabulary, which LiteLLM carries."""
    import tiktoken

    spec = find_spec("litellm")
    [folder] = spec.submodule_search_locations
    file = (
        Path(folder)
        / "litellm_core_utils"
        / "tokenizers"
        / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
    )
    pattern = (
        r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|"""
        r"""\s*[\r\n]|\s+(?!\S)|\s"""
    )
    lines = (line.split() for line in file.read_bytes().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return tiktoken.Encoding("cl100k", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def request(text: str, answer: AnswerFormat | None = None) -> JudgeRequest:
    return JudgeRequest("c", (0,), (0,), ({"role": "user", "content": text},), answer)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_prompts_have_about_as_many_tokens_as_a_tokeniser_finds(language, cl100k):
    text = "\n".join(
        path.read_text("utf-8") for path in sorted((ROOT / "prompts" / language).glob("*.j2"))
    )
    assert prompt_tokens(request(text)) == pytest.approx(len(cl100k.encode(text)), rel=0.15)


def test_texts_in_plain_letters_count_four_to_a_token_and_others_by_their_bytes():
    assert prompt_tokens(request("abcdefgh")) == 2
    assert prompt_tokens(request("abcde")) == 2
    assert prompt_tokens(request("评" * 100)) == 100
    assert prompt_tokens(request("ж" * 100)) == 50


def test_an_answer_is_expected_to_be_as_long_as_what_it_is_to_hold():
    lengths = [expected_tokens(pairwise_format("abc"[:n], tie_allowed=True)) for n in (1, 2, 3)]
    assert lengths[2] - lengths[1] == lengths[1] - lengths[0] > 60
    assert 300 < lengths[2] < 600
    assert expected_tokens(None) == FREE_TEXT


def test_a_stored_answer_is_known_for_one_of_a_format():
    one, two = (pairwise_format("abc"[:n], tie_allowed=True) for n in (1, 2))
    held = {"analysis": {}, "comparison": [{}], "result": {}}
    answer = Completion(json.dumps(held))
    scored = pointwise_format("a", Scale(1, 5, 1))
    assert [sample_fits(kind, answer) for kind in (one, two, scored, None)] == [
        *(True, False, False, False),
    ]
    assert [sample_fits(kind, Completion("[[A]]")) for kind in (one, None)] == [False, True]
    assert not sample_fits(one, Completion("[1]"))


def test_a_judges_own_answer_is_guessed_to_be_as_long_as_those_it_judges():
    long = replace(cases(1)[0], responses=(Response("word " * 100), Response("评" * 75)))
    own, verdict = plan([long], Prepared(Both()), [JudgeSpec("fake", "fake/model")], None).kinds
    assert (own.to_request, verdict.to_request) == (2, 2)
    assert (own.guess(), verdict.guess()) == (100.0, FREE_TEXT)


@pytest.mark.parametrize("found", [8, 20, 200])
def test_how_far_off_a_mean_may_be_is_students_interval_without_replacement(found):
    tokens = [100 + 7 * k % 31 for k in range(found)]
    kind = AnswerEstimate(None, to_request=80)
    for count in tokens:
        kind.add(Completion("x", usage=Usage(1, count)))
    error = stats.sem(tokens) * (80 / (80 + found)) ** 0.5
    assert kind.half_width() == pytest.approx(stats.t.ppf(0.975, found - 1) * error, rel=0.01)
    kind.to_request = 0
    assert kind.half_width() == 0
    assert AnswerEstimate(None, to_request=9, stored=7, tokens=70).half_width() is None


def test_a_plan_counts_prompts_as_the_provider_counted_those_that_are_stored():
    store, spec = Memory(), JudgeSpec("fake", "fake/model")
    first = Both().plan(cases(1)[0])[0]
    before = plan(cases(3), Both(), [spec], store)
    store.kept[call_key(spec, first)] = Completion(
        "x", usage=Usage(2 * prompt_tokens(first), 40), latency=0.5
    )
    after = plan(cases(3), Both(), [spec], store)
    assert after.token_ratio == 2
    assert after.prompt_tokens == 2 * (before.prompt_tokens - prompt_tokens(first))
    [kind] = after.kinds
    assert (kind.to_request, kind.stored, kind.tokens, kind.seconds) == (5, 1, 40, 0.5)
    assert after.after([before]).unique == 0


PIECES = (
    *("", " ", "a", "b", "a b", "\n", "<task>", "&lt;task>", "\n</task>", "<response_a>\n"),
    *("[INST]", "评语", "é", "\ud800"),
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
    "a panel of equals": {
        "judge": {"name": "p", "judges": [{"name": "x", **TWICE}, {"name": "y", **TWICE}]}
    },
}
CONFIGS = {
    name: RunConfig.model_validate(
        {"judge": {"model": "fake/model"}, "criteria": [{"name": "overall"}], **way}
    )
    for name, way in WAYS.items()
}
EVALUATORS = {name: make_evaluator(config) for name, config in CONFIGS.items()}
SPEC = JudgeSpec("fake", "fake/model", None, {"temperature": 0})
OTHER = JudgeSpec("fake", "fake/model", None, {"temperature": 1})


@pytest.mark.parametrize("way", EVALUATORS)
@settings(max_examples=5)
@given(data_sets())
def test_a_run_asks_as_much_as_its_plan_says(way, cases):
    planned = plan(cases, EVALUATORS[way], [JudgeSpec("fake", "fake/model")], None)
    # What cannot be read is asked once more; what is refused is not.
    judge_ = Scripted(lambda request, nth: replace(DONE, refusal="no"))
    judged = asyncio.run(
        judge_cases(cases, EVALUATORS[way], [judge_], None, RunnerConfig(retries=0))
    )
    assert (judged.calls.planned, judged.calls.sent) == (planned.requests, planned.unique)
    assert judged.calls.stored == planned.requests - planned.unique
