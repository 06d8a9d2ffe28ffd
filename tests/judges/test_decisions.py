"""Decision models behind a loopback server, through LiteLLM and directly, in both protocols."""

import json
from dataclasses import replace

import pytest

from evalkit.config import RunConfig
from evalkit.core.checklists import read_items
from evalkit.core.errors import CallError, JudgeSetupError
from evalkit.core.types import Case, Response
from evalkit.evaluators.factory import make_evaluator
from evalkit.judges import make_judges
from tests.support.decision_server import MODEL, DecisionServer

PROTOCOLS = [
    ("systemone", "litellm", f"typesafe/{MODEL}"),
    ("systemone", "direct", f"hosted_vllm/{MODEL}"),
    ("decisions", "litellm", "openai/gpt-decide"),
    ("decisions", "direct", "openai/gpt-decide"),
]
CLASSES = {"classes": {"pass": "It is right.", "fail": ""}}
SHARE = {"min": 0, "max": 1, "step": 0.01}
SCALE = {"min": 1, "max": 3, "levels": {1: "bad", 3: "good"}}


def config(provider, protocol=PROTOCOLS[0], *, rubric=None, criteria=("overall",), **sections):
    endpoint, transport, model = protocol
    pairs = sections.get("mode", {}).get("name") == "pairwise"
    judge = {
        "model": model,
        "api_base": provider.api_base,
        "endpoint": endpoint,
        "transport": transport,
        **sections.pop("judge", {}),
    }
    return RunConfig.model_validate(
        {
            "judge": judge,
            "mode": {"name": "pointwise"},
            "criteria": {name: {} for name in criteria},
            "rubric": rubric or {"min": 1, "max": 5},
            "swap": {"policy": "both" if pairs else "none"},
            **sections,
        }
    )


async def judged(run, case):
    """Return what each request of a case comes to: a judgment or an error."""
    evaluator = make_evaluator(run)
    [judge] = make_judges(run.judge, run.runner)
    found = []
    try:
        await judge.prepare()
        for request in evaluator.plan(case):
            try:
                found.append(evaluator.read(request, await judge.complete(request)))
            except (CallError, JudgeSetupError) as error:
                found.append(error)
    finally:
        await judge.close()
    return found


