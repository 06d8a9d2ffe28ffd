"""Templates of prompts, also of lists and of parts, and their bounds."""

import ast
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import evalkit
from evalkit.config import (
    Criterion,
    DatasetConfig,
    JudgeConfig,
    ModeConfig,
    RunConfig,
    SwapConfig,
    TieConfig,
)
from evalkit.core.errors import DatasetError, PromptError
from evalkit.core.resources import shipped
from evalkit.core.types import Case, Completion, JudgeRequest, Response
from evalkit.datasets import load_cases
from evalkit.evaluators.factory import make_evaluator
from evalkit.evaluators.prompting import Prompts

GOLDEN = Path(__file__).parent / "golden"
PAIR = {
    "original_prompt": "Name the capital of France.",
    "context": "",
    "reference": "",
    "response_a": "Paris.",
    "response_b": "  Lyon, of course!\n",
    "criteria": [
        {"name": "accuracy", "description": "What it states is true."},
        {"name": "tone", "description": ""},
    ],
    "tie_allowed": True,
    "output": "json",
}
POINT = {
    "original_prompt": "Name the capital of France.",
    "context": "France is in Europe.",
    "reference": "Paris",
    "response": "Paris.",
    "criteria": [
        {
            "name": "accuracy",
            "description": "What it states is true.",
            "weight": "70%",
            "levels": [],
        },
        {
            "name": "tone",
            "description": "",
            "weight": "30%",
            "levels": [{"score": "1", "text": "rude"}],
        },
    ],
    "scale": {"min": "1", "max": "5", "step": "1", "whole": True, "name": "1-5"},
    "levels": [{"score": "1", "text": "useless"}, {"score": "5", "text": "perfect"}],
    "examples": [
        {
            "task": "Name the capital of Italy.",
            "response": "Milan.",
            "justification": "It is not the capital.",
            "scores": [
                {"criterion": "accuracy", "score": "1"},
                {"criterion": "tone", "score": "5"},
            ],
        },
        {
            "task": "",
            "response": "Lyon.",
            "justification": "Wrong.",
            "scores": [{"criterion": "", "score": "1"}],
        },
    ],
    "output": "json",
}
DECIMAL = {"min": "1.0", "max": "10.0", "step": "0.1", "whole": False, "name": "1.0-10.0 by 0.1"}


def shown(prompts: Prompts, name: str, **variables: Any) -> str:
    given = {"pattern": "", "spellings": {}} if variables["output"] == "regex" else {}
    instruction = prompts.instruction(f"{name}_{variables['output']}", **variables, **given)
    messages = prompts.render(name, **variables, output_instruction=instruction)
    return "".join(f"=== {one['role']}\n{one['content']}\n" for one in messages)


@pytest.mark.parametrize(("golden", "language", "name", "variables"), [
    ("pairwise_en", "en", "pairwise", PAIR),
    ("pairwise_zh", "zh", "pairwise", PAIR | {"context": "背景", "reference": "巴黎"}),
    ("pairwise_en_bracket_no_ties", "en", "pairwise",
     PAIR | {"tie_allowed": False, "output": "bracket"}),
    ("pointwise_en", "en", "pointwise", POINT),
    ("pointwise_zh", "zh", "pointwise", POINT),
    (
        "pointwise_en_rating",
        "en",
        "pointwise",
        POINT
        | {
            "scale": DECIMAL,
            "levels": [],
            "examples": [],
            "output": "rating",
            "context": "",
            "reference": "",
        },
    ),
])  # fmt: skip
def test_shipped_prompts_read_as_agreed(golden, language, name, variables):
    assert shown(Prompts(language), name, **variables) == (GOLDEN / f"{golden}.txt").read_text(
        "utf-8"
    )


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("output", ["json", "bracket", "regex"])
def test_tie_is_not_mentioned_where_it_is_not_allowed(language, output):
    allowed, forbidden = (
        shown(Prompts(language), "pairwise", **PAIR | {"tie_allowed": tie, "output": output})
        for tie in (True, False)
    )
    assert "TIE" in allowed
    assert not any(word in forbidden for word in ("TIE", "Tie", "[[C]]", "for a tie"))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(("name", "variables"), [("pairwise", PAIR), ("pointwise", POINT)])
