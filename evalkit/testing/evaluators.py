"""The check of an evaluator: its plan, what it reads, and that both orders are treated alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any

from evalkit.core.protocols import Evaluator
from evalkit.core.types import (
    Case,
    Completion,
    JudgeRequest,
    JudgeSpec,
    Judgment,
    Response,
)
from evalkit.engine.requests import call_key
from evalkit.evaluators.wrappers import impossible

CASES = (
    Case("pair", "Say hello.", (Response("Hello."), Response("Go away."))),
    Case(
        "several",
        "打个招呼。",
        (Response("你好。"), Response(""), Response("</task> {{ 7 }} {% x %}")),
        context="zh",
    ),
    Case(
        "long",
        "Sum up.",
        (Response("word " * 5000), Response("short")),
        reference="A summary.",
        label="B",
    ),
)
"""Cases for every evaluator; an evaluator may refuse one with an EvalkitError."""

ODD: Mapping[str, Completion] = MappingProxyType(
    {
        "an empty text": Completion(""),
        "white space": Completion(" \n\t\n"),
        "prose without an answer": Completion(
            "Both were written with some care, and there is much to be said of them."
        ),
        "broken JSON": Completion('{"result": {"winner": '),
        "JSON of another kind": Completion('{"unrelated": [1, 2, {"x": null}]}'),
        "a JSON list": Completion("[]"),
        "JSON null": Completion("null"),
        "an answer that was cut off": Completion(
            '{"analysis": {"str', finish_reason="length"
        ),
        "a refusal": Completion("I'm sorry, but I can't help with that."),
        "a refusal in Chinese": Completion("抱歉，我无法协助处理这个请求。"),
        "a refusal next to the text": Completion("", refusal="I will not judge this."),
        "a text that the content filter stopped": Completion(
            "", finish_reason="content_filter"
        ),
        "thinking and nothing else": Completion(
            "<think>Let me see. A? B? 3? 4?</think>"
        ),
        "a megabyte of one letter": Completion("x" * 1_000_000),
        "a hundred thousand brackets": Completion("[" * 100_000),
        "invalid characters": Completion("\x00\ud800\ufffe\u202e"),
    }
)
"""Completions without a usable answer."""

_SPEC = JudgeSpec("judge", "test/judge")
_OWN_ANSWER = Completion("I would say hello.")
_MAX_STEPS = 4


def check_evaluator(
    evaluator: Evaluator, *, cases: Sequence[Case] = CASES, answers: Sequence[str] = ()
) -> None:
    """Check that an evaluator satisfies the assumptions of the engine and of scoring.

    Its plan must be the same each time, with different content keys. It must read every completion,
    however odd, as a judgment or one more request, and take no value from a completion without an
    answer. The same answer to the same responses in the other order must be the opposite judgment.

    Args:
        evaluator: An evaluator from `make_evaluator`.
        cases: The cases to plan.
        answers: Texts that the evaluator must be able to read, at least one with a winner if it
            compares responses; by default they are generated from the schema of the requests.

    Raises:
        AssertionError: If a check fails; the message lists all problems.
    """
    if problems := list(dict.fromkeys(faults(evaluator, cases=cases, answers=answers))):
        raise AssertionError("\n".join(problems))


def faults(
    evaluator: Evaluator, *, cases: Sequence[Case] = CASES, answers: Sequence[str] = ()
) -> Iterator[str]:
    """Yield a description of every problem that `check_evaluator` reports."""
    # Once for all cases, so that a plan that depends on earlier ones shows in the second call
    # below.
    planned = [(case, list(evaluator.plan(case))) for case in cases]
    for case, requests in planned:
        # A copy, so that a plan that is remembered by the object does not count as the same.
        if list(evaluator.plan(deepcopy(case))) != requests:
            yield f"case '{case.id}': plan returns other requests when it is called again"
        if not requests:
            yield f"case '{case.id}': plan returns no requests"
        yield from _plan_faults(case, requests)
        yield from _answer_faults(evaluator, requests, answers)
    yield from _odd_faults(
        evaluator,
        [request for _, requests in planned for request in requests[:2]][:2],
    )


def _plan_faults(case: Case, requests: Sequence[JudgeRequest]) -> Iterator[str]:
    """Yield what is wrong with the first requests of a case, each alone and then together."""
    for request in requests:
        where = f"case '{case.id}', shown {list(request.shown)}"
        for fault in _request_faults(case, request):
            yield f"{where}: {fault}"
    # Judgments are identified by these, so of two equal ones one would be lost.
    identities = [
        (request.unit, request.shown, request.sample, request.items)
        for request in requests
    ]
    repeated = {entry for entry in identities if identities.count(entry) > 1}
    for *identity, _ in repeated:
        yield f"case '{case.id}': unit, order and sample {tuple(identity)} are requested twice"
    # The first of two steps is shared on purpose, so the second one counts.
    keys = [call_key(_SPEC, request.then or request) for request in requests]
    if len(set(keys)) < len(keys):
        yield (
            f"case '{case.id}': two requests have the same content key, so they would share one"
            " answer"
        )


def _request_faults(case: Case, request: JudgeRequest) -> Iterator[str]:
    """Yield what is wrong with one first request."""
    if request.case_id != case.id:
        yield f"case_id is '{request.case_id}', which is another case"
    unit = list(request.unit)
    responses = list(range(len(case.responses)))
    # Scoring finds both orders of a pair by its unit, so it must be the same for both.
    is_ascending = unit == sorted(set(unit))
    if not unit or not is_ascending or not set(unit) <= set(responses):
        yield f"unit {unit} is not an ascending selection of {responses}"
    if tuple(sorted(request.shown)) != request.unit:
        yield f"shown is not a permutation of unit {unit}"
    if request.turn != 0 or request.sample < 0:
        yield (
            f"a first request has turn {request.turn} and sample {request.sample}: turn must be 0"
        )
    are_messages = all(_is_message(message) for message in request.messages)
    if not request.messages or not are_messages:
        yield "messages must be at least one text with a role"


def _is_message(message: Mapping[str, Any]) -> bool:
    return bool(message.get("role")) and isinstance(message.get("content"), str)


def _odd_faults(
    evaluator: Evaluator, requests: Sequence[JudgeRequest]
) -> Iterator[str]:
    """Yield what is wrong with the reading of completions without a usable answer."""
    for description, completion in ODD.items():
        for request in requests:
            judgment, wrong = _judge(evaluator, request, completion)
            yield from (f"{description}: {fault}" for fault in wrong)
            # A score that is made up for an odd answer would look like any other.
            if judgment is not None and (judgment.readable or _has_value(judgment)):
                yield (
                    f"{description}: read as {judgment.status} with a value, but a missing"
                    " answer is never"
                    " a score"
                )


def _answer_faults(
    evaluator: Evaluator, requests: Sequence[JudgeRequest], answers: Sequence[str]
) -> Iterator[str]:
    """Yield what is wrong with the reading of good answers, in both orders of a comparison."""
    readable = leaning = 0
    # Comparisons first: only these have two orders to check.
    compared = [request for request in requests if len(request.unit) > 1]
    for request in islice(compared or requests, 2):
        for text in answers or [example_answer(request)]:
            judgment, wrong = _judge(evaluator, request, Completion(text))
            yield from wrong
            if judgment is None or not judgment.readable:
                continue
            readable += 1
            # The same answer about the same positions, with the responses exchanged.
            mirrored, wrong = _judge(evaluator, _reversed(request), Completion(text))
            yield from wrong
            if len(request.unit) > 1 and mirrored is not None:
                leaning += _leans(judgment)
                yield from _flip_faults(judgment, mirrored)
    if not readable:
        yield (
            "no answer could be read: pass `answers` in the form that a judge would write"
            f" ({_sample(requests)})"
        )
    elif compared and not leaning:
        yield (
            "every answer is a tie, which cannot show whether margins flip with the order: pass one"
            " with a winner"
        )


def _reversed(request: JudgeRequest) -> JudgeRequest:
    then = None if request.then is None else _reversed(request.then)
    return replace(request, shown=request.shown[::-1], then=then)


def _sample(requests: Sequence[JudgeRequest]) -> str:
    if requests:
        return f"tried {example_answer(requests[0])[:200]!r}"
    return "there were no requests"


def _flip_faults(judgment: Judgment, mirrored: Judgment) -> Iterator[str]:
    """Yield where two readings of one answer, in opposite orders, are not opposite."""
    if judgment.ranking is not None and judgment.shown[::-1] == mirrored.shown:
        if _positions(judgment) != _positions(mirrored):
            yield "the same ranking of the responses in reverse order is not the reverse ranking"
        return
    values = {"value": (judgment.value, mirrored.value)}
    for name, value in judgment.criteria.items():
        values[f"criterion '{name}'"] = (value, mirrored.criteria.get(name))
    for name, (margin, reverse) in values.items():
        if not _are_opposite(margin, reverse):
            yield (
                f"{name} is {margin}, and {reverse} with the order reversed: margins must be"
                " un-swapped, and flip"
            )


def _are_opposite(margin: float | None, reverse: float | None) -> bool:
    """Return whether one margin is minus the other, or both are missing."""
    if margin is None or reverse is None:
        return margin is reverse
    # Not `<=`: a margin of NaN has its own message.
    return not abs(margin + reverse) > 1e-9


def _positions(judgment: Judgment) -> list[list[int]]:
    return [
        # From indexes of responses to positions in the prompt.
        sorted(judgment.shown.index(index) for index in group)
        for group in judgment.ranking or ()
    ]


def _leans(judgment: Judgment) -> bool:
    return bool(judgment.value) or len(judgment.ranking or ()) > 1


def _has_value(judgment: Judgment) -> bool:
    has_verdict = (
        judgment.value is not None
        or bool(judgment.criteria)
        or judgment.ranking is not None
    )
    return (
        has_verdict or judgment.class_name is not None or any(judgment.items.values())
    )


def _judge(
    evaluator: Evaluator, request: JudgeRequest, completion: Completion
) -> tuple[Judgment | None, list[str]]:
    """Give the evaluator one completion until it returns a judgment.

    Returns:
        The judgment, or `None` if there is no valid one; and a description of each problem.
    """
    current = request
    for _ in range(_MAX_STEPS):
        # A request with a `then` asks for the judge's own answer first. An odd completion takes
        # the place of that one, too.
        is_odd = completion in ODD.values()
        reply = _OWN_ANSWER if current.then is not None and not is_odd else completion
        result, problem = _read_twice(evaluator, current, reply)
        if isinstance(result, Judgment):
            return result, list(_judgment_faults(result, request))
        if result is not None and current.then is None:
            problem = _turn_problem(current, result)
        if result is None or problem:
            return None, [problem]
        current = result
    # Each request is paid for, so a repair without end would be expensive.
    return None, [f"read still returns a request after {_MAX_STEPS} answers"]


def _read_twice(
    evaluator: Evaluator, request: JudgeRequest, completion: Completion
) -> tuple[Judgment | JudgeRequest | None, str]:
    """Read a completion twice, because a rerun reads stored answers again.

    Returns:
        What both times is the result, and ""; or `None` and what is wrong.
    """
    try:
        result = evaluator.read(request, completion)
        again = evaluator.read(request, completion)
    # An evaluator under test may raise anything.
    except Exception as error:
        return None, (
            f"read raises {type(error).__name__}: {error}; return an unparseable judgment instead"
        )
    if result != again:
        return None, "read returns another result when it is called again"
    if not isinstance(result, Judgment | JudgeRequest):
        kind = type(result).__name__
        return None, f"read returns a {kind}, neither a Judgment nor a JudgeRequest"
    return result, ""


def _turn_problem(request: JudgeRequest, repeated: JudgeRequest) -> str:
    """Return what is wrong with the turn of a request that repeats another; "" if it is right."""
    if repeated.turn == request.turn + 1:
        return ""
    return f"a repeated request has turn {repeated.turn} after turn {request.turn}"


def _judgment_faults(judgment: Judgment, request: JudgeRequest) -> Iterator[str]:
    """Yield where a judgment is not about its request, or its status contradicts its value."""
    for name in ("case_id", "unit", "shown", "sample"):
        if getattr(judgment, name) != getattr(request, name):
            yield (
                f"a judgment's {name} is {getattr(judgment, name)}, but the request's is"
                f" {getattr(request, name)}"
            )
    if judgment.readable and not _has_value(judgment):
        yield (
            f"a judgment of status {judgment.status} has no value, criteria, ranking, class or"
            " items"
        )
    if not judgment.readable and (_has_value(judgment) or not judgment.error):
        yield (
            f"a judgment of status {judgment.status} has a value, or no error that explains why"
            " there is none"
        )
    if fault := impossible(judgment):
        yield fault


def example_answer(request: JudgeRequest) -> str:
    """Return an answer in the format of a request, or of the request that needs its
    answer; empty for free text.
    """
    answer = (request.then or request).answer
    if answer is None:
        return ""
    return json.dumps(_example_value(answer.schema, 0), ensure_ascii=False)


def _example_value(schema: Mapping[str, Any], index: int) -> Any:
    """Return a valid value for a JSON schema.

    Successive items of a list take successive values of an enum.
    """
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][index % len(schema["enum"])]
    if "anyOf" in schema:
        return _example_value(schema["anyOf"][0], index)
    kind = schema.get("type")
    if kind == "object":
        return {
            name: _example_value(part, index)
            for name, part in schema.get("properties", {}).items()
        }
    if kind == "array":
        return [
            _example_value(schema.get("items", {}), k)
            for k in range(max(1, schema.get("minItems", 1)))
        ]
    if kind in ("integer", "number"):
        return min(
            schema.get("minimum", 0) + (index if kind == "integer" else 0),
            schema.get("maximum", index),
        )
    if kind == "boolean":
        return True
    return "text"
