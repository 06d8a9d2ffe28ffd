"""YAML and JSON that describe a value without bounds are refused before it is made."""

import pytest

from evalkit.core.bounded_files import DEEPEST, UnboundedError, read_json, read_yaml

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [BOMB, "a: &a [*a]\n", "a: &a {b: *a}\n", "[" * 5000, "{a: " * 5000, "- " * 500 + "x", BOMB.replace("x", "{x: 1}")],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_yaml_without_bounds_is_refused(text):
    with pytest.raises(UnboundedError, match=r"nested deeper than|when its aliases"):
        read_yaml(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [("a: [", "line 1|line 2"), ("a: b: c", "line 1"), ("\x00", "characters are not allowed")],
)
def test_what_is_not_yaml_is_a_line(text, what):
    with pytest.raises(ValueError, match=what) as error:
        read_yaml(text)
    assert "\n" not in str(error.value)


def test_yaml_with_bounds_is_read():
    assert read_yaml("a: &a [1, 2]\nb: *a\nc: {d: yes}") == {
        "a": [1, 2],
        "b": [1, 2],
        "c": {"d": True},
    }


@pytest.mark.parametrize("text", ["[" * 5000, '{"a":' * 5000, "[" * 61 + "]" * 61, b"[" * 10**6])
def test_json_without_bounds_is_refused(text):
    with pytest.raises(UnboundedError, match="nested"):
        read_json(text)


def test_brackets_in_json_texts_do_not_count():
    text = "[" + '"[[[[[[[[[[\\"{{{{{{{{{{", ' * 20 + "1]"
    assert len(read_json(text)) == 21
    assert read_json("[" * DEEPEST + "]" * DEEPEST) is not None
    assert read_json(b'{"a": "\\u00e9"}') == {"a": "é"}
