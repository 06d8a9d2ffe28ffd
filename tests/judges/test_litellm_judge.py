import asyncio
import gc
import json
import sys
import threading
from dataclasses import replace

import pytest

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.core.errors import CallError, JudgeSetupError
from evalkit.core.types import AnswerFormat, Completion, JudgeRequest
from evalkit.judges import litellm_transport, make_judges
from tests.support.fake_provider import Reply, refused, said

SCHEMA = {
    "type": "object",
    "properties": {"winner": {"enum": ["A", "B", "TIE"]}},
    "required": ["winner"],
}
TEXT = JudgeRequest("c", (0,), (0,), ({"role": "user", "content": "hello"},))
JSON = JudgeRequest("c", (0,), (0,), TEXT.messages, AnswerFormat("verdict", SCHEMA))


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key-1234")


def made(provider, *, timeout=60.0, **config):
    config = {"model": "openai/gpt-4o-mini", "api_base": provider.api_base, **config}
    [judge] = make_judges(JudgeConfig(**config), RunnerConfig(timeout=timeout))
    return judge


async def ask(judge, *requests) -> list[Completion]:
    try:
        return [await judge.complete(request) for request in requests or (TEXT,)]
    finally:
        await judge.close()


@pytest.mark.parametrize("gone", [ImportError, TypeError])
async def test_a_call_is_the_same_where_litellm_takes_no_account_of_ours(
    provider, monkeypatch, gone
):
    def made_otherwise() -> None:
        raise gone("another version")

    [spared] = await ask(made(provider), JSON)
    assert (
        gc.get_freeze_count() == 0
    )  # what was imported is left out of collections only as long as anybody calls
    assert litellm_transport.account("openai/gpt-4o-mini", JSON.messages, lambda _: None)
    monkeypatch.setattr(litellm_transport, "_account", made_otherwise)
    assert litellm_transport.account("openai/gpt-4o-mini", JSON.messages, lambda _: None) == {}
    [plain] = await ask(made(provider), JSON)
    assert plain.cost_usd == pytest.approx(spared.cost_usd)
    assert replace(spared, latency=0.0, cost_usd=None) == replace(plain, latency=0.0, cost_usd=None)
    one, two = provider.requests
    assert one == two


def test_what_is_imported_ahead_of_the_first_call_is_there():
    litellm_transport.rehearse()
    assert [name for name in litellm_transport._LATE_IMPORTS if name not in sys.modules] == []


def tool_call(arguments: str) -> Reply:
    function = {"name": "verdict", "arguments": arguments}
    return said(
        None,
        finish="tool_calls",
        tool_calls=[{"id": "1", "type": "function", "function": function}],
    )


async def test_requests_in_flight_together_step_down_one_rung_not_one_each(provider):
    provider.rule = lambda body: (
        refused(400, "response_format is not supported")
        if "response_format" in body
        else tool_call("{}")
    )
    judge = made(provider)
    got = await asyncio.gather(*(judge.complete(JSON) for _ in range(5)))
    await judge.close()
    assert {c.rung for c in got} == {"tool"}


DEEP = 300_000
BODIES = {
    "lists": b"[" * DEEP,
    "closed lists": b"[" * 200 + b"]" * 200,
    "objects": b'{"error":' * 50_000 + b"1" + b"}" * 50_000,
    "lists in the message": b'{"error": {"message": ' + b"[" * DEEP + b"]" * DEEP + b"}}",
    "lists in the code": b'{"error": {"message": "busy", "code": '
    + b"[" * 300
    + b"]" * 300
    + b"}}",
    "a long message": b'{"error": {"message": "' + b"busy " * 200_000 + b'"}}',
}


