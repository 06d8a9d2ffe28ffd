"""Judgments weighed by probabilities, in both modes: by the place of each decision, and never by half."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from evalkit.config import RunConfig
from evalkit.errors import ConfigError, JudgeSetupError
from evalkit.evaluators import make_evaluator
from evalkit.types import Case, Completion, JudgeRequest, Judgment, Response, TokenLogprob

CASE = Case("c", "Say hello.", (Response("Hello."), Response("Hi!")))
NAMES = ("accuracy", "tone")


def config(**sections: Any) -> RunConfig:
    sections = {"judge": {"model": "a/m", "logprobs": True}, **sections}
    return RunConfig(criteria=[{"name": name} for name in NAMES], **sections)


def pointwise(**sections: Any) -> RunConfig:
    return config(mode={"name": "pointwise"}, swap={"policy": "none"}, **sections)


def spelt(text: str, *chances: dict[str, float], at: str) -> Completion:
    """A completion of one token for each character, with other chances at the n-th occurrence of `at`."""
    tokens, left = [], list(chances)
    for place, char in enumerate(text):
        top = {char: 1.0}
        if text.startswith(at, place - len(at)) and left:
            top = left.pop(0)
        tokens.append(TokenLogprob(char, math.log(top[char]), tuple((one, math.log(p)) for one, p in top.items())))
    assert not left
    return Completion(text, logprobs=tuple(tokens), finish_reason="stop", rung="json_schema")


def scores(first: int, second: int) -> str:
    parts = [
        {"criterion": name, "justification": f'"score":{9 - score}', "examples": [], "score": score}
        for name, score in zip(NAMES, (first, second), strict=True)
    ]
    return json.dumps({"scores": parts, "summary": {}}, separators=(",", ":"))


def winners(overall: str, *criteria: str) -> str:
    compared = [
        {"criterion": name, "aAssessment": "", "bAssessment": "", "reasoning": "", "winner": winner}
        for name, winner in zip(NAMES, criteria, strict=True)
    ]
    result = {"reasoning": "", "differentiators": [], "winner": overall, "confidence": 0.8}
    return json.dumps({"analysis": {}, "comparison": compared, "result": result}, separators=(",", ":"))


def read(settings: RunConfig, completion: Completion, place: int = 0) -> Judgment | JudgeRequest:
    evaluator = make_evaluator(settings)
    request = evaluator.plan(CASE)[place]
    return evaluator.read(JudgeRequest(**{**_fields(request), "judge": "m"}), completion)


def _fields(request: JudgeRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in JudgeRequest.__dataclass_fields__}


def judged(*args: Any) -> Judgment:
    judgment = read(*args)
    assert isinstance(judgment, Judgment)
    return judgment


SCORED = spelt(scores(4, 2), {"4": 0.6, "2": 0.2}, {"2": 0.5, "1": 0.25, "x": 0.25}, at=',"score":')
COMPARED = spelt(
    winners("A", "B", "TIE"),
    {"B": 0.9, "A": 0.1},
    {"T": 0.5, "A": 0.3, "B": 0.2},
    {"A": 0.7, "B": 0.1},
    at='"winner":"',
)


def test_scores_are_expectations_each_by_its_own_place() -> None:
    judgment = judged(pointwise(), SCORED)
    assert judgment.status == "ok"
    assert judgment.criteria == {"accuracy": 4, "tone": 2}
    assert judgment.weighted is not None
    assert judgment.weighted.criteria == pytest.approx({"accuracy": 3.5, "tone": 5 / 3})
    assert judgment.weighted.value is None
    assert judgment.weighted.mass == pytest.approx(0.75)
    assert judgment.weighted.open == 0


@pytest.mark.parametrize(("place", "side"), [(0, 1.0), (1, -1.0)])
def test_margins_are_p_of_a_less_p_of_b_unswapped(place: int, side: float) -> None:
    judgment = judged(config(), COMPARED, place)
    assert judgment.value == side
    assert judgment.weighted is not None
    assert judgment.weighted.value == pytest.approx(side * 0.75)
    assert judgment.weighted.criteria == pytest.approx({"accuracy": side * -0.8, "tone": side * 0.1})
    assert judgment.weighted.mass == pytest.approx(0.8)


def test_a_forbidden_tie_has_no_weight() -> None:
    text = spelt(
        winners("A", "B", "A"), {"B": 0.9, "A": 0.1}, {"A": 1.0}, {"A": 0.5, "B": 0.1, "T": 0.4}, at='"winner":"'
    )
    judgment = judged(config(tie={"allow": False}), text)
    assert judgment.weighted is not None
    assert judgment.weighted.value == pytest.approx(4 / 6)


def test_without_being_asked_for_nothing_is_weighed() -> None:
    judgment = judged(config(judge={"model": "a/m"}), COMPARED)
    assert judgment.weighted is None


@pytest.mark.parametrize("settings", [pointwise(), config()], ids=["pointwise", "pairwise"])
def test_a_provider_that_gives_none_stops_the_run(settings: RunConfig) -> None:
    text = scores(4, 2) if settings.mode.name == "pointwise" else winners("A", "B", "TIE")
    with pytest.raises(
        JudgeSetupError, match=r"judge\.logprobs: judge m returned no log-probabilities.*\(sent as tool\); set it to"
    ):
        read(settings, Completion(text, rung="tool"))


def test_an_unreadable_answer_without_them_is_asked_for_again_first() -> None:
    assert isinstance(read(config(), Completion("hm")), JudgeRequest)


def test_tokens_that_do_not_spell_the_decision_make_it_unreadable_and_no_further_ask_mends_that() -> None:
    other = SCORED.logprobs
    assert other is not None
    judgment = judged(pointwise(), Completion(scores(4, 3), logprobs=other))
    assert (judgment.status, judgment.error_kind) == ("unparseable", "logprobs")


@pytest.mark.parametrize("logprobs", [None, (), SCORED.logprobs])
def test_with_fallback_a_judgment_without_them_is_as_stated_and_says_so(logprobs: Any) -> None:
    settings = pointwise(judge={"model": "a/m", "logprobs": "fallback"})
    judgment = judged(settings, Completion(scores(4, 3), logprobs=logprobs))
    assert (judgment.status, judgment.weighted, judgment.criteria["tone"]) == ("ok", None, 3)
    assert judged(settings, SCORED).weighted is not None


def test_each_judge_of_a_panel_and_the_arbiter_have_a_setting_of_their_own() -> None:
    panel = {"judges": [{"model": "a/m"}, {"model": "a/n", "logprobs": True}]}
    arbiter = {"model": "a/o", "logprobs": "fallback"}
    evaluator = make_evaluator(config(judge=panel, swap={"arbiter": arbiter, "resolve": "third_pass"}))
    request = _fields(evaluator.plan(CASE)[0])
    weighed = {}
    for judge in ("m", "n", "o"):
        judgment = evaluator.read(JudgeRequest(**{**request, "judge": judge}), COMPARED)
        assert isinstance(judgment, Judgment)
        weighed[judge] = judgment.weighted is not None
    assert weighed == {"m": False, "n": True, "o": True}


def test_a_repaired_answer_has_no_place_to_look_at() -> None:
    broken = scores(4, 2).replace('\\"score\\":', "").removesuffix("}")
    tokens = tuple(TokenLogprob(char, 0.0, ((char, 0.0),)) for char in broken)
    assert judged(pointwise(), Completion(broken, logprobs=tokens)).error_kind == "logprobs"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"output": {"format": "bracket"}}, r"judge\.logprobs: decisions are located.*'bracket': set output=json"),
        (
            {
                "judge": {"model": "a/m"},
                "output": {"format": "bracket"},
                "swap": {"arbiter": {"model": "x", "logprobs": True}},
            },
            r"judge\.logprobs: decisions are located",
        ),
        ({"swap": {"arbiter": {"model": "b/m"}}}, r"swap\.arbiter: 'm' is also the judge's name: set a different name"),
        ({"swap": {"arbiter": {"judges": [{"model": "b/x"}]}}}, "arbiter is a panel: choose a single judge"),
    ],
)
def test_what_cannot_be_weighed_or_asked_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        config(**settings)


def test_a_mode_that_cannot_weigh_or_follow_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"judge\.logprobs: mode 'listwise' does not support log-probabilities"):
        make_evaluator(config(mode={"name": "listwise"}))
    with pytest.raises(ConfigError, match=r"swap\.resolve: mode 'listwise' does not support third_pass"):
        make_evaluator(config(judge={"model": "m"}, mode={"name": "listwise"}, swap={"resolve": "third_pass"}))
