"""Read responses of OpenAI-compatible servers; only this module and `completions` clean answers.

Only the message's content (or a tool call's arguments) is required. Everything else is valid or
absent: text that UTF-8 can encode, integers in bounds, finite numbers. No response can raise
anything but a CallError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from types import MappingProxyType
from typing import Any

from evalkit.core.errors import CallError, Scope
from evalkit.core.finish_reasons import CONTEXT_FULL, end_of
from evalkit.core.types import TokenLogprob, Usage
from evalkit.core.values import Json, frozen, mapping_at
from evalkit.judges.error_bodies import PAGE, error_of, start_of, text_of
from evalkit.judges.error_mapping import RefusedError, call_error, writable
from evalkit.judges.event_streams import completion_in, json_in

MOST_TOKENS = 10**9
_LONGEST_NAME = 200
_LEAST = -9999.0  # OpenAI's log-probability of an impossible token; JSON has no -inf
_ROUNDING = 0.01
_NO_USAGE = Usage()
_THOUGHT = re.compile(
    r"<(?:think|thinking|budget:thinking)>(.*?)</(?:think|thinking|budget:thinking)>(.*)",
    re.DOTALL,
)
_TOOL_ENDS = ("tool_calls", "function_call")
_FAILED_CHOICE = "the provider ended the answer with an error"


@frozen
class Answer:
    """A cleaned provider answer.

    Attributes:
        content: The message's text; never `None` without `arguments`.
        arguments: The arguments of the first tool call that has any.
        model: The model that the provider reports.
        finish_reason: Why the model stopped, in OpenAI's words.
        usage: The token counts.
        cached: The prompt tokens that the provider had cached.
        tier: The service tier that the provider reports.
        reasoning: The model's reasoning, if it is separate from the content.
        refusal: The model's refusal.
        logprobs: The log-probabilities of the content's tokens.
        broken_logprobs: Whether log-probabilities were sent but cannot be used.
        fingerprint: The provider's name for the configuration that answered.
    """

    content: str | None
    arguments: str | None = None
    model: str | None = None
    finish_reason: str | None = None
    usage: Usage = _NO_USAGE
    cached: int = 0
    tier: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    broken_logprobs: bool = False
    fingerprint: str | None = None


def answer_of(
    response: object, *, split_thoughts: bool = False, end: str | None = None
) -> Answer:
    """Clean a response.

    Args:
        response: An OpenAI chat completion, as an object or as parsed JSON.
        split_thoughts: Whether to move thinking at the start of the content to `reasoning`, as
            LiteLLM does.
        end: The provider's own word for the end of the answer, if the response has another one.

    Raises:
        CallError: Of kind `bad_response`, if the response has no text message, or if the provider
            did not finish the answer.
    """
    choices = _get(response, "choices")
    if isinstance(choices, Mapping):
        choices = [choices]  # as SGLang writes its only choice
    if not _is_list(choices) or not choices:
        raise _blocked(response) or bad_response("the answer has no choices")
    # evalkit never asks for more than one choice: if there are more, the answer has index 0.
    choice = next(
        (choice for choice in choices if _get(choice, "index") == 0), choices[0]
    )
    _check_choice(choice)
    message = _get(choice, "message")
    if message is None and isinstance(_get(choice, "text"), str):
        message = {"content": _get(choice, "text")}  # in the form of a text completion
    if message is None and end_of(_name(_get(choice, "finish_reason"))) == "refused":
        message = {}
    if message is None or isinstance(message, str | int | float) or _is_list(message):
        raise bad_response("the answer's first choice has no message")
    content = _content(_get(message, "content"))
    reasoning = _text(_get(message, "reasoning_content"), _get(message, "reasoning"))
    if (
        split_thoughts
        and reasoning is None
        and content
        and (thought := _THOUGHT.match(content))
    ):
        reasoning, content = thought.groups()
    calls = _get(message, "tool_calls")
    calls = calls if _is_list(calls) else ()
    # Older servers answer with a single `function_call` instead of a list.
    if not calls and (older := _get(message, "function_call")):
        calls = ({"function": older},)
    raw_logprobs = _get(choice, "logprobs")
    finish = finish_of(end or _get(choice, "finish_reason"))
    # Several servers end a tool call with `stop`.
    finish = "tool_calls" if finish == "stop" and calls else finish
    usage = _get(response, "usage")
    logprobs = _logprobs(_get(raw_logprobs, "content"))
    arguments = _all_arguments(calls)
    if content is None and arguments is None:
        raise bad_response("the content of the answer's message is not text")
    return Answer(
        content=content,
        arguments=arguments,
        model=_name(_get(response, "model")),
        finish_reason=finish,
        usage=_usage(usage),
        cached=count(_get(_get(usage, "prompt_tokens_details"), "cached_tokens")) or 0,
        tier=_name(_get(response, "service_tier")),
        reasoning=reasoning or None,
        refusal=_text(
            _get(message, "refusal") or None,
            _get(_get(message, "provider_specific_fields"), "refusal") or None,
            _refusal_in(_get(message, "content")),
        ),
        logprobs=logprobs,
        broken_logprobs=raw_logprobs is not None and bool(content) and not logprobs,
        fingerprint=_name(_get(response, "system_fingerprint")),
    )


def _blocked(response: object) -> CallError | None:
    """Return that a filter blocked the prompt, if an answer without choices says so."""
    word = _name(_get(_get(response, "promptFeedback"), "blockReason"))
    results = _get(response, "prompt_filter_results")
    for part in results if _is_list(results) else ():
        verdicts = _get(part, "content_filter_results")
        for name, verdict in verdicts.items() if isinstance(verdicts, Mapping) else ():
            if _get(verdict, "filtered") is True:
                word = _name(name)
    if word is None:
        return None
    message = f"the provider's filter blocked the prompt ({word})"
    return CallError("content_filter", message, retryable=False)


def _check_choice(choice: object) -> None:
    """Refuse a choice with an error: its text is what the model had written before it failed.

    Raises:
        CallError: If it has one.
    """
    error = _get(choice, "error")
    if not error or isinstance(error, int | float):
        return
    fields = error if isinstance(error, Mapping) else {"message": error}
    message = text_of(fields.get("message") or _FAILED_CHOICE)
    code = fields.get("code")
    status = code if type(code) is int and 400 <= code < 600 else 500
    name = None if code is None else str(code)
    raise call_error(RefusedError(message, name, status, {}, fields))


def finish_of(reason: object) -> str:
    """Return the end of an answer: `stop`, `length`, `content_filter`, or the
    provider's word for another one.

    Raises:
        CallError: If the provider did not finish the answer, or ended it for a reason that is not
            known to be an end.
    """
    # What is not text states nothing.
    word = writable(reason)[:_LONGEST_NAME].strip() if isinstance(reason, str) else ""
    end = end_of(word)
    if end == "failed":
        raise bad_response(f"the provider ended the answer with '{word}'")
    if end == "unknown":
        message = f"the answer ended with '{word}', which is not known to be a complete answer"
        raise bad_response(message, retryable=False)
    folded = word.lower()
    if end == "complete":
        if folded in ("tool_use", "tool_call", "function_calls"):
            return "tool_calls"
        if folded in _TOOL_ENDS:
            return folded
        return "stop"
    if end == "length" and folded != CONTEXT_FULL:
        return "length"
    if end == "refused" and folded in _FILTER_WORDS:
        return "content_filter"
    return word


_FILTER_WORDS = ("content_filter", "content_filtered", "refusal", "sensitive", "safety")
"""The words that mean no more than OpenAI's own."""


