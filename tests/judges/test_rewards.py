"""Reward models and classifiers behind a server that answers as vLLM 0.18 documents."""

import json
import math

import pytest

from evalkit.config import RunConfig
from evalkit.core.errors import CallError, ConfigError, JudgeSetupError
from evalkit.core.types import Case, Judgment, Response
from evalkit.engine.requests import call_key
from evalkit.evaluators.factory import make_evaluator
from evalkit.judges import make_judges, spec_of
from tests.support.fake_provider import Provider, Reply
from tests.support.reward_server import MODEL, RewardServer

VLLM = "0.18"
ENDPOINTS = ("classify", "pooling", "score")
CASE = Case("c", "What is 2 + 2?", (Response("4, quality=1.5"), Response("5, quality=-0.25")))


def rewards(provider: Provider, rubric=None, mode="pointwise", **judge) -> RunConfig:
    judge = {
        "model": f"hosted_vllm/{MODEL}",
        "api_base": provider.api_base,
        "endpoint": "classify",
        **judge,
    }
    return RunConfig.model_validate(
        {
            "judge": judge,
            "mode": {"name": mode},
            "criteria": {"quality": {}},
            "rubric": rubric or {"real": True},
            "swap": {"policy": "none"},
        }
    )


async def judged(
    config: RunConfig, case: Case = CASE
) -> list[Judgment | CallError | JudgeSetupError | str]:
    """Return what each request of a case comes to: a judgment, an error, or why it is not sent."""
    evaluator = make_evaluator(config)
    [judge] = make_judges(config.judge, config.runner)
    found: list[Judgment | CallError | JudgeSetupError | str] = []
    try:
        await judge.prepare()
        for request in evaluator.plan(case):
            try:
                why = await judge.too_long(request)
                found.append(why or evaluator.read(request, await judge.complete(request)))
            except (CallError, JudgeSetupError) as error:
                found.append(error)
    finally:
        await judge.close()
    return found


@pytest.mark.parametrize("base", ["/v1", ""])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_each_endpoint_gives_the_reward_of_the_conversation(provider, endpoint, base):
    RewardServer().install(provider)
    api_base = provider.api_base.removesuffix("/v1") + base
    found = await judged(
        rewards(provider, endpoint=endpoint, api_base=api_base, params={"use_activation": False})
    )
    assert [one.criteria for one in found] == [{"quality": 1.5}, {"quality": -0.25}]
    assert {one.status for one in found} == {"ok"}
    sent = provider.requests[-1]
    assert provider.paths[-1] == f"/{endpoint}"
    assert sent["use_activation"] is False
    assert "temperature" not in sent
    assert "max_tokens" not in sent
    if endpoint == "score":
        assert (sent["text_1"], sent["text_2"]) == (CASE.prompt, CASE.responses[1].text)
    else:
        assert [message["role"] for message in sent["messages"]] == ["user", "assistant"]
    assert found[0].completion.usage.prompt_tokens == 7
    assert found[0].completion.cost_usd is None
    [priced, _] = await judged(
        rewards(provider, endpoint=endpoint, price={"input": 1.0, "output": 9.0})
    )
    assert priced.completion.cost_usd == pytest.approx(7e-6)


async def test_a_template_renders_the_conversation_for_a_model_without_one(provider, tmp_path):
    RewardServer(has_template=False).install(provider)
    [bare, _] = await judged(rewards(provider))
    assert isinstance(bare, JudgeSetupError)
    assert "judge.template" in str(bare)
    assert "\n" not in str(bare)
    template = tmp_path / "chat.jinja"
    template.write_text(
        "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m['content'] }}{% endfor %}"
    )
    config = rewards(provider, template=str(template))
    assert [one.criteria["quality"] for one in await judged(config)] == [1.5, -0.25]
    assert (
        provider.requests[-1]["input"] == f"<user>{CASE.prompt}<assistant>{CASE.responses[1].text}"
    )
    evaluator = make_evaluator(config)
    assert list(evaluator.prompt_texts) == ["chat.jinja"]
    template.write_text("{{ messages[0].content }} {{ nobody }}")
    with pytest.raises(ConfigError, match="unknown placeholder 'nobody'"):
        make_evaluator(config)


