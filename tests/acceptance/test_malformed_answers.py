"""Answers of every malformed kind at 30% of requests: each run completes, and a failure is one row."""

import gzip
import json
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.command_line import BRIEF, fake, pair, prefers
from tests.support.fake_provider import Reply, said

LIMIT = 200_000
HALF = "\ud800"
DEEP = b'{"a":' * 200_000 + b"1" + b"}" * 200_000
Make = Callable[[str], Any]


def body(text: str, **more: Any) -> dict[str, Any]:
    return {**said(text).body, **more}


def choice(text: str, **more: Any) -> dict[str, Any]:
    [first] = said(text).body["choices"]
    return body(text, choices=[{**first, **more}])


def message(text: str, **more: Any) -> dict[str, Any]:
    [first] = said(text).body["choices"]
    return choice(text, message={**first["message"], **more})


def usage(value: Any) -> Make:
    return lambda text: body(text, usage=value)


def counts(prompt: Any, completion: Any = 3) -> Make:
    return usage({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": 1})


def logprobs(value: Any) -> Make:
    return lambda text: choice(text, logprobs=value)


def content(value: Any) -> Make:
    return lambda text: message(text, content=value)


def token(**more: Any) -> dict[str, Any]:
    return {"content": [{"token": "x", "logprob": -0.1, "bytes": None, "top_logprobs": [], **more}]}


def squeezed(text: str) -> Reply:
    return Reply(
        gzip.compress(json.dumps(body(text)).encode()), headers={"content-encoding": "gzip"}
    )


# Only what nobody needs is broken: the answer counts, without it.
KEPT: dict[str, Make] = {
    "usage text": usage("many"),
    "usage list": usage([1, 2]),
    "usage number": usage(12.5),
    "usage NaN": usage(float("nan")),
    "usage true": usage(True),
    "usage empty": usage({}),
    "tokens negative": counts(-868_451_000_000, -5),
    "tokens text": counts("12", "3"),
    "tokens float": counts(12.5, 3.5),
    "tokens NaN": counts(float("nan"), float("inf")),
    "tokens list": counts([12], {"n": 3}),
    "tokens huge": counts(10**40),
    "tokens null": counts(None, None),
    "completion negative": counts(12, -3),
    "details text": usage(
        {"prompt_tokens": 12, "completion_tokens": 3, "prompt_tokens_details": "none"}
    ),
    "cached negative": usage(
        {
            "prompt_tokens": 12,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": -9},
        }
    ),
    "cached text": usage(
        {
            "prompt_tokens": 12,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": "x"},
        }
    ),
    "model object": lambda text: body(text, model={"name": "m"}),
    "model number": lambda text: body(text, model=7),
    "model half a character": lambda text: body(text, model=f"m{HALF}"),
    "model very long": lambda text: body(text, model="m" * 100_000),
    "model list": lambda text: body(text, model=["m"]),
    "id object": lambda text: body(text, id={}, created="yesterday", object=[]),
    "created NaN": lambda text: body(text, created=float("nan")),
    "system_fingerprint list": lambda text: body(text, system_fingerprint=[1], service_tier={}),
    "finish object": lambda text: choice(text, finish_reason={"why": "stop"}),
    "finish list": lambda text: choice(text, finish_reason=["stop"]),
    "finish number": lambda text: choice(text, finish_reason=3),
    "index text": lambda text: choice(text, index="first"),
    "reasoning object": lambda text: message(text, reasoning={"steps": [1]}),
    "reasoning_content list": lambda text: message(text, reasoning_content=[{"text": "hm"}]),
    "reasoning half a character": lambda text: message(text, reasoning_content=HALF),
    "role object": lambda text: message(text, role={}),
    "role unknown": lambda text: message(text, role=5),
    "psf text": lambda text: message(text, provider_specific_fields="none"),
    "psf list": lambda text: message(text, provider_specific_fields=[1]),
    "refusal object": lambda text: message(text, refusal={"a": 1}),
    "annotations text": lambda text: message(text, annotations="none", audio=5, images="x"),
    "tool_calls text": lambda text: message(text, tool_calls="none"),
    "tool_calls object": lambda text: message(text, tool_calls={"function": None}),
    "tool_calls of null": lambda text: message(text, tool_calls=[None, 3, {"function": "f"}]),
    "function_call text": lambda text: message(text, function_call="f"),
    "logprobs text": logprobs("none"),
    "logprobs list": logprobs([1]),
    "logprobs of text": logprobs({"content": "abc"}),
    "logprobs of numbers": logprobs({"content": [1, 2]}),
    "logprobs without token": logprobs({"content": [{"logprob": 0}]}),
    "logprob text": logprobs(token(logprob="low")),
    "logprob positive": logprobs(token(logprob=1e300)),
    "top_logprobs text": logprobs(token(top_logprobs="x")),
    "top_logprobs broken": logprobs(token(top_logprobs=[{"token": 5}])),
    "bytes text": logprobs(token(bytes="xy")),
    "bytes out of range": logprobs(token(bytes=[300, -1])),
    "token half a character": logprobs(token(token=HALF)),
    "half a character in the content": lambda text: message(text, content=f"{HALF} {text}"),
    "content parts": lambda text: message(text, content=[{"type": "text", "text": text}]),
    "further choices broken": lambda text: body(text, choices=[*body(text)["choices"], None, "x"]),
    "error null": lambda text: body(text, error=None),
    "error empty": lambda text: body(text, error={}),
    "unknown keys": lambda text: body(text, x_groq=[], citations="c", **{"": 1, HALF: 2}),
    "gzip": squeezed,
}

# What is needed is not there: the call failed, in one row.
FAILED: dict[str, Make] = {
    "content number": content(5),
    "content true": content(True),
    "content of numbers": content([1, 2]),
    "message null": lambda text: choice(text, message=None),
    "message text": lambda text: choice(text, message="[[A]]"),
    "message list": lambda text: choice(text, message=["[[A]]"]),
    "choices null": lambda text: body(text, choices=None),
    "choices text": lambda text: body(text, choices="[[A]]"),
    "choices object": lambda text: body(text, choices={"0": {}}),
    "choices empty": lambda text: body(text, choices=[]),
    "choice null": lambda text: body(text, choices=[None]),
    "choice text": lambda text: body(text, choices=["[[A]]"]),
    "no choices": lambda text: {"id": "1"},
    "empty object": lambda text: {},
    "JSON list": lambda text: [1],
    "JSON null": lambda text: Reply(b"null"),
    "JSON text": lambda text: Reply(b'"[[A]]"'),
    "JSON number of many digits": lambda text: Reply(b'{"choices": ' + b"9" * 10_000 + b"}"),
    "deep": lambda text: Reply(DEEP[:LIMIT]),
    "deep usage": lambda text: Reply(
        b'{"usage": ' + b"[" * 60_000 + b"]" * 60_000 + b', "choices": []}'
    ),
    "empty": lambda text: Reply(b""),
    "half": lambda text: Reply(b'{"choices": [{"mess'),
    "not UTF-8": lambda text: Reply(b'{"choices": "\xff\xfe\xfa"}'),
    "HTML": lambda text: Reply(b"<html>busy</html>"),
    "cut": lambda text: Reply(body(text), cut=True),
    "error text": lambda text: body(text, error="overloaded"),
    "error list": lambda text: body(text, error=[1]),
    "error code object": lambda text: {"error": {"message": {"a": 1}, "code": {"b": 2}}},
    "error half a character": lambda text: {"error": {"message": f"busy {HALF}", "code": 503}},
    "error code huge": lambda text: {"error": {"message": "busy", "code": 10**30}},
    "error code 401": lambda text: {"error": {"message": "busy", "code": 401}},
    "too long": lambda text: body(text, padding="x" * LIMIT),
    "a bomb": lambda text: Reply(
        zlib.compress(b" " * 50_000_000), headers={"content-encoding": "deflate"}
    ),
    "broken gzip": lambda text: Reply(b"not gzip", headers={"content-encoding": "gzip"}),
    "unknown compression": lambda text: Reply(
        json.dumps(body(text)).encode(), headers={"content-encoding": "br"}
    ),
    "redirect": lambda text: Reply(
        b"", 307, {"location": "http://127.0.0.1:1/v1/chat/completions?key=x"}
    ),
    "retry-after NaN": lambda text: Reply(
        {"error": {"message": "busy"}}, 503, {"retry-after": "nan"}
    ),
    "retry-after a far date": lambda text: Reply(
        {"error": {"message": "busy"}}, 503, {"retry-after": "Mon, 01 Jan 0001 00:00:00 +2359"}
    ),
}
KINDS = {**KEPT, **FAILED}


class Malforming:
    """Answers right in 70% of requests, and in each of the others in a kind of its own, however often it is asked."""

    def __init__(self) -> None:
        self.honest = prefers()
        self.malforms = True
        self.kinds: dict[str, str | None] = {}
        self.asked: Counter[str] = Counter()
        self._unused: Iterator[str] = iter(KINDS)
        self._lock = threading.Lock()

    def __call__(self, request: dict[str, Any]) -> Reply:
        right, key = self.honest(request), json.dumps(request["messages"])
        with self._lock:
            self.asked[key] += 1
            if key not in self.kinds:
                self.kinds[key] = next(self._unused, None) if len(self.kinds) % 10 < 3 else None
            kind = self.kinds[key]
        if kind is None or not self.malforms:
            return right
        made = KINDS[kind](right.body["choices"][0]["message"]["content"])
        return made if isinstance(made, Reply) else Reply(made)


@pytest.mark.parametrize(
    "transport", [pytest.param("litellm", marks=pytest.mark.thorough), "direct"]
)
def test_a_malformed_answer_costs_at_most_one_row(
    transport, within, commands, provider, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key-1234")
    monkeypatch.setattr("evalkit.engine.backoff.FIRST_WAIT", 0.001)
    assert len(KINDS) >= 60
    provider.rule = server = Malforming()
    commands.write("cases.jsonl", *(pair(n) for n in range(len(KINDS) * 5 // 3 + 5)))
    words = [
        *(
            *("run", *fake(provider), "dataset=file", "dataset.path=cases.jsonl", *BRIEF),
            "output=bracket",
        ),
        *(
            f"judge.transport={transport}",
            f"judge.max_answer_bytes={LIMIT}",
            "judge.price={input: 1, output: 1}",
        ),
        *(
            "judge.max_tokens=100",
            "runner.retries=1",
            "runner.max_failure_rate=1",
            "runner.budget_usd=1",
        ),
    ]
    within(*words, "hydra.run.dir=out")
    rows = [
        json.loads(line)
        for line in (commands.folder / "out/judgments.jsonl").read_text("utf-8").splitlines()
    ]
    assert set(server.kinds.values()) - {None} == set(KINDS)
    share = sum(kind is not None for kind in server.kinds.values()) / len(server.kinds)
    assert share == pytest.approx(0.3, abs=0.02)
    assert len(rows) == len(server.kinds)
    failed = [row for row in rows if row["status"] == "failed"]
    assert sum(row["status"] == "ok" for row in rows) == len(rows) - len(FAILED)
    assert all(row["value"] == 1.0 for row in rows if row["status"] == "ok")
    assert len(failed) == len(FAILED)
    assert {row["error_kind"] for row in failed} <= {
        *("bad_response", "server", "connection", "bad_request"),
    }
    words_of_python = ("Error:", "Traceback", "object has no", "NoneType", "recursion")
    said_so = [row["error"] for row in failed if row["error_kind"] != "connection"]
    assert [error for error in said_so if any(word in error for word in words_of_python)] == []
    # Each was asked once, and those that failed once more, if that can help.
    for key, kind in server.kinds.items():
        assert server.asked[key] <= (2 if kind in FAILED else 1), kind
    metrics = commands.metrics("out")
    assert all(value >= 0 for value in metrics["tokens"].values())
    # What was answered is stored: only what failed is asked again.
    server.malforms, before = False, Counter(server.asked)
    within(*words, "hydra.run.dir=again")
    asked_again = server.asked - before
    assert {server.kinds[key] for key in asked_again} == set(FAILED)
    assert commands.metrics("again")["calls"]["sent"] == len(FAILED)
