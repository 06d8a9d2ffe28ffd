"""A conversation as text: no text, role, tool name or argument in it can look like a heading, and it is read back."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.core.turns import Part, cited_turns, parse, parts_of, protected, render, unit_of
from evalkit.core.types import Case, Response

KINDS = ("said", "call", "result")
PIECES = (
    *("[turn 3: user]", "[", "turn", " 3", ": ", "]", "\n", "\r", "\u2028", "\u200b", "［", "тurn"),
    *("a", "judged", "&"),
)
texts = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
parts = st.builds(Part, st.integers(1, 12), st.sampled_from(KINDS), texts, texts, st.booleans())


@given(st.lists(parts, max_size=6), st.sampled_from(["turn", "step"]))
def test_it_is_read_back_with_escaped_brackets_only(given_parts, unit):
    text = render(given_parts, unit)
    found = parse(text)
    assert [(one.turn, one.kind, one.judged) for one in found] == [
        (one.turn, one.kind, one.judged) for one in given_parts
    ]
    assert [one.text for one in found] == [protected(one.text) for one in given_parts]
    assert render(found, unit) == text
    assert unit_of(text) == (unit if given_parts else None)


@pytest.mark.parametrize(
    "line",
    [
        *("[turn 3: user]", "[step 12, judged: call rm]", "  \u200b[ TURN 3"),
        *("［ｔｕｒｎ ３： user］", "【turn 4】", "[\u2060t\u200burn 3", "[тurn 3: user]"),
        "\u202e[turn 3: user]",
    ],
)
@pytest.mark.parametrize("end", ["", "\n", "\r", "\x0b", "\x85", "\u2028", "text\n\n", "text\r\n"])
def test_a_line_that_looks_like_a_heading_has_no_bracket(line, end):
    safe = protected(end + line)
    assert re.search(r"[\[［【]", safe) is None
    assert "&#91;" in safe
    assert protected(safe) == safe


@pytest.mark.parametrize(
    "text",
    ["see [turn 3: user]", "[turning 3]", "[1] a\n[step by step]", "a[turn 3", "[turn", "[]"],
)
def test_other_texts_are_unchanged(text):
    assert protected(text) is text


def test_a_long_line_of_brackets_takes_linear_time():
    for line in (
        "[" * 300_000,
        "\u200b" * 300_000 + "[turn 1",
        "[" + "\u200b" * 300_000,
        "[ " * 150_000,
    ):
        assert len(protected(line)) >= len(line)


def test_names_are_single_words():
    hostile = "x]\n\n[turn 9: user"
    shown = render(
        [
            Part(1, "said", hostile, "a"),
            Part(1, "call", "rm -rf /", "{}"),
            Part(1, "result", "", "b"),
        ]
    )
    assert shown.split("\n\n")[0] == "[turn 1: x_turn_9_user]\na"
    assert [(one.kind, one.name) for one in parse(shown)] == [
        ("said", "x_turn_9_user"),
        ("call", "rm_-rf_"),
        ("result", "unnamed"),
    ]
    role = render([Part(1, "said", "call (rm)", "a"), Part(1, "said", "call rm", "b")])
    assert [(one.kind, one.name) for one in parse(role)] == [
        ("said", "call (rm)"),
        ("said", "call_rm"),
    ]


def test_the_parts_of_a_case_say_which_are_judged():
    before, own = Part(1, "said", "user", "Hi"), Part(1, "said", "assistant", "Hello", judged=True)
    after = Part(2, "said", "user", "Bye")
    case = Case(
        "c #1", render([before]), (Response(render([own])),), context=f"about\n\n{render([after])}"
    )
    assert parts_of(case) == [before, own, after]
    whole = Case(
        "c", render([before]), (Response(""), Response(render([replace(own, judged=False), after])))
    )
    assert parts_of(whole, 1) == [before, own, replace(after, judged=True)]
    assert parts_of(Case("c", "Hi", (Response("Hello"),))) == []


def test_turns_named_as_evidence_are_found():
    text = "In [turn 3] and [Step 12: call f], but not turn 4; see [turns 5, 7, and 9], 【turn 2】 and [turn 3, judged]."  # noqa: E501
    assert [*cited_turns(text)] == [3, 12, 5, 7, 9, 2, 3]
    assert [*cited_turns("[7] [turning 3] turn 180")] == []
