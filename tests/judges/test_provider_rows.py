"""What providers really answer: each form through both transports, and what ends a run through the command line."""

import gzip
import json
from collections import Counter

import pytest

from evalkit.cli import main
from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.core.errors import JudgeSetupError
from evalkit.core.finish_reasons import end_of
from evalkit.core.types import JudgeRequest
from evalkit.engine import outages
from evalkit.evaluators.json_answers import pairwise_format
from evalkit.judges import make_judges
from tests.support.fake_provider import Reply, refused, said, serving
from tests.support.provider_play import TRANSPORTS, case_of, play, verdict

pytestmark = pytest.mark.usefixtures("_environment")
KEY = "sk-very-secret-key-1234"
PATIENT = ("judge.concurrency=1", "runner.retries=2", "runner.max_failure_rate=1")


@pytest.fixture
def _environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(outages, "LOOK_EVERY", 0.05)


def with_message(finish="stop", error=None, **message):
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    if error:
        choice["error"] = error
    return Reply({**verdict().body, "choices": [choice]})


def events(*deltas, end="stop"):
    """A stream as servers send it that always stream; without an end, it was cut."""
    parts = [{"delta": {"content": delta}, "finish_reason": None} for delta in deltas]
    if end is not None:
        parts.append({"delta": {}, "finish_reason": end})
    lines = [f"data: {json.dumps({'id': 'c', 'choices': [part]})}\n\n" for part in parts]
    return Reply("".join([": hello\n\n", *lines]).encode())


def called(arguments, **call):
    part = {"index": 0, "function": {"arguments": arguments, **call}}
    return {"index": 0, "delta": {"tool_calls": [part]}, "finish_reason": None}


def stream(*choices):
    lines = [f"data: {json.dumps({'id': 'c', 'choices': [choice]})}\n\n" for choice in choices]
    return Reply("".join([*lines, "data: [DONE]\n\n"]).encode())


def of_function(status, body):
    return Reply({"statusCode": status, "body": json.dumps(body)})


ANSWER = verdict().body
[CHOICE] = ANSWER["choices"]
TEXT = CHOICE["message"]["content"]
AS_TEXT = {"index": 0, "text": TEXT, "finish_reason": "stop"}
QUOTA = "You exceeded your current quota, please check your plan and billing details."
RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.1s"}
GOOGLE = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": f"{QUOTA} Please retry in 0.1s."}
GEMINI = {"error": {**GOOGLE, "details": [RETRY_INFO]}}
BILLING = refused(429, "Slow down, see https://x.com/account/billing", retry_after="0.1")
NOT_WRITTEN = refused(400, "The generated JSON does not match", code="json_validate_failed")
GZIP = {"content-encoding": "gzip"}
UPSTREAM = {"code": 502, "message": "upstream"}
PASSING = {
    "quota of a minute": Reply(GEMINI, 429),
    "the same in Google's list": Reply([GEMINI], 429),
    "link to a billing page": BILLING,
    "wait in words only": refused(429, "Rate limit. Please try again in 80ms."),
    "an error on the choice": with_message(finish="error", content="half", error=UPSTREAM),
    "a generation that failed": NOT_WRITTEN,
    "an error without a code": Reply({"error": "upstream timeout"}),
    "an error that cannot be decompressed": Reply(b"\x1f\x8b..", 503, GZIP),
    "an error as the text of a function's": of_function(503, {"error": "busy"}),
    "a stream that was cut": events(TEXT, end=None),
}
"""What is asked again once."""
FORMS = {
    "a choice without a list": Reply({**ANSWER, "choices": CHOICE}),
    "a text instead of a message": Reply({**ANSWER, "choices": [AS_TEXT]}),
    "an answer in a list": Reply([ANSWER]),
    "an answer in an envelope": Reply({"code": 0, "data": ANSWER}),
    "a stream that nobody asked for": events(TEXT[:40], TEXT[40:]),
    "a stream of a tool call": stream(
        called(TEXT[:40], name="judge"),
        called(TEXT[40:]),
        {"index": 0, "delta": {}, "finish_reason": "tool_calls"},
    ),
    "a stream of two choices": stream(
        {"index": 0, "delta": {"content": TEXT[:40]}},
        {"index": 1, "delta": {"content": "I cannot"}},
        {"index": 0, "delta": {"content": TEXT[40:]}, "finish_reason": "stop"},
    ),
    "an answer as the text of a function's": of_function(200, ANSWER),
    "long headers, not ASCII": Reply(ANSWER, headers={"x-p": "a" * 9000, "x-n": "caf\u00e9"}),
    "a part without a type": with_message(content=[{"text": TEXT}]),
    "a part without a list": with_message(content={"type": "text", "text": TEXT}),
    "a compressed answer": Reply(gzip.compress(json.dumps(ANSWER).encode()), headers=GZIP),
}
"""What is read at once."""


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_nothing_is_lost_or_paid_twice(tmp_path, capfd, transport):
    replies, asked = {**PASSING, **FORMS}, Counter()
    rows = [*replies]

    def rule(body, _):
        row = rows[case_of(body)]
        asked[row] += 1
        return replies[row] if asked[row] == 1 else verdict()

    played = play(tmp_path, capfd, rule, *PATIENT, transport=transport, cases=len(rows))
    by_row = {rows[int(one["case_id"][1:])]: one["status"] for one in played.judgments}
    assert by_row == dict.fromkeys(rows, "ok"), played.errors
    assert asked == {**dict.fromkeys(PASSING, 2), **dict.fromkeys(FORMS, 1)}
    assert played.status == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_gateway_whose_server_restarts_loses_nothing(tmp_path, capfd, transport):
    gateway = Reply(b"404 page not found\n", 404)
    rule = lambda _, number: gateway if number in (4, 5) else verdict()  # noqa: E731
    played = play(tmp_path, capfd, rule, *PATIENT, transport=transport)
    assert played.statuses == {"ok": 6}, played.errors
    assert len(played.provider.requests) == 8


