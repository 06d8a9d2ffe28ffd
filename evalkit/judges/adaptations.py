"""Adapt requests to what an endpoint cannot do: each change is made once, remembered
for the run, and reported.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace

from evalkit.core.errors import CallError
from evalkit.core.patterns import lazy_pattern
from evalkit.core.types import AnswerFormat, Message, Rung
from evalkit.core.values import Json, JsonObject, frozen, mapping_of

LIMITS = ("max_tokens", "max_completion_tokens")
RUNGS: tuple[Rung, ...] = ("json_schema", "tool", "json_object", "text")
OPTIONAL = ("temperature", "seed", "logprobs", "top_logprobs")
TOP = "top_logprobs"
SYSTEM_NOTE = (
    "with the system text in the first user message; answers are stored as requested and as"
    " sent, so judge.system=user finds them"
)

_FORMAT = r"response_?format|input should be .{0,40}'(?:text|json_object)'"
_COMPLAINTS: Mapping[Rung, re.Pattern[str]] = {
    "json_schema": re.compile(
        rf"{_FORMAT}|json_?schema|schema|structured.?output|guided|grammar"
        r"|additional_?properties|\bstrict\b|\$(?:defs|ref)",
        re.IGNORECASE,
    ),
    "tool": re.compile(r"\btools?\b|tool_choice|tool.?call|function", re.IGNORECASE),
    "json_object": re.compile(rf"{_FORMAT}|json_?object|json.?mode", re.IGNORECASE),
}
_UNSUPPORTED = (
    r"(?:not|isn't|aren't|doesn't|never) (?:be )?"
    r"(?:support|enabl|allow|accept|permit|available|valid)"
    r"|unsupported|unknown|unrecognized|unexpected|invalid|disallow|no longer|deprecated|only"
    r"|must alternate|instead"
)
_KINDS = (
    r"parameters?|arguments?|fields?|propert(?:y|ies)|options?|keys?|inputs?|keywords?"
)
_BOUNDS = (
    r"must|should|cannot|can't|between|range|at (?:least|most)|too (?:large|small|high|low)"
    r"|incompatible"
)
_DAILY = ("stop", "user", "store", "metadata", "prediction", "modalities", "verbosity")
_SHORTEST = 3
_NO_SYSTEM = lazy_pattern(
    rf"(?:system|developer)['\"]?,? (?:role|message|prompt|instruction)s?\b"
    rf".{{0,80}}(?:{_UNSUPPORTED})"
    rf"|(?:{_UNSUPPORTED}).{{0,60}}(?:system|developer)['\"]?,? (?:role|message|prompt|instruction)"
    r"|messages?\[\d+\]\.role"
    r"|role.{0,10}['\"]?(?:system|developer)\b.{0,60}(?:not|invalid|unsupported)"
    rf"|(?:{_UNSUPPORTED}).{{0,40}}role.{{0,4}}['\"]?(?:system|developer)"
    r"|only user,? (?:and|or) (?:assistant|model) roles"
    r"|roles must alternate user/(?:assistant|model)"
    r"|(?:valid role|role).{0,30}: user, (?:model|assistant)\.?$",
    re.IGNORECASE,
)
_OTHER_LIMIT = {
    "max_tokens": re.compile(
        r"max_?tokens.{0,120}max_?completion_?tokens|unsupported parameter.{0,20}max_tokens\b",
        re.IGNORECASE | re.DOTALL,
    ),
    "max_completion_tokens": re.compile(
        r"max_completion_tokens\b.{0,60}(?:not support|unsupported|not permitted|unrecognized"
        r"|unknown|unexpected|not allowed|extra)"
        r"|(?:unsupported|unrecognized|unknown|unexpected|extra)[^.]{0,60}max_completion_tokens",
        re.IGNORECASE | re.DOTALL,
    ),
}
_ONLY_STREAMS = lazy_pattern(
    r"only supports? (?:the )?stream|stream(?:ing)? (?:mode )?(?:is )?required"
    r"|(?:for|in) non-?stream(?:ing)? (?:calls?|requests?|mode)"
    r"|non-?stream(?:ing)?[^.]{0,40}(?:not|n't|un)[ -]?support"
    r"|stream['\"`]? (?:must|should|needs to|has to) be (?:set to )?['\"`]?true"
    r"|only stream(?:ing|ed)? (?:calls?|requests?|responses?)",
    re.IGNORECASE,
)
_LIMIT_IN_WORDS = lazy_pattern(
    r"maximum (?:output )?tokens (?:you requested|value)", re.I
)
_ABOUT_TOP = lazy_pattern(
    r"top_?logprobs|(?:sample )?log_?probs (?:of|must|should|is|are|cannot)", re.I
)
_NUMBER = lazy_pattern(r"(?<![\w.])\d{1,3}(?![\w.]*\d)")
_EXCLUSIVE = lazy_pattern(
    r"(?:less|smaller|fewer) than (?!or equal)\D{0,3}(\d+)|,\s*(\d+)\)|< ?(\d+)"
)


@frozen
class Shape:
    """How requests are sent: the format, and what differs because the endpoint refuses it.

    Attributes:
        rung: The format of structured answers.
        dropped: The optional parameters that are not sent.
        limit: The name under which the token limit is sent; `None` for the configured one.
        top: The number of alternatives that are requested with log-probabilities; `None` for the
            configured one.
        merged: Whether the system text is in the first user message.
        streamed: Whether the answer is asked for as a stream of events, which is read as a whole.
    """

    rung: Rung
    dropped: frozenset[str] = field(default_factory=frozenset)
    limit: str | None = None
    top: int | None = None
    merged: bool = False
    streamed: bool = False


def adapted(
    shape: Shape,
    complaint: str,
    *,
    fixed: bool,
    sent: Collection[str],
    top: int | None = None,
    system: bool = False,
) -> Shape | None:
    """Return the next shape to try after a provider refused a request, or `None` if no other
    shape can help.

    A rung is a format of structured answers; `RUNGS` has them, the strictest first. One call
    makes one change: another name of the token limit, a stream, fewer alternatives, no system
    message, no parameters that the message names, or else the next lower rung.

    Args:
        shape: The shape that was sent.
        complaint: The provider's message.
        fixed: Whether the user chose the rung, so that it must not change.
        sent: The names of the parameters that were sent.
        top: The number of alternatives that was requested with log-probabilities; `None` if none
            were.
        system: Whether a system message was sent.
    """
    # The order matters: each turn makes the smallest change that the message asks for. Renaming a
    # limit and lowering a number lose nothing; dropping a parameter and a lower rung do.
    limit = None if shape.limit is not None else _accepted_limit(complaint, sent)
    if limit is not None:
        return replace(shape, limit=limit)
    if not shape.streamed and _ONLY_STREAMS.search(complaint):
        return replace(shape, streamed=True)
    lower = None if top is None else _lower_top(complaint, top)
    if lower is not None:
        return replace(shape, top=lower)
    if system and not shape.merged and _NO_SYSTEM.search(complaint):
        return replace(shape, merged=True)
    if blamed := _blamed_parameters(complaint, sent):
        return replace(shape, dropped=shape.dropped | blamed)
    pattern_of_rung = _COMPLAINTS.get(shape.rung)
    if fixed or pattern_of_rung is None or not pattern_of_rung.search(complaint):
        return None
    return lower_rung(shape)


def _accepted_limit(complaint: str, sent: Collection[str]) -> str | None:
    """Return the other name of the token limit, if a message refuses the name that was sent;
    else `None`.
    """
    for name, pattern in _OTHER_LIMIT.items():
        if name in sent and pattern.search(complaint):
            [other_name] = [limit for limit in LIMITS if limit != name]
            return other_name
    return None


def _blamed_parameters(complaint: str, sent: Collection[str]) -> set[str]:
    """Return the optional parameters of those sent that a message names, and those that are
    invalid without one of them.
    """
    blamed = {
        name for name in OPTIONAL if name in sent and names_parameter(complaint, name)
    }
    if "logprobs" in blamed:
        blamed.add(TOP)
    return blamed


def names_parameter(complaint: str, name: str) -> bool:
    """Return whether a message is about a parameter: its words may also be those of a prompt."""
    word = re.escape(name)
    if name in LIMITS and _LIMIT_IN_WORDS.search(complaint):
        return True
    if not re.search(rf"(?<![\w-]){word}(?![\w-])", complaint, re.IGNORECASE):
        return False
    if "_" in name:  # no word of a text
        return True
    marked = rf"['\"`\[(.]{word}['\"`\])]|\b(?:body|params?)\W{{1,6}}{word}\b|^{word}\b"
    close = r"[^.;\n]{0,40}?"
    before = (
        rf"(?:{_UNSUPPORTED}|{_KINDS})[^.;:\n]{{0,40}}?:?\s*(?<![\w-]){word}(?![\w-])"
    )
    after = rf"(?<![\w-]){word}(?![\w-]){close}(?:{_UNSUPPORTED}|{_BOUNDS}|{_KINDS})"
    pattern = rf"{marked}|{before}|{after}"
    # A word of one or two letters, or of daily use, is a parameter only where it is marked as one.
    if name in _DAILY or len(name) < _SHORTEST:
        pattern = rf"{marked}|(?:{_KINDS}|supplied)\W{{1,4}}{word}(?![\w-])"
    return re.search(pattern, complaint, re.IGNORECASE) is not None


def refuses_parameter(complaint: str, name: str) -> bool:
    """Return whether a message says in so many words that a parameter is not supported."""
    word = rf"['\"`]?(?<![\w-]){re.escape(name)}(?![\w-])['\"`]?"
    refusal = r"(?:not|n't) (?:be )?(?:supported|enabled|allowed|implemented|available)"
    pattern = rf"{word} (?:is|are) {refusal}|{word} (?:is |are )?unsupported"
    pattern += (
        rf"|(?:unsupported|does not support|doesn't support)[^.;\n]{{0,20}}{word}"
    )
    return re.search(pattern, complaint, re.IGNORECASE) is not None


def lower_rung(shape: Shape) -> Shape | None:
    """Return the shape with the next simpler format; `None` if there is none."""
    index = RUNGS.index(shape.rung) + 1
    if index < len(RUNGS):
        return replace(shape, rung=RUNGS[index])
    return None


def _lower_top(complaint: str, top: int) -> int | None:
    """Return the highest number of alternatives that a provider says it accepts; `None`
    if it does not say.
    """
    if not _ABOUT_TOP.search(complaint):
        return None
    numbers = [int(number[0]) for number in _NUMBER.finditer(complaint)]
    # Only numbers below what was sent can be a bound; others are codes, or repeat the request.
    lower = [number for number in numbers if 0 < number < top]
    if not lower:
        return None
    highest = max(lower)
    # numbers that are named as a bound that is not accepted itself
    exclusive = {
        int(group)
        for match in _EXCLUSIVE.findall(complaint)
        for group in match
        if group
    }
    return highest - (highest in exclusive) or None


def is_unspecific(error: CallError) -> bool:
    """Return whether an error names no cause, so that the format may be the reason."""
    if error.kind == "bad_request":
        return error.http_status in (400, 404, 422) and error.scope == "request"
    return error.kind in ("server", "bad_response") and error.http_status == 500


def describe(before: Shape, after: Shape) -> str:
    """Return how requests change, as the end of a sentence."""
    if without := ", ".join(sorted(after.dropped - before.dropped)):
        return f"without {without}"
    if after.limit != before.limit:
        return f"with {after.limit}"
    if after.streamed != before.streamed:
        return "with answers as streams"
    if after.top != before.top:
        return f"with top_logprobs={after.top}"
    if after.merged != before.merged:
        return SYSTEM_NOTE
    return f"with {after.rung} instead of {before.rung}"


def merged_messages(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages with the system text at the start of the first user message."""
    system = [m["content"] for m in messages if m["role"] == "system"]
    conversation = [m for m in messages if m["role"] != "system"]
    if not system:
        return tuple(messages)
    # No user message to put it in: the system text becomes one.
    if not conversation or conversation[0]["role"] != "user":
        return ({"role": "user", "content": "\n\n".join(system)}, *conversation)
    first, *later = conversation
    content = "\n\n".join([*system, first["content"]])
    return ({"role": "user", "content": content}, *later)


