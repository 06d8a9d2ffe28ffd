"""Every output format on what judges really write: read as meant, or refused; never guessed.

Each row of the table goes all the way through an evaluator. The table with its outcomes is in the
test report: counts at the end of a run, each text with `--tables FILE.md`, and as properties of
each test with `--junitxml`."""

import json
import time
from collections import Counter
from typing import Any

import pytest

from evalkit.compose import load_config
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
from evalkit.core.scale import Scale
from evalkit.core.types import Case, Completion, JudgeRequest, Judgment, Response
from evalkit.evaluators.factory import make_evaluator
from evalkit.evaluators.parsing import UnreadableError, drop_thinking, read_json
from evalkit.evaluators.parsing.json import places
from evalkit.evaluators.parsing.plain_text import unescape
from tests.support.verdicts import read_rating, read_verdict

ONE = {"overall": Criterion()}
CASE = Case("c", "Name the capital of France.", (Response("Paris."), Response("Lyon.")))
LETTER = {1.0: "A", 0.0: "TIE", -1.0: "B"}


def pair(winner: object = "A", confidence: object = 0.9, why: str = "right", **more: Any) -> str:
    sides = {"strengths": [], "weaknesses": []}
    compared = {
        "criterion": "overall",
        "aAssessment": "x",
        "bAssessment": "y",
        "reasoning": why,
        "winner": winner,
    }
    result = {"reasoning": why, "differentiators": [], "winner": winner, "confidence": confidence}
    whole = {
        "analysis": {"responseA": sides, "responseB": sides},
        "comparison": [compared],
        "result": result,
    }
    return json.dumps(whole | more, ensure_ascii=False)


def point(score: object = 4, why: str = "right") -> str:
    scored = {"criterion": "overall", "justification": why, "examples": [], "score": score}
    return json.dumps(
        {"scores": [scored], "summary": {"strengths": [], "weaknesses": [], "suggestions": []}}
    )


def classed(name: object = "pass", why: str = "right", **more: Any) -> str:
    return json.dumps({"reasoning": why, "quotes": [], "class": name} | more, ensure_ascii=False)


A, B, T, S = pair("A"), pair("B"), pair("TIE"), point(4)


def evaluator(mode: str, output: OutputConfig, **rubric: Any) -> Evaluator:
    return make_evaluator(
        RunConfig(
            judge=JudgeConfig(model="a/b"),
            criteria=ONE,
            mode=ModeConfig(name=mode),
            swap=SwapConfig(policy="none"),
            output=output,
            rubric=RubricConfig(**rubric),
        )
    )


def regex(pattern: str, **more: Any) -> OutputConfig:
    return OutputConfig(format="regex", pattern=pattern, **more)


LETTERS = regex(r"Output \((?P<winner>[ab])\)", map={"a": "A", "b": "B"})
LAST_DIGIT = regex(r"(?m)^\s*(?P<winner>[123])\s*\Z", map={"1": "A", "2": "B", "3": "TIE"})
CLASSES: dict[str, Any] = {"classes": {"pass": "good", "not pass": "bad"}, "abstain": "cannot_tell"}
HALVES, TENTHS = {"step": 0.5}, {"max": 10, "step": 0.1}
EVALUATORS = {
    "json": evaluator("pairwise", OutputConfig()),
    "json score": evaluator("pointwise", OutputConfig()),
    "bracket": evaluator("pairwise", OutputConfig(format="bracket")),
    "bracket first": evaluator("pairwise", OutputConfig(format="bracket", take="first")),
    "bracket only": evaluator("pairwise", OutputConfig(format="bracket", take="only")),
    "rating": evaluator("pointwise", OutputConfig(format="rating")),
    "rating 1-10": evaluator("pointwise", OutputConfig(format="rating"), max=10),
    "rating halves": evaluator("pointwise", OutputConfig(format="rating"), **HALVES),
    "rating tenths": evaluator("pointwise", OutputConfig(format="rating"), **TENTHS),
    "regex (a)/(b)": evaluator("pairwise", LETTERS),
    "regex last digit": evaluator("pairwise", LAST_DIGIT),
    "regex [RESULT]": evaluator("pointwise", regex(r"\[RESULT\] ?(?P<score>\S+)")),
    "regex 是/否": evaluator(
        "pairwise", regex(r"\A\s*(?P<winner>是|否)", map={"是": "A", "否": "B"})
    ),
    "json class": evaluator("pointwise", OutputConfig(), **CLASSES),
    "bracket class": evaluator("pointwise", OutputConfig(format="bracket"), **CLASSES),
    "regex class": evaluator("pointwise", regex(r"Class: (?P<class>[^\n]+)"), **CLASSES),
    "regex shipped": evaluator("pairwise", load_config(overrides=["output=regex"]).output),
}

