"""No answer takes long to read, however deep or long it is: time grows with its length and not faster."""

from __future__ import annotations

import time

import pytest

from evalkit.config import OutputConfig
from evalkit.core.scale import Scale
from evalkit.parsing import UnreadableError, drop_thinking, read_json
from evalkit.parsing.json import places
from evalkit.parsing.plain_text import unescape
from tests.support.verdicts import read_rating, read_verdict

DEEP = 60_000
SCHEMA = {"properties": {"result": {"properties": {"winner": {}, "reasoning": {}}}}}
TEXTS = {
    "deep objects": '{"a":' * DEEP,
    "deep objects that end": '{"a":' * DEEP + "1" + "}" * DEEP,
    "deep lists": '{"result": ' + "[" * DEEP + "]" * DEEP + "}",
    "deep lists in a string": '{"result": "' + "[" * DEEP,
    "braces": "{" * DEEP,
    "parentheses": '{"result": ' + "(" * DEEP,
    "not so deep, again and again": ('{"a":' * 900 + "x") * 60,
    "objects": "{}" * DEEP,
    "objects that never end": '{"result": 1, ' * DEEP,
    "thoughts that never end": "<think>" * DEEP,
    "thoughts that never began": "</think>" * DEEP,
    "marks": "[[A]]" * DEEP,
    "marks that are none": "[[" + " " * DEEP + "A" + " " * DEEP,
    "brackets": "[" * DEEP,
    "backslashes": "\\" * DEEP,
    "escapes": "\\u0077" * DEEP,
    "entities": "&#" + "9" * DEEP + "&amp;" * DEEP,
    "digits": '{"result": ' + "9" * DEEP,
    "quotation marks": '{"result": "' + '"' * DEEP,
    "spaces": '{"' + " " * DEEP + "result",
    "lines": "[[A]]\n" * DEEP,
}


def readings(text, sources):
    for read in (
        lambda: read_json(text, keys=["result"], sources=sources, schema=SCHEMA),
        lambda: read_verdict(text, OutputConfig(format="bracket"), sources=sources),
        lambda: read_rating(text, OutputConfig(format="bracket"), Scale(min=1, max=5, step=1), sources=sources),
        lambda: places(text, {"result": 1}),
        lambda: drop_thinking(text, sources),
        lambda: unescape(text),
    ):
        try:
            read()
        except UnreadableError:
            continue


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_hostile_text_is_read_or_refused_at_once(text: str) -> None:
    begun = time.process_time()
    readings(text, ["Paris."])
    readings('{"result": {"winner": "A"}} [[A]]', [text, "Paris."])
    # Twelve readings; where time grows with the square of the length, one takes longer.
    assert time.process_time() - begun < 5.0
