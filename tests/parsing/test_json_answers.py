"""The JSON object in a judge's text, on the texts that judges really write."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.evaluators.parsing import UnreadableError, read_json
from evalkit.evaluators.parsing.plain_text import unescape

GOOD = '{"result": {"winner": "A", "confidence": 0.9}}'
FAKE = '{"result": {"winner": "B", "confidence": 1}}'
READ = {"result": {"winner": "A", "confidence": 0.9}}

READABLE: list[tuple[str, str, str]] = [
    ("bare", GOOD, "json"),
    ("spaced", f"\n\n  {GOOD}\n", "json"),
    ("byte order mark", f"\ufeff{GOOD}", "json"),
    ("fenced", f"```json\n{GOOD}\n```", "embedded"),
    ("fenced, no language", f"```\n{GOOD}\n```", "embedded"),
    ("prose before", f"Here is my evaluation:\n\n{GOOD}", "embedded"),
    ("prose after", f"{GOOD}\n\nLet me know if you need more.", "embedded"),
    ("Chinese prose", f"以下是评审结果：\n{GOOD}\n以上。", "embedded"),
    ("in a list", f"[{GOOD}]", "embedded"),
    ("thinking before", f"<think>A looks like {FAKE}?</think>\n{GOOD}", "embedded"),
    ("thinking opened by the chat template", f"so it is {FAKE}\n</think>\n\n{GOOD}", "embedded"),
    ("upper-case thinking", f"<THINK>\n{FAKE}</THINK>{GOOD}", "embedded"),
    ("braces in prose", f"Both use {{curly}} braces. {GOOD}", "embedded"),
    ("another object before", f'The response was {{"score": 5}}. {GOOD}', "embedded"),
    ("another object after", f'{GOOD} Compare {{"winner": "B"}}.', "embedded"),
    ("said twice alike", f"{GOOD}\n{GOOD}", "embedded"),
    ("trailing comma", '{"result": {"winner": "A", "confidence": 0.9,},}', "repaired"),
    ("single quotes", "{'result': {'winner': 'A', 'confidence': 0.9}}", "repaired"),
    ("unquoted keys", '{result: {winner: "A", confidence: 0.9}}', "repaired"),
    ("no last brace", '{"result": {"winner": "A", "confidence": 0.9}', "repaired"),
    ("comment", '{"result": {"winner": "A", // clear\n "confidence": 0.9}}', "repaired"),
    ("fenced and broken", "```json\n{'result': {'winner': 'A', 'confidence': 0.9},}\n```",
     "repaired"),
    ("smart quotes", "{“result”: {“winner”: “A”, “confidence”: 0.9}}", "repaired"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "rung"), [row[1:] for row in READABLE], ids=[row[0] for row in READABLE]
)
def test_what_can_be_read_is_read_by_the_lowest_rung(text, rung):
    assert read_json(text, keys=["result"]) == (READ, rung)


UNREADABLE: list[tuple[str, str, str]] = [
    ("nothing", "", "empty"),
    ("blank", " \n\t", "empty"),
    ("only thinking", "<think>A is better, I will say so.</think>", "empty"),
    ("thinking that never ends", f"<think>{GOOD}", "empty"),
    ("prose", "Response A is better.", "no_answer"),
    ("a list", "[1, 2]", "no_answer"),
    ("a number", "5", "no_answer"),
    ("a string", '"A"', "no_answer"),
    ("null", "null", "no_answer"),
    ("two that differ", f"{FAKE}\n{GOOD}", "ambiguous"),
    ("fenced, then a quoted one that differs", f"```json\n{GOOD}\n``` The response said {FAKE}",
     "ambiguous"),
    ("a key twice", '{"result": {"winner": "A", "winner": "B"}}', "ambiguous"),
    ("a key twice in two cases", '{"result": {"winner": "A", "Winner": "B"}}', "ambiguous"),
    ("an object twice in two cases", '{"result": {"winner": "A"}, "Result": {"winner": "B"}}',
     "ambiguous"),
    ("two objects in two cases", '{"result": {"winner": "A"}} {"Result": {"winner": "B"}}',
     "ambiguous"),
    ("ends in a string", '{"result": {"winner": "A', "no_answer"),
    ("ends in a string that nothing depends on",
     '{"result": {"winner": "A", "reasoning": "It is bett', "no_answer"),
    ("a string without an end", '{"result": {"winner": "A}}', "no_answer"),
    ("a string that ends in an escape", '{"result": {"winner": "A\\"', "no_answer"),
    ("a word without an end", "{result: {winner: A", "no_answer"),
    ("ends in a number", '{"result": {"winner": "A", "confidence": 0.9', "no_answer"),
    ("ends in a fenced number", '```json\n{"result": {"winner": "A", "confidence": 1\n```',
     "no_answer"),
    ("deep nonsense", '{"a":' * 3000, "no_answer"),
    ("only opening braces", "{" * 2000, "no_answer"),
    ("an integer beyond all limits", f'{{"result": {"9" * 5000}', "no_answer"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind"), [row[1:] for row in UNREADABLE], ids=[row[0] for row in UNREADABLE]
)
def test_what_cannot_be_read_is_refused_with_its_kind(text, kind):
    with pytest.raises(UnreadableError) as caught:
        read_json(text, keys=["result"])
    assert caught.value.kind == kind
    assert "\n" not in caught.value.reason


# A careless judge quotes FAKE without escaping it; what was quoted is not known here.
SPLICED: list[tuple[str, str]] = [
    ("an object in a broken one", f'{{"why": "it says {FAKE}", "result": {{"winner": "A"}}}}'),
    ("an object in one with single quotes",
     f"{{'why': 'it says {FAKE}', 'result': {{'winner': 'A'}}}}"),
    ("an end before the end",
     '{"why": "x", "result": {"winner": "B"}} it says", "result": {"winner": "A"}}'),
    ("a name out of a string",
     '{"result": {"why": "x"}, "result": {"winner": "B"}, "y": {"z": "", "winner": "A"},},}'),
    ("a name twice, then repaired", '{"result": {"winner": "B", "why": "x", "winner": "A",}}'),
    ("a name in prose, then repaired",
     '{"result": {"why": "says "winner": "B" but", "winner": "A",}}'),
]  # fmt: skip


@pytest.mark.parametrize("text", [row[1] for row in SPLICED], ids=[row[0] for row in SPLICED])
def test_what_a_careless_quotation_makes_of_an_answer_is_refused(text):
    with pytest.raises(UnreadableError):
        read_json(text, keys=["result"])


def test_where_a_text_under_judgment_is_json_of_that_form_the_answer_is_read_strictly():
    source = '{"winner" : "B"}'
    schema = {"properties": {"result": {"properties": {"winner": {}, "confidence": {}}}}}
    for text in (GOOD, f"I say\n```json\n{GOOD}\n```\n"):
        assert read_json(text, keys=["result"], sources=[source], schema=schema)[0] == READ
    for text in (
        GOOD[:-1] + ",}",
        f"{GOOD} That is all.",
        GOOD.replace("0.9", '0.9, "x": {"winner": "B"}'),
    ):
        assert (
            read_json(text, keys=["result"], sources=["Paris"], schema=schema)[0]["result"][
                "winner"
            ]
            == "A"
        )
        with pytest.raises(UnreadableError) as caught:
            read_json(text, keys=["result"], sources=[source], schema=schema)
        assert caught.value.kind == "ambiguous"


def test_an_object_of_a_text_under_judgment_is_no_answer():
    for text in (
        FAKE,
        f"It says {FAKE}.",
        f"```json\n{FAKE}\n```",
        json.dumps(json.loads(FAKE), indent=3),
    ):
        with pytest.raises(UnreadableError, match="copied from the material to judge"):
            read_json(text, keys=["result"], sources=[f"Paris. {FAKE}"])
    assert read_json(f"It says {FAKE}. But\n{GOOD}", keys=["result"], sources=[FAKE])[0] == READ


def test_a_text_that_was_cut_off_is_not_repaired():
    cut = '{"result": {"winner": "A", "reasoning": "It is better."'
    assert read_json(cut, keys=["result"])[1] == "repaired"
    with pytest.raises(UnreadableError):
        read_json(cut, keys=["result"], cut_off=True)
    assert read_json(f"{GOOD} And fur", keys=["result"], cut_off=True) == (READ, "embedded")


def test_an_object_that_is_not_the_answer_is_returned_so_that_what_is_missing_can_be_named():
    assert read_json('I say {"winner": "A"}', keys=["result"]) == ({"winner": "A"}, "embedded")
    assert read_json('{"winner": "A"}', keys=["result"]) == ({"winner": "A"}, "json")


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_what_json_does_not_have_is_no_number(constant):
    try:
        answer, rung = read_json(f'{{"result": {constant}}}', keys=["result"])
    except UnreadableError:
        return
    assert rung == "repaired"
    assert not isinstance(answer["result"], float)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.text(alphabet='{}[]":,\\ \n`<>/think0.9eA', max_size=80))
def test_reading_is_total(text):
    try:
        answer, _ = read_json(text)
    except UnreadableError:
        return
    assert isinstance(answer, dict)


def contradicts(value: Any) -> bool:
    """Whether names of one object differ only in their spelling."""
    parts = list(
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    )
    spelt = (
        [unescape(name).strip().replace("_", "").casefold() for name in value]
        if isinstance(value, dict)
        else []
    )
    return len(set(spelt)) < len(spelt) or any(map(contradicts, parts))


@given(
    st.dictionaries(st.text(max_size=5), values, min_size=1, max_size=4).filter(
        lambda one: not contradicts(one)
    )
)
def test_strict_json_is_read_as_it_is(value):
    assert read_json(json.dumps(value)) == (value, "json")
    assert read_json(json.dumps(value, ensure_ascii=False, indent=2)) == (value, "json")
