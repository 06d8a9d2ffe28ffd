"""Examples and criteria that alignment chooses and writes."""

import json
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from evalkit.alignment.calls import with_items
from evalkit.alignment.criteria import check_criteria, checked_text, read_proposals, safe_name
from evalkit.alignment.examples import example_sets
from evalkit.alignment.search import Side
from evalkit.config import JudgeConfig, RunConfig
from evalkit.core.errors import ConfigError, DatasetError, PromptError
from evalkit.core.types import Case, ChecklistItem, Response
from evalkit.datasets import with_examples
from evalkit.evaluators.parsing import UnreadableError
from evalkit.scoring.decision import ITEMS, PAIRS
from evalkit.workflows.materials import build_evaluator
from tests.alignment.conftest import lines_sent, pair, passes, prompts_of, recorded, sides, write
from tests.alignment.studies import (
    CLASSES,
    MATTERS,
    MODES,
    PRICE,
    align,
    answered,
    chance,
    criteria_rows,
    criteria_rule,
    example_rows,
    example_rule,
    judged_by_criteria,
    parts,
)
from tests.alignment.test_search import config_of
from tests.support.command_line import call_main
from tests.support.fake_provider import Provider, Reply
from tests.support.thorough import some_of


@pytest.mark.thorough
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
    assert (
        f"to tune: examples; the judge is called for at most {calls} cases, for at most $5" in out
    )


def test_lists_show_no_examples(here, capfd, ties):
    ties(mode={"name": "listwise"}, swap={"policy": "none"})
    for words in (("align",), ("plan", "align")):
        done = call_main(capfd, *words, "run", "tune=examples", "align.budget_usd=1", status=1)
        assert not done.out
        assert done.line().startswith(
            "mode=listwise: prompts of this mode show no examples; tune other settings, or "
        )


def test_sets_show_each_label_in_turn_and_differ():
    config = RunConfig.model_validate(
        {
            "judge": {"model": "m"},
            "criteria": {"q": ""},
            "mode": {"name": "pointwise"},
            "swap": {"policy": "none"},
        }
        | {"rubric": {"levels": {1: "poor", 5: "fine"}}}
    )
    train = [
        Case(f"c{k}", f"q{k}", (Response(f"r{k}", grade=float(k % 3 + 1)),)) for k in range(30)
    ]
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
    texts = {True: [f"good: {'marvelous' if k % 3 == 0 else 'plain'} {k}" for k in range(112)]}
    texts[False] = [f"bad: {k}" for k in range(112)]
    rows = [
        {
            "id": f"c{k}",
            "prompt": f"question {k}",
            "response_a": texts[k % 8 != 0][k],
            "response_b": texts[k % 8 == 0][k],
            "label": "B" if k % 8 == 0 else "A",
        }
        for k in range(112)
    ]
    run(compared, rows, f"prompt={language}", "output=bracket")
    words = align(provider, "examples", "align.examples=4", "align.sets=3")
    assert "the judge is called for at most" in call_main(capfd, "plan", *words).out
    done = call_main(capfd, *words)
    assert recorded()[-1]["outcome"] == "improved"
    assert "rubric.examples: 4 labeled pairs of train" in done.out
    assert "+good: marvelous" in done.out
    preset = yaml.safe_load(Path("conf/method/aligned.yaml").read_text())["rubric"]["examples"]
    assert Counter(one["winner"] for one in preset) == {"A": 2, "B": 2}, (
        "though the data has hardly any B"
    )
    for one in preset:
        better = one["response"] if one["winner"] == "A" else one["response_b"]
        assert better.startswith("good: ")
    assert {one["prompt"] for one in preset} <= prompts_of("train")
    assert not prompts_of("dev", "test") & lines_sent(provider, 0)


def pairwise(**settings: Any) -> RunConfig:
    return RunConfig.model_validate(
        {"judge": {"model": "openai/m", "name": "m"}, "criteria": {"q": ""}, **settings}
    )


