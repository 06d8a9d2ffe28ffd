"""Specifications of judges: their words, prices, pace, seeds and arbiters."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import JudgeConfig, Price, RunConfig, RunnerConfig
from evalkit.core.errors import JudgeSetupError
from evalkit.core.redaction import redact
from evalkit.core.types import JudgeRequest, JudgeSpec
from evalkit.evaluators.json_answers import pairwise_format
from evalkit.judges import describe_judges, make_arbiter, make_judges, spec_of
from evalkit.judges.adaptations import RUNGS, Shape, adapted
from evalkit.judges.error_mapping import (
    LONGEST_MESSAGE,
    clean_message,
)
from evalkit.judges.model_judge import sent_params
from evalkit.judges.pricing import price_of
from evalkit.judges.setup import top_rung
from evalkit.judges.smollm2_transport import only, tighten
from evalkit.judges.waits import pause_from_headers, retry_after
from tests.support.fake_provider import Reply, said


def test_a_spec_holds_what_is_set():
    config = JudgeConfig(
        model="openai/x", api_base="http://h/v1", seed=1, max_tokens=9, params={"top_p": 0.5}
    )
    wanted = {"temperature": 0.0, "max_tokens": 9, "seed": 1, "top_p": 0.5}
    assert spec_of(config) == (JudgeSpec("x", "openai/x", "http://h/v1", wanted),)
    assert spec_of(JudgeConfig(model="openai/x", temperature=None))[0].params == {}
    assert spec_of(JudgeConfig(model="openai/x", logprobs=True))[0].params["top_logprobs"] == 20
    assert (
        spec_of(JudgeConfig(model="openai/x", logprobs=True, params={"top_logprobs": 5}))[0].params[
            "top_logprobs"
        ]
        == 5
    )


def test_a_panel_has_a_spec_and_a_judge_for_each():
    panel = JudgeConfig(
        judges=(JudgeConfig(model="openai/x"), JudgeConfig(model="openai/y", name="why"))
    )
    assert [s.name for s in spec_of(panel)] == ["x", "why"]
    assert [j.spec for j in make_judges(panel, RunnerConfig())] == list(spec_of(panel))


@pytest.mark.parametrize(("config", "says"), [
    ({"model": "openai/x", "api_base": "localhost:8000"}, "judge.api_base: 'localhost:8000'"),
    ({"model": "openai/x", "api_base": "http://u:p@h/v1"}, "judge.api_base: contains a URL"),
    ({"model": "openai/x", "params": {"api_key": "k"}}, "judge.params.api_key: a config must"),
    ({"model": "openai/x", "params": {"messages": []}}, "evalkit sets this parameter itself"),
    ({"model": "local/smollm"},
     "there is no embedded model 'local/smollm'; did you mean 'local/smollm2-135m"),
    ({"judges": [{"model": "a/x"}, {"model": "b/x"}]},
     "two judges are named 'x'; give each judge a unique 'name'"),
])  # fmt: skip
def test_what_cannot_be_a_judge_is_refused_in_one_line(config, says):
    with pytest.raises(JudgeSetupError) as error:
        spec_of(JudgeConfig(**config))
    assert says in str(error.value)


@pytest.mark.parametrize("given", [
    {"model": "openai/x"},
    {"model": "local/smollm2-135m-instruct", "api_base": "http://127.0.0.1:1/v1"},
])  # fmt: skip
def test_the_direct_transport_needs_a_server(given):
    with pytest.raises(JudgeSetupError, match=r"judge\.api_base: transport direct needs the"):
        make_judges(JudgeConfig(transport="direct", **given), RunnerConfig())


@pytest.mark.parametrize("text", [
    *("Authorization: Bearer {}", "'x-api-key': '{}'", "Incorrect API key provided: {}"),
    *("GET https://host/v1?key={}&alt=json", "https://user:{}@host/v1"),
])  # fmt: skip
def test_secrets_are_taken_out(text):
    assert "sk-abcdef123456" not in redact(text.format("sk-abcdef123456"), {})
    assert "hunter2hunter2" not in redact(
        text.format("hunter2hunter2"), {"MY_TOKEN": "hunter2hunter2"}
    )


@given(st.text(st.characters(codec="utf-8"), min_size=8), st.text())
def test_a_value_of_a_variable_named_like_a_key_never_stays(secret, around):
    assert (
        secret not in redact(f"{around}{secret}{around}", {"SOME_API_KEY": secret})
        or secret in "[redacted]"
    )


def test_ordinary_words_stay():
    text = "task-oriented risk-assessment of the basic model: key point; 4 tokens"
    assert redact(text, {"KEY": "4", "HOME": "model: key"}) == text


def test_messages_are_one_short_line():
    wrapped = "litellm.InternalServerError: InternalServerError: OpenAIException - oops\nthere\n"
    wrapped += "Traceback (most recent call last):\n  x"
    assert clean_message(wrapped) == "oops there"
    assert len(clean_message("x" * 1000)) == LONGEST_MESSAGE


@pytest.mark.parametrize(("headers", "seconds"), [
    ({"retry-after": "7"}, 7.0),
    ({"retry-after": "0.5"}, 0.5),
    ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
    ({"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT"}, 20.0),
    ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
    ({"retry-after": "soon"}, None),
    ({"retry-after": "inf"}, None),
    ({"retry-after": "1e30"}, None),
    ({"retry-after": "7, 9"}, 9.0),
    ({"retry-after": "7 seconds"}, 7.0),
    ({"retry-after": "PT1M7S"}, 67.0),
    ({"x-ms-retry-after-ms": "3000"}, 3.0),
    ({"x-ratelimit-reset-after": "4"}, 4.0),
    ({"retry-after": "-3"}, None),
    ({}, None),
])  # fmt: skip
def test_retry_after_in_seconds_and_as_a_date(headers, seconds):
    assert retry_after(headers, now=lambda: 100.0) == seconds


@pytest.mark.parametrize(("known", "response_schema", "functions", "supported", "rung"), [
    (True, True, True, {"response_format", "tools"}, "json_schema"),
    (True, False, True, {"response_format", "tools"}, "tool"),
    (True, False, False, {"response_format", "tools"}, "json_object"),
    (True, True, True, {"tools"}, "tool"),
    (True, True, True, set(), "text"),
    (False, False, False, {"response_format", "tools"}, "json_schema"),
])  # fmt: skip
def test_the_first_rung_follows_what_the_model_can_do(
    known, response_schema, functions, supported, rung
):
    assert rung == top_rung(
        listed=known, response_schema=response_schema, functions=functions, supported=supported
    )


def test_the_ladder_ends():
    shape, seen = Shape("json_schema"), []
    while (
        after := adapted(shape, "response_format json tools unsupported", fixed=False, sent=())
    ) is not None:
        seen.append(after.rung)
        shape = after
    assert seen == list(RUNGS[1:])


def test_a_complaint_of_something_else_changes_nothing():
    assert (
        adapted(Shape("json_schema"), "messages must alternate", fixed=False, sent=("temperature",))
        is None
    )
    assert adapted(Shape("tool"), "response_format", fixed=True, sent=()) is None


def test_tightening_bounds_what_has_no_bound_and_nothing_else():
    schema = {
        "type": "object",
        "properties": {"free": {"type": "string"}, "short": {"type": "string", "maxLength": 5},
                       "winner": {"type": "string", "enum": ["A", "B"]},
                       "list": {"type": "array", "items": {"$ref": "#/$defs/deep"}},
                       "all": {"type": "array", "minItems": 3, "items": {"type": "string"}},
                       "maxLength": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "$defs": {"deep": {"type": "object", "properties": {"why": {"type": ["string", "null"]}}}},
    }  # fmt: skip
    before = json.dumps(schema)
    tight = tighten(schema, string_limit=80, list_limit=1)
    assert json.dumps(schema) == before
    properties = tight["properties"]
    assert properties["free"] == {"type": "string", "maxLength": 80}
    assert properties["short"] == {"type": "string", "maxLength": 5}
    assert properties["winner"] == {"type": "string", "enum": ["A", "B"]}
    assert properties["list"]["maxItems"] == 1
    assert properties["all"] == {
        "type": "array",
        "minItems": 3,
        "maxItems": 3,
        "items": {"type": "string", "maxLength": 80},
    }
    assert properties["maxLength"]["anyOf"][0] == {"type": "string", "maxLength": 80}
    assert tight["$defs"]["deep"]["properties"]["why"]["maxLength"] == 80
    assert list(properties) == list(schema["properties"])
    assert tighten(schema, string_limit=None, list_limit=None) == schema


def test_an_answer_is_cut_down_to_some_of_its_fields():
    whole = pairwise_format(["accuracy", "clarity"], tie_allowed=True).schema
    short = only(whole, ["comparison", "criterion", "reasoning", "result", "winner", "confidence"])
    assert list(short["properties"]) == short["required"] == ["comparison", "result"]
    assert list(short["properties"]["comparison"]["items"]["properties"]) == [
        "criterion",
        "reasoning",
        "winner",
    ]
    assert short["properties"]["result"]["required"] == ["reasoning", "winner", "confidence"]
    assert short["properties"]["comparison"]["minItems"] == 2


def test_a_secret_that_begins_with_another_is_taken_out_whole():
    secrets = {"ONE_KEY": "abcdefgh", "OTHER_KEY": "abcdefgh-and-more"}
    assert (
        redact("sent abcdefgh-and-more, then abcdefgh", secrets)
        == "sent [redacted], then [redacted]"
    )


FREE, OWN = Price(input=0, output=0), Price(input=1, output=2)
LISTED = Price(input=0.15, output=0.6)


@pytest.mark.parametrize(("config", "batch", "price"), [
    ({"model": "openai/gpt-4o-mini", "price": OWN}, False, OWN),
    ({"model": "openai/gpt-4o-mini"}, False, LISTED),
    ({"model": "gpt-4o-mini"}, False, LISTED),
    ({"model": "openai/nobody-knows"}, False, None),
    ({"model": "openai/gpt-4o-mini", "api_base": "http://localhost:1/v1"}, False, LISTED),
    ({"model": "openai/gpt-4o-mini", "api_base": "http://localhost:1/v1"}, True, None),
    ({"model": "local/smollm2-135m-instruct"}, False, FREE),
])  # fmt: skip
def test_the_price_is_the_configured_or_the_listed_one(config, batch, price):
    assert price_of(JudgeConfig(**config), batch=batch) == price


NOON = 1_767_182_400.0  # 2025-12-31T12:00:00Z


@pytest.mark.parametrize(("headers", "seconds"), [
    ({}, 0),
    ({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "6m0s"}, 0),
    ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360),
    ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2.5s"}, 62.5),
    ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "250ms"}, 0.25),
    ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "7"}, 7),
    ({"x-ratelimit-remaining-tokens": "0"}, 0),
    ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "soon"}, 0),
    ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1000h"}, 600),
    (
        {
            "anthropic-ratelimit-output-tokens-remaining": "0",
            "anthropic-ratelimit-output-tokens-reset": "2025-12-31T12:00:09Z",
        },
        9,
    ),
    (
        {
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "2025-12-31T11:00:00Z",
        },
        0,
    ),
])  # fmt: skip
def test_headers_say_how_long_to_rest(headers, seconds):
    assert pause_from_headers(headers, now=lambda: NOON) == pytest.approx(seconds)


@pytest.mark.parametrize("transport", ["litellm", "direct"])
async def test_a_judge_passes_on_what_its_last_answer_said(provider, transport, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key-1234")
    spent = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6s"}
    provider.script.extend([Reply(said().body, headers=spent), said()])
    config = JudgeConfig(
        model="openai/gpt-4o-mini", api_base=provider.api_base, transport=transport
    )
    [judge] = make_judges(config, RunnerConfig())
    request = JudgeRequest("c", (0,), (0,), ({"role": "user", "content": "hello"},))
    rests = []
    for _ in range(2):
        await judge.complete(request)
        rests.append(judge.rest)
    await judge.close()
    assert rests == [6.0, 0.0]


@pytest.mark.parametrize(("params", "sample", "shared", "sent"), [
    ({"seed": 7, "top_p": 0.5}, 0, False, 7),
    ({"seed": 7}, 2, False, 9),
    ({"seed": 7}, 2, True, 7),
    ({"seed": 0}, 1, False, 1),
    ({"top_p": 0.5}, 2, False, None),
])  # fmt: skip
def test_each_sample_is_drawn_with_a_seed_of_its_own(params, sample, shared, sent):
    request = JudgeRequest("c", (0,), (0,), (), sample=sample, shared=shared)
    got = sent_params(params, request)
    assert got.get("seed") == sent
    assert got.get("top_p") == params.get("top_p")


def test_an_arbiter_is_made_only_where_it_is_asked():
    def made(**swap):
        config = RunConfig(judge={"model": "a/m"}, criteria=[{"name": "c"}], swap=swap)
        return make_arbiter(config)

    wise = {"model": "a/wise", "temperature": 1}
    assert made(arbiter=wise, resolve="third_pass").spec.model == "a/wise"
    assert made(arbiter=wise) is None
    assert made(arbiter=wise, resolve="third_pass", policy="none") is None
    assert made(resolve="third_pass") is None


def test_a_manifest_names_the_arbiter_where_it_is_asked():
    def told(**swap):
        return describe_judges(
            RunConfig(judge={"model": "a/m"}, criteria=[{"name": "c"}], swap=swap)
        )

    wise = {"model": "a/wise", "temperature": 1}
    assert [one["model"] for one in told(arbiter=wise)] == ["a/m"]
    assert [
        (one["model"], one.get("arbiter")) for one in told(arbiter=wise, resolve="third_pass")
    ] == [("a/m", None), ("a/wise", True)]


async def test_samples_are_sent_with_their_seeds(provider, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    config = JudgeConfig(model="openai/gpt-4o-mini", api_base=provider.api_base, seed=5)
    [judge] = make_judges(config, RunnerConfig())
    message = ({"role": "user", "content": "x"},)
    try:
        for sample in (0, 2):
            await judge.complete(JudgeRequest("c", (0,), (0,), message, sample=sample))
    finally:
        await judge.close()
    assert [request["seed"] for request in provider.requests] == [5, 7]