def sends(name, reply):
    """Requests with a parameter get a reply."""
    return lambda body: reply if name in body else verdict()


def formatted(kind, reply):
    """Requests for a form of the answer get a reply."""
    return lambda body: (
        reply if (body.get("response_format") or {}).get("type") == kind else verdict()
    )


def with_system(words):
    return lambda body: (
        refused(400, words)
        if any(message["role"] == "system" for message in body["messages"])
        else verdict()
    )


def many_alternatives(body):
    words = "Requested sample logprobs of 20, which is greater than max allowed: 5"
    return refused(400, words) if body.get("top_logprobs", 0) > 5 else verdict()


def strict(body):
    return refused(400, "Unknown field: strict") if "strict" in json.dumps(body) else verdict()


def streaming(body):
    words = "This model only support stream mode, please enable it."
    return events(TEXT) if body.get("stream") else refused(400, words)


NOT_MAX_TOKENS = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
    " 'max_completion_tokens' instead."
)
AZURE = "not supported MaxTokens, use MaxCompletionTokens"
NO_RIGHT = refused(403, "You are not allowed to request logprobs from this model")
IN_FIELD = Reply({"error": {"message": "Unsupported parameter.", "param": "temperature"}}, 400)
NO_LOGPROBS = Reply({"error": "logprobs is not supported"}, 500)
NO_ROUTE = refused(404, "No endpoints found that can handle the requested parameters.")
LITERAL = refused(500, "1 validation error: Input should be 'text' or 'json_object'")
INVALID = refused(400, "Request contains an invalid argument.")
UNKNOWN_LIMIT = refused(400, "Unknown parameter: max_completion_tokens")
WEIGHED, LIMITED = {"logprobs": "fallback"}, {"max_tokens": 500}
NEWER = {"params": {"max_completion_tokens": 500}}
ADAPTED = {
    "no right to logprobs": (sends("logprobs", NO_RIGHT), WEIGHED),
    "no log-probabilities, as an internal error": (sends("logprobs", NO_LOGPROBS), WEIGHED),
    "fewer alternatives": (many_alternatives, WEIGHED),
    "another name of the limit": (sends("max_tokens", refused(400, NOT_MAX_TOKENS)), LIMITED),
    "the same as Azure says it": (sends("max_tokens", refused(400, AZURE)), LIMITED),
    "the older name of the limit": (sends("max_completion_tokens", UNKNOWN_LIMIT), NEWER),
    "no system role": (with_system("System role not supported"), {}),
    "no developer instruction": (with_system("Developer instruction is not enabled for m"), {}),
    "roles in turn": (with_system("Conversation roles must alternate user/assistant/..."), {}),
    "a schema without a word": (formatted("json_schema", INVALID), {}),
    "a schema named in an internal error": (formatted("json_schema", LITERAL), {}),
    "a parameter named by a field": (sends("temperature", IN_FIELD), {"temperature": 0}),
    "a route without formats": (sends("response_format", NO_ROUTE), {}),
    "a refused part of the format": (strict, {}),
    "a model that only streams": (streaming, {}),
}
MESSAGES = ({"role": "system", "content": "Judge."}, {"role": "user", "content": "question 2?"})
ANSWER_FORM = pairwise_format(["overall quality"], tie_allowed=True)
REQUEST = JudgeRequest("c2", (0, 1), (0, 1), MESSAGES, ANSWER_FORM)
PLAIN = JudgeRequest("c2", (0, 1), (0, 1), MESSAGES)


