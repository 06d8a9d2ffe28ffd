"""Both transports against one server, case by case: the same requests, completions, keys and failures."""

import asyncio
import json
import re
import socket
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.core.errors import CallError, JudgeSetupError
from evalkit.core.types import AnswerFormat, JudgeRequest, TokenLogprob, Usage
from evalkit.engine.requests import call_key
from evalkit.judges import make_judges, spec_of
from tests.support.fake_provider import Provider, Reply, completion, refused, said, serving

SCHEMA = {
    "type": "object",
    "properties": {"winner": {"enum": ["A", "B", "TIE"]}},
    "required": ["winner"],
    "additionalProperties": False,
}
TEXT = JudgeRequest(
    "c", (0,), (0,), ({"role": "system", "content": "你好"}, {"role": "user", "content": "hello"})
)
JSON = replace(TEXT, answer=AnswerFormat("verdict", SCHEMA))
TRANSPORTS = ("litellm", "direct")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key-1234")


async def tell(provider: Provider, transport: str, requests, timeout=60.0, **config):
    """Ask in turn, and return what each came to, and the bodies that were sent."""
    config = {
        "model": "openai/gpt-4o-mini",
        "api_base": provider.api_base,
        "transport": transport,
        **config,
    }
    [judge] = make_judges(JudgeConfig(**config), RunnerConfig(timeout=timeout))
    told = []
    try:
        for request in requests:
            try:
                told.append(replace(await judge.complete(request), latency=0.0))
            except CallError as error:
                told.append((error.kind, error.retryable, error.retry_after, error.message))
            except JudgeSetupError as error:
                told.append(str(error))
    finally:
        await judge.close()
    return told, provider.requests, judge.dropped


async def both(script=(), requests=(TEXT,), rule=None, **config):
    """Return what each transport told, of a server of its own that says the same to both."""
    found = []
    for transport in TRANSPORTS:
        with serving() as provider:
            provider.script.extend(script)
            provider.rule = rule or provider.rule
            told, bodies, dropped = await tell(provider, transport, requests, **config)
            port = str(provider.port)
        found.append(
            (
                [str(t).replace(port, "PORT") if isinstance(t, str) else t for t in told],
                bodies,
                dropped,
            )
        )
    return found


LOGPROBS = {
    "content": [
        {
            "token": "yes",
            "bytes": [121, 101, 115],
            "logprob": -0.25,
            "top_logprobs": [
                {"token": "yes", "bytes": None, "logprob": -0.25},
                {"token": "\ufffd", "bytes": [226, 130], "logprob": -1.5},
            ],
        },
        {"token": "\ufffd", "bytes": [226, 130], "logprob": -9999.0, "top_logprobs": []},
    ]
}


def choosing(message, finish="stop", **more):
    return Reply(
        completion(
            [
                {
                    "index": 0,
                    "finish_reason": finish,
                    "message": {"role": "assistant", **message},
                    **more,
                }
            ]
        )
    )


def with_usage(usage):
    return Reply({**said().body, "usage": usage})


def tool_call(arguments):
    function = {"name": "verdict", "arguments": arguments}
    return said(
        None, finish="stop", tool_calls=[{"id": "1", "type": "function", "function": function}]
    )