def test_the_system_message_does_not_depend_on_the_case(language, name, variables):
    other = variables | {
        "original_prompt": "Another",
        "context": "",
        "reference": "R",
        "response": "x",
        "response_a": "y",
    }
    other = {key: other[key] for key in variables}
    first, second = (
        Prompts(language).render(name, **each, output_instruction="")[0]
        for each in (variables, other)
    )
    assert first == second
    assert first["role"] == "system"


def test_texts_stand_in_the_prompt_byte_for_byte():
    text = "  {{ 7*7 }} {% raw %}\r\n\ttrailing  \n\n"
    assert f"<response_a>\n{text}\n</response_a>" in shown(
        Prompts("en"), "pairwise", **PAIR | {"response_a": text}
    )


def write(folder: Path, text: str, name: str = "en/mine.md.j2") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_the_users_folder_comes_first_and_the_hash_is_of_what_was_used(tmp_path):
    path = write(tmp_path, "mine: {{ response_a }}\n", "en/pairwise.md.j2")
    prompts = Prompts("en", [tmp_path / "absent", tmp_path])
    assert prompts.render("pairwise", response_a="x") == ({"role": "user", "content": "mine: x"},)
    assert prompts.hashes() == {"en/pairwise.md.j2": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert prompts.texts() == {"en/pairwise.md.j2": "mine: {{ response_a }}\n"}


def test_a_template_may_be_a_path_of_its_own(tmp_path):
    path = write(tmp_path, "{% block user %}{{ a }}{% endblock %}", "x/judge.md.j2")
    prompts = Prompts("en", [tmp_path])
    for given in (str(path), "x/judge.md.j2"):
        assert prompts.render(given, a="1")[-1]["content"] == "1"
    assert list(prompts.hashes()) == ["judge.md.j2"]


def test_a_template_may_extend_the_shipped_one_of_the_same_name(tmp_path):
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


@pytest.mark.parametrize(("template", "said"), [
    ("one\n{{ responce_a }}", ":2: unknown placeholder 'responce_a'; did you mean 'response_a'?"),
    ("{% if 0 %}\n\n{{ zzz }}{% endif %}", ":3: unknown placeholder 'zzz'; use one of"),
    ("\n{% if response_a %}", ":2: not a Jinja template: "),
    ("{{ response_a | shout }}", ":1: not a Jinja template: No filter named 'shout'"),
    ("a\n\n{{ criteria[0].nmae }}", ":3: cannot be filled: 'dict object' has no attribute 'nmae'"),
    ("{{ response_a.__class__.__mro__ }}", ":1: cannot be filled: "),
    ("{{ 1 // 0 }}", ":1: cannot be filled: "),
    ("{% include 'en/none.md.j2' %}", "template 'en/none.md.j2' not found"),
    ("{% include '../../secret' %}", "template '../../secret' not found"),
])  # fmt: skip
def test_a_fault_in_a_template_is_one_line_with_its_place(tmp_path, template, said):
    path = write(tmp_path, template)
    with pytest.raises(PromptError) as caught:
        Prompts("en", [tmp_path]).render("mine", response_a="x", criteria=[{"name": "n"}])
    message = str(caught.value)
    assert said in message
    assert "\n" not in message
    assert str(path) in message or "not found" in message


def test_jinjas_own_names_are_known(tmp_path):
    write(
        tmp_path, "{% for i in range(2) %}{{ loop.index }}{{ a }}{% set b = i %}{{ b }}{% endfor %}"
    )
    assert Prompts("en", [tmp_path]).render("mine", a="-")[0]["content"] == "1-02-1"


def test_a_file_that_is_not_text_is_said(tmp_path):
    write(tmp_path, "").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PromptError, match="the byte at offset 0 is not UTF-8"):
        Prompts("en", [tmp_path]).render("mine")


