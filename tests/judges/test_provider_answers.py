"""What providers answer that their rows do not list, through the command line."""

import gzip
import json

import pytest

from evalkit.engine import outages
from tests.support.fake_provider import Reply, refused
from tests.support.provider_play import case_of, play, verdict

pytestmark = pytest.mark.usefixtures("_environment")
TRANSPORTS = ("direct", pytest.param("litellm", marks=pytest.mark.thorough))


@pytest.fixture
def _environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key-1234")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(outages, "LOOK_EVERY", 0.05)


def third(reply):
    return lambda body, number: verdict() if number % 3 else reply


def one(reply):
    return lambda body, _: reply if case_of(body) == 2 else verdict()


def in_text(body):
    [choice] = body["choices"]
    text = choice["message"]["content"]
    return {**body, "choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}


def with_message(finish="stop", **message):
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    return Reply({**verdict().body, "choices": [choice]})


def events(*deltas, end="stop"):
    """A stream as servers send it that always stream; without an end, it was cut."""
    parts = [{"delta": {"content": delta}, "finish_reason": None} for delta in deltas]
    if end is not None:
        parts.append({"delta": {}, "finish_reason": end})
    lines = [f"data: {json.dumps({'id': 'c', 'choices': [part]})}\n\n" for part in parts]
    return Reply("".join([": hello\n\n", *lines]).encode())


TEXT = verdict().body["choices"][0]["message"]["content"]
GATEWAY = Reply(b"404 page not found\n", 404)
NOT_WRITTEN = refused(400, "The generated JSON does not match", code="json_validate_failed")
NO_ROUTE = refused(404, "No endpoints found that can handle the requested parameters.")
ONLY_STREAMS = refused(400, "This model only support stream mode, please enable it.")
GZIP = {"content-encoding": "gzip"}
FINISHED = {
    "a generation that failed": (third(NOT_WRITTEN), 8),
    "an error without a code": (third(Reply({"error": "upstream timeout"})), 8),
    "an error that cannot be decompressed": (third(Reply(b"\x1f\x8b..", 503, GZIP)), 8),
    "a route without formats": (
        lambda body, _: NO_ROUTE if "response_format" in body else verdict(),
        7,
    ),
    "a refused part of the format": (
        lambda body, _: (
            refused(400, "Unknown field: strict") if "strict" in json.dumps(body) else verdict()
        ),
        7,
    ),
    "a choice without a list": (
        lambda *_: Reply({**verdict().body, "choices": verdict().body["choices"][0]}),
        6,
    ),
    "a text instead of a message": (lambda *_: Reply(in_text(verdict().body)), 6),
    "an answer in a list": (lambda *_: Reply([verdict().body]), 6),
    "an answer in an envelope": (lambda *_: Reply({"code": 0, "data": verdict().body}), 6),
    "a stream that nobody asked for": (lambda *_: events(TEXT[:40], TEXT[40:]), 6),
    "a model that only streams": (
        lambda body, _: events(TEXT) if body.get("stream") else ONLY_STREAMS,
        7,
    ),
    "an answer as the text of a function's": (
        lambda *_: Reply({"statusCode": 200, "body": json.dumps(verdict().body)}),
        6,
    ),
    "an error as the text of a function's": (
        third(Reply({"statusCode": 503, "body": json.dumps({"error": "busy"})})),
        8,
    ),
    "headers that are long or not ASCII": (
        lambda *_: Reply(verdict().body, headers={"x-policy": "a" * 9000, "x-note": "caf\u00e9"}),
        6,
    ),
    "a stream that was cut": (third(events(TEXT, end=None)), 8),
    "a part without a type": (lambda *_: with_message(content=[{"text": TEXT}]), 6),
    "a part without a list": (lambda *_: with_message(content={"type": "text", "text": TEXT}), 6),
    "a gateway whose server restarts": (
        lambda _, number: GATEWAY if number in (4, 5) else verdict(),
        8,
    ),
    "a compressed answer": (
        lambda *_: Reply(gzip.compress(json.dumps(verdict().body).encode()), headers=GZIP),
        6,
    ),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("row", FINISHED)
def test_nothing_is_lost_or_paid_twice(tmp_path, capfd, row, transport):
    rule, calls = FINISHED[row]
    words = ("judge.concurrency=1", "runner.retries=2")
    played = play(tmp_path, capfd, rule, *words, transport=transport)
    assert played.statuses == {"ok": 6}, played.errors
    assert len(played.provider.requests) == calls


FILTER = {"content_filter_results": {"violence": {"filtered": True}}}
BLOCKED = {
    "no message": Reply({"choices": [{"finish_reason": "content_filter", "message": None}]}),
    "no choices": Reply({"choices": [], "prompt_filter_results": [FILTER]}),
    "a reason": Reply({"choices": [], "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
    "a part": with_message(content=[{"type": "refusal", "refusal": "I cannot help"}]),
}


@pytest.mark.parametrize("row", BLOCKED)
def test_what_a_filter_blocks_is_refused_and_not_asked_again(tmp_path, capfd, row):
    played = play(tmp_path, capfd, one(BLOCKED[row]))
    assert played.statuses == {"ok": 5, "refused": 1}
    assert len(played.provider.requests) <= 7  # a refusal may be asked about once more


FOO = ("+judge.params.foo=1",)
ENDS = {
    "a server of texts": (Reply([{"generated_text": "x [[A]]"}]), (), 1, "judge.api_base"),
    "a model of another address": (
        refused(404, "This model is only supported in v1/responses."),
        (),
        1,
        "judge.model=openai/responses/",
    ),
    "a server without a chat template": (
        refused(400, "default chat template is no longer allowed"),
        (),
        1,
        "judge.endpoint=completion",
    ),
    "no route in any format": (NO_ROUTE, (), 4, "judge.params"),
    "an unreadable refusal of the key": (Reply(b"\x1f\x8b..", 401, GZIP), (), 1, "OPENAI_API_KEY"),
    "a parameter that is not known": (
        refused(422, "Extra inputs are not permitted: foo"),
        FOO,
        3,
        "judge.params",
    ),
    "a limit that is too high": (
        refused(400, "max_tokens is too large: 100000"),
        ("judge.max_tokens=100000",),
        6,
        "judge.max_tokens",
    ),
    "a limit that is too high, in words": (
        refused(400, "The maximum tokens you requested exceeds the model limit of 4096."),
        ("judge.max_tokens=100000",),
        6,
        "judge.max_tokens",
    ),
    "a login page": (Reply(b"<html>Sign in</html>"), (), 3, "judge.api_base"),
    "a suspended account": (refused(412, "Account x is suspended"), (), 1, "add credit"),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("row", ENDS)
def test_what_every_request_meets_ends_the_run(tmp_path, capfd, row, transport):
    reply, words, calls, remedy = ENDS[row]
    words = (*words, "judge.concurrency=1")
    played = play(tmp_path, capfd, lambda *_: reply, *words, transport=transport)
    assert played.status == 1
    assert len(played.provider.requests) == calls
    assert remedy in played.output


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_answer_that_an_error_calls_truncated_is_not_asked_again(tmp_path, capfd, transport):
    words = "Could not finish the message because max_tokens or model output limit was reached"
    played = play(tmp_path, capfd, one(refused(400, words)), transport=transport)
    assert played.statuses == {"ok": 5, "unparseable": 1}
    assert "truncated at judge.max_tokens" in played.errors
    assert len(played.provider.requests) == 6
