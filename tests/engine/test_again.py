"""Judgings that jobs of a sweep have alike: known by all that they depend on, and done once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalkit.config import RunConfig
from evalkit.core.sweep_cache import SweepCache
from evalkit.engine import JudgingResult, Progress
from evalkit.engine.judgment_cache import judging_key, reuse_judging
from evalkit.evaluators import make_evaluator
from evalkit.protocols import FollowUpEvaluator
from evalkit.types import Calls, Case, Completion, Judgment, Response

CASE = Case("c", "What is 2 + 2?", tuple(Response(text) for text in ("4", "5")))
BASE: dict[str, Any] = {
    "judge": {"model": "a/m"},
    "criteria": [{"name": "truth", "description": "is true"}],
    "swap": {"policy": "both"},
    "output": {"format": "bracket"},
}


def known(more: dict[str, Any], fingerprint: str = "f") -> str | None:
    config = RunConfig.model_validate(BASE | more)
    return judging_key(config, make_evaluator(config), fingerprint)


@pytest.mark.parametrize(
    "free",
    [
        {"tie": {"threshold": 0.5}},
        {"tie": {"min_confidence": 0.5}},
        {"scoring": {"weights": {"truth": 2}, "bootstrap": 7}},
        {"swap": {"policy": "both", "resolve": "net_vote"}},
        {"gate": {"tie_rate": "< 1"}},
        {"tracking": {"enabled": False}},
        {"dataset": {"path": "other.jsonl"}},
        {"objective": "tie_rate"},
    ],
)
def test_what_only_comes_after_judging_changes_no_judging(free: dict[str, Any]) -> None:
    assert known(free) == known({})


@pytest.mark.parametrize(
    "asked",
    [
        {"judge": {"model": "a/n"}},
        {"judge": {"model": "a/m", "seed": 1}},
        {"judge": {"model": "a/m", "api_base": "http://127.0.0.1:1/v1"}},
        {"mode": {"name": "pairwise", "samples": 2}},
        {"mode": {"name": "listwise"}, "output": {"format": "json"}},
        {"mode": {"name": "pairwise", "commit_first": True}},
        {"criteria": [{"name": "truth", "description": "is not false"}]},
        {"rubric": {"min": 1, "max": 3}},
        {"swap": {"policy": "none"}},
        {"swap": {"policy": "both", "resolve": "third_pass"}},
        {"swap": {"policy": "both", "arbiter": {"model": "a/o"}}},
        {"tie": {"allow": False}},
        {"prompt": {"language": "zh"}},
        {"output": {"format": "json"}},
        {"store": {"mode": "refresh"}},
        {"runner": {"budget_calls": 3}},
    ],
)
def test_whatever_is_asked_and_read_differently_is_another_judging(asked: dict[str, Any]) -> None:
    assert known(asked) != known({})


def test_other_cases_and_other_templates_are_another_judging_and_a_plug_in_is_never_known(tmp_path: Path) -> None:
    config = RunConfig.model_validate(BASE)
    evaluator = make_evaluator(config)
    before = judging_key(config, evaluator, "f")
    assert judging_key(config, evaluator, "g") != before
    own = tmp_path / "en" / "pairwise.md.j2"
    own.parent.mkdir()
    own.write_text("{{ original_prompt }} {{ response_a }} {{ response_b }} {{ criteria }}")
    assert judging_key(config, make_evaluator(config, prompt_folders=[tmp_path]), "f") != before
    elsewhere = config.model_copy(update={"mode": config.mode.model_copy(update={"name": "package.module.Mode"})})
    assert judging_key(elsewhere, evaluator, "f") is None


@pytest.mark.parametrize("commit_first", [False, True])
@pytest.mark.parametrize(
    ("mode", "output"),
    [
        ("pairwise", "bracket"),
        ("pairwise", "json"),
        ("pointwise", "rating"),
        ("pointwise", "json"),
        ("listwise", "json"),
    ],
)
def test_a_mode_looks_at_nothing_that_it_is_not_known_by(mode: str, output: str, *, commit_first: bool) -> None:
    given = {"mode": {"name": mode, "commit_first": commit_first}, "output": {"format": output}}
    config = RunConfig.model_validate(BASE | given | ({"swap": {"policy": "none"}} if mode == "pointwise" else {}))
    hidden = dict.fromkeys(("scoring", "gate", "tracking", "dataset", "objective"))
    blind = config.model_copy(
        update={
            **hidden,
            "tie": config.tie.model_copy(update={"threshold": None, "min_confidence": None}),
            "swap": config.swap.model_copy(update={"resolve": "another"}),
        }
    )
    seeing, unseeing = make_evaluator(config), make_evaluator(blind)
    plan = list(seeing.plan(CASE))
    assert list(unseeing.plan(CASE)) == plan
    for text in ("[[A]]", "[[4]]", '{"winner": "A"}', "no", ""):
        answer = Completion(text, finish_reason="stop")
        assert [unseeing.read(ask, answer) for ask in plan] == [seeing.read(ask, answer) for ask in plan]
    judgments = [Judgment("c", (0, 1), shown, 0, "m", "ok", 1.0) for shown in ((0, 1), (1, 0))]
    asked = [one.follow(CASE, judgments) for one in (seeing, unseeing) if isinstance(one, FollowUpEvaluator)]
    assert asked[1:] == asked[:1] * (len(asked) - 1)


def judging(judgments: int, **counts: Any) -> JudgingResult:
    calls = Calls(**({"planned": judgments, "stored": judgments, "sent": 0, "retried": 0, "failed": 0} | counts))
    made = tuple(Judgment(f"c{n}", (0, 1), (0, 1), 0, "m", "ok", 1.0) for n in range(judgments))
    return JudgingResult(made, calls, {}, 0.0)


def jobs(
    recall: SweepCache | None, *keys: str | None, judged: JudgingResult | None = None, **counts: Any
) -> tuple[int, list[Any]]:
    """Judge one job after another, and return how often that was done, and what was shown of it."""
    done, shown = 0, []

    def judge(observe: Any) -> JudgingResult:
        nonlocal done
        done += 1
        observe(Progress(3, 3, 3, 0, 0, 0, 0, 0, 0.0, elapsed=1.5))
        return judged or judging(3, **counts)

    for key in keys:
        found = reuse_judging(recall, lambda key=key: key, judge, shown.append)  # type: ignore[misc]
        assert len(found.judgments) == 3
    return done, shown


def test_what_was_found_stored_is_not_judged_again_and_shown_as_if_it_were() -> None:
    done, shown = jobs(SweepCache(), "k", "k", "l", "k")
    assert done == 2
    assert [(one.done, one.stored) for one in shown] == [(3, 3)] * 4
    assert shown[1].elapsed == 0.0


@pytest.mark.parametrize("counts", [{"sent": 1}, {"failed": 1}, {"retried": 1}])
def test_what_had_to_be_asked_for_is_judged_again(counts: dict[str, int]) -> None:
    assert jobs(SweepCache(), "k", "k", **counts)[0] == 2


@pytest.mark.parametrize("how", [{"interrupted": True}, {"stopped": "budget"}, {"dropped": {"m": ("seed",)}}])
def test_what_did_not_come_to_its_end_is_judged_again(how: dict[str, Any]) -> None:
    assert jobs(SweepCache(), "k", "k", judged=replace(judging(3), **how))[0] == 2


def test_nothing_is_kept_without_a_key_a_place_or_room() -> None:
    assert jobs(None, "k", "k")[0] == 2
    assert jobs(SweepCache(), None, None)[0] == 2
    assert jobs(SweepCache(room=4_000), "k", "k")[0] == 2


def test_a_judging_that_brought_a_template_into_use_is_not_kept() -> None:
    recall, keys = SweepCache(), iter(["before", "after", "before", "after"])
    for _ in range(2):
        reuse_judging(recall, lambda: next(keys), lambda observe: judging(3), None)
    assert next(keys, None) is None


def test_what_is_kept_longest_unasked_goes_first_and_a_thing_is_known_by_itself() -> None:
    recall = SweepCache(room=100)
    for key in "abcd":
        recall.keep(key, key, 25)
    assert recall.get("a") == "a"
    recall.keep("e", "e", 25)
    assert [recall.get(key) for key in "abcde"] == ["a", None, "c", "d", "e"]
    recall.keep("f", "f", 26)
    assert recall.get("f") is None
    made: list[int] = []

    def count() -> int:
        made.append(1)
        return len(made)

    one, other = [1], [1]
    assert [recall.of(thing, "n", count, lambda _: 1) for thing in (one, one, other, one)] == [1, 1, 2, 1]
