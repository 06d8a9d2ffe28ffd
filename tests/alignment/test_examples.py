"""Examples for a judge on loopback whose answers depend on them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from evalkit.alignment.examples import example_sets
from evalkit.api import build_evaluator
from evalkit.config import RunConfig
from evalkit.datasets import with_examples
from evalkit.errors import DatasetError, PromptError
from evalkit.types import Case, Response
from tests.alignment.conftest import lines_sent, prompts_of, recorded, sides
from tests.alignment.studies import CLASSES, align, answered, example_rows, example_rule
from tests.support.command_line import call_main
from tests.support.fake_provider import Reply


def test_the_better_examples_are_found_and_proved(run, provider, capfd):
    run(example_rule, example_rows(), *CLASSES)
    done = call_main(capfd, *align(provider, "examples"))
    assert "Better on test labels that did not choose the settings." in done.out
    assert "rubric.examples: 2 labeled responses of train" in done.out
    assert "+good: marvelous" in done.out
    assert "examples 6 of 6: agreement" in done.err
    preset = yaml.safe_load(Path("conf/method/aligned.yaml").read_text())["rubric"]["examples"]
    assert Counter(one["class_name"] for one in preset) == {"pass": 1, "fail": 1}
    assert {one["prompt"] for one in preset} <= prompts_of("train")
    assert not prompts_of("dev", "test") & lines_sent(provider, 0)
    [found] = recorded()
    calls = len(provider.requests)
    assert calls == 6 * sides()["dev"] + sides()["test"] == found["calls"]
    assert found["test"]["after"]["value"] == 1.0
    assert f"{calls} calls, $" in done.out
    assert "No calls, $0" in call_main(capfd, *align(provider, "examples", budget=0.01)).out
    call_main(capfd, "run", "run/config.yaml", "--cfg", "job")
    out = call_main(capfd, "plan", *align(provider, "examples", budget=5)).out
    assert f"to tune: examples; the judge is called for at most {calls} cases, for at most $5" in out


def test_lists_show_no_examples(tmp_path, monkeypatch, capfd, ties):
    monkeypatch.chdir(tmp_path)
    ties(mode={"name": "listwise"}, swap={"policy": "none"})
    for words in (("align",), ("plan", "align")):
        done = call_main(capfd, *words, "run", "tune=examples", "align.budget_usd=1", status=1)
        assert not done.out
        assert done.line().startswith("mode=listwise: prompts of this mode show no examples; tune other settings, or ")


def test_sets_show_each_label_in_turn_and_differ():
    config = RunConfig.model_validate(
        {"judge": {"model": "m"}, "criteria": {"q": ""}, "mode": {"name": "pointwise"}, "swap": {"policy": "none"}}
        | {"rubric": {"levels": {1: "poor", 5: "fine"}}}
    )
    train = [Case(f"c{k}", f"q{k}", (Response(f"r{k}", grade=float(k % 3 + 1)),)) for k in range(30)]
    train.append(Case("off", "q", (Response("r", grade=2.5), Response("s"))))
    sets = example_sets(config, train, sets=4, size=6, seed=0)
    assert [Counter(one.score for one in some) for some in sets] == [{1.0: 2, 2.0: 2, 3.0: 2}] * 4
    assert len({tuple(one.response for one in some) for some in sets}) == 4
    assert {one.justification for some in sets for one in some if one.score == 1} == {"poor"}
    assert (
        sets
        == example_sets(config, train, sets=4, size=6, seed=0)
        != example_sets(config, train, sets=4, size=6, seed=1)
    )


def compared(body: dict[str, Any]) -> Reply:
    """Know which response is better if an example of a marvelous one says how; else take the first one."""
    system, user = (message["content"] for message in body["messages"])
    right = "good: marvelous" in re.split("# Compared examples|# 已比较的示例", system)[-1]
    second = "bad: " in user.partition("<response_a>")[2].partition("</response_a>")[0]
    return answered("[[B]]" if second and right else "[[A]]")


@pytest.mark.parametrize("language", [pytest.param("en", marks=pytest.mark.thorough), "zh"])
def test_examples_of_pairs_are_found_in_both_languages(language, run, provider, capfd):
    """Response A is nearly always the better one."""
    texts = {True: [f"good: {'marvelous' if k % 3 == 0 else 'plain'} {k}" for k in range(150)]}
    texts[False] = [f"bad: {k}" for k in range(150)]
    rows = [
        {
            "id": f"c{k}",
            "prompt": f"question {k}",
            "response_a": texts[k % 8 != 0][k],
            "response_b": texts[k % 8 == 0][k],
            "label": "B" if k % 8 == 0 else "A",
        }
        for k in range(150)
    ]
    run(compared, rows, f"prompt={language}", "output=bracket")
    words = align(provider, "examples", "align.examples=4", "align.sets=3")
    assert "the judge is called for at most" in call_main(capfd, "plan", *words).out
    done = call_main(capfd, *words)
    assert recorded()[-1]["outcome"] == "improved"
    assert "rubric.examples: 4 labeled pairs of train" in done.out
    assert "+good: marvelous" in done.out
    preset = yaml.safe_load(Path("conf/method/aligned.yaml").read_text())["rubric"]["examples"]
    assert Counter(one["winner"] for one in preset) == {"A": 2, "B": 2}, "though the data has hardly any B"
    for one in preset:
        better = one["response"] if one["winner"] == "A" else one["response_b"]
        assert better.startswith("good: ")
    assert {one["prompt"] for one in preset} <= prompts_of("train")
    assert not prompts_of("dev", "test") & lines_sent(provider, 0)
    calls = len(provider.requests)
    call_main(capfd, "run", "run/config.yaml", "method=aligned", "--output", "after")
    assert calls < len(provider.requests) <= calls + 2 * sides()["train"], "answers of dev and test were stored"


def pairwise(**settings: Any) -> RunConfig:
    return RunConfig.model_validate({"judge": {"model": "m"}, "criteria": {"q": ""}, **settings})


def test_winners_take_turns_in_both_positions():
    train = [Case(f"c{k}", f"q{k}", (Response(f"x{k}"), Response(f"y{k}")), label="A") for k in range(20)]
    train += [Case(f"t{k}", f"q{k}", (Response("x"), Response("y")), label="TIE") for k in range(5)]
    train.append(Case("three", "q", (Response("x"), Response("y"), Response("z"))))
    sets = example_sets(pairwise(), train, sets=2, size=4, seed=0)
    assert [[one.winner for one in some if one.winner != "TIE"] for some in sets] == [["A", "B"], ["B", "A"]]
    for one in (one for some in sets for one in some if one.winner != "TIE"):
        assert (one.response if one.winner == "A" else one.response_b or "").startswith("x"), "the same text wins"
    no_ties = example_sets(pairwise(tie={"allow": False}), train, sets=1, size=30, seed=0)
    assert Counter(one.winner for one in no_ties[0]) == {"A": 10, "B": 10}


PAIR = {"response": "x", "response_b": "y", "justification": "", "winner": "B"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": {"name": "pointwise"}, "swap": {"policy": "none"}}, "examples.0: it is a pair: set mode=pairwise"),
        ({"tie": {"allow": False}, "winner": "TIE"}, "rubric.examples.0.winner: ties are not allowed: set tie=allow"),
        ({"response_b": None}, "set winner and response_b together"),
        ({"score": 3}, "set either scores"),
    ],
)
def test_examples_of_pairs_that_cannot_be_shown_are_refused(settings, message):
    parts = {name: settings.pop(name) for name in PAIR | {"score": 0} if name in settings}
    with pytest.raises(ValidationError, match=re.escape(message)):
        pairwise(rubric={"examples": [{**PAIR, **parts}]}, **settings)


def test_a_template_must_show_the_examples_of_pairs(tmp_path):
    path = tmp_path / "own.md.j2"
    path.write_text(
        "{{ original_prompt }} {{ response_a }} {{ response_b }} {{ criteria[0].name }} {{ output_instruction }}"
    )
    config = pairwise(rubric={"examples": [PAIR]}, prompt={"template": str(path)})
    with pytest.raises(PromptError, match="has no placeholder 'examples'"):
        build_evaluator(config)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"winner": "C"}, "'C' is not a winner; write A, B or TIE"),
        ({"winner": "A", "response_b": None}, "'response_b' is missing"),
        ({}, None),
    ],
)
def test_examples_of_pairs_are_read_from_a_file(row, message, tmp_path):
    path = tmp_path / "examples.jsonl"
    path.write_text(json.dumps({**PAIR, **row}))
    config = pairwise(rubric={"examples_path": str(path)})
    if message is not None:
        with pytest.raises(DatasetError, match=re.escape(message)):
            with_examples(config)
        return
    [one] = with_examples(config).rubric.examples
    assert one.model_dump(exclude_defaults=True) == PAIR
