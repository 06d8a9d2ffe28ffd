"""Questions are answered as FastAPI, which describes them, would answer them."""

import json
from collections import defaultdict
from types import SimpleNamespace

import pytest

from evalkit.core.admission import Admission, Refusal
from evalkit.serving import http
from evalkit.serving.http import Limits, application
from evalkit.serving.tools import PairwiseCompareInput

VALID = {"prompt": "Why?", "response_a": "Because.", "response_b": "So."}
BODIES = {
    "a case": json.dumps(VALID),
    "a lone surrogate": '{"prompt": "\\ud800", "response_a": "a", "response_b": "b"}',
    "not a number": '{"prompt": "Why?", "response_a": "a", "response_b": "b", "metadata": {"x": NaN}}',
    "a repeated name": '{"prompt": "Why?", "prompt": "How?", "response_a": "a", "response_b": "b"}',
    "a refused case": json.dumps({**VALID, "prompt": "refuse"}),
    "an unknown field": json.dumps({**VALID, "respones": "x"}),
    "a wrong type": json.dumps({**VALID, "prompt": 3}),
    "a wrong part": json.dumps({**VALID, "prompt": [1], "metadata": []}),
    "a list": "[]",
    "a text": '"text"',
    "a number": "1",
    "nothing": "",
    "null": "null",
    "half": '{"prompt": ',
    "two": "{} {}",
    "deep": "[" * 100_000,
    "a comment": "// no\n{}",
}
STATUSES = {
    "a case": 200,
    "a lone surrogate": 200,
    "not a number": 200,
    "a repeated name": 200,
    "a refused case": 503,
}
BUSY = Refusal(503, "timeout: no answer", {"Retry-After": "1"})
NO_JSON = {"error": "the body is not valid JSON"}


async def judge(case):
    if case.prompt == "refuse":
        raise BUSY
    return {"prompt": case.prompt, "metadata": repr(case.metadata)}


async def use(_, arguments):
    if arguments.prompt == "refuse":
        raise BUSY
    return SimpleNamespace(model_dump=lambda **_: {"prompt": arguments.prompt})


def server():
    tool = SimpleNamespace(
        name="pairwise", description="", arguments=PairwiseCompareInput, result=None
    )
    service = SimpleNamespace(
        tools={"pairwise": tool},
        judge=judge,
        use=use,
        counts=defaultdict(float),
        active=0,
        stopping=False,
    )
    admission = Admission(None, largest=1_000_000, seconds=5)
    return application(service, Limits(admission))


async def answer(path, body):
    """Return the status, the headers and the content of the answer to a POST."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"here"), (b"content-type", b"application/json")],
    }
    requests = [{"type": "http.request", "body": body, "more_body": False}]
    sent = []

    async def receive():
        return requests.pop()

    async def send(message):
        sent.append(message)

    await server()(scope, receive, send)
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], sorted(sent[0]["headers"]), content


@pytest.mark.parametrize("path", ["/judge", "/pairwise"])
@pytest.mark.parametrize("name", BODIES)
async def test_a_question_is_answered_as_the_described_path_answers_it(path, name, monkeypatch):
    body = BODIES[name]
    if path == "/pairwise":
        body = body.replace('"prompt"', '"criteria": ["clarity"], "prompt"', 1)
    answered = await answer(path, body.encode())
    monkeypatch.setattr(http._Questions, "add", lambda *_: None)
    described = await answer(path, body.encode())
    assert answered[0] == described[0] == STATUSES.get(name, 422)
    # FastAPI has its own words for these.
    if name in ("nothing", "deep"):
        assert json.loads(answered[2]) == NO_JSON
    else:
        assert answered == described


async def test_bytes_that_are_no_text_are_no_json():
    status, _, content = await answer("/judge", b"\xff\xfe{")
    assert (status, json.loads(content)) == (422, NO_JSON)