def _all_arguments(calls: Sequence[object]) -> str | None:
    """Return the arguments of the tool calls: all of them if they differ, so that no
    verdict is hidden.
    """
    # Two calls with different verdicts must not be read as the first one: the parser sees both
    # and reports that they differ.
    texts = [text for call in calls if (text := _arguments(call))]
    return "\n".join(dict.fromkeys(texts)) or None


def bad_response(message: str, *, retryable: bool = True) -> CallError:
    """Return the error of a response that is not an answer."""
    return CallError("bad_response", message, retryable=retryable)


def _get(container: object, name: str) -> Any:
    # Parsed JSON; asking whether it is some other mapping takes ten times as long.
    if type(container) is dict or isinstance(container, Mapping):
        return container.get(name)
    return getattr(container, name, None)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _content(content: object) -> str | None:
    """Return a message's content as text, with its parts joined; empty for null, `None`
    if it is not text.

    An object is the JSON that the model wrote, which the server has parsed.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return writable(content)
    if isinstance(content, Mapping):
        if "type" not in content:
            return _dumped(content)
        content = [content]  # the only part, without its list
    if not isinstance(content, list):
        return None
    parts = [
        part if isinstance(part, str) else _get(part, "text")
        for part in content
        if isinstance(part, str) or _get(part, "type") in _TEXT_PARTS
    ]
    if not parts and _refusal_in(content) is not None:
        return ""
    if parts and all(isinstance(part, str) for part in parts):
        return writable("".join(parts))
    return None


_TEXT_PARTS = (None, "text", "output_text")


def _refusal_in(content: object) -> str | None:
    """Return the refusal among the parts of a message's content."""
    parts = content if isinstance(content, list) else ()
    return _text(*(_get(part, "refusal") for part in parts))


