"""What a provider's error means, as one table: its kind, whether a retry can help,
when, and what it is about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

from evalkit.core.display import shorten
from evalkit.core.errors import CallError, Scope
from evalkit.core.patterns import lazy_pattern
from evalkit.core.redaction import redact
from evalkit.core.values import frozen
from evalkit.judges.body_fields import fields_in
from evalkit.judges.waits import retry_after, wait_for_reset, wait_in_body

LONGEST_MESSAGE = 300

_PREFIX = lazy_pattern(
    r"(?:litellm\.)?\w*(?:Error|Exception|Timeout)\w*(?: Error)?: |\w+Exception - "
)
_TRACEBACK = lazy_pattern(
    r"\bTraceback \(most recent call last\):?(?P<frames>.*)", re.DOTALL
)
_NO_REASON = "an internal error of the server"
_NOISE = lazy_pattern(
    r"This looks like a bug in LiteLLM.*|Received Model"
    r" Group=.*",
    re.DOTALL,
)
_PATH = lazy_pattern(
    r"(?<![\w/:.])/(?:[\w.@+-]+/){2,}(?=[\w.@+-])|\b[A-Z]:\\(?:[^\\\s]+\\)+"
)
"""A path on the server's own machine, without its last part."""
_URL = lazy_pattern(r"https?://\S+")
_LONGEST_DETAIL = 4000


class RefusedError(Exception):
    """An error response.

    Args:
        message: The provider's message.
        code: The code of the error; `None` if it has none.
        status: The HTTP status.
        headers: The headers, by lowercase name.
        body: The parsed body, which may have more codes, details and a wait.
    """

    def __init__(
        self,
        message: str,
        code: str | None,
        status: int,
        headers: Mapping[str, str],
        body: object = None,
    ) -> None:
        self.status_code, self.code = status, code
        self.litellm_response_headers = headers
        self.evalkit_body = body
        super().__init__(message)


@frozen
class _Fault:
    """What an error says: `codes` and `text` are folded to lowercase, and `text` has no links."""

    status: int
    codes: frozenset[str]
    text: str
    classes: frozenset[str]
    wait: float | None
    final: bool | None
    """Whether the provider says that a retry cannot help; `None` if it does not say."""
    parameter: str
    """The parameter that a field of the body names; empty if none does."""


@frozen
class _Rule:
    """An error with one of these statuses (or any), and one of these codes or classes, or a text.

    A rule without codes, classes and text matches by the status alone.

    Attributes:
        kind: The kind of the call error.
        retryable: Whether the same call may succeed later.
        scope: What the error is about.
        statuses: The statuses; 0 is an error without a response.
        codes: The provider's codes and types.
        classes: The names of exception classes.
        text: What the message contains.
        waits: `False` for a rule of errors that do not state a wait.
    """

    kind: str
    retryable: bool
    scope: Scope = "request"
    statuses: Container[int] | None = None
    codes: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    text: re.Pattern[str] | None = None
    waits: bool | None = None

    def matches(self, fault: _Fault) -> bool:
        """Return whether an error is one of this rule."""
        if self.statuses is not None and fault.status not in self.statuses:
            return False
        # A provider that says when to come back, or that a retry helps, means a limit of a
        # minute: an empty account has no such time.
        if self.waits is False and (fault.wait is not None or fault.final is False):
            return False
        if not self.codes and not self.classes and self.text is None:
            return True
        if self.codes & fault.codes or self.classes & fault.classes:
            return True
        return self.text is not None and self.text.search(fault.text) is not None


# The lists below come from errors that providers and servers send. Codes are compared as a whole,
# since a part of one may mean something else; texts are searched.
def _words(*alternatives: str) -> re.Pattern[str]:
    return lazy_pattern("|".join(alternatives), re.IGNORECASE)


def _names(*names: str) -> frozenset[str]:
    return frozenset(names)


