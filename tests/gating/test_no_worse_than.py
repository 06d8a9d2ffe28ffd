"""A gate that holds a run against another: what is refused first, and what is undecided later."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from evalkit import load_config, run
from evalkit.config import RunConfig
from evalkit.errors import ConfigError
from evalkit.gating import apply_gate, check_gate
from evalkit.results import RunResult
from evalkit.runs import read_run
from evalkit.types import Case

WORDS = [
    "judge=simulated/good",
    "dataset=quick",
    "dataset.limit=6",
    "tracking=none",
    "store=off",
    "scoring.bootstrap=50",
]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "good"
    run(load_config(overrides=WORDS), folder)
    return folder


def gated(result: RunResult, folder: Path, metric: str = "agreement/accuracy") -> RunConfig:
    gate = {"no_worse_than": {"run": str(folder), "metric": metric}}
    return RunConfig.model_validate({**result.config.dump(), "gate": gate})


def test_a_run_is_no_worse_than_itself(good: Path) -> None:
    result = read_run(good)
    config = gated(result, good)
    check_gate(config, result.cases)
    _, files = apply_gate(config, result)
    assert "held" in files["gate.json"]


def test_the_other_run_needs_the_metric_and_a_case(good: Path, tmp_path: Path) -> None:
    result, other = read_run(good), tmp_path / "other"
    with pytest.raises(ConfigError, match="it shares no case with this run; choose a run on the same dataset"):
        check_gate(gated(result, good), [Case("another", "?", ())])
    shutil.copytree(good, other)
    metrics = json.loads((other / "metrics.json").read_text("utf-8"))
    del metrics["metrics"]["agreement/accuracy"]
    (other / "metrics.json").write_text(json.dumps(metrics), "utf-8")
    with pytest.raises(ConfigError, match="this run has no metric 'agreement/accuracy'; did you mean"):
        check_gate(gated(result, other), result.cases)


def test_a_run_that_is_gone_or_broken_leaves_the_rule_undecided(good: Path, tmp_path: Path) -> None:
    result, other = read_run(good), tmp_path / "other"
    _, files = apply_gate(gated(result, other), result)
    assert "undecided" in files["gate.json"]
    shutil.copytree(good, other)
    (other / "config.yaml").write_text("judge: {model: 3}\nscoring: nothing\n", "utf-8")
    _, files = apply_gate(gated(result, other), result)
    assert "undecided" in files["gate.json"]
