import sys

import pytest

from evalkit.config import TrackingConfig
from evalkit.core.errors import ConfigError
from evalkit.core.redaction import without_password
from evalkit.tracking import make_tracker, server_environment, tracking_uri

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize(
    ("configured", "environment", "expected"),
    [
        (None, None, "sqlite:///{folder}/mlflow.db"),
        (None, "http://tracking:5000", "http://tracking:5000"),
        ("sqlite:///runs/all.db", "http://tracking:5000", "sqlite:///{folder}/runs/all.db"),
        ("sqlite:////data/all.db", None, "sqlite:////data/all.db"),
        ("postgresql://db/mlflow", None, "postgresql://db/mlflow"),
        ("databricks", None, "databricks"),
        ("./mlruns", None, "file://{folder}/mlruns"),
    ],
)
def test_tracking_uri(tmp_path, monkeypatch, configured, environment, expected):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if environment:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", environment)
    assert tracking_uri(TrackingConfig(uri=configured)) == expected.format(
        folder=tmp_path.resolve()
    )


def test_making_a_tracker_does_not_touch_the_folder(tmp_path):
    before = set(sys.modules)
    assert make_tracker(TrackingConfig(enabled=False)) is None
    assert make_tracker(TrackingConfig()) is not None
    assert not list(tmp_path.iterdir())
    assert not [name for name in set(sys.modules) - before if name.split(".")[0] == "mlflow"]


def test_passwords_leave_every_url():
    assert (
        without_password("at https://me:pw@host/x and http://a") == "at https://host/x and http://a"
    )


def test_the_server_does_not_wait_for_a_price_list():
    assert server_environment()["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"


@pytest.mark.parametrize(
    "uri", ["arn:aws:sagemaker:eu-west-1:1:mlflow-tracking-server/x", "arn://x"]
)
def test_a_scheme_is_known_where_a_plug_in_of_mlflow_has_it(tmp_path, monkeypatch, uri):
    config = TrackingConfig(uri=uri)
    if "://" in uri:
        with pytest.raises(
            ConfigError, match=r"^tracking.uri: MLflow knows no 'arn:'; use sqlite:///mlflow.db"
        ):
            tracking_uri(config)
    else:
        assert tracking_uri(config).startswith("file:")
    installed = tmp_path / "site" / "plug-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[mlflow.tracking_store]\narn = plug:Store\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert tracking_uri(config) == uri
