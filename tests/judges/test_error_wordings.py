"""What the errors of many providers mean, as they word and wrap them."""

import json

import pytest

from evalkit.core.errors import CallError
from evalkit.judges.adaptations import names_parameter, refuses_parameter
from evalkit.judges.responses import answer_in, error_in
from tests.support.fake_provider import completion


def coded(code, message="No"):
    return {"error": {"message": message, "type": "some_error", "code": code}}


def flat(message, **more):
    return {"message": message, **more}


def google(message="You exceeded your current quota.", **violation):
    details = [{"violations": [violation]}, {"retryDelay": "38s"}]
    return {"error": {"status": "RESOURCE_EXHAUSTED", "message": message, "details": details}}


def said(message):
    return {"error": message}


WAIT = "wait"
PASSING = [
    (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    (400, flat("Rate exceeded", __type="ThrottlingException")),
    (429, flat("Too many tokens per day, please wait before trying again.")),
    (429, [{"error": {"message": "Resource exhausted.", "status": "RESOURCE_EXHAUSTED"}}]),
    (429, coded("429", "exceeded token rate limit of your S0 pricing tier; retry after 1 second")),
    (429, flat("Service tier capacity exceeded for this model.", code="3505")),
    (429, flat("A Trial key is limited to 10 API calls / minute. Upgrade to a Production key.")),
    (429, coded("token_quota_exceeded", "Tokens per minute limit exceeded")),
    (429, coded("1302", "您的账户已达到速率限制，请您控制请求频率")),
    (429, coded("limit_requests", "You have exceeded your current request limit.")),
    (429, coded("engine_overloaded_error", "The engine is currently overloaded")),
    (429, flat("Exceeded workspace input tokens per minute", error_code="REQUEST_LIMIT_EXCEEDED")),
    (403, flat("Exceeded workspace input tokens per minute", error_code="REQUEST_LIMIT_EXCEEDED")),
    (421, flat("Misdirected Request")),
    (429, {"errors": [{"code": "rate_limit_reached_requests", "message": "8 per second"}]}),
    (429, said("Model is overloaded")),
    (424, said("Request failed during generation: out of memory")),
    (503, {"error": "Model m is currently loading", "estimated_time": 0.2}),
    (503, said("server busy, please try again.  maximum pending requests exceeded")),
    (500, flat("EngineCore encountered an issue.")),
    (500, {"success": False, "errors": [{"code": 7009, "message": "Upstream unavailable"}]}),
    (400, coded("json_validate_failed", "The generated JSON does not match the expected schema")),
    (400, coded("tool_use_failed", "Failed to call a function.")),
    (400, said("The model has crashed without additional information. (Exit code: 6)")),
    (400, said("Model unloaded.")),
    (400, said("Model m is currently overloaded, please try again later")),
    (422, flat("The service is at capacity. Please retry in a moment.")),
    (404, said("Model m is loading, estimated time 1s")),
    (400, said("Channel Error")),
    (403, flat("System is too busy now. Please try again later.", code=50603)),
    (429, coded(None, "You have reached the limit of requests per minute")),
]
TOO_LONG = "too_long"
LONG = [
    (413, coded("rate_limit_exceeded", "Request too large for model: Limit 6000, Requested 9000")),
    (429, coded("rate_limit_exceeded", "Limit 30, Requested 45. The tokens must be reduced.")),
    (422, said("Input validation error: `inputs` must have less than 9 tokens. Given: 15")),
    (422, said("`inputs` tokens + `max_new_tokens` must be <= 4097.")),
    (400, flat("The prompt is too long: 14, model maximum context length: 13")),
    (400, flat("The decoder prompt (length 50) is longer than the maximum model length of 40.")),
    (400, flat("The input (9 tokens) is longer than the model's context length (5 tokens).")),
    (400, coded("1261", "Prompt 超长")),
    (400, coded("invalid_parameter_error", "Range of input length should be [1, 30720]")),
    (400, coded(None, "Your request exceeded model token limit: 8192")),
    (400, coded(None, "This model's maximum prompt length is 13 but the request contains 20.")),
    (400, flat("too many tokens: the prompt cannot exceed 12 - received 20")),
    (400, flat({"detail": [{"msg": "Prompt has 40 tokens, too large for model with 32"}]})),
    (400, coded(None, "Requested tokens (2304) exceed context window of 2048")),
    (400, coded(None, "Prompt tokens (9000) exceed limit (8192)")),
    (400, coded(None, "Input length 5000 exceeds maximum length 4096")),
    (400, coded(None, "The message you submitted was too long")),
    (400, coded(None, "Total length 9000 is larger than 8192")),
    (500, coded(None, "Context size has been exceeded.")),
    (400, coded(None, "输入长度超过限制")),
]
REFUSED = "content_filter"
BLOCKED = [
    (403, coded(None, "m requires moderation. Your input was flagged. No credits were charged.")),
    (403, said("Content violates usage guidelines. API key ID: 2, Failed check: BIO")),
    (400, coded("invalid_prompt", "We found repetitive patterns in your prompt.")),
    (400, coded("data_inspection_failed", "Output data may contain inappropriate content.")),
    (400, coded("1301", "系统检测到输入可能包含不安全或敏感内容")),
    (400, coded(None, "The input text may contain risky information.")),
    (400, coded(None, "This prompt violates our acceptable use policy")),
    (400, coded(None, "It was detected to contain prohibited content")),
    (400, coded(None, "Detected jailbreak attempt")),
    (400, coded(None, "prompt injection detected")),
    (400, coded(None, "Content Exists Risk")),
    (400, coded(None, "It contains material that violates our terms of service")),
    (400, flat("Guardrail raised an exception")),
    (403, {"error": {"message": "Forbidden", "metadata": {"flagged_input": "You …"}}}),
    (446, {"error": {"message": "The checks failed.", "type": "hooks_failed"}}),
    (424, {"error": [{"code": 2017, "message": "Response blocked due to security settings"}]}),
]
ACCOUNT = [
    (402, coded(None, "Cloud credits expired")),
    (402, said("You have exceeded your monthly included credits.")),
    (412, coded("PRECONDITION_FAILED", "Account x is suspended, possibly for a failed payment")),
    (429, coded("1113", "您的账户已欠费，请充值后重试")),
    (429, coded("SetLimitExceeded", "Your account has reached the set inference limit")),
    (403, coded("AccountOverdueError", "your account has an overdue balance.")),
    (403, said("Your newly created team doesn't have any credits yet.")),
    (403, coded("BILLING_DISABLED", "This API method requires billing to be enabled.")),
    (403, {"errors": [{"code": "token_quota_reached", "message": "token quota reached"}]}),
    (429, [{"error": {"message": "Your credits are depleted.", "status": "RESOURCE_EXHAUSTED"}}]),
    (429, flat("you have used up your daily free allocation of neurons")),
    (400, coded(None, "You have reached your specified API usage limits. Access on 2026-12-01")),
    (400, coded(None, "This organization has been disabled.")),
    (429, google(quotaId="GenerateRequestsPerDayPerProjectPerModel-FreeTier")),
    (429, google("Quota exceeded for metric: x/free_tier_requests, limit: 0, model: m")),
    (403, coded("AllocationQuota.FreeTierOnly", "The free tier has been exhausted.")),
    (429, flat("You are using a Trial key, which is limited to 1000 API calls / month.")),
    (400, coded(None, "Please enable billing on your project in Google AI Studio.")),
    (400, coded("organization_restricted", "Organization has been restricted.")),
    (429, coded("1308", "已达到 5 小时的使用上限。您的限额将在 2026-11-28 05:00:00 重置")),
    (429, flat("Open api daily request limit reached")),
    (429, said("You have reached your daily limit of 50 requests.")),
    (403, said("Daily quota exceeded.")),
    (401, coded("account_deactivated", "The account of this API key has been deactivated.")),
    (429, coded("token_quota_exceeded", "Tokens per day limit exceeded")),
    (429, coded("rate_limit_exceeded", "Rate limit exceeded: requests per day")),
    (429, coded("rate_limit_reached_error", "The request reached TPD rate limit, limit: 15")),
    (429, flat("You have exceeded your monthly token quota. Please upgrade your plan.")),
    (429, said("you have reached your weekly usage limit, upgrade for higher limits")),
    (429, coded("1304", "该API已达今日调用次数限额")),
    (400, coded(None, "You have reached your specified workspace API usage limits.")),
    (403, {"code": 403, "reason": "NOT_ENOUGH_BALANCE", "message": "not enough balance"}),
    (403, coded(None, "The gateway requires a valid credit card on file to service requests.")),
    (403, coded("quota_exceeded", "You have exceeded your allowance of requests")),
    (403, coded("insufficient_user_quota", "用户额度不足")),
    (429, said("You have exceeded today's request limit for m, try again tomorrow")),
    (403, flat("Out of call volume quota. Quota will be replenished in 01:12:10.")),
]
KEY = [
    (401, said("Unauthorized")),
    (400, said("Incorrect API key provided: sk-***.")),
    (400, {"error": {"message": "No connected db.", "type": "no_db_connection", "code": "400"}}),
    (403, coded("SERVICE_DISABLED", "The API has not been used before or it is disabled.")),
    (403, coded("unsupported_country_region_territory", "not supported")),
    (403, flat("You do not have permission to query endpoint x")),
    (403, coded("403", "Access denied due to Virtual Network/Firewall rules.")),
    (403, said("The OAuth2 access token could not be validated")),
    (400, flat("Access is not allowed from unsupported countries, regions, or territories.")),
    (400, coded(None, "User location is not supported for the API use.")),
    (403, coded("API_KEY_HTTP_REFERRER_BLOCKED", "Requests from referer <empty> are blocked.")),
    (403, said("OAuth token does not meet scope requirement user:inference")),
    (403, coded("403", "Public access is disabled. Please configure private endpoint.")),
    (422, said("Access token invalid or no longer valid")),
    (403, said("You must accept the license of this model")),
]
MODEL = [
    (404, said("model 'm' not found")),
    (405, {"detail": "Method Not Allowed"}),
    (401, {"error": {"message": "key not allowed", "type": "key_model_access_denied"}}),
    (403, coded("model_permission_blocked_project", "m is blocked at the project level.")),
    (400, coded("model_terms_required", "m requires terms acceptance.")),
    (400, said("The plain HTTP request was sent to HTTPS port")),
    (400, coded("unavailable_model", "Unavailable model: m")),
    (500, coded(None, "could not load model: rpc error: desc = failed loading model")),
    (400, coded("1211", "模型不存在，请检查模型代码。")),
    (400, coded("OperationNotSupported", "The operation does not work with the specified model")),
    (400, flat("Invocation of model ID x with on-demand throughput isn't supported.")),
    (500, said("model requires more system memory (5 GiB) than is available (3 GiB)")),
    (404, {"title": "Not Found", "detail": "Function 'x': Not found for account 'y'"}),
]
OUTCOMES = [
    *((WAIT, *row) for row in PASSING),
    *((TOO_LONG, *row) for row in LONG),
    *((REFUSED, *row) for row in BLOCKED),
    *(("account", *row) for row in ACCOUNT),
    *(("auth", *row) for row in KEY),
    *(("not_found", *row) for row in MODEL),
]
ENDING = ("key", "account", "model", "address")
ABSENT = [
    ("model", 404, said("model 'm' not found")),
    ("model", 404, coded("model_not_found", "no such thing")),
    ("model", 404, said("The model `m` has been deprecated, learn more")),
    ("model", 404, {"type": "error", "error": {"type": "not_found_error", "message": "model: c"}}),
    ("model", 404, said("models/g-9 is not found for API version v1beta")),
    ("model", 410, said("The model m has been decommissioned and is no longer supported.")),
    ("model", 404, coded(None, "This is not a chat model, so it is not supported here.")),
    ("model", 404, coded(None, "This model is only supported in v1/responses.")),
    ("model", 404, flat("This model version has reached the end of its life.")),
    ("model", 400, said('"nomic-embed-text" does not support chat')),
    ("model", 400, said('Failed to load model "x": insufficient system resources.')),
    ("model", 404, coded("InvalidEndpointOrModel.NotFound", "does not exist or is invalid.")),
    ("address", 404, {"errors": [{"code": 7003, "message": "Could not route to /ai/v1/chat"}]}),
    ("address", 404, {"detail": "Not Found"}),
    ("address", 422, {"detail": "Chat completions are disabled: a chat template is not set"}),
    ("address", 405, {"detail": "Method Not Allowed"}),
    ("address", 404, coded("404", "Resource not found")),
    ("request", 404, said("no stored output")),
    ("request", 404, said("file f-1 was not found")),
    ("request", 400, said("the model m: pictures of this kind: a mode that is not supported")),
]


@pytest.mark.parametrize(("outcome", "status", "body"), OUTCOMES)
def test_an_error_means_what_it_says(outcome, status, body):
    error = error_in(status, json.dumps(body, ensure_ascii=False).encode(), {})
    assert error.retryable == (outcome == WAIT), error
    assert outcome in (WAIT, error.kind), error
    ends = error.scope in ENDING or error.kind == "not_found"
    assert ends == (outcome in ("account", "auth", "not_found")), error
    assert "\n" not in error.message


@pytest.mark.parametrize(("scope", "status", "body"), ABSENT)
def test_what_is_not_there_is_the_model_the_address_or_a_part_of_the_request(scope, status, body):
    error = error_in(status, json.dumps(body).encode(), {})
    assert (error.kind, error.scope) == ("not_found", scope)
    assert "{" not in error.message


@pytest.mark.parametrize(("headers", "seconds"), [
    ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30s"}, 90),
    ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
    ({"x-ratelimit-remaining-tokens": "7", "x-ratelimit-reset-tokens": "120s"}, None),
    ({"ratelimit-remaining": "0", "ratelimit-reset": "7"}, 7),
    ({"retry-after": "2", "ratelimit-remaining": "0", "ratelimit-reset": "7"}, 2),
    ({"x-ratelimit-remaining-requests-day": "0", "x-ratelimit-reset-requests-day": "3e4"}, 3e4),
    ({"x-rate-limit-remaining": "0", "x-rate-limit-reset": "9"}, 9),
    ({"x-ratelimit-reset": "14"}, 14),
    ({"x-ratelimit-remaining": "3", "x-ratelimit-reset": "14"}, None),
    ({"ratelimit": '"default";r=0;t=30'}, 30),
    ({"ratelimit": "limit=100, remaining=0, reset=31"}, 31),
    ({"ratelimit": '"default";r=20;t=30'}, None),
    ({"x-ai-ratelimit-retry-after": "20"}, 20),
])  # fmt: skip
def test_a_limit_states_its_wait_in_any_header(headers, seconds):
    error = error_in(429, b'{"error": {"message": "slow"}}', headers)
    assert error.retry_after == seconds


@pytest.mark.parametrize(("body", "seconds"), [
    ({"error": {"message": "x", "details": {"retryAfterSeconds": 3}}}, 3),
    (said("请求过于频繁，请在 30 秒后重试"), 30),
    (said("当前请求过多，请 2 分钟后再试"), 120),
    (said("你好，第 30 秒的后面"), None),
])  # fmt: skip
def test_a_limit_states_its_wait_in_any_words(body, seconds):
    assert error_in(429, json.dumps(body).encode(), {}).retry_after == seconds


def test_a_page_of_a_firewall_is_no_filter_of_a_model():
    page = b"<html><h1>403 ERROR</h1><p>Request blocked. We can't connect to the server"
    assert error_in(403, page, {}).kind == "auth"


def test_a_spent_account_is_not_waited_for_because_of_a_limit_in_its_headers():
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s"}
    body = json.dumps(coded("insufficient_quota", "Check your plan")).encode()
    error = error_in(429, body, headers)
    assert error.kind == "account"
    assert error.retry_after is None


ANSWER = '{"winner": "A"}'
CALL = {"name": "answer", "arguments": ANSWER}


@pytest.mark.parametrize("message", [
    {"content": {"winner": "A"}},
    {"content": [ANSWER[:5], ANSWER[5:]]},
    {"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": ANSWER}]},
    {"content": None, "function_call": CALL},
    {"content": None, "tool_calls": [{"type": "function", "function": CALL}]},
])  # fmt: skip
def test_the_text_of_an_answer_is_found(message):
    choice = {"finish_reason": "stop", "message": message}
    answer = answer_in(200, json.dumps(completion([choice])).encode(), {})
    assert (answer.content or answer.arguments) == ANSWER