EMPTY, NONE, MANY, WRONG, CUT, NO = (
    *("empty", "no_answer", "ambiguous", "invalid", "truncated", "refusal"),
)

# What the provider reports beside the text, where it matters.
LENGTH, FILTER = {"finish_reason": "length"}, {"finish_reason": "content_filter"}
Row = tuple[str, str, str, object] | tuple[str, str, str, object, dict[str, Any]]

REASONING: list[Row] = [
    ("json", "verdict words in the reasoning",
     pair("B", why="A is wrong, so the winner is not A. TIE? No."), "B"),
    (
        "json",
        "a verdict in brackets in the reasoning",
        pair("A", why="[[B]] would be unfair."),
        "A",
    ),
    ("json", "JSON in the reasoning", pair("A", why=f"It wrote {B}"), "A"),
    ("json", "a code fence in the reasoning", pair("B", why="```json\n{}\n```"), "B"),
    ("json", "quotes and braces in the reasoning", pair("A", why='He said "{winner: B}" }}}'), "A"),
    ("json score", "other numbers in the reasoning",
     point(2, "5 of 5 steps; 10/10 for style; score: 4"), 2),
    ("json score", "another score in the reasoning", point(3, '"score": 5'), 3),
    ("bracket", "both names before the verdict",
     "Response A is better than B in tone; B in facts.\n[[B]]", "B"),
    ("bracket", "a first thought, then the verdict",
     "At first [[A]] seemed right.\n\nYet B is complete: [[B]]", "B"),
    ("bracket", "the form explained, then filled", "I am to write [[A]], [[B]] or [[C]].\n\n[[C]]",
     "TIE"),
    ("bracket", "verdict with a label", "Final verdict: [[A]]", "A"),
    ("bracket", "verdict at the end of a sentence", "So my final verdict is [[B]].", "B"),
    ("bracket", "verdict in a sentence", "So my final verdict is that [[B]] wins.", NONE),
    ("bracket", "verdict, then one in a sentence", "[[B]]\nThough [[A]] is shorter.", MANY),
    ("bracket", "one in a sentence, then the verdict", "Though [[A]] is shorter:\n[[B]]", "B"),
    ("bracket first", "verdict in a sentence", "I say [[B]] since it is right.", "B"),
    ("bracket", "verdict in a tag", "<answer>[[B]]</answer>", "B"),
    ("bracket", "a list index in the reasoning", "grid[[0, 1]] is wrong in A.\n[[B]]", "B"),
    ("bracket", "a link in the reasoning", "It cites [[Paris]] twice.\n[[A]]", "A"),
    ("bracket", "kind words after the verdict", "[[A]]\n\nLet me know if I can help further!", "A"),
    ("bracket", "scores by criterion before", "A: 4/5, 3/5, 5/5\nB: 4.5/5, 5/5, 4/5\n\n[[B]]", "B"),
    ("regex (a)/(b)", "one paragraph, verdict last",
     "Output (a) drifts off. Therefore, Output (b) is better.", "B"),
    ("regex (a)/(b)", "verdict only", "Output (a)", "A"),
    ("regex (a)/(b)", "verdict, then a blank line", "Output (b)\n\n", "B"),
    ("regex last digit", "digits all through, verdict last",
     "Helpfulness: 3.5/5\n1. yes\n2. no\n\n1", "A"),
    ("regex last digit", "numbered steps, verdict last", "1. First\n2. Second\n\n3", "TIE"),
    ("regex last digit", "a verdict in a sentence only",
     "Therefore, I choose option 3, as both are equal.", NONE),
    ("regex last digit", "a wrong formula at the end", "Assistant 2: x = -5/3. Neither is right.",
     NONE),
    ("regex last digit", "cannot choose", "I cannot choose between the two, as both are incorrect.",
     NONE),
    ("regex last digit", "error", "error", NONE),
    ("regex [RESULT]", "feedback, then the result",
     "Feedback: two of 5 points are missing. [RESULT] 3", 3),
    ("regex [RESULT]", "feedback about scores", "Feedback: not a 5, hardly a 4. So [RESULT] 3", 3),
    ("regex [RESULT]", "feedback without a result",
     "Feedback: It could be improved by adding comments.", NONE),
    ("regex shipped", "a comparison, then the line",
     "Response A is better than Response B.\n\nResponse A", "A"),
    ("regex shipped", "a comparison only", "Response A is better than Response B.", NONE),
    ("regex shipped", "tie", "They say the same.\n\nTie", "TIE"),
    ("rating", "scores by criterion before", "Accuracy [[2]], tone [[5]].\n\n[[3]]", 3),
    ("rating", "a rating in a sentence", "I would give this a [[4]] overall.", NONE),
    ("rating", "a rating with its unit", "I would give this [[4]] points.", 4),
    ("rating", "no brackets", "Rating: 4", NONE),
    ("rating", "one bracket", "Rating: [4]", NONE),
]  # fmt: skip

