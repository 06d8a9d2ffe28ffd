"""Criteria that a model on loopback proposes to a judge on loopback whose answers depend on them."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalkit.alignment.criteria import check_criteria, checked_text, read_proposals, safe_name, with_items
from evalkit.alignment.search import Side
from evalkit.config import JudgeConfig
from evalkit.decision import ITEMS, PAIRS
from evalkit.errors import ConfigError
from evalkit.holdout import read_split
from evalkit.parsing import UnreadableError
from evalkit.types import Case, ChecklistItem, Response
from tests.alignment.conftest import pair, passes, write
from tests.alignment.test_search import config_of
from tests.support.command_line import Commands, call_main
from tests.support.fake_provider import Provider, Reply, said

N, PRICE = 240, 1e-4  # of one call
MODES: dict[str, tuple[str, ...]] = {
    "classes": ("mode=pointwise", "rubric=pass_fail", "output=bracket", "criteria=overall"),
    "scores": ("mode=pointwise", "rubric=likert5", "output=json", "criteria=overall"),
    "checklist": ("mode=checklist", "rubric=share", "output=json", "mode.checklist=[{id: polite, criterion: Polite?}]"),
}
MATTERS = {"name": "Cites a source!", "description": "The response cites a source."}
SAME = {"name": "source", "description": "  the RESPONSE cites a source"}
AGREES = {"name": "origin", "description": "It names the origin of each claim."}
USELESS = {"name": "rhymes", "description": "The response has rhymes."}
HOSTILE = {"name": "../{{x}}", "description": "<script>alert(1)</script>"}
CHECKED: dict[str, Any] = {"swap": {"policy": "none"}, "rubric": {"min": 0, "max": 1, "levels": {}}}
PROPOSED = [USELESS, MATTERS, SAME, AGREES, HOSTILE]


def chance(text: str, of: str) -> float:
    return int(hashlib.sha256((of + text).encode()).hexdigest()[:8], 16) / 16**8


def value(description: str, response: str) -> float:
    """How far a response meets a criterion, in [0, 1]."""
    if description in (MATTERS["description"], AGREES["description"]):
        return float("source" in response)
    return round(chance(response, description))


def judge(body: dict[str, Any]) -> Reply:
    user = body["messages"][1]["content"]
    response = user.partition("<response>")[2].partition("</response>")[0].strip()
    if "Requirement" in user:
        text = user.partition("<requirements>")[2].partition("</requirements>")[0].strip().removeprefix("1. ")
        answer = {"reason": "", "answer": "met" if value(text, response) else "not_met"}
        return said(json.dumps(answer), usage=(100, 0))
    added = [one for one in PROPOSED if one["description"] in user]
    if "[[pass]]" in user:
        wanted = [value(one["description"], response) for one in added]
        useful = [one for one, own in zip(added, wanted, strict=True) if one is not USELESS and not own]
        return said("[[fail]]" if useful else "[[pass]]", usage=(100, 0))
    scores = {"overall quality": 1 + 4 * chance(response, "overall")}
    scores |= {safe_name(one["name"], 0, ()): 1 + 4 * value(one["description"], response) for one in added}
    entries = [{"criterion": k, "justification": "", "examples": [], "score": round(v)} for k, v in scores.items()]
    return said(json.dumps({"scores": entries}), usage=(100, 0))


def rule(body: dict[str, Any]) -> Reply:
    if body["model"] == "writer":
        return said(json.dumps({"criteria": PROPOSED}), usage=(100, 0))
    return judge(body)


@pytest.fixture
def run(provider: Provider, tmp_path, monkeypatch, capfd) -> Callable[..., None]:
    """Write a run of such a judge, with labels held out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    provider.rule = rule

    def make(mode: str, *words: str, shuffled: bool = False) -> None:
        generator = random.Random(0)
        sources = [generator.random() < 0.5 for _ in range(N)]
        good = generator.sample(sources, N) if shuffled else sources
        label = {"classes": ("fail", "pass"), "scores": (1, 5), "checklist": (0, 1)}[mode]
        rows = [
            {
                "id": f"c{k}",
                "prompt": f"question {k}",
                "response": f"answer {k}{' with a source' if sources[k] else ''}",
                "label": label[good[k]],
            }
            for k in range(N)
        ]
        Path("cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        price = f"judge.price={{input: {PRICE * 1e4}, output: 0}}"
        server = ("judge=openai_compatible", f"judge.api_base={provider.api_base}", "judge.transport=direct", price)
        data = ("dataset=file", "dataset.path=cases.jsonl", "dataset.holdout=0.3", "tracking=none")
        more = ("judge.max_tokens=1", "scoring.bootstrap=50")
        call_main(capfd, "run", *server, *MODES[mode], *data, *more, "--output", "run", *words)
        provider.requests.clear()

    return make


def words(provider: Provider, *more: str) -> list[str]:
    model = f"{{model: openai/writer, api_base: '{provider.api_base}', transport: direct, max_tokens: 500, price: "
    model += f"{{input: {PRICE * 1e4}, output: 0}}}}"
    return ["align", "run", "tune=criteria", f"align.model={model}", "align.budget_usd=1", *more]


def calls(provider: Provider, model: str) -> int:
    return sum(body["model"] == model for body in provider.requests)


def recorded() -> dict[str, Any]:
    last: dict[str, Any] = json.loads(Path("run/alignments.json").read_text())["alignments"][-1]
    return last


@pytest.mark.parametrize("mode", MODES)
def test_the_criterion_that_matters_is_kept_and_proved(mode, run, provider, capfd):
    run(mode)
    before = Path("run/config.yaml").read_text()
    done = call_main(capfd, *words(provider))
    found = recorded()
    results = {one["name"]: (one["result"], one["of"]) for one in found["proposals"]}
    assert results == {
        "rhymes": ("useless", ""),
        "cites_a_source": ("kept", ""),
        "source": ("duplicate", "cites_a_source"),
        "origin": ("duplicate", "cites_a_source"),
    }
    assert "proposal 5 is not used: it has '<', and plain text is needed" in done.err
    assert "These criteria agree better with dev labels, which they were not made from." in done.out
    assert found["outcome"] == "proposed"
    assert found["test"] is None
    split = read_split(Path("run"))
    assert split is not None
    assert split.opened == ()
    assert Path("run/config.yaml").read_text() == before
    folder = "conf/method" if mode == "checklist" else "conf/criteria"
    path = Path(f"{folder}/aligned.yaml")
    assert f"written: {path}; edit it, then prove it on test labels:" in done.out
    assert f"evalkit align run tune=criteria align.criteria={path} align.budget_usd=…" in done.out
    text = path.read_text()
    assert "rhymes" not in text
    path.write_text(text.replace("cites a source", "cites a source") + "# edited\n")
    shown = {f"question {id_[1:]}" for id_ in (*split.dev, *split.test)}
    [written] = [body for body in provider.requests if body["model"] == "writer"]
    assert not [line for line in written["messages"][1]["content"].splitlines() if line in shown]
    assert written["messages"][1]["content"].count("## Case") == 8
    asked = len(split.dev) * (2 if mode == "checklist" else 1)
    stored = len(split.dev) * 2 if mode == "checklist" else 0  # the item of the run
    assert calls(provider, "writer") == 1
    assert len(provider.requests) - 1 == 3 * asked - (stored + len(split.dev) if mode == "checklist" else 0)
    assert found["calls"] == len(provider.requests)
    again = call_main(capfd, *words(provider))
    assert "No calls, $0" in again.out
    assert f"written: {folder}/aligned-2.yaml" in again.out
    provider.requests.clear()
    proved = call_main(capfd, "align", "run", "tune=criteria", f"align.criteria={path}", "align.budget_usd=1")
    assert "Better on test labels that did not choose the settings." in proved.out
    group = "method" if mode == "checklist" else "criteria"
    assert f"proved: {path}; use it with {group}=aligned" in proved.out
    assert "Test labels opened once." in proved.out
    assert len(provider.requests) == len(split.test)
    assert recorded()["test"]["p"] < 0.05
    more = () if mode != "checklist" else ("mode=checklist", "rubric=share")
    composed = call_main(capfd, "run", f"{group}=aligned", *more, "--cfg", "job").out
    assert "The response cites a source." in composed


@pytest.mark.parametrize("mode", MODES)
def test_shuffled_labels_keep_none(mode, run, provider, capfd):
    run(mode, shuffled=True)
    out = call_main(capfd, *words(provider)).out
    assert "No other settings are better on dev" in out
    assert "kept" not in {one["result"] for one in recorded()["proposals"]}
    assert not Path("conf").exists()


HALVES = [{"name": f"half {k}", "description": f"It names origins of kind {k}."} for k in (0, 1)]


def half(body: dict[str, Any], proposed: list[dict[str, str]]) -> Reply:
    """Each half finds some responses without a source, and no other."""
    if body["model"] == "writer":
        return said(json.dumps({"criteria": proposed}), usage=(100, 0))
    user = body["messages"][1]["content"]
    response = user.partition("<response>")[2].partition("</response>")[0].strip()
    kind = int(chance(response, "half") < 0.5)
    some = HALVES[kind]["description"] in user and "source" not in response
    return said("[[fail]]", usage=(100, 0)) if some else judge(body)


def test_a_criterion_that_adds_nothing_to_those_kept_is_left_out(run, provider, capfd):
    run("classes")
    provider.rule = lambda body: half(body, [HALVES[0], MATTERS])
    out = call_main(capfd, *words(provider)).out
    results = {one["name"]: one["result"] for one in recorded()["proposals"]}
    assert results == {"half_0": "covered", "cites_a_source": "kept"}
    assert "adds nothing to those kept" in out
    assert [*yaml.safe_load(Path("conf/criteria/aligned.yaml").read_text())] == ["overall quality", "cites_a_source"]


def test_criteria_that_add_to_each_other_are_kept_together(run, provider, capfd):
    run("classes")
    provider.rule = lambda body: half(body, HALVES)
    split = read_split(Path("run"))
    assert split is not None
    budget = f"align.budget_usd={(1 + 2.5 * len(split.dev)) * PRICE}"
    assert "The budget did not pay for all answers" in call_main(capfd, *words(provider, budget), status=2).out
    assert not Path("conf").exists()
    call_main(capfd, *words(provider))
    assert {one["result"] for one in recorded()["proposals"]} == {"kept"}
    text = Path("conf/criteria/aligned.yaml").read_text()
    assert "the last 2 are new" in text
    assert {*yaml.safe_load(text)} == {"overall quality", "half_0", "half_1"}
    assert len(provider.requests) == 3 * len(split.dev) + 1
    Path("own.yaml").write_text(text)
    out = call_main(capfd, "align", "run", "tune=criteria", "align.criteria=own.yaml", "align.budget_usd=1").out
    assert "proved: own.yaml; copy it to conf/criteria, and use it with criteria=own" in out


def test_a_budget_is_never_exceeded(run, provider, capfd):
    run("classes")
    split = read_split(Path("run"))
    assert split is not None
    n = len(split.dev)
    for budget in (0.5, n // 2, n + n // 2):
        before = len(provider.requests)
        out = call_main(capfd, *words(provider, f"align.budget_usd={budget * PRICE}"), status=2).out
        assert "The budget did not pay for all answers" in out
        assert len(provider.requests) - before <= budget
        assert not Path("conf").exists()
    assert "kept" in call_main(capfd, *words(provider)).out
    assert len(provider.requests) == 3 * n + 1


@pytest.mark.slow
def test_nothing_that_was_paid_for_is_lost_by_ctrl_c(run, provider, tmp_path, capfd):
    run("classes")
    split = read_split(Path("run"))
    assert split is not None
    reached, limit = threading.Event(), len(split.dev) + 10

    def until(body: dict[str, Any]) -> Reply:
        if len(provider.requests) >= limit:
            reached.set()
        return rule(body)

    provider.rule = until
    with Commands(tmp_path).started(*words(provider), log=tmp_path / "log") as command:
        command.wait_for(reached)
        command.send(signal.SIGINT)
        assert command.ended() == 130
        assert "received answers are stored; run it again to resume" in command.said()
    assert not Path("run/alignments.json").exists()
    assert not Path("conf").exists()
    call_main(capfd, *words(provider))
    assert len(provider.requests) == 3 * len(split.dev) + 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("I will not", "align.model: proposed nothing: "),
        ('{"criteria": "none"}', "align.model: its answer has no list of criteria; choose another align.model"),
        ('{"criteria": [', "align.model: "),
        ("\x1b[31m{\u202e", "align.model: proposed nothing: "),
    ],
)
def test_a_broken_answer_is_one_line(answer, message, run, provider, capfd):
    run("classes")
    provider.rule = lambda body: said(answer, usage=(100, 0)) if body["model"] == "writer" else judge(body)
    done = call_main(capfd, *words(provider), status=1)
    [line] = [one for one in done.err.strip().splitlines() if not one.startswith("note")]
    assert message in line
    assert line.isprintable()
    assert done.out == ""
    assert not Path("conf").exists()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_model_is_asked_in_the_language_of_the_run(language, run, provider, capfd):
    run("classes", f"prompt.language={language}")
    call_main(capfd, *words(provider, "align.proposals=2"))
    [written] = [body for body in provider.requests if body["model"] == "writer"]
    role = {"en": "You improve the criteria of an LLM judge.", "zh": "你负责改进 LLM 评审的评审标准。"}[language]
    assert role in written["messages"][0]["content"]


