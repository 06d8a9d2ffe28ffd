"""The process beside a run that records it: the same run as one recorded here, and never a reason to lose one."""

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from evalkit.cli.console import CommandSettings
from evalkit.cli.hydra_runner import BackgroundRecordings
from evalkit.config import TrackingConfig
from evalkit.core.errors import TrackingError
from evalkit.runs import read_run, write_run
from evalkit.runs.folders import read_status
from evalkit.runs.results import RunResult
from evalkit.tracking import background, make_tracker, recording, warm_up
from evalkit.tracking.background import BackgroundTracker, Worker
from evalkit.tracking.mlflow_tracker import MlflowTracker

pytestmark = pytest.mark.slow
SETTINGS = TrackingConfig(traces=2)


@pytest.fixture(scope="module")
def recorder(empty_store):
    started = Worker(f"sqlite:///{empty_store}")
    yield started
    started.close()


@pytest.fixture
def written(make_result):
    """Make a run in a folder that can be read again."""

    def write(folder: Path, run_id: str, **manifest: object) -> RunResult:
        made = make_result(folder, run_id=run_id, **manifest)
        write_run(folder, made)
        return read_run(folder)

    return write


def recorded(uri: str, run: str) -> dict[str, object]:
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    held = client.get_run(run)
    files = {item.path for item in client.list_artifacts(run)}
    inputs = [(given.dataset.name, given.dataset.digest) for given in held.inputs.dataset_inputs]
    traces = client.search_traces(locations=[held.info.experiment_id], run_id=run)
    name, status = held.info.run_name, held.info.status
    return {**held.data.to_dictionary(), "": (name, status, files, inputs, len(traces))}


def test_what_is_recorded_beside_is_what_is_recorded_here(recorder, store, tmp_path, written):
    here = MlflowTracker(store, SETTINGS)
    one, two = written(tmp_path / "a", "one"), written(tmp_path / "b", "two")
    there = recorded(store, BackgroundTracker(recorder, here).record(one))
    found = recorded(store, here.record(two))
    assert recorder.runs
    for held in (there, found):
        assert held["tags"].pop("evalkit.run_id") in ("one", "two")
    assert there == found
    assert there[""][1] == "FINISHED"
    assert there[""][4] == 2


def test_a_run_is_recorded_beside_what_comes_next(recorder, store, tmp_path, written):
    tracker = BackgroundTracker(recorder, MlflowTracker(store, SETTINGS))
    first, second = (tracker.begin(written(tmp_path / name, name)) for name in ("first", "second"))
    third = tracker.record(written(tmp_path / "third", "third"))
    found = [recorded(store, run)["tags"]["evalkit.run_id"] for run in (second(), first(), third)]
    assert found == ["second", "first", "third"]


def test_what_was_begun_when_the_recorder_ended_is_recorded_here_and_what_was_interrupted_is_not(
    store, tmp_path, written, monkeypatch
):
    here = MlflowTracker(store, SETTINGS)
    gone = Worker(store)
    gone._process.kill()
    gone._process.wait()
    assert not gone.runs
    end = BackgroundTracker(gone, here).begin(written(tmp_path / "run", "here"))
    assert recorded(store, end())[""][1] == "FINISHED"
    left = Worker(store)
    end = BackgroundTracker(left, here).begin(written(tmp_path / "other", "interrupted"))
    monkeypatch.setattr(left, "_read", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        BackgroundTracker(left, here).record(written(tmp_path / "next", "next"))
    assert not left.runs
    with pytest.raises(
        TrackingError,
        match="interrupted before the run was recorded in MLflow: `evalkit track` sends it",
    ):
        end()


def _interrupted() -> None:
    raise KeyboardInterrupt


def test_jobs_of_a_sweep_are_each_recorded_while_the_next_is_judged(
    recorder, store, tmp_path, written, monkeypatch, capsys
):
    trackers = {None: BackgroundTracker(recorder, MlflowTracker(store, SETTINGS))}
    trackers["away"] = BackgroundTracker(recorder, MlflowTracker("http://127.0.0.1:9", SETTINGS))
    monkeypatch.setattr(recording, "make_tracker", lambda config, **_: trackers[config.uri])
    recordings, sweep = BackgroundRecordings(), {"id": "s", "name": "study", "overrides": ["n=1"]}
    jobs = [written(tmp_path / str(n), f"job {n}", sweep={**sweep, "job": n}) for n in range(3)]
    for job, uri in zip(jobs, (None, "away", None), strict=True):
        with CommandSettings(verbose=True).applied():
            recordings.begin(SETTINGS.model_copy(update={"uri": uri}), job)
    assert [read_status(Path(job.folder)).recorded is not None for job in jobs] == [
        *(True, False, False),
    ]
    with CommandSettings(verbose=True).applied():
        recordings.settle()
        recordings.settle()
    runs = [read_status(Path(job.folder)).recorded for job in jobs]
    assert recordings.statuses == [3]
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"MLflow: run {runs[0]} is job 0",
        f"MLflow: run {runs[2]} is job 2",
    ]
    assert f"evalkit track {jobs[1].folder}" in err
    assert [recorded(store, run)["tags"]["evalkit.run_id"] for run in (runs[0], runs[2])] == [
        "job 0",
        "job 2",
    ]


