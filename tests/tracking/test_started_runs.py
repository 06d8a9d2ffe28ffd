"""A run is in MLflow while it is judged, and ends there as FINISHED, FAILED or KILLED."""

import json
import shutil
import signal
import socket
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from evalkit.cli import main
from evalkit.config import RunConfig, TrackingConfig
from evalkit.runs.results import RunResult
from evalkit.tracking.mlflow_tracker import MlflowTracker
from evalkit.tracking.started_runs import NAME, settle, shown_as_running
from tests.support.command_line import Commands, fake, pair
from tests.support.fake_provider import Reply, said
from tests.support.servers import PATIENCE

STORE = "sqlite:///mlflow.db"


QUERY = """
SELECT runs.status, tags.value, params.value FROM runs
JOIN tags ON tags.run_uuid = runs.run_uuid AND tags.key = 'evalkit.run_id'
LEFT JOIN params ON params.run_uuid = runs.run_uuid AND params.key = 'judge.model'
WHERE runs.lifecycle_stage = 'active' ORDER BY runs.start_time DESC
"""


def runs(folder: Path) -> list[tuple[str, str, str]]:
    """Return status, identity and a param of each run, newest first; MLflow may be creating the tables."""
    with (
        closing(sqlite3.connect(folder / "mlflow.db")) as connection,
        suppress(sqlite3.OperationalError),
    ):
        return connection.execute(QUERY).fetchall()
    return []


def wait_for(folder: Path, status: str) -> list[tuple[str, str, str]]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if (folder / "mlflow.db").exists():
            found = runs(folder)
            if found and found[0][0] == status and found[0][2]:
                return found
        time.sleep(0.2)
    raise AssertionError(f"no run with status {status}: {runs(folder)}")


@pytest.mark.slow
def test_a_run_is_shown_while_it_is_judged_and_killed_with_its_process(
    tmp_path, provider, empty_store, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("EVALKIT_STORE", "s.sqlite")
    shutil.copy(empty_store, "mlflow.db")
    hang = threading.Event()
    reached = threading.Event()

    def rule(_: object) -> Reply:
        reached.set()
        return Reply(said("[[A]]").body, hang=hang)

    provider.rule = rule
    (tmp_path / "data.jsonl").write_text(json.dumps(pair(1)) + "\n", "utf-8")
    words = ["run", *fake(provider), "dataset=file", "dataset.path=data.jsonl", "swap=none"]
    words += ["output=bracket", "scoring.bootstrap=50", f"tracking.uri={STORE}"]
    words += ["hydra.run.dir=run", "judge.transport=direct"]
    with Commands(tmp_path).started(*words, log=tmp_path / "log") as started:
        started.wait_for(reached)
        [(_, identity, model)] = wait_for(tmp_path, "RUNNING")
        assert model == "openai/fake"
        assert (tmp_path / "run" / NAME).read_text() == identity
        started.process.send_signal(signal.SIGKILL)
        started.ended()
    assert wait_for(tmp_path, "KILLED")[0][1] == identity
    hang.set()
    assert main([*words, f"judge.api_base={provider.api_base}"]) == 0
    (first, second, *others) = runs(tmp_path)
    assert others == []
    assert (first[0], second[:2]) == ("FINISHED", ("KILLED", identity))
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_bytes())
    assert manifest["run_id"] == first[1]
    assert manifest["mlflow_run_id"]
    assert not (tmp_path / "run" / NAME).exists()


CONFIG = RunConfig(judge={"model": "simulated/good"}, criteria={"accuracy": {"weight": 1.0}})


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError, "FAILED"), (KeyboardInterrupt, "KILLED")]
)
def test_an_error_ends_the_run_and_a_left_one_is_killed(tmp_path, error, status):
    tracker = MlflowTracker(f"sqlite:///{tmp_path / 'mlflow.db'}", TrackingConfig(traces=0))
    folder = tmp_path / "run"
    folder.mkdir()
    left = "a" * 32
    tracker.start(CONFIG, left)
    (folder / NAME).write_text(left)

    def fail() -> None:
        with shown_as_running(tracker, CONFIG, folder, "b" * 32):
            settle("b" * 32)
            found = {run[:2] for run in runs(tmp_path)}
            assert found == {("KILLED", left), ("RUNNING", "b" * 32)}
            raise error

    with pytest.raises(error):
        fail()
    assert {run[:2] for run in runs(tmp_path)} == {("KILLED", left), (status, "b" * 32)}
    assert not (folder / NAME).exists()


def test_a_started_run_is_adopted(tmp_path, make_result):
    tracker = MlflowTracker(f"sqlite:///{tmp_path / 'mlflow.db'}", TrackingConfig(traces=0))
    result = make_result(tmp_path / "run")
    identity = str(result.manifest["run_id"])
    tracker.start(result.config, identity)
    tracker.start(result.config, identity)
    [(status, *_)] = runs(tmp_path)
    assert status == "RUNNING"
    run = tracker.record(result)
    tracker.end(identity, "KILLED")
    assert [found[:2] for found in runs(tmp_path)] == [("FINISHED", identity)]
    assert tracker.record(result) == run


class Plain:
    """A tracker of an earlier version."""

    def record(self, result: RunResult) -> str:
        raise AssertionError


def test_trackers_without_start_work_as_before(tmp_path):
    for tracker in (None, Plain()):
        with shown_as_running(tracker, CONFIG, tmp_path, "b" * 32):
            assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
@pytest.mark.slow
def test_a_server_that_hangs_delays_nothing_before_the_end_and_little_there(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        words = ["run", "judge=simulated/good", "store=off", "dataset.limit=2"]
        words += ["scoring.bootstrap=50", f"tracking.uri=http://127.0.0.1:{port}"]
        begun = time.monotonic()
        done = Commands(tmp_path)(*words, "hydra.run.dir=run", status=3)
        seconds = time.monotonic() - begun
    assert "no answer from the server" in done.err
    assert (tmp_path / "run" / "manifest.json").exists()
    assert seconds < 60, seconds
