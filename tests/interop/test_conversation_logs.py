"""Logs of agents become conversations whose turns and steps are judged: of Inspect, MLflow and OpenTelemetry."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from evalkit.compose import load_config
from evalkit.core.errors import DatasetError
from evalkit.core.turns import parts_of
from evalkit.core.types import Case
from evalkit.interop.import_file import import_judgments
from evalkit.interop.importer_discovery import recognize_format
from evalkit.interop.layouts.records import Options
from evalkit.workflows.materials import stream_cases
from tests.interop.test_tools import LOGS, written

POINTWISE = ("mode=pointwise", "swap=none")
QUESTION = {"role": "user", "content": "What is 20 + 22?"}
CALL = {
    "id": "c",
    "type": "function",
    "function": {"name": "add", "arguments": '{"x": 20, "y": 22}'},
}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "42"}
STEPS = [(1, "said", "user"), (1, "call", "add"), (1, "result", "add"), (2, "said", "assistant")]


def cases_of(path: Path, *words: str) -> list[Case]:
    return list(stream_cases(load_config(overrides=[*POINTWISE, f"dataset.path={path}", *words])))


def shape(case: Case) -> list[tuple[int, str, str]]:
    return [(one.turn, one.kind, one.name) for one in parts_of(case)]


def check_agent(path: Path) -> None:
    cases = cases_of(path, "dataset.unit=step")
    assert [case.id.partition(" ")[2] for case in cases] == ["#1", "#2"] * 3
    for first, second in zip(cases[::2], cases[1::2], strict=True):
        assert shape(second) == STEPS
        assert shape(first) == STEPS[:3]
        assert json.loads(parts_of(first)[1].text) == {"x": 20, "y": 22}
        assert first.metadata["conversation"] == second.metadata["conversation"]
    whole = cases_of(path, "+dataset.fields.messages=messages")
    assert [case.id for case in whole] == [case.metadata["conversation"] for case in cases[::2]]
    assert shape(whole[0]) == [(1, *rest) for _, *rest in STEPS]
    assert all(case.prompt.startswith("What is") for case in cases_of(path)), "by default as before"


def test_the_log_of_an_inspect_agent_is_divided_into_steps():
    check_agent(LOGS / "inspect" / "agent.eval")


@pytest.mark.tools
@pytest.mark.slow
@pytest.mark.thorough
def test_a_new_log_of_an_inspect_agent_is_divided_into_steps(tmp_path):
    check_agent(written("inspect", tmp_path / "inspect") / "agent.eval")


def traced_agent(path: Path, *, chat: bool) -> dict[str, str]:
    """Run a small agent with MLflow's tracing, write its trace as MLflow does, and return its spans' names by id."""
    import mlflow
    from mlflow.entities import SpanType

    def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        last = len(messages) > 1
        answer = (
            {"role": "assistant", "content": "42"}
            if last
            else {"role": "assistant", "content": None}
        )
        message = answer if last else {**answer, "tool_calls": [CALL]}
        if chat:
            with mlflow.start_span("model", span_type=SpanType.CHAT_MODEL) as span:
                span.set_inputs({"model": "m", "messages": messages})
                span.set_outputs({"choices": [{"index": 0, "message": message}]})
        return message

    with mlflow.start_span("agent", span_type=SpanType.AGENT) as root:
        root.set_inputs({"question": QUESTION["content"]})
        asked = model([QUESTION])
        with mlflow.start_span("add", span_type=SpanType.TOOL) as span:
            span.set_inputs({"x": 20, "y": 22})
            span.set_outputs("42")
        root.set_outputs(model([QUESTION, asked, RESULT])["content"])
    trace = mlflow.get_trace(root.trace_id, flush=True)
    path.write_text(trace.to_json() + "\n", "utf-8")
    return {one.span_id: one.name for one in trace.data.spans}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_trace_of_an_agent_in_mlflow_is_divided_into_steps(mlflow_store, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(mlflow_store)
    mlflow.set_experiment(
        "agents"
    )  # an experiment of another test may be active, and is in another store
    path = tmp_path / "traces.jsonl"
    for chat in (True, False):
        spans = traced_agent(path, chat=chat)
        first, second = cases_of(path, "dataset.unit=step")
        assert shape(second) == STEPS
        assert second.responses[0].text == "[step 2, judged: assistant]\n42"
        assert first.id.startswith("tr-")
        assert spans[first.metadata["span_id"]] == ("model" if chat else "add")
        assert spans[second.metadata["span_id"]] == ("model" if chat else "agent")
        assert first.metadata["span_id"] != second.metadata["span_id"]
    mlflow.set_tracking_uri(None)


def attribute(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {
            "kvlistValue": {
                "values": [{"key": key, "value": attribute(one)} for key, one in value.items()]
            }
        }
    if isinstance(value, list):
        return {"arrayValue": {"values": [attribute(one) for one in value]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def span(number: int, trace: int, **attributes: Any) -> dict[str, Any]:
    return {
        "traceId": f"{trace:032x}",
        "spanId": f"{number:016x}",
        "name": "chat m",
        "startTimeUnixNano": str(10**18 + number),
        "attributes": [
            {"key": f"gen_ai.{key.replace('__', '.')}", "value": attribute(one)}
            for key, one in attributes.items()
        ],
    }


ASKED = [{"role": "user", "parts": [{"type": "text", "content": "What is 20 + 22?"}]}]
CALLED = {
    "role": "assistant",
    "parts": [{"type": "tool_call", "id": "c", "name": "add", "arguments": {"x": 20, "y": 22}}],
    "finish_reason": "tool_calls",
}
RETURNED = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "42"}]}
ANSWERED = {
    "role": "assistant",
    "parts": [{"type": "text", "content": "42"}],
    "finish_reason": "stop",
}


def lines(*spans: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": [one]}]}]}
        for one in spans
    ]


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("form", ["jsonl", "json", "base64"])
def test_spans_of_opentelemetry_are_divided_into_steps(form, as_json, tmp_path):
    written_as = json.dumps if as_json else lambda value: value
    spans = [
        span(3, 1, operation__name="chat", request__model="m",
             input__messages=written_as([*ASKED, CALLED, RETURNED]),
             output__messages=written_as([ANSWERED])),
        span(1, 1, operation__name="chat", request__model="m", input__messages=written_as(ASKED),
             output__messages=written_as([CALLED])),
        span(2, 1, operation__name="execute_tool", tool__name="add"),
        span(4, 2, operation__name="chat"),
    ]  # fmt: skip
    if form == "base64":
        for one in spans:
            one |= {
                key: b64encode(bytes.fromhex(one[key])).decode() for key in ("traceId", "spanId")
            }
    path = tmp_path / ("spans.json" if form == "json" else "spans.jsonl")
    if form == "json":
        scopes = [{"scope": {}, "spans": spans}]
        path.write_text(
            json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": scopes}]}, indent=1),
            "utf-8",
        )
    else:
        path.write_text("".join(json.dumps(one) + "\n" for one in lines(*spans)), "utf-8")
    assert recognize_format(path) == "otel_spans"
    config = load_config(overrides=[*POINTWISE, f"dataset.path={path}", "dataset.unit=step"])
    stream = stream_cases(config)
    first, second = list(stream)
    assert shape(second) == STEPS
    assert (first.id, second.responses[0].model) == (f"tr-{1:032x} #1", "m")
    assert (first.metadata["span_id"], second.metadata["span_id"]) == (f"{1:016x}", f"{3:016x}")
    assert second.metadata["trace_id"] == f"{1:032x}"
    assert "traces without messages, omitted: 1" in stream.notes
    (plain,) = cases_of(path)
    assert (plain.prompt, plain.responses[0].text) == ("What is 20 + 22?", "42")


def test_spans_have_no_judgments_and_may_have_no_messages(tmp_path):
    path = tmp_path / "spans.jsonl"
    path.write_text(
        "".join(json.dumps(one) + "\n" for one in lines(span(1, 1, operation__name="chat"))),
        "utf-8",
    )
    with pytest.raises(DatasetError, match="spans have conversations, but no judgments; judge it"):
        import_judgments("otel_spans", path, Options())
    with pytest.raises(DatasetError, match=r"no span has messages; record the content of messages"):
        cases_of(path)


def test_an_agent_that_ends_with_a_call_has_steps_although_it_has_no_answer(tmp_path):
    called = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "function": "add", "arguments": {}}],
    }
    sample = {
        "id": "q",
        "epoch": 1,
        "input": "Add.",
        "target": "",
        "messages": [QUESTION, called],
        "output": {},
    }
    path = tmp_path / "log.json"
    log = {
        "version": 2,
        "status": "success",
        "eval": {"model": "m"},
        "plan": {},
        "samples": [sample],
    }
    path.write_text(json.dumps(log), "utf-8")
    (case,) = cases_of(path, "dataset.unit=step")
    assert case.responses[0].text == "[step 1, judged: call add]\n{}"
    with pytest.raises(DatasetError, match="has no answers to judge"):
        cases_of(path)
