"""Streams that nobody asked for: what is none of them is read as no answer, and never fails."""

import json

import pytest

from evalkit.judges.event_streams import completion_in

WRONG = [None, 1, True, "text", ["a"], {"b": 1}]


def streamed(*parts):
    """Return a stream whose events have these tool calls, each a list of parts."""
    choices = [{"index": 0, "delta": {"tool_calls": calls}} for calls in parts]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    lines = [f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def test_the_parts_of_a_tool_call_are_joined():
    body = streamed(
        [{"index": 0, "id": "c1", "function": {"name": "judge", "arguments": None}}],
        [{"index": 0, "function": {"name": None, "arguments": '{"winner": '}}],
        [{"index": 0, "function": {"arguments": '"A"}'}}],
    )
    [choice] = completion_in(body)["choices"]
    [call] = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "judge", "arguments": '{"winner": "A"}'}
    assert call["id"] == "c1"


@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize("field", ["index", "function", "name", "arguments", "part", "calls"])
def test_a_field_of_another_type_is_no_error(field, value):
    function = {"name": "judge", "arguments": "{}"}
    part = {"index": 0, "function": function}
    for fields in (function, part):
        if field in fields:
            fields[field] = value
    calls = {"part": [value], "calls": value}.get(field, [part])
    completion = completion_in(streamed(calls))
    assert completion is None or completion["choices"]