def test_a_plan_says_the_smallest_gain_and_the_most_it_costs(run, provider, capfd):
    run("classes")
    split = read_split(Path("run"))
    assert split is not None
    n, m = len(split.dev), len(split.test)
    out = call_main(capfd, "plan", *words(provider, "align.budget_usd=5")).out
    assert "to tune: criteria; writer proposes at most 6 criteria, and " in out
    assert f"the judge is called for at most {11 * n} cases, for at most $5" in out
    assert "smallest gain of one criterion of 6 that dev can show, with a probability of 0.8: 0.1" in out
    assert "smallest gain in agreement/accuracy that these labels can prove" in out
    Path("own.yaml").write_text("good: good\nmore: better\n")
    out = call_main(capfd, "plan", "align", "run", "tune=criteria", "align.criteria=own.yaml", "align.budget_usd=5").out
    assert f"the judge is called for at most {n + m} cases, for at most $5" in out
    assert not provider.requests


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "own.yaml: "),
        ("- a\n- b\n", "own.yaml: not a mapping; write it as "),
        ("a: [\n", "own.yaml: line "),
        ("a: {wieght: 2}\n", "own.yaml: criteria.a.wieght: no such key; did you mean 'weight'?"),
        ("{}\n", "own.yaml: criteria: there are none"),
        (
            "a: ${oc.env:HOME}\n",
            "own.yaml: has `${`, and a text that it stands for later is not the one",
        ),
        (None, "own.yaml: cannot be read (No such file or directory); set align.criteria to a file of criteria"),
    ],
)
def test_a_wrong_file_is_one_line(content, message, run, provider, capfd):
    run("classes")
    if content is not None:
        Path("own.yaml").write_text(content)
    file = ("align.criteria=own.yaml", "align.budget_usd=1")
    for command in (["align"], ["plan", "align"]):
        assert message in call_main(capfd, *command, "run", "tune=criteria", *file, status=1).line()
    assert not provider.requests


