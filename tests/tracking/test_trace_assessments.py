"""Verdicts as assessments on the traces that the cases came from."""

import json
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.runs import read_run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_traces_get_verdicts_once(mlflow_store, tmp_path, monkeypatch, capsys):
    import mlflow

    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(mlflow_store)
    mlflow.set_experiment("app")

    @mlflow.trace
    def app(question: str) -> str:
        return f"{question} Because."

    for question in ("Why?", "Why not?"):
        app(question)
    mlflow.flush_trace_async_logging()
    words = [
        "judge=simulated/good",
        "mode=pointwise",
        "dataset=file",
        "dataset.path=mlflow-traces:app",
    ]
    stored = [
        f"tracking.uri={mlflow_store}",
        "tracking.background=false",
        "tracking.traces=0",
        "scoring.bootstrap=50",
    ]
    assert main(["run", *words, *stored, "hydra.run.dir=run"]) == 0

    def assessed() -> dict[str, list[Any]]:
        traces = mlflow.search_traces(return_type="list")
        return {trace.info.trace_id: trace.info.assessments for trace in traces}

    for _ in range(2):
        assert main(["export", "run", "--to", "mlflow-assessments"]) == 0
        assert "traces assessed" in capsys.readouterr().out
    result, traces = read_run(tmp_path / "run"), assessed()
    assert len(traces) == len(result.verdicts) == 2
    for verdict in result.verdicts:
        values = {one.name: one.value for one in traces[verdict.case_id]}
        assert values == {"verdict": verdict.score, **verdict.criteria}
        assert len(traces[verdict.case_id]) == len(values)  # the second export adds nothing
        (main_one,) = (one for one in traces[verdict.case_id] if one.name == "verdict")
        assert main_one.source.source_type == "LLM_JUDGE"
        assert main_one.rationale
        assert main_one.metadata["evalkit.config_hash"] == result.manifest["config_hash"]


def test_the_verdict_on_a_turn_is_at_its_span(mlflow_store, tmp_path, monkeypatch, capsys):
    import mlflow

    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(mlflow_store)
    mlflow.set_experiment("chat")
    with mlflow.start_span("chat") as root:
        messages = []
        for question in ("Why?", "Why not?"):
            with mlflow.start_span("answer") as span:
                answer = {
                    "role": "assistant",
                    "content": f"{question} Because.",
                    "span_id": span.span_id,
                }
            messages += [{"role": "user", "content": question}, answer]
    mlflow.flush_trace_async_logging()
    row = {"id": root.trace_id, "messages": messages}
    (tmp_path / "chat.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    words = [
        *("judge=simulated/good", "mode=pointwise", "dataset=file", "dataset.path=chat.jsonl"),
        "dataset.unit=turn",
    ]
    stored = [
        f"tracking.uri={mlflow_store}",
        "tracking.background=false",
        "tracking.traces=0",
        "scoring.bootstrap=50",
    ]
    assert main(["run", *words, *stored, "hydra.run.dir=run"]) == 0
    for _ in range(2):
        assert main(["export", "run", "--to", "mlflow-assessments"]) == 0
        assert "traces assessed" in capsys.readouterr().out
    trace = mlflow.get_trace(root.trace_id)
    found = [(one.span_id, one.value) for one in trace.info.assessments if one.name == "verdict"]
    spans = [one["span_id"] for one in messages if "span_id" in one]
    result = read_run(tmp_path / "run")
    assert sorted(found) == sorted(zip(spans, (one.score for one in result.verdicts), strict=True))
