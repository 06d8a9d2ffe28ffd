"""One sweep over a reward model, a fine-tuned judge and a chat judge, and the promises of every judge for the first."""

from __future__ import annotations

import csv
import json
import random
import re
from pathlib import Path

import pytest
from sklearn.metrics import accuracy_score

from tests.support.command_line import BRIEF, Done, call_main
from tests.support.fake_provider import Provider, Reply, said
from tests.support.reward_server import MODEL, RewardServer, stated_quality

CASES = 30
PRICES = {"reward": "{input: 1, output: 0}", "tuned": "{input: 2, output: 2}", "chatty": "{input: 4, output: 4}"}
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
def rewards(provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Write data and judges; return the difference of the qualities of each pair."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALKIT_STORE", str(tmp_path / "store.sqlite"))
    RewardServer(reward=lambda prompt, text: 3 * stated_quality(prompt, text) + 7).install(provider)
    provider.routes |= {"/v1/completions": completed, "/v1/chat/completions": chatted}
    rng, rows, differences = random.Random(1), [], []
    for n in range(CASES):
        one, two = rng.sample([number / 10 for number in range(-20, 21)], 2)
        label = "AB"[(rng.random() < 0.2) ^ (one < two)]
        texts = [f"text {n} quality={value:.1f}" for value in (one, two)]
        rows.append({"id": f"c{n}", "prompt": f"Question {n}?", "responses": texts, "label": label})
        differences.append(one - two)
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "constants_prompt.py").write_text(TEMPLATE)
    folder = tmp_path / "conf" / "judge"
    folder.mkdir(parents=True)
    for name, base in BASES.items():
        template = "\nprompt: {template: constants_prompt.py}" if name == "tuned" else ""
        judge = f"{{name: {name}, model: hosted_vllm/{MODEL}, api_base: '{provider.api_base}', price: {PRICES[name]}}}"
        text = f"# @package _global_\ndefaults:\n{base}\n  - _self_\njudge: {judge}{template}\n"
        (folder / f"{name}.yaml").write_text(text)
    return differences


def run(capfd: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Done:
    return call_main(capfd, "run", "dataset=file", "dataset.path=cases.jsonl", *BRIEF, *words, status=status)


def test_one_leaderboard_has_all_kinds_with_cost_and_latency(capfd, provider, rewards, tmp_path):
    run(capfd, "judge=reward,tuned,chatty", "hydra.sweep.dir=sweep", "-m")
    with (tmp_path / "sweep" / "leaderboard.csv").open(encoding="utf-8") as file:
        rows = {row["name"].removeprefix("judge="): row for row in csv.DictReader(file)}
    assert set(rows) == set(PRICES)
    labels = [json.loads(line)["label"] for line in (tmp_path / "cases.jsonl").read_text().splitlines()]
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
        return sum(path in ("/classify", "/v1/completions", "/v1/chat/completions") for path in provider.paths)

    run(capfd, f"judge={name}", "runner.budget_calls=20", "--output", "part", status=2)
    assert sent() == 20
    missing = [json.loads(line) for line in (tmp_path / "part" / "judgments.jsonl").read_text().splitlines()]
    assert [one["criteria"] for one in missing if one["status"] != "ok"] == [{}] * (2 * CASES - 20)
    run(capfd, f"judge={name}", "--output", "whole")
    assert sent() == 2 * CASES