def test_winners_take_turns_in_both_positions():
    train = [
        Case(f"c{k}", f"q{k}", (Response(f"x{k}"), Response(f"y{k}")), label="A") for k in range(20)
    ]
    train += [Case(f"t{k}", f"q{k}", (Response("x"), Response("y")), label="TIE") for k in range(5)]
    train.append(Case("three", "q", (Response("x"), Response("y"), Response("z"))))
    sets = example_sets(pairwise(), train, sets=2, size=4, seed=0)
    assert [[one.winner for one in some if one.winner != "TIE"] for some in sets] == [
        ["A", "B"],
        ["B", "A"],
    ]
    for one in (one for some in sets for one in some if one.winner != "TIE"):
        assert (one.response if one.winner == "A" else one.response_b or "").startswith("x"), (
            "the same text wins"
        )
    no_ties = example_sets(pairwise(tie={"allow": False}), train, sets=1, size=30, seed=0)
    assert Counter(one.winner for one in no_ties[0]) == {"A": 10, "B": 10}


PAIR = {"response": "x", "response_b": "y", "justification": "", "winner": "B"}


@pytest.mark.parametrize(("settings", "message"), [
    ({"mode": {"name": "pointwise"}, "swap": {"policy": "none"}},
     "examples.0: it is a pair: set mode=pairwise"),
    ({"tie": {"allow": False}, "winner": "TIE"},
     "rubric.examples.0.winner: ties are not allowed: set tie=allow"),
    ({"response_b": None}, "set winner and response_b together"),
    ({"score": 3}, "set either scores"),
])  # fmt: skip
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


@pytest.mark.parametrize(("row", "message"), [
    ({"winner": "C"}, "'C' is not a winner; write A, B or TIE"),
    ({"winner": "A", "response_b": None}, "'response_b' is missing"),
    ({}, None),
])  # fmt: skip
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


CHECKED: dict[str, Any] = {"swap": {"policy": "none"}, "rubric": {"min": 0, "max": 1, "levels": {}}}
FILE = ("align", "run", "tune=criteria", "align.criteria=own.yaml", "align.budget_usd=1")


@pytest.fixture
def classes(run):
    """A run of the judge that has no criterion which matters."""
    run(criteria_rule, criteria_rows(), *MODES["classes"])


def calls(provider: Provider, model: str) -> int:
    return sum(body["model"] == model for body in provider.requests)


@pytest.mark.parametrize("mode", some_of(MODES, 3))
def test_the_criterion_that_matters_is_kept_and_proved(mode, run, provider, capfd):
    run(criteria_rule, criteria_rows(mode=mode), *MODES[mode])
    before = Path("run/config.yaml").read_text()
    done = call_main(capfd, *align(provider, "criteria"))
    found = recorded()[-1]
    results = {one["name"]: (one["result"], one["of"]) for one in found["proposals"]}
    assert results == {
        "rhymes": ("useless", ""),
        "cites_a_source": ("kept", ""),
        "source": ("duplicate", "cites_a_source"),
        "origin": ("duplicate", "cites_a_source"),
    }
    assert "proposal 5 is not used: it has '<', and plain text is needed" in done.err
    assert "These criteria agree better with dev labels, which they were not made from." in done.out
    assert (found["outcome"], found["test"]) == ("proposed", None)
    assert '"opened": []' in Path("run/split.json").read_text()
    assert Path("run/config.yaml").read_text() == before
    folder = "conf/method" if mode == "checklist" else "conf/criteria"
    path = Path(f"{folder}/aligned.yaml")
    assert f"written: {path}; edit it, then prove it on test labels:" in done.out
    assert f"evalkit align run tune=criteria align.criteria={path} align.budget_usd=…" in done.out
    text = path.read_text()
    assert "rhymes" not in text
    path.write_text(f"{text}# edited\n")
    [written] = [body for body in provider.requests if body["model"] == "writer"]
    assert not prompts_of("dev", "test") & {*written["messages"][1]["content"].splitlines()}
    assert written["messages"][1]["content"].count("## Case") == 8
    dev = sides()["dev"]
    assert calls(provider, "writer") == 1
    assert len(provider.requests) - 1 == 3 * dev, "the item of a checklist's run is stored"
    assert found["calls"] == len(provider.requests)
    assert f"written: {folder}/aligned-2.yaml" in call_main(capfd, *align(provider, "criteria")).out
    provider.requests.clear()
    proved = call_main(
        capfd, "align", "run", "tune=criteria", f"align.criteria={path}", "align.budget_usd=1"
    )
    assert "Better on test labels that did not choose the settings." in proved.out
    group = "method" if mode == "checklist" else "criteria"
    assert f"proved: {path}; use it with {group}=aligned" in proved.out
    assert "Test labels opened once." in proved.out
    assert len(provider.requests) == sides()["test"]
    assert recorded()[-1]["test"]["p"] < 0.05
    more = () if mode != "checklist" else ("mode=checklist", "rubric=share")
    composed = call_main(capfd, "run", f"{group}=aligned", *more, "--cfg", "job").out
    assert "The response cites a source." in composed


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["scores", "checklist"])
def test_shuffled_labels_keep_none(mode, run, provider, capfd):
    run(criteria_rule, criteria_rows(mode=mode, shuffled=True), *MODES[mode])
    out = call_main(capfd, *align(provider, "criteria")).out
    assert "No other settings are better on dev" in out
    assert "kept" not in {one["result"] for one in recorded()[-1]["proposals"]}
    assert not Path("conf").exists()


