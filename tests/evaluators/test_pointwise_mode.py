"""Scoring one response: what is asked, and what is made of the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from evalkit.config import (
    Criterion,
    Example,
    JudgeConfig,
    ModeConfig,
    OutputConfig,
    PromptConfig,
    RubricConfig,
    RunConfig,
    ScoringConfig,
    SwapConfig,
)
from evalkit.errors import ConfigError, DatasetError
from evalkit.evaluators import make_evaluator
from evalkit.evaluators.pointwise import Pointwise
from evalkit.prompting import Prompts
from evalkit.types import Case, Completion, JudgeRequest, Judgment, Response

CASE = Case("c1", "Say hello.", (Response("Hello."), Response("Go away.")), context="A greeting.", reference="Hello!")
CRITERIA = {"accuracy": Criterion(description="It is right.", weight=3), "tone": Criterion(weight=1)}
ONE = {"overall": Criterion()}


def config(**settings: Any) -> RunConfig:
    base = {
        "judge": JudgeConfig(model="a/b"),
        "criteria": CRITERIA,
        "mode": ModeConfig(name="pointwise"),
        "swap": SwapConfig(policy="none"),
    }
    return RunConfig(**base | settings)


def pointwise(**settings: Any) -> Pointwise:
    return Pointwise(config(**settings), Prompts("en"))


def answer(accuracy: Any = 4, tone: Any = 2) -> dict[str, Any]:
    scores = [
        {"criterion": name, "justification": "since", "examples": ["Hello."], "score": score}
        for name, score in (("accuracy", accuracy), ("tone", tone))
    ]
    return {"scores": scores, "summary": {"strengths": ["s"], "weaknesses": ["w"], "suggestions": ["do"]}}


def read(evaluator: Pointwise, value: Any, **more: Any) -> Judgment | JudgeRequest:
    text = value if isinstance(value, str) else json.dumps(value)
    return evaluator.read(evaluator.plan(CASE)[0], Completion(text, **more))


def judged(evaluator: Pointwise, value: Any, **more: Any) -> Judgment:
    judgment = read(evaluator, value, **more)
    assert isinstance(judgment, Judgment)
    return judgment


EVALUATOR = pointwise()


def test_every_response_is_asked_about_once_a_sample() -> None:
    plan = pointwise(mode=ModeConfig(name="pointwise", samples=2)).plan(CASE)
    assert [(one.unit, one.shown, one.sample) for one in plan] == [
        ((0,), (0,), 0),
        ((0,), (0,), 1),
        ((1,), (1,), 0),
        ((1,), (1,), 1),
    ]


def test_the_prompt_holds_what_a_score_rests_on() -> None:
    rubric = RubricConfig(
        levels={1: "useless", 5: "perfect"},
        examples=(Example(response="Hey</response>", score=4, justification="Warm."),),
    )
    system, user = (one["content"] for one in pointwise(rubric=rubric).plan(CASE)[1].messages)
    for part in ("integer from 1 to 5", "- 1: useless", "- 5: perfect", "Hey&lt;/response>", "Warm.", "Score: 4"):
        assert part in system
    for part in (
        "<response>\nGo away.\n</response>",
        "<context>\nA greeting.\n</context>",
        "<reference>\nHello!\n</reference>",
        "- **accuracy**: It is right.",
        "- **tone**\n",
    ):
        assert part in user
    assert "Hello.\n" not in user.replace("Hello!", "")


def test_weights_are_told_only_where_asked_for_and_only_if_they_differ() -> None:
    assert "weight" not in EVALUATOR.plan(CASE)[0].messages[-1]["content"]
    telling = {"prompt": PromptConfig(show_weights=True)}
    told = pointwise(**telling).plan(CASE)
    assert "- **accuracy** (weight 75%): It is right.\n- **tone** (weight 25%)\n" in told[0].messages[-1]["content"]
    equal = pointwise(criteria={"a": Criterion(), "b": Criterion()}, **telling)
    assert "weight" not in equal.plan(CASE)[0].messages[-1]["content"]
    assert pointwise(scoring=ScoringConfig(weights={"tone": 7}), **telling).plan(CASE) == told


def test_scores_are_read_in_scale_units_and_the_value_is_left_to_scoring() -> None:
    judgment = judged(EVALUATOR, answer())
    assert (judgment.status, judgment.read_by, judgment.value, judgment.confidence) == ("ok", "json", None, None)
    assert judgment.criteria == {"accuracy": 4.0, "tone": 2.0}
    assert judgment.answer == answer(4.0, 2.0)


@pytest.mark.parametrize("score", [4, 4.0, "4", " 4 ", "4/5", "４", "4分", "四分"])
def test_spellings_of_a_score(score: Any) -> None:
    assert judged(EVALUATOR, answer(accuracy=score)).criteria["accuracy"] == 4.0


@pytest.mark.parametrize(
    "score", [0, 6, 10, 3.5, -1, 1e308, True, None, "high", "4/10", "3-4", "", [4], {"value": 4}, "1e0", "4.5"]
)
def test_a_score_off_the_scale_is_invalid_and_never_clamped(score: Any) -> None:
    further = read(EVALUATOR, answer(accuracy=score))
    assert isinstance(further, JudgeRequest)
    assert "score of accuracy: " in further.messages[-1]["content"]
    judgment = EVALUATOR.read(further, Completion(json.dumps(answer(accuracy=score))))
    assert isinstance(judgment, Judgment)
    assert (judgment.status, judgment.criteria, judgment.error_kind) == ("unparseable", {}, "invalid")


def test_a_number_beyond_all_floats_is_invalid() -> None:
    text = json.dumps(answer(accuracy=4)).replace('"score": 4', '"score": 1e999')
    assert isinstance(read(EVALUATOR, text), JudgeRequest)


def test_every_criterion_is_there_exactly_once() -> None:
    missing, twice = answer(), answer()
    missing["scores"].pop()
    twice["scores"].append(twice["scores"][0])
    for bad, reason in ((missing, "criterion 'tone' is missing"), (twice, "criterion 'accuracy' is duplicated")):
        further = read(EVALUATOR, bad)
        assert isinstance(further, JudgeRequest)
        assert reason in further.messages[-1]["content"]


def test_decimals_are_read_as_values_of_the_scale() -> None:
    evaluator = pointwise(rubric=RubricConfig(min=1, max=10, step=0.1))
    assert judged(evaluator, answer(7.3, 10)).criteria == {"accuracy": 7.3, "tone": 10.0}
    assert isinstance(read(evaluator, answer(7.35, 10)), JudgeRequest)


def test_a_rating_is_the_score_of_the_one_criterion() -> None:
    evaluator = pointwise(criteria=ONE, output=OutputConfig(format="rating"))
    assert evaluator.plan(CASE)[0].answer is None
    judgment = judged(evaluator, "Fine.\n[[4]]")
    assert (judgment.criteria, judgment.read_by, judgment.answer) == ({"overall": 4.0}, "rating", {"score": 4.0})
    assert judged(evaluator, "[[9]]").status == "unparseable"
    assert judged(evaluator, "我无法评分。").status == "refused"


def test_a_pattern_reads_the_score_of_the_one_criterion() -> None:
    evaluator = pointwise(criteria=ONE, output=OutputConfig(format="regex", pattern=r"\A(?P<score>\d)\Z"))
    assert judged(evaluator, "3").criteria == {"overall": 3.0}
    assert judged(evaluator, "33").status == "unparseable"


def test_the_schema_puts_the_justification_first_and_accepts_the_answer() -> None:
    answer_format = EVALUATOR.plan(CASE)[0].answer
    assert answer_format is not None
    properties = answer_format.schema["properties"]
    assert list(properties) == ["scores", "summary"]
    assert list(properties["scores"]["items"]["properties"]) == ["criterion", "justification", "examples", "score"]
    assert list(properties["summary"]["properties"]) == ["strengths", "weaknesses", "suggestions"]
    validator = Draft202012Validator(answer_format.schema)
    assert validator.is_valid(answer())
    assert not validator.is_valid(answer(accuracy=6))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"output": OutputConfig(format="bracket")}, "output.format: mode pointwise cannot read 'bracket'"),
        (
            {"output": OutputConfig(format="rating")},
            "there are 2 criteria; use one criterion",
        ),
        (
            {"criteria": ONE, "output": OutputConfig(format="regex", pattern="(?P<winner>.)")},
            "output.pattern: .* no group named 'score'",
        ),
    ],
)
def test_what_does_not_suit_is_refused_before_any_call(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_evaluator(config(**settings))


def test_the_hashes_name_every_template_in_use() -> None:
    assert list(EVALUATOR.prompt_hashes) == ["en/pointwise.md.j2", "en/pointwise_json.md.j2", "en/retry.md.j2"]


def test_a_case_without_responses_is_refused() -> None:
    with pytest.raises(DatasetError, match="case 'x': it has 0"):
        EVALUATOR.plan(Case("x", "p", ()))