@pytest.mark.parametrize(("language", "name", "said"), [
    ("en", "pairwis", "prompt.template: no template 'pairwis'; did you mean 'pairwise'\\? if"),
    ("fr", "pairwise", "prompt.language: no prompts in 'fr' for 'pairwise'; choose from en"),
    ("en", "gone/x.md.j2", "prompt.template: file 'gone/x.md.j2' not found"),
])  # fmt: skip
def test_what_is_not_there_is_said(language, name, said):
    with pytest.raises(PromptError, match=said):
        Prompts(language).render(name)


def reasons() -> list[str]:
    """Each reason with which JSON answers of the three modes are refused."""
    pair: dict[str, Any] = {
        "comparison": [{"criterion": "tone", "reasoning": "r", "winner": "A"}],
        "result": RESULT,
    }
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
    scores = [
        {"scores": [point["scores"][0] | {"score": score}]}
        for score in ("good", 9, 3.5, None, True, "3/4")
    ]
    on_tone = {"criterion": "tone", "reasoning": "r", "ranking": ["A", "B"]}
    rankings: list[Any] = [
        "A",
        [],
        ["A"],
        ["A", "A"],
        ["A", "Z"],
        [{"response": "A", "rank": 0}],
        [["A", "B"]],
    ]
    results = [{"reasoning": "r", "ranking": ranking, "confidence": 0.5} for ranking in rankings]
    return [
        *(refused(text, "pairwise") for text in texts),
        *(refused(json.dumps(answer), "pointwise") for answer in scores),
        *(
            refused(json.dumps({"comparison": [on_tone], "result": result}), "listwise")
            for result in results
        ),
    ]


