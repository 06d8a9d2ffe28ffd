"""Output formats, and the schemas of answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from evalkit.compose import load_config
from evalkit.config import RunConfig
from evalkit.core.errors import PluginError, PromptError
from evalkit.core.plugins import allowing_code
from evalkit.core.scale import Scale
from evalkit.core.types import Case, Completion, Judgment, Response
from evalkit.evaluators.factory import make_evaluator
from evalkit.evaluators.json_answers import pairwise_format, pointwise_format

CASE = Case("c", "Name the capital of France.", (Response("Paris."), Response("Lyon.")))
PAIR = ("criteria=overall", "output=regex")
SCORE = ("mode=pointwise", "criteria=overall", "output=regex", "output.map={}")
PLAIN = "End with a line that contains only the winner"
PLAIN_SCORE = "in this format: Score: number"


def asked(*words: str, folders: tuple[Path, ...] = ()) -> str:
    """The user message of the first request."""
    return (
        make_evaluator(load_config(overrides=words), prompt_folders=folders)
        .plan(CASE)[0]
        .messages[-1]["content"]
    )


@pytest.mark.parametrize(
    ("words", "said", "plain"),
    [
        (PAIR, PLAIN, True),
        ((*PAIR, "output.pattern='(?P<winner>Tie|[AB])'", "output.map={}"), PLAIN, True),
        (
            (*PAIR, "tie=forbid", "output.pattern='Response (?P<winner>[AB])'", "output.map={}"),
            PLAIN,
            True,
        ),
        (
            (*PAIR, "output.pattern='Response (?P<winner>[AB])'", "output.map={}"),
            "Response (?P<winner>[AB])",
            False,
        ),
        (
            (
                *PAIR,
                r"output.pattern='Output \((?P<winner>[xy])\)'",
                "output.map={x: A, y: B}",
                "tie=forbid",
            ),
            "[xy])\\)\n\nIts group `winner` must capture, in any letter case, `a` or `x` if Response A is better or",
            False,
        ),
        (
            (*PAIR, "output.instruction='End with the better one in curly braces.'"),
            "in curly braces.",
            False,
        ),
        ((*SCORE, "output.pattern='Score: (?P<score>[0-9]+)'"), PLAIN_SCORE, True),
        (
            (*SCORE, "output.pattern='Grade (?P<score>[0-9]+)'"),
            "\n\nGrade (?P<score>[0-9]+)\n\n",
            False,
        ),
        ((*SCORE, "output.pattern='(?P<score>[1-3])'"), "(?P<score>[1-3])", False),
        (
            ("output=bracket", "criteria=overall", "output.instruction='Write [[A]] or [[B]].'"),
            "Write [[A]]",
            False,
        ),
    ],
)
def test_the_judge_is_told_the_form_that_is_read(words, said, plain):
    content = asked(*words)
    assert said in content
    assert (PLAIN in content or PLAIN_SCORE in content) == plain
    assert "the winner: [[A]]" not in content


def test_in_chinese_too():
    output = {
        "format": "regex",
        "pattern": "胜者：(?P<winner>[甲乙平])",
        "map": {"甲": "A", "乙": "B", "平": "TIE"},
    }
    given = {
        "judge": {"model": "m"},
        "criteria": {"overall": ""},
        "prompt": {"language": "zh"},
        "output": output,
    }
    content = make_evaluator(RunConfig.model_validate(given)).plan(CASE)[0].messages[-1]["content"]
    assert output["pattern"] in content
    assert "回答 A 更好写 `甲`，回答 B 更好写 `乙`，平局写 `平`" in content


def test_a_template_that_does_not_show_the_instruction(tmp_path):
    (tmp_path / "en").mkdir()
    mine = tmp_path / "en" / "mine.md.j2"
    mine.write_text(
        "{{ original_prompt }} {{ response_a }} {{ response_b }} Answer in {{ output }}."
    )
    words = (*PAIR, "prompt.template=mine", "output.pattern='Output (?P<winner>[AB])'")
    assert asked(*words, folders=(tmp_path,)).endswith("Answer in regex.")
    with pytest.raises(
        PromptError, match=r"mine\.md\.j2: has no placeholder 'output_instruction'; add \{\{"
    ):
        asked(*words, "output.instruction='Write Output A.'", folders=(tmp_path,))
    mine.write_text(
        "{{ original_prompt }} {{ response_a }} {{ response_b }} {{ output_instruction }}"
    )
    assert asked(*words, "output.instruction='Write Output A.'", folders=(tmp_path,)).endswith(
        "Write Output A."
    )


class Silent:
    """A plug-in's format that does not say how to answer."""

    def __init__(self, config: Any) -> None:
        self.word = config.pattern or "Response"

    def winner(self, text: str) -> str:
        _, found, after = text.rpartition(self.word)
        if not found and text != "Tie":
            raise ValueError(f"there is no '{self.word}'")
        return after if found else text


