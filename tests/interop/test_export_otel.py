"""Verdicts and metrics as OpenTelemetry events, read by OpenTelemetry's own messages."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

import evalkit
from evalkit.cli import main

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CASES: list[dict[str, Any]] = [
    {"id": f"tr-{TRACE}", "prompt": "Name a prime.", "response": "7", "response_id": "chatcmpl-1", "span_id": SPAN},
    {"id": "2", "prompt": "Name a prime.", "response": "9", "trace_id": f"tr-{TRACE}"},
    {"id": "3", "prompt": "Name a prime.", "response": "11"},
]


def parsed(line: str) -> tuple[Any, list[tuple[Any, dict[str, Any]]]]:
    """Return the resource's attributes, and each event with its attributes."""
    # OTLP writes ids in hexadecimal; JSON of other messages has bytes in base 64.
    content = json.loads(line)
    for record in content["resourceLogs"][0]["scopeLogs"][0]["logRecords"]:
        for name in {"traceId", "spanId"} & record.keys():
            record[name] = base64.b64encode(bytes.fromhex(record[name])).decode()
    logs = Parse(json.dumps(content), LogsData()).resource_logs[0]

    def attributes(values: Any) -> dict[str, Any]:
        return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in values}

    events = [(record, attributes(record.attributes)) for record in logs.scope_logs[0].log_records]
    return attributes(logs.resource.attributes), events


def exported(folder: Path, *words: str, cases: list[dict[str, Any]] = CASES) -> tuple[Any, Any, Any]:
    settings = ["judge=simulated/good", "tracking=none", "scoring.bootstrap=50", *words]
    result = evalkit.run(evalkit.load_config(overrides=settings), folder / "run", cases=cases, overwrite=True)
    assert main(["export", str(folder / "run"), "--to", "otel", "--output", str(folder / "events.jsonl")]) == 0
    (line,) = (folder / "events.jsonl").read_text("utf-8").splitlines()
    return result, *parsed(line)


def test_scores_criteria_and_metrics_are_events(tmp_path: Path) -> None:
    result, resource, events = exported(tmp_path, "mode=pointwise")
    assert resource["evalkit.config_hash"] == result.manifest["config_hash"]
    assert {record.event_name for record, _ in events} == {"gen_ai.evaluation.result"}
    assert all(record.time_unix_nano > 1.7e18 for record, _ in events)
    verdicts = [(record, one) for record, one in events if one["gen_ai.evaluation.name"] == "verdict"]
    assert [one["gen_ai.evaluation.score.value"] for _, one in verdicts] == [one.score for one in result.verdicts]
    ids = [(record.trace_id.hex(), record.span_id.hex(), one.get("gen_ai.response.id")) for record, one in verdicts]
    assert ids == [(TRACE, SPAN, "chatcmpl-1"), (TRACE, "", None), ("", "", None)]
    assert all(one["gen_ai.evaluation.explanation"] for _, one in verdicts)
    first = [one for _, one in events if one.get("evalkit.case.id") == f"tr-{TRACE}"]
    values = {one["gen_ai.evaluation.name"]: one["gen_ai.evaluation.score.value"] for one in first[1:]}
    assert values == result.verdicts[0].criteria
    (mean,) = (one for _, one in events if one["gen_ai.evaluation.name"] == "score/mean")
    metric = result.metrics["score/mean"]
    ends = [mean[f"evalkit.{end}"] for end in ("low", "high", "n", "missing")]
    assert ends == [metric.low, metric.high, metric.n, metric.missing]


def test_a_missing_verdict_has_no_score(tmp_path: Path) -> None:
    pairs = [{"id": one["id"], "prompt": one["prompt"], "response_a": "7", "response_b": "9"} for one in CASES]
    result, _, events = exported(tmp_path, cases=pairs)
    verdicts = [one for _, one in events if one["gen_ai.evaluation.name"] == "verdict"]
    labels = [one["gen_ai.evaluation.score.label"] for one in verdicts]
    assert labels == [one.winner for one in result.verdicts]
    unknown = [{**one, "prompt": "Name another."} for one in pairs]
    _, _, events = exported(tmp_path, "store.mode=read_only", cases=unknown)
    missing = [one for _, one in events if one["gen_ai.evaluation.name"] == "verdict"]
    assert {one["error.type"] for one in missing} == {"missing"}
    assert not any(key.startswith("gen_ai.evaluation.score") for one in missing for key in one)


@pytest.mark.parametrize("layout", ["mlflow-assessments"])
def test_a_run_without_traces_has_none_to_assess(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], layout: str
) -> None:
    exported(tmp_path, "mode=pointwise", cases=CASES[2:])
    assert main(["export", str(tmp_path / "run"), "--to", layout]) == 1
    assert "no case came from a trace" in capsys.readouterr().err