def test_why_a_run_could_not_be_recorded_is_told_and_the_next_one_can_be(
    recorder, store, tmp_path, written
):
    run = written(tmp_path / "run", "again")
    broken = BackgroundTracker(recorder, MlflowTracker(f"sqlite:///{tmp_path}", SETTINGS))
    with pytest.raises(TrackingError, match=r"is complete: `evalkit track"):
        broken.record(run)
    assert recorder.runs
    assert BackgroundTracker(recorder, MlflowTracker(store, SETTINGS)).record(run)


def test_the_environment_of_the_moment_counts(recorder, written, tmp_path, monkeypatch):
    seen: set[str | None] = set()

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.add(self.headers.get("Authorization"))
            self.send_error(401)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "of this moment")
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        tracker = BackgroundTracker(
            recorder, MlflowTracker(f"http://127.0.0.1:{server.server_port}", SETTINGS)
        )
        with pytest.raises(TrackingError, match="refused the credentials"):
            tracker.record(written(tmp_path / "run", "x"))
        server.shutdown()
    assert seen == {"Bearer of this moment"}


def test_a_run_too_large_to_be_read_again_is_recorded_here(store, tmp_path, monkeypatch, written):
    monkeypatch.setattr(background, "LARGEST", 15)
    tracker = BackgroundTracker(None, MlflowTracker(store, SETTINGS))
    assert len((run := written(tmp_path / "run", "large")).judgments) == 16
    assert recorded(store, tracker.record(run))


def test_it_ends_with_its_input():
    done = subprocess.run(
        [sys.executable, "-c", background._CODE, *sys.path], input=b"", timeout=60, check=False
    )
    assert done.returncode == 0


@pytest.mark.slow
def test_it_handles_each_request_until_its_input_ends(store, tmp_path, written):
    run = MlflowTracker(store, SETTINGS).record(written(tmp_path / "a", "one"))
    written(tmp_path / "b", "two")
    page = tmp_path / "page.html"
    page.write_text("<p>", "utf-8")
    common = {"uri": store, "config": SETTINGS.model_dump(mode="json"), "cwd": str(tmp_path)}
    common["environment"] = dict(os.environ)
    requests = [
        {"uri": store},
        {**common, "action": "record", "folder": "b"},
        {**common, "action": "renew", "folder": "a", "run": run},
        {**common, "action": "attach", "run": run, "files": [str(page)]},
        {**common, "action": "attach", "run": "0" * 32, "files": [str(page)]},
    ]
    done = subprocess.run(
        [sys.executable, "-c", background._CODE, *sys.path],
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made, *renewed, failed = [json.loads(line) for line in done.stdout.splitlines()]
    assert renewed == [{"run": run}, {"run": run}]
    assert recorded(store, made["run"])["tags"]["evalkit.run_id"] == "two"
    assert list(failed) == ["error"]


def test_none_is_started_where_mlflow_is_imported_already_or_not_wanted(here, monkeypatch):
    monkeypatch.setattr(background, "_recorder", None)
    monkeypatch.setitem(sys.modules, "mlflow", sys)
    warm_up(SETTINGS)
    monkeypatch.delitem(sys.modules, "mlflow")
    for unwanted in ("enabled", "background"):
        warm_up(SETTINGS.model_copy(update={unwanted: False}))
    assert background._recorder is None
    assert isinstance(make_tracker(SETTINGS), MlflowTracker)


def test_one_is_started_once_and_taken_until_mlflow_is_imported(here, monkeypatch):
    monkeypatch.setattr(background, "_recorder", None)
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    for _ in range(2):
        warm_up(SETTINGS)
        tracker = make_tracker(SETTINGS)
        assert isinstance(tracker, BackgroundTracker)
    assert tracker.recorder is background._recorder
    monkeypatch.setitem(sys.modules, "mlflow", sys)
    assert isinstance(make_tracker(SETTINGS), MlflowTracker)
    assert not tracker.recorder.runs