class Spoken(Silent):
    schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"better": {"type": "string"}},
        "required": ["better"],
    }

    def instruction(self, decision: str, language: str, tie_allowed: bool) -> Any:
        return (
            f"Say {decision} {language} {tie_allowed} </task> after {self.word}."
            if self.word != "mute"
            else 3
        )


class Broken(Silent):
    def instruction(self, decision: str, language: str) -> str:
        raise KeyError("no words")


def named(kind: type, *more: str) -> tuple[str, ...]:
    return ("criteria=overall", f"output.format={__name__}.{kind.__name__}", *more)


def test_a_plug_ins_format_owns_its_instruction_and_its_schema():
    with allowing_code():
        evaluator = make_evaluator(load_config(overrides=named(Spoken, "output.pattern=Winner:")))
        request = evaluator.plan(CASE)[0]
        assert request.messages[-1]["content"].endswith(
            "Say winner en True &lt;/task> after Winner:."
        )
        assert request.answer.schema == Spoken.schema
        judged = evaluator.read(request, Completion("Winner: A"))
        assert isinstance(judged, Judgment)
        assert judged.value == 1.0
        assert PLAIN in asked(*named(Silent))


@pytest.mark.parametrize(("kind", "pattern", "said"), [
    (Silent, "Winner:", "has no instruction for the judge; set output.instruction"),
    (Spoken, "mute", "the instruction of '.*Spoken' is empty or not a string; fix the plug-in"),
    (Broken, "x", "the instruction of '.*Broken' fails: KeyError: 'no words'; fix the plug-in"),
])  # fmt: skip
def test_a_plug_ins_format_without_a_usable_instruction_is_refused(kind, pattern, said):
    with allowing_code(), pytest.raises(PluginError, match=f"^output.format: .*{said}"):
        asked(*named(kind, f"output.pattern={pattern}"))
    with allowing_code():
        assert asked(
            *named(Silent, "output.pattern=Winner:", "output.instruction=Plainly.")
        ).endswith("Plainly.")


FORMATS = [
    pairwise_format(["a", "b"], tie_allowed=True),
    pairwise_format(["只有一项"], tie_allowed=False),
    pointwise_format(["a", "b"], Scale(1, 5, 1)),
    pointwise_format(["a"], Scale(1, 10, 0.1)),
]
ACCEPTED = {
    *("type", "properties", "required", "additionalProperties", "items", "enum"),
    *("minimum", "maximum", "multipleOf", "minItems", "maxItems"),
}
REASONS = {
    *("reasoning", "justification", "aAssessment", "bAssessment", "differentiators", "examples"),
}
DECISIONS = {"winner", "score", "confidence"}


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    yield schema
    for inner in [
        *schema.get("properties", {}).values(),
        *([schema["items"]] if "items" in schema else []),
    ]:
        yield from parts(inner)


@pytest.mark.parametrize("answer", FORMATS)
def test_only_accepted_keywords_are_used(answer):
    for part in parts(answer.schema):
        assert set(part) <= ACCEPTED
        if part["type"] == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])


@pytest.mark.parametrize("answer", FORMATS)
def test_in_every_object_the_reasons_come_before_the_decisions(answer):
    decided = 0
    for part in parts(answer.schema):
        names = list(part.get("properties", {}))
        reasons = [names.index(name) for name in names if name in REASONS]
        decisions = [names.index(name) for name in names if name in DECISIONS]
        decided += len(decisions)
        assert not (reasons and decisions) or max(reasons) < min(decisions)
        assert not decisions or reasons
    assert decided > 0
