"""Templates: what is shipped says what it must; what users write is found, checked and explained."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import evalkit
from evalkit.config import Criterion, JudgeConfig, ModeConfig, RunConfig, SwapConfig, TieConfig
from evalkit.errors import PromptError
from evalkit.evaluators import make_evaluator
from evalkit.prompting import Prompts
from evalkit.types import Case, Completion, JudgeRequest, Response

GOLDEN = Path(__file__).parent / "golden"
PAIR = {
    "original_prompt": "Name the capital of France.",
    "context": "",
    "reference": "",
    "response_a": "Paris.",
    "response_b": "  Lyon, of course!\n",
    "criteria": [{"name": "accuracy", "description": "What it states is true."}, {"name": "tone", "description": ""}],
    "tie_allowed": True,
    "output": "json",
}
POINT = {
    "original_prompt": "Name the capital of France.",
    "context": "France is in Europe.",
    "reference": "Paris",
    "response": "Paris.",
    "criteria": [
        {"name": "accuracy", "description": "What it states is true.", "weight": "70%", "levels": []},
        {"name": "tone", "description": "", "weight": "30%", "levels": [{"score": "1", "text": "rude"}]},
    ],
    "scale": {"min": "1", "max": "5", "step": "1", "whole": True, "name": "1-5"},
    "levels": [{"score": "1", "text": "useless"}, {"score": "5", "text": "perfect"}],
    "examples": [
        {
            "task": "Name the capital of Italy.",
            "response": "Milan.",
            "justification": "It is not the capital.",
            "scores": [{"criterion": "accuracy", "score": "1"}, {"criterion": "tone", "score": "5"}],
        },
        {"task": "", "response": "Lyon.", "justification": "Wrong.", "scores": [{"criterion": "", "score": "1"}]},
    ],
    "output": "json",
}
DECIMAL = {"min": "1.0", "max": "10.0", "step": "0.1", "whole": False, "name": "1.0-10.0 by 0.1"}


def shown(prompts: Prompts, name: str, **variables: Any) -> str:
    given = {"pattern": "", "spellings": {}} if variables["output"] == "regex" else {}
    instruction = prompts.instruction(f"{name}_{variables['output']}", **variables, **given)
    messages = prompts.render(name, **variables, output_instruction=instruction)
    return "".join(f"=== {one['role']}\n{one['content']}\n" for one in messages)


@pytest.mark.parametrize(
    ("golden", "language", "name", "variables"),
    [
        ("pairwise_en", "en", "pairwise", PAIR),
        ("pairwise_zh", "zh", "pairwise", PAIR | {"context": "背景", "reference": "巴黎"}),
        ("pairwise_en_bracket_no_ties", "en", "pairwise", PAIR | {"tie_allowed": False, "output": "bracket"}),
        ("pointwise_en", "en", "pointwise", POINT),
        ("pointwise_zh", "zh", "pointwise", POINT),
        (
            "pointwise_en_rating",
            "en",
            "pointwise",
            POINT
            | {"scale": DECIMAL, "levels": [], "examples": [], "output": "rating", "context": "", "reference": ""},
        ),
    ],
)
def test_shipped_prompts_read_as_agreed(golden: str, language: str, name: str, variables: dict[str, Any]) -> None:
    assert shown(Prompts(language), name, **variables) == (GOLDEN / f"{golden}.txt").read_text("utf-8")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("output", ["json", "bracket", "regex"])
def test_tie_is_not_mentioned_where_it_is_not_allowed(language: str, output: str) -> None:
    allowed, forbidden = (
        shown(Prompts(language), "pairwise", **PAIR | {"tie_allowed": tie, "output": output}) for tie in (True, False)
    )
    assert "TIE" in allowed
    assert not any(word in forbidden for word in ("TIE", "Tie", "[[C]]", "for a tie"))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(("name", "variables"), [("pairwise", PAIR), ("pointwise", POINT)])
def test_the_system_message_does_not_depend_on_the_case(language: str, name: str, variables: dict[str, Any]) -> None:
    other = variables | {
        "original_prompt": "Another",
        "context": "",
        "reference": "R",
        "response": "x",
        "response_a": "y",
    }
    other = {key: other[key] for key in variables}
    first, second = (Prompts(language).render(name, **each, output_instruction="")[0] for each in (variables, other))
    assert first == second
    assert first["role"] == "system"


def test_texts_stand_in_the_prompt_byte_for_byte() -> None:
    text = "  {{ 7*7 }} {% raw %}\r\n\ttrailing  \n\n"
    assert f"<response_a>\n{text}\n</response_a>" in shown(Prompts("en"), "pairwise", **PAIR | {"response_a": text})


def write(folder: Path, text: str, name: str = "en/mine.md.j2") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_the_users_folder_comes_first_and_the_hash_is_of_what_was_used(tmp_path: Path) -> None:
    path = write(tmp_path, "mine: {{ response_a }}\n", "en/pairwise.md.j2")
    prompts = Prompts("en", [tmp_path / "absent", tmp_path])
    assert prompts.render("pairwise", response_a="x") == ({"role": "user", "content": "mine: x"},)
    assert prompts.hashes() == {"en/pairwise.md.j2": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert prompts.texts() == {"en/pairwise.md.j2": "mine: {{ response_a }}\n"}


def test_a_template_may_be_a_path_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, "{% block user %}{{ a }}{% endblock %}", "x/judge.md.j2")
    prompts = Prompts("en", [tmp_path])
    for given in (str(path), "x/judge.md.j2"):
        assert prompts.render(given, a="1")[-1]["content"] == "1"
    assert list(prompts.hashes()) == ["judge.md.j2"]


def test_a_template_may_extend_the_shipped_one_of_the_same_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        '{% extends "shipped/en/pairwise.md.j2" %}{% block system %}Be brief.{% endblock %}',
        "en/pairwise.md.j2",
    )
    prompts = Prompts("en", [tmp_path])
    system, user = prompts.render("pairwise", **PAIR, output_instruction="")
    assert system["content"] == "Be brief."
    assert "<response_b>" in user["content"]
    assert set(prompts.hashes()) == {"en/pairwise.md.j2", "shipped/en/pairwise.md.j2"}


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("one\n{{ responce_a }}", ":2: unknown placeholder 'responce_a'; did you mean 'response_a'?"),
        ("{% if 0 %}\n\n{{ zzz }}{% endif %}", ":3: unknown placeholder 'zzz'; use one of criteria, response_a"),
        ("\n{% if response_a %}", ":2: not a Jinja template: "),
        ("{{ response_a | shout }}", ":1: not a Jinja template: No filter named 'shout'"),
        ("a\n\n{{ criteria[0].nmae }}", ":3: cannot be filled: 'dict object' has no attribute 'nmae'"),
        ("{{ response_a.__class__.__mro__ }}", ":1: cannot be filled: "),
        ("{{ 1 // 0 }}", ":1: cannot be filled: "),
        ("{% include 'en/none.md.j2' %}", "template 'en/none.md.j2' not found"),
        ("{% include '../../secret' %}", "template '../../secret' not found"),
    ],
)
def test_a_fault_in_a_template_is_one_line_with_its_place(tmp_path: Path, template: str, said: str) -> None:
    path = write(tmp_path, template)
    with pytest.raises(PromptError) as caught:
        Prompts("en", [tmp_path]).render("mine", response_a="x", criteria=[{"name": "n"}])
    message = str(caught.value)
    assert said in message
    assert "\n" not in message
    assert str(path) in message or "not found" in message


def test_jinjas_own_names_are_known(tmp_path: Path) -> None:
    write(tmp_path, "{% for i in range(2) %}{{ loop.index }}{{ a }}{% set b = i %}{{ b }}{% endfor %}")
    assert Prompts("en", [tmp_path]).render("mine", a="-")[0]["content"] == "1-02-1"


def test_a_file_that_is_not_text_is_said(tmp_path: Path) -> None:
    write(tmp_path, "").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PromptError, match="the byte at offset 0 is not UTF-8"):
        Prompts("en", [tmp_path]).render("mine")


@pytest.mark.parametrize(
    ("language", "name", "said"),
    [
        (
            "en",
            "pairwis",
            "prompt.template: no template 'pairwis'; did you mean 'pairwise'\\? if not, write prompts/en/pairwis",
        ),
        (
            "fr",
            "pairwise",
            "prompt.language: no prompts in 'fr' for 'pairwise'; choose from en, zh, or write prompts/fr/pairwise",
        ),
        ("en", "gone/x.md.j2", "prompt.template: file 'gone/x.md.j2' not found"),
    ],
)
def test_what_is_not_there_is_said(language: str, name: str, said: str) -> None:
    with pytest.raises(PromptError, match=said):
        Prompts(language).render(name)


def reasons() -> list[str]:
    """Each reason with which JSON answers of the three modes are refused."""
    pair: dict[str, Any] = {"comparison": [{"criterion": "tone", "reasoning": "r", "winner": "A"}], "result": RESULT}
    point: dict[str, Any] = {"scores": [{"criterion": "tone", "justification": "j", "score": 4}]}
    texts = [
        "",
        "<think>hm</think>",
        "I like A.",
        json.dumps(pair) + json.dumps(pair | {"result": RESULT | {"winner": "B"}}),
        json.dumps(pair) + "}",
        '{"result": 1, "result": 2, "comparison": []}',
        *(json.dumps(pair | {"result": RESULT | change}) for change in PAIR_FAULTS),
        json.dumps(pair | {"comparison": []}),
        json.dumps(pair | {"comparison": pair["comparison"] * 2}),
        json.dumps(pair | {"comparison": [pair["comparison"][0] | {"criterion": "size"}]}),
        json.dumps(pair | {"comparison": "none", "result": []}),
        json.dumps({"comparison": [{}, {}], "result": {}}),
    ]
    scores = [{"scores": [point["scores"][0] | {"score": score}]} for score in ("good", 9, 3.5, None, True, "3/4")]
    on_tone = {"criterion": "tone", "reasoning": "r", "ranking": ["A", "B"]}
    rankings: list[Any] = ["A", [], ["A"], ["A", "A"], ["A", "Z"], [{"response": "A", "rank": 0}], [["A", "B"]]]
    results = [{"reasoning": "r", "ranking": ranking, "confidence": 0.5} for ranking in rankings]
    return [
        *(refused(text, "pairwise") for text in texts),
        *(refused(json.dumps(answer), "pointwise") for answer in scores),
        *(refused(json.dumps({"comparison": [on_tone], "result": result}), "listwise") for result in results),
    ]


RESULT = {"reasoning": "r", "winner": "A", "confidence": 0.5}
PAIR_FAULTS: list[dict[str, Any]] = [
    *({"winner": one} for one in ("both", "TIE", 7)),
    *({"confidence": one} for one in (7, -1, True, "high", None, "inf")),
    {"reasoning": None},
    {"differentiators": 3},
]


def refused(text: str, mode: str) -> str:
    config = RunConfig(
        judge=JudgeConfig(model="a/b"),
        criteria={"tone": Criterion()},
        mode=ModeConfig(name=mode),
        swap=SwapConfig(policy="none"),
        tie=TieConfig(allow=False),
    )
    evaluator = make_evaluator(config)
    request = evaluator.plan(Case("c", "Q", (Response("one"), Response("two"))))[0]
    again = evaluator.read(request, Completion(text))
    assert isinstance(again, JudgeRequest), text
    return again.messages[-1]["content"].partition("be used: ")[2].partition(".\n\nAnswer again")[0]


def test_every_reason_to_ask_again_is_translated() -> None:
    prompts = Prompts("zh")
    for reason in reasons():
        asked = prompts.retry(reason)
        said = asked.partition("：")[2].partition("。\n")[0]
        assert "不符合所要求的格式" not in asked, reason
        assert re.search("[一-鿿]", said), reason
        quoted = re.sub(r"“.*?”|'.*?'|[\w.]+：|\b(?:JSON|A|B|TIE|tone|size|true|false|None|True)\b", "", said)
        assert not re.search("[a-z]{3}", quoted), (reason, asked)


@pytest.mark.parametrize("module", ["parsing.json", "parsing.plain_text", "evaluators.json_answers"])
def test_the_catalog_keeps_up_with_the_reasons_in_the_code(module: str) -> None:
    source = (Path(evalkit.__file__).parent / f"{module.replace('.', '/')}.py").read_text("utf-8")
    calls = [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Call) and len(one.args) == 2]
    texts = [one.args[1] for one in calls if getattr(one.func, "id", "") == "UnreadableError"]
    reasons = [re.sub(r"\{.*?\}", "3", ast.unparse(text)) for text in texts if isinstance(text, ast.JoinedStr)]
    reasons = [str(ast.literal_eval(one.removeprefix("f"))) for one in reasons]
    reasons += [str(text.value) for text in texts if isinstance(text, ast.Constant)]
    reasons = [one for one in reasons if one != "3: 3"]  # a name and a reason that is made elsewhere
    assert reasons
    unknown = [one for one in reasons if "不符合所要求的格式" in Prompts("zh").retry(one)]
    assert not unknown


def test_an_unknown_reason_is_a_general_one_and_never_a_mixture() -> None:
    asked = Prompts("zh").retry("something new; the answer is empty")
    assert "不符合所要求的格式" in asked
    assert "something" not in asked


def test_a_users_retry_text_in_another_language_gets_the_english_reason(tmp_path: Path) -> None:
    write(tmp_path, "Encore: {{ error }}", "fr/retry.md.j2")
    assert Prompts("fr", [tmp_path]).retry("the answer is empty") == "Encore: the answer is empty"


def test_a_broken_catalog_of_reasons_is_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, "reasons: {'(': x}\notherwise: y", "zh/reasons.yaml")
    with pytest.raises(PromptError, match="not a catalog of reasons") as caught:
        Prompts("zh", [tmp_path]).retry("x")
    assert str(path) in str(caught.value)


def test_a_language_without_a_retry_text_borrows_the_english_one(tmp_path: Path) -> None:
    prompts = Prompts("fr", [tmp_path])
    assert "confidence is 7" in prompts.retry("confidence is 7")
    assert list(prompts.hashes()) == ["en/retry.md.j2"]
