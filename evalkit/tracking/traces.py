"""A sample of judgments as MLflow traces: what was asked, what came back, and what it was taken to say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalkit.errors import TrackingError
from evalkit.tracking import contents
from evalkit.tracking.assessments import assess
from evalkit.tracking.sample import choose
from evalkit.types import Case, Judgment, RunResult, Usage, Verdict

if TYPE_CHECKING:
    from mlflow.entities import Span, TraceInfo

_PREVIEW = 1_000


@dataclass(frozen=True, slots=True)
class Judged:
    """One judgment with all that a trace tells of it; `started` in milliseconds since 1970."""

    judgment: Judgment
    case: Case | None
    verdict: Verdict | None
    mode: str
    judge: str
    identity: str
    started: int

    @property
    def trace_id(self) -> str:
        """The id that MLflow knows the trace by."""
        return f"tr-{self.identity[:32]}"

    @property
    def duration(self) -> int:
        """Milliseconds that the call took, at least 1."""
        return max(1, round(1000 * self.judgment.completion.latency)) if self.judgment.completion else 1

    @property
    def name(self) -> str:
        """The trace's name in lists."""
        return f"{self.mode} judgment"


def log_traces(uri: str, experiment: str, run: str, result: RunResult, count: int) -> int:
    """Send `count` judgments as traces of the MLflow run `run` and return how many were sent.

    Each trace is one write with its assessments, and all their spans are one more: MLflow's fluent API would take
    several writes for each.

    Raises:
        TrackingError: if the server does not take spans.
    """
    if not (chosen := choose(result, count)):
        return 0
    from mlflow.tracing.client import TracingClient

    client = TracingClient(uri)
    judged = _judged(result, chosen, run)
    for one in judged:
        client.start_trace(_info(one, experiment, run))
    try:
        client.log_spans(experiment, [span for one in judged for span in _spans(one)])
    except NotImplementedError as problem:
        raise TrackingError(
            "the MLflow server is too old for traces (3.4 is needed): set tracking.traces=0"
        ) from problem
    return len(judged)


def _judged(result: RunResult, chosen: Sequence[Judgment], run: str) -> list[Judged]:
    """Return judgments with their cases and verdicts, which are looked for in one pass."""
    units = {(judgment.case_id, judgment.unit) for judgment in chosen}
    ids = {case_id for case_id, _ in units}
    cases = {case.id: case for case in result.cases if case.id in ids}
    verdicts = {(v.case_id, v.unit): v for v in result.verdicts if (v.case_id, v.unit) in units}
    started = contents.milliseconds(result.manifest.get("started")) or 0
    return [
        Judged(
            judgment=judgment,
            case=cases.get(judgment.case_id),
            verdict=verdicts.get((judgment.case_id, judgment.unit)),
            mode=contents.mode(result),
            judge=judgment.judge or contents.judge(result),
            identity=hashlib.sha256(f"{run} {place}".encode()).hexdigest(),
            started=started + place,
        )
        for place, judgment in enumerate(chosen)
    ]


def _info(judged: Judged, experiment: str, run: str) -> TraceInfo:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    judgment, case = judged.judgment, judged.case
    return TraceInfo(
        trace_id=judged.trace_id,
        trace_location=TraceLocation.from_experiment_id(experiment),
        request_time=judged.started,
        execution_duration=judged.duration,
        state=TraceState.OK if judgment.error is None else TraceState.ERROR,
        request_preview=(case.prompt if case else judgment.case_id)[:_PREVIEW],
        response_preview=_outcome(judgment)[:_PREVIEW],
        trace_metadata={"mlflow.sourceRun": run} | _totals(judgment),
        tags={
            "mlflow.traceName": judged.name,
            "mlflow.trace.spansLocation": "TRACKING_STORE",
            "evalkit.case_id": judgment.case_id[:250],
            "evalkit.shown": contents.letters(judgment.shown),
            "evalkit.status": judgment.status,
        },
        assessments=assess(judgment, judged.verdict, case, judged.judge),
    )


def _outcome(judgment: Judgment) -> str:
    if judgment.error is not None:
        return f"{judgment.status}: {judgment.error}"
    return judgment.completion.text if judgment.completion else judgment.status


def _totals(judgment: Judgment) -> dict[str, str]:
    found = {"mlflow.trace.tokenUsage": _usage(judgment), "mlflow.trace.cost": _cost(judgment)}
    return {key: json.dumps(value) for key, value in found.items() if value}


def _usage(judgment: Judgment) -> dict[str, int]:
    usage = judgment.completion.usage if judgment.completion else Usage()
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return {}
    total = usage.prompt_tokens + usage.completion_tokens
    return {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens, "total_tokens": total}


def _cost(judgment: Judgment) -> dict[str, float]:
    cost = judgment.completion.cost_usd if judgment.completion else None
    return {} if cost is None else {"input_cost": 0.0, "output_cost": 0.0, "total_cost": cost}


def _spans(judged: Judged) -> list[Span]:
    judgment, completion = judged.judgment, judged.judgment.completion
    asked = _asked(judged)
    names = ("status", "value", "confidence", "answer", "read_by", "error")
    read = {name: value for name in names if (value := getattr(judgment, name)) is not None}
    said = {"completion": completion.text} if completion else {"error": judgment.error}
    call = {
        "mlflow.llm.model": (completion and completion.model) or judged.judge,
        "mlflow.chat.tokenUsage": _usage(judgment),
        # Always given, if only as {}: where it is absent MLflow imports LiteLLM to look a price up.
        "mlflow.llm.cost": _cost(judgment),
    }
    root = {"mlflow.spanType": "EVALUATOR", "mlflow.spanInputs": asked, "mlflow.spanOutputs": read}
    leaf = {"mlflow.spanType": "CHAT_MODEL", "mlflow.spanInputs": asked, "mlflow.spanOutputs": said, **call}
    return [_span(judged, 1, judged.name, root), _span(judged, 2, judged.judge, leaf)]


def _asked(judged: Judged) -> dict[str, Any]:
    case, shown = judged.case, judged.judgment.shown
    if case is None:
        return {"case_id": judged.judgment.case_id}
    asked: dict[str, Any] = {"case_id": case.id, "prompt": case.prompt}
    asked |= {key: text for key in ("context", "reference") if (text := getattr(case, key)) is not None}
    for place, index in enumerate(shown):
        name = f"response {contents.letters((index,))}"
        asked[name if len(shown) == 1 else f"{name}, shown {_ordinal(place)}"] = case.responses[index].text
    return asked


def _ordinal(place: int) -> str:
    return ("first", "second", "third")[place] if place < 3 else f"{place + 1}th"


def _span(judged: Judged, number: int, name: str, attributes: Mapping[str, Any]) -> Span:
    from mlflow.entities import Span

    error, stem = judged.judgment.error, judged.identity[32:47]
    values = {"mlflow.traceRequestId": judged.trace_id, **attributes}
    return Span.from_dict(
        {
            "trace_id": judged.trace_id,
            "span_id": f"{stem}{number}",
            "parent_span_id": None if number == 1 else f"{stem}1",
            "name": name,
            "start_time_unix_nano": judged.started * 1_000_000,
            "end_time_unix_nano": (judged.started + judged.duration) * 1_000_000,
            "status": {"code": "OK" if error is None else "ERROR", "message": error or ""},
            "attributes": {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()},
        }
    )
