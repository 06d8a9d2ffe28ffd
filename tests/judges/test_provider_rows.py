"""What providers really answer, row by row through the command line and over both transports."""

import json

import pytest

from evalkit.cli import main
from evalkit.core.finish_reasons import end_of
from tests.support.fake_provider import Reply, completion, refused, said, serving
from tests.support.provider_play import TRANSPORTS, case_of, play, verdict

pytestmark = pytest.mark.usefixtures("_environment")


@pytest.fixture
def _environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key-1234")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


def third(reply):
    """Every third call gets a reply."""
    return lambda body, number: verdict() if number % 3 else reply


def one(reply):
    """One case gets a reply, whenever it is asked."""
    return lambda body, _: reply if case_of(body) == 2 else verdict()


def sends(name, reply):
    """Requests with a parameter get a reply."""
    return lambda body, _: reply if name in body else verdict()


def formatted(kind, reply):
    return lambda body, _: (
        reply if (body.get("response_format") or {}).get("type") == kind else verdict()
    )


def with_system(reply):
    return lambda body, _: (
        reply if any(message["role"] == "system" for message in body["messages"]) else verdict()
    )


QUOTA = "You exceeded your current quota, please check your plan and billing details."
RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.1s"}
GEMINI = {
    "error": {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "message": f"{QUOTA} Please retry in 0.1s.",
        "details": [RETRY_INFO],
    }
}
LITERAL = "1 validation error: Input should be 'text' or 'json_object'"
NOT_MAX_TOKENS = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
    " 'max_completion_tokens' instead."
)
MORE_THAN_FIVE = "Requested sample logprobs of 20, which is greater than max allowed: 5"
COMPLETE = {
    "quota of a minute": (third(Reply(GEMINI, 429)), (), 8),
    "the same in Google's list": (third(Reply([GEMINI], 429)), (), 8),
    "link to a billing page": (
        third(refused(429, "Slow down, see https://x.com/account/billing", retry_after="0.1")),
        (),
        8,
    ),
    "wait in words only": (third(refused(429, "Rate limit. Please try again in 80ms.")), (), 8),
    "no right to logprobs": (
        sends("logprobs", refused(403, "You are not allowed to request logprobs from this model")),
        ("judge.logprobs=fallback",),
        7,
    ),
    "another name of the limit": (
        sends("max_tokens", refused(400, NOT_MAX_TOKENS)),
        ("judge.max_tokens=500",),
        7,
    ),
    "the older name of the limit": (
        sends("max_completion_tokens", refused(400, "Unknown parameter: max_completion_tokens")),
        ("+judge.params.max_completion_tokens=500",),
        7,
    ),
    "no system role": (with_system(refused(400, "System role not supported")), (), 7),
    "no developer instruction": (
        with_system(refused(400, "Developer instruction is not enabled for models/gemma-3")),
        (),
        7,
    ),
    "roles in turn": (
        with_system(refused(400, "Conversation roles must alternate user/assistant/user/...")),
        (),
        7,
    ),
    "a schema without a word": (
        formatted("json_schema", refused(400, "Request contains an invalid argument.")),
        (),
        7,
    ),
    "a schema as an internal error": (
        formatted("json_schema", refused(500, "Internal server error")),
        (),
        8,
    ),
    "a schema named in an internal error": (
        formatted("json_schema", refused(500, LITERAL)),
        (),
        7,
    ),
    "fewer alternatives": (
        lambda body, _: (
            refused(400, MORE_THAN_FIVE) if body.get("top_logprobs", 0) > 5 else verdict()
        ),
        ("judge.logprobs=fallback",),
        7,
    ),
    "another name of the limit, as Azure says it": (
        sends("max_tokens", refused(400, "not supported MaxTokens, use MaxCompletionTokens")),
        ("judge.max_tokens=500",),
        7,
    ),
    "a parameter named by a field": (
        sends(
            "temperature",
            Reply({"error": {"message": "Unsupported parameter.", "param": "temperature"}}, 400),
        ),
        ("judge.temperature=0",),
        7,
    ),
    "no log-probabilities, as an internal error": (
        sends("logprobs", Reply({"error": "logprobs is not supported"}, 500)),
        ("judge.logprobs=fallback",),
        7,
    ),
    "an error on the choice": (
        third(
            Reply(
                completion(
                    [
                        {
                            "index": 0,
                            "finish_reason": "error",
                            "message": {"role": "assistant", "content": "half"},
                            "error": {"code": 502, "message": "upstream"},
                        }
                    ]
                )
            )
        ),
        (),
        8,
    ),
}
"""Rows in which every case is judged, with the number of calls that this takes."""


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("row", COMPLETE)
def test_what_can_be_adapted_or_waited_for_loses_no_answer(tmp_path, capfd, row, transport):
    rule, words, calls = COMPLETE[row]
    played = play(tmp_path, capfd, rule, "judge.concurrency=1", *words, transport=transport)
    assert played.statuses == {"ok": 6}, played.errors
    assert played.status == 0
    assert len(played.provider.requests) == calls