ANSWERS = {
    "plain": said("yes"),
    "empty": said(""),
    "null": said(None),
    "long": said("x" * 100, finish="length"),
    "odd_finish": said("yes", finish="eos"),
    "no_finish": said("yes", finish=None),
    "filtered": said("", finish="content_filter"),
    "filtered_prompt": refused(400, "The response was filtered due to content management policy"),
    "refusal": said(None, refusal="I will not"),
    "reasoning_content": said("yes", reasoning_content="hmm"),
    "reasoning": said("yes", reasoning="hmm"),
    "thinking": said("<think>well</think>yes"),
    "half_a_thought": said("<think>well yes"),
    "no_logprobs": choosing({"content": "yes"}, logprobs=None),
    "no_usage": Reply({k: v for k, v in said().body.items() if k != "usage"}),
    "null_usage": with_usage(None),
    "cached": with_usage(
        {
            "prompt_tokens": 2000,
            "completion_tokens": 3,
            "total_tokens": 2003,
            "prompt_tokens_details": {"cached_tokens": 1024},
        }
    ),
    "other_model": Reply({**said().body, "model": "gpt-4o-2024-08-06"}),
    "unknown_model": Reply({**said().body, "model": "nobody-knows"}),
    "empty_error": Reply({**said().body, "error": {"message": "", "code": None}}),
    "chinese": said("好的：A 更好"),
    "many_choices": Reply(
        completion(said("first").body["choices"] + said("second").body["choices"])
    ),
    # After an answer that has them, one without them is a fault.
    "logprobs": choosing({"content": "yes"}, logprobs=LOGPROBS),
}


EXPECTED = {
    "plain": {
        "text": "yes",
        "model": "gpt-4o-mini-2024-07-18",
        "finish_reason": "stop",
        "rung": "text",
    }
    | {"usage": Usage(12, 3), "refusal": None, "reasoning": None, "logprobs": None},
    "filtered": {"refusal": "stopped by the provider's content filter"},
    "filtered_prompt": {
        "text": "",
        "refusal": "The response was filtered due to content management policy",
    },
    "refusal": {"refusal": "I will not"},
    "reasoning": {"text": "yes", "reasoning": "hmm"},
    "logprobs": {
        "logprobs": (
            TokenLogprob("yes", -0.25, (("yes", -0.25), ("\ufffd", -1.5))),
            TokenLogprob("\ufffd", -9999.0, (), (226, 130)),
        )
    },
    "unknown_model": {"model": "nobody-knows"},
}
MODELS = ("openai/gpt-4o-mini", "openai/unheard-of", "hosted_vllm/meta-llama/Llama-3.1-8B")
LISTED = 12 * 0.15e-6 + 3 * 0.6e-6


@pytest.mark.parametrize("model", MODELS)
async def test_the_same_completions(model):
    replies = [*ANSWERS.values()]
    asked = [TEXT] * len(replies)
    through_litellm, direct = await both(replies, asked, model=model, logprobs=True)
    for name, found, other in zip(ANSWERS, through_litellm[0], direct[0], strict=True):
        expected = EXPECTED.get(name, {})
        assert {field: getattr(found, field) for field in expected} == expected, name
        if name == "plain" and not model.startswith("hosted_vllm"):
            assert found.cost_usd == pytest.approx(LISTED)
        if name == "unknown_model":
            assert (found.cost_usd is None) == (model != MODELS[0])
        assert other == replace(found, cost_usd=other.cost_usd), name
        assert other.cost_usd == pytest.approx(found.cost_usd), name
    assert direct[1] == through_litellm[1]


