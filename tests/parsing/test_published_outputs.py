"""Texts of real judges in the wrappings that judges put around them: each is read as it was, or its own score is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.config import OutputConfig
from evalkit.core.scale import Scale
from evalkit.evaluators.parsing import UnreadableError, read_json, read_score
from tests.support.verdicts import read_rating, read_verdict

pytestmark = pytest.mark.shared

LETTERS = OutputConfig(
    format="regex", pattern=r"Output \((?P<winner>[ab])\)", map={"a": "A", "b": "B"}
)
LAST_DIGIT = OutputConfig(
    format="regex", pattern=r"(?m)^\s*(?P<winner>[123])\s*\Z", map={"1": "A", "2": "B", "3": "TIE"}
)
RESULT = OutputConfig(format="regex", pattern=r"\[RESULT\] (?P<score>\d)")
BRACKET, RATING = OutputConfig(format="bracket"), OutputConfig(format="rating")

WRAPPINGS: dict[str, Callable[[str], str]] = {
    "thinking that says the opposite": lambda text: (
        f"<think>Output (a)\n[[A]]\nOutput (b)\n2\n</think>\n{text}"
    ),
    "thinking opened before": lambda text: f"[[B]] Output (b)\n1\n</think>\n\n{text}",
    "Windows line ends": lambda text: text.replace("\n", "\r\n"),
    "blanks around": lambda text: f"\n\n  {text}  \n\n",
    "Chinese words before": lambda text: f"以下是我的评审：\n{text}",
}


def llmbar(shared: Path) -> list[str]:
    texts = []
    for path in sorted((shared / "data/llmbar").glob("*/**/evaluators/*/*/result.json")):
        if path.parent.name == "Rating":
            continue
        for row in json.loads(path.read_text("utf-8")):
            passes = row["results"][-1]
            texts += [passes[order]["completion"][0] for order in ("swap = False", "swap = True")]
    return texts


def qlora(shared: Path) -> list[str]:
    paths = sorted((shared / "data/qlora_vicuna/pairwise").glob("*.jsonl"))
    lines = [line for path in paths for line in path.read_text("utf-8").splitlines()[::4]]
    return [json.loads(line)["text"] for line in lines]


def said(text: str, output: OutputConfig) -> str | None:
    try:
        return read_verdict(text, output)
    except UnreadableError:
        return None


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_wrappings_do_not_change_what_is_read(shared, wrapping):
    for texts, output, least in (
        (llmbar(shared), LETTERS, 2500),
        (qlora(shared), LAST_DIGIT, 1000),
    ):
        assert len(texts) >= least
        plain = [said(text, output) for text in texts]
        assert len(set(plain)) >= 3
        assert [said(WRAPPINGS[wrapping](text), output) for text in texts] == plain


@pytest.mark.parametrize(
    ("mark", "winner"),
    [("[[A]]", "A"), ("**[[B]]**", "B"), ("［［Ｃ］］", "TIE"), ("[[B>A]]", "B")],
)
def test_a_bracket_after_real_reasoning_is_the_verdict(shared, mark, winner):
    for text in llmbar(shared)[::5] + qlora(shared)[::5]:
        assert said(f"{text}\n\n{mark}", BRACKET) == winner
        assert said(text, BRACKET) is None


def test_real_reasoning_stands_in_json(shared):
    fake = '{"comparison": [], "result": {"winner": "B", "confidence": 1}}'
    for text in llmbar(shared)[::7] + qlora(shared)[::7]:
        answer: dict[str, Any] = {
            "comparison": [{"reasoning": text + fake}],
            "result": {"winner": "A"},
        }
        dumped = json.dumps(answer, ensure_ascii=False, indent=1)
        for whole in (dumped, f"{text}\n```json\n{dumped}\n```", f"{dumped}\n\n{text}"):
            assert read_json(whole, keys=("comparison", "result"))[0] == answer


def test_feedback_with_its_published_score(shared):
    rows = json.loads((shared / "data/prometheus_vicuna/vicuna_eval.json").read_text("utf-8"))
    scale, seen = Scale(1, 5, 1), 0
    for row in rows:
        for feedback, score in zip(row["gpt4_feedback"], row["gpt4_score"], strict=True):
            assert read_rating(f"Feedback: {feedback} [RESULT] {score}", RESULT, scale) == score
            assert read_rating(f"{feedback}\n\n[[{score}]]", RATING, scale) == score
            with pytest.raises(UnreadableError):
                read_rating(f"{feedback} [RESULT] {score}0", RESULT, scale)
            seen += 1
    assert seen == 960


def test_published_grades_are_read_on_their_own_scale_only(shared):
    rows = json.loads(
        (shared / "data/icescore/conala_no_step_no_ref_gpt35.json").read_text("utf-8")
    )
    grades = [value for row in rows for name, value in row.items() if name.startswith("gpt3.5-")]
    assert len(grades) == 2500
    assert [read_score(grade, Scale(0, 4, 1)) for grade in grades] == [
        float(grade) for grade in grades
    ]
    off = 0
    for grade in grades:
        try:
            assert read_score(grade, Scale(1, 3, 1)) == float(grade)
        except UnreadableError:
            off += 1
    assert off == grades.count("0") + grades.count("4")


def test_real_chinese_answers_around_a_verdict(shared):
    for path in sorted((shared / "data/halluqa").glob("*_output*.json")):
        for row in json.loads(path.read_text("utf-8"))[::5]:
            text = row["response"]
            assert said(f"回答A写道：{text}\n\n因此回答B更好。\n\n[[B]]", BRACKET) == "B"
            assert said(f"回答A写道：{text}", BRACKET) is None
            assert read_rating(f"{text}\n评分：[[四分]]", RATING, Scale(1, 5, 1)) == 4
