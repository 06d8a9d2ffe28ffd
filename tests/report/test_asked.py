"""The prompt beside an answer is the one that was sent, or there is none."""

import json
from dataclasses import replace

import pytest

from evalkit.config import Criterion, JudgeConfig, ModeConfig, RunConfig, SwapConfig
from evalkit.core.types import Case, Completion, JudgeSpec, Judgment, Response
from evalkit.engine.requests import call_key
from evalkit.evaluators.factory import make_evaluator
from evalkit.report.case_list import PageBudget, render_prompts

SPEC, ARBITER = JudgeSpec("m", "openai/m"), JudgeSpec("arbiter", "openai/a")
LONG = "An answer of more than twenty characters, with <b>marks</b> and 汉字."
CASE = Case(
    "c",
    "A question of more than twenty characters?",
    (Response(LONG), Response("short")),
    context=LONG * 2,
)


def config(**changes) -> RunConfig:
    return RunConfig(judge=JudgeConfig(model="openai/m"), criteria={"x": Criterion()}, **changes)


def judged(evaluator, case: Case = CASE) -> list[Judgment]:
    return [
        Judgment(
            case.id, r.unit, r.shown, r.sample, "m", "ok", value=1.0, keys=(call_key(SPEC, r),)
        )
        for r in evaluator.plan(case)
    ]


def embedded(asked, case: Case, judgments: list[Judgment]):
    embedding = PageBudget(asked)
    embedding.add(case, (), judgments)
    data = embedding.data()
    return data, json.loads(data.json)


def assembled(pieces: list, row: dict, parts: list[str]) -> str:
    """What the page's script makes of a message's pieces."""
    found = []
    for piece in pieces:
        if isinstance(piece, str | int):
            found.append(piece if isinstance(piece, str) else parts[piece])
        else:
            found.append(
                row["responses"][piece[1]]["text"] if piece[0] == "responses" else row[piece[0]]
            )
    return "".join(found)


@pytest.mark.parametrize("changes", [
    {},
    {"mode": ModeConfig(name="pointwise"), "swap": SwapConfig(policy="none")},
    {"mode": ModeConfig(samples=2)},
])  # fmt: skip
def test_what_is_shown_is_what_was_planned_to_the_letter(changes):
    evaluator = make_evaluator(config(**changes))
    judgments = judged(evaluator)
    data, page = embedded(render_prompts(evaluator, [SPEC]), CASE, judgments)
    (row,) = page["cases"]
    assert data.unlike == 0
    for request, shown in zip(evaluator.plan(CASE), row["judgments"], strict=True):
        said = [
            {"role": role, "content": assembled(pieces, row, page["parts"])}
            for role, *pieces in shown["asked"]
        ]
        assert said == list(request.messages)
        assert shown["key"] == call_key(SPEC, request)
    assert data.json.count(LONG[:20]) <= 4, "the case's own texts are not repeated in each prompt"


def test_a_prompt_that_was_not_sent_is_not_shown():
    evaluator = make_evaluator(config())
    changed = replace(CASE, prompt="Another question, asked since then?")
    data, page = embedded(render_prompts(evaluator, [SPEC]), changed, judged(evaluator))
    assert data.unlike == 2
    assert not any("asked" in one for one in page["cases"][0]["judgments"])
    other = render_prompts(evaluator, [replace(SPEC, model="openai/other")])
    assert other(CASE, judged(evaluator)) == {}


def test_judgments_made_elsewhere_have_no_prompt_and_none_is_missed():
    evaluator = make_evaluator(config())
    data, page = embedded(
        render_prompts(evaluator, [SPEC]),
        CASE,
        [replace(one, keys=()) for one in judged(evaluator)],
    )
    assert (data.unlike, "asked" in page["cases"][0]["judgments"][0]) == (0, False)


def test_of_several_asks_the_first_is_shown_and_counted():
    evaluator = make_evaluator(config())
    once, again = judged(evaluator)
    asked_again = replace(once, keys=(*once.keys, "0" * 64), completion=Completion("{}"))
    data, page = embedded(render_prompts(evaluator, [SPEC]), CASE, [asked_again, again])
    assert [one["asks"] for one in page["cases"][0]["judgments"]] == [2, 1]
    assert data.unlike == 0


@pytest.mark.parametrize("arbiter", [None, ARBITER])
def test_third_judgments_too(arbiter):
    swap = SwapConfig(
        resolve="third_pass", arbiter=JudgeConfig(model="openai/a") if arbiter else None
    )
    evaluator = make_evaluator(config(swap=swap))
    first, second = judged(evaluator)
    passes = [first, replace(second, value=-1.0)]
    (ask,) = evaluator.follow(CASE, passes)
    key = call_key(arbiter or SPEC, ask)
    third = replace(
        first, sample=ask.sample, shown=ask.shown, arbiter=(arbiter or SPEC).name, keys=(key,)
    )
    found = render_prompts(evaluator, [SPEC], arbiter)(CASE, [*passes, third])
    assert found[key] == ask.messages
    assert len(found) == 3
