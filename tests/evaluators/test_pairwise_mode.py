"""Comparing two responses: what is asked, and what is made of the answer."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import (
    Criterion,
    JudgeConfig,
    ModeConfig,
    OutputConfig,
    PromptConfig,
    RunConfig,
    ScoringConfig,
    SwapConfig,
    TieConfig,
)
from evalkit.core.errors import ConfigError, DatasetError, PluginError, PromptError
from evalkit.core.types import Case, Completion, JudgeRequest, Judgment, Response, WeightedJudgment
from evalkit.evaluators.factory import make_evaluator
from evalkit.evaluators.pairwise import Pairwise
from evalkit.evaluators.prompting import Prompts

CASE = Case("c1", "Say hello.", (Response("Hello."), Response("Go away."), Response("Hi!")))
PAIR = Case("c2", "Say hello.", CASE.responses[:2], context="A greeting.", reference="Hello!")
NAMES = ("accuracy", "tone")


def config(**settings: Any) -> RunConfig:
    criteria = {"accuracy": Criterion(description="It is right.", weight=3), "tone": Criterion()}
    return RunConfig(**{"judge": JudgeConfig(model="a/b"), "criteria": criteria} | settings)


def pairwise(**settings: Any) -> Pairwise:
    return Pairwise(config(**settings), Prompts(settings.get("prompt", PromptConfig()).language))


def answer(
    winner: str = "A", confidence: Any = 0.8, by_criterion: tuple[str, str] = ("A", "B")
) -> dict[str, Any]:
    return {
        "analysis": {"responseA": {"strengths": ["polite"], "weaknesses": []},
                     "responseB": {"strengths": [], "weaknesses": ["rude"]}},
        "comparison": [
            {
                "criterion": name,
                "aAssessment": "one",
                "bAssessment": "two",
                "reasoning": "since",
                "winner": each,
            }
            for name, each in zip(NAMES, by_criterion, strict=True)
        ],
        "result": {"reasoning": "so", "differentiators": ["tone"], "winner": winner,
                   "confidence": confidence},
    }  # fmt: skip


def said(value: Any, **more: Any) -> Completion:
    return Completion(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), **more
    )


def judged(evaluator: Pairwise, request: JudgeRequest, completion: Completion) -> Judgment:
    judgment = evaluator.read(request, completion)
    assert isinstance(judgment, Judgment)
    return judgment


def asked_again(evaluator: Pairwise, request: JudgeRequest, completion: Completion) -> JudgeRequest:
    further = evaluator.read(request, completion)
    assert isinstance(further, JudgeRequest)
    return further


def test_all_pairs_are_asked_in_both_orders_and_every_sample():
    plan = pairwise(mode=ModeConfig(samples=2)).plan(CASE)
    assert [(one.unit, one.shown, one.sample) for one in plan] == [
        (unit, shown, sample)
        for unit in ((0, 1), (0, 2), (1, 2))
        for sample in (0, 1)
        for shown in (unit, unit[::-1])
    ]
    assert {one.case_id for one in plan} == {"c1"}
    assert {one.turn for one in plan} == {0}


def test_swap_none_keeps_the_units_order():
    plan = pairwise(swap=SwapConfig(policy="none")).plan(CASE)
    assert [one.shown for one in plan] == [(0, 1), (0, 2), (1, 2)]


def test_swap_random_is_one_order_the_same_each_time_and_balanced():
    evaluator = pairwise(swap=SwapConfig(policy="random"))
    cases = [replace(PAIR, id=f"case {number}") for number in range(400)]
    orders = [one.shown for case in cases for one in evaluator.plan(case)]
    assert orders == [one.shown for case in cases for one in evaluator.plan(case)]
    assert len(orders) == 400
    assert 160 < Counter(orders)[0, 1] < 240


def test_swap_random_alternates_between_the_samples_of_a_pair():
    evaluator = pairwise(swap=SwapConfig(policy="random"), mode=ModeConfig(samples=4))
    orders = [one.shown for one in evaluator.plan(PAIR)]
    assert Counter(orders) == {(0, 1): 2, (1, 0): 2}
    assert orders[0] != orders[1]


def test_the_response_shown_first_stands_as_response_a():
    first, second = pairwise().plan(PAIR)
    assert "<response_a>\nHello.\n</response_a>" in first.messages[-1]["content"]
    assert "<response_a>\nGo away.\n</response_a>" in second.messages[-1]["content"]
    assert first.messages[0] == second.messages[0]


@pytest.mark.parametrize(("shown", "value"), [((0, 1), 1.0), ((1, 0), -1.0)])
def test_an_answer_is_read_unswapped(shown, value):
    evaluator = pairwise()
    request = next(one for one in evaluator.plan(PAIR) if one.shown == shown)
    judgment = judged(evaluator, request, said(answer("A")))
    assert (judgment.status, judgment.read_by, judgment.value, judgment.confidence) == (
        "ok",
        "json",
        value,
        0.8,
    )
    assert judgment.criteria == {"accuracy": value, "tone": -value}
    assert judgment.answer is not None
    first = judgment.answer["analysis"]["responseA" if value > 0 else "responseB"]
    assert first == {"strengths": ["polite"], "weaknesses": []}
    assert judgment.answer["comparison"][0]["aAssessment"] == ("one" if value > 0 else "two")
    assert judgment.answer["result"]["winner"] == ("A" if value > 0 else "B")
    assert (judgment.case_id, judgment.unit, judgment.shown, judgment.sample) == (
        "c2",
        (0, 1),
        shown,
        0,
    )
    assert judgment.completion is not None
    assert judgment.keys == ()


winners = st.sampled_from(["A", "B", "TIE"])
EVALUATOR = pairwise()
STRAIGHT, SWAPPED = EVALUATOR.plan(PAIR)


def mirror(winner: str) -> str:
    return {"A": "B", "B": "A", "TIE": "TIE"}[winner]


@given(winners, st.tuples(winners, winners), st.floats(0, 1))
def test_showing_it_swapped_and_answering_swapped_is_the_same_judgment(winner, each, confidence):
    straight = answer(winner, confidence, each)
    swapped = answer(mirror(winner), confidence, (mirror(each[0]), mirror(each[1])))
    analysis = swapped["analysis"]
    analysis["responseA"], analysis["responseB"] = analysis["responseB"], analysis["responseA"]
    for one in swapped["comparison"]:
        one["aAssessment"], one["bAssessment"] = one["bAssessment"], one["aAssessment"]
    one, other = (
        judged(EVALUATOR, r, said(a)) for r, a in ((STRAIGHT, straight), (SWAPPED, swapped))
    )
    assert replace(one, shown=(), completion=None) == replace(other, shown=(), completion=None)
    assert one.value == {"A": 1, "TIE": 0, "B": -1}[winner]


def test_criteria_are_matched_loosely_and_spelt_as_configured():
    loose = answer()
    loose["comparison"][0]["criterion"] = " **Accuracy** "
    loose["comparison"].reverse()
    judgment = judged(EVALUATOR, STRAIGHT, said(loose))
    assert list(judgment.criteria) == ["accuracy", "tone"]
    assert judgment.answer is not None
    assert [one["criterion"] for one in judgment.answer["comparison"]] == ["accuracy", "tone"]


def test_lists_of_prose_are_read_leniently():
    loose = answer()
    loose["analysis"]["responseA"] = {"strengths": "polite"}
    loose["result"]["differentiators"] = None
    loose["note"] = "extra"
    judgment = judged(EVALUATOR, STRAIGHT, said(loose))
    assert judgment.answer["analysis"]["responseA"] == {"strengths": ["polite"], "weaknesses": []}
    assert judgment.answer["result"]["differentiators"] == []
    assert "note" not in judgment.answer


def broken(*path: Any, value: Any = ...) -> dict[str, Any]:
    """The good answer with one place set, or removed."""
    made: Any = answer()
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return dict(made)


INVALID: list[tuple[dict[str, Any], str]] = [
    (broken("result", "winner", value="D"), "result.winner: 'D' is not a winner"),
    (broken("result", "winner", value="A and B"), "result.winner"),
    (broken("result", "winner", value=1), "result.winner"),
    (broken("result", "winner", value=None), "result.winner"),
    (broken("result", "winner"), "result.winner"),
    (broken("result", value=[]), "result"),
    (broken("result"), "result"),
    (broken("comparison"), "comparison"),
    (broken("comparison", value=[]), "comparison: criterion 'accuracy' is missing"),
    (broken("comparison", 1), "comparison: criterion 'tone' is missing"),
    (broken("comparison", 1, "criterion", value="accuracy"), "comparison: criterion 'accuracy' is"),
    (broken("comparison", 1, "criterion", value="colour"), "comparison: 'colour' is not among the"),
    (broken("comparison", 1, "winner", value="?"), "comparison.1.winner"),
]


@pytest.mark.parametrize(
    ("bad", "reason"), INVALID, ids=[f"{i} {reason}" for i, (_, reason) in enumerate(INVALID)]
)
def test_an_invalid_answer_is_asked_for_once_more_and_then_unparseable(bad, reason):
    further = asked_again(EVALUATOR, SWAPPED, said(bad))
    assert further.turn == 1
    assert (further.case_id, further.unit, further.shown, further.sample) == (
        "c2",
        (0, 1),
        (1, 0),
        0,
    )
    assert further.messages[:-2] == SWAPPED.messages
    assert further.messages[-2] == {"role": "assistant", "content": json.dumps(bad)}
    assert reason in further.messages[-1]["content"]
    judgment = judged(EVALUATOR, further, said(bad))
    assert (judgment.status, judgment.value, judgment.confidence, judgment.criteria) == (
        "unparseable",
        None,
        None,
        {},
    )
    assert judgment.error is not None
    assert reason in judgment.error
    assert judgment.error_kind == "invalid"


@pytest.mark.parametrize("path", [("comparison", 1, "reasoning"), ("result", "reasoning")])
def test_a_verdict_does_not_depend_on_its_reasons(path):
    judgment = judged(EVALUATOR, STRAIGHT, said(broken(*path)))
    assert (judgment.status, judgment.value) == ("ok", 1.0)


def test_a_second_answer_that_is_good_is_marked_repaired():
    further = asked_again(EVALUATOR, STRAIGHT, said("I think A."))
    judgment = judged(EVALUATOR, further, said(answer()))
    assert (judgment.status, judgment.value, judgment.read_by) == ("repaired", 1.0, "json")


def test_mended_json_is_marked_repaired_and_embedded_json_is_not():
    mended = judged(EVALUATOR, STRAIGHT, said(json.dumps(answer())[:-1] + ",}"))
    assert (mended.status, mended.read_by) == ("repaired", "repaired")
    fenced = judged(EVALUATOR, STRAIGHT, said(f"```json\n{json.dumps(answer())}\n```"))
    assert (fenced.status, fenced.read_by) == ("ok", "embedded")


def test_an_empty_answer_is_asked_for_again_without_an_empty_message():
    further = asked_again(EVALUATOR, STRAIGHT, said("  "))
    assert [one["role"] for one in further.messages] == ["system", "user"]
    assert further.messages[-1]["content"].startswith(STRAIGHT.messages[-1]["content"])
    assert "the answer is empty" in further.messages[-1]["content"]


def test_without_ties_a_tie_is_invalid_wherever_it_stands():
    evaluator = pairwise(tie=TieConfig(allow=False))
    request = evaluator.plan(PAIR)[0]
    assert judged(evaluator, request, said(answer("A"))).value == 1.0
    for tie in (answer("TIE"), answer("A", by_criterion=("A", "TIE"))):
        assert (
            "TIE is not allowed"
            in asked_again(evaluator, request, said(tie)).messages[-1]["content"]
        )


@pytest.mark.parametrize(("text", "shown", "value", "status"), [
    ("[[A]]", (0, 1), 1.0, "ok"),
    ("[[A]]", (1, 0), -1.0, "ok"),
    ("[[B>>A]]", (1, 0), 1.0, "ok"),
    ("[[C]]", (1, 0), 0.0, "ok"),
    ("Neither is better.", (0, 1), None, "unparseable"),
    ("I'm sorry, but I can't assist with that.", (0, 1), None, "refused"),
])  # fmt: skip
def test_marked_verdicts_are_read_unswapped_and_never_asked_for_again(text, shown, value, status):
    evaluator = pairwise(output=OutputConfig(format="bracket"))
    request = next(one for one in evaluator.plan(PAIR) if one.shown == shown)
    assert request.answer is None
    judgment = judged(evaluator, request, said(text))
    assert (judgment.value, judgment.status, judgment.confidence) == (value, status, None)


@pytest.mark.parametrize(("text", "value"), [
    ("[[A>>B]]", -1.0), ("[[A>B]]", -1 / 3), ("[[B>A]]", 1 / 3), ("[[B<<A]]", -1.0),
    ("[[A=B]]", 0.0), ("[[B]]", 1.0),
])  # fmt: skip
def test_graded_marks_give_a_third_of_the_margin_for_better_than_for_much_better(text, value):
    evaluator = pairwise(output=OutputConfig(format="bracket", graded=True))
    swapped = next(one for one in evaluator.plan(PAIR) if one.shown == (1, 0))
    judgment = judged(evaluator, swapped, said(text))
    assert judgment.value == pytest.approx(value)
    assert judgment.answer == {"winner": "A" if value > 0 else "B" if value < 0 else "TIE"}


def test_a_tie_that_the_judge_insists_on_is_read_and_left_to_the_rule_for_ties():
    evaluator = pairwise(output=OutputConfig(format="bracket"), tie=TieConfig(allow=False))
    judgment = judged(
        evaluator, evaluator.plan(PAIR)[0], said("[[C]]")
    )  # texts are never asked for again
    assert (judgment.status, judgment.value) == ("ok", 0.0)
    evaluator = pairwise(tie=TieConfig(allow=False))
    again = asked_again(evaluator, evaluator.plan(PAIR)[0], said(answer("TIE")))
    judgment = judged(evaluator, again, said(answer("TIE", by_criterion=("A", "TIE"))))
    assert (judgment.status, judgment.value, list(judgment.criteria.values())) == (
        "repaired",
        0.0,
        [1.0, 0.0],
    )


def test_a_regex_is_read_as_the_sides_were_shown():
    output = OutputConfig(
        format="regex", pattern=r"Output \((?P<winner>[ab])\)", map={"a": "A", "b": "B"}
    )
    evaluator = pairwise(output=output)
    straight, swapped = evaluator.plan(PAIR)
    assert judged(evaluator, straight, said("Output (a)")).value == 1.0
    assert judged(evaluator, swapped, said("Output (a)")).value == -1.0
    assert judged(evaluator, swapped, said("Output (a)")).answer == {"winner": "B"}


def test_the_schema_puts_every_reason_before_its_winner():
    answer_format = STRAIGHT.answer
    properties = answer_format.schema["properties"]
    assert list(properties) == ["analysis", "comparison", "result"]
    compared = properties["comparison"]["items"]["properties"]
    assert list(compared) == ["criterion", "aAssessment", "bAssessment", "reasoning", "winner"]
    assert list(properties["result"]["properties"]) == [
        *("reasoning", "differentiators", "winner", "confidence"),
    ]
    assert compared["criterion"]["enum"] == ["accuracy", "tone"]
    assert compared["winner"]["enum"] == ["A", "B", "TIE"]
    assert (properties["comparison"]["minItems"], properties["comparison"]["maxItems"]) == (2, 2)
    without = pairwise(tie=TieConfig(allow=False)).plan(PAIR)[0].answer
    assert "TIE" not in json.dumps(without.schema)


def test_a_case_with_one_response_is_refused():
    with pytest.raises(DatasetError, match="case 'c1': it has 1 response"):
        pairwise().plan(replace(CASE, responses=CASE.responses[:1]))


@pytest.mark.parametrize(("settings", "kind", "said"), [
    ({"output": OutputConfig(format="rating")}, ConfigError,
     "output.format: mode pairwise cannot read 'rating'"),
    ({"output": OutputConfig(format="jason")}, PluginError,
     "output.format: .*'jason'; did you mean 'json'"),
    ({"output": OutputConfig(format="regex", pattern="(?P<score>.)")}, ConfigError,
     "no group named 'winner'"),
    ({"prompt": PromptConfig(template="none")}, PromptError, "no template 'none'"),
    ({"prompt": PromptConfig(template="pointwise")}, PromptError, "unknown placeholder 'scale'"),
])  # fmt: skip
def test_what_does_not_suit_is_refused_before_any_call(settings, kind, said):
    with pytest.raises(kind, match=said):
        make_evaluator(config(**settings))


def test_scoring_weights_do_not_change_what_is_asked():
    weighted = pairwise(scoring=ScoringConfig(weights={"tone": 5}))
    assert [one.messages for one in weighted.plan(PAIR)] == [
        one.messages for one in EVALUATOR.plan(PAIR)
    ]


def test_the_hashes_name_every_template_in_use():
    assert list(EVALUATOR.prompt_hashes) == [
        "en/pairwise.md.j2",
        "en/pairwise_json.md.j2",
        "en/retry.md.j2",
    ]
    chinese = pairwise(prompt=PromptConfig(language="zh")).prompt_hashes
    assert list(chinese) == [
        *("zh/pairwise.md.j2", "zh/pairwise_json.md.j2", "zh/reasons.yaml", "zh/retry.md.j2"),
    ]


def passes(
    first: float | None, second: float | None, sample: int = 0, unit: tuple[int, int] = (0, 1)
) -> list[Judgment]:
    """Both orders of a pair, judged; none is one that could not be read."""
    return [
        Judgment(
            "c2", unit, shown, sample, "m", "unparseable" if value is None else "ok", value=value
        )
        for shown, value in ((unit, first), (unit[::-1], second))
    ]


def third_pass(**settings: Any) -> Pairwise:
    return pairwise(swap=SwapConfig(resolve="third_pass", **settings.pop("swap", {})), **settings)


@pytest.mark.parametrize(("first", "second", "asked"), [
    (1, -1, 1), (1, 0, 1), (0, -1, 1), (1, 1, 0), (0, 0, 0), (0.2, 0.9, 0), (1, None, 0),
    (None, None, 0),
])  # fmt: skip
def test_a_third_judgment_is_asked_for_where_the_orders_disagree(first, second, asked):
    further = third_pass().follow(PAIR, passes(first, second))
    assert len(further) == asked
    assert all((one.third, one.sample, one.unit) == (True, 1, (0, 1)) for one in further)
    assert not pairwise().follow(PAIR, passes(first, second))
    assert not third_pass(swap={"policy": "random"}).follow(PAIR, passes(first, second))


def test_a_third_judgment_has_samples_of_its_own_and_an_arbiters_are_numbered_from_0():
    mode = ModeConfig(samples=2)
    judgments = [*passes(1, -1), *passes(1, -1, sample=1)]
    own = third_pass(mode=mode).follow(PAIR, judgments)
    assert [one.sample for one in own] == [2, 3]
    arbiter = {"arbiter": JudgeConfig(model="b/wise")}
    other = third_pass(mode=mode, swap=arbiter).follow(PAIR, judgments)
    assert [one.sample for one in other] == [0, 1]
    assert {own[0].shown, own[1].shown} == {(0, 1), (1, 0)}
    planned = {(one.shown, one.sample): one.messages for one in third_pass(mode=mode).plan(PAIR)}
    assert other[0].messages == planned[other[0].shown, 0]


def test_the_order_of_a_third_judgment_is_drawn_for_each_case():
    evaluator = third_pass()
    shown = Counter(
        evaluator.follow(replace(PAIR, id=str(number)), passes(1, -1))[0].shown
        for number in range(400)
    )
    assert 160 < shown[0, 1] < 240


def test_samples_disagree_by_their_mean_and_expectations_count_only_where_all_have_them():
    evaluator = third_pass(mode=ModeConfig(samples=2))
    assert evaluator.follow(PAIR, [*passes(1, 1), *passes(1, -1, sample=1)])
    assert not evaluator.follow(PAIR, [*passes(1, 1), *passes(0, None, sample=1)])
    weighed = [
        replace(one, weighted=WeightedJudgment(value))
        for one, value in zip(passes(1, 1), (0.5, -0.1), strict=True)
    ]
    assert evaluator.follow(PAIR, weighed)
    assert not evaluator.follow(PAIR, [passes(1, 1)[0], weighed[1]])
