"""A decision model and an LLM with log-probabilities in one leaderboard, with what their probabilities are worth."""

import json
import re
from collections import Counter
from math import log
from pathlib import Path

import pytest

from tests.support.command_line import call_main
from tests.support.decision_server import MODEL, DecisionServer
from tests.support.fake_provider import Reply, completion

CASES = 160
WORDS = (
    *("mode=pointwise", "dataset=file", "dataset.path=data.jsonl", "criteria=overall"),
    *("rubric=pass_fail", "swap=none", "tracking=none", "store.mode=off"),
)


def row(number):
    label = "pass" if number % 2 else "fail"
    other = "fail" if number % 2 else "pass"
    # The decision model is wrong about two of eight cases, of both classes, and says 55% there.
    hard = number % 8 in (0, 3)
    decided = f"P({other})=0.55" if hard else f"P({label})=0.97"
    # The LLM is wrong about one of ten, also of both classes.
    said = other if number % 20 in (1, 2) else label
    return {
        "id": f"c{number}",
        "prompt": f"Question {number}?",
        "response": f"Answer {number}. {decided} LLM={said}.",
        "label": label,
    }


def chat(body):
    """Answer as an LLM that says how likely each class is, token by token."""
    name = re.findall(r"LLM=(pass|fail)\.", json.dumps(body["messages"]))[-1]
    other = "fail" if name == "pass" else "pass"
    texts = ['{"reasoning": "fine", "quotes": [], "class": "', name, '"}']
    tokens = [
        {"token": text, "logprob": 0.0, "top_logprobs": [{"token": text, "logprob": 0.0}]}
        for text in texts
    ]
    tokens[1]["logprob"] = log(0.9)
    tokens[1]["top_logprobs"] = [
        {"token": name, "logprob": log(0.9)},
        {"token": other, "logprob": log(0.1)},
    ]
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": "".join(texts)},
        "logprobs": {"content": tokens},
    }
    return Reply(completion([choice]))


@pytest.fixture
def study(provider, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    DecisionServer().install(provider)
    provider.routes["/v1/chat/completions"] = chat
    folder = Path("conf/judge")
    folder.mkdir(parents=True)
    common = {"api_base": provider.api_base, "transport": "direct"}
    decide = {"name": "decide", "model": f"hosted_vllm/{MODEL}", "endpoint": "systemone", **common}
    decide["price"] = {"input": 0.004, "output": 0.0}
    llm = {"name": "llm", "model": "openai/m", "logprobs": True, **common}
    both = {"name": "both", "vote": "cascade", "last": "answer", "judges": [decide, llm]}
    for name, option in (("decide", decide), ("llm", llm), ("both", both)):
        (folder / f"{name}.yaml").write_text(json.dumps(option), "utf-8")
    rows = (json.dumps(row(number)) + "\n" for number in range(CASES))
    Path("data.jsonl").write_text("".join(rows), "utf-8")
    return provider


def test_one_leaderboard_of_both_and_their_cascade_has_the_right_winner(study, capfd):
    call_main(
        capfd,
        *("run", "-m", "judge=decide,llm,both", *WORDS, "scoring.bootstrap=200"),
        "hydra.sweep.dir=sweep",
    )
    board = json.loads(Path("sweep/leaderboard.json").read_text("utf-8"))
    assert [line["name"] for line in board["rows"]] == ["judge=both", "judge=llm", "judge=decide"]
    assert board["choices"][0]["text"].startswith("Use judge=both (single verdicts)")
    both, llm, decide = (line["metrics"] for line in board["rows"])
    # The LLM says 90% and is right in 90%; the decision model says 55% where it is always wrong.
    assert llm["calibration/right_at_90"]["value"] == 0.9
    assert llm["calibration/claim"]["value"] > 0.5
    assert decide["agreement/accuracy"]["value"] == 0.75
    assert decide["calibration/claim"]["value"] < 0.05
    assert decide["calibration/covered_90"]["value"] == 0.75
    findings = Path("sweep/0/findings.md").read_text("utf-8")
    assert "When it says 90% or more, it is right in" in findings
    # The LLM is asked only where the decision model is not sure, and is right there.
    assert both["agreement/accuracy"]["value"] == 1
    assert both["cost/per_case"]["value"] < llm["cost/per_case"]["value"]
    asked = Counter("questions" in body for body in study.requests)
    assert asked == {True: 2 * CASES, False: CASES + CASES // 4}
    # The same answers are read again, each in the way of its judge.
    done = call_main(capfd, "reproduce", "sweep/2")
    assert "200 of 200 prompts have the same content keys" in done.out
    assert "Reproduced" in done.out
    templates = json.loads(Path("sweep/2/manifest.json").read_text("utf-8"))["prompt_hashes"]
    assert {"en/decision.md.j2", "en/pointwise_class.md.j2"} <= templates.keys()
