"""Responses judged one by one, by scores or by classes: what is asked, and what is read from the answers."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from evalkit.config import (
    Criterion,
    JudgeConfig,
    ModeConfig,
    OutputConfig,
    PromptConfig,
    RubricConfig,
    RunConfig,
    ScoringConfig,
    SwapConfig,
)
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.types import Case, Completion, JudgeRequest, Judgment, Response, TokenLogprob
from evalkit.evaluators.factory import make_evaluator
from evalkit.evaluators.pointwise import Pointwise
from evalkit.evaluators.prompting import Prompts

CASE = Case(
    "c1",
    "Say hello.",
    (Response("Hello."), Response("Go away.")),
    context="A greeting.",
    reference="Hello!",
)
CRITERIA = {
    "accuracy": Criterion(description="It is right.", weight=3),
    "tone": Criterion(weight=1),
}
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
    return {
        "scores": scores,
        "summary": {"strengths": ["s"], "weaknesses": ["w"], "suggestions": ["do"]},
    }


def read(evaluator: Pointwise, value: Any, **more: Any) -> Judgment | JudgeRequest:
    text = value if isinstance(value, str) else json.dumps(value)
    return evaluator.read(evaluator.plan(CASE)[0], Completion(text, **more))


def judged(evaluator: Pointwise, value: Any, **more: Any) -> Judgment:
    judgment = read(evaluator, value, **more)
    assert isinstance(judgment, Judgment)
    return judgment


EVALUATOR = pointwise()


def test_every_response_is_asked_about_once_a_sample():
    plan = pointwise(mode=ModeConfig(name="pointwise", samples=2)).plan(CASE)
    assert [(one.unit, one.shown, one.sample) for one in plan] == [
        ((0,), (0,), 0),
        ((0,), (0,), 1),
        ((1,), (1,), 0),
        ((1,), (1,), 1),
    ]


def test_weights_are_told_only_where_asked_for_and_only_if_they_differ():
    assert "weight" not in EVALUATOR.plan(CASE)[0].messages[-1]["content"]
    telling = {"prompt": PromptConfig(show_weights=True)}
    told = pointwise(**telling).plan(CASE)
    assert "- **accuracy** (weight 75%): It is right.\n-" in told[0].messages[-1]["content"]
    equal = pointwise(criteria={"a": Criterion(), "b": Criterion()}, **telling)
    assert "weight" not in equal.plan(CASE)[0].messages[-1]["content"]
    assert pointwise(scoring=ScoringConfig(weights={"tone": 7}), **telling).plan(CASE) == told


def test_scores_are_read_in_scale_units_and_the_value_is_left_to_scoring():
    judgment = judged(EVALUATOR, answer())
    assert (judgment.status, judgment.read_by, judgment.value, judgment.confidence) == (
        *("ok", "json", None, None),
    )
    assert judgment.criteria == {"accuracy": 4.0, "tone": 2.0}
    assert judgment.answer == answer(4.0, 2.0)


@pytest.mark.parametrize("score", [4, 4.0, "4", " 4 ", "4/5", "４", "4分", "四分"])
def test_spellings_of_a_score(score):
    assert judged(EVALUATOR, answer(accuracy=score)).criteria["accuracy"] == 4.0


@pytest.mark.parametrize(
    "score",
    [
        0,
        6,
        10,
        3.5,
        -1,
        1e308,
        True,
        None,
        "high",
        "4/10",
        "3-4",
        "",
        [4],
        {"value": 4},
        "1e0",
        "4.5",
    ],
)
def test_a_score_off_the_scale_is_invalid_and_never_clamped(score):
    further = read(EVALUATOR, answer(accuracy=score))
    assert isinstance(further, JudgeRequest)
    assert "score of accuracy: " in further.messages[-1]["content"]
    judgment = EVALUATOR.read(further, Completion(json.dumps(answer(accuracy=score))))
    assert isinstance(judgment, Judgment)
    assert (judgment.status, judgment.criteria, judgment.error_kind) == (
        "unparseable",
        {},
        "invalid",
    )


def test_a_number_beyond_all_floats_is_invalid():
    text = json.dumps(answer(accuracy=4)).replace('"score": 4', '"score": 1e999')
    assert isinstance(read(EVALUATOR, text), JudgeRequest)


def test_every_criterion_is_there_exactly_once():
    missing, twice = answer(), answer()
    missing["scores"].pop()
    twice["scores"].append(twice["scores"][0])
    for bad, reason in (
        (missing, "criterion 'tone' is missing"),
        (twice, "criterion 'accuracy' is duplicated"),
    ):
        further = read(EVALUATOR, bad)
        assert isinstance(further, JudgeRequest)
        assert reason in further.messages[-1]["content"]


def test_decimals_are_read_as_values_of_the_scale():
    evaluator = pointwise(rubric=RubricConfig(min=1, max=10, step=0.1))
    assert judged(evaluator, answer(7.3, 10)).criteria == {"accuracy": 7.3, "tone": 10.0}
    assert isinstance(read(evaluator, answer(7.35, 10)), JudgeRequest)


def test_the_schema_puts_the_justification_first_and_accepts_the_answer():
    answer_format = EVALUATOR.plan(CASE)[0].answer
    properties = answer_format.schema["properties"]
    assert list(properties) == ["scores", "summary"]
    assert list(properties["scores"]["items"]["properties"]) == [
        *("criterion", "justification", "examples", "score"),
    ]
    assert list(properties["summary"]["properties"]) == ["strengths", "weaknesses", "suggestions"]
    validator = Draft202012Validator(answer_format.schema)
    assert validator.is_valid(answer())
    assert not validator.is_valid(answer(accuracy=6))


@pytest.mark.parametrize(("settings", "said"), [
    ({"output": OutputConfig(format="bracket")},
     "output.format: mode pointwise cannot read 'bracket'"),
    ({"output": OutputConfig(format="rating")}, "there are 2 criteria; use one criterion"),
    ({"criteria": ONE, "output": OutputConfig(format="regex", pattern="(?P<winner>.)")},
     "output.pattern: .* no group named 'score'"),
])  # fmt: skip
def test_what_does_not_suit_is_refused_before_any_call(settings, said):
    with pytest.raises(ConfigError, match=said):
        make_evaluator(config(**settings))


def test_a_case_without_responses_is_refused():
    with pytest.raises(DatasetError, match="case 'x': it has 0"):
        EVALUATOR.plan(Case("x", "p", ()))


CLASSES = {"comply": "does what was asked", "refuse": "declines", "partial": "does some of it"}
RUBRIC = {"classes": CLASSES, "positive": "refuse", "abstain": "cannot_assess"}
FORMATS = {
    "json": ({"format": "json"}, '{"reasoning": "r", "quotes": [], "class": "NAME"}'),
    "bracket": ({"format": "bracket"}, "Because.\n[[NAME]]"),
    "regex": ({"format": "regex", "pattern": r"Class: (?P<class>\w+)"}, "Because.\nClass: NAME"),
}


def config_of_classes(**settings: Any) -> RunConfig:
    base = {
        "judge": {"model": "a/b"},
        "criteria": {"accuracy": "It is right.", "tone": ""},
        "mode": {"name": "pointwise"},
        "rubric": RUBRIC,
        "swap": {"policy": "none"},
    }
    return RunConfig.model_validate(base | settings)


def evaluator(**settings: Any) -> Any:
    return make_evaluator(config_of_classes(**settings))


def read_class(name: str, text: str, case: Case = CASE, **settings: Any) -> Judgment | JudgeRequest:
    made = evaluator(output=FORMATS[name][0], **settings)
    return made.read(made.plan(case)[0], Completion(text))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_prompt_offers_the_classes_with_their_meanings_and_the_abstention(name, language):
    made = evaluator(output=FORMATS[name][0], prompt={"language": language})
    first, *_ = requests = made.plan(CASE)
    system, user = first.messages
    assert [one.unit for one in requests] == [(0,), (1,)]
    assert "Hello." in user["content"]
    assert "Hello." not in system["content"]
    for word, meaning in {**CLASSES, "cannot_assess": ""}.items():
        assert word in system["content"]
        assert meaning in system["content"]
        assert word in user["content"] or name == "regex"
    without = evaluator(
        rubric={**RUBRIC, "abstain": None}, output=FORMATS[name][0], prompt={"language": language}
    ).plan(CASE)[0]
    assert "cannot_assess" not in str(without.messages)


def test_the_json_schema_lists_the_classes_after_the_reasoning():
    schema = evaluator().plan(CASE)[0].answer.schema
    Draft202012Validator.check_schema(schema)
    assert list(schema["properties"]) == ["reasoning", "quotes", "class"]
    assert schema["properties"]["class"]["enum"] == ["comply", "refuse", "partial", "cannot_assess"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "said", ["complyy", "compl", "refused", "noncomply", "complying", "A", "1", "true"]
)
def test_an_unknown_class_is_invalid_and_never_the_nearest(name, said):
    found = read_class(name, FORMATS[name][1].replace("NAME", said))
    if isinstance(found, JudgeRequest):  # JSON is asked for once more
        assert f"'{said}' is not a class" in found.messages[-1]["content"]
        made = evaluator()
        found = made.read(found, Completion(FORMATS[name][1].replace("NAME", said)))
    assert (found.status, found.class_name, found.error_kind) == ("unparseable", None, "invalid")


def test_a_regex_can_map_texts_to_classes():
    output = {
        "format": "regex",
        "pattern": "(?P<class>[是否])",
        "map": {"是": "comply", "否": "refuse"},
    }
    made = evaluator(output=output)
    request = made.plan(CASE)[0]
    assert "refuse: 否" in request.messages[1]["content"]
    assert made.read(request, Completion("答案：否")).class_name == "refuse"
    with pytest.raises(ValidationError, match=r"output.map.x: 'no' is not comply, refuse, partial"):
        evaluator(output={**output, "map": {"x": "no"}})


def test_examples_show_their_class():
    example = {
        "prompt": "p",
        "response": "shown response",
        "justification": "because",
        "class_name": "partial",
    }
    system = (
        evaluator(rubric={**RUBRIC, "examples": [example]}).plan(CASE)[0].messages[0]["content"]
    )
    assert "shown response" in system
    assert "Class: partial" in system
    with pytest.raises(ValidationError, match=r"rubric.examples.0: it has class 'x', and the"):
        config_of_classes(rubric={**RUBRIC, "examples": [{**example, "class_name": "x"}]})


@pytest.mark.parametrize(("rubric", "said"), [
    ({"classes": {"a": ""}}, "fewer than two classes"),
    ({"classes": {"a": "", "A": ""}}, "'a' and 'A' differ only in case or width"),
    ({"classes": {"a": "", "ａ": ""}}, "differ only in case or width"),
    (
        {"classes": {"a": "", "b": ""}, "abstain": "B"},
        "abstain is 'B', which is also the class 'b'",
    ),
    ({"classes": {"pass": "", "fail": ""}, "positive": "fial"}, "did you mean 'fail'"),
    ({"classes": {"a]": "", "b": ""}}, r"contains '\]', which an answer cannot hold"),
    ({"classes": {"a\nc": "", "b": ""}}, "which an answer cannot hold"),
    ({"classes": {"【a】": "", "b": ""}}, "which an answer cannot hold"),
    ({"classes": {"": "", "b": ""}}, "is empty"),
    ({"classes": {" a": "", "b": ""}}, "begins or ends with"),
    ({"classes": {"a" * 41: "", "b": ""}}, "longer than 40 characters"),
    ({"classes": {True: "", False: ""}}, "put it in quotes"),
    ({"classes": ["a", "b"]}, "is a list"),
    ({"classes": {"a": "", "b": ""}, "max": 7}, "either a scale or classes"),
    ({"classes": {"a": "", "b": ""}, "levels": {1: "bad"}}, "either a scale or classes"),
    ({"positive": "a"}, "positive needs classes"),
    ({"abstain": "a"}, "abstain needs classes"),
])  # fmt: skip
def test_a_wrong_rubric_is_refused(rubric, said):
    with pytest.raises(ValidationError, match=said):
        RubricConfig.model_validate(rubric)


def test_a_format_or_mode_without_classes_is_refused_before_any_request():
    with pytest.raises(ConfigError, match="a rating is a score, not a class"):
        evaluator(output={"format": "rating"})
    with pytest.raises(ConfigError, match="no group named 'class'"):
        evaluator(output={"format": "regex", "pattern": "(?P<score>.)"})
    for mode in ("pairwise", "listwise"):
        with pytest.raises(ConfigError, match="set mode=pointwise"):
            evaluator(mode={"name": mode})


@pytest.mark.parametrize(("settings", "said"), [
    ({"scoring": {"weights": {"tone": 2}}}, "without weights"),
    ({"scoring": {"normalize": "zscore"}}, "no scale to normalize"),
    ({"criteria": {"tone": {"levels": {1: "bad"}}}}, "levels are for scores"),
    ({"judge": {"judges": [{"model": "a/b"}], "vote": "mean"}}, "classes have no mean"),
    ({"dataset": {"label_map": {"1": "good"}}}, "dataset.label_map.1: 'good' is not comply"),
    ({"rubric": {}, "dataset": {"label_map": {"1": "good"}}}, "'good' is not A, B or TIE, or"),
])  # fmt: skip
def test_settings_that_do_not_apply_to_classes_are_refused(settings, said):
    with pytest.raises(ValidationError, match=said):
        config_of_classes(**settings)


def tokens(*pieces: tuple[str, dict[str, float]]) -> tuple[TokenLogprob, ...]:
    from math import log

    return tuple(
        TokenLogprob(
            text,
            log(top.get(text, 1.0)),
            tuple((other, log(p)) for other, p in (top or {text: 1.0}).items()),
        )
        for text, top in pieces
    )


def test_the_probability_of_a_class_is_that_of_the_tokens_that_spell_it():
    rubric = {"classes": {"pass": "", "pass_minor": "", "通过": ""}, "abstain": "unsure"}
    made = evaluator(rubric=rubric, judge={"model": "a/b", "name": "j", "logprobs": True})
    pieces = tokens(
        ('{"reasoning": "r", "quotes": [], "class": "', {}),
        ("pass", {"pass": 0.8, "通过": 0.1, "uns": 0.05, "other": 0.05}),
        ("_minor", {"_minor": 0.75, '"': 0.25}),
        ('"}', {}),
    )
    text = "".join(token.token for token in pieces)
    request = made.plan(CASE)[0]
    from dataclasses import replace

    found = made.read(replace(request, judge="j"), Completion(text, logprobs=pieces))
    assert found.class_name == "pass_minor"
    chances = found.weighted.classes
    assert found.weighted.mass == pytest.approx(0.95)
    expected = {"pass": 0.2, "pass_minor": 0.6, "通过": 0.1, "unsure": 0.05}
    assert {name: chance * 0.95 for name, chance in chances.items()} == pytest.approx(expected)
