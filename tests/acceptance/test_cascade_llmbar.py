"""LLMBar's judges as a cascade: what it saves at the accuracy of the last judge, on labels that chose no threshold."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.replaying import Replay, replay_data

pytestmark = [pytest.mark.shared, pytest.mark.slow]

# US$ per million tokens, as published for gpt-3.5-turbo, text-bison and gpt-4 when the texts were
# written.
PRICES = {"ChatGPT": (0.5, 1.5), "PaLM2": (1.0, 2.0), "GPT-4": (30.0, 60.0)}
PATTERN = r"Output \((?P<winner>[ab])\)"


def words(replay: Replay, *models: str) -> list[str]:
    judges = [
        f"{{name: {model}, model: openai/{model}-Vanilla, api_base: 'http://127.0.0.1:{replay.port}/v1', "
        f"transport: direct, price: {{input: {PRICES[model][0]}, output: {PRICES[model][1]}}}}}"
        for model in models
    ]
    return [
        *("dataset=file", f"dataset.path={replay_data('Natural')}"),
        "dataset.fields={prompt: input, response_a: output_1, response_b: output_2}",
        *("dataset.label_map={1: A, 2: B}", "judge=cascade", f"judge.judges=[{', '.join(judges)}]"),
        *("output=regex", f"output.pattern='{PATTERN}'", "swap=both", "tracking=none"),
        "scoring.bootstrap=500",
    ]


def rows_of(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text("utf-8").splitlines()]


def test_three_judges_save_at_equal_accuracy(replay, call, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    judges = words(replay, "ChatGPT", "PaLM2", "GPT-4")
    settings = [
        *("judge.target=0.85", "judge.delta=0.2", "judge.last=answer", "judge.calibration=0.6"),
    ]
    call("run", *judges, *settings, "hydra.run.dir=cascade")
    call("run", *words(replay, "GPT-4"), "judge.vote=majority", "hydra.run.dir=alone")
    cascade, alone = (
        {row["case_id"]: row["winner"] for row in rows_of(f"{name}/verdicts.jsonl")}
        for name in ("cascade", "alone")
    )
    labels = {row["id"]: row["label"] for row in rows_of("cascade/cases.jsonl")}
    metrics = json.loads(Path("cascade/metrics.json").read_text())["metrics"]
    # The labels that chose no threshold, as the cascade's verdicts show them.
    test = [row["case_id"] for row in rows_of("cascade/verdicts.jsonl") if row["label"] is not None]
    assert 30 < len(test) == metrics["agreement/accuracy"]["n"] < 50
    own, theirs = (
        sum(run[case] == labels[case] for case in test) / len(test) for run in (cascade, alone)
    )
    assert own == pytest.approx(metrics["agreement/accuracy"]["value"])
    assert own >= theirs
    assert metrics["cascade/cost_ratio"]["high"] < 0.45
    assert metrics["cascade/share/ChatGPT"]["value"] > 0.6
    assert metrics["cascade/accuracy"]["value"] >= 0.85
