"""Every switch of judging from the command line, on the embedded model: a real one, whatever it is worth as a judge."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

pytestmark = [pytest.mark.local, pytest.mark.slow]

CASE = {
    "id": "sum",
    "prompt": "What is 17 + 25?",
    "context": "A pupil asks.",
    "reference": "42",
    "response_a": "17 + 25 = 42.",
    "response_b": "It is 32.",
    "label": "A",
}
READ = {"ok", "repaired"}
ONE = {name: CASE[name] for name in ("id", "prompt", "context", "reference")} | {
    "response": CASE["response_a"],
    "label": 5,
}
POINTWISE = ("mode=pointwise", "dataset.path=one.jsonl")


@dataclass(frozen=True)
class Switch:
    """What to add to the command, how many judgments it gives, and what must hold of one that was read."""

    words: tuple[str, ...]
    judgments: int
    holds: Callable[[dict[str, Any]], bool] = lambda judgment: judgment["value"] in (-1.0, 0.0, 1.0)


def scored(low: float, high: float, step: float) -> Callable[[dict[str, Any]], bool]:
    def holds(judgment: dict[str, Any]) -> bool:
        return all(
            low <= score <= high and abs((score - low) / step - round((score - low) / step)) < 1e-9
            for score in judgment["criteria"].values()
        )

    return holds


# What is held to a schema by a grammar is always read; what is written freely may be anything, and
# go on for long.
FREE = ("regex",)
SHORT = "judge.max_tokens=40"

SWITCHES = {
    "no ties": Switch(("tie=forbid",), 2, lambda judgment: judgment["value"] in (-1.0, 1.0)),
    "probabilities of a pair": Switch(
        ("judge.logprobs=true", "swap=none"),
        1,
        lambda judgment: -1 <= judgment["weighted"]["value"] <= 1,
    ),
    "regex": Switch(("output=regex", "swap=none", SHORT), 1),
    "1.0-10.0": Switch((*POINTWISE, "rubric=decimal10"), 1, scored(1, 10, 0.1)),
    "a list": Switch(
        ("mode=listwise",), 2, lambda judgment: sum(map(len, judgment["ranking"])) == 2
    ),
}


@pytest.fixture(autouse=True)
def _one_store(tmp_path_factory, monkeypatch):
    """What several switches ask alike is asked once."""
    monkeypatch.setenv("EVALKIT_STORE", str(tmp_path_factory.getbasetemp() / "switches.sqlite"))


@pytest.mark.thorough
@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch(name, within, commands):
    switch = SWITCHES[name]
    commands.write("case.jsonl", CASE)
    commands.write("one.jsonl", ONE)
    brief = ["dataset.path=case.jsonl", "criteria=overall", "tracking=none", "scoring.bootstrap=20"]
    short = "judge.params={string_limit: 40, list_limit: 1}"
    within("run", *brief, short, *switch.words, "runner.max_unusable_rate=1", "hydra.run.dir=run")
    lines = (commands.folder / "run" / "judgments.jsonl").read_text("utf-8").splitlines()
    judgments = [json.loads(line) for line in lines]
    assert len(judgments) == switch.judgments
    read = [judgment for judgment in judgments if judgment["status"] in READ]
    assert name in FREE or read
    assert all(switch.holds(judgment) for judgment in read), read
    missing = commands.metrics("run")["metrics"]["missing/unparseable"]
    assert missing["value"] == pytest.approx(1 - len(read) / len(judgments))
    assert (commands.folder / "run" / "report.html").is_file()
