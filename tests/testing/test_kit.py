"""The kit passes what is right and tells each way of being wrong."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from evalkit.compose import load_config
from evalkit.core.types import AnswerFormat, Case, Completion, JudgeRequest, Judgment
from evalkit.evaluators.factory import make_evaluator
from evalkit.testing import CASES, ODD, check_evaluator, example_answer, faults


@pytest.mark.parametrize(
    ("overrides", "answers"),
    [
        (["mode=pairwise"], ()),
        (["mode=pointwise", "rubric=decimal10", "mode.samples=2"], ()),
        (["mode=listwise", "prompt=zh", "mode.samples=2"], ()),
        (["mode=pairwise", "output=bracket", "swap=random", "tie=forbid"], ["So [[A]]", "[[B]]"]),
        (["mode=pointwise", "output=rating", "criteria=overall"], ["[[3]]"]),
        (["mode=listwise", "mode.commit_first=true"], ()),
    ],
)
def test_evalkits_own_evaluators_pass(overrides, answers):
    check_evaluator(make_evaluator(load_config(overrides=overrides)), answers=answers)


SCHEMA = {
    "type": "object",
    "properties": {"better": {"type": "string", "enum": ["first", "second"]}},
}


class Good:
    """Asks which of two is better and reads it right; each test breaks one thing."""

    def plan(self, case: Case) -> list[JudgeRequest]:
        return [self.ask(case, shown) for shown in ((0, 1), (1, 0))]

    def ask(self, case: Case, shown: tuple[int, int]) -> JudgeRequest:
        content = (
            f"{case.prompt} {case.responses[shown[0]].text} or {case.responses[shown[1]].text}?"
        )
        return JudgeRequest(
            case.id,
            (0, 1),
            shown,
            ({"role": "user", "content": content},),
            AnswerFormat("x", SCHEMA),
        )

    def read(self, request: JudgeRequest, completion: Completion) -> Any:
        said = self.winner(completion.text)
        place = (request.case_id, request.unit, request.shown, request.sample, request.judge)
        if said is None:
            return Judgment(*place, "unparseable", error="no winner")
        return Judgment(
            *place,
            "ok",
            value=self.margin(request, 1.0 if said == "first" else -1.0),
            confidence=0.5,
        )

    def winner(self, text: str) -> str | None:
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return said.get("better") if isinstance(said, dict) else None

    def margin(self, request: JudgeRequest, margin: float) -> float:
        return margin if request.shown == (0, 1) else -margin


def test_a_right_one_passes():
    assert list(faults(Good())) == []


def plan(change: Callable[[list[JudgeRequest]], Any]) -> type[Good]:
    class Changed(Good):
        def plan(self, case: Case) -> Any:
            return change(super().plan(case))

    return Changed


def read(change: Callable[[JudgeRequest, Any], Any]) -> type[Good]:
    class Changed(Good):
        def read(self, request: JudgeRequest, completion: Completion) -> Any:
            return change(request, super().read(request, completion))

    return Changed


def every(**changes: Any) -> Callable[[list[JudgeRequest]], list[JudgeRequest]]:
    return lambda requests: [replace(request, **changes) for request in requests]


class Fickle(Good):
    calls = 0

    def ask(self, case: Case, shown: tuple[int, int]) -> JudgeRequest:
        self.calls += 1
        return replace(
            super().ask(case, shown),
            messages=({"role": "user", "content": f"{self.calls} {shown}"},),
        )


class Moody(Good):
    calls = 0

    def read(self, request: JudgeRequest, completion: Completion) -> Any:
        self.calls += 1
        return replace(super().read(request, completion), read_by=str(self.calls))


class Fragile(Good):
    def winner(self, text: str) -> str | None:
        return json.loads(text)["better"]


class Guessing(Good):
    def winner(self, text: str) -> str | None:
        return super().winner(text) or "first"


class Blind(Good):
    def margin(self, request: JudgeRequest, margin: float) -> float:
        return margin


class Level(Good):
    def margin(self, request: JudgeRequest, margin: float) -> float:
        return 0.0


class Loud(Good):
    def margin(self, request: JudgeRequest, margin: float) -> float:
        return 7 * super().margin(request, margin)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (Fickle, "plan returns other requests when it is called again"),
        (plan(lambda requests: []), "plan returns no requests"),
        (plan(every(case_id="x")), "case_id is 'x'"),
        (plan(every(unit=(1, 0))), "unit [1, 0] is not an ascending selection of [0, 1]"),
        (plan(every(unit=(0, 9), shown=(9, 0))), "unit [0, 9] is not an ascending selection"),
        (plan(every(shown=(0, 0))), "shown is not a permutation of unit [0, 1]"),
        (plan(every(turn=1)), "a first request has turn 1 and sample 0"),
        (plan(every(messages=())), "messages must be at least one text with a role"),
        (
            plan(lambda requests: [requests[0]] * 2),
            "unit, order and sample ((0, 1), (0, 1), 0) are requested twice",
        ),
        (
            plan(every(messages=({"role": "user", "content": "?"},))),
            "two requests have the same content key",
        ),
        (Moody, "read returns another result when it is called again"),
        (Fragile, "broken JSON: read raises JSONDecodeError"),
        (Guessing, "a refusal: read as ok with a value, but a missing answer is never a score"),
        (Blind, "value is 1.0, and 1.0 with the order reversed: margins must be un-swapped"),
        (Level, "every answer is a tie"),
        (Loud, "values [7.0] are not finite, or margins not between -1 and 1"),
        (
            read(lambda request, found: replace(found, sample=3)),
            "a judgment's sample is 3, but the request's is 0",
        ),
        (
            read(lambda request, found: replace(found, error=None)),
            "no error that explains why there is none",
        ),
        (
            read(lambda request, found: replace(found, confidence=3.0)),
            "confidence 3.0 is not between 0 and 1",
        ),
        (
            read(lambda request, found: replace(found, value=None)),
            "status ok has no value, criteria",
        ),
        (read(lambda request, found: request), "a repeated request has turn 0 after turn 0"),
        (
            read(lambda request, found: replace(request, turn=request.turn + 1)),
            "read still returns a request after 4 answers",
        ),
        (
            read(lambda request, found: None),
            "read returns a NoneType, neither a Judgment nor a JudgeRequest",
        ),
        (
            read(lambda request, found: replace(found, status="failed", error="x")),
            "no answer could be read",
        ),
    ],
)
def test_each_way_of_being_wrong_is_told(broken, said):
    with pytest.raises(AssertionError) as caught:
        check_evaluator(broken())
    assert said in str(caught.value)


def test_a_ranking_must_turn_with_the_order():
    class Ranking(Good):
        def read(self, request: JudgeRequest, completion: Completion) -> Any:
            found = super().read(request, completion)
            return (
                found if found.value is None else replace(found, value=None, ranking=((0,), (1,)))
            )

    with pytest.raises(AssertionError, match="is not the reverse ranking"):
        check_evaluator(Ranking())


def test_answers_are_made_of_any_schema():
    schema = {
        "type": "object",
        "properties": {
            "list": {
                "type": "array",
                "minItems": 2,
                "items": {"type": "string", "enum": ["x", "y", "z"]},
            },
            "rank": {"type": "integer", "minimum": 1, "maximum": 3},
            "either": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "fixed": {"const": 7},
            "number": {"type": "number"},
        },
    }
    request = JudgeRequest("c", (0,), (0,), (), AnswerFormat("x", schema))
    assert json.loads(example_answer(request)) == {
        "list": ["x", "y"],
        "rank": 1,
        "either": True,
        "fixed": 7,
        "number": 0,
    }
    assert example_answer(replace(request, answer=None)) == ""


def test_the_cases_and_completions_are_what_they_say():
    assert {len(case.responses) for case in CASES} == {2, 3}
    assert all(isinstance(completion, Completion) for completion in ODD.values())
