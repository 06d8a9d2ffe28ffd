import base64
import json
import socket
import sqlite3
import time
import zlib
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.cli.ui import runs_page
from evalkit.config import TrackingConfig
from evalkit.core.errors import ExitStatus, TrackingError
from evalkit.core.types import Response, Verdict
from evalkit.tracking import connection, contents
from evalkit.tracking.mlflow_tracker import MlflowTracker


def tracker(uri: str, **config) -> MlflowTracker:
    return MlflowTracker(uri, TrackingConfig(**config))


SOON = 60.0  # even on a busy machine; MLflow by itself goes on for many minutes


def client(uri: str):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


def test_a_run_is_there_with_everything_it_is_made_of(store, make_result, tmp_path):
    result = make_result(tmp_path / "run")
    (tmp_path / "run" / "findings.md").write_text("- Not distinguishable from chance.\n", "utf-8")
    own = tracker(store, experiment="a study/1", traces=4, tags={"team": "search"})
    run_id = own.record(result)
    run = client(store).get_run(run_id)
    assert own.record(result) == run_id
    assert own.record(make_result(tmp_path / "other", run_id="run-2")) != run_id
    assert run.data.tags["mlflow.note.content"] == "- Not distinguishable from chance.\n"
    assert (run.info.status, run.info.run_name) == ("FINISHED", "pairwise-m-01234567")
    assert run.info.end_time - run.info.start_time == 30_000
    assert run.data.metrics["agreement/accuracy/high"] == 0.9
    assert run.data.params["swap.policy"] == "both"
    assert run.data.tags["evalkit.run_id"] == "run-1"
    assert run.data.tags["team"] == "search"
    assert run.data.tags["decision"] == result.decision.use
    dataset = run.inputs.dataset_inputs[0].dataset
    assert (dataset.name, dataset.digest) == ("sums", ("ab" * 32)[:36])
    assert json.loads(dataset.profile)["num_rows"] == 8


def test_two_runs_may_be_the_first_of_a_dataset_at_once(store, make_result, tmp_path, monkeypatch):
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    real, lost = MlflowClient.log_inputs, []

    def lose_once(self, run, inputs):
        if not lost:
            lost.append(run)
            raise MlflowException(
                "UNIQUE constraint failed: datasets.experiment_id, datasets.name, datasets.digest"
            )
        return real(self, run, inputs)

    monkeypatch.setattr(MlflowClient, "log_inputs", lose_once)
    run_id = tracker(store, traces=0).record(make_result(tmp_path / "run"))
    assert lost == [run_id]
    assert client(store).get_run(run_id).inputs.dataset_inputs[0].dataset.name == "sums"


def test_every_file_and_both_tables_are_artifacts_beside_the_store(
    store, make_result, tmp_path, monkeypatch
):
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    result = make_result(tmp_path / "run")
    run_id = tracker(store, traces=0).record(result)
    kept = tmp_path / "mlruns" / "evalkit" / run_id / "artifacts"
    assert {p.name for p in kept.iterdir()} == {p.name for p in Path(result.folder).iterdir()} | {
        "tables"
    }
    assert json.loads((kept / "tables" / "verdicts.json").read_text())["data"][0][0] == "c0 AB"
    shown = json.loads(client(store).get_run(run_id).data.tags["mlflow.loggedArtifacts"])
    assert {entry["path"] for entry in shown} == {"tables/judgments.json", "tables/verdicts.json"}
    assert not list(elsewhere.iterdir())


def test_traces_carry_texts_and_assessments(store, make_result, tmp_path):
    run_id = tracker(store, traces=8).record(make_result(tmp_path / "run"))
    mlflow = client(store)
    experiment = mlflow.get_run(run_id).info.experiment_id
    traces = mlflow.search_traces(locations=[experiment], run_id=run_id)
    assert len(traces) == 8
    by_case = {(t.info.tags["evalkit.case_id"], t.info.tags["evalkit.shown"]): t for t in traces}
    flipped = by_case["c2", "BA"]
    root, call = sorted(flipped.data.spans, key=lambda span: span.parent_id is not None)
    assert root.inputs["response B, shown first"] == "五。"
    assert root.outputs["answer"]["result"]["reasoning"] == "The first adds up."
    assert call.parent_id == root.span_id
    assert call.outputs == {"completion": "{}"}
    said = {a.name: a for a in flipped.info.assessments}
    assert said["accuracy"].value == -1.0
    assert said["accuracy"].rationale == "Four is right."
    assert said["accuracy"].source.source_type == "LLM_JUDGE"
    assert (said["verdict"].value, said["verdict"].rationale) == ("TIE", "swap_disagreement")
    assert (said["label"].value, said["label"].source.source_type) == ("A", "HUMAN")
    assert (said["better response"].value, said["better response"].source.source_type) == (
        "A",
        "HUMAN",
    )
    assert flipped.info.token_usage["total_tokens"] == 120


