"""A real MLflow server over HTTP, whose own basic auth asks for a password."""

import base64
import json
import sys
import urllib.request
import warnings

import pytest

from evalkit.config import TrackingConfig
from evalkit.core.errors import TrackingError
from evalkit.tracking import make_tracker, server_environment
from tests.support.servers import free_port, served

pytestmark = pytest.mark.slow
ADMIN, USER, PASSWORD = "admin", "judge", "open-sesame-12"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """MLflow's own server with its own basic auth: who is not known gets nothing, and everybody may read."""
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    (folder / "auth.ini").write_text(
        f"[mlflow]\ndefault_permission = READ\ndatabase_uri = sqlite:///{folder / 'auth.db'}\n"
        f"admin_username = {ADMIN}\nadmin_password = {PASSWORD}\n"
        "auth_cache_ttl_seconds = 3600\n"  # else each request hashes the password anew
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--workers",
        "1",
    ]
    secrets = {
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "any",
    }
    url = f"http://127.0.0.1:{port}"
    with served(
        [*command, "--app-name", "basic-auth"],
        f"{url}/health",
        folder,
        {**server_environment(), **secrets},
    ):
        _add_user(url)
        yield url


def _add_user(url: str) -> None:
    request = urllib.request.Request(
        f"{url}/api/2.0/mlflow/users/create",
        data=json.dumps({"username": USER, "password": PASSWORD}).encode(),
        headers={
            "Authorization": "Basic " + base64.b64encode(f"{ADMIN}:{PASSWORD}".encode()).decode(),
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        assert reply.status == 200


@pytest.fixture
def signed_in(monkeypatch):
    def sign_in(user: str) -> None:
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", user)
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)

    return sign_in


def test_a_run_over_http_with_a_password_is_complete(
    server, signed_in, make_result, tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    signed_in(USER)
    sweep = {"id": "s", "job": 0, "name": "study", "overrides": ["swap=both"]}
    tracker = make_tracker(TrackingConfig(traces=4))
    result = make_result(tmp_path / "run", sweep=sweep)
    run_id = tracker.record(result)
    assert tracker.record(result) == run_id
    assert "View run" not in capfd.readouterr().out
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        client = MlflowClient(server, server)
        run = client.get_run(run_id)
        assert client.get_run(run.data.tags["mlflow.parentRunId"]).info.run_name == "study"
        (prompt,) = json.loads(run.data.tags["mlflow.linkedPrompts"])
        assert client.get_prompt_version(prompt["name"], prompt["version"]).template.startswith(
            "Which is better?"
        )
        assert {file.path for file in client.list_artifacts(run_id)} >= {
            *("metrics.json", "report.html", "tables"),
        }
        traces = client.search_traces(locations=[run.info.experiment_id], run_id=run_id)
    assert len(traces) == 4
    assert all(len(trace.data.spans) == 2 for trace in traces)
    assert all({"verdict", "label"} <= {a.name for a in trace.info.assessments} for trace in traces)


def test_a_user_who_may_not_change_a_prompt_still_has_the_run(
    server, signed_in, make_result, tmp_path
):
    tracker = make_tracker(TrackingConfig(uri=server, experiment="of the admin", traces=0))
    signed_in(ADMIN)
    tracker.record(make_result(tmp_path / "a", run_id="a", prompts={"en/theirs.md.j2": "one"}))
    signed_in(USER)
    mine = make_tracker(TrackingConfig(uri=server, experiment="of the user", traces=0))
    run_id = mine.record(
        make_result(tmp_path / "b", run_id="b", prompts={"en/theirs.md.j2": "two"})
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        run = MlflowClient(server, server).get_run(run_id)
    assert run.info.status == "FINISHED"
    assert "mlflow.linkedPrompts" not in run.data.tags
    assert "Permission denied" in run.data.tags["evalkit.prompts"]


def test_a_wrong_password_is_one_line(server, make_result, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", USER)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "not-this-one")
    tracker = make_tracker(TrackingConfig(uri=server))
    with pytest.raises(TrackingError, match="set MLFLOW_TRACKING_USERNAME") as caught:
        tracker.record(make_result(tmp_path / "run"))
    assert "not-this-one" not in str(caught.value)