_NO_PROVIDER = _words(
    "llm provider not provided", "unable to map your input to a model"
)
_NO_KEY = _words(
    *("missing credentials", r"missing .{0,30}api.?key", "no api.?key"),
    "api_key client option must be set",
)
# OpenAI says `insufficient_quota` with 429, like a rate limit: without these codes, a run would
# retry in vain.
_SPENT_CODES = _names(
    *("insufficient_quota", "billing_hard_limit_reached", "budget_exceeded"),
    *("insufficient_balance", "insufficient_credits", "credits_exhausted", "arrearage"),
    *("exceeded_current_quota_error", "billing_not_active", "account_deactivated"),
    *("payment_required", "billing_error", "quota_exhausted", "access_terminated"),
    *("spend_limit_exceeded", "1113", "setlimitexceeded", "accountoverdueerror"),
    *("billing_disabled", "token_quota_reached", "organization_restricted"),
    *("allocationquota.freetieronly", "1304", "1308", "1309", "1310"),
    *("not_enough_balance", "insufficient_funds", "out_of_credits"),
    *("customer_verification_required", "insufficient_user_quota"),
)
_LONG_PERIOD = r"(?:daily|weekly|monthly|today's)"
_SPENT = _words(
    r"(?:insufficient|not enough)[_ ](?:quota|funds|balance|credit|points)",
    r"(?:credit )?balance is (?:too low|insufficient)",
    r"budget has been exceeded|exceeded ?budget|over (?:its|the|your) budget",
    r"(?:out of|used all (?:available )?|no|any|not enough|more) credits?\b"
    r"(?! (?:was|were|are|will be) (?:charged|used|deducted))",
    r"credits? (?:is |are |has been |have been )?(?:depleted|exhausted|used up|expired)",
    r"free allocation|overdue balance|requires billing|enable billing",
    r"free (?:tier|quota|trial).{0,40}(?:exhausted|used up)",
    r"(?:calls|requests) ?(?:/|per) ?month",
    r"out of call volume quota|regain access on",
    rf"{_LONG_PERIOD} (?:\w+ ){{0,2}}(?:limit|quota) (?:is |was |has been )?"
    r"(?:reached|exceeded|exhausted)",
    rf"(?:reached|exceeded|exhausted) (?:the |your |its )?{_LONG_PERIOD}",
    r"(?:tokens|requests) per (?:day|week|month) (?:limit|quota) (?:reached|exceeded)",
    r"(?:limit|quota) (?:reached|exceeded): (?:tokens|requests) per (?:day|week|month)",
    r"\b[rt]pd (?:rate )?limit|(?:今日|当日|每日|本周|本月|每月).{0,12}(?:限额|上限|额度)",
    r"(?:monthly|total|spend(?:ing)?|credit|usage|hard|key|budget) limit (?:reached|exceeded)",
    r"(?:reached|exceeded|exceeds) (?:its|your|the) "
    r"(?:monthly |total |specified |workspace )*(?:spend(?:ing)?|credit|usage|hard|api usage)"
    r" ?(?:limits?|cap)",
    r"(?:account|organi[sz]ation)(?: \S{1,40})? (?:is |has been |was )"
    r"(?:not active|suspended|deactivated|disabled|overdue)",
    r"account (?:not active|suspended|deactivated|disabled|overdue)",
    r"余额不足|额度不足|欠费|额度已用尽|请充值",
)
_NO_PAYMENT = _words(
    r"(?:add|requires?|enter|valid) (?:a |your )?(?:valid )?"
    r"(?:credit card|payment (?:method|instrument))"
)
_QUOTA = _words("exceeded your current quota")
"""OpenAI says this of an empty account, and Google of the limit of a minute."""
_DAY = _words(
    r"(?:requests|tokens)perday", r"quota exceeded for metric: [^,\n]*, limit: 0\b"
)
"""Google's limit of a day, or none at all, with which it states a wait that does not help."""
_CAPABILITY = _words(
    r"top_?logprobs|log_?probs|log.?probabilit",
    r"response_?format|json_?schema|json.?mode|structured.?outputs?",
    r"temperature|top_p|\bseed\b|max_(?:completion_)?tokens",
    r"tool_choice|\btools?\b (?:is|are|use|call)|tool.?(?:use|call)|function.?call",
    r"(?:system|developer) (?:role|message|prompt|instruction)",
)
_BLOCKING_PAGE = _words(r"a web page with status 403\b.*\brequest (?:was )?blocked")
"""A firewall's page, which says nothing about the text."""
_PARAMETER = _words(
    r"(?:unsupported|unrecognized|unknown|unexpected|invalid) (?:request )?"
    r"(?:parameter|argument:|value|field)",
    r"extra (?:fields|inputs)|not permitted|does not support|is not supported with",
    r"please use max_?completion_?tokens",
)
_FLAGGED = "flagged_input"
"""A field, in which OpenRouter quotes the text that a moderation refused."""
# A filter is about this prompt only: it becomes a refusal of one case, never the end of a run.
_FILTER_CODES = _names(
    *("content_filter", "content_policy_violation", "responsibleaipolicyviolation"),
    *("data_inspection_failed", "datainspectionfailed", "content_blocked", "1301"),
    *(
        "prompt_blocked",
        "content_moderation",
        "moderation_blocked",
        "sensitive_content",
    ),
    *("guardrail_intervened", "policy_violation", "safety", "invalid_prompt"),
    *("sensitivecontentdetected", "inputtextsensitivecontentdetected"),
    *("outputtextsensitivecontentdetected", "inputtextriskdetection"),
    *(_FLAGGED, "hooks_failed", "system_unsafe", "user_unsafe", "censorship_blocked"),
)
_FILTERED = _words(
    (
        r"content.?(?:policy|policies|filter|management|moderation|safety)"
        r"|safety (?:system|filter|polic)"
    ),
    r"(?:usage|use) (?:polic|guideline)|terms of (?:service|use)|flagged|moderation|guardrail",
    r"data.?inspection|inappropriate|jailbreak|prompt.?injection|content exists risk",
    r"(?:input|prompt|request|output|content|message|text|response).{0,40}"
    r"(?:sensitive|harmful|unsafe|blocked|risky|prohibited)",
    r"(?:harmful|unsafe|prohibited) content",
    r"敏感|违规|不当内容|不安全",
)
_LONG_CODES = _names(
    *("context_length_exceeded", "string_above_max_length", "request_too_large"),
    *("exceed_context_size_error", "context_window_exceeded", "prompt_too_long"),
    *("token_limit_exceeded", "max_tokens_exceeded", "input_too_long", "1261"),
)
_TOO_LONG = _words(
    r"context.?(?:length|window|size)|maximum (?:context|prompt length|model length|input length)",
    r"exceed_context_size|exceeds the available context|exceeds? (?:the )?context",
    r"(?:prompt|input|request|messages?|text)s? (?:is|are|was|you \w+ was) too (?:long|large)",
    r"too long (?:to|for)",
    r"must have less than \d+ tokens|too many (?:input )?tokens|reduce the length",
    r"(?:number of (?:input )?tokens|(?:input )?token count).{0,40}exceed",
    r"(?:prompt|input|total|message)s? ?_?(?:length|tokens?)\b.{0,40}(?:exceed|larger than|> ?\d)",
    r"exceed\w* (?!.{0,40}(?:daily|monthly|per ))[^.]{0,40}(?:token limit|number of tokens)",
    r"max_(?:prompt|input|seq)_len",
    r"max_tokens must be at least \d+, got -|range of input length|超长|长度超|超过.{0,8}长度",
    r"too large for model|max_new_tokens`? must be <=|request too large for model",
)
_KEY_CODES = _names(
    *("invalid_api_key", "api_key_invalid", "unauthenticated", "authentication_error"),
    *("invalid_authentication", "incorrect_api_key", "unrecognizedclientexception"),
    *("expiredtokenexception", "invalidsignatureexception", "account_suspended"),
    *("unsupported_country_region_territory", "expired_api_key", "service_disabled"),
    "no_db_connection",  # LiteLLM's proxy without a database knows one key only
    *("accessdeniedexception", "api_key_service_blocked"),
    *("api_key_http_referrer_blocked", "api_key_ip_address_blocked"),
)
_KEY = _words(
    r"api.?key|invalid (?:key|token|credential)|token .{0,30}(?:invalid|expired)",
    r"token could not be (?:validated|verified)|scope requirement|missing scopes?",
    r"network settings|public access is disabled|private endpoint|firewall rule",
    r"credentials|unauthori[sz]ed|not authori[sz]ed|authentication|authorization|signature",
    r"location is not supported|country, region|unsupported_country",
)
_KEY_IN_REQUEST = _words(
    "api.?key|location is not supp|unsupported countr|unsupported region"
)
_ACCESS = _words(
    r"access (?:to (?:the )?model )?(?:is |was )?denied|have access|permission|ip address",
    r"country|region|territory|accept\w* the (?:license|terms)",
    r"(?:your|this) (?:account|organi[sz]ation|project|team|plan)\b",
)
"""What is said of a key without rights, and of a request that goes beyond them."""
_MODEL_CODES = _names(
    *("model_not_found", "model_decommissioned", "model_not_exist", "invalid_model"),
    *("deploymentnotfound", "model_not_available", "unknown_model", "1211"),
    *("model_not_supported", "operationnotsupported", "model_terms_required"),
    *("model_permission_blocked_project", "model_permission_blocked_org"),
    *("invalidendpointormodel.notfound", "modelnotopen", "unavailable_model"),
)
_NO_MODEL = _words(
    r"invalid model(?: name| id)?\b|not a valid model|unknown model|no such model",
    r"models?(?: name| id| identifier)?\b.{0,80}(?:not exist|not found|not available|decommissioned"
    r"|is invalid|deprecated|no longer|is not supported|not recognized)",
    r"(?:does not|doesn't) have (?:this|the|that) model|unsupported model|(?m:^model: \S+$)",
    r"does not work with the specified model|on-demand throughput|模型.{0,20}不存在",
    r"model .{0,40}end of (?:its )?life|model use case details have not been submitted",
)
_NO_CHAT = _words(
    r"does not support chat(?!\w| \w)|not a chat model|only supported in v1/responses"
)
_NO_TEMPLATE = _words(
    r"chat completions (?:are|is) disabled",
    r"chat.?template (?:is |was )?(?:not set|not defined|missing|no longer allowed)",
    r"must provide a chat.?template",
)
_OTHER_PAGE = _words(r"\Aa web page with status 40[45]\b")
"""Of a server that has only pages, or of a firewall that does not like one text."""
_NO_PAGE = _words(
    r"(?m:^(?:not ?found|404 page not found|resource not found|method not allowed|no such page"
    r"|invalid url\b.*|unknown url\b.*|cannot post\b.*|no route matched.*"
    r"|(?:unexpected endpoint or method|unknown request url|unknown path|could not route to)\b.*)"
    r"\W*(?:\(post .*)?$)",
    r"(?m:^(?:an empty response|an error without a message)\b.*\b40[45]\b)",
)
"""What is said of an address without chat completions, and not of a model."""
_NO_ACCESS_CODES = _names(
    *("key_model_access_denied", "team_model_access_denied"),
    *("user_model_access_denied", "org_model_access_denied"),
    "project_model_access_denied",
)
"""LiteLLM's proxy says with 401 that the key is right, but not for this model."""
_LIMIT_CODES = _names(
    *("rate_limit_exceeded", "rate_limit_error", "throttlingexception", "throttling"),
    *("toomanyrequestsexception", "too_many_requests", "rate_limited", "rate_limit"),
    *("requests_limit_exceeded", "request_limit_exceeded", "throttling.ratequota"),
    *("1302", "1303", "1305"),
)
_LIMIT = _words(
    r"too many (?:concurrent )?requests",
    (
        r"rate.?limit(?:ed)? (?:is |was |has been )?(?:reached|exceeded|hit)"
        r"|rate_limit_(?:exceeded|error)"
    ),
    r"(?:exceeded|reached|hit) (?:the |your |its )?(?:\w+ )?rate.?limit",
)
_TOO_LARGE = _words(r"request too large for", r"tokens must be reduced")
"""What is said of a request that is more than the limit of a minute, whenever it is sent."""
_UNWRITTEN_CODES = _names(
    "json_validate_failed", "tool_use_failed", "output_parse_failed"
)
"""The model did not write what was asked for; it may the next time."""
_UNFINISHED = _words(r"max_tokens or model output limit was reached")
_TOO_BIG = _words(
    r"requires more system memory|insufficient system resources"
    r"|failed (?:to load|loading) model|could not load model"
)
_ROUTE = _words(r"endpoints? found that (?:can handle|supports?)")
_BUSY_CODES = _names(
    *(
        "overloaded_error",
        "overloaded",
        "server_overloaded",
        "serviceunavailableexception",
    ),
    *("unavailable", "engine_overloaded_error", "modelnotreadyexception"),
)
_BUSY = _words(
    r"(?:overloaded|too busy|(?:at|out of|over) capacity|high demand)"
    r".{0,60}(?:try again|retry|later)"
)
_LOADING = _words(
    r"loading model|model .{0,40}(?:is )?(?:currently )?loading|warming up"
)
_CRASHED = _words(
    r"model (?:has )?(?:crashed|unloaded)|operation cancell?ed|process has terminated",
    r"channel error",
)
_NO_LOGIN = _words(
    r"login fail|(?:access|auth|api).?(?:token|key) (?:is )?(?:invalid|expired)",
    r"(?:invalid|expired) (?:access|auth|api).?(?:token|key)",
)
_NO_TLS = _words("plain http request was sent to https port")
_DISCONNECTED = _words(
    (
        r"connection error|cannot connect|connect call failed"
        r"|connection (?:refused|reset|aborted|closed)"
    ),
    r"disconnected|incomplete|not completed|peer closed|name or service not known|getaddrinfo",
)
_UNREACHABLE = _words(
    r"cannot connect|connect call failed|connection refused|all connection attempts failed",
    r"name or service not known|getaddrinfo|temporary failure in name resolution|unreachable",
)
_GARBLED = _words(
    r"jsondecode|expecting value|invalid json|not valid json|unterminated string",
    r"unable to (?:get json|parse)|invalid response object|nonetype|unexpected mimetype|keyerror",
    r"expecting ',' delimiter|validation error",
)
_REFUSING = (400, 402, 403, 405, 406, 409, 412, 413, 415, 422, 429, 451)
# `_REFUSING`: refusals of any kind. `_ASKING`: what can be about the request itself.
_ASKING = (400, 403, 404, 413, 422, 451)
_MISSING = (404, 405, 410)
_FILTERING = (400, 403, 422, 424, 446, 451)
"""What filters answer with; 424 is Cloudflare's gateway, and 446 that of Portkey."""
_CONNECTION_ERRORS = _names("APIConnectionError", "ConnectionError")
_NEVER = (501, 505, 510)
"""What the server does not do, it will not do later."""

