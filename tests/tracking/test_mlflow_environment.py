"""MLflow's own variables: `MLFLOW_EXPERIMENT_NAME` and `MLFLOW_RUN_ID`."""

from pathlib import Path

import pytest
from mlflow import MlflowClient

from evalkit.config import RunConfig, TrackingConfig
from evalkit.core.errors import ConfigError, TrackingError
from evalkit.tracking import running_run
from evalkit.tracking.mlflow_environment import experiment_name
from evalkit.tracking.mlflow_tracker import MlflowTracker

_SWEEP = {"id": "s-1", "job": 0, "name": "mine", "overrides": ["judge=x"]}


def _tracker(store: str, **config) -> MlflowTracker:
    return MlflowTracker(store, TrackingConfig(traces=0, **config))


def test_the_experiment_is_the_configured_one_then_that_of_the_environment(monkeypatch):
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    assert experiment_name(TrackingConfig()) == "evalkit"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    assert experiment_name(TrackingConfig()) == "theirs"
    assert experiment_name(TrackingConfig(experiment="evalkit")) == "evalkit"


def test_neither_variable_is_in_the_config_hash(monkeypatch):
    config = RunConfig(judge={"model": "m"}, criteria={"accuracy": {}})
    before = config.hash()
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    monkeypatch.setenv("MLFLOW_RUN_ID", "abc")
    assert RunConfig(judge={"model": "m"}, criteria={"accuracy": {}}).hash() == before


@pytest.mark.parametrize("sweep", [None, _SWEEP])
def test_a_run_of_the_users_is_the_parent_and_keeps_running(
    sweep, store, make_result, tmp_path, monkeypatch
):
    client = MlflowClient(store)
    experiment = client.create_experiment("theirs", artifact_location=tmp_path.as_uri())
    step = client.create_run(experiment).info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", step)
    recorded = _tracker(store).record(make_result(tmp_path / "run", sweep=sweep))
    run = client.get_run(recorded)
    assert run.info.experiment_id == experiment
    assert run.data.tags["mlflow.parentRunId"] == step
    assert (run.data.tags["mlflow.runType"], run.info.status) == ("genai_evaluate", "FINISHED")
    assert client.get_run(step).info.status == "RUNNING"


def test_a_run_that_cannot_get_runs_is_refused_before_anything_is_paid(
    store, make_result, tmp_path, monkeypatch
):
    client = MlflowClient(store)
    experiment = client.create_experiment("theirs", artifact_location=tmp_path.as_uri())
    step = client.create_run(experiment).info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", step)
    with pytest.raises(TrackingError, match=r"'theirs', but tracking\.experiment is 'mine'"):
        _tracker(store, experiment="mine").check_surrounding_run()
    client.set_terminated(step)
    config = RunConfig(judge={"model": "m"}, criteria={"accuracy": {}}, tracking={"uri": store})
    with pytest.raises(ConfigError, match=rf"MLFLOW_RUN_ID: run {step} has ended \(FINISHED\)"):
        running_run(config, Path("run"), "r")
    monkeypatch.setenv("MLFLOW_RUN_ID", "unknown")
    with pytest.raises(ConfigError, match="has no run unknown; unset MLFLOW_RUN_ID"):
        running_run(config, Path("run"), "r")