def test_what_is_asked_is_in_the_content_key_and_old_keys_stay(provider):
    made = {}
    for name in ("chat", "completion", *ENDPOINTS):
        more = {"max_tokens": 9} if name == "completion" else {}
        if name in ENDPOINTS:
            config = rewards(provider, endpoint=name)
            made[name] = call_key(spec_of(config.judge)[0], make_evaluator(config).plan(CASE)[0])
        else:
            made[name] = spec_of(
                rewards(provider, {"min": 1, "max": 5}, endpoint=name, **more).judge
            )[0].params
    assert made["chat"] == {"temperature": 0.0}
    assert made["completion"] == {"temperature": 0.0, "max_tokens": 9, "endpoint": "completion"}
    assert len({made[name] for name in ENDPOINTS}) == 3


async def test_tokens_have_rewards_and_the_last_one_counts(provider):
    RewardServer(answers=lambda reward: [[0.1], [0.2], [reward]]).install(provider)
    found = await judged(rewards(provider, endpoint="pooling"))
    assert [one.criteria["quality"] for one in found] == [1.5, -0.25]


async def test_other_servers(provider):
    config = rewards(provider)
    provider.routes = {"/v1/classify": RewardServer().classify}  # SGLang
    assert [one.criteria["quality"] for one in await judged(config)] == [1.5, -0.25]
    provider.routes = {
        "/classify": lambda _: Reply([{"embedding": [2.5], "meta_info": {}}])
    }  # SGLang's own
    assert [one.criteria["quality"] for one in await judged(config)] == [2.5, 2.5]
    provider.routes = {"/predict": lambda _: Reply([{"score": -3.0, "label": "LABEL_0"}])}  # TEI
    assert [one.criteria["quality"] for one in await judged(config)] == [-3.0, -3.0]
    assert provider.requests[-1] == {
        "inputs": [CASE.prompt, CASE.responses[1].text],
        "raw_scores": True,
        "truncate": False,
    }
    provider.routes = {"/rerank": lambda _: Reply([{"index": 0, "score": 0.5}])}
    assert [
        one.criteria["quality"] for one in await judged(rewards(provider, endpoint="score"))
    ] == [0.5, 0.5]


async def test_a_classifier_gives_classes(provider):
    RewardServer(
        answers=lambda reward: [1 - reward / 2, reward / 2], labels=("toxic", "fine")
    ).install(provider)
    rubric = {"classes": {"toxic": "harms someone", "fine": "does not"}, "positive": "toxic"}
    assert [one.class_name for one in await judged(rewards(provider, rubric))] == ["fine", "toxic"]
    [one, _] = await judged(rewards(provider, {"classes": {"good": "", "bad": ""}}))
    assert (one.status, one.class_name) == ("unparseable", None)


BAD = {
    "two labels": (RewardServer(answers=lambda reward: [reward, 1 - reward]), "2 values where one"),
    "NaN": (RewardServer(answers=lambda _: [math.nan]), "not a finite number"),
    "null": (RewardServer(answers=lambda _: [None]), "not a finite number"),
    "none": (RewardServer(answers=lambda _: []), "not a finite number"),
    "true": (RewardServer(answers=lambda _: [True]), "not a finite number"),
    "truncated": (RewardServer(context=5, tokenizes=False, truncates=True), "may have cut off the"),
    "wrong endpoint": (RewardServer(endpoints=("score",)), "check judge.endpoint, judge.model and"),
}