HALVES = [{"name": f"half {k}", "description": f"It names origins of kind {k}."} for k in (0, 1)]


def half(body: dict[str, Any], proposed: list[dict[str, str]]) -> Reply:
    """Each half finds some responses without a source, and no other."""
    if body["model"] == "writer":
        return answered(json.dumps({"criteria": proposed}))
    _, user, response = parts(body)
    kind = int(chance(response, "half") < 0.5)
    failed = HALVES[kind]["description"] in user and "source" not in response
    return answered("[[fail]]") if failed else judged_by_criteria(body)


def test_a_criterion_that_adds_nothing_to_those_kept_is_left_out(classes, provider, capfd):
    provider.rule = lambda body: half(body, [HALVES[0], MATTERS])
    out = call_main(capfd, *align(provider, "criteria")).out
    results = {one["name"]: one["result"] for one in recorded()[-1]["proposals"]}
    assert results == {"half_0": "covered", "cites_a_source": "kept"}
    assert "adds nothing to those kept" in out
    assert [*yaml.safe_load(Path("conf/criteria/aligned.yaml").read_text())] == [
        "overall quality",
        "cites_a_source",
    ]


def test_criteria_that_add_to_each_other_are_kept_together(classes, provider, capfd):
    provider.rule = lambda body: half(body, HALVES)
    dev = sides()["dev"]
    cut = call_main(
        capfd, *align(provider, "criteria", budget=(1 + 2.5 * dev) * PRICE), status=2
    ).out
    assert "The budget did not pay for all answers" in cut
    assert not Path("conf").exists()
    call_main(capfd, *align(provider, "criteria"))
    assert {one["result"] for one in recorded()[-1]["proposals"]} == {"kept"}
    text = Path("conf/criteria/aligned.yaml").read_text()
    assert "the last 2 are new" in text
    assert {*yaml.safe_load(text)} == {"overall quality", "half_0", "half_1"}
    assert len(provider.requests) == 3 * dev + 1
    Path("own one.yaml").write_text(text)
    out = call_main(
        capfd, "align", "run", "tune=criteria", "align.criteria=own one.yaml", "align.budget_usd=1"
    ).out
    assert (
        "proved: own one.yaml; copy it to conf/criteria, and use it with 'criteria=own one'" in out
    )
    Path("own one.yaml").rename("conf/criteria/own one.yaml")
    assert "half_1" in call_main(capfd, "run", "criteria=own one", "--cfg", "job").out


@pytest.mark.parametrize(("answer", "message"), [
    ("I will not", "align.model: proposed nothing: "),
    ('{"criteria": "none"}',
     "align.model: its answer has no list of criteria; choose another align.model"),
    ('{"criteria": [', "align.model: "),
    ("\x1b[31m{\u202e", "align.model: proposed nothing: "),
])  # fmt: skip
def test_a_broken_answer_is_one_line(answer, message, classes, provider, capfd):
    provider.rule = lambda body: answered(answer)
    done = call_main(capfd, *align(provider, "criteria"), status=1)
    [line] = [one for one in done.err.strip().splitlines() if not one.startswith("note")]
    assert message in line
    assert line.isprintable()
    assert done.out == ""
    assert not Path("conf").exists()


