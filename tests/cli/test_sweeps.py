"""Sweeps: over methods and over kinds of judges, and the files of a job, which are those of a run of its own."""

import csv
import json
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import accuracy_score

from evalkit.tracking.parent_runs import contradictions
from tests.support.command_line import BRIEF, Done, call_main, fake, pair, shown
from tests.support.fake_provider import Reply, said
from tests.support.reward_server import MODEL, RewardServer, stated_quality

Call = Callable[..., Done]
CASES, AGAINST = 12, 3


def filled(schema: Mapping[str, Any], winner: str, score: int) -> Any:
    """Return an answer to a schema."""
    if "enum" in schema:
        return next(
            (choice for choice in schema["enum"] if choice in (winner, score)), schema["enum"][0]
        )
    if schema.get("type") == "object":
        return {name: filled(one, winner, score) for name, one in schema["properties"].items()}
    if schema.get("type") == "array":
        return [filled(schema["items"], winner, score)] if "items" in schema else []
    return "so" if schema["type"] == "string" else min(score, schema.get("maximum", score))


def judge(body: Mapping[str, Any]) -> Reply:
    """Compare rightly, and score three of the better responses below the others."""
    text = "\n".join(message["content"] for message in body["messages"])
    first = re.search(r"<response(?:_a)?>\n(\w+) (\d+)", text)
    kind, number = first[1], int(first[2])
    score = 3 if kind == "bad" else 1 if number < AGAINST else 4
    schema = body["response_format"]["json_schema"]["schema"]
    return said(json.dumps(filled(schema, "A" if kind == "good" else "B", score)))


@pytest.fixture
def sweep(call, provider, tmp_path):
    provider.rule = judge
    (tmp_path / "cases.jsonl").write_text("\n".join(json.dumps(pair(n)) for n in range(CASES)))
    data = [
        *("dataset=file", "dataset.path=cases.jsonl", "scoring.bootstrap=100", "tracking=none"),
        "criteria=overall",
    ]
    return lambda *more: call(
        "run", *fake(provider), "judge.transport=direct", *data, *more, "hydra.sweep.dir=jobs", "-m"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "methods",
    [
        pytest.param("method=pairwise,direct5", marks=pytest.mark.thorough),
        "method=[pairwise,direct5]",
    ],
)
def test_scores_are_held_against_comparisons(sweep, provider, tmp_path, methods):
    done = sweep(methods)
    assert (
        len(provider.requests) == 4 * CASES
    )  # two orders of each pair, two responses: nothing more
    board = json.loads((tmp_path / "jobs" / "leaderboard.json").read_text())
    (found,) = board["contradictions"]
    names = {row["job"]: row["name"] for row in board["rows"]}
    assert (
        "method=direct5" in names[found["scores"]],
        "method=pairwise" in names[found["comparisons"]],
    ) == (
        True,
        True,
    )
    metric = found["metrics"]["between/contradiction"]
    assert (metric["value"], metric["n"]) == (AGAINST / CASES, CASES)
    assert 0 <= metric["low"] < AGAINST / CASES < metric["high"] < 0.6
    for row in board["rows"]:
        assert row["metrics"]["between/contradiction"]["value"] == AGAINST / CASES
    assert contradictions(board) == {
        f"between/contradiction{end}": metric[key]
        for end, key in (("", "value"), ("/low", "low"), ("/high", "high"))
    }
    rows = list(csv.DictReader((tmp_path / "jobs" / "leaderboard.csv").read_text().splitlines()))
    assert {float(row["between/contradiction"]) for row in rows} == {AGAINST / CASES}
    assert "contradicts" in done.out
    assert (
        "in which scores contradict comparisons" in (tmp_path / "jobs" / "report.html").read_text()
    )