SEVERAL: list[Row] = [
    ("bracket", "two that differ on lines of their own", "[[A]]\n[[B]]", MANY),
    ("bracket first", "two that differ: the first", "[[A]]\n[[B]]", "A"),
    ("bracket only", "two that differ", "[[A]]\n[[B]]", MANY),
    ("bracket only", "two alike", "[[A]] ... so [[A>>B]]", "A"),
    ("bracket only", "one and a broken one", "[[A]] [[neither]]", WRONG),
    ("bracket", "the last is no verdict", "[[A]] or rather [[neither]]", WRONG),
    ("bracket", "both at once", "[[A]][[B]]", MANY),
    ("bracket", "both in one", "[[A/B]]", WRONG),
    ("bracket", "an enumeration in one", "[[A, B]]", WRONG),
    ("rating", "two that differ: the last", "[[2]] at first.\nThen [[4]]", 4),
    ("rating", "two that differ in a sentence", "[[2]] then [[4]]", MANY),
    ("rating", "a range", "[[3-4]]", WRONG),
    ("json", "two objects that differ", f"{A}\n{B}", MANY),
    ("json", "two objects alike", f"{A}\n\n{A}", "A"),
    ("json", "a correction after the first", f"{A}\nOn reflection:\n{B}", MANY),
    ("json", "a winner twice", A.replace('"confidence"', '"winner": "B", "confidence"'), MANY),
    ("json", "a small object before", f'{{"note": 1}} {T}', "TIE"),
    ("json", "two winners in one", pair("A and B"), WRONG),
    ("json", "a list of winners", pair(["A", "B"]), WRONG),
    ("json score", "two objects that differ", f"{point(2)}{point(5)}", MANY),
    ("json score", "a list of scores", point([3, 4]), WRONG),
    ("regex (a)/(b)", "both named last", "Output (b) is not as good as Output (a)", "A"),
]