def _arguments(call: object) -> str | None:
    arguments = _get(_get(call, "function"), "arguments")
    if isinstance(arguments, Mapping):
        return _dumped(arguments)
    if isinstance(arguments, str) and arguments:
        return writable(arguments)
    return None


def _dumped(parsed: Json) -> str | None:
    """Return an object as the JSON text that it was; `None` if it has no such text."""
    try:
        return writable(json.dumps(parsed, ensure_ascii=False, allow_nan=False))
    except (ValueError, TypeError, RecursionError):
        return None


def _text(*values: object) -> str | None:
    return next((writable(value) for value in values if isinstance(value, str)), None)


def _name(value: object) -> str | None:
    if isinstance(value, str) and value:
        return writable(value)[:_LONGEST_NAME]
    return None


def _usage(usage: object) -> Usage:
    prompt, completion = (
        count(_get(usage, name)) for name in ("prompt_tokens", "completion_tokens")
    )
    # LiteLLM fills in zeros if the provider does not report usage; every prompt has tokens.
    if prompt:
        return Usage(prompt, completion)
    return Usage()


def count(value: object) -> int | None:
    """Return a plausible number of tokens; `None` if it is something else."""
    if type(value) is int and 0 <= value <= MOST_TOKENS:
        return value
    return None


def _logprobs(content: object) -> tuple[TokenLogprob, ...] | None:
    """Return the tokens; `None` if there are none, or if one is invalid: a gap would
    shift the others.
    """
    if not isinstance(content, list) or not content:
        return None
    tokens = []
    for entry in content:
        token = _get(entry, "token")
        top = _get(entry, "top_logprobs")
        chosen = _logprob(entry)
        if isinstance(top, list):
            listed = [_logprob(alternative) for alternative in top]
        else:
            listed = []
        if chosen is None or any(alternative is None for alternative in listed):
            return None
        alternatives = tuple(
            alternative for alternative in listed if alternative is not None
        )
        tokens.append(
            TokenLogprob(*chosen, alternatives, _raw(_get(entry, "bytes"), token))
        )
    return tuple(tokens)


def _logprob(entry: object) -> tuple[str, float] | None:
    """Return a token and its logarithm; `None` for an entry that makes the list unusable."""
    token = _get(entry, "token")
    logprob = _get(entry, "logprob")
    # llama.cpp writes -inf, and others null, for impossible tokens.
    if (
        not isinstance(token, str)
        or not isinstance(logprob, int | float | None)
        or isinstance(logprob, bool)
    ):
        return None
    if logprob is None or not isfinite(logprob):
        # A token with no probability stays in the list, as the least likely one.
        return writable(token), _LEAST
    # Above 0 beyond rounding is no logarithm of a probability; the whole list is then not usable.
    if logprob > _ROUNDING:
        return None
    return (writable(token), max(_LEAST, min(0.0, float(logprob))))


