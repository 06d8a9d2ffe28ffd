"""A judge in MLflow's model registry: registered with its decision, loaded by its alias."""

import pandas as pd
import pytest

import evalkit
from evalkit.cli import main
from evalkit.core.errors import ConfigError, TrackingError
from evalkit.tracking.registry import folder_below
from tests.adapters.conftest import ASKED, BAD, GOOD

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_a_judge_is_registered_and_loaded_by_its_alias(
    judges, mlflow_store, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    import mlflow

    before = f"sqlite:///{tmp_path / 'other.db'}"
    mlflow.set_tracking_uri(before)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_store)
    run = judges.pairs.parent / "runs" / "pairs"
    for version, useful in (("1", ()), ("2", (evalkit.load_judge(run).trust.use,))):
        monkeypatch.setattr("evalkit.tracking.registry.USEFUL", useful)
        words = ["--to", "judge", "--output", f"judge{version}", "--register", "helpful"]
        assert main(["export", str(run), *words]) == 0
        out = capsys.readouterr().out
        assert f"registered as helpful, version {version}" in out
        assert ("note: not the champion" in out) == (not useful)
    judge = evalkit.load_judge("models:/helpful@champion", api_base=judges.api_base)
    assert judge.sync(prompt=ASKED, response_a=BAD, response_b=GOOD).winner == "B"
    assert mlflow.get_tracking_uri() == before, "the store of the process is the caller's"
    assert mlflow.get_registry_uri() == before
    mlflow.set_tracking_uri(mlflow_store)
    model = mlflow.pyfunc.load_model("models:/helpful@champion")
    rows = pd.DataFrame(
        [{"inputs": {"question": ASKED}, "outputs": GOOD, "expectations": {"response_b": BAD}}]
    )
    assert [row["value"] for row in model.predict(rows)] == ["A"]
    client = mlflow.MlflowClient(mlflow_store, mlflow_store)
    version = client.get_model_version_by_alias("helpful", "champion")
    assert str(version.version) == "2"
    assert version.tags["decision"] == judge.trust.use


def test_what_is_no_registered_judge_is_one_line(mlflow_store, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_store)
    with pytest.raises(TrackingError, match="nosuch"):
        evalkit.load_judge("models:/nosuch@champion")
    for address in ("models:/", "models:/a", "models:/a/latest", "models:/a/1/b", "models:/../x@y"):
        with pytest.raises(ConfigError, match="write models:/NAME@ALIAS"):
            evalkit.load_judge(address)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'none.db'}")
    with pytest.raises(ConfigError, match="no such judge, since this database does not exist"):
        evalkit.load_judge("models:/nosuch@champion")
    assert not (tmp_path / "none.db").exists()
    assert main(["export", "run", "--to", "csv", "--register", "x"]) == 1
    assert "--register: is only for judge" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_model_that_is_no_judge_is_refused(mlflow_store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_store)
    import mlflow

    mlflow.set_tracking_uri(mlflow_store)
    with mlflow.start_run():
        mlflow.pyfunc.log_model(
            name="m",
            python_model=lambda model_input: model_input,
            pip_requirements=[],
            input_example=["x"],
            registered_model_name="other",
        )
    with pytest.raises(ConfigError, match="is not a judge of evalkit"):
        evalkit.load_judge("models:/other/1")


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ("data/judge", True),
        ("../outside", False),
        ("/", False),
        ("link", False),
        (".", False),
        ("none", False),
        (None, False),
        (3, False),
    ],
)
def test_a_model_names_a_folder_of_its_own(data, found, tmp_path):
    model = tmp_path / "model"
    (model / "data" / "judge").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (model / "link").symlink_to(tmp_path / "outside")
    assert (folder_below(model, data) is not None) == found