# The first rule that matches counts. An account and a capability come before a key: a 403 can be
# about any of them.
_RULES = (
    _Rule("connection", True, "outage", (0, 500, 503), classes=_names("no connection")),
    _Rule("not_found", False, "model", text=_NO_PROVIDER),
    _Rule("auth", False, "key", text=_NO_KEY),
    _Rule("account", False, "account", (402,)),
    _Rule(
        "account", False, "account", (*_REFUSING, 401, 500), _SPENT_CODES, waits=False
    ),
    _Rule("account", False, "account", _REFUSING, text=_SPENT, waits=False),
    _Rule("account", False, "account", (400, 403), text=_NO_PAYMENT),
    _Rule("account", False, "account", (403,), _names("quota_exceeded")),
    _Rule("account", False, "account", (429,), text=_DAY),
    _Rule("rate_limit", True, "server", (429,), _names("resource_exhausted")),
    _Rule("account", False, "account", (429,), text=_QUOTA, waits=False),
    _Rule("not_found", False, "model", (401, 403), _NO_ACCESS_CODES),
    _Rule("auth", False, "key", (401, 407)),
    _Rule("auth", False, "key", (400, 403), _KEY_CODES),
    _Rule("too_long", False, "request", (400, 413, 429), text=_TOO_LARGE),
    _Rule("rate_limit", True, "server", (*_ASKING, 0, 200), _LIMIT_CODES, text=_LIMIT),
    _Rule("bad_response", True, "request", (400, 422), _UNWRITTEN_CODES),
    _Rule("truncated", False, "request", (400,), text=_UNFINISHED),
    _Rule("content_filter", False, "request", (*_ASKING, 424, 446, 500), _FILTER_CODES),
    _Rule("too_long", False, "request", (*_ASKING, 500), _LONG_CODES),
    _Rule("too_long", False, classes=_names("ContextWindowExceededError")),
    _Rule("content_filter", False, classes=_names("ContentPolicyViolationError")),
    _Rule("not_found", False, "model", (*_ASKING, 410), _MODEL_CODES),
    _Rule("not_found", False, "model", (*_ASKING, 500), text=_NO_CHAT),
    _Rule("not_found", False, "address", (*_ASKING, 500), text=_NO_TEMPLATE),
    _Rule("too_long", False, "request", (*_ASKING, 500), text=_TOO_LONG),
    _Rule("auth", False, "request", (403,), text=_BLOCKING_PAGE),
    _Rule("content_filter", False, "request", _FILTERING, text=_FILTERED),
    _Rule("bad_request", False, "request", (404,), text=_ROUTE),
    _Rule("bad_request", False, "capability", (403, 404), text=_CAPABILITY),
    _Rule("bad_request", False, "capability", (400, 422), text=_PARAMETER),
    _Rule("not_found", False, "model", (400, 404, 500), text=_TOO_BIG),
    _Rule("server", True, "loading", (404, 409), text=_LOADING),
    _Rule("server", True, "server", (400, 403, 404, 422), text=_BUSY),
    _Rule("not_found", False, "request", (400, 403, 422), text=_NO_MODEL),
    _Rule("not_found", False, "address", (400,), text=_NO_TLS),
    _Rule("auth", False, "key", (400,), text=_KEY_IN_REQUEST),
    _Rule("auth", False, "key", (422,), text=_NO_LOGIN),
    _Rule("auth", False, "key", (403,), text=_KEY),
    _Rule("auth", False, "model", (403,), text=_ACCESS),
    _Rule("auth", False, "request", (403,)),
    _Rule("not_found", False, "model", _MISSING, text=_NO_MODEL),
    _Rule("not_found", False, "request", (404, 405), text=_OTHER_PAGE),
    _Rule("not_found", False, "address", _MISSING, text=_NO_PAGE),
    _Rule("not_found", False, "request", _MISSING),
    _Rule("timeout", True, "server", (408,)),
    _Rule("rate_limit", True, "server", (429,)),
    _Rule("too_long", False, "request", (413,)),
    _Rule("server", True, "server", (400, 422), _BUSY_CODES),
    _Rule("server", False, "request", _NEVER),
    _Rule("bad_response", True, classes=_names("APIResponseValidationError")),
    _Rule("bad_response", True, "request", (0, 200, 500), text=_GARBLED),
    _Rule("connection", True, "outage", (0, 500), text=_UNREACHABLE),
    _Rule("connection", True, "server", (0, 500), text=_DISCONNECTED),
    _Rule("connection", True, "server", classes=_CONNECTION_ERRORS),
    _Rule("server", True, "loading", (400, 500, 503), text=_LOADING),
    _Rule("server", True, "server", (400,), text=_CRASHED),
    _Rule("server", True, "server", (409, 421, 424, 425, 498, 499)),
    _Rule("server", True, "server", (502, 503, 504)),
    _Rule("server", True, "server", range(500, 2**63)),
    _Rule("bad_request", False, "request", range(400, 500)),
)
_STATUS_OF_CLASS = (
    ("AuthenticationError", 401),
    ("PermissionDeniedError", 403),
    ("NotFoundError", 404),
    ("Timeout", 408),
    ("APITimeoutError", 408),
    ("TimeoutError", 408),
    ("RateLimitError", 429),
    ("UnprocessableEntityError", 422),
    ("BadRequestError", 400),
)
"""The status of an exception that has none, by its class; `Timeout` is one whatever its status
is."""