def test_the_model_is_asked_in_the_language_of_the_run(run, provider, capfd):
    run(criteria_rule, criteria_rows(30), *MODES["classes"], "prompt.language=zh")
    call_main(capfd, *align(provider, "criteria"))
    [written] = [body for body in provider.requests if body["model"] == "writer"]
    assert "你负责改进 LLM 评审的评审标准。" in written["messages"][0]["content"]


def test_a_plan_says_the_smallest_gain_and_the_most_it_costs(classes, provider, capfd):
    n, m = sides()["dev"], sides()["test"]
    out = call_main(capfd, "plan", *align(provider, "criteria", budget=5)).out
    assert "to tune: criteria; writer proposes at most 6 criteria, and " in out
    assert f"the judge is called for at most {11 * n} cases, for at most $5" in out
    assert (
        "smallest gain of one criterion of 6 that dev can show, with a probability of 0.8: 0."
        in out
    )
    assert "smallest gain in agreement/kappa that these labels can prove" in out
    Path("own.yaml").write_text("good: good\nmore: better\n")
    out = call_main(capfd, "plan", *FILE).out
    assert f"the judge is called for at most {n + m} cases, for at most $1" in out
    assert not provider.requests


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "own.yaml: "),
        ("- a\n- b\n", "own.yaml: not a mapping; write it as "),
        ("a: [\n", "own.yaml: line "),
        ("a: {wieght: 2}\n", "own.yaml: criteria.a.wieght: no such key; did you mean 'weight'?"),
        ("{}\n", "own.yaml: criteria: there are none"),
        ('"a\\e[2J": x\n', "own.yaml: the name 'a�[2J' has control characters; rename it"),
        (
            "a: ${oc.env:HOME}\n",
            "own.yaml: has `${`, and a text that it stands for later is not the one",
        ),
        (
            None,
            "own.yaml: cannot be read (No such file or directory); set align.criteria to a file of criteria",
        ),
    ],
)
def test_a_wrong_file_is_one_line(content, message, classes, provider, capfd):
    if content is not None:
        Path("own.yaml").write_text(content)
    for command in ((), ("plan",)):
        assert message in call_main(capfd, *command, *FILE, status=1).line()
    assert not provider.requests


def test_a_pipe_is_not_waited_for(classes, provider, capfd):
    os.mkfifo("own.yaml")
    assert "own.yaml: is not a file" in call_main(capfd, *FILE, status=1).line()
    assert not provider.requests


def test_a_file_with_what_the_run_has_is_refused(run, provider, capfd):
    run(criteria_rule, criteria_rows(mode="checklist"), *MODES["checklist"])
    for content, message in (
        (
            "mode: {checklist: [{id: polite, criterion: 'Polite?'}]}",
            "own.yaml: has the run's own criteria",
        ),
        ("mode: {checklist: [{id: x, after: [y], criterion: a}]}", "own.yaml: "),
        ("checklist: [a]", "own.yaml: "),
    ):
        Path("own.yaml").write_text(content)
        assert message in call_main(capfd, *FILE, status=1).line()
    assert not provider.requests


def test_a_template_without_criteria_is_refused(ties, here, capfd):
    ties(dataset={"path": "pairs.jsonl"}, prompt={"template": str(here / "own.md.j2")})
    (here / "own.md.j2").write_text(
        "{{ original_prompt }} {{ response_a }} {{ response_b }} {{ output_instruction }}"
    )
    line = call_main(
        capfd,
        "align",
        "run",
        "tune=criteria",
        "align.model=openai/x",
        "align.budget_usd=1",
        status=1,
    ).line()
    assert "own.md.j2: has no placeholder 'criteria'" in line


def test_a_judge_that_agrees_with_all_labels_has_nothing_to_propose_from(here, capfd):
    cases = [pair(k, "AB"[k % 2]) for k in range(40)]
    judged = [one for k in range(40) for one in passes(k, (1.0, -1.0)[k % 2])]
    write(
        Path("run"),
        cases,
        judged,
        judge={"model": "openai/m", "price": {"input": 1, "output": 1}, "max_tokens": 9},
    )
    model = (
        "align.model=openai/x",
        "align.model.price={input: 1, output: 1}",
        "align.model.max_tokens=9",
    )
    done = call_main(capfd, "align", "run", "tune=criteria", *model, "align.budget_usd=1")
    assert "the judge agrees with all labels of train" in done.err
    assert "No other settings are better on dev" in done.out
    assert "No calls, $0" in done.out


