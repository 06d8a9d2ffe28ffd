"""Examples for a judge on loopback whose answers depend on them, within a budget, and through Ctrl-C."""

from __future__ import annotations

import json
import random
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from evalkit.alignment.examples import example_sets
from evalkit.api import build_evaluator
from evalkit.cli import main
from evalkit.config import RunConfig
from evalkit.datasets import with_examples
from evalkit.errors import DatasetError, PromptError
from evalkit.holdout import read_split
from evalkit.types import Case, Response
from tests.support.command_line import Commands, call_main
from tests.support.fake_provider import Provider, Reply, refused, said

N = 150
PRICE = 1e-4  # of one call


def rule(body: dict[str, Any]) -> Reply:
    """Know good from bad responses if an example of the good ones says how; else see every one as good."""
    system, user = (message["content"] for message in body["messages"])
    shown = system.partition("# Classified examples")[2]
    right = "good: marvelous" in shown
    bad = "bad: " in user.partition("<response>")[2]
    return said("[[fail]]" if bad and right else "[[pass]]", usage=(100, 0))


def write_cases(*, shuffled: bool = False) -> None:
    generator = random.Random(0)
    bad = [generator.random() < 0.5 for _ in range(N)]
    labels = ["fail" if one else "pass" for one in bad]
    if shuffled:
        generator.shuffle(labels)
    rows = [
        {
            "id": f"c{k}",
            "prompt": f"question {k}",
            "response": f"{'bad' if bad[k] else 'good'}: {'marvelous' if k % 5 == 0 else 'plain'} {k}",
            "label": labels[k],
        }
        for k in range(N)
    ]
    Path("cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def run(provider: Provider, tmp_path, monkeypatch, capfd) -> Callable[..., None]:
    """Write a run of such a judge, with labels held out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    provider.rule = rule

    def make(*words: str, shuffled: bool = False) -> None:
        write_cases(shuffled=shuffled)
        judge = ("judge=openai_compatible", f"judge.api_base={provider.api_base}", "judge.transport=direct")
        price = f"judge.price={{input: {PRICE * 1e4}, output: 0}}"
        how = (
            "mode=pointwise",
            "rubric=pass_fail",
            "output=bracket",
            "criteria=overall",
            price,
            "scoring.bootstrap=50",
        )
        data = (
            "dataset=file",
            "dataset.path=cases.jsonl",
            "dataset.holdout=0.3",
            "tracking=none",
            "judge.max_tokens=1",
        )
        call_main(capfd, "run", *judge, *how, *data, "--output", "run", *words)
        provider.requests.clear()

    return make


ALIGN = ("align", "run", "tune=examples", "align.examples=2")


def test_the_better_examples_are_found_and_proved(run, provider, capfd):
    run()
    done = call_main(capfd, *ALIGN, "align.budget_usd=1")
    assert "Better on test labels that did not choose the settings." in done.out
    assert "rubric.examples: 2 labeled responses of train" in done.out
    assert "+good: marvelous" in done.out
    assert "examples 6 of 6: agreement" in done.err
    preset = yaml.safe_load(Path("conf/method/aligned.yaml").read_text())["rubric"]["examples"]
    assert Counter(one["class_name"] for one in preset) == {"pass": 1, "fail": 1}
    split = read_split(Path("run"))
    assert split is not None
    prompts = {f"question {id_[1:]}" for id_ in split.train}
    assert {one["prompt"] for one in preset} <= prompts
    shown = {line for body in provider.requests for line in body["messages"][0]["content"].splitlines()}
    assert not {f"question {id_[1:]}" for id_ in (*split.dev, *split.test)} & shown
    [found] = json.loads(Path("run/alignments.json").read_text())["alignments"]
    calls = len(provider.requests)
    assert calls == 6 * len(split.dev) + len(split.test) == found["calls"]
    assert found["cost_usd"] == pytest.approx(calls * PRICE)
    assert found["test"]["after"]["value"] == 1.0
    assert f"{calls} calls, $" in done.out
    again = call_main(capfd, *ALIGN, "align.budget_usd=0.01")
    assert len(provider.requests) == calls
    assert "No calls, $0" in again.out
    assert "Test labels opened 2 times." in again.out
    call_main(capfd, "run", "run/config.yaml", "--cfg", "job")


def test_a_better_prompt_is_registered_with_its_metrics(run, capfd, mlflow_store):
    from mlflow import MlflowClient

    run()
    config = Path("run/config.yaml").read_text()
    on = config.replace("  enabled: false", f"  enabled: true\n  uri: {mlflow_store}", 1).replace("  uri: null\n", "")
    Path("run/config.yaml").write_text(on)
    out = call_main(capfd, *ALIGN, "align.budget_usd=1").out
    assert "MLflow: prompt evalkit.aligned version 1" in out
    version = MlflowClient(mlflow_store).get_prompt_version("evalkit.aligned", 1)
    assert "good: marvelous" in version.template
    assert version.tags["evalkit.align.metric"] == "agreement/accuracy"
    assert version.tags["evalkit.align.after"].startswith("1.000 [")


def test_shuffled_labels_change_nothing(run, capfd):
    run(shuffled=True)
    out = call_main(capfd, *ALIGN, "align.budget_usd=1").out
    assert "The judge is unchanged" in out
    assert not Path("conf").exists()


def test_a_budget_is_never_exceeded(run, provider, capfd):
    run()
    split = read_split(Path("run"))
    assert split is not None
    n, m = len(split.dev), len(split.test)
    paid = 0
    for budget in (n // 2, n + m // 2, 2 * n + m):
        out = call_main(capfd, *ALIGN, f"align.budget_usd={budget * PRICE}", status=2).out
        assert "The budget did not pay for all answers" in out, "it did not see that no other settings are better"
        assert len(provider.requests) - paid <= budget
        paid = len(provider.requests)
    assert not any(one["opened"] for one in json.loads(Path("run/alignments.json").read_text())["alignments"])


def test_an_answer_that_the_budget_does_not_pay_for_keeps_test_closed(run, provider, capfd):
    run()
    split = read_split(Path("run"))
    assert split is not None
    n, m = len(split.dev), len(split.test)
    words = ("align", "run", "tune=examples", "align.examples=20", "align.sets=1")
    budget = f"align.budget_usd={(n + m // 2) * PRICE}"
    statuses: list[int] = []
    while len(provider.requests) <= n and len(statuses) < 9:  # each pays for the next answers
        statuses.append(main((*words, budget)))
    assert set(statuses) == {2}
    out = capfd.readouterr().out
    assert "The budget did not pay for all answers. The judge is unchanged" in out
    assert n < len(provider.requests) < n + m
    assert json.loads(Path("run/split.json").read_text())["opened"] == []
    assert not Path("conf").exists()
    assert "Better on test labels" in call_main(capfd, *words, "align.budget_usd=1").out
    assert len(provider.requests) == n + m


def test_failed_calls_are_no_result(run, provider, capfd):
    run("runner.retries=0")
    provider.rule = lambda _: refused(400, "no more of this")
    line = call_main(capfd, *ALIGN, "align.budget_usd=1", status=2).err.strip().splitlines()[-1]
    assert "of 52 calls failed, for example: " in line
    assert "run it again to resume" in line
    assert not Path("run/alignments.json").exists()
    provider.rule = rule
    assert "Better on test labels" in call_main(capfd, *ALIGN, "align.budget_usd=1").out


@pytest.mark.slow
def test_nothing_that_was_paid_for_is_lost_by_ctrl_c(run, provider, tmp_path, capfd):
    run()
    split = read_split(Path("run"))
    assert split is not None
    reached, limit = threading.Event(), len(split.dev) + 10

    def until(body: dict[str, Any]) -> Reply:
        if len(provider.requests) >= limit:
            reached.set()
        return rule(body)

    provider.rule = until
    words = (*ALIGN, "align.budget_usd=1")
    with Commands(tmp_path).started(*words, log=tmp_path / "log") as command:
        command.wait_for(reached)
        command.send(signal.SIGINT)
        assert command.ended() == 130
        assert "received answers are stored; run it again to resume" in command.said()
    assert json.loads(Path("run/split.json").read_text())["opened"] == []
    assert not Path("run/alignments.json").exists()
    paid = len(provider.requests)
    assert paid < 6 * len(split.dev) + len(split.test)
    call_main(capfd, *words)
    assert len(provider.requests) == 6 * len(split.dev) + len(split.test)


def test_a_plan_counts_the_calls(run, provider, capfd):
    run()
    out = call_main(capfd, "plan", *ALIGN, "align.budget_usd=5").out
    assert "to tune: examples; the judge is called for at most 357 cases, for at most $5" in out
    assert not provider.requests


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tune=examples"], "tuning examples makes calls; set align.budget_usd"),
        (["tune=[examples,threshold]", "align.budget_usd=1"], "tune examples alone; align again for the other"),
    ],
)
def test_settings_that_do_not_fit_are_refused(words, message, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert message in call_main(capfd, "align", "run", *words, status=1).line()


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


PAIRS = ("judge=openai_compatible", "output=bracket", "criteria=overall", "scoring.bootstrap=50", "judge.max_tokens=1")


def compared(body: dict[str, Any]) -> Reply:
    """Know which response is better if an example of a marvelous one says how; else take the first one."""
    system, user = (message["content"] for message in body["messages"])
    right = "good: marvelous" in re.split("# Compared examples|# 已比较的示例", system)[-1]
    second = "bad: " in user.partition("<response_a>")[2].partition("</response_a>")[0]
    return said("[[B]]" if second and right else "[[A]]", usage=(100, 0))


def write_pairs() -> None:
    """Write pairs whose response A is nearly always the better one."""
    texts = {True: [f"good: {'marvelous' if k % 3 == 0 else 'plain'} {k}" for k in range(N)]}
    texts[False] = [f"bad: {k}" for k in range(N)]
    rows = [
        {
            "id": f"c{k}",
            "prompt": f"question {k}",
            "response_a": texts[k % 8 != 0][k],
            "response_b": texts[k % 8 == 0][k],
            "label": "B" if k % 8 == 0 else "A",
        }
        for k in range(N)
    ]
    Path("cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_examples_of_pairs_are_found_in_both_languages(language, provider, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    provider.rule = compared
    write_pairs()
    judge = (f"judge.api_base={provider.api_base}", "judge.transport=direct", "judge.price={input: 1, output: 0}")
    data = ("dataset=file", "dataset.path=cases.jsonl", "dataset.holdout=0.3", "tracking=none")
    call_main(capfd, "run", *PAIRS, *judge, f"prompt={language}", *data, "--output", "run")
    provider.requests.clear()
    words = ("align", "run", "tune=examples", "align.examples=4", "align.budget_usd=1")
    assert "the judge is called for at most" in call_main(capfd, "plan", *words).out
    done = call_main(capfd, *words)
    assert "Better on test labels that did not choose the settings." in done.out
    assert "rubric.examples: 4 labeled pairs of train" in done.out
    assert "+good: marvelous" in done.out
    preset = yaml.safe_load(Path("conf/method/aligned.yaml").read_text())["rubric"]["examples"]
    assert Counter(one["winner"] for one in preset) == {"A": 2, "B": 2}, "though the data has hardly any B"
    for one in preset:
        better = one["response"] if one["winner"] == "A" else one["response_b"]
        assert better.startswith("good: ")
    split = read_split(Path("run"))
    assert split is not None
    assert {one["prompt"] for one in preset} <= {f"question {id_[1:]}" for id_ in split.train}
    shown = {line for body in provider.requests for line in body["messages"][0]["content"].splitlines()}
    assert not {f"question {id_[1:]}" for id_ in (*split.dev, *split.test)} & shown
    calls = len(provider.requests)
    call_main(capfd, "run", "run/config.yaml", "method=aligned", "--output", "after")
    assert calls < len(provider.requests) <= calls + 2 * len(split.train), "answers of dev and test were stored"


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
