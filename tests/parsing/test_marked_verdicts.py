"""Verdicts and ratings in marks, where they are, and refusals and thoughts around them."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import OutputConfig
from evalkit.core.errors import ConfigError
from evalkit.core.scale import Scale
from evalkit.evaluators.parsing import (
    AnswerTask,
    Pattern,
    UnreadableError,
    drop_thinking,
    is_refusal,
)
from evalkit.evaluators.parsing.json import places
from tests.support.verdicts import read_rating, read_verdict

BRACKET = OutputConfig(format="bracket")


MARKED = {
    "A": (
        "[[B<A]]",
        "[[ A >> B ]]",
        "See [[Paris]] for more. My verdict: [[A]]",
        "[[A]]\n\nBye! <3",
    ),
    "B": ("[[A<<B]]", "[[Assistant B]]", 'It says "[[A]]", which is an attempt. [[B]]'),
    "TIE": ("[[B=A]]", "A matrix [[1, 2], [3, 4]] is shown. [[C]]"),
    "no_answer": ("[[A", "[[A]\n]"),
    "invalid": ("[[D]]", "[[A or B]]", "[[A/B/C]]", "[[A>A]]", "[[A>C]]", "[[7]]", "[[АВ]]"),
}
"""Verdicts and faults of marks, beside those that go through an evaluator in test_hostile_outputs."""


@pytest.mark.parametrize(
    ("text", "found"), [(text, found) for found, texts in MARKED.items() for text in texts]
)
def test_a_mark_is_a_verdict_or_a_fault(text, found):
    try:
        read = read_verdict(text, BRACKET)
    except UnreadableError as fault:
        read = fault.kind
    assert read == found


FIVE, TEN, DECIMAL, HUNDRED = Scale(1, 5, 1), Scale(1, 10, 1), Scale(1, 10, 0.1), Scale(0, 100, 5)
RATINGS = [
    (FIVE, {"[[4 out of 5]]": 4, "[[5.0]]": 5, "[[四]]": 4, "[[score]] means: [[3]]": 3}),
    (FIVE, dict.fromkeys(("[[6]]", "[[-1]]", "[[score]]", "[[nan]]", "[[inf]]", "[[4]] [[?]]"))),
    (TEN, {"[[１０]]": 10, "[[1e1]]": None, "[[1,0]]": None}),
    (DECIMAL, {"[[7.50]]": 7.5, "[[3.5/10]]": 3.5, "[[7.55]]": None}),
    (HUNDRED, {"[[85]]": 85, "[[86]]": None}),
]


@pytest.mark.parametrize(("scale", "ratings"), RATINGS)
def test_a_mark_is_a_value_of_the_scale_or_a_fault(scale, ratings):
    for text, score in ratings.items():
        try:
            read = read_rating(text, OutputConfig(format="rating"), scale)
        except UnreadableError:
            read = None
        assert read == score, text


@pytest.mark.parametrize("scale", [Scale(1, 3, 1), FIVE, TEN, DECIMAL, HUNDRED, Scale(-2, 2, 0.5)])
def test_every_value_of_a_scale_is_read_back(scale):
    for value in scale.values():
        assert (
            read_rating(f"[[{scale.text(value)}]]", OutputConfig(format="rating"), scale) == value
        )


LLMBAR = OutputConfig(
    format="regex", pattern=r"Output \((?P<winner>[ab])\)", map={"a": "A", "b": "B"}
)
VICUNA = OutputConfig(
    format="regex", pattern=r"(?m)^\s*(?P<winner>[123])\s*\Z", map={"1": "A", "2": "B", "3": "TIE"}
)
STUDY = Path(__file__).parents[2] / "experiments" / "llmbar_replay.yaml"
REPLAYED = OutputConfig(
    format="regex", pattern=yaml.safe_load(STUDY.read_text())["output"]["pattern"]
)
REGEX: list[tuple[OutputConfig, str, str]] = [
    (REPLAYED, "Output (b)", "B"),
    (REPLAYED, "Output (a) drifts off. Output (b) is better.", "B"),
    (REPLAYED, "Output (a) is better.\n\nOutput (b) is not about Mars.", "A"),
    (REPLAYED, "Output (b) is better. Output (a) is short. Output (a) is better, then.", "A"),
    (LLMBAR, "Output (a)", "A"),
    (LLMBAR, "Output (a) is off topic. Therefore, Output (b) is better.", "B"),
    (LLMBAR.model_copy(update={"take": "first"}),
     "Output (a) is better. Output (b) is not about Mars.", "A"),
    (VICUNA, "I would rate Assistant 1's answer higher than Assistant 2's answer.\n\n1", "A"),
    (VICUNA, "Both are equal.\n3", "TIE"),
    (LLMBAR.model_copy(update={"pattern": r"(?i)output \((?P<winner>[ab])\)"}), "OUTPUT (B)", "B"),
    (OutputConfig(format="regex", pattern=r"Winner: (?P<winner>\w+)"), "Winner: tie", "TIE"),
    (OutputConfig(format="regex", pattern=r"(?P<winner>[AB])|(?P<other>x)"), "A x", "A"),
]  # fmt: skip


@pytest.mark.parametrize(("output", "text", "winner"), REGEX)
def test_patterns_of_the_users_own(output, text, winner):
    assert read_verdict(text, output) == winner


@pytest.mark.parametrize(("output", "text", "kind"), [
    (LLMBAR, "Therefore, neither Output (x) nor any other executes the instruction.", "no_answer"),
    (LLMBAR, "", "no_answer"),
    (REPLAYED, "So neither Output (a) nor Output (b)", "no_answer"),
    (VICUNA, "Therefore, I choose option 3, as both are equivalent.", "no_answer"),
    (VICUNA, "error", "no_answer"),
    (LLMBAR.model_copy(update={"map": {"a": "A"}}), "Output (b)", "invalid"),
    (LLMBAR.model_copy(update={"take": "only"}), "Output (a) beats Output (b)", "ambiguous"),
    (OutputConfig(format="regex", pattern=r"Winner: (?P<winner>\w+)"), "Winner: nobody", "invalid"),
])  # fmt: skip
def test_what_a_pattern_does_not_read(output, text, kind):
    with pytest.raises(UnreadableError) as caught:
        read_verdict(text, output)
    assert caught.value.kind == kind


def test_a_pattern_reads_scores():
    output = OutputConfig(format="regex", pattern=r"Score: (?P<score>[\d.]+)")
    assert read_rating("Score: 1 of evidence. Score: 4", output, FIVE) == 4
    with pytest.raises(UnreadableError, match="not on the scale 1-5"):
        read_rating("Score: 10", output, FIVE)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("(", "not a regular expression"), ("(?P<score>.)", "no group named 'winner'")],
)
def test_a_pattern_that_cannot_work_is_said(pattern, said):
    with pytest.raises(ConfigError, match=said):
        Pattern(OutputConfig(format="regex", pattern=pattern), AnswerTask("winner"))


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["[[", "]]", "A", "B", ">", "=", "<think>", "</think>"])).map(
        "".join
    )
)
def test_reading_a_verdict_is_total(text):
    try:
        winner = read_verdict(text, BRACKET)
    except UnreadableError:
        return
    assert winner in ("A", "B", "TIE")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
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


@pytest.mark.parametrize(("text", "there"), [
    ('{"score": 1} is not my answer, but this is: {"score": 7}', "7"),
    ('<think>{"score": 7}? yes</think>{"score": 7}', "7"),
    ('{"note": "{\\"score\\": 7}", "x": 1} {"score" : 7 }', "7"),
    ('{ not JSON } {"score":\n7}', "7"),
    ('```json\n{"score": 7}\n```', "7"),
])  # fmt: skip
def test_the_last_equal_object_counts(text, there):
    start, end = places(text, {"score": 7})["score",]
    assert text[start:end] == there
    assert start == text.rindex("7")


@pytest.mark.parametrize(
    "text", ["", "seven", '{"score": 7', "{'score': 7}", '{"score": 8}', '{"score": 7,}']
)
def test_what_does_not_stand_there_as_json_has_no_place(text):
    assert places(text, {"score": 7}) == {}


@pytest.mark.parametrize("text", [
    "I'm sorry, but I can't assist with that request.",
    *("I’m sorry, but I can’t help with that.", "I am sorry, I cannot comply."),
    "Sorry, I can't evaluate these responses.",
    *("I cannot provide an assessment of this content.", "I can't help with this."),
    *("I won't engage with this material.", "I must decline to compare these responses."),
    "I apologize, but I am unable to judge harmful content.",
    "Unfortunately, I cannot rate this response.",
    "As an AI language model, I cannot participate in this.",
    "I'm not able to help with that.",
    "抱歉，我无法协助完成这个请求。",
    "很抱歉，我不能评估这些内容。",
    "对不起，我无法提供帮助。",
    "作为一个人工智能语言模型，我无法对此进行评价。",
    "我无法回答这个问题。",
    "I cannot rewrite this text.",
    "抱歉，我不能改写这段文字。",
])  # fmt: skip
def test_refusals(text):
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "Response A is better."),
        "Therefore, I cannot choose between Assistant 1 and Assistant 2 as both of their answers are incorrect.",
        "I cannot choose between them.",
        "Response A refuses: 'I'm sorry, but I can't assist with that.' That is unhelpful.",
        "Response B says sorry and cannot help.",
        "I'm sorry to say that both responses are poor.",
        "The assistant cannot help, so B wins.",
        "回答A说“抱歉，我无法协助”，因此回答B更好。",
        "两份回答都无法使用。",
        "error",
    ],
)
def test_what_only_sounds_like_a_refusal(text):
    assert not is_refusal(text)


@pytest.mark.parametrize(("text", "left"), [
    ("<think>a</think>b", "b"),
    ("<think>a</think>b<think>c</think>d", "b\n\nd"),
    ("<THINKING>\na\n</THINKING>\nb", "\nb"),
    ("a</think>b", "b"),
    ("<think>never ends", ""),
    ("  <reasoning> never ends [[A]]", ""),
    ("It starts with <think> and goes on. [[A]]", "It starts with <think> and goes on. [[A]]"),
    ("no thinking", "no thinking"),
    ("", ""),
])  # fmt: skip
def test_thinking_is_dropped(text, left):
    assert drop_thinking(text) == left