def test_the_first_of_several_choices_is_the_one_with_index_0():
    texts = {1: "[[B]]", 0: ANSWER}
    choices = [{"index": index, "message": {"content": text}} for index, text in texts.items()]
    assert answer_in(200, json.dumps(completion(choices)).encode(), {}).content == ANSWER


def test_a_byte_that_is_no_text_costs_no_answer():
    choice = {"finish_reason": "stop", "message": {"content": f"caf\xe9 {ANSWER}"}}
    body = json.dumps(completion([choice]), ensure_ascii=False).encode("latin-1")
    assert answer_in(200, body, {}).content == f"caf\ufffd {ANSWER}"
    with pytest.raises(CallError):
        answer_in(200, b"\xff\x00{\x00", {})


@pytest.mark.parametrize("before", [b"\n\n", b": PROCESSING\n\n: PROCESSING\n\n", b"\xef\xbb\xbf"])
def test_what_keeps_a_connection_is_not_the_answer(before):
    choice = {"finish_reason": "stop", "message": {"content": ANSWER}}
    answer = answer_in(200, before + json.dumps(completion([choice])).encode(), {})
    assert answer.content == ANSWER


@pytest.mark.parametrize(("body", "kind", "retryable"), [
    ({"error": "upstream timeout"}, "server", True),
    ({"error": {"message": "Too many", "code": "429"}}, "rate_limit", True),
    ({"base_resp": {"status_code": 1004, "status_msg": "login fail"}}, "auth", False),
    ({"base_resp": {"status_code": 1002, "status_msg": "rate limit hit"}}, "rate_limit", True),
    ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, "account", 0),
    ({"base_resp": {"status_code": 1026, "status_msg": "input sensitive"}}, REFUSED, False),
    ({"error_code": 336100, "error_msg": "server high load"}, "server", True),
    ({"error": {"message": "Invalid 'top_p'", "code": 400}}, "bad_request", False),
])  # fmt: skip
def test_an_error_in_a_good_response_is_one(body, kind, retryable):
    body = {"choices": None, **body}
    with pytest.raises(Exception, match=r"\w") as raised:
        answer_in(200, json.dumps(body).encode(), {})
    assert raised.value.kind == kind
    assert raised.value.retryable == bool(retryable)