def test_runs_whose_labels_or_judges_say_nothing_about_criteria_are_refused(tmp_path):
    result = write(tmp_path / "run", [pair(0, "A")], passes(0, 1.0))
    rewards = {"model": "m", "api_base": "http://x", "endpoint": "score"}
    cascade = {"judges": [{"model": "a"}, {"model": "b"}], "vote": "cascade"}
    for changed, kind, message in (
        (result, ITEMS, "the labels are of checklist items, and a proposed item has none"),
        (
            replace(result, config=config_of(judge=cascade)),
            PAIRS,
            "the labels choose the thresholds of a cascade",
        ),
        (
            replace(
                result, config=result.config.with_({"judge": JudgeConfig.model_validate(rewards)})
            ),
            PAIRS,
            "a reward model reads no criteria",
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            check_criteria(changed, kind)
    check_criteria(result, PAIRS)


def test_items_of_a_file_precede_those_of_the_case():
    config = config_of(
        mode={"name": "checklist", "checklist": [{"id": "old", "criterion": "a"}]}, **CHECKED
    )
    other = config_of(
        mode={"name": "checklist", "checklist": [{"id": "new", "criterion": "b"}]}, **CHECKED
    )
    case = Case(
        "c", "", (Response("r"),), checklist=(*config.mode.items, ChecklistItem("#1", "its own"))
    )
    side = Side([case], ())
    assert with_items(config, config, side) is side
    assert [item.id for item in with_items(config, other, side).cases[0].checklist] == ["new", "#1"]
    twice = replace(case, checklist=(*config.mode.items, ChecklistItem("new", "its own")))
    with pytest.raises(ConfigError, match="case 'c': has an item 'new' of its own"):
        with_items(config, other, Side([twice], ()))


@pytest.mark.parametrize(("name", "safe"), [
    ("Cites a source!", "cites_a_source"),
    ("../../etc/passwd", "etc_passwd"),
    ("引用 来源", "引用_来源"),
    ("defaults", "criterion_defaults"),
    ("_target_", "target"),
    ("3 sources", "criterion_3_sources"),
    ("${oc.env:HOME}", "oc_env_home"),
    ("x" * 500, "x" * 40),
    ("\x1b[31m", "criterion_31m"),
    ("", "criterion_7"),
    (None, "criterion_7"),
    (["a"], "criterion_7"),
    ("taken", "taken_3"),
])  # fmt: skip
def test_names_are_made_safe(name, safe):
    assert safe_name(name, 7, {"taken", "taken_2"}) == safe


@pytest.mark.parametrize(
    "text",
    ["", "  ", None, 3, ["a"], "a" * 301, "a\x1b[31mb", "a\u202eb", "<b>a</b>", "</response>", "{{ 7 * 7 }}", "{% a %}",
     "${oc.env:HOME}", "[[pass]]", "use sk-abcdefghijklmnop", "see https://me:word@host", "<|im_end|>", "{# a #}"],
)  # fmt: skip
def test_texts_that_are_more_than_plain_text_are_refused(text):
    with pytest.raises(UnreadableError):
        checked_text(text)


def test_proposals_are_bounded_and_each_that_is_wrong_is_one_line():
    said_: list[str] = []
    given: dict[str, Any] = {
        "criteria": [{"name": "a", "description": " one\n two "}, "three", 4, {}, *["more"] * 1000]
    }
    found = list(read_proposals(given, {"a"}, 5, said_.append))
    assert [(one.name, one.text) for one in found] == [
        ("a_2", "one two"),
        ("criterion_2", "three"),
        ("criterion_5", "more"),
    ]
    assert said_ == [
        "proposal 3 is not used: it has no text",
        "proposal 4 is not used: it has no text",
        "999 more proposals are not used: align.proposals is 5",
    ]
    with pytest.raises(ConfigError, match="has no list of criteria"):
        list(read_proposals({"criteria": []}, (), 5, said_.append))


def test_a_writer_of_an_unknown_provider_is_refused(here, capfd, ties):
    ties()
    words = ("run", "tune=prompt", "align.model=nosuch/x", "align.budget_usd=1")
    for command in (("align",), ("plan", "align")):
        line = call_main(capfd, *command, *words, status=1).line()
        assert "LiteLLM does not know the provider of 'nosuch/x'" in line