SPELLING: list[Row] = [
    ("bracket", "lower case", "[[a]]", "A"),
    ("bracket", "lower-case tie", "[[tie]]", "TIE"),
    ("bracket", "blanks", "[[ B ]]", "B"),
    ("bracket", "bold", "**[[A]]**", "A"),
    ("bracket", "a heading", "### Final verdict: **[[B]]**", "B"),
    ("bracket", "escaped for Markdown", r"\[\[A\]\]", "A"),
    ("bracket", "strong preference", "[[A>>B]]", "A"),
    ("bracket", "weak preference the other way", "[[B>A]]", "B"),
    ("bracket", "turned round", "[[A<B]]", "B"),
    ("bracket", "equal", "[[A=B]]", "TIE"),
    ("bracket", "named in full", "[[Response B]]", "B"),
    ("bracket", "the assistant's name", "[[Assistant A]]", "A"),
    ("bracket", "lower-case preference", "[[b>>a]]", "B"),
    ("bracket", "Cyrillic letter", "[[А]]", WRONG),
    ("bracket", "Greek letter", "[[Β]]", WRONG),
    ("bracket", "a number", "[[1]]", WRONG),
    ("bracket", "a place", "[[first]]", "A"),
    ("bracket", "empty brackets", "[[]]", NONE),
    ("bracket", "broken over lines", "[[\nA\n]]", "A"),
    ("bracket", "one bracket", "[A]", NONE),
    ("bracket", "round brackets", "((A))", NONE),
    ("bracket", "no brackets", "A", NONE),
    ("json", "lower-case winner", pair("a"), "A"),
    ("json", "winner in full", pair("Response B"), "B"),
    ("json", "winner in Chinese", pair("平局"), "TIE"),
    ("json", "winner with a stop", pair("A."), "A"),
    ("json", "another word", pair("neither"), WRONG),
    ("json", "C for a tie, as in brackets", pair("C"), "TIE"),
    ("json", "a number for a winner", pair(1), WRONG),
    ("json", "null for a winner", pair(None), WRONG),
    ("json", "confidence in per cent", pair(confidence=95), "A"),
    ("json", "confidence beyond all numbers", A.replace("0.9", "1e999"), "A"),
    ("json", "confidence below nought", pair(confidence=-0.1), "A"),
    ("json", "confidence in words", pair(confidence="high"), "A"),
    ("json", "confidence as a text", pair(confidence="0.8"), "A"),
    ("json", "confidence true", pair(confidence=True), "A"),
    ("json score", "score as a text", point("4"), 4),
    ("json score", "score out of five", point("4/5"), 4),
    ("json score", "score out of ten", point("8/10"), WRONG),
    ("json score", "score between two", point(3.5), WRONG),
    ("json score", "score off the scale", point(10), WRONG),
    ("json score", "score of nought", point(0), WRONG),
    ("json score", "score null", point(None), WRONG),
    ("json score", "score true", point(True), WRONG),
    ("json score", "an integer beyond all floats", point(10**400), WRONG),
    ("json score", "score in words", point("four"), WRONG),
    ("rating", "out of five", "[[4/5]]", 4),
    ("rating", "out of five, outside", "[[4]]/5", 4),
    ("rating", "out of ten", "[[8/10]]", WRONG),
    ("rating", "out of ten, outside", "[[4]]/10", WRONG),
    ("rating", "in words", "[[four]]", WRONG),
    ("rating 1-10", "ten is ten", "[[10]]", 10),
    ("rating 1-10", "ten out of ten", "[[10/10]]", 10),
    ("rating", "ten is not one", "[[10]]", WRONG),
    ("rating halves", "a half", "[[3.5/5]]", 3.5),
    ("rating halves", "no half", "[[3.7]]", WRONG),
    ("rating tenths", "a tenth", "[[7.3]]", 7.3),
    ("rating tenths", "a hundredth", "[[7.35]]", WRONG),
    ("rating tenths", "a decimal comma", "[[7,3]]", WRONG),
    ("regex [RESULT]", "ten is not one", "[RESULT] 10", WRONG),
    ("regex [RESULT]", "with a stop", "[RESULT] 4.", 4),
    ("regex [RESULT]", "out of five", "[RESULT] 4/5", 4),
    ("regex [RESULT]", "a word", "[RESULT] N/A", WRONG),
    ("regex (a)/(b)", "capitals", "OUTPUT (A)", NONE),
    ("regex (a)/(b)", "neither", "Neither output follows the instruction.", NONE),
    ("regex shipped", "lower case", "response b", "B"),
    ("regex shipped", "bold with a stop", "**Response A.**", "A"),
]