BAD = ("bad_response", True, None)
FAULTS = {
    "429": (refused(429, "slow down", Retry_After="7"), ("rate_limit", True, 7.0)),
    "429_ms": (refused(429, "slow down", retry_after_ms="1500"), ("rate_limit", True, 1.5)),
    "429_quota_of_a_minute": (
     refused(429, "You exceeded your current quota, see https://x.y/billing. Please retry in 2s."),
     ("rate_limit", True, 2.0)),
    "500": (refused(500, "oops"), ("server", True, None)),
    "502": (Reply(b"<html>bad gateway</html>", 502), ("server", True, None)),
    "503": (refused(503, "overloaded", Retry_After="3"), ("server", True, 3.0)),
    "529": (refused(529, "overloaded"), ("server", True, None)),
    "408": (refused(408, "too slow"), ("timeout", True, None)),
    "400": (refused(400, "max_tokens is too large"), ("bad_request", False, None)),
    "400_vllm": (
        Reply(
            {
                "object": "error",
                "message": "max_tokens is too large",
                "type": "BadRequestError",
                "code": 400,
            },
            400,
        ),
        ("bad_request", False, None),
    ),
    "400_detail": (Reply({"detail": "no such field"}, 400), ("bad_request", False, None)),
    "400_length": (
        refused(
            400, "This model's maximum context length is 10 tokens", code="context_length_exceeded"
        ),
        ("too_long", False, None),
    ),
    "422": (refused(422, "unprocessable"), ("bad_request", False, None)),
    "404_later": (refused(404, "no stored output"), ("not_found", False, None)),
    "no_choices": (Reply(completion([])), BAD),
    "null_choices": (Reply({**completion([]), "choices": None}), BAD),
    "half_json": (Reply(b'{"choices": [{"mess'), BAD),
    "html": (Reply(b"<html>busy</html>"), BAD),
    "nothing": (Reply(b""), BAD),
    "cut": (Reply(said("x" * 5000).body, cut=True), ("connection", True, None)),
    "error_with_200": (Reply({"error": {"message": "overloaded", "code": 503}}),
                       ("server", True, None)),
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
async def test_the_same_failures(model):
    replies = [reply for fault, _ in FAULTS.values() for reply in (said(), fault)]
    asked = [TEXT] * len(replies)
    through_litellm, direct = await both(replies, asked, model=model)
    told = zip(FAULTS, through_litellm[0][1::2], direct[0][1::2], strict=True)
    for name, fault, other in told:
        reply, kind = FAULTS[name]
        assert fault[:3] == other[:3] == kind, name
        assert "\n" not in fault[3]
        assert "litellm" not in fault[3].lower()
        if isinstance(reply.body, dict) and reply.status >= 400 and "detail" not in reply.body:
            # Otherwise each says in its own words what the server did not say in words.
            assert other == fault
    assert len(direct[1]) == len(through_litellm[1]) == len(asked)


@pytest.mark.parametrize(("reply", "words"), [
    (refused(401, "Incorrect API key provided: sk-very-secret-key-1234"), "_API_KEY"),
    (refused(403, "You do not have access to this resource"), "_API_KEY"),
    (refused(429, "You exceeded your current quota", code="insufficient_quota"),
     "budget is used up .*; add credit"),
    (refused(404, "The model `gpt-9` does not exist", code="model_not_found"),
     "does not have this model .*; check"),
], ids=["401", "403", "429_account", "404"])  # fmt: skip
@pytest.mark.parametrize("model", MODELS)
async def test_the_same_setup_error(reply, words, model):
    through_litellm, direct = await both([reply], model=model)
    assert direct[0] == through_litellm[0]
    assert re.search(f"^{model}: .*{words}", direct[0][0])
    assert "very-secret" not in str(direct[0])


async def test_the_same_setup_error_where_nothing_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        told = [
            await tell(Provider(), transport, [TEXT], api_base=base) for transport in TRANSPORTS
        ]
    assert told[0] == told[1]
    assert "no server answers" in told[0][0][0]


@pytest.mark.parametrize("model", MODELS)
async def test_the_same_timeout(model):
    release = threading.Event()
    try:
        told = await both([Reply(hang=release)], model=model, timeout=0.2)
        assert [[each[:3] for each in t[0]] for t in told] == [[("timeout", True, None)]] * 2
    finally:
        release.set()


def no_schema(body):
    if body.get("response_format", {}).get("type") == "json_schema":
        return refused(
            400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported"
        )
    return tool_call('{"winner":"B"}') if "tools" in body else said('{"winner":"A"}')


def no_tool(body):
    if "tools" in body:
        return refused(400, "this model does not support tools")
    return no_schema(body)


def hot(body):
    words = "temperature: unsupported with this model"
    return refused(400, words) if "temperature" in body else said("{}")


MIN_P = {"top_k": 5, "extra_body": {"min_p": 0.1}}
NO_THOUGHTS = {"chat_template_kwargs": {"enable_thinking": False}}
SEEDED = {"seed": 3, "max_tokens": 9, "params": {"top_k": 5}}


BY_SCHEMA = {
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "verdict", "schema": SCHEMA, "strict": True},
    }
}


