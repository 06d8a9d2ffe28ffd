"""Gates: which names and runs are refused first, what is undecided later, and what kept a run from its answers."""

import json
import shutil
from pathlib import Path

import pytest

from evalkit import load_config, run
from evalkit.config import RunConfig
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case, Response
from evalkit.runs import read_run
from evalkit.runs.results import Calls, RunResult
from evalkit.workflows.gating import apply_gate, check_gate, shortfall
from evalkit.workflows.materials import build_evaluator

CASES = [Case("c", "?", (Response("a"), Response("b")), label="A")]


def panel(metric: str) -> RunConfig:
    judges = [{"model": "openai/one"}, {"model": "openai/two", "name": "my judge"}]
    return RunConfig(
        judge={"name": "panel", "model": None, "judges": judges},
        criteria=[{"name": "q"}],
        gate={metric: {"value": "<= 1"}},
    )


@pytest.mark.parametrize(
    "metric", ["judge/one/tie_rate", "judge/my_judge/tie_rate", "tie_rate", "tie_rate/split"]
)
def test_a_panels_metrics_go_by_the_names_that_they_have(metric):
    check_gate(panel(metric), CASES)


@pytest.mark.parametrize("metric", ["judge/my judge/tie_rate", "judge/three/tie_rate"])
def test_a_judge_that_no_metric_is_called_by_is_refused(metric):
    with pytest.raises(ConfigError, match=r"no such judge; choose from one, my_judge$"):
        check_gate(panel(metric), CASES)


def test_judges_whose_metrics_would_go_by_one_name_are_refused_before_anything_is_asked():
    alike = [
        {"model": "openai/one", "name": "my judge"},
        {"model": "openai/two", "name": "my_judge"},
    ]
    config = RunConfig(
        judge={"name": "p", "model": None, "judges": alike}, criteria=[{"name": "q"}]
    )
    with pytest.raises(
        ConfigError, match=r"the metrics of judges my judge and my_judge would have the same names"
    ):
        build_evaluator(config)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder, words = (
        tmp_path_factory.mktemp("runs") / "good",
        ["judge=simulated/good", "dataset=quick"],
    )
    words += ["dataset.limit=6", "tracking=none", "store=off", "scoring.bootstrap=50"]
    run(load_config(overrides=words), folder)
    return folder


def gated(result: RunResult, folder: Path, metric: str = "agreement/accuracy") -> RunConfig:
    gate = {"no_worse_than": {"run": str(folder), "metric": metric}}
    return RunConfig.model_validate({**result.config.dump(), "gate": gate})


def test_a_run_is_no_worse_than_itself(good):
    result = read_run(good)
    config = gated(result, good)
    check_gate(config, result.cases)
    _, files = apply_gate(config, result)
    assert "held" in files["gate.json"]


def test_the_other_run_needs_the_metric_and_a_case(good, tmp_path):
    result, other = read_run(good), tmp_path / "other"
    with pytest.raises(
        ConfigError, match="it shares no case with this run; choose a run on the same dataset"
    ):
        check_gate(gated(result, good), [Case("another", "?", ())])
    shutil.copytree(good, other)
    metrics = json.loads((other / "metrics.json").read_text("utf-8"))
    del metrics["metrics"]["agreement/accuracy"]
    (other / "metrics.json").write_text(json.dumps(metrics), "utf-8")
    with pytest.raises(
        ConfigError, match="this run has no metric 'agreement/accuracy'; did you mean"
    ):
        check_gate(gated(result, other), result.cases)


def test_a_run_that_is_gone_or_broken_leaves_the_rule_undecided(good, tmp_path):
    result, other = read_run(good), tmp_path / "other"
    _, files = apply_gate(gated(result, other), result)
    assert "undecided" in files["gate.json"]
    shutil.copytree(good, other)
    (other / "config.yaml").write_text("judge: {model: 3}\nscoring: nothing\n", "utf-8")
    _, files = apply_gate(gated(result, other), result)
    assert "undecided" in files["gate.json"]


@pytest.mark.parametrize(
    ("failed", "said"), [(2, None), (3, "30.0% of the requests failed, more than")]
)
def test_as_many_failures_as_are_allowed_are_not_too_many(failed, said):
    config = RunConfig(
        judge={"model": "m"}, criteria=[{"name": "q"}], runner={"max_failure_rate": 0.2}
    )
    result = RunResult(None, config, {}, (), (), (), {}, calls=Calls(10, 0, 10, 0, failed))
    found = shortfall(config, result)
    assert found is None if said is None else found is not None and found.startswith(said)
