"""Calls by LiteLLM's own HTTP handler, and priced by its list, are those that `litellm.acompletion` makes by itself."""

import os
from dataclasses import replace

import pytest

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.core.errors import CallError
from evalkit.core.types import Usage
from evalkit.judges import litellm_http, litellm_transport
from evalkit.judges.error_mapping import call_error
from evalkit.judges.litellm_transport import BY_OWN_HANDLER, OPENAI_PROTOCOL, LiteLLMTransport
from evalkit.judges.pricing import listed_cost, price_list, tier_of
from evalkit.judges.responses import Answer, answer_of
from tests.support.fake_provider import Provider, refused, said

KNOWN = (
    *(
        *("openai/gpt-4o-mini", "openai/gpt-5-mini", "openai/o3-mini", "openai/gpt-5.4"),
        "openai/unheard-of",
    ),
    "deepseek/deepseek-chat",
    "groq/llama-3.3-70b-versatile",
    "mistral/mistral-small-latest",
    "xai/grok-3",
    "together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo",
    "fireworks_ai/accounts/fireworks/models/deepseek-v3",
    *(
        *("together_ai/unheard-of-8b", "openrouter/openai/gpt-4o", "moonshot/kimi-k2-0711-preview"),
        *("dashscope/qwen-plus", "cerebras/llama3.1-8b"),
    ),
)
MODELS = (
    *KNOWN,
    *(
        f"{name}/some-model"
        for name in BY_OWN_HANDLER
        if not any(m.startswith(name) for m in KNOWN)
    ),
)
FAULTY = (
    "openai/gpt-4o-mini",
    "deepseek/deepseek-chat",
    "groq/llama-3.3-70b-versatile",
    "openrouter/openai/gpt-4o",
    "together_ai/unheard-of-8b",
)
"""The models for which every fault is always tried, of each way in which LiteLLM maps errors;
others: --thorough."""
SCHEMA = {
    "type": "object",
    "properties": {"w": {"enum": ["A"]}},
    "required": ["w"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "v", "parameters": SCHEMA}}
CALLS = (
    {
        **{"temperature": 0.0, "max_tokens": 9, "seed": 3},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "v", "schema": SCHEMA, "strict": True},
        },
    },
    {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "v"}},
     "logprobs": True},
    {"top_k": 5, "extra_body": {"min_p": 0.1}, "reasoning_effort": "low", "service_tier": "flex"},
)  # fmt: skip
FAULTS = (
    refused(400, "bad thing"),
    refused(401, "Incorrect API key"),
    refused(404, "no model", code="model_not_found"),
    refused(
        400, "This model's maximum context length is 10 tokens", code="context_length_exceeded"
    ),
    refused(429, "You exceeded your current quota", code="insufficient_quota"),
    refused(429, "slow down", Retry_After="1"),
    refused(500, "oops"),
)
# What says which client it was, and not what is asked or by whom.
CLIENTS = ("user-agent", "accept", "accept-encoding", "content-length", "connection", "host")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in {model.partition("/")[0] for model in MODELS}:
        monkeypatch.setenv(f"{name.upper()}_API_KEY", f"sk-{name}")
    monkeypatch.setenv("TOGETHERAI_API_KEY", "sk-together")
    for name in ("ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", f"our-{name}")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: ours\nX-More: a:b")


def sent(provider: Provider):
    return [
        (
            body,
            {
                k: v
                for k, v in headers.items()
                if k not in CLIENTS and not k.startswith("x-stainless")
            },
        )
        for body, headers in zip(provider.requests, provider.headers, strict=True)
    ]


def reply_of(model: str):
    reply = said(reasoning_content="hmm", usage=(2000, 30))
    reply.body["usage"]["prompt_tokens_details"] = {"cached_tokens": 1024}
    reply.body |= {
        "model": model.partition("/")[2],
        "service_tier": "on_demand" if model.startswith("groq") else None,
    }
    return reply


def told(error: CallError, provider: Provider):
    return (
        error.kind,
        error.retryable,
        error.retry_after,
        error.message.replace(str(provider.port), "PORT"),
    )


def told_of(answer: Answer, cost: float | None):
    return replace(answer, tier=None), None if not cost else float(f"{cost:.9g}")


SERVER: list[Provider] = []


@pytest.fixture(autouse=True)
def _server(module_provider):
    """Give all requests of the module one address, so that LiteLLM keeps its clients."""
    SERVER[:] = [module_provider]


def answering(reply) -> Provider:
    [provider] = SERVER
    provider.requests.clear()
    provider.headers.clear()
    provider.script.clear()
    provider.script.append(reply)
    return provider


async def plainly(model: str, call, reply):
    provider = answering(reply)
    settings = {
        "api_base": provider.api_base,
        "timeout": 20.0,
        "num_retries": 0,
        "max_retries": 0,
    }
    missing = (
        {"api_key": "none"}
        if not os.environ.get(f"{model.partition('/')[0].upper()}_API_KEY")
        else {}
    )
    messages = [{"role": "user", "content": "hello"}]
    litellm = litellm_transport.enter()
    try:
        response = await litellm.acompletion(
            model=model,
            messages=messages,
            _skip_mcp_handler=True,
            **call,
            **settings,
            **missing,
        )
    except Exception as error:
        return told(call_error(error), provider), sent(provider)
    finally:
        await litellm_transport.leave()
    answer = answer_of(response)
    name = (answer.model or "").removeprefix(model.partition("/")[0] + "/")
    return told_of(replace(answer, model=name), response._hidden_params.get("response_cost")), sent(
        provider
    )


