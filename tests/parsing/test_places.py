"""Where values stand in a judge's text: by structure, whatever else the text looks like."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.parsing.json import places

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from leaves(part, (*path, place))
    else:
        yield path, value


@given(st.dictionaries(st.text(), VALUES, max_size=5), st.booleans(), st.sampled_from([None, 0, 3]))
def test_every_value_of_any_object_is_found_where_it_is_written(answer, ascii_only, indent):
    text = "So: " + json.dumps(answer, ensure_ascii=ascii_only, indent=indent) + " That is all."
    found = places(text, answer)
    assert set(found) == {path for path, _ in leaves(answer)}
    for path, value in leaves(answer):
        start, end = found[path]
        written = text[start:end]
        assert json.loads(f'"{written}"' if isinstance(value, str) else written) == value


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ('{"score": 1} is not my answer, but this is: {"score": 7}', "7"),
        ('<think>{"score": 7}? yes</think>{"score": 7}', "7"),
        ('{"note": "{\\"score\\": 7}", "x": 1} {"score" : 7 }', "7"),
        ('{ not JSON } {"score":\n7}', "7"),
        ('```json\n{"score": 7}\n```', "7"),
    ],
)
def test_the_last_equal_object_counts(text, there):
    start, end = places(text, {"score": 7})["score",]
    assert text[start:end] == there
    assert start == text.rindex("7")


@pytest.mark.parametrize("text", ["", "seven", '{"score": 7', "{'score': 7}", '{"score": 8}', '{"score": 7,}'])
def test_what_does_not_stand_there_as_json_has_no_place(text):
    assert places(text, {"score": 7}) == {}