RESULT = {"reasoning": "r", "winner": "A", "confidence": 0.5}
PAIR_FAULTS: list[dict[str, Any]] = [
    *({"winner": one} for one in ("both", "TIE", 7)),
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


def test_every_reason_to_ask_again_is_translated():
    prompts = Prompts("zh")
    for reason in reasons():
        asked = prompts.retry(reason)
        said = asked.partition("：")[2].partition("。\n")[0]
        assert "不符合所要求的格式" not in asked, reason
        assert re.search("[一-鿿]", said), reason
        quoted = re.sub(
            r"“.*?”|'.*?'|[\w.]+：|\b(?:JSON|A|B|TIE|tone|size|true|false|None|True)\b", "", said
        )
        assert not re.search("[a-z]{3}", quoted), (reason, asked)


@pytest.mark.parametrize(
    "module",
    ["evaluators.parsing.json", "evaluators.parsing.plain_text", "evaluators.json_answers"],
)
def test_the_catalog_keeps_up_with_the_reasons_in_the_code(module):
    source = (Path(evalkit.__file__).parent / f"{module.replace('.', '/')}.py").read_text("utf-8")
    calls = [
        one
        for one in ast.walk(ast.parse(source))
        if isinstance(one, ast.Call) and len(one.args) == 2
    ]
    texts = [one.args[1] for one in calls if getattr(one.func, "id", "") == "UnreadableError"]
    reasons = [
        re.sub(r"\{.*?\}", "3", ast.unparse(text))
        for text in texts
        if isinstance(text, ast.JoinedStr)
    ]
    reasons = [str(ast.literal_eval(one.removeprefix("f"))) for one in reasons]
    reasons += [str(text.value) for text in texts if isinstance(text, ast.Constant)]
    reasons = [
        one for one in reasons if one != "3: 3"
    ]  # a name and a reason that is made elsewhere
    assert reasons
    unknown = [one for one in reasons if "不符合所要求的格式" in Prompts("zh").retry(one)]
    assert not unknown


def test_an_unknown_reason_is_a_general_one_and_never_a_mixture():
    asked = Prompts("zh").retry("something new; the answer is empty")
    assert "不符合所要求的格式" in asked
    assert "something" not in asked


def test_a_users_retry_text_in_another_language_gets_the_english_reason(tmp_path):
    write(tmp_path, "Encore: {{ error }}", "fr/retry.md.j2")
    assert Prompts("fr", [tmp_path]).retry("the answer is empty") == "Encore: the answer is empty"


def test_a_broken_catalog_of_reasons_is_one_line(tmp_path):
    path = write(tmp_path, "reasons: {'(': x}\notherwise: y", "zh/reasons.yaml")
    with pytest.raises(PromptError, match="not a catalog of reasons") as caught:
        Prompts("zh", [tmp_path]).retry("x")
    assert str(path) in str(caught.value)


def test_a_language_without_a_retry_text_borrows_the_english_one(tmp_path):
    prompts = Prompts("fr", [tmp_path])
    assert "confidence is 7" in prompts.retry("confidence is 7")
    assert list(prompts.hashes()) == ["en/retry.md.j2"]


LIST = {
    "original_prompt": "Name the capital of France.",
    "context": "",
    "reference": "",
    "responses": [
        {"label": label, "text": text}
        for label, text in zip("ABC", ("Paris.", " Lyon\n", "Nice"), strict=True)
    ],
    "criteria": [
        {"name": "accuracy", "description": "What it states is true."},
        {"name": "tone", "description": ""},
    ],
    "tie_allowed": True,
    "output": "json",
}


def shown_list(language: str, **variables: Any) -> str:
    prompts, given = Prompts(language), LIST | variables
    instruction = prompts.instruction("listwise_json", **given)
    messages = prompts.render("listwise", **given, output_instruction=instruction)
    return "".join(f"=== {one['role']}\n{one['content']}\n" for one in messages)


@pytest.mark.parametrize(("golden", "language", "variables"), [
    ("listwise_en", "en", {}),
    ("listwise_en_no_ties", "en", {"tie_allowed": False, "context": "France is in Europe."}),
    ("listwise_zh", "zh", {"context": "背景", "reference": "巴黎"}),
])  # fmt: skip
def test_shipped_prompts_for_lists_read_as_agreed(golden, language, variables):
    assert shown_list(language, **variables) == (GOLDEN / f"{golden}.txt").read_text("utf-8")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_shared_ranks_are_not_offered_where_there_are_no_ties(language):
    words = ("same rank", "名次相同")
    assert any(word in shown_list(language) for word in words)
    assert not any(word in shown_list(language, tie_allowed=False) for word in words)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_system_message_does_not_depend_on_the_list(language):
    first, second = (
        Prompts(language).render("listwise", **LIST | more, output_instruction="")[0]
        for more in (
            {},
            {"responses": LIST["responses"][:2], "context": "C", "original_prompt": "Other"},
        )
    )
    assert first == second
    assert first["role"] == "system"


NAMES = ("task", "note", "reply")
IN_PIECES = {
    "one message": "{{ task }}: {{ reply }} {{ fixed }}",
    "blocks": (
        "{% block system %}\nJudge {{ fixed }}.\n{% endblock %}\n"
        "{% block user %}\n{{ task }} {{ reply }}{{ reply }}\n{% endblock %}"
    ),
    "tested": "{% if note %}{{ note }}{% elif reply %}{{ reply }}{% elif fixed %}{{ fixed }}{% else %}none{% endif %}",
    "in a loop": "{% for x in fixed %}{{ loop.index }} {{ x }} {{ task }}{% endfor %}",
    "marked": "<task>\n{{ task }}\n</task>\n{% if note %}\n<context>\n{{ note }}\n</context>\n{% endif %}\n{{ reply }}",
    "all of a message": "{% block system %}{{ note }}{% endblock %}{% block user %}x{% endblock %}",
}
AS_A_WHOLE = {
    "changed": "{{ task | upper }} {{ reply }}",
    "measured": "{% if task | length > 3 %}long{% endif %}",
    "compared": "{% if task == reply %}same{% endif %}{{ note }}",
    "negated": "{% if not note %}{{ task }}{% endif %}",
    "chosen": "{{ task if note else reply }}",
    "set": "{% set x = task %}{{ x | title }}",
    "captured": "{% set x %}{{ task }}{% endset %}{{ x | upper }}",
    "a filter around it": "{% filter upper %}{{ task }}{% endfilter %}",
    "a block once more": "{% block user %}{{ task }}{% endblock %}{{ self.user() | upper }}",
    "a macro": "{% macro say(x) %}{{ x | upper }}{% endmacro %}{{ say(task) }}",
    "joined": "{{ task ~ reply }}",
    "hidden": "{% for task in fixed %}{{ task }}{% endfor %}",
    "extended": "{% extends 'en/base.md.j2' %}{% block user %}{{ super() | upper }}{{ reply }}{% endblock %}",
    "extended in a filter": "{% extends 'en/loud.md.j2' %}{% block user %}{{ task }}{% endblock %}",
    "included": "{{ task }}{% include 'en/base.md.j2' %}",
}
TEXTS = (
    "", " ", "a", "A b", "\n", "x" * 9, "\x00evalkit:0\x00", "{{ task }}", "<b>&", "评", "\ud800",
)  # fmt: skip


@pytest.mark.parametrize("name", [*IN_PIECES, *AS_A_WHOLE])
def test_it_is_filled_as_the_template_is(name, tmp_path):
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "ask.md.j2").write_text((IN_PIECES | AS_A_WHOLE)[name])
    (tmp_path / "en" / "base.md.j2").write_text(
        "{% block user %}{{ task }} base {{ note }}{% endblock %}"
    )
    (tmp_path / "en" / "loud.md.j2").write_text(
        "{% filter upper %}{% block user %}{% endblock %}{% endfilter %}"
    )
    prompts = Prompts("en", [tmp_path])
    partial = prompts.partial("ask", NAMES, fixed="xyz")
    assert partial._in_pieces == (name in IN_PIECES)
    for number in range(len(TEXTS) ** 2):
        texts = dict(
            zip(
                NAMES,
                (TEXTS[number // step % len(TEXTS)] for step in (1, len(TEXTS), 3)),
                strict=True,
            )
        )
        assert partial.fill(**texts) == prompts.render("ask", fixed="xyz", **texts)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    ("name", "shown"), [("pairwise", ("response_a", "response_b")), ("pointwise", ("response",))]
)
def test_shipped_templates_are_filled_in_pieces(name, shown, language):
    prompts = Prompts(language, [shipped("prompts")])
    names = (
        *("criteria", "tie_allowed", "output", "output_instruction", "scale", "levels", "examples"),
    )
    fixed: dict[str, Any] = {name: {} for name in names}
    assert prompts.partial(
        name, ("original_prompt", "context", "reference", *shown), **fixed
    )._in_pieces


DEEP = "(" * 3000 + "1" + ")" * 3000
NESTED = "{% for a in range(9) %}" * 30 + "x" + "{% endfor %}" * 30
DOUBLED = "{%% set ns = namespace(t='x') %%}{%% for a in range(99) %%}{%% set ns.t = %s %%}{%% endfor %%}{{ ns.t }}"
LOOPS = {
    "loops in loops": "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    "loops in a macro": "{% macro m() %}{% for a in range(9999) %}x{% endfor %}{% endmacro %}"
    "{% for a in range(9999) %}{{ m() }}{% endfor %}",
    "a loop that calls itself": "{% for a in [1] recursive %}{{ loop(range(9999)) if loop.depth < 9 }}{% endfor %}",
    "a loop that calls itself twice": "{% for a in [1] recursive %}{{ loop([1, 1]) if loop.depth < 40 }}{% endfor %}",
    "macros that call each other": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
    "{{ m(40) }}",
    "a product of lists": "{% for a in [1] * 9999 %}{% for b in [1] * 9999 %}{% endfor %}{% endfor %}",
    "a loop over a filter": "{% for a in range(9999)|map('string') %}{% for b in range(999) %}{% endfor %}{% endfor %}",
    "a loop over a text": "{% for a in 'x' * 9999999 %}{% endfor %}",
    "a macro that never ends": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
}
OUTPUTS = {
    "a long text": "{{ 'x' * 999999999 }}",
    "a long text, turned round": "{{ 999999999 * 'x' }}",
    "a long list": "{{ [1] * 999999999 }}",
    "texts in a loop": "{% for a in range(999) %}{{ 'x' * 99999 }}{% endfor %}",
    "literals in a loop": "{% for a in range(99999) %}" + "x" * 999 + "{% endfor %}",
    "texts in a set block": "{% set t %}{% for a in range(99999) %}"
    + "x" * 999
    + "{% endfor %}{% endset %}{{ t|length }}",
    "texts in a macro": "{% macro m() %}{% for a in range(99999) %}"
    + "x" * 999
    + "{% endfor %}{% endmacro %}"
    "{{ m()|length }}",
    "doubling": DOUBLED % "ns.t ~ ns.t",
    "doubling by adding": DOUBLED % "ns.t + ns.t",
    "doubling a list": DOUBLED.replace("'x'", "[1]") % "ns.t + ns.t",
    "doubling by a filter": DOUBLED % "[ns.t, ns.t]|join",
    "a power": "{{ 9999999 ** 99999999 }}",
    "squaring": DOUBLED.replace("'x'", "9") % "ns.t * ns.t",
    "center": "{{ 'x'|center(999999999) }}",
    "ljust": "{{ 'x'.ljust(999999999) }}",
    "zfill": "{{ 'x'.zfill(999999999) }}",
    "expandtabs": "{{ ('\\t' * 9999).expandtabs(99999) }}",
    "indent": "{{ ('x\\n' * 9999)|indent(99999) }}",
    "tojson": "{{ [1, 2]|tojson(indent=999999999) }}",
    "batch": "{{ [1]|batch(999999999, 0)|list }}",
    "slice": "{{ [1]|slice(999999999)|list }}",
    "replace": "{{ ('x' * 99999)|replace('x', 'y' * 99999) }}",
    "the method replace": "{{ ('x' * 99999).replace('x', 'y' * 99999) }}",
    "translate": "{{ ('x' * 99999).translate({120: 'y' * 99999}) }}",
    "join": "{{ range(99999)|join('x' * 99999) }}",
    "the method join": "{{ ('x' * 99999).join(['x'] * 99999) }}",
    "joining a long text": "{{ (['x' * 99999] * 99999)|join }}",
    "wordwrap": "{{ ('x' * 99999)|wordwrap(1, wrapstring='y' * 99999) }}",
    "a format": "{{ '%999999999d' % 1 }}",
    "a format with a width": "{{ '%*d' % (999999999, 1) }}",
    "the filter format": "{{ '%999999999d'|format(1) }}",
    "the method format": "{{ '{:999999999}'.format(1) }}",
    "the method format with a width": "{{ '{:{}}'.format(1, 999999999) }}",
    "a format of long texts": "{{ ('%s' * 99999) % (('x' * 99999,) * 99999) }}",
    "bytes": "{{ (5).to_bytes(999999999, 'big') }}",
    "sum": "{{ ([[1] * 99999] * 99999)|sum(start=[])|length }}",
}


@pytest.mark.parametrize("attack", LOOPS | OUTPUTS)
def test_a_template_without_end_is_one_line(tmp_path, attack):
    path = tmp_path / "evil.md.j2"
    path.write_text("Fine.\n" + (LOOPS | OUTPUTS)[attack])
    with pytest.raises(PromptError) as error:
        Prompts("en").render(str(path))
    assert str(error.value).startswith(f"{path}:2: cannot be filled: it")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text", [f"{{{{ {DEEP} }}}}", NESTED, "{% include 'shipped/en/x.md.j2' %}"]
)
def test_what_python_cannot_compile_is_one_line(tmp_path, text):
    path = tmp_path / "evil.md.j2"
    path.write_text(text)
    with pytest.raises(PromptError) as error:
        Prompts("en").render(str(path))
    assert "\n" not in str(error.value)


