"""A real MLflow server over HTTP, behind a door that asks for a password."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from evalkit.config import TrackingConfig
from evalkit.errors import TrackingError
from evalkit.tracking import make_tracker, server_environment

pytestmark = pytest.mark.slow
USER, PASSWORD = "judge", "open-sesame"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:
            return reply.status == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, port = tmp_path_factory.mktemp("server"), _free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=server_environment(), stdout=log, stderr=log, start_new_session=True
        )
    deadline = time.monotonic() + 150
    try:
        while not _answers(f"http://127.0.0.1:{port}/health"):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


@pytest.fixture
def door(server: str) -> Iterator[str]:
    wanted = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Door(BaseHTTPRequestHandler):
        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Authorization") != wanted:
                return self._reply(401, b"who are you?", "text/plain")
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "authorization")}
            request = urllib.request.Request(
                server + self.path, data=body or None, headers=headers, method=self.command
            )
            try:
                with urllib.request.urlopen(request, timeout=30) as reply:
                    return self._reply(reply.status, reply.read(), reply.headers.get("Content-Type") or "")
            except urllib.error.HTTPError as refused:
                with refused:
                    return self._reply(refused.code, refused.read(), refused.headers.get("Content-Type") or "")

        def _reply(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


def test_a_run_over_http_with_a_password_is_complete(door, make_result, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", door)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", USER)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    sweep = {"id": "s", "job": 0, "name": "study", "overrides": ["swap=both"]}
    tracker = make_tracker(TrackingConfig(traces=4), folder=tmp_path)
    result = make_result(tmp_path / "run", sweep=sweep)
    run_id = tracker.record(result)
    assert tracker.record(result) == run_id
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        client = MlflowClient(door)
        run = client.get_run(run_id)
        assert client.get_run(run.data.tags["mlflow.parentRunId"]).info.run_name == "study"
        assert {file.path for file in client.list_artifacts(run_id)} >= {"metrics.json", "report.html", "tables"}
        traces = client.search_traces(locations=[run.info.experiment_id], run_id=run_id)
    assert len(traces) == 4
    assert all(len(trace.data.spans) == 2 for trace in traces)
    assert all({"verdict", "label"} <= {a.name for a in trace.info.assessments} for trace in traces)


def test_a_wrong_password_is_one_line(door, make_result, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", USER)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "not-this-one")
    tracker = make_tracker(TrackingConfig(uri=door), folder=tmp_path)
    with pytest.raises(TrackingError, match="set MLFLOW_TRACKING_USERNAME") as caught:
        tracker.record(make_result(tmp_path / "run"))
    assert "not-this-one" not in str(caught.value)