def shaped(shape: Shape, params: Json) -> JsonObject:
    """Return the parameters of a call as they are sent in a shape: under other names, with other
    values, or without some.
    """
    sent = {name: value for name, value in params.items() if name not in shape.dropped}
    if shape.limit is not None:
        for name in LIMITS:
            if name != shape.limit and name in sent:
                sent[shape.limit] = sent.pop(name)
    if shape.top is not None and TOP in sent:
        sent[TOP] = shape.top
    if shape.streamed:
        # In the body only: a client that knew of the stream would read it itself.
        extra = sent.get("extra_body")
        sent["extra_body"] = {
            **mapping_of(extra),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    return sent


_BOUNDED: list[tuple[AnswerFormat, int, AnswerFormat]] = []
_REMEMBERED = 8


def bounded_answer(
    answer: AnswerFormat | None, longest: int | None
) -> AnswerFormat | None:
    """Return an answer format whose strings have a bound; the last few are cached by identity."""
    if answer is None or longest is None:
        return answer
    # by identity: the same few formats come with every request
    for original, limit, bounded in _BOUNDED:
        if original is answer and limit == longest:
            return bounded
    bounded = replace(answer, schema=_with_bound(answer.schema, longest))
    _BOUNDED.insert(0, (answer, longest, bounded))
    del _BOUNDED[_REMEMBERED:]
    return bounded


_FIXED = {"enum", "const", "pattern", "format", "maxLength"}


def _with_bound(schema: Json, longest: int) -> JsonObject:
    bounded = dict(schema)
    if schema.get("type") == "string" and not _FIXED & set(schema):
        bounded["maxLength"] = longest
    if isinstance(properties := schema.get("properties"), Mapping):
        bounded["properties"] = {
            name: _with_bound(part, longest) for name, part in properties.items()
        }
    if isinstance(items := schema.get("items"), Mapping):
        bounded["items"] = _with_bound(items, longest)
    return bounded