def call_error(error: BaseException) -> CallError:
    """Map an exception to a call error with its kind, a clean message, and whether and
    when to retry.
    """
    message = clean_message(str(error))
    fault = _fault(error, message)
    # Neither the status nor the words are known, for example 0 or 200 with a text of no rule.
    for rule in _RULES:
        if rule.matches(fault):
            break
    else:
        text = message or type(error).__name__
        return CallError("bad_response", text, retryable=False, status=fault.status)
    if rule.kind == "bad_request" and fault.parameter not in message.lower():
        message = f"{message} (parameter '{fault.parameter}')"
    # the provider may know better that a retry cannot help
    retryable = rule.retryable and fault.final is not True
    wait = fault.wait
    if wait is None and rule.kind == "rate_limit":
        # Some providers state the wait only as the time at which their limits are reset.
        wait = wait_for_reset(headers_of(error))
    return CallError(
        rule.kind,
        message,
        retryable=retryable,
        retry_after=wait if retryable else None,
        scope=rule.scope,
        status=fault.status,
    )


def _fault(error: BaseException, message: str) -> _Fault:
    """Collect the features of an error that the table of faults is matched with.

    They come from the exception, its causes, the parsed body, and the headers.

    Args:
        error: The exception of a transport, of LiteLLM, or of a provider's client.
        message: The cleaned text of the error.
    """
    classes = frozenset(kind.__name__ for kind in type(error).__mro__)
    # LiteLLM hides a failed connection behind its own exceptions
    if not _UNREACHED.isdisjoint(_cause_names(error)):
        classes |= {_NO_CONNECTION}
    body = getattr(error, "evalkit_body", None)
    # Our own transports attach the parsed body; OpenAI's client has it as `body`.
    if body is None:
        body = getattr(error, "body", None)
    codes = {str(getattr(error, name, None) or "").lower() for name in ("code", "type")}
    details = [*_details(body)]
    codes |= {text.lower() for name, text in details if name in _CODE_FIELDS}
    codes |= {name for name, _ in details if name == _FLAGGED}
    texts = [text for name, text in details if name in _TEXT_FIELDS]
    # Links name pages such as `/rate-limits` or `/api-keys`, which are not what the error is
    # about.
    text = _URL.sub("", "\n".join(dict.fromkeys([message, str(error), *texts])))
    parameters = [text.lower() for name, text in details if name == "param"]
    parameter = parameters[0] if parameters else ""
    headers = headers_of(error)
    if (kind := headers.get("x-amzn-errortype")) is not None:
        codes.add(kind.partition(":")[0].lower())
    wait = retry_after(headers)
    if wait is None:
        wait = wait_in_body(text, body)
    retry_hint = headers.get("x-should-retry", "").strip().lower()
    return _Fault(
        status=_status(error, classes),
        codes=frozenset(codes - {"", "none"}),
        text=text,
        classes=classes,
        wait=wait,
        parameter=parameter if _IDENTIFIER.fullmatch(parameter) else "",
        # OpenAI's header says whether to retry; `final` is the opposite.
        final={"true": False, "false": True}.get(retry_hint),
    )