def test_a_template_that_includes_itself_is_one_line(tmp_path):
    (tmp_path / "en").mkdir()
    (tmp_path / "en/evil.md.j2").write_text("{% include 'en/evil.md.j2' %}" * 3)
    with pytest.raises(PromptError, match="cannot be filled: it is nested too deeply or calls"):
        Prompts("en", [tmp_path]).render("evil")


USEFUL = {
    "{% for a in range(3) %}{{ loop.index }}/{{ loop.length }}{{ ', ' if not loop.last }}{% endfor %}": "1/3, 2/3, 3/3",
    "{% for a in [1, [2, [3]]] recursive %}{{ loop(a) if a is sequence else a }}{% endfor %}": "123",
    "{% for k, v in {'a': 1}.items() %}{{ k ~ v }}{% else %}none{% endfor %}": "a1",
    "{% for a in [3, 1, 2] if a > 1 %}{{ a }}{% endfor %}": "32",
    "{{ [1, 2, 3]|map('string')|join('-') }}": "1-2-3",
    "{{ [{'a': 1}, {'a': 2}]|join(', ', attribute='a') }}": "1, 2",
    "{{ 'x' * 3 ~ 'y' + 'z' }}": "xxxyz",
    "{{ 2 ** 10 * 3 % 7 }}": "6",
    "{{ '%05.1f|%s' % (3.14159, 'a') }}": "003.1|a",
    "{{ '{:>5}|{}'.format('a', '**') }}": "    a|**",
    "{{ ('word ' * 9)|truncate(20000) }}": "word " * 9,
    "{{ missing|default(123456789) if false else 'x'|replace('x', 'yes') }}": "yes",
    "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ caller() if caller }}{% endmacro %}{% call m(1) %}!{% endcall %}": "12!",
    "{{ [1, 2, 3, 4]|batch(2)|map('join')|join('|') }} {{ [[1], [2]]|sum(start=[]) }}": "12|34 [1, 2]",
    "{{ 'a\nb'|indent(2) }}": "a\n  b",
}