def case(*texts):
    return Case("c", "What is 2 + 2?", tuple(map(Response, texts)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_classes_come_with_their_probabilities(provider, protocol):
    DecisionServer().install(provider)
    [one, two] = await judged(
        config(provider, protocol, rubric=CLASSES), case("4, P(pass)=0.8", "5, P(pass)=0.3")
    )
    assert [one.class_name, two.class_name] == ["pass", "fail"]
    assert one.status == "ok"
    assert one.weighted.classes == pytest.approx({"pass": 0.8, "fail": 0.2})
    assert two.weighted.classes == pytest.approx({"pass": 0.3, "fail": 0.7})
    assert one.completion.usage.prompt_tokens == 100
    sent = json.dumps(provider.requests[-1])
    assert "reason" not in sent
    assert "temperature" not in sent
    assert "It is right." in sent
    assert provider.paths[-1] == f"/v1/{protocol[0]}"


async def test_the_price_is_that_of_the_list_and_a_key_is_not_invented(provider, monkeypatch):
    DecisionServer().install(provider)
    run = config(provider, rubric=CLASSES)
    [one] = await judged(run, case("P(pass)=0.9"))
    assert one.completion.cost_usd == pytest.approx(100 * 4.2e-8)
    monkeypatch.setenv("TYPESAFE_API_KEY", "ts-own-key")
    await judged(run, case("P(pass)=0.9"))
    assert provider.headers[-1]["authorization"] == "Bearer ts-own-key"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_scores_are_levels_with_an_expected_value(provider, protocol):
    DecisionServer().install(provider)
    run = config(provider, protocol, rubric=SCALE, criteria=("clear", "right"))
    [one] = await judged(run, case("P(3)=0.6 P(2)=0.3"))
    assert one.criteria == {"clear": 3.0, "right": 3.0}
    assert one.weighted.criteria == pytest.approx({"clear": 2.5, "right": 2.5})
    fine = config(provider, protocol, rubric={"min": 0, "max": 20})
    [one] = await judged(fine, case("P(7)=0.9"))
    assert one.criteria == {"overall": 7.0}
    assert one.weighted.criteria["overall"] == pytest.approx(6.3 + 0.1 * 203 / 20)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_pairs_are_asked_in_both_orders(provider, protocol):
    DecisionServer().install(provider)
    run = config(provider, protocol, mode={"name": "pairwise"}, criteria=("clear", "right"))
    first, second = await judged(run, case("P(A)=0.7 P(TIE)=0.1", "other"))
    # The server prefers the position A in both orders.
    assert (first.value, second.value) == (1.0, -1.0)
    assert first.weighted.value == pytest.approx(0.5)
    assert second.weighted.value == pytest.approx(-0.5)
    assert first.weighted.criteria == pytest.approx({"clear": 0.5, "right": 0.5})
    assert first.confidence == pytest.approx(0.7)
    assert len(provider.requests[-1]["questions"]) == 3


@pytest.mark.parametrize(("server", "why"), [
    ({"change": {"choice": "fail"}}, "most probable is pass"),
    ({"change": {"choice": "maybe"}}, "'maybe' is not one of the choices"),
    ({"change": {"probabilities": {"pass": 0.4, "fail": 0.1}}}, "sum to 0.5"),
    ({"change": {"probabilities": {"pass": 0.4, "no": 0.6}}}, "'no' is not"),
    ({"change": {"probabilities": {}}}, "no probabilities"),
    ({"change": {"probabilities": {"pass": 1.4}}}, "no probabilities"),
    ({"drop": ["overall"]}, "answer"),
])  # fmt: skip
@pytest.mark.parametrize("protocol", PROTOCOLS[:2])
async def test_an_answer_that_contradicts_itself_is_no_verdict(provider, protocol, server, why):
    DecisionServer(**server).install(provider)
    [one] = await judged(config(provider, protocol, rubric=CLASSES), case("P(pass)=0.8"))
    reason = str(one) if isinstance(one, CallError) else one.error
    assert why in reason
    assert isinstance(one, CallError) or one.status == "unparseable"
    assert len(provider.requests) == 1


async def test_a_refused_question_is_a_refusal(provider):
    DecisionServer(change={"type": "refusal"}).install(provider)
    [one] = await judged(config(provider, PROTOCOLS[3], rubric=CLASSES), case("P(pass)=0.8"))
    assert one.status == "refused"


@pytest.mark.parametrize(("judge", "what"), [
    ({"model": f"typesafe/{MODEL}", "endpoint": "chat"}, "judge.endpoint=systemone"),
    ({"model": "openai/gpt-4o-mini", "api_base": None}, "is no decision model"),
    ({"model": "anthropic/claude-x"}, "Unknown Decisions provider"),
    ({"model": f"typesafe/{MODEL}", "api_base": None}, "TYPESAFE_API_KEY"),
    ({"model": "laya/english", "api_base": None}, "judge.api_base"),
])  # fmt: skip
async def test_a_judge_that_cannot_decide_is_refused_before_payment(provider, judge, what):
    DecisionServer().install(provider)
    run = config(provider, rubric=CLASSES, judge=judge)
    [made] = make_judges(run.judge, run.runner)
    with pytest.raises(Exception, match=what) as caught:
        await made.prepare()
    await made.close()
    assert "\n" not in str(caught.value)
    assert not provider.requests


@pytest.mark.parametrize(("sections", "what"), [
    ({"mode": {"name": "listwise"}}, "mode listwise has none"),
    ({"rubric": {"min": 0, "max": 1000}}, "at most 255 choices"),
    ({"prompt": {"template": "mine.md.j2"}}, "prompt.template"),
    ({"output": {"format": "bracket"}}, "output.format"),
    ({"judge": {"logprobs": True}}, "logprobs"),
])  # fmt: skip
def test_settings_without_a_meaning_are_refused(provider, sections, what):
    with pytest.raises(ValueError, match=what):
        config(provider, **sections)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_items_are_questions_of_one_request(provider, protocol):
    server = DecisionServer()
    server.install(provider)
    checklist = read_items(["Is right", {"id": "polite", "criterion": "Is polite"}, "Is short"])
    listed = replace(case("4, P(met)=0.8"), checklist=checklist)
    run = config(provider, protocol, rubric=SHARE, mode={"name": "checklist", "ask": "together"})
    [one] = await judged(run, listed)
    assert [*one.items.values()] == ["met"] * 3
    assert one.answer["items"][1]["confidence"] == pytest.approx(0.8)
    assert len(provider.requests) == 1
    assert "Is polite" in json.dumps(provider.requests[-1])
    each = config(provider, protocol, rubric=SHARE, mode={"name": "checklist", "ask": "each"})
    assert len(await judged(each, listed)) == 3
    server.drop = ["item_2"]
    [some] = await judged(run, listed)
    if protocol[:2] == ("decisions", "litellm"):
        # LiteLLM would match the answer about the third item to the second one.
        assert some.kind == "bad_response"
        return
    # A question without an answer leaves the others, and is asked alone afterwards.
    assert [*some.items.values()] == ["met", None, "met"]
    [again] = make_evaluator(run).follow(listed, [some])
    assert again.items == ("polite",)
    server.drop = []
    server.change = {"choice": "yes"}
    [none] = await judged(run, listed)
    assert none.status == "unparseable"