WIDTH_AND_CHINESE: list[Row] = [
    ("bracket", "full-width brackets", "［［A］］", "A"),
    ("bracket", "full-width letter", "[[Ｂ]]", "B"),
    ("bracket", "lenticular brackets", "【【A】】", "A"),
    ("bracket", "full-width signs", "［［Ａ＞＞Ｂ］］", "A"),
    ("bracket", "Chinese reasoning", "回答A有事实错误，回答B准确。\n\n[[B]]", "B"),
    ("bracket", "Chinese label", "最终结论：[[A]]", "A"),
    ("bracket", "Chinese tie", "[[平局]]", "TIE"),
    ("bracket", "Chinese name", "[[回答B]]", "B"),
    ("bracket", "Chinese words only", "回答A更好。", NONE),
    ("bracket", "Chinese neither", "[[都不好]]", WRONG),
    ("rating", "full-width digit", "[[４]]", 4),
    ("rating", "Chinese numeral", "[[四分]]", 4),
    ("rating", "digit and 分", "评分：[[4分]]", 4),
    ("rating", "Chinese numeral off the scale", "[[十分]]", WRONG),
    ("rating 1-10", "ten in Chinese", "[[十分]]", 10),
    ("rating 1-10", "fifty in Chinese", "[[五十分]]", WRONG),
    ("rating halves", "decimals in Chinese", "[[三点五分]]", 3.5),
    ("rating", "a range in Chinese", "[[3到4]]", WRONG),
    ("json", "Chinese reasons", pair("A", why="回答A引用了原文，“准确”。"), "A"),
    ("json", "Chinese words around", f"以下是评审结果：\n{B}\n以上。", "B"),
    ("json", "full-width punctuation for JSON's", "｛“result”：“A”｝", NONE),
    ("json score", "Chinese numeral", point("四分"), 4),
    ("json score", "full-width digit", point("４"), 4),
    ("regex 是/否", "yes and why", "是，回答与参考答案一致。", "A"),
    ("regex 是/否", "no and why", "否。回答中“北京是首都”是对的，但年份有误，不是1949年。", "B"),
    ("regex 是/否", "neither", "无法判断", NONE),
    ("regex 是/否", "not at the start", "这个回答是否正确？是", NONE),
]

FENCES: list[Row] = [
    ("json", "fence", f"```json\n{A}\n```", "A"),
    ("json", "fence without a language", f"```\n{B}\n```", "B"),
    ("json", "words and a fence",
     f"Here is my evaluation:\n\n```json\n{T}\n```\nI hope this helps.", "TIE"),
    ("json", "fence that is not closed", f"```json\n{A}", "A"),
    ("json", "byte order mark", f"\ufeff{A}", "A"),
    ("json", "in a list", f"[{B}]", "B"),
    ("json", "trailing comma", A[:-1] + ",}", "A"),
    ("json", "single quotes", str(json.loads(B)).replace('"', "'"), "B"),
    ("json", "no last brace", A[:-1], "A"),
    ("json", "in a string", json.dumps(A), "A"),
    ("json", "YAML", "winner: A\nconfidence: 0.9", NONE),
    ("json", "XML", "<winner>A</winner>", NONE),
    ("json", "a bracket verdict where JSON was wanted", "[[A]]", NONE),
    ("json", "fields of another form", '{"winner": "A", "confidence": 0.9}', WRONG),
    ("json", "no comparison", json.dumps({"result": json.loads(A)["result"], "comparison": []}),
     WRONG),
    ("json score", "fence", f"```json\n{S}\n```", 4),
    ("bracket", "fence", "```\n[[B]]\n```", "B"),
    ("bracket", "inline code", "`[[A]]`", "A"),
    ("rating", "fence", "```\n[[5]]\n```", 5),
]  # fmt: skip

THINKING: list[Row] = [
    ("json", "thinking before", f"<think>{B} seems right.</think>\n{A}", "A"),
    ("json", "thinking opened by the chat template", f"maybe {B}\n</think>\n\n{A}", "A"),
    ("json", "thinking that never ends", f"<think>{A}", EMPTY),
    ("json", "only thinking", "<think>A is better.</think>", EMPTY),
    ("bracket", "thinking before", "<think>Surely [[A]].</think>\n[[B]]", "B"),
    ("bracket", "thinking in another tag", "<reasoning>\n[[A]]\n</reasoning>\n[[B]]", "B"),
    ("bracket", "thinking in capitals", "<THINK>[[A]]</THINK>[[C]]", "TIE"),
    ("bracket", "thinking opened by the chat template", "[[A]]? No.\n</think>\n[[B]]", "B"),
    ("bracket", "thinking that quotes its own end",
     "<think>it says </think>[[A]] but</think>\n[[B]]", "B"),
    ("bracket", "thinking that never ends", "<think>\n[[A]]", NONE),
    ("bracket", "only thinking", "<think>[[A]]</think>", NONE),
    ("rating", "thinking before", "<think>[[1]] or [[2]]?</think>[[5]]", 5),
    ("regex (a)/(b)", "thinking before", "<think>Output (a)</think>Output (b)", "B"),
    ("json", "reasoning apart", A, "A", {"reasoning": f"Perhaps {B}"}),
    ("json", "the answer as reasoning", "", "A", {"reasoning": A}),
    ("json", "reasoning apart, and no answer", "", EMPTY, {"reasoning": f"Say {A} or {B}"}),
    ("bracket", "the verdict as reasoning", "", "A", {"reasoning": "[[A]]"}),
    ("bracket", "two verdicts as reasoning", "", MANY, {"reasoning": "[[B]], no: [[A]]"}),
]  # fmt: skip