@pytest.mark.parametrize("text", USEFUL)
def test_a_useful_template_is_filled_as_jinja_does(tmp_path, text):
    path = tmp_path / "useful.md.j2"
    path.write_text(text)
    [message] = Prompts("en").render(str(path), missing="x")
    assert message["content"] == USEFUL[text]


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize("attack", ["texts in a loop"])
def test_neither_a_plan_nor_a_run_waits_for_it(call, tmp_path, command, attack):
    evil = "{{ original_prompt }} {{ response_a }} {{ response_b }}\n" + (LOOPS | OUTPUTS)[attack]
    (tmp_path / "evil.md.j2").write_text(evil)
    words = [
        *("prompt.template=evil.md.j2", "judge=simulated/good", "output=bracket", "tracking=none"),
    ]
    line = call(command, *words, "hydra.run.dir=out", status=1).line()
    assert line.startswith(f"{tmp_path}/evil.md.j2:2: cannot be filled: it")


@pytest.mark.parametrize(
    "attack", ["loops in loops", "doubling", "center", "a power", "a macro that never ends"]
)
def test_a_field_of_a_config_is_bounded_too(tmp_path, attack):
    path = tmp_path / "cases.csv"
    path.write_text("prompt,response_a,response_b\np,a,b\n")
    config = DatasetConfig(
        path=str(path), fields={"prompt": "{{ prompt }}" + (LOOPS | OUTPUTS)[attack]}
    )
    with pytest.raises(DatasetError, match=r"cases.csv:2: dataset.fields.prompt: "):
        list(load_cases(config, mode="pairwise").cases)