def _raw(values: object, token: str) -> tuple[int, ...] | None:
    """Return a token's bytes if they differ from the UTF-8 encoding of its text."""
    if not isinstance(values, list) or not all(
        type(byte) is int and 0 <= byte < 256 for byte in values
    ):
        return None
    if bytes(values) == token.encode("utf-8", "surrogatepass"):
        return None
    return tuple(values)


def answer_in(
    status: int,
    body: bytes,
    headers: Mapping[str, str],
    read: Callable[[Any], Answer] | None = None,
) -> Answer:
    """Return the answer in a response.

    Args:
        status: The status.
        body: The decompressed body.
        headers: The headers, by lowercase name.
        read: Reads parsed JSON that is not an error; by default as a chat completion.

    Raises:
        CallError: If the response is an error or not an answer.
    """
    try:
        parsed = json_in(_COMMENTS.sub(b"", body, count=1))
    except (ValueError, RecursionError):
        parsed = completion_in(body) if read is None else None
    return _answer_from(status, parsed, body, headers, read)


_COMMENTS = re.compile(rb"\A\s*(?::[^\n]*\n\s*)+")
"""What servers send before an answer to keep the connection: lines that begin with a colon."""


@frozen
class OtherEnd:
    """The end of an answer in another protocol than OpenAI's chat completions.

    Attributes:
        reason: The provider's word for it; `None` if there is none.
        empty: Whether the provider sent no text at all, though it should have.
    """

    reason: str | None = None
    empty: bool = False


def other_end(body: bytes) -> OtherEnd:
    """Return how an answer ended, by the body of Anthropic, Bedrock, Cohere, Gemini,
    Mistral, Ollama or Responses.

    LiteLLM reports several ends as complete that are not.

    Raises:
        CallError: If the provider did not finish the answer.
    """
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return OtherEnd()
    if isinstance(parsed, list) and parsed:
        # Some answers of Gemini are lists; their parts have the same form.
        parsed = parsed[0]
    if not isinstance(parsed, Mapping):
        return OtherEnd()
    candidates = parsed.get("candidates")
    if _is_list(candidates) and candidates:
        parts = _get(_get(candidates[0], "content"), "parts")
        reason = _name(_get(candidates[0], "finishReason"))
        return OtherEnd(reason, empty=not parts)
    choices = parsed.get("choices")
    if _is_list(choices) and choices:
        _check_choice(choices[0])
        return OtherEnd(_name(_get(choices[0], "finish_reason")))
    if parsed.get("object") == "response":
        return _end_of_response(parsed)
    for name in ("stop_reason", "stopReason", "finish_reason", "done_reason"):
        if reason := _name(parsed.get(name)):
            return OtherEnd(reason)
    return OtherEnd()


def _end_of_response(parsed: Json) -> OtherEnd:
    """Return the end of an answer of OpenAI's Responses API.

    Raises:
        CallError: If it failed.
    """
    error = parsed.get("error")
    if isinstance(error, Mapping):
        message = text_of(error.get("message") or _FAILED_CHOICE)
        code = _name(error.get("code"))
        raise call_error(RefusedError(message, code, 500, {}, error))
    status = _name(parsed.get("status"))
    # The Responses API has the reason in a field of its own.
    if status == "incomplete":
        details = _get(parsed.get("incomplete_details"), "reason")
        return OtherEnd(_name(details) or status)
    return OtherEnd(status)


_LONGEST_ERROR = 2**20


def error_in(status: int, body: bytes, headers: Mapping[str, str]) -> CallError:
    """Return the error in a response whose status is that of an error."""
    try:
        # Parsing a huge error page would block all other calls; its beginning says enough.
        parsed = json.loads(body) if len(body) <= _LONGEST_ERROR else None
    except (ValueError, RecursionError):
        parsed = None
    return _error_from(status, parsed, start_of(body, status), headers)


