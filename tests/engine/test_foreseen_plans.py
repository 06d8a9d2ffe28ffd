"""A plan that fills no prompt says what one says that fills all, and what a run then asks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.config import RunConfig, RunnerConfig
from evalkit.engine import judge, plan, signature_plans
from evalkit.errors import DatasetError, PluginError
from evalkit.evaluators import make_evaluator
from evalkit.evaluators.pairwise import Pairwise
from evalkit.evaluators.third_party import foresight, guard_evaluator
from evalkit.protocols import Evaluator
from evalkit.types import Case, CaseTexts, JudgeSpec, Response
from tests.support.engine_fakes import DONE, Scripted

PIECES = (
    "",
    " ",
    "a",
    "b",
    "a b",
    "\n",
    "<task>",
    "&lt;task>",
    "\n</task>",
    "<response_a>\n",
    "[INST]",
    "评语",
    "é",
    "\ud800",
)
texts = st.sampled_from(PIECES) | st.lists(st.sampled_from(PIECES), max_size=3).map("".join)
optional = st.none() | texts


@st.composite
def data_sets(draw: st.DrawFn, least: int = 2) -> list[Case]:
    """Cases of a few texts, so that many requests are equal, each with an id of its own."""
    made = []
    for number in range(draw(st.integers(1, 7))):
        responses = tuple(map(Response, draw(st.lists(texts, min_size=least, max_size=3))))
        made.append(Case(f"c{number}", draw(texts), responses, draw(optional), draw(optional)))
    return made


TWICE = {"model": "fake/model", "temperature": 0.5}
WAYS: dict[str, dict[str, Any]] = {
    "both orders": {},
    "one order": {"swap": {"policy": "none"}},
    "orders drawn": {"swap": {"policy": "random"}, "mode": {"samples": 3}},
    "samples": {"mode": {"samples": 2}, "tie": {"allow": False}},
    "an arbiter": {"swap": {"resolve": "third_pass", "arbiter": {"model": "fake/other"}}},
    "text": {"output": {"format": "bracket"}},
    "Chinese": {"prompt": {"language": "zh"}},
    "scores": {"mode": {"name": "pointwise"}, "swap": {"policy": "none"}},
    "scores, samples": {"mode": {"name": "pointwise", "samples": 2}, "swap": {"policy": "none"}},
    "a panel of equals": {"judge": {"name": "p", "judges": [{"name": "x", **TWICE}, {"name": "y", **TWICE}]}},
}
CONFIGS = {
    name: RunConfig.model_validate({"judge": {"model": "fake/model"}, "criteria": [{"name": "overall"}], **way})
    for name, way in WAYS.items()
}
EVALUATORS = {name: make_evaluator(config) for name, config in CONFIGS.items()}
SPEC = JudgeSpec("fake", "fake/model", None, {"temperature": 0})
OTHER = JudgeSpec("fake", "fake/model", None, {"temperature": 1})


def foreseen(cases: Sequence[Case], evaluator: Evaluator, spec: JudgeSpec = SPEC) -> Any:
    foresee = foresight(evaluator)
    assert foresee is not None
    [told] = signature_plans(map(CaseTexts.of, cases), foresee, [spec])
    return told


def numbers(plan: Any) -> tuple[Any, ...]:
    kinds = [(kind.answer and kind.answer.name, kind.wanted, kind.found) for kind in plan.kinds]
    return plan.requests, plan.stored, plan.unique, plan.prompt_tokens, kinds, plan.told


@pytest.mark.parametrize("way", EVALUATORS)
@settings(max_examples=30)
@given(data_sets())
def test_it_says_what_filling_every_prompt_says(way: str, cases: list[Case]) -> None:
    evaluator = EVALUATORS[way]
    assert numbers(foreseen(cases, evaluator)) == numbers(plan(cases, evaluator, [SPEC], None))


@settings(max_examples=40)
@given(st.data(), st.sampled_from(sorted(EVALUATORS)), st.sampled_from(sorted(EVALUATORS)), st.booleans())
def test_what_is_asked_for_another_job_anyway_is_known_again(data: Any, one: str, two: str, same_judge: bool) -> None:
    cases = data.draw(data_sets())
    others = [*cases[::2], *data.draw(data_sets())]
    spec = SPEC if same_judge else OTHER
    quick = foreseen(cases, EVALUATORS[one]).after([foreseen(others, EVALUATORS[two], spec)])
    exact = plan(cases, EVALUATORS[one], [SPEC], None).after([plan(others, EVALUATORS[two], [spec], None)])
    assert numbers(quick) == numbers(exact)


@given(data_sets())
def test_each_judge_of_a_panel_has_a_plan_of_its_own(cases: list[Case]) -> None:
    evaluator = EVALUATORS["both orders"]
    foresee = foresight(evaluator)
    assert foresee is not None
    told = signature_plans(map(CaseTexts.of, cases), foresee, [SPEC, OTHER, SPEC])
    exact = [plan(cases, evaluator, [spec], None) for spec in (SPEC, OTHER, SPEC)]
    assert list(map(numbers, told)) == list(map(numbers, exact))
    for place, before in ((1, 0), (2, 0), (2, 1)):
        assert numbers(told[place].after([told[before]])) == numbers(exact[place].after([exact[before]]))


@pytest.mark.parametrize("way", ["both orders", "orders drawn", "scores, samples"])
@settings(max_examples=5)
@given(data_sets())
def test_a_run_then_asks_as_much(way: str, cases: list[Case]) -> None:
    told = foreseen(cases, EVALUATORS[way], JudgeSpec("fake", "fake/model"))
    # What cannot be read is asked once more; what is refused is not.
    judge_ = Scripted(lambda request, nth: replace(DONE, refusal="no"))
    judged = asyncio.run(judge(cases, EVALUATORS[way], [judge_], None, RunnerConfig(retries=0)))
    assert (judged.calls.planned, judged.calls.sent) == (told.requests, told.unique)
    assert judged.calls.stored == told.requests - told.unique


def test_a_case_that_the_mode_cannot_take_is_refused_in_the_same_words() -> None:
    alone = [Case("c", "p", (Response("a"),))]
    said = set()
    for way in (foreseen, lambda cases, evaluator: plan(cases, evaluator, [SPEC], None)):
        with pytest.raises(DatasetError) as refused:
            way(alone, EVALUATORS["both orders"])
        said.add(str(refused.value))
    assert len(said) == 1


class Altered(Pairwise):
    """A subclass may ask what it likes."""


class Own(Pairwise):
    def foresee(self, case: CaseTexts) -> Any:
        raise ValueError("nothing is foreseen")


def test_only_a_class_of_its_own_is_believed(tmp_path: Path) -> None:
    config = CONFIGS["both orders"]
    both: Any = EVALUATORS["both orders"]
    assert foresight(both) is not None
    assert foresight(Altered(config, both._prompts)) is None
    assert foresight(guard_evaluator(Altered(config, both._prompts), "altered")) is None
    (tmp_path / "bare.md.j2").write_text(
        "{{ original_prompt }} {{ response_a }} {{ response_b }}{% for c in criteria %}{{ c.name }}{% endfor %}"
    )
    bare = config.model_copy(
        update={"prompt": config.prompt.model_copy(update={"template": str(tmp_path / "bare.md.j2")})}
    )
    assert foresight(make_evaluator(bare)) is None
    committed = config.model_copy(update={"mode": config.mode.model_copy(update={"commit_first": True})})
    assert foresight(make_evaluator(committed)) is None
    own = foresight(guard_evaluator(Own(config, both._prompts), "own"))
    assert own is not None
    with pytest.raises(PluginError, match="'own' fails in foresee on case 'c': ValueError: nothing is foreseen"):
        own(CaseTexts("c", "p", None, None, ("a", "b")))