async def by_own_handler(model: str, call, reply):
    provider = answering(reply)
    transport = LiteLLMTransport(
        JudgeConfig(model=model, api_base=provider.api_base), RunnerConfig(timeout=60.0)
    )
    where, _ = await transport.open("judge")
    try:
        got = await transport.send(
            where, {"messages": [{"role": "user", "content": "hello"}], **call}
        )
    except CallError as error:
        return told(error, provider), sent(provider)
    finally:
        await transport.close()
    return told_of(got.answer, got.cost_usd), sent(provider)


@pytest.mark.parametrize("model", MODELS)
async def test_the_same_request_answer_and_price(model, thorough):
    """Known models get every call, and other providers' models one of them in turn, or all if thorough."""
    turn = MODELS.index(model) % len(CALLS)
    calls = CALLS if thorough or model in KNOWN else CALLS[turn : turn + 1]
    for call in calls:
        assert await by_own_handler(model, call, reply_of(model)) == await plainly(
            model, call, reply_of(model)
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [m if m in FAULTY else pytest.param(m, marks=pytest.mark.thorough) for m in MODELS]
)
async def test_the_same_fault_after_one_request(model):
    for fault in FAULTS:
        found, requests = await by_own_handler(model, {}, fault)
        wanted, plain = await plainly(model, {}, fault)
        assert len(requests) == min(1, len(plain))
        if len(plain) == 1:  # OpenAI's client tries again with some, whatever it is told
            assert (found, requests) == (wanted, plain)


async def test_openais_client_is_not_asked(monkeypatch):
    monkeypatch.setattr("litellm.main.openai_chat_completions.completion", None)
    (answer, cost), _ = await by_own_handler(
        "openai/gpt-4o-mini", CALLS[0], reply_of("openai/gpt-4o-mini")
    )
    assert answer.content == "yes"
    assert cost


async def test_who_else_calls_litellm_has_openais_client(monkeypatch):
    litellm = litellm_transport.load_litellm()
    monkeypatch.setattr("litellm.main.openai_chat_completions.completion", lambda **_: 1 / 0)
    with pytest.raises(Exception, match="division by zero"):
        await litellm.acompletion(model="openai/x", messages=[], api_base="http://127.0.0.1:1/v1")
    assert litellm_http._current.get() is None


async def test_an_answer_of_groq_needs_no_service_tier():
    (answer, _), _ = await by_own_handler("groq/llama-3.3-70b-versatile", {}, said())
    assert answer.content == "yes"


async def test_a_tool_call_that_fireworks_writes_as_text_is_a_tool_call():
    model = "fireworks_ai/accounts/fireworks/models/qwen3-235b-a22b"
    reply = said('{"name": "v", "arguments": "{\\"w\\": \\"A\\"}"}')
    (answer, _), _ = await by_own_handler(model, {"tools": [TOOL]}, reply)
    (plain, _), _ = await plainly(model, {"tools": [TOOL]}, reply)
    assert answer.arguments == plain.arguments == '{"w": "A"}'


@pytest.mark.slow
def test_prices_by_the_list_are_litellms():
    litellm = litellm_transport.load_litellm()
    from litellm.types.utils import ModelResponse

    compared = 0
    for key, entry in price_list().items():
        provider = entry.get("litellm_provider")
        if (
            provider not in (*OPENAI_PROTOCOL, "mistral")
            or entry.get("mode") != "chat"
            or "together-ai-" in key
        ):
            continue
        name = key.removeprefix(f"{provider}/")
        for prompt, written, cached in ((100, 10, 0), (2000, 10, 1024), (300_000, 5, 2000)):
            found = listed_cost(provider, (name,), Usage(prompt, written), cached)
            if found is None:  # LiteLLM works it out
                continue
            details = {"cached_tokens": cached}
            usage = {
                "prompt_tokens": prompt,
                "completion_tokens": written,
                "prompt_tokens_details": details,
            }
            response = ModelResponse(model=name, usage={**usage, "total_tokens": prompt + written})
            named = {
                "model": f"{provider}/{name}",
                "custom_llm_provider": provider,
                "call_type": "acompletion",
            }
            wanted = litellm.response_cost_calculator(
                response_object=response, optional_params={}, **named
            )
            assert found == pytest.approx(wanted), (key, prompt, cached)
            compared += 1
    assert compared > 500


@pytest.mark.parametrize(("served", "asked", "tier"), [
    (None, None, None),
    (None, "flex", "flex"),
    ("auto", "flex", "flex"),
    ("default", "flex", "default"),
])  # fmt: skip
def test_a_service_tier_of_its_own_has_no_price_by_the_list(served, asked, tier):
    assert tier_of(served, asked) == tier
    cost = listed_cost("openai", ("gpt-5-mini",), Usage(1000, 10), 0, tier)
    assert cost is None if tier == "flex" else cost