_UNREACHED = frozenset(
    ("ConnectError", "ConnectionRefusedError", "ClientConnectorError", "ConnectTimeout")
)
_NO_CONNECTION = "no connection"
_LONGEST_CHAIN = 12


def _cause_names(error: BaseException) -> Iterator[str]:
    """Yield the names of the classes of an error and of its causes."""
    cause: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if cause is None:
            return
        yield from (kind.__name__ for kind in type(cause).__mro__)
        # The chain may have a cycle, so the loop has a bound.
        cause = cause.__cause__ or cause.__context__


_IDENTIFIER = lazy_pattern(r"(?!none$|null$)[a-z][a-z_.]{0,39}")
_CODE_FIELDS = ("code", "type", "status", "reason", "error_code", "__type", "errortype")
_TEXT_FIELDS = (
    *("message", "raw", "detail", "msg", "error", "failed_generation", "quotaid"),
)


def _details(body: object) -> Iterator[tuple[str, str]]:
    """Yield the name, in lowercase, and the text of each value in an error's body."""
    for name, value in fields_in(body):
        if isinstance(value, str | int) and not isinstance(value, bool):
            yield name.lower(), str(value)[:_LONGEST_DETAIL]


def _status(error: BaseException, classes: frozenset[str]) -> int:
    # Before the status: LiteLLM gives its timeouts one that says less.
    if classes & {"Timeout", "APITimeoutError"}:
        return 408
    status: Any = getattr(error, "status_code", None)
    if isinstance(status, int) and not isinstance(status, bool):
        return status
    return next((number for name, number in _STATUS_OF_CLASS if name in classes), 0)