@pytest.mark.slow
def test_only_jobs_of_the_same_other_settings(sweep, tmp_path):
    sweep("method=pairwise,direct5", "tie.threshold=0,0.5")
    board = json.loads((tmp_path / "jobs" / "leaderboard.json").read_text())
    names = {row["job"]: row["name"] for row in board["rows"]}
    pairs = [(names[one["scores"]], names[one["comparisons"]]) for one in board["contradictions"]]
    assert len(pairs) == 2
    told = contradictions(board)
    assert len(told) == 6
    assert all(name.startswith("between/contradiction/") and " against " in name for name in told)
    for one, two in pairs:
        assert (
            re.search(r"tie.threshold=[\d.]+", one)[0] == re.search(r"tie.threshold=[\d.]+", two)[0]
        )


REWARDED = 30
PRICES = {
    "reward": "{input: 1, output: 0}",
    "tuned": "{input: 2, output: 2}",
    "chatty": "{input: 4, output: 4}",
}
BASES = {
    "reward": "  - reward_model",
    "tuned": "  - auto_j_scores",
    "chatty": "  - override /mode: pointwise\n  - override /criteria: overall\n  - override /output: rating",
}
TEMPLATE = 'PROMPT_INPUT_WO_SYSTEM = "{input}"\nsingle = "{prompt} {response} end"\n'


def quality(text: str) -> float:
    return float(re.findall(r"quality=(-?\d+\.\d)", text)[-1])


def completed(body: dict) -> Reply:
    rating = min(10, max(1, round(5.5 + 2 * quality(body["prompt"]))))
    choice = {"index": 0, "text": f"So: Rating: [[{rating}]]", "finish_reason": "stop"}
    return Reply({"choices": [choice], "usage": {"prompt_tokens": 20, "completion_tokens": 5}})


def chatted(body: dict) -> Reply:
    rating = min(5, max(1, round(3 + quality(body["messages"][-1]["content"]))))
    return said(f"Rating: [[{rating}]]", usage=(40, 10))