def _error_from(
    status: int, parsed: object, start: str, headers: Mapping[str, str]
) -> CallError:
    message, code = error_of(parsed, status) or (start, None)
    return call_error(RefusedError(message, code, status, headers, parsed))


def answer_in_line(row: Json) -> Answer:
    """Return the answer in a parsed line of a batch's output or error file.

    Raises:
        CallError: If the line holds an error or no answer.
    """
    response = mapping_at(row, "response")
    error = row.get("error")
    status = response.get("status_code")
    status = status if type(status) is int else 200
    if error:
        error = error if isinstance(error, Mapping) else {"message": error}
        # 422: an error without a status is about the request, not the key or the server.
        return _answer_from(status if status >= 400 else 422, {"error": error})
    body = response.get("body", response)
    return _answer_from(status, body)


def _answer_from(
    status: int,
    parsed: Any,
    body: bytes = b"",
    headers: Mapping[str, str] = MappingProxyType({}),
    read: Callable[[Any], Answer] | None = None,
) -> Answer:
    """Return the answer in a response, or raise what it is instead as a `CallError`."""
    start = start_of(body, status)
    status, parsed = _out_of_function(status, parsed)
    parsed = _within(parsed)
    error = error_of(parsed)
    if status >= 400:
        raise _error_from(status, parsed, start, headers)
    if read is not None and isinstance(parsed, list):
        return read(parsed)
    if _is_generated(parsed):
        # It may begin with the prompt, whose verdicts are not the judge's.
        message = f"the answer is a 'generated_text', not a chat completion: {start}"
        raise CallError(
            "bad_response", message, retryable=False, scope="address", status=status
        )
    if not isinstance(parsed, Mapping):
        message = f"the answer is not a JSON object: {start}"
        # A page for people, where a server of models should be, is about the address.
        about: Scope = "address" if start.startswith(PAGE) else "request"
        raise CallError(
            "bad_response", message, retryable=True, scope=about, status=status
        )
    if error:
        raise _error_in_answer(parsed, error, status, headers)
    if read is None:
        return answer_of(parsed, split_thoughts=True)
    return read(parsed)


_AROUND = ("data", "result", "response", "output", "body")


def _within(parsed: Any) -> Any:
    """Return a chat completion out of what gateways put around it; anything else is unchanged."""
    if isinstance(parsed, list) and len(parsed) == 1 and _get(parsed[0], "choices"):
        return parsed[0]
    if isinstance(parsed, Mapping) and "choices" not in parsed:
        inner = [parsed[name] for name in _AROUND if _get(parsed.get(name), "choices")]
        if len(inner) == 1:
            return inner[0]
    return parsed


def _out_of_function(status: int, parsed: Any) -> tuple[int, Any]:
    """Return the status and the JSON that a serverless function wrapped as a text;
    others are unchanged.
    """
    code = _get(parsed, "statusCode")
    text = _get(parsed, "body")
    if type(code) is not int or not isinstance(text, str):
        return status, parsed
    with suppress(ValueError, RecursionError):
        parsed = json.loads(text)
    return max(status, code if code < _NO_STATUS else 0), parsed


_NO_STATUS = 600


def _is_generated(parsed: Any) -> bool:
    """Return whether JSON is the answer of a server of text generation, a list or an object."""
    first = parsed[0] if isinstance(parsed, list) and parsed else parsed
    return isinstance(_get(first, "generated_text"), str)


_UNKNOWN = 422
"""The status that an error in a response without an error's status is read with."""