CUT_OFF: list[Row] = [
    ("json", "in the reasoning", pair(why="It is bett")[:230], CUT, LENGTH),
    ("json", "before the last brace", A[:-1], CUT, LENGTH),
    ("json", "after the answer", f"{A}\nIn summ", "A", LENGTH),
    ("json", "in a second answer", f"{A}\n{B[:200]}", "A", LENGTH),
    ("json", "before anything", "", CUT, LENGTH),
    ("json score", "in the score", S[: S.index('"score"') + 10], CUT, LENGTH),
    ("json", "Anthropic's word for it", A[:-5], CUT, {"finish_reason": "max_tokens"}),
    ("json", "in the last number, unreported", A[:-3], NONE),
    ("bracket", "before the verdict", "Response A is accur", CUT, LENGTH),
    ("bracket", "in the verdict", "So: [[A", CUT, LENGTH),
    ("bracket", "after the verdict", "[[A]]\n\nExplanation: Response A is", "A", LENGTH),
    ("bracket", "after a first of two", "[[A]] at first, then [[B]] since", CUT, LENGTH),
    ("bracket first", "after the first", "[[A]]\nnot [[B]] sin", "A", LENGTH),
    ("rating 1-10", "in the score", "So: [[1", CUT, LENGTH),
    ("rating", "after two that differ", "Accuracy [[2]], tone [[5]], so ove", CUT, LENGTH),
    ("bracket", "in thinking", "<think>[[A]] is", CUT, LENGTH),
    ("regex (a)/(b)", "verdict only", "Output (b)", "B", LENGTH),
    ("regex class", "in a class", "Class: pass", CUT, LENGTH),
    ("regex [RESULT]", "in a score", "[RESULT] 1", CUT, LENGTH),
    ("bracket", "in a sentence after a verdict", "I would not say [[A]]", CUT, LENGTH),
    ("regex (a)/(b)", "in the reasoning", "Output (a) is short. Output (b) is lo", CUT, LENGTH),
]

REFUSING: list[Row] = [
    ("json", "English", "I'm sorry, but I can't assist with that request.", NO),
    ("json", "English, curly apostrophe", "I’m sorry, but I can’t help with that.", NO),
    ("bracket", "English", "I cannot evaluate these responses.", NO),
    ("rating", "English", "As an AI language model, I cannot rate this content.", NO),
    ("regex (a)/(b)", "English", "I must decline to compare these responses.", NO),
    ("json", "Chinese", "抱歉，我无法协助完成这个请求。", NO),
    ("bracket", "Chinese", "很抱歉，我不能评价这些内容。", NO),
    ("rating", "Chinese", "作为一个人工智能语言模型，我无法对此打分。", NO),
    ("json", "after thinking", "<think>Harmful.</think>I can't help with this.", NO),
    ("json", "the provider's field", "", NO, {"refusal": "I can't help with that."}),
    ("bracket", "the provider's field, with a verdict", "[[A]]", NO, {"refusal": "No."}),
    ("bracket", "the provider's filter", "[[A", "content_filter", FILTER),
    ("bracket", "quoted from a response, and a verdict",
     "A says \"I'm sorry, I can't help\".\n[[B]]", "B"),
    ("bracket", "sorry, and a verdict", "I'm sorry to say that both are poor.\n[[C]]", "TIE"),
    ("bracket", "cannot choose is no refusal", "I cannot choose between them.", NONE),
    ("json", "answered all the same", f"I'm sorry, I can't be sure, but:\n{B}", "B"),
]  # fmt: skip