async def told(provider, transport, *requests, **config):
    """What a judge returns for requests in turn, or why no call to it can succeed."""
    address = {"api_base": provider.api_base, "transport": transport}
    [judge] = make_judges(JudgeConfig(model="openai/m", **address, **config), RunnerConfig())
    try:
        return [(await judge.complete(request)).text for request in requests]
    except JudgeSetupError as error:
        return str(error)
    finally:
        await judge.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("row", ADAPTED)
async def test_what_a_request_can_be_adapted_to_is_asked_once_more(provider, row, transport):
    provider.rule, config = ADAPTED[row]
    assert await told(provider, transport, REQUEST, REQUEST, **config) == [TEXT, TEXT]
    assert len(provider.requests) == 3


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_schema_that_is_an_internal_error_is_given_up(tmp_path, capfd, transport):
    rule = formatted("json_schema", refused(500, "Internal server error"))
    played = play(tmp_path, capfd, lambda body, _: rule(body), *PATIENT, transport=transport)
    assert played.statuses == {"ok": 6}, played.errors
    assert len(played.provider.requests) == 8


FILTERED = {"content_filter_results": {"violence": {"filtered": True}}}
TRUNCATED = "Could not finish the message because max_tokens or model output limit was reached"
PARTIAL = {
    "judged": (verdict(), "ok"),
    "flagged": (refused(403, "Your input was flagged"), "refused"),
    "filtered by Azure": (refused(400, "x", code="content_filter"), "refused"),
    "too long": (refused(400, "prompt is too long: 9 tokens > 5 maximum"), "failed"),
    "judged, too": (verdict(), "ok"),
    "blocked by a firewall": (Reply(b"<html>blocked</html>", 403), "failed"),
    "too large": (refused(413, "Request too large"), "failed"),
    "judged as well": (verdict(), "ok"),
    "not implemented": (refused(501, "not implemented"), "failed"),
    "truncated by an error": (refused(400, TRUNCATED), "unparseable"),
}
BLOCKED = {
    "no message": Reply({"choices": [{"finish_reason": "content_filter", "message": None}]}),
    "no choices": Reply({"choices": [], "prompt_filter_results": [FILTERED]}),
    "a reason": Reply({"choices": [], "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
    "a part": with_message(content=[{"type": "refusal", "refusal": "I cannot help"}]),
}
"""What a filter blocks may be asked about once more."""


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_error_about_one_request_ends_no_run_and_is_not_repeated(tmp_path, capfd, transport):
    rows = {**PARTIAL, **{row: (reply, "refused") for row, reply in BLOCKED.items()}}
    names = [*rows]
    rule = lambda body, _: rows[names[case_of(body)]][0]  # noqa: E731
    played = play(tmp_path, capfd, rule, *PATIENT, transport=transport, cases=len(rows))
    found = {names[int(one["case_id"][1:])]: one["status"] for one in played.judgments}
    assert found == {row: status for row, (_, status) in rows.items()}
    assert "truncated at judge.max_tokens" in played.errors
    asked = Counter(names[case_of(body)] for body in played.provider.requests)
    assert {asked[row] for row in PARTIAL} == {1}
    assert max(asked.values()) <= 2


SPENT = {"message": "Budget has been exceeded! Max budget: 1", "type": "budget_exceeded"}
LOW = "Your credit balance is too low to access the API"
LONG_LIMIT = "The maximum tokens you requested exceeds the model limit of 4096."
LOGIN = Reply(b"", 302, {"location": "https://login.example/x"})
FIREWALL = Reply(b"<html><title>405 Not Allowed</title></html>", 405)
LOST = refused(404, "The model `m` has been deprecated", code="model_not_found")
WRONG_PATH = Reply({"detail": "Not Found"}, 404)
ENDS = {
    "a spent budget": (Reply({"error": SPENT}, 422), {}, 1, "add credit or raise the budget"),
    "no credit": (refused(402, "Insufficient Balance"), {}, 1, "add credit"),
    "no credit, as a bad request": (refused(400, LOW), {}, 1, "add credit"),
    "a suspended account": (refused(412, "Account x is suspended"), {}, 1, "add credit"),
    "a disabled account": (refused(400, "This organization has been disabled."),
                           *({}, 1, "ask the provider to open it")),
    "a region": (refused(403, "Country, region, or territory not supported"),
                 *({}, 1, "use another network or provider")),
    "a wrong key": (refused(401, "Incorrect API key"), {}, 1, "OPENAI_API_KEY"),
    "the same in a bad request": (refused(400, "API key not valid."), {}, 1, "OPENAI_API_KEY"),
    "the same, unreadable": (Reply(b"\x1f\x8b..", 401, GZIP), {}, 1, "OPENAI_API_KEY"),
    "a wrong path": (WRONG_PATH, {}, 1, "ends with /v1"),
    "a server of pages": (FIREWALL, {}, 1, "ends with /v1"),
    "an unknown model": (refused(400, "Invalid model name model=m"), None, 1, "judge.model"),
    "a lost model": (LOST, {}, 1, "check judge.model"),
    "a login page elsewhere": (LOGIN, {}, 1, "check judge.api_base"),
    "a server of texts": (Reply([{"generated_text": "x [[A]]"}]), {}, 1, "judge.api_base"),
    "a model of another address": (refused(404, "This model is only supported in v1/responses."),
                                   *({}, 1, "judge.model=openai/responses/")),
    "a server without a chat template": (refused(400, "default chat template is no longer allowed"),
                                         *({}, 1, "judge.endpoint=completion")),
    "no route in any format": (NO_ROUTE, {}, 4, "judge.params"),
}  # fmt: skip
"""Replies to every request, settings (none: asked for plain text), calls, and a part of the remedy."""


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("row", ENDS)
async def test_what_no_call_can_get_past_is_said_with_a_remedy(provider, row, transport):
    reply, config, calls, remedy = ENDS[row]
    provider.rule = lambda _: reply
    request = PLAIN if config is None else REQUEST
    said = await told(provider, transport, request, **(config or {}))
    assert isinstance(said, str), said
    assert remedy in said
    assert "response_format=auto" not in said
    assert len(provider.requests) == calls


IN_TEXT = ("judge.response_format=text", "output=bracket")
FOO, MANY = ("+judge.params.foo=1",), ("judge.max_tokens=100000",)
ENDED = {
    "a spent budget": (ENDS["a spent budget"][0], (), 1, "add credit or raise the budget"),
    "a wait of hours": (refused(429, "slow", retry_after="7200"), (), 1, "run again then"),
    "a login page": (Reply(b"<html>Sign in</html>"), (), 3, "judge.api_base"),
    "a page of a gateway": (Reply(b"<html>Wait...</html>", 403), (), 3, "check judge.api_base"),
    "a bad grammar": (refused(400, "failed to parse grammar"), IN_TEXT, 1, "judge.params"),
    "an unknown parameter": (refused(422, "Extra inputs not permitted: foo"), FOO, 3, "params"),
    "a limit too high": (refused(400, "max_tokens is too large"), MANY, 6, "judge.max_tokens"),
    "the same in words": (refused(400, LONG_LIMIT), MANY, 6, "judge.max_tokens"),
}
"""What the first calls of a run meet all alike, so that it ends."""


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("row", ENDED)
def test_what_ends_a_run_leaves_no_folder(tmp_path, capfd, row, transport):
    reply, words, calls, remedy = ENDED[row]
    words = (*words, "judge.concurrency=1")
    played = play(tmp_path, capfd, lambda *_: reply, *words, transport=transport)
    assert played.status == 1
    assert not played.folder.exists()
    assert remedy in played.output
    assert "response_format=auto" not in played.output
    assert len(played.provider.requests) == calls


PER_DAY = refused(429, "Tokens per day. Please try again in 2h10m3.5s")
MAINTAINED = refused(503, "maintenance", retry_after="7200")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("reply", "remedies"), [
    *((ENDS[row][0], ENDS[row][3:]) for row in ("a spent budget", "a wrong key")),
    *((ENDS[row][0], ENDS[row][3:]) for row in ("a wrong path", "a lost model")),
    (PER_DAY, ("asks to wait 2 h 11 min", "run again then")),
    (MAINTAINED, ("asks to wait 2 h before", "run again then")),
])  # fmt: skip
def test_answers_before_the_end_are_written(tmp_path, capfd, reply, remedies, transport):
    rule = lambda _, number: verdict() if number < 4 else reply  # noqa: E731
    played = play(tmp_path, capfd, rule, "judge.concurrency=1", transport=transport)
    assert played.status == 2
    assert played.statuses == {"ok": 3, "failed": 3}
    assert len(played.provider.requests) == 4
    assert all(remedy in played.output for remedy in remedies)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("reply", [refused(404, "no such file"), LOGIN, FIREWALL])
@pytest.mark.parametrize(("absent", "calls"), [((2, 4), 8), ((2, 3, 4, 5, 6), 5)])
def test_what_is_not_there_for_one_request_ends_the_run_only_if_it_goes_on(
    tmp_path, capfd, absent, calls, reply, transport
):
    played = play(
        tmp_path,
        capfd,
        lambda body, _: reply if case_of(body) in absent else verdict(),
        *("judge.concurrency=1", "runner.max_failure_rate=1"),
        transport=transport,
        cases=8,
    )
    assert len(played.provider.requests) == calls
    answered = calls - min(3, len(absent))
    assert played.statuses == {"ok": answered, "failed": 8 - answered}
    # Where it ends, the remedy names what to check; a failed case has none.
    assert ("; check judge." in played.output) == (calls < 8)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_answers_without_a_system_role_are_found_as_requested_and_as_sent(
    tmp_path, capfd, transport
):
    refusing = with_system("System role not supported")
    rule = lambda body, _: refusing(body)  # noqa: E731
    store = ("store.mode=read_write", f"store.url={tmp_path / 'answers.sqlite'}")
    first = play(tmp_path, capfd, rule, *store, transport=transport)
    assert first.statuses == {"ok": 6}
    manifest = json.loads((first.folder / "manifest.json").read_text("utf-8"))
    assert any("judge.system=user" in note for note in manifest["notes"])
    address = first.provider.api_base
    for name, words in (("again", ()), ("merged", ("judge.system=user",))):
        run = f"hydra.run.dir={tmp_path / name}"
        later = play(
            tmp_path, capfd, rule, *store, *words, run, transport=transport, address=address
        )
        assert later.status == 0
        assert not later.provider.requests


FAILED = ("error", "network_error", "abort", "malformed_function_call", "never_heard_of")
TRUNCATED = ("model_length", "max_output_tokens", "incomplete", "model_context_window_exceeded")
REFUSED = ("RECITATION", "PROHIBITED_CONTENT", "blocklist", "guardrail_intervened")
ENDINGS = {
    **dict.fromkeys(FAILED, "failed"),
    **dict.fromkeys(TRUNCATED, "unparseable"),
    **dict.fromkeys(REFUSED, "refused"),
    **dict.fromkeys(("stop", "STOP", "end_turn", "eos", None), "ok"),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_end_is_complete_only_if_it_is_known_to_be(tmp_path, capfd, transport):
    reasons = [*ENDINGS]
    played = play(
        tmp_path,
        capfd,
        lambda body, _: said("All is fine so far. [[A]]", finish=reasons[case_of(body)]),
        "output=bracket",
        "runner.retries=0",
        "runner.max_failure_rate=1",
        transport=transport,
        cases=len(reasons),
    )
    by_case = {judgment["case_id"]: judgment for judgment in played.judgments}
    for number, (reason, status) in enumerate(ENDINGS.items()):
        judgment = by_case[f"c{number}"]
        assert judgment["status"] == status, reason
        assert status == "ok" or reason in judgment["error"]
    assert json.dumps(played.judgments)


PASSING_ENDS = ("networkError", "server_error_internal", "time_limit", "engine-crashed", "OOM")
ENDS_OF = {
    **dict.fromkeys((*PASSING_ENDS, "FinishReason.OTHER", "request_timed_out"), "failed"),
    **dict.fromkeys(("endTurn", "FINISH_REASON_STOP", "eosFound", "none", " Normal "), "complete"),
    **dict.fromkeys(("MaxTokens", "REASON_MAX_LEN", "limit"), "length"),
    **dict.fromkeys(("repetition", "contextLengthReached"), "truncated"),
    **dict.fromkeys(("error_toxic", "CONTENT-FILTER"), "refused"),
    **dict.fromkeys(("vendor_special", "terror", "erroneous", "mostly_done"), "unknown"),
}


@pytest.mark.parametrize("word", ENDS_OF)
def test_the_word_for_an_end_means_the_same_in_any_case(word):
    assert end_of(word) == ENDS_OF[word]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_end_by_an_error_of_the_server_is_asked_again(tmp_path, capfd, transport):
    ends = iter(PASSING_ENDS)
    played = play(
        tmp_path,
        capfd,
        lambda *_: verdict(finish=next(ends, "stop")),
        transport=transport,
    )
    assert played.statuses == {"ok": 6}, played.errors
    assert len(played.provider.requests) == 6 + len(PASSING_ENDS)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_own_headers_are_sent_and_credentials_refused(tmp_path, capfd, transport):
    words = ("judge.headers={X-Org: abc}", "judge.system=user")
    played = play(tmp_path, capfd, lambda *_: verdict(), *words, transport=transport)
    assert played.statuses == {"ok": 6}
    assert {headers["x-org"] for headers in played.provider.headers} == {"abc"}
    roles = {message["role"] for body in played.provider.requests for message in body["messages"]}
    assert roles == {"user"}


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key", "cookie", "X-Auth-Token", "Host"])
def test_a_header_for_a_credential_is_refused(tmp_path, capfd, name):
    played = play(tmp_path, capfd, lambda *_: verdict(), f"judge.headers={{{name}: abc}}")
    assert played.status == 1
    assert f"judge.headers.{name}" in played.output
    assert not played.provider.requests


def test_strings_have_a_bound_in_the_schema_that_is_sent(tmp_path, capfd):
    played = play(tmp_path, capfd, lambda *_: verdict(), "judge.max_string=80")
    schema = played.provider.requests[0]["response_format"]["json_schema"]["schema"]
    result = schema["properties"]["result"]["properties"]
    assert result["reasoning"]["maxLength"] == 80
    assert "maxLength" not in result["winner"]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_prompt_that_the_server_cut_is_reported(tmp_path, capfd, transport):
    played = play(
        tmp_path,
        capfd,
        lambda *_: verdict(usage=(2050, 50)),
        transport=transport,
        padding=" word" * 7000,
    )
    assert "% of a prompt of about" in played.output
    manifest = json.loads((played.folder / "manifest.json").read_text("utf-8"))
    assert any("num_ctx" in note for note in manifest["notes"])
    metrics = json.loads((played.folder / "metrics.json").read_text("utf-8"))
    seen = metrics["metrics"]["prompts/seen"]
    assert 0.1 < seen["value"] < 0.4
    assert seen["n"] == 6
    kinds = [limit["kind"] for limit in metrics["decision"]["limits"]]
    assert kinds[0] == "cut"
    findings = (played.folder / "findings.md").read_text("utf-8")
    assert "the judge saw about" in findings
    assert "dataset.fit" in findings


def test_a_short_prompt_shows_no_cut(tmp_path, capfd):
    played = play(tmp_path, capfd, lambda *_: verdict(usage=(20, 50)))
    assert "prompts/seen" not in (played.folder / "metrics.json").read_text("utf-8")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_answer_that_fills_the_context_says_so(tmp_path, capfd, transport):
    played = play(
        tmp_path,
        capfd,
        lambda *_: said('{"comparison": [', finish="length", usage=(1635, 413)),
        "judge.max_tokens=2048",
        transport=transport,
    )
    assert "the context is full (1,635 + 413 tokens)" in played.errors


MODELS = {"object": "list", "data": [{"id": "m", "owned_by": "vllm"}]}
LLAMA = {"data": [{"id": "a.gguf", "owned_by": "llamacpp", "meta": {"n_ctx": 2048}}]}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("listed", "model", "status", "words"), [
    (Reply(MODELS), "openai/m", 0, "openai/m"),
    (Reply(MODELS), "openai/other", 1, "does not have this model; it has m"),
    (Reply(LLAMA), "openai/other", 0, "openai/other"),
    (refused(401, "Incorrect API key"), "openai/m", 1, "OPENAI_API_KEY"),
    (refused(404, "no such page"), "openai/m", 0, "openai/m"),
])  # fmt: skip
def test_doctor_asks_the_server_for_its_models(
    tmp_path, capfd, monkeypatch, listed, model, status, words, transport
):
    monkeypatch.chdir(tmp_path)
    with serving() as provider:
        provider.routes = {"/v1/models": lambda _: listed}
        ended = main(
            [
                *("doctor", "judge=openai_compatible", f"judge.model={model}"),
                *(f"judge.api_base={provider.api_base}", f"judge.transport={transport}"),
                *("tracking=none", "store.mode=off"),
            ]
        )
        assert not provider.requests
    out, _ = capfd.readouterr()
    assert ended == status, out
    assert words in " ".join(out.split())