def test_a_pipe_is_not_waited_for(run, provider, capfd):
    run("classes")
    os.mkfifo("own.yaml")
    file = ("align.criteria=own.yaml", "align.budget_usd=1")
    assert "own.yaml: is not a file" in call_main(capfd, "align", "run", "tune=criteria", *file, status=1).line()
    assert not provider.requests


def test_a_file_with_what_the_run_has_is_refused(run, provider, capfd):
    run("checklist")
    file = ["align", "run", "tune=criteria", "align.criteria=own.yaml", "align.budget_usd=1"]
    for content, message in (
        ("mode: {checklist: [{id: polite, criterion: 'Polite?'}]}", "own.yaml: has the run's own criteria"),
        ("mode: {checklist: [{id: x, after: [y], criterion: a}]}", "own.yaml: "),
        ("checklist: [a]", "own.yaml: "),
    ):
        Path("own.yaml").write_text(content)
        assert message in call_main(capfd, *file, status=1).line()
    assert not provider.requests


def test_runs_without_criteria_are_refused(ties, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    for given, message in (
        (["tune=criteria", "align.budget_usd=1"], "tune: a model writes the candidates for criteria; set align.model"),
        (["tune=criteria", "align.model=openai/x"], "tuning criteria makes calls; set align.budget_usd"),
        (
            ["tune=criteria", "align.budget_usd=1", "align.model={model: x/y, params: {api_key: sk-abcdefghij}}"],
            "align.model.params.api_key: contains a secret",
        ),
        (["tune=threshold", "align.criteria=x"], "criteria is a file to prove; set tune=criteria"),
    ):
        assert message in call_main(capfd, "align", "run", *given, status=1).line()
    ties(dataset={"path": "pairs.jsonl"}, prompt={"template": str(tmp_path / "own.md.j2")})
    (tmp_path / "own.md.j2").write_text(
        "{{ original_prompt }} {{ response_a }} {{ response_b }} {{ output_instruction }}"
    )
    line = call_main(
        capfd, "align", "run", "tune=criteria", "align.model=openai/x", "align.budget_usd=1", status=1
    ).line()
    assert "own.md.j2: has no placeholder 'criteria'" in line


def test_a_judge_that_agrees_with_all_labels_has_nothing_to_propose_from(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    cases = [pair(k, "AB"[k % 2]) for k in range(40)]
    write(Path("run"), cases, [one for k in range(40) for one in passes(k, (1.0, -1.0)[k % 2])])
    done = call_main(capfd, "align", "run", "tune=criteria", "align.model=openai/x", "align.budget_usd=1")
    assert "the judge agrees with all labels of train" in done.err
    assert "No other settings are better on dev" in done.out
    assert "No calls, $0" in done.out


def test_runs_whose_labels_or_judges_say_nothing_about_criteria_are_refused(tmp_path):
    result = write(tmp_path / "run", [pair(0, "A")], passes(0, 1.0))
    rewards = {"model": "m", "api_base": "http://x", "endpoint": "score"}
    cascade = {"judges": [{"model": "a"}, {"model": "b"}], "vote": "cascade"}
    for changed, kind, message in (
        (replace(result, manifest={**result.manifest, "imported": "x"}), PAIRS, "the run was imported"),
        (result, ITEMS, "the labels are of checklist items, and a proposed item has none"),
        (replace(result, config=config_of(judge=cascade)), PAIRS, "the labels choose the thresholds of a cascade"),
        (
            replace(result, config=result.config.with_({"judge": JudgeConfig.model_validate(rewards)})),
            PAIRS,
            "a reward model reads no criteria",
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            check_criteria(changed, kind)
    check_criteria(result, PAIRS)


def test_items_of_a_file_precede_those_of_the_case():
    config = config_of(mode={"name": "checklist", "checklist": [{"id": "old", "criterion": "a"}]}, **CHECKED)
    other = config_of(mode={"name": "checklist", "checklist": [{"id": "new", "criterion": "b"}]}, **CHECKED)
    case = Case("c", "", (Response("r"),), checklist=(*config.mode.items, ChecklistItem("#1", "its own")))
    side = Side([case], ())
    assert with_items(config, config, side) is side
    assert [item.id for item in with_items(config, other, side).cases[0].checklist] == ["new", "#1"]
    twice = replace(case, checklist=(*config.mode.items, ChecklistItem("new", "its own")))
    with pytest.raises(ConfigError, match="case 'c': has an item 'new' of its own"):
        with_items(config, other, Side([twice], ()))


@pytest.mark.parametrize(
    ("name", "safe"),
    [
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
    ],
)
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