@pytest.fixture
def rewards(provider, here):
    """Write data and judges; return the difference of the qualities of each pair."""
    RewardServer(reward=lambda prompt, text: 3 * stated_quality(prompt, text) + 7).install(provider)
    provider.routes |= {"/v1/completions": completed, "/v1/chat/completions": chatted}
    rng, rows, differences = random.Random(1), [], []
    for n in range(REWARDED):
        one, two = rng.sample([number / 10 for number in range(-20, 21)], 2)
        label = "AB"[(rng.random() < 0.2) ^ (one < two)]
        texts = [f"text {n} quality={value:.1f}" for value in (one, two)]
        rows.append({"id": f"c{n}", "prompt": f"Question {n}?", "responses": texts, "label": label})
        differences.append(one - two)
    (here / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (here / "constants_prompt.py").write_text(TEMPLATE)
    folder = here / "conf" / "judge"
    folder.mkdir(parents=True)
    for name, base in BASES.items():
        template = "\nprompt: {template: constants_prompt.py}" if name == "tuned" else ""
        judge = f"{{name: {name}, model: hosted_vllm/{MODEL}, api_base: '{provider.api_base}', price: {PRICES[name]}}}"
        text = f"# @package _global_\ndefaults:\n{base}\n  - _self_\njudge: {judge}{template}\n"
        (folder / f"{name}.yaml").write_text(text)
    return differences


def run(capfd: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Done:
    return call_main(
        capfd, "run", "dataset=file", "dataset.path=cases.jsonl", *BRIEF, *words, status=status
    )


def test_one_leaderboard_has_all_kinds_with_cost_and_latency(capfd, provider, rewards, tmp_path):
    run(capfd, "judge=reward,tuned,chatty", "hydra.sweep.dir=sweep", "-m")
    with (tmp_path / "sweep" / "leaderboard.csv").open(encoding="utf-8") as file:
        rows = {row["name"].removeprefix("judge="): row for row in csv.DictReader(file)}
    assert set(rows) == set(PRICES)
    labels = [
        json.loads(line)["label"] for line in (tmp_path / "cases.jsonl").read_text().splitlines()
    ]
    expected = accuracy_score(labels, ["A" if one > 0 else "B" for one in rewards])
    assert float(rows["reward"]["agreement/accuracy"]) == pytest.approx(expected, abs=1e-6)
    cost = {"tuned": 2 * 25 * 2e-6, "chatty": 2 * 50 * 4e-6, "reward": 2 * 4 * 1e-6}
    for name, row in rows.items():
        assert float(row["cost/per_case"]) == pytest.approx(cost[name], rel=0.3)
        assert float(row["latency/per_case"]) > 0
    sent = len(provider.requests)
    run(capfd, "judge=reward,tuned,chatty", "hydra.sweep.dir=again", "-m")
    assert len(provider.requests) == sent  # judging is paid for once


@pytest.mark.parametrize(
    "name", ["reward", *(pytest.param(x, marks=pytest.mark.thorough) for x in ("tuned", "chatty"))]
)
def test_a_budget_holds_and_the_rest_is_sent_later(capfd, provider, rewards, tmp_path, name):
    def sent() -> int:
        return sum(
            path in ("/classify", "/v1/completions", "/v1/chat/completions")
            for path in provider.paths
        )

    run(capfd, f"judge={name}", "runner.budget_calls=20", "--output", "part", status=2)
    assert sent() == 20
    missing = [
        json.loads(line)
        for line in (tmp_path / "part" / "judgments.jsonl").read_text().splitlines()
    ]
    assert [one["criteria"] for one in missing if one["status"] != "ok"] == [{}] * (
        2 * REWARDED - 20
    )
    run(capfd, f"judge={name}", "--output", "whole")
    assert sent() == 2 * REWARDED


OWN = {"run_id", "started", "ended", "timing", "sweep"}
"""What the manifest says of one run alone."""


def uneven(body: Mapping[str, Any]) -> Reply:
    """A judge that is right, or likes what stands first, or says nothing."""
    first = shown(body)[0]
    number = int(first.split()[1])
    right = "A" if first.startswith("good") else "B"
    return said(
        f"because <{number}> & [[{right}]]"
        if number % 3
        else "[[A]]"
        if number % 2
        else "who knows"
    )


@pytest.fixture
def run_job(call, provider, tmp_path):
    """Runs a judge on twelve pairs."""
    provider.rule = uneven
    rows = (json.dumps(pair(n, label="AB"[n % 2])) for n in range(12))
    (tmp_path / "cases.jsonl").write_text("\n".join(rows))
    data = [
        *("dataset=file", "dataset.path=cases.jsonl", "output=bracket", "scoring.bootstrap=100"),
        "tracking=none",
    ]
    return lambda *more, status=0: call(
        "run", *fake(provider), "judge.transport=direct", *data, *more, status=status
    )


def content(folder: Path) -> dict[str, bytes]:
    """A run folder's files, but for what is its own."""
    manifest = json.loads((folder / "manifest.json").read_text())
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    for name in OWN:
        shown = json.dumps({name: manifest[name]}, indent=2, ensure_ascii=False)[2:-2]
        for text in (shown, shown.replace('"', "&#34;")):
            found = {file: data.replace(text.encode(), b"") for file, data in found.items()}
    page = re.sub(rb"<dd>.{16} UTC</dd>|\d{4}-\d\d-\d\d \d\d:\d\d UTC", b"", found["report.html"])
    return found | {"report.html": page}


@pytest.mark.slow
def test_a_job_of_a_sweep_writes_what_it_writes_alone(run_job, tmp_path, provider):
    words = ["swap.resolve=tie,third_pass", "tie.threshold=0.6"]
    run_job("hydra.run.dir=asked", "swap.resolve=third_pass", words[1])
    asked = len(provider.requests)
    done = run_job("hydra.sweep.dir=stored", *words, "-m")
    for number, resolve in enumerate(("tie", "third_pass")):
        folder = tmp_path / "alone" / str(number)
        alone = run_job(f"hydra.run.dir={folder}", f"swap.resolve={resolve}", "tie.threshold=0.6")
        assert content(tmp_path / "stored" / str(number)) == content(folder)
        notes = [line for line in alone.err.splitlines() if "note: " in line]
        assert set(notes) <= set(done.err.splitlines())
    assert len(provider.requests) == asked