@pytest.mark.parametrize(("server", "said"), BAD.values(), ids=BAD)
async def test_no_fault_is_a_score(provider, server, said):
    server = RewardServer(**{**vars(server), "answers": server.answers})
    if said.startswith("not a finite"):
        server.labels = ("LABEL_0",) * 2
        provider.routes = {"/pooling": server.pooling}
        config = rewards(provider, endpoint="pooling")
    else:
        server.install(provider)
        config = rewards(provider)
    found = await judged(config)
    for one in found:
        text = one.error if isinstance(one, Judgment) else str(one)
        assert said in text
        assert "\n" not in text
        assert not isinstance(one, Judgment) or (one.status, one.criteria) == ("unparseable", {})
        assert not isinstance(one, CallError) or not one.retryable


@pytest.mark.parametrize("tokenizes", [True, False])
async def test_a_text_that_is_too_long_is_found_before_it_is_sent(provider, tokenizes):
    long = Case("long", "Why?", (Response("word " * 60),))
    RewardServer(context=50, tokenizes=tokenizes).install(provider)
    [found] = await judged(rewards(provider), long)
    if tokenizes:
        assert found == "61 tokens, and 50 fit"
        assert provider.paths == ["/tokenize"]
    else:  # the estimate is not certain, so the server is asked
        assert isinstance(found, CallError)
        assert (found.kind, found.retryable) == ("too_long", False)
    provider.paths.clear()
    [found] = await judged(rewards(provider, context=20), long)
    assert (
        found.endswith("tokens, and 20 fit") if tokenizes else found.endswith("20 fit (estimated)")
    )
    assert "/classify" not in provider.paths
    [found] = await judged(
        rewards(provider, context=20), Case("short", "Why?", (Response("because"),))
    )
    assert found.criteria == {"quality": 0.0}


WRONG = {
    "mode": ({"mode": "pairwise"}, "mode.name"),
    "scale": ({"rubric": {"min": 1, "max": 5}}, "set rubric=real"),
    "address": ({"api_base": None}, "set api_base"),
    "simulated": ({"model": "simulated/good"}, "needs a server"),
    "template": ({"endpoint": "score", "template": "x.jinja"}, "template is for"),
    "logprobs": ({"logprobs": True}, "logprobs does not work"),
    "cut": ({"params": {"truncate_prompt_tokens": 10}}, "dataset.fit=ends"),
    "completion": ({"endpoint": "completion", "rubric": {"min": 1, "max": 5}}, "set max_tokens"),
    "levels": ({"rubric": {"real": True, "levels": {1: "bad"}}}, "it is real and has levels"),
    "classes": ({"rubric": {"real": True, "classes": {"a": "", "b": ""}}}, "it is real and has"),
    "panel": (
     {"judges": [{"model": "a/b"}, {"model": "a/c", "endpoint": "score", "api_base": "http://x"}]},
     "b answers in words, which needs a scale"),
}  # fmt: skip


@pytest.mark.parametrize(("changed", "said"), WRONG.values(), ids=WRONG)
def test_settings_that_do_not_fit_are_refused(provider, changed, said):
    with pytest.raises(ValueError, match=said):
        rewards(provider, **changed)


def test_a_chat_judge_needs_a_scale(provider):
    config = rewards(provider, endpoint="chat")
    with pytest.raises(ConfigError, match="needs a scale"):
        make_evaluator(config)


async def test_a_completion_is_read_as_any_answer(provider):
    RewardServer().install(provider)
    choice = {"index": 0, "text": "Rating: [[4]]", "finish_reason": "stop"}
    provider.rule = lambda _: Reply(
        {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    )
    config = rewards(provider, {"min": 1, "max": 5}, endpoint="completion", max_tokens=50)
    config = config.model_copy(
        update={"output": config.output.model_copy(update={"format": "rating"})}
    )
    found = await judged(config)
    assert [one.criteria for one in found] == [{"quality": 4.0}] * 2
    sent = provider.requests[-1]
    assert provider.paths[-1] == "/v1/completions"
    assert sorted(sent) == ["max_tokens", "model", "prompt", "temperature"]
    assert json.dumps(sent["prompt"]).count("quality=-0.25") == 1