def by_tool(schema):
    function = {"name": "verdict", "description": "Give the answer.", "parameters": schema}
    choice = {"type": "function", "function": {"name": "verdict"}}
    return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}


BY_TOOL = by_tool(SCHEMA)
# LiteLLM leaves this word out for vLLM.
BY_VLLMS_TOOL = by_tool({k: v for k, v in SCHEMA.items() if k != "additionalProperties"})
BY_OBJECT = {"response_format": {"type": "json_object"}}
COLD = {"temperature": 0.0}
LLAMA = {"model": MODELS[2].partition("/")[2], **COLD, "seed": 3, "max_tokens": 9, "top_k": 5}


@pytest.mark.parametrize(("rule", "config", "more", "steps"), [
    (no_schema, {}, COLD, [BY_SCHEMA, BY_TOOL, BY_TOOL]),
    (no_schema, {"model": "openai/unheard-of", "seed": 3, "params": MIN_P},
     {"model": "unheard-of", **COLD, "seed": 3, "top_k": 5, "min_p": 0.1},
     [BY_SCHEMA, BY_TOOL, BY_TOOL]),
    (no_schema, {"response_format": "json_schema"}, COLD, [BY_SCHEMA, BY_SCHEMA]),
    (no_schema, {"response_format": "tool"}, COLD, [BY_TOOL, BY_TOOL]),
    (no_schema, {"response_format": "json_object"}, COLD, [BY_OBJECT, BY_OBJECT]),
    (no_schema, {"model": MODELS[2], **SEEDED}, LLAMA, [BY_SCHEMA, BY_VLLMS_TOOL, BY_VLLMS_TOOL]),
    (no_tool, {"model": "openai/unheard-of"}, {"model": "unheard-of", **COLD},
     [BY_SCHEMA, BY_TOOL, BY_OBJECT, BY_OBJECT]),
    (None, {"params": {"extra_body": NO_THOUGHTS, "top_p": 0.5}},
     {**COLD, **NO_THOUGHTS, "top_p": 0.5}, [BY_SCHEMA, BY_SCHEMA]),
    (hot, {"seed": 3}, {"seed": 3}, [{**COLD, **BY_SCHEMA}, BY_SCHEMA, BY_SCHEMA]),
])  # fmt: skip
async def test_the_same_requests_down_the_same_ladder(rule, config, more, steps):
    """A refused form is stepped down from once, and a chosen one never."""
    through_litellm, direct = await both((), [JSON, JSON, TEXT], rule, **config)
    plain = {"model": "gpt-4o-mini", "messages": [*TEXT.messages], **more}
    assert direct[1] == through_litellm[1] == [*({**plain, **step} for step in steps), plain]
    assert direct[2] == through_litellm[2]
    assert [replace(t, cost_usd=None) if hasattr(t, "rung") else t for t in direct[0]] == [
        replace(t, cost_usd=None) if hasattr(t, "rung") else t for t in through_litellm[0]
    ]
    *structured, text = direct[0]
    assert text.rung == "text"
    for found in structured:
        if config.get("response_format") == "json_schema":
            assert "try judge.response_format=auto" in found
        elif "tools" in steps[-1]:
            assert (found.rung, found.text) == ("tool", '{"winner":"B"}')
        else:
            assert found.rung == steps[-1]["response_format"]["type"]


def test_the_same_key():
    specs = [
        spec_of(
            JudgeConfig(model="hosted_vllm/x", api_base="http://h/v1", seed=1, transport=transport)
        )[0]
        for transport in TRANSPORTS
    ]
    assert specs[0] == specs[1]
    assert call_key(specs[0], JSON) == call_key(specs[1], JSON)