PARTIAL = {
    "flagged": (one(refused(403, "Your input was flagged")), "refused"),
    "filtered by Azure": (one(refused(400, "x", code="content_filter")), "refused"),
    "blocked by a firewall": (one(Reply(b"<html>blocked</html>", 403)), "failed"),
    "too long": (one(refused(400, "prompt is too long: 9 tokens > 5 maximum")), "failed"),
    "too large": (one(refused(413, "Request too large")), "failed"),
    "not implemented": (one(refused(501, "not implemented")), "failed"),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("row", PARTIAL)
def test_an_error_about_one_request_ends_no_run_and_is_not_repeated(
    tmp_path, capfd, row, transport
):
    rule, status = PARTIAL[row]
    played = play(tmp_path, capfd, rule, transport=transport)
    assert played.statuses == {"ok": 5, status: 1}
    assert len(played.provider.requests) == 6


SPENT = {"message": "Budget has been exceeded! Max budget: 1", "type": "budget_exceeded"}
TEXT = ("judge.response_format=text", "output=bracket")
ENDS = {
    "a spent budget": (Reply({"error": SPENT}, 422), (), "add credit or raise the budget"),
    "no credit": (refused(402, "Insufficient Balance"), (), "add credit"),
    "no credit, as a bad request": (
        refused(400, "Your credit balance is too low to access the API"),
        (),
        "add credit",
    ),
    "a wrong key": (refused(401, "Incorrect API key"), (), "OPENAI_API_KEY"),
    "a wrong key, as a bad request": (
        refused(400, "API key not valid. Please pass a valid API key."),
        (),
        "OPENAI_API_KEY",
    ),
    "a wrong path": (Reply({"detail": "Not Found"}, 404), (), "ends with /v1"),
    "a page of a gateway": (
        Reply(b"<html>Just a moment...</html>", 403),
        (),
        "check judge.api_base",
    ),
    "an unknown model": (refused(400, "Invalid model name passed in model=m"), TEXT, "judge.model"),
    "a lost model": (
        refused(404, "The model `m` has been deprecated", code="model_not_found"),
        (),
        "check judge.model",
    ),
    "a login page": (
        Reply(b"", 302, {"location": "https://login.example/x"}),
        (),
        "check judge.api_base",
    ),
    "a wait of hours": (refused(429, "slow", retry_after="7200"), (), "run again then"),
    "a bad grammar": (refused(400, "failed to parse grammar"), TEXT, "judge.params"),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("row", ENDS)
def test_what_no_call_can_get_past_ends_the_run_with_a_remedy(tmp_path, capfd, row, transport):
    reply, words, remedy = ENDS[row]
    played = play(tmp_path, capfd, lambda *_: reply, *words, transport=transport)
    assert played.status == 1
    assert not played.folder.exists()
    assert remedy in played.output
    assert "response_format=auto" not in played.output


def ended_by_the_fourth(reply, tmp_path, capfd, transport):
    """Play a run that its fourth answer ends: the three before it are written, and no more is asked."""
    played = play(
        tmp_path,
        capfd,
        lambda _, number: verdict() if number < 4 else reply,
        "judge.concurrency=1",
        transport=transport,
    )
    assert played.status == 2
    assert played.statuses == {"ok": 3, "failed": 3}
    assert len(played.provider.requests) == 4
    return played


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("row", ["a spent budget", "a wrong key", "a wrong path", "a lost model"])
def test_answers_before_the_end_of_an_account_or_a_model_are_written(
    tmp_path, capfd, row, transport
):
    reply, _, remedy = ENDS[row]
    played = ended_by_the_fourth(reply, tmp_path, capfd, transport)
    assert remedy in played.output


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (refused(429, "Tokens per day. Please try again in 2h10m3.5s"), "asks to wait 2 h 11 min"),
        (refused(503, "maintenance", retry_after="7200"), "asks to wait 2 h before"),
    ],
)
def test_a_wait_longer_than_a_run_waits_ends_it_at_once(tmp_path, capfd, reply, words, transport):
    played = ended_by_the_fourth(reply, tmp_path, capfd, transport)
    assert words in played.output
    assert "run again then" in played.output


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("reply", [refused(404, "no such file"), ENDS["a login page"][0]])
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
    rule = with_system(refused(400, "System role not supported"))
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
    words = ("+judge.headers={X-Org: abc}", "judge.system=user")
    played = play(tmp_path, capfd, lambda *_: verdict(), *words, transport=transport)
    assert played.statuses == {"ok": 6}
    assert {headers["x-org"] for headers in played.provider.headers} == {"abc"}
    roles = {message["role"] for body in played.provider.requests for message in body["messages"]}
    assert roles == {"user"}


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key", "cookie", "X-Auth-Token", "Host"])
def test_a_header_for_a_credential_is_refused(tmp_path, capfd, name):
    played = play(tmp_path, capfd, lambda *_: verdict(), f"+judge.headers={{{name}: abc}}")
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
@pytest.mark.parametrize(
    ("listed", "model", "status", "words"),
    [
        (Reply(MODELS), "openai/m", 0, "openai/m"),
        (Reply(MODELS), "openai/other", 1, "does not have this model; it has m"),
        (Reply(LLAMA), "openai/other", 0, "openai/other"),
        (refused(401, "Incorrect API key"), "openai/m", 1, "OPENAI_API_KEY"),
        (refused(404, "no such page"), "openai/m", 0, "openai/m"),
    ],
)
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