def clean_message(message: str) -> str:
    """Return a provider's message on one line, without wrapping, secrets, and the
    server's own paths.
    """
    # Step by step: drop tracebacks, join lines, drop the prefixes of nested exceptions, unwrap a
    # JSON body, and shorten paths. Redaction is last but one, because a shortened secret would no
    # longer be recognized.
    text = _TRACEBACK.sub(_end_of_traceback, _NOISE.sub("", message))
    text = " ".join(text.split())
    while (prefix := _PREFIX.match(text)) is not None:
        text = text[prefix.end() :]
    text = _PATH.sub("…/", _unwrapped(text))
    return shorten(redact(writable(text)), LONGEST_MESSAGE)


def _end_of_traceback(traceback: re.Match[str]) -> str:
    """Return the last line of a traceback, which is the error, unless there is a
    message before it.
    """
    if traceback.string[: traceback.start()].strip():
        return ""  # the text before it is the message
    *_, last = traceback["frames"].strip().splitlines() or [""]
    if last and not last.lstrip().startswith("File "):
        return last
    return _NO_REASON


def writable(text: str) -> str:
    """Return a text that UTF-8 can encode: JSON may contain unpaired surrogates."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def _unwrapped(text: str) -> str:
    """Return the message inside an error that is the whole JSON body of a response, or
    the text itself.
    """
    try:
        body = json.loads(text)
        error = body.get("error") or body if isinstance(body, dict) else {}
        if isinstance(error, dict):
            message = error.get("message") or error.get("detail")
        else:
            message = error
        return str(message or text)
    except (ValueError, RecursionError):
        return text


def headers_of(error: BaseException) -> Mapping[str, str]:
    """Return the headers of the response that a LiteLLM exception carries, by lowercase name."""
    response = getattr(error, "response", None)
    collected: dict[str, str] = {}
    for headers in (
        getattr(response, "headers", None),
        getattr(error, "litellm_response_headers", None),
    ):
        for name, value in dict(headers or {}).items():
            collected[str(name).lower()] = str(value)
    return collected