NOTHING: list[Row] = [
    *(
        (name, "empty", "", EMPTY if name.startswith("json") else NONE)
        for name in ("json", "bracket", "rating")
    ),
    *(
        (name, "white space", " \n\t\u3000", EMPTY if name.startswith("json") else NONE)
        for name in ("json", "bracket")
    ),
    ("bracket", "zero-width characters", "\u200b\u200b", NONE),
    ("rating", "a dot", ".", NONE),
    ("json", "null", "null", NONE),
    ("json", "an empty object", "{}", WRONG),
    ("json", "a null character", "\x00", NONE),
    ("bracket", "ten thousand brackets", "[" * 10_000, NONE),
    ("json", "ten thousand braces", "{" * 10_000, NONE),
    ("json score", "repetition", '{"scores": [' * 400, NONE),
    ("bracket", "repetition", "The response is good. " * 400, NONE),
]

BY_CLASS: list[Row] = [
    ("json class", "a class", classed(), "pass"),
    ("json class", "capitals", classed("PASS"), "pass"),
    ("json class", "a class that contains another", classed("not pass"), "not pass"),
    ("json class", "the abstention", classed("cannot_tell"), "cannot_tell"),
    ("json class", "another class in the reasoning", classed("pass", why="It may be not pass."),
     "pass"),
    ("json class", "a class of its own", classed("partial pass"), WRONG),
    ("json class", "a synonym", classed("good"), WRONG),
    ("json class", "a typo", classed("pas"), WRONG),
    ("json class", "two classes", classed("pass | not pass"), WRONG),
    ("json class", "a list of classes", classed(["pass"]), WRONG),
    ("json class", "a truth value", classed(True), WRONG),
    ("json class", "null", classed(None), WRONG),
    ("json class", "no class", json.dumps({"reasoning": "right", "quotes": []}), WRONG),
    ("json class", "two objects that differ", classed("pass") + "\n" + classed("not pass"), MANY),
    ("json class", "broken off in a class", classed("pass")[:-3], CUT, LENGTH),
    ("json class", "a refusal", "I'm sorry, but I can't assist with that.", NO),
    ("bracket class", "a class", "Fine.\n[[pass]]", "pass"),
    ("bracket class", "full width", "好。\n【【ｐａｓｓ】】", "pass"),
    ("bracket class", "escaped for Markdown", "Hm.\n\\[\\[cannot\\_tell\\]\\]", "cannot_tell"),
    ("bracket class", "bold", "**[[not pass]]**", "not pass"),
    ("bracket class", "the last one counts", "[[pass]] at first.\n[[not pass]]", "not pass"),
    ("bracket class", "a letter", "[[A]]", WRONG),
    ("bracket class", "a negation", "[[no pass]]", WRONG),
    ("bracket class", "the placeholder", "[[class]]", WRONG),
    ("bracket class", "single brackets", "[pass]", NONE),
    ("bracket class", "only the word", "pass", NONE),
    ("bracket class", "two that differ, cut off", "[[pass]] or [[not pass]]", CUT, LENGTH),
    ("regex class", "a class", "Fine.\nClass: pass", "pass"),
    ("regex class", "a longer line", "Class: pass, I think", WRONG),
    ("regex class", "the abstention", "Class: Cannot_Tell", "cannot_tell"),
    ("regex class", "no line", "It is a pass.", NONE),
]  # fmt: skip

FAMILIES = {
    "verdict words in the reasoning": REASONING,
    "several verdicts": SEVERAL,
    "spelling": SPELLING,
    "widths and Chinese": WIDTH_AND_CHINESE,
    "fences and almost-JSON": FENCES,
    "thinking": THINKING,
    "cut off": CUT_OFF,
    "refusals": REFUSING,
    "nothing": NOTHING,
    "classes": BY_CLASS,
}
TABLE = [
    (family, *row, *([{}] if len(row) == 4 else []))
    for family, rows in FAMILIES.items()
    for row in rows
]
IDS = [f"{family}: {name}: {what}" for family, name, what, *_ in TABLE]