def _error_in_answer(
    parsed: Json,
    error: tuple[str, str | None],
    status: int,
    headers: Mapping[str, str],
) -> CallError:
    """Return the error in the body of a response without an error's status."""
    message, name = error
    inner = parsed.get("error")
    code = _get(inner if isinstance(inner, Mapping) else parsed, "code")
    if isinstance(code, str) and re.fullmatch("[45][0-9][0-9]", code):
        code = int(code)
    # A code in the body of a 200 response does not prove that the key is wrong.
    # `type` and not `isinstance`: `True` is an integer, too.
    if type(code) is not int or code in (401, 403, 404):
        code = _UNKNOWN
    mapped = call_error(RefusedError(message, name, code, headers, parsed))
    if mapped.kind == "bad_request" and code == _UNKNOWN and mapped.scope == "request":
        # Neither a code nor words say that the request is wrong.
        mapped = call_error(RefusedError(message, name, 500, headers, parsed))
    mapped.__cause__ = RefusedError(message, name, status, headers)
    return mapped


def completed_text(parsed: Any) -> Answer:
    """Return the answer in OpenAI's text completion, which is its first choice.

    Raises:
        CallError: Of kind `bad_response`, if it has no text.
    """
    choices = _get(parsed, "choices")
    if (
        not _is_list(choices)
        or not choices
        or not isinstance(_get(choices[0], "text"), str)
    ):
        raise bad_response("the answer's first choice has no text")
    choice = {
        "finish_reason": _get(choices[0], "finish_reason"),
        "message": {"content": _get(choices[0], "text")},
    }
    return answer_of({**parsed, "choices": [choice]}, split_thoughts=True)


def rewards_in(parsed: Any) -> Answer:
    """Return the rewards or class probabilities of one text, with its label, as the
    JSON text of an answer.

    Reads what vLLM's `/classify` (`probs`, `label`), `/pooling` (`data`, of which the last token's
    counts) and `/score` (`score`) answer, SGLang's `/classify` (`embedding`), and TEI's `/predict`
    and `/rerank` (a list of scores).

    Raises:
        CallError: Of kind `bad_response`, if it is not about one text, or a value is not a finite
            number.
    """
    rows = _get(parsed, "data") if isinstance(parsed, Mapping) else parsed
    # Some servers answer for a list of texts, even if one was sent: the outer list has one entry.
    rows = rows[0] if _is_list(rows) and len(rows) == 1 and _is_list(rows[0]) else rows
    if (
        not _is_list(rows)
        or not rows
        or not all(isinstance(row, Mapping) for row in rows)
    ):
        raise bad_response(
            "the answer has no list of rewards; check judge.endpoint", retryable=False
        )
    rewards: list[Any] = [
        next((row[key] for key in _REWARD_KEYS if key in row), None) for row in rows
    ]
    values: list[Any] = rewards
    if len(rewards) == 1 and _is_list(rewards[0]):
        values = rewards[0]
    # `/pooling` may have a row for each token; the reward is in the last one.
    if values and _is_list(values[-1]):
        values = values[-1]
    numbers = [
        float(value)
        for value in values
        if type(value) in (int, float) and isfinite(value)
    ]
    if not numbers or len(numbers) < len(values):
        raise bad_response(
            "a reward is missing or not a finite number", retryable=False
        )
    # Rows and numbers have the same index here; with one row, it is index 0.
    label = _name(_get(rows[max(range(len(rows)), key=numbers.__getitem__)], "label"))
    content = json.dumps({"values": numbers, "label": label}, ensure_ascii=False)
    return Answer(
        content,
        model=_name(_get(parsed, "model")),
        finish_reason="stop",
        usage=_usage(_get(parsed, "usage")),
    )


def reported_context(parsed: Any, model: str) -> int | None:
    """Return the context of a model in the answer of vLLM or llama.cpp to `/v1/models`;
    `None` if it is not there.
    """
    models = _get(parsed, "data")
    for entry in models if isinstance(models, list) else ():
        if (longest := positive(_get(entry, "meta"), "n_ctx")) is not None:
            return longest  # llama.cpp serves one model, whatever name is sent
        if _get(entry, "id") == model:
            return positive(entry, "max_model_len")
    return None


def positive(container: object, name: str) -> int | None:
    """Return a positive integer by its name; `None` if it is something else."""
    return count(_get(container, name)) or None


_REWARD_KEYS = ("probs", "data", "score", "embedding")