async def test_the_same_key_is_shown_to_the_server_and_none_where_none_is_set(monkeypatch):
    shown = {}
    for transport in TRANSPORTS:
        with serving() as provider:
            await tell(provider, transport, [TEXT])
            shown[transport] = provider.headers[0]["authorization"]
    assert shown["direct"] == shown["litellm"] == "Bearer sk-very-secret-key-1234"
    monkeypatch.delenv("OPENAI_API_KEY")
    with serving() as provider:
        told, *_ = await tell(provider, "direct", [TEXT])
        assert told[0].text == "yes"
        assert "authorization" not in provider.headers[0]


async def test_the_most_a_call_can_cost_is_the_same(provider):
    ceilings = []
    for transport in TRANSPORTS:
        config = JudgeConfig(
            model="openai/gpt-4o-mini",
            api_base=provider.api_base,
            max_tokens=9,
            transport=transport,
        )
        [judge] = make_judges(config, RunnerConfig())
        await judge.prepare()
        ceilings.append(judge.ceiling(JSON))
        await judge.close()
    assert ceilings[0] == ceilings[1] > 0


async def test_a_name_whose_first_part_is_no_provider_is_sent_whole(provider):
    await tell(provider, "direct", [TEXT], model="meta-llama/Llama-3.1-8B")
    await tell(provider, "direct", [TEXT], model="together_ai/meta-llama/Llama-3.1-8B")
    assert [body["model"] for body in provider.requests] == ["meta-llama/Llama-3.1-8B"] * 2


def test_litellm_is_not_imported(provider):
    code = f"""
import asyncio, json, sys
from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.judges import make_judges
from evalkit.judges.pricing import price_of
from evalkit.core.types import JudgeRequest
[judge] = make_judges(JudgeConfig(model="openai/x", api_base={provider.api_base!r}, transport="direct"), RunnerConfig())
assert "aiohttp" not in sys.modules
assert price_of(JudgeConfig(model="openai/gpt-4o"))
async def main():
    got = await judge.complete(JudgeRequest("c", (0,), (0,), ({{"role": "user", "content": "hello"}},)))
    await judge.close()
    print(json.dumps([got.text, "litellm" in sys.modules]))
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == ["yes", False]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("model", "status"),
    [*((MODELS[0], status) for status in (301, 303, 307, 308)), *((m, 302) for m in MODELS)],
)
async def test_a_redirect_is_not_followed(transport, model, status):
    with serving() as elsewhere, serving() as provider:
        target = f"{elsewhere.api_base}/chat/completions"
        provider.rule = lambda _: Reply(
            b"", status, {"location": f"{target}?key=sk-very-secret-key-1234"}
        )
        [message], bodies, _ = await tell(provider, transport, [TEXT], model=model)
        assert (len(bodies), elsewhere.requests) == (1, [])
        assert f"status {status} redirects to {target}, and redirects are not followed" in message


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_log_probabilities_that_are_a_must_and_broken_fail_one_call(transport):
    broken = choosing({"content": "yes"}, logprobs={"content": [{"token": 5}]})
    missing, right = (
        choosing({"content": "yes"}, logprobs=None),
        choosing({"content": "yes"}, logprobs=LOGPROBS),
    )
    with serving() as provider:
        provider.script.extend([right, broken, missing, right])
        told, _, _ = await tell(provider, transport, [TEXT] * 4, logprobs=True)
    assert [one if isinstance(one, tuple) else None for one in told] == [None, *[told[1]] * 2, None]
    assert told[1][:2] == ("bad_response", True)


async def test_a_chat_is_sent_before_the_server_has_said_how_much_fits():
    chatted = threading.Event()
    with serving() as provider:
        listed = {"data": [{"id": "gpt-4o-mini", "max_model_len": 1}]}

        def chat(_):
            chatted.set()
            return said()

        provider.routes = {
            "/v1/models": lambda _: Reply(listed, hang=chatted),
            "/v1/chat/completions": chat,
        }
        config = JudgeConfig(
            model="openai/gpt-4o-mini", api_base=provider.api_base, transport="direct"
        )
        [judge] = make_judges(config, RunnerConfig())
        assert (await judge.complete(TEXT)).text == "yes"
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        assert judge.transport.context == 1
        await judge.close()
