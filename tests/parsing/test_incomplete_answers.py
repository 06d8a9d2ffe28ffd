"""A truncated value is never completed, two names that contradict each other are no answer, and a verdict ends a line.

Each rule is held against every kind of decision, and against every way to write it.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from evalkit.config import (
    Criterion,
    JudgeConfig,
    ModeConfig,
    OutputConfig,
    RubricConfig,
    RunConfig,
    SwapConfig,
)
from evalkit.core.protocols import Evaluator
from evalkit.core.types import Case, ChecklistItem, Completion, JudgeRequest, Judgment, Response
from evalkit.evaluators.factory import make_evaluator
from tests.support.thorough import some_of

CLASSES = RubricConfig(
    classes={"comply": "it does", "comply_partly": "it does in part", "refuse": "it does not"}
)
PERCENT, SHARE = RubricConfig(min=0, max=100), RubricConfig(min=0, max=1)
CASE = Case(
    "c",
    "Q",
    (Response("Paris."), Response("Lyon.")),
    checklist=(ChecklistItem("1", "x"), ChecklistItem("2", "y")),
)


def evaluator(
    mode: ModeConfig, rubric: RubricConfig | None = None, output: OutputConfig | None = None
) -> Evaluator:
    return make_evaluator(
        RunConfig(
            judge=JudgeConfig(model="a/b"),
            criteria={"overall": Criterion()},
            mode=mode,
            swap=SwapConfig(policy="none"),
            output=output or OutputConfig(),
            rubric=rubric or RubricConfig(),
        )
    )


PAIR, POINT = ModeConfig(name="pairwise"), ModeConfig(name="pointwise")
EACH, TOGETHER = (
    ModeConfig(name="checklist", ask="each"),
    ModeConfig(name="checklist", ask="together"),
)
ANSWERS: dict[str, tuple[Evaluator, dict[str, Any], tuple[tuple[str | int, ...], ...]]] = {
    # The paths of the decisions come last.
    "winner": (
        evaluator(PAIR),
        {
            "comparison": [
                {"criterion": "overall", "reasoning": "Both 'A' and B say it.", "winner": "TIE"}
            ],
            "result": {
                "reasoning": 'It\'s said: "A".\nSo it is.',
                "winner": "TIE",
                "confidence": 0.75,
            },
        },
        (("comparison", 0, "winner"), ("result", "winner"), ("result", "confidence"), ("result",)),
    ),
    "score": (
        evaluator(POINT, PERCENT),
        {
            "scores": [
                {"criterion": "overall", "justification": "8 of 10", "examples": ["8"], "score": 85}
            ]
        },
        (("scores", 0, "score"), ("scores",)),
    ),
    "class": (
        evaluator(POINT, CLASSES),
        {"reasoning": 'Not "comply".', "quotes": ["comply"], "class": "comply_partly"},
        (("class",),),
    ),
    "item": (evaluator(EACH, SHARE), {"reason": "It is.", "answer": "not_met"}, (("answer",),)),
    "items": (
        evaluator(TOGETHER, SHARE),
        {"items": [{"item": number, "reason": "It is.", "answer": "not_met"} for number in (1, 2)]},
        (("items", 1, "answer"), ("items", 0, "item"), ("items",)),
    ),
}
WRONG = {
    "winner": "B",
    "confidence": 0.5,
    "score": 10,
    "class": "refuse",
    "answer": "met",
    "item": 2,
}
FIRST = (("1", "not_met"), ("2", None))
STYLES: dict[str, Callable[[str], str]] = {
    "JSON": lambda text: text,
    "in lines": lambda text: json.dumps(json.loads(text), indent=2),
    "in a fence": lambda text: f"```json\n{text}\n```",
    "after words": lambda text: f"I say this: {text}",
    "with a comma too many": lambda text: text[:-1] + ",}",
    "with single quotes": lambda text: repr(json.loads(text)),
    "without quotes around names": lambda text: text.replace('"result":', "result:").replace(
        '"class":', "class:"
    ),
}


def decision(judge: Evaluator, text: str, **more: Any) -> object:
    """What is read in the end; asked again, the judge says the same."""
    request = judge.plan(CASE)[0]
    judgment = judge.read(request, Completion(text, **more))
    if isinstance(judgment, JudgeRequest):
        judgment = judge.read(judgment, Completion(text, **more))
    assert isinstance(judgment, Judgment)
    if judgment.status not in ("ok", "repaired"):
        return None
    return (
        judgment.class_name
        or tuple(judgment.items.items())
        or judgment.value
        or tuple(judgment.criteria.items())
    )


@pytest.mark.parametrize("style", some_of(STYLES, 3))
@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_that_is_cut_anywhere_says_the_same_or_nothing(kind, style):
    judge, answer, _ = ANSWERS[kind]
    whole = STYLES[style](json.dumps(answer))
    truth = decision(judge, whole)
    assert truth == decision(judge, json.dumps(answer))
    for end in range(len(whole)):
        cut = whole[:end]
        # A brace after a digit ends the number.
        for text in (
            cut,
            f"{cut}\n```",
            f"{cut}\n\nThat is all.",
            cut if cut[-1:].isdigit() else cut + "}",
        ):
            assert decision(judge, text) in (truth, None, FIRST), text


def edited(answer: dict[str, Any], path: tuple[str | int, ...], name: str, *, before: bool) -> str:
    """Return the answer with a second name and another value beside the value at `path`."""

    def copied(value: Any, rest: tuple[str | int, ...]) -> Any:
        if isinstance(value, list):
            return [
                copied(part, rest[1:]) if number == rest[0] else part
                for number, part in enumerate(value)
            ]
        if len(rest) > 1:
            return {
                key: copied(part, rest[1:]) if key == rest[0] else part
                for key, part in value.items()
            }
        added = {"\0": WRONG.get(str(rest[0]), {"winner": "B"})}
        return {**added, **value} if before else {**value, **added}

    return json.dumps(copied(answer, path)).replace('"\\u0000"', f'"{name}"')


SPELLINGS: dict[str, Callable[[str], str]] = {
    "the same": lambda name: name,
    "capitals": str.upper,
    "a capital": str.title,
    "a blank after it": lambda name: f"{name} ",
    "an underscore": lambda name: f"{name}_",
    "a character of no width": lambda name: f"{name[0]}\u200b{name[1:]}",
    "full width": lambda name: "".join(chr(ord(letter) + 0xFEE0) for letter in name),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("kind", ANSWERS)
def test_two_names_that_contradict_each_other_are_no_answer(kind, spelling):
    judge, answer, paths = ANSWERS[kind]
    for path in paths:
        for before in (True, False):
            text = edited(answer, path, SPELLINGS[spelling](str(path[-1])), before=before)
            for written in (text, f"So: {text}", text[:-1] + ",}"):
                assert decision(judge, written) is None, written


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_unknown_name_is_no_contradiction(kind):
    judge, answer, paths = ANSWERS[kind]
    assert all(
        decision(judge, edited(answer, path, "another", before=True)) is not None for path in paths
    )


MARKED = {
    "winner": (evaluator(PAIR, output=OutputConfig(format="bracket")), "[[B]]", "[[A]]"),
    "score": (evaluator(POINT, output=OutputConfig(format="rating")), "[[2]]", "[[5]]"),
    "class": (
        evaluator(POINT, CLASSES, OutputConfig(format="bracket")),
        "[[refuse]]",
        "[[comply]]",
    ),
    "item": (evaluator(EACH, SHARE, OutputConfig(format="bracket")), "[[not met]]", "[[met]]"),
    "items": (evaluator(TOGETHER, SHARE, OutputConfig(format="bracket")),
              "[[1: not met]]\n[[2: not met]]", "[[1: met]]"),
}  # fmt: skip
WITHIN = [
    *("I would not say {other} here, because it fails.", "{other} would be wrong."),
    "Is it {other} or not?",
    'Somebody could write "{other}" and be wrong.',
    "写{other}是不对的。",
]
AT_END = [
    *("{own}", "It is so.\n\n{own}", "**{own}**", "{own}.", "`{own}`\n"),
    "{own}\n\nI hope this helps!",
]


@pytest.mark.parametrize("kind", MARKED)
def test_a_mark_within_a_sentence_is_not_the_verdict(kind):
    judge, own, other = MARKED[kind]
    truth = decision(judge, own)
    assert truth is not None
    for shape in AT_END:
        assert decision(judge, shape.replace("{own}", own)) == truth, shape
    for shape in WITHIN:
        sentence = shape.replace("{other}", other)
        assert decision(judge, sentence) is None, sentence
        assert decision(judge, f"{sentence}\n{own}") in (
            (truth, None) if kind != "items" else (truth, None, PARTLY)
        )
        assert decision(judge, f"{own}\n{sentence}") in (
            (None,) if kind != "items" else (None, PARTLY)
        ), sentence
        assert decision(judge, sentence.partition("]]")[0] + "]]", finish_reason="length") in (
            (None,)
            if not sentence.startswith("[[") and kind != "items"
            else (None, decision(judge, other))
        )


PARTLY = (("1", None), ("2", "not_met"))


def test_a_prompt_of_ones_own_keeps_its_rule():
    output = OutputConfig(
        format="bracket", instruction="Write the winner in double brackets wherever you like."
    )
    assert decision(evaluator(PAIR, output=output), "So [[B]] wins.") == -1.0