def test_a_missing_answer_is_an_error_in_its_trace_and_not_a_value(store, make_result, tmp_path):
    run_id = tracker(store, traces=1).record(make_result(tmp_path / "run"))
    mlflow = client(store)
    (trace,) = mlflow.search_traces(
        locations=[mlflow.get_run(run_id).info.experiment_id], run_id=run_id
    )
    said = {a.name: a for a in trace.info.assessments}
    assert trace.info.state.value == "ERROR"
    assert said["judgment"].value is None
    assert "no JSON object" in said["judgment"].feedback.error.error_message
    assert said["verdict"].value == "none"


def test_what_an_interrupted_attempt_left_is_replaced(store, make_result, tmp_path, monkeypatch):
    result = make_result(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("evalkit.tracking.mlflow_tracker._log_files", _fail)
        with pytest.raises(TrackingError, match="disk full"):
            tracker(store, traces=0).record(result)
    run_id = tracker(store, traces=0).record(result)
    mlflow = client(store)
    (run,) = mlflow.search_runs([mlflow.get_run(run_id).info.experiment_id])
    assert (run.info.run_id, run.info.status) == (run_id, "FINISHED")


def test_a_run_says_what_became_of_its_gate_at_last_but_never_of_other_scores(
    store, make_result, tmp_path
):
    def gated(state: str | None, **more: str):
        gate = {"gate": {"state": state, "rules": []}} if state else {}
        return make_result(tmp_path / "run", **gate, **more)

    run, mlflow = tracker(store, traces=0).record(gated("failed")), client(store)
    page = tmp_path / "mlruns" / "evalkit" / run / "artifacts" / "report.html"

    def tag() -> str | None:
        return mlflow.get_run(run).data.tags.get("evalkit.gate")

    assert tag() == "failed"
    held = gated("held", rescored="2026-11-21T10:00:00+00:00")
    (tmp_path / "run" / "report.html").write_text("held")
    tracker(store, traces=0).renew(held, run)
    assert (tag(), page.read_text()) == ("held", "held")
    tracker(store, traces=0).record(gated("failed", rescored="2026-11-21T10:00:00+00:00"))
    assert tag() == "failed"
    for other in (gated("held", config_hash="c0" * 32), gated("held", run_id="run-2")):
        tracker(store, traces=0).renew(other, run)
    tracker(store, traces=0).renew(held, "0" * 32)
    assert tag() == "failed"
    tracker(store, traces=0).renew(gated(None), run)
    assert tag() is None
    assert len(mlflow.search_runs([mlflow.get_run(run).info.experiment_id])) == 1


def _fail(*_):
    raise OSError("disk full")


def test_a_deleted_experiment_is_one_line(store, make_result, tmp_path):
    mlflow = client(store)
    mlflow.delete_experiment(mlflow.create_experiment("gone"))
    with pytest.raises(TrackingError, match=r"tracking\.experiment: 'gone' was deleted"):
        tracker(store, experiment="gone").record(make_result(tmp_path / "run"))


PLACES = {
    "a folder": "sqlite:///{folder}/mlflow.db",
    "not a database": "sqlite:///{folder}/text",
    "below a file": "sqlite:///{folder}/text/mlflow.db",
    "no server": "http://me:secret@127.0.0.1:{port}",
    "no database": "postgresql://me:secret@127.0.0.1:{port}/mlflow",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_store_that_cannot_be_used_is_one_line_within_seconds(make_result, tmp_path, place):
    (tmp_path / "mlflow.db").mkdir()
    (tmp_path / "text").write_text(
        "something else, long enough to look like a file of some other kind " * 20
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    result, start = make_result(tmp_path / "run"), time.monotonic()
    with pytest.raises(
        TrackingError, match="no answer" if "port" in PLACES[place] else None
    ) as caught:
        tracker(PLACES[place].format(folder=tmp_path, port=port)).record(result)
    assert time.monotonic() - start < SOON
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert f"`evalkit track {result.folder}` sends it later" in str(caught.value)
    assert caught.value.status is ExitStatus.NOT_TRACKED


@pytest.mark.thorough
def test_a_server_that_hangs_is_given_up(make_result, tmp_path, monkeypatch):
    patience = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "1", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    monkeypatch.setattr(connection, "_FIRST_CONTACT", patience)
    start = time.monotonic()
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(TrackingError, match="evalkit track"),
    ):
        tracker(f"http://127.0.0.1:{silent.getsockname()[1]}").record(make_result(tmp_path / "run"))
    assert time.monotonic() - start < SOON


def test_recording_takes_less_than_3_seconds_and_grows_with_no_judgment(
    store, make_result, tmp_path
):
    tracker(store, traces=0).record(make_result(tmp_path / "warm", run_id="warm"))
    database, rows = tmp_path / "mlflow.db", []
    for judgments in (100, 5_000):
        result = make_result(tmp_path / str(judgments), cases=judgments // 2, run_id=str(judgments))
        before, start = written(database), time.process_time()
        run_id = tracker(store, traces=10).record(result)
        assert time.process_time() - start < 3
        rows.append(written(database) - before)
        tables = tmp_path / "mlruns" / "evalkit" / run_id / "artifacts" / "tables"
        assert all(
            len(table.read_text("utf-8")) < 1.5 * contents.MAX_TABLE for table in tables.iterdir()
        )
    assert 100 < rows[1] <= rows[0] + 1  # a tag says that the tables do not hold all


def written(database: Path) -> int:
    """Return the number of rows of all tables."""
    with closing(sqlite3.connect(database)) as connection:
        tables = [
            name
            for (name,) in connection.execute("select name from sqlite_master where type = 'table'")
        ]
        return sum(
            connection.execute(f"select count(*) from {name}").fetchone()[0] for name in tables
        )


def test_a_single_response_and_a_case_that_is_gone_still_make_traces(store, make_result, tmp_path):
    result = make_result(tmp_path / "run", cases=1)
    case = replace(result.cases[0], responses=(Response("4", grade=5.0),))
    judged = replace(
        result.judgments[0], unit=(0,), shown=(0,), value=None, criteria={"accuracy": 4.0}
    )
    verdict = Verdict("c0", (0,), None, 4.0, "judged")
    gone = replace(judged, case_id="gone", completion=None, status="failed", error="timeout")
    result = replace(result, cases=(case,), judgments=(judged, gone), verdicts=(verdict,))
    run_id = tracker(store, traces=2).record(result)
    mlflow = client(store)
    traces = mlflow.search_traces(
        locations=[mlflow.get_run(run_id).info.experiment_id], run_id=run_id
    )
    by_case = {trace.info.tags["evalkit.case_id"]: trace for trace in traces}
    said = {a.name: a.value for a in by_case["c0"].info.assessments}
    assert said == {"accuracy": 4.0, "verdict": 4.0, "grade": 5.0, "label": 5.0}
    assert by_case["c0"].data.spans[0].inputs["response A"] == "4"
    assert by_case["gone"].data.spans[0].inputs == {"case_id": "gone"}


def test_a_file_store_is_refused_in_one_line(make_result, tmp_path):
    with pytest.raises(
        TrackingError, match="is a file store, which cannot store intervals; use sqlite"
    ):
        tracker((tmp_path / "mlruns").as_uri()).record(make_result(tmp_path / "run"))


def test_a_server_too_old_for_traces_is_one_line(store, make_result, tmp_path, monkeypatch):
    def refuse(*_):
        raise NotImplementedError

    monkeypatch.setattr("mlflow.tracing.client.TracingClient.log_spans", refuse)
    with pytest.raises(TrackingError, match=r"set tracking\.traces=0"):
        tracker(store).record(make_result(tmp_path / "run"))


def test_a_run_made_without_tracking_is_tracked_by_the_command(store, here, capsys):
    Path("judged.csv").write_text(
        "id,prompt,response_a,response_b,winner,order\n1,p,a,b,A,ab\n", "utf-8"
    )
    brief = ["tracking.enabled=false", "scoring.bootstrap=0"]
    assert main(["import", "generic", "judged.csv", "hydra.run.dir=run", *brief]) == 0
    assert main(["track", "run", f"tracking.uri={store}", "tracking.enabled=false"]) == 1
    assert "tracking.enabled: is false" in capsys.readouterr().err
    assert main(["track", "run", f"tracking.uri={store}"]) == 0
    run_id = json.loads(Path("run/manifest.json").read_text("utf-8"))["mlflow_run_id"]
    assert run_id
    assert f"MLflow: run {run_id}" in capsys.readouterr().out


def test_an_experiment_has_a_view_with_metric_columns_that_the_command_links_to(
    store, make_result, tmp_path
):
    run = client(store).get_run(tracker(store, traces=0).record(make_result(tmp_path / "run")))
    experiment = client(store).get_experiment(run.info.experiment_id)
    header, _, text = experiment.tags["mlflow.sharedViewState.evalkit"].partition(";")
    columns = json.loads(zlib.decompress(base64.b64decode(text)))["selectedColumns"]
    assert (header, *columns[:2]) == ("deflate", "tags.`decision`", "metrics.`agreement/accuracy`")

    named = {"experiment_id": "7", "name": "judges", "tags": []}
    viewed = {
        "experiment_id": "8",
        "name": "later",
        "tags": [{"key": "mlflow.sharedViewState.evalkit", "value": "…"}],
    }
    replies = {
        "experiments": {"experiments": [named, viewed]},
        "runs": {"runs": [{"info": {"experiment_id": "8"}}]},
    }

    def answer(request: Any, timeout: float) -> BytesIO:
        return BytesIO(json.dumps(replies[request.full_url.split("/")[-2]]).encode())

    opener = SimpleNamespace(open=answer)
    site = "http://127.0.0.1:5000"
    last_written = f"{site}/#/experiments/8/runs?viewStateShareKey=evalkit"
    assert runs_page(opener, site, None) == last_written
    assert runs_page(opener, site, "judges") == f"{site}/#/experiments/7/runs"
    assert runs_page(opener, site, "unknown") == site
    replies["runs"]["runs"] = []
    assert runs_page(opener, site, None) == site