@pytest.mark.parametrize(
    ("body", "status"), [(body, (400, 429, 500)[n % 3]) for n, body in enumerate(BODIES)]
)
@pytest.mark.parametrize(
    "model", ["openai/gpt-4o-mini", "hosted_vllm/x", "anthropic/claude-3-haiku-20240307"]
)
async def test_litellm_reads_only_the_beginning_of_a_large_or_deep_error(
    provider, model, body, status, monkeypatch
):
    """It reads in the event loop, seconds for a megabyte, while every other request waits and times out."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
    provider.script.append(Reply(BODIES[body], status))
    with pytest.raises(CallError) as error:
        await ask(made(provider, model=model))
    assert error.value.kind == {400: "bad_request", 429: "rate_limit", 500: "server"}[status]
    assert BODIES[body][:20].decode()[:1] in error.value.message or "busy" in error.value.message
    cause = error.value.__cause__
    while cause is not None:
        assert len(str(cause)) < 20_000
        cause = cause.__cause__ or cause.__context__


async def test_a_missing_key_is_said_before_any_call(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    [judge] = make_judges(JudgeConfig(model="openai/gpt-4o-mini"), RunnerConfig())
    with pytest.raises(JudgeSetupError, match="openai/gpt-4o-mini: no API key; set the"):
        await ask(judge)


async def test_a_server_of_ones_own_needs_no_key(provider, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    [got] = await ask(made(provider))
    assert got.text == "yes"
    assert "secret" not in json.dumps(provider.headers)


async def test_an_unknown_provider_is_said():
    [judge] = make_judges(JudgeConfig(model="nosuch/model"), RunnerConfig())
    with pytest.raises(
        JudgeSetupError, match="LiteLLM does not know the provider of 'nosuch/model'"
    ):
        await ask(judge)


async def test_logprobs_from_a_provider_that_has_none(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-nothing-here")
    monkeypatch.setattr("evalkit.judges.setup.check_reachable", lambda *_, **__: asyncio.sleep(0))
    config = JudgeConfig(model="anthropic/claude-sonnet-4-5", logprobs=True)
    [strict] = make_judges(config, RunnerConfig())
    with pytest.raises(JudgeSetupError, match="does not return log-probabilities"):
        await strict.prepare()
    [lenient] = make_judges(config.model_copy(update={"logprobs": "fallback"}), RunnerConfig())
    await lenient.prepare()
    assert "logprobs" in lenient.dropped
    await strict.close()
    await lenient.close()


async def test_the_most_a_call_can_cost_bounds_what_it_did_cost(provider):
    judge = made(provider, max_tokens=3)
    await judge.prepare()
    ceiling = judge.ceiling(TEXT)
    [got] = await ask(judge)
    assert ceiling >= got.cost_usd
    unknown = made(provider, model="openai/my-own-model")
    await unknown.prepare()
    assert unknown.ceiling(TEXT) is None
    await unknown.close()


def test_each_event_loop_closes_its_own_connections(provider, monkeypatch):
    unclosed, before = [], {*threading.enumerate()}
    gc.collect()
    monkeypatch.setattr(sys, "unraisablehook", unclosed.append)
    users = [(asyncio.new_event_loop(), made(provider)) for _ in range(2)]
    for loop, judge in users:
        assert loop.run_until_complete(judge.complete(TEXT)).text
    for loop, judge in users:
        loop.run_until_complete(judge.close())
        loop.close()
    for connection in {*threading.enumerate()} - before:
        if "process_request" in connection.name:  # the server's thread ends with its connection
            connection.join(30)
            assert not connection.is_alive()
    del users, loop, judge
    gc.collect()
    assert unclosed == []


async def test_a_response_is_read_once_for_its_price_and_the_reply(provider, monkeypatch):
    read = litellm_transport._answer
    responses = []

    def counted(response, *known):
        responses.append(response)
        return read(response, *known)

    monkeypatch.setattr(litellm_transport, "_answer", counted)
    answers = await ask(made(provider), TEXT, JSON)
    assert len(answers) == len(responses) == 2
    assert responses[0] is not responses[1]
    assert all(answer.cost_usd for answer in answers)