def outcome(name: str, text: str, more: dict[str, Any]) -> object:
    """What comes out in the end: a winner, a score, or the kind of fault; asked again, the judge says the same."""
    judge = EVALUATORS[name]
    request = judge.plan(CASE)[0]
    judgment = judge.read(request, Completion(text, **more))
    if isinstance(judgment, JudgeRequest):
        # Neither a refusal nor an answer that was cut off is asked for again.
        assert not {"refusal", "finish_reason"} & more.keys()
        judgment = judge.read(judgment, Completion(text, **more))
    assert isinstance(judgment, Judgment)
    if judgment.status not in ("ok", "repaired"):
        assert (judgment.value, judgment.criteria, judgment.answer) == (None, {}, None)
        assert judgment.class_name is None
        assert judgment.status == (
            "refused" if judgment.error_kind in (NO, "content_filter") else "unparseable"
        )
        return judgment.error_kind
    if judgment.class_name is not None:
        return judgment.class_name
    return LETTER[judgment.value] if judgment.value is not None else judgment.criteria["overall"]


@pytest.mark.parametrize(("family", "name", "what", "text", "expected", "more"), TABLE, ids=IDS)
def test_read_as_meant_or_refused(family, name, what, text, expected, more, record_property):
    found = outcome(name, text, more)
    record_property("output", name)
    record_property("text", text[:400])
    record_property("outcome", str(found))
    assert found == expected


def test_the_table_is_wide_enough():
    assert len(TABLE) >= 150
    assert len(set(IDS)) == len(TABLE)
    assert {row[1] for row in TABLE} == set(EVALUATORS)
    read = (*LETTER.values(), *CLASSES["classes"], CLASSES["abstain"])
    unread = Counter(isinstance(row[4], str) and row[4] not in read for row in TABLE)
    assert min(unread.values()) >= 60


DEEP = 25_000
SCHEMA = {"properties": {"result": {"properties": {"winner": {}, "reasoning": {}}}}}
TEXTS = {
    "deep objects": '{"a":' * DEEP,
    "deep objects that end": '{"a":' * DEEP + "1" + "}" * DEEP,
    "deep lists": '{"result": ' + "[" * DEEP + "]" * DEEP + "}",
    "deep lists in a string": '{"result": "' + "[" * DEEP,
    "braces": "{" * DEEP,
    "parentheses": '{"result": ' + "(" * DEEP,
    "not so deep, again and again": ('{"a":' * 900 + "x") * 60,
    "objects": "{}" * DEEP,
    "objects that never end": '{"result": 1, ' * DEEP,
    "thoughts that never end": "<think>" * DEEP,
    "thoughts that never began": "</think>" * DEEP,
    "marks": "[[A]]" * DEEP,
    "marks that are none": "[[" + " " * DEEP + "A" + " " * DEEP,
    "brackets": "[" * DEEP,
    "backslashes": "\\" * DEEP,
    "escapes": "\\u0077" * DEEP,
    "entities": "&#" + "9" * DEEP + "&amp;" * DEEP,
    "digits": '{"result": ' + "9" * DEEP,
    "quotation marks": '{"result": "' + '"' * DEEP,
    "spaces": '{"' + " " * DEEP + "result",
    "lines": "[[A]]\n" * DEEP,
}


def readings(text, sources):
    for read in (
        lambda: read_json(text, keys=["result"], sources=sources, schema=SCHEMA),
        lambda: read_verdict(text, OutputConfig(format="bracket"), sources=sources),
        lambda: read_rating(
            text, OutputConfig(format="bracket"), Scale(min=1, max=5, step=1), sources=sources
        ),
        lambda: places(text, {"result": 1}),
        lambda: drop_thinking(text, sources),
        lambda: unescape(text),
    ):
        try:
            read()
        except UnreadableError:
            continue


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_hostile_text_is_read_or_refused_at_once(text):
    begun = time.process_time()
    readings(text, ["Paris."])
    readings('{"result": {"winner": "A"}} [[A]]', [text, "Paris."])
    # Twelve readings; where time grows with the square of the length, one takes longer.
    assert time.process_time() - begun < 2.5
