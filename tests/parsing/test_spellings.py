"""One meaning, many spellings: winners, confidences, criteria and punctuation, the same wherever they are written."""

import json

import pytest

from evalkit.config import Criterion, JudgeConfig, OutputConfig, RunConfig, SwapConfig
from evalkit.core.types import Case, Completion, JudgeRequest, Response
from evalkit.evaluators.factory import make_evaluator
from evalkit.evaluators.json_answers import read_confidence

CASE = Case("c", "Q", (Response("Paris."), Response("Lyon.")))
A, B, TIE, NOTHING = 1.0, -1.0, 0.0, None
WINNERS = {
    **dict.fromkeys(("A", "a", "Ａ", "model_a", "Option A", "Response A", "(A)", "甲", "first"), A),
    **dict.fromkeys(("A is better", "Response A wins", "A>B", "B < A", "答案 A", "A优于B"), A),
    **dict.fromkeys(("B", "model_b", "Assistant B", "second", "乙", "Answer: B", "A不如B"), B),
    **dict.fromkeys(("The second response", "B is better than A", "A<<B", "选项B"), B),
    **dict.fromkeys(("TIE", "C", "A=B", "tie (both bad)", "平", "a tie"), TIE),
    **dict.fromkeys(
        ("A is worse", "not A", "A or B", "D", "A>A", "A, but B", "AB", "maybe", "neither", "both"),
        NOTHING,
    ),
    **dict.fromkeys(("B is better than B", "A is not better", "neither A nor B is bad"), NOTHING),
}


def judge(output: OutputConfig, names: tuple[str, ...] = ("overall",)):
    return make_evaluator(
        RunConfig(
            judge=JudgeConfig(model="a/b"),
            criteria={name: Criterion() for name in names},
            swap=SwapConfig(policy="none"),
            output=output,
        )
    )


JSON = judge(OutputConfig())
BRACKET = judge(OutputConfig(format="bracket"))
LINE = judge(OutputConfig(format="regex", pattern=r"(?m)^Winner: (?P<winner>.+)$"))


def value(evaluator, text, **settings):
    request = evaluator.plan(CASE)[0]
    read = evaluator.read(request, Completion(text, **settings))
    if isinstance(read, JudgeRequest):
        read = evaluator.read(read, Completion(text, **settings))
    return read.value


def answer(winner="A", confidence=0.8, criteria=("overall",)):
    compared = [{"criterion": name, "reasoning": "r", "winner": winner} for name in criteria]
    result = {"reasoning": "r", "winner": winner, "confidence": confidence}
    return {"comparison": compared, "result": result}


@pytest.mark.parametrize("spelling", WINNERS)
def test_a_winner_is_the_same_in_json_brackets_and_text(spelling):
    expected = WINNERS[spelling]
    assert value(JSON, json.dumps(answer(spelling))) == expected
    assert value(BRACKET, f"So it is.\n[[{spelling}]]") == expected
    assert value(LINE, f"So it is.\nWinner: {spelling}") == expected


@pytest.mark.parametrize(
    ("stated", "confidence"),
    [
        *((0.8, 0.8), (85, 0.85), ("80%", 0.8), ("8/10", 0.8), (1, 1.0), (0, 0.0), ("0,5", 0.5)),
        *((value, None) for value in ("high", 5, 150, -0.5, None, True, "very", [0.5], "1e3")),
    ],
)
def test_a_bad_confidence_costs_no_verdict(stated, confidence):
    assert read_confidence(stated) == confidence
    assert value(JSON, json.dumps(answer("B", stated))) == B


@pytest.mark.parametrize(
    "spelling", ["Instruction_Following", "1. instruction following", "**Instruction-following**:"]
)
def test_a_criterion_is_known_by_its_letters(spelling):
    evaluator = judge(OutputConfig(), ("instruction following", "accuracy"))
    text = json.dumps(answer("B", criteria=(spelling, "2) Accuracy")))
    assert value(evaluator, text) == B


def test_a_criterion_that_could_be_two_is_none():
    evaluator = judge(OutputConfig(), ("a b", "a_b"))
    assert value(evaluator, json.dumps(answer("B", criteria=("A B", "a_b")))) is None
    assert value(evaluator, json.dumps(answer("B", criteria=("a b", "a_b")))) == B


def test_full_width_punctuation_is_repaired_outside_strings():
    text = json.dumps(answer("B"), ensure_ascii=False).replace('"r"', '"对：好，是"')
    wide = text.replace('": ', '"：').replace(', "', '，"').replace("{", "｛").replace("}", "｝")
    request = JSON.plan(CASE)[0]
    read = JSON.read(request, Completion(wide))
    assert (read.value, read.status) == (B, "repaired")
    assert read.answer["result"]["reasoning"] == "对：好，是"
    assert value(JSON, wide + wide.replace('"B"', '"A"')) is None


def test_an_answer_in_reasoning_counts_only_if_it_is_the_whole_of_it():
    whole = json.dumps(answer("B"))
    assert value(JSON, "", reasoning=whole) == B
    assert value(JSON, "", reasoning=f"I could say {whole} but") is None
    assert value(BRACKET, "", reasoning="It is clear.\n[[B]]") == B
    assert value(BRACKET, "", reasoning="Perhaps [[A]].\n[[B]]") is None


def test_two_different_verdicts_are_none():
    assert value(BRACKET, "[[A]]\nOr rather:\n[[B]]") is None
    assert value(BRACKET, "[[A]]\nAs I said:\n[[A]]") == A
    assert value(JSON, json.dumps(answer("A")) + json.dumps(answer("B"))) is None