@pytest.mark.parametrize(("named", "name", "message"), [
    (True, "seed", "body.seed: Extra inputs are not permitted"),
    (True, "seed", "extraneous key [seed] is not permitted"),
    (True, "temperature", "`temperature` and `top_p` cannot both be specified"),
    (True, "temperature", "invalid temperature: only 1 is allowed for this model"),
    (True, "logprobs", "You are not allowed to request logprobs from this model"),
    (True, "stop", "Unrecognized request argument supplied: stop"),
    (True, "n", "'n' must be 1"),
    (False, "n", "Invalid text: don't do it \\n"),
    (False, "stop", "Request invalid: please stop sending large prompts"),
    (False, "user", "invalid role: user must alternate"),
    (False, "seed", "Prompt 'plant the seed in spring' could not be read"),
    (False, "temperature", "Invalid text: the patient's temperature was 39"),
])  # fmt: skip
def test_a_parameter_is_named_as_one_and_not_as_a_word_of_a_text(named, name, message):
    assert names_parameter(message, name) == named


@pytest.mark.parametrize(("words", "refuses"), [
    ("logprobs is not supported", True),
    ("the backend does not support 'logprobs'", True),
    ("failed with logprobs=True, 'temperature': 0", False),
])  # fmt: skip
def test_an_internal_error_refuses_a_parameter_only_in_so_many_words(words, refuses):
    assert refuses_parameter(words, "logprobs") == refuses


def test_a_parameter_that_only_a_field_names_is_in_the_message():
    error = {"message": "Unsupported parameter.", "param": "temperature"}
    assert "'temperature'" in error_in(400, json.dumps({"error": error}).encode(), {}).message
