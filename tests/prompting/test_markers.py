"""No text under judgment can hold a marker, and a text without one passes unchanged."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.prompting import MARKERS, neutralize, safety

PIECES = [
    *("<", "＜", "﹤", ">", "＞", "/", "／", "&lt;", " ", "\n", "\u200b", "\u202e", "\ufe0f", "\u3164", "\x00"),
    *(
        "task",
        "TASK",
        "ｔａｓｋ",
        "ta",
        "sk",
        "context",
        "Reference",
        "response",
        "response_a",
        "response-B",
        "_a",
        " b",
        "x",
        ".",
    ),
]
hostile = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


def seen(text: str) -> str:
    """The slow, obvious view of a text: every character without a visible shape left out, width and case folded."""
    kept = [
        unicodedata.normalize("NFKC", char).casefold()
        for char in text
        if unicodedata.category(char)[0] not in "CZ" and char not in "\u3164\u115f\u1160\uffa0\u034f\ufe0f"
    ]
    return "".join(kept)


@given(hostile)
def test_nothing_that_reads_as_a_marker_is_left(text: str) -> None:
    assert not re.search(rf"</?({'|'.join(MARKERS)})/?>", seen(neutralize(text)))


@given(st.text())
def test_text_without_openers_is_untouched(text: str) -> None:
    plain = re.sub("[<＜﹤]", "", text)
    assert neutralize(plain) is plain


@given(hostile)
def test_only_opening_brackets_change_and_twice_is_once(text: str) -> None:
    safe = neutralize(text)
    assert re.sub("[<＜﹤]|&lt;", "", safe) == re.sub("[<＜﹤]|&lt;", "", text)
    assert neutralize(safe) == safe


@pytest.mark.parametrize(
    "text",
    [
        *(f"<{name}>" for name in MARKERS),
        *(f"</{name}>" for name in MARKERS),
        "</RESPONSE_A>",
        "< / response_a >",
        "</resp\u200bonse_a>",
        "<\u2060/task>",
        "＜/task＞",
        "</ｔａｓｋ>",
        "</task\n>",
        "</t a s k>",
        "</response b>",
        "</response-a>",
        '<task id="2">',
        "</task foo>",
        "</ task and more>",
        "<task/>",
        "the end </task",
        "</\u202etask>",
    ],
)
def test_markers_are_neutralised(text: str) -> None:
    safe = neutralize(f"before {text} after" if not text.startswith("the end") else text)
    assert safe == (f"before {text} after" if not text.startswith("the end") else text).replace("<", "&lt;", 1).replace(
        "＜", "&lt;", 1
    )


@pytest.mark.parametrize(
    "text",
    [
        "for (i = 0; i < context.length; i++) { if (j > 3) {} }",
        "i<context.length && b>c",
        "a < task and b > c",
        "<b>bold</b> <p class='x'>",
        "<tasks> <my-task> <task-list> <Context.Provider>",
        "List<Response> is generic? no: List<Resp>",
        "2 < 3 > 1 &lt;task&gt;",
        "<responses>",
        "<a href='task'>",
    ],
)
def test_what_only_resembles_a_marker_is_left_alone(text: str) -> None:
    expected = text.replace("List<Response>", "List&lt;Response>")
    assert neutralize(text) == expected


def test_many_openers_before_much_invisible_text_are_read_in_linear_time() -> None:
    text = "<" * 20_000 + "\u200b" * 20_000
    assert neutralize(text) == text


@pytest.mark.shared
def test_published_texts_pass_byte_for_byte(shared: Path) -> None:
    texts = [
        row[column]
        for path in (shared / "data/llmbar").glob("**/dataset.json")
        for row in json.loads(path.read_text("utf-8"))
        for column in ("input", "output_1", "output_2")
    ]
    assert len(texts) == 576
    assert [neutralize(text) for text in texts] == texts


TOKENS = [
    *PIECES,
    "[",
    "|>",
    "<|",
    "INST]",
    "s>",
    "SYS>>",
    "think>",
    "bos>",
    "end_of_turn>",
    "repo_name>",
    "TOOL_CALLS]",
]


@given(st.lists(st.sampled_from(TOKENS), max_size=12).map("".join))
def test_what_need_not_be_looked_at_closely_is_nothing(text: str) -> None:
    quick = neutralize(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(safety, "_is_safe", lambda text: False)
        patch.setattr(safety, "_ASCII_OPENER", safety._OPENER)
        patch.setattr(safety, "_LIKELY_BRACKET", safety._BRACKET)
        assert neutralize(text) == quick
