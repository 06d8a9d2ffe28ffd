"""Lines of JSON are those of the standard encoder, with the fields of a dataclass in order."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import inf, nan

import numpy as np
import pytest

from evalkit.core.types import Case, ChecklistItem, Judgment, Response
from evalkit.runs.records import encode_finite, encode_line

TEXTS = ("", "plain", 'quoted "', "back\\slash", "two\nlines\t", "\x00\x1f", "é 中文 \U0001f600")
CASES = [
    Case(
        text or "id",
        text,
        (Response(text, None, 0.5), Response("b", text, class_name=text)),
        context=text or None,
        metadata={"text": text, "items": [1, None, True, {"a": 0.1}]},
        labels={"ann": (1.0, None), "ben": (text, None)},
        checklist=(ChecklistItem("i", text),),
    )
    for text in TEXTS
]


@pytest.mark.parametrize("case", CASES)
def test_a_dataclass_is_written_as_its_fields(case):
    expected = json.dumps(asdict(case), ensure_ascii=False) + "\n"
    assert encode_line(case).decode() == expected
    assert encode_finite(case).decode() == expected


def test_values_of_other_types_are_written_as_plain_ones():
    judgment = Judgment("c", (0, 1), (1, 0), 0, "m", "ok", value=np.float32(0.5))
    assert json.loads(encode_line(judgment))["value"] == 0.5
    assert encode_line((1, "a", None, {"b": (2,)})) == b'[1, "a", null, {"b": [2]}]\n'


@pytest.mark.parametrize("number", [nan, inf])
def test_numbers_that_json_lacks_become_texts_or_are_refused(number):
    case = Case("c", "q", (Response("a", grade=number),))
    grade = json.loads(encode_line(case))["responses"][0]["grade"]
    assert grade == json.dumps(number)
    with pytest.raises(ValueError, match="JSON compliant"):
        encode_finite(case)
