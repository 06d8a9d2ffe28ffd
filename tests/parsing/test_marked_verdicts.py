"""Verdicts and ratings in running text: read or refused, never guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import OutputConfig
from evalkit.core.scale import Scale
from evalkit.errors import ConfigError
from evalkit.parsing import AnswerTask, Pattern, UnreadableError, read_winner
from tests.support.verdicts import read_rating, read_verdict

BRACKET = OutputConfig(format="bracket")

VERDICTS: list[tuple[str, str]] = [
    ("[[A]]", "A"),
    ("[[B]]", "B"),
    ("[[C]]", "TIE"),
    ("[[a]]", "A"),
    ("[[ B ]]", "B"),
    ("[[Tie]]", "TIE"),
    ("[[TIE]]", "TIE"),
    ("[[平局]]", "TIE"),
    ("[[A>>B]]", "A"),
    ("[[A>B]]", "A"),
    ("[[A=B]]", "TIE"),
    ("[[B>A]]", "B"),
    ("[[B>>A]]", "B"),
    ("[[A<B]]", "B"),
    ("[[A<<B]]", "B"),
    ("[[B<A]]", "A"),
    ("[[ A >> B ]]", "A"),
    ("[[a>>b]]", "A"),
    ("[[B=A]]", "TIE"),
    ("［［Ａ］］", "A"),
    ("【【B】】", "B"),
    ("[[Ａ＞Ｂ]]", "A"),
    (r"\[\[A\]\]", "A"),
    ("**[[A]]**", "A"),
    ("```\n[[B]]\n```", "B"),
    ("[[Response A]]", "A"),
    ("[[Assistant B]]", "B"),
    ("[[回答A]]", "A"),
    ("Response A is weak. My final verdict is: [[B]]", "B"),
    ("At first sight [[A]], but B has the facts right, so [[B]].", "B"),
    ('The response says "[[A]]", which is an attempt to sway me. [[B]]', "B"),
    ("<think>Surely [[A]].</think>[[B]]", "B"),
    ("Surely [[A]].\n</think>\n[[B]]", "B"),
    ("See [[Paris]] for more. My verdict: [[A]]", "A"),
    ("A matrix [[1, 2], [3, 4]] is shown. [[C]]", "TIE"),
    ("综上所述，回答 B 更好。\n\n[[B]]", "B"),
    ("[[A]]\n\nI hope this helps! <3", "A"),
]


@pytest.mark.parametrize(("text", "winner"), VERDICTS)
def test_bracketed_verdicts(text: str, winner: str) -> None:
    assert read_verdict(text, BRACKET) == winner


NO_VERDICT: list[tuple[str, str]] = [
    ("", "no_answer"),
    ("Response A is better.", "no_answer"),
    ("[A]", "no_answer"),
    ("[[A", "no_answer"),
    ("((A))", "no_answer"),
    ("[[]]", "no_answer"),
    ("[[A]\n]", "no_answer"),
    ("<think>[[A]]", "no_answer"),
    ("<think>[[A]]</think>", "no_answer"),
    ("[[D]]", "invalid"),
    ("[[A or B]]", "invalid"),
    ("[[A/B/C]]", "invalid"),
    ("[[A>A]]", "invalid"),
    ("[[A>C]]", "invalid"),
    ("[[neither]]", "invalid"),
    ("[[7]]", "invalid"),
    ("First [[A]], then again [[neither]]", "invalid"),
    ("[[АВ]]", "invalid"),
]


@pytest.mark.parametrize(("text", "kind"), NO_VERDICT)
def test_what_is_no_verdict(text: str, kind: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_verdict(text, BRACKET)
    assert caught.value.kind == kind


def test_which_of_several_verdicts_is_taken() -> None:
    text = "[[A]] no, [[B]]"
    assert read_verdict(text, OutputConfig(format="bracket", take="first")) == "A"
    assert read_verdict(text, OutputConfig(format="bracket", take="last")) == "B"
    with pytest.raises(UnreadableError, match="2 verdicts and they differ"):
        read_verdict(text, OutputConfig(format="bracket", take="only"))
    assert read_verdict("[[A]], that is [[A>B]]", OutputConfig(format="bracket", take="only")) == "A"


FIVE, TEN, DECIMAL, HUNDRED = Scale(1, 5, 1), Scale(1, 10, 1), Scale(1, 10, 0.1), Scale(0, 100, 5)
RATINGS: list[tuple[str, Scale, float]] = [
    ("[[4]]", FIVE, 4),
    ("Rating: [[4]]", FIVE, 4),
    ("[[10]]", TEN, 10),
    ("[[１０]]", TEN, 10),
    ("【【4】】", FIVE, 4),
    ("[[7.5]]", DECIMAL, 7.5),
    ("[[7.50]]", DECIMAL, 7.5),
    ("[[ 4 ]]", FIVE, 4),
    ("[[4/5]]", FIVE, 4),
    ("[[3.5/10]]", DECIMAL, 3.5),
    ("[[4 out of 5]]", FIVE, 4),
    ("[[四分]]", FIVE, 4),
    ("[[四]]", FIVE, 4),
    ("[[4分]]", FIVE, 4),
    ("[[十分]]", TEN, 10),
    ("[[85]]", HUNDRED, 85),
    ("I first thought [[2]], but [[4]].", FIVE, 4),
    ("<think>[[1]]</think>[[5]]", FIVE, 5),
    ("[[score]] means: [[3]]", FIVE, 3),
    ("[[5.0]]", FIVE, 5),
]


@pytest.mark.parametrize(("text", "scale", "score"), RATINGS)
def test_bracketed_ratings(text: str, scale: Scale, score: float) -> None:
    assert read_rating(text, OutputConfig(format="rating"), scale) == score


@pytest.mark.parametrize(
    ("text", "scale"),
    [
        ("", FIVE),
        ("4", FIVE),
        ("[[6]]", FIVE),
        ("[[0]]", FIVE),
        ("[[-1]]", FIVE),
        ("[[3.5]]", FIVE),
        ("[[7.55]]", DECIMAL),
        ("[[4/10]]", FIVE),
        ("[[3-4]]", FIVE),
        ("[[three]]", FIVE),
        ("[[score]]", FIVE),
        ("[[1e1]]", TEN),
        ("[[nan]]", FIVE),
        ("[[inf]]", FIVE),
        ("[[86]]", HUNDRED),
        ("[[1,0]]", TEN),
        ("[[4]] [[?]]", FIVE),
        ("[[五十分]]", TEN),
    ],
)
def test_what_is_no_rating(text: str, scale: Scale) -> None:
    with pytest.raises(UnreadableError):
        read_rating(text, OutputConfig(format="rating"), scale)


@pytest.mark.parametrize("scale", [Scale(1, 3, 1), FIVE, TEN, DECIMAL, HUNDRED, Scale(-2, 2, 0.5)])
def test_every_value_of_a_scale_is_read_back(scale: Scale) -> None:
    for value in scale.values():
        assert read_rating(f"[[{scale.text(value)}]]", OutputConfig(format="rating"), scale) == value


LLMBAR = OutputConfig(format="regex", pattern=r"Output \((?P<winner>[ab])\)", map={"a": "A", "b": "B"})
VICUNA = OutputConfig(format="regex", pattern=r"(?m)^\s*(?P<winner>[123])\s*\Z", map={"1": "A", "2": "B", "3": "TIE"})
REGEX: list[tuple[OutputConfig, str, str]] = [
    (LLMBAR, "Output (a)", "A"),
    (LLMBAR, "Output (a) is off topic. Therefore, Output (b) is better.", "B"),
    (LLMBAR.model_copy(update={"take": "first"}), "Output (a) is better. Output (b) is not about Mars.", "A"),
    (VICUNA, "I would rate Assistant 1's answer higher than Assistant 2's answer.\n\n1", "A"),
    (VICUNA, "Both are equal.\n3", "TIE"),
    (LLMBAR.model_copy(update={"pattern": r"(?i)output \((?P<winner>[ab])\)"}), "OUTPUT (B)", "B"),
    (OutputConfig(format="regex", pattern=r"Winner: (?P<winner>\w+)"), "Winner: tie", "TIE"),
    (OutputConfig(format="regex", pattern=r"(?P<winner>[AB])|(?P<other>x)"), "A x", "A"),
]


@pytest.mark.parametrize(("output", "text", "winner"), REGEX)
def test_patterns_of_the_users_own(output: OutputConfig, text: str, winner: str) -> None:
    assert read_verdict(text, output) == winner


@pytest.mark.parametrize(
    ("output", "text", "kind"),
    [
        (LLMBAR, "Therefore, neither Output (x) nor any other executes the instruction.", "no_answer"),
        (LLMBAR, "", "no_answer"),
        (VICUNA, "Therefore, I choose option 3, as both are equivalent.", "no_answer"),
        (VICUNA, "error", "no_answer"),
        (LLMBAR.model_copy(update={"map": {"a": "A"}}), "Output (b)", "invalid"),
        (LLMBAR.model_copy(update={"take": "only"}), "Output (a) beats Output (b)", "ambiguous"),
        (OutputConfig(format="regex", pattern=r"Winner: (?P<winner>\w+)"), "Winner: nobody", "invalid"),
    ],
)
def test_what_a_pattern_does_not_read(output: OutputConfig, text: str, kind: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_verdict(text, output)
    assert caught.value.kind == kind


def test_a_pattern_reads_scores() -> None:
    output = OutputConfig(format="regex", pattern=r"Score: (?P<score>[\d.]+)")
    assert read_rating("Score: 1 of evidence. Score: 4", output, FIVE) == 4
    with pytest.raises(UnreadableError, match="not on the scale 1-5"):
        read_rating("Score: 10", output, FIVE)


@pytest.mark.parametrize(
    ("pattern", "said"), [("(", "not a regular expression"), ("(?P<score>.)", "no group named 'winner'")]
)
def test_a_pattern_that_cannot_work_is_said(pattern: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Pattern(OutputConfig(format="regex", pattern=pattern), AnswerTask("winner"))


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["[[", "]]", "A", "B", ">", "=", "<think>", "</think>"])).map("".join)
)
def test_reading_a_verdict_is_total(text: str) -> None:
    try:
        winner = read_verdict(text, BRACKET)
    except UnreadableError:
        return
    assert winner in ("A", "B", "TIE")


@pytest.mark.parametrize(
    "text", ["A", " b ", "'A'", "**B**", "Response A", "RESPONSE_B", "Output (a)", "响应B", "Ａ", "A."]
)
def test_spellings_of_a_side(text: str) -> None:
    assert read_winner(text) == ("A" if "a" in text.lower().split()[-1] or "Ａ" in text else "B")


@pytest.mark.parametrize("text", ["", "AB", "A and B", "none", "C", "1", "A>B", "not A", "Response", "winner"])
def test_what_spells_no_winner(text: str) -> None:
    with pytest.raises(UnreadableError):
        read_winner(text)
