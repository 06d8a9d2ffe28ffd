"""Assigning a class to one response: what is asked, and what is made of the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from evalkit.config import RubricConfig, RunConfig
from evalkit.errors import ConfigError
from evalkit.evaluators import make_evaluator
from evalkit.types import Case, Completion, JudgeRequest, Judgment, Response, TokenLogprob

CASE = Case("c1", "Say hello.", (Response("Hello."), Response("Go away.")), context="A greeting.", reference="Hello!")
CLASSES = {"comply": "does what was asked", "refuse": "declines", "partial": "does some of it"}
RUBRIC = {"classes": CLASSES, "positive": "refuse", "abstain": "cannot_assess"}
FORMATS = {
    "json": ({"format": "json"}, '{"reasoning": "r", "quotes": [], "class": "NAME"}'),
    "bracket": ({"format": "bracket"}, "Because.\n[[NAME]]"),
    "regex": ({"format": "regex", "pattern": r"Class: (?P<class>\w+)"}, "Because.\nClass: NAME"),
}


def config(**settings: Any) -> RunConfig:
    base = {
        "judge": {"model": "a/b"},
        "criteria": {"accuracy": "It is right.", "tone": ""},
        "mode": {"name": "pointwise"},
        "rubric": RUBRIC,
        "swap": {"policy": "none"},
    }
    return RunConfig.model_validate(base | settings)


def evaluator(**settings: Any) -> Any:
    return make_evaluator(config(**settings))


def read(name: str, text: str, case: Case = CASE, **settings: Any) -> Judgment | JudgeRequest:
    made = evaluator(output=FORMATS[name][0], **settings)
    return made.read(made.plan(case)[0], Completion(text))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_prompt_offers_the_classes_with_their_meanings_and_the_abstention(name: str, language: str) -> None:
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


def test_the_json_schema_lists_the_classes_after_the_reasoning() -> None:
    schema = evaluator().plan(CASE)[0].answer.schema
    Draft202012Validator.check_schema(schema)
    assert list(schema["properties"]) == ["reasoning", "quotes", "class"]
    assert schema["properties"]["class"]["enum"] == ["comply", "refuse", "partial", "cannot_assess"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("said", "expected"),
    [("comply", "comply"), ("REFUSE", "refuse"), ("Partial", "partial"), ("cannot_assess", "cannot_assess")],
)
def test_a_class_is_read_in_any_case(name: str, said: str, expected: str) -> None:
    found = read(name, FORMATS[name][1].replace("NAME", said))
    assert isinstance(found, Judgment)
    assert (found.status, found.class_name, found.value, dict(found.criteria)) == ("ok", expected, None, {})
    assert found.answer is not None
    assert found.answer["class"] == expected


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("said", ["complyy", "compl", "refused", "noncomply", "complying", "A", "1", "true"])
def test_an_unknown_class_is_invalid_and_never_the_nearest(name: str, said: str) -> None:
    found = read(name, FORMATS[name][1].replace("NAME", said))
    if isinstance(found, JudgeRequest):  # JSON is asked for once more
        assert f"'{said}' is not a class" in found.messages[-1]["content"]
        made = evaluator()
        found = made.read(found, Completion(FORMATS[name][1].replace("NAME", said)))
    assert (found.status, found.class_name, found.error_kind) == ("unparseable", None, "invalid")


@pytest.mark.parametrize("value", [1, True, None, ["comply"], {"comply": 1}])
def test_a_class_in_json_is_a_text(value: object) -> None:
    found = read("json", json.dumps({"reasoning": "r", "quotes": [], "class": value}))
    assert isinstance(found, JudgeRequest)


def test_a_regex_can_map_texts_to_classes() -> None:
    output = {"format": "regex", "pattern": "(?P<class>[是否])", "map": {"是": "comply", "否": "refuse"}}
    made = evaluator(output=output)
    request = made.plan(CASE)[0]
    assert "refuse: 否" in request.messages[1]["content"]
    assert made.read(request, Completion("答案：否")).class_name == "refuse"
    with pytest.raises(ValidationError, match=r"output.map.x: 'no' is not comply, refuse, partial or cannot_assess"):
        evaluator(output={**output, "map": {"x": "no"}})


def test_markdown_escapes_are_not_part_of_a_name() -> None:
    found = read("bracket", r"Because." + "\n" + r"[[cannot\_assess]]")
    assert isinstance(found, Judgment)
    assert found.class_name == "cannot_assess"


def test_examples_show_their_class() -> None:
    example = {"prompt": "p", "response": "shown response", "justification": "because", "class_name": "partial"}
    system = evaluator(rubric={**RUBRIC, "examples": [example]}).plan(CASE)[0].messages[0]["content"]
    assert "shown response" in system
    assert "Class: partial" in system
    with pytest.raises(ValidationError, match=r"rubric.examples.0: it has class 'x', and the rubric has classes"):
        config(rubric={**RUBRIC, "examples": [{**example, "class_name": "x"}]})


@pytest.mark.parametrize(
    ("rubric", "said"),
    [
        ({"classes": {"a": ""}}, "fewer than two classes"),
        ({"classes": {"a": "", "A": ""}}, "'a' and 'A' differ only in case or width"),
        ({"classes": {"a": "", "ａ": ""}}, "differ only in case or width"),
        ({"classes": {"a": "", "b": ""}, "abstain": "B"}, "abstain is 'B', which is also the class 'b'"),
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
    ],
)
def test_a_wrong_rubric_is_refused(rubric: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        RubricConfig.model_validate(rubric)


def test_a_format_or_mode_without_classes_is_refused_before_any_request() -> None:
    with pytest.raises(ConfigError, match="a rating is a score, not a class"):
        evaluator(output={"format": "rating"})
    with pytest.raises(ConfigError, match="no group named 'class'"):
        evaluator(output={"format": "regex", "pattern": "(?P<score>.)"})
    for mode in ("pairwise", "listwise"):
        with pytest.raises(ConfigError, match="set mode=pointwise"):
            evaluator(mode={"name": mode})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"scoring": {"weights": {"tone": 2}}}, "without weights"),
        ({"scoring": {"normalize": "zscore"}}, "no scale to normalize"),
        ({"criteria": {"tone": {"levels": {1: "bad"}}}}, "levels are for scores"),
        ({"judge": {"judges": [{"model": "a/b"}], "vote": "mean"}}, "classes have no mean"),
        ({"dataset": {"label_map": {"1": "good"}}}, "dataset.label_map.1: 'good' is not comply, refuse, partial or"),
        ({"rubric": {}, "dataset": {"label_map": {"1": "good"}}}, "'good' is not A, B or TIE, or a grade"),
    ],
)
def test_settings_that_do_not_apply_to_classes_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        config(**settings)


def tokens(*pieces: tuple[str, dict[str, float]]) -> tuple[TokenLogprob, ...]:
    from math import log

    return tuple(
        TokenLogprob(text, log(top.get(text, 1.0)), tuple((other, log(p)) for other, p in (top or {text: 1.0}).items()))
        for text, top in pieces
    )


def test_the_probability_of_a_class_is_that_of_the_tokens_that_spell_it() -> None:
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
