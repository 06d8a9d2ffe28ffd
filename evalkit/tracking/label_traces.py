"""What one person is to label as MLflow traces, which show nothing of the judge."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalkit.exchange.labelling import Task
from evalkit.tracking.location import sqlite_file
from evalkit.types import RunResult

if TYPE_CHECKING:
    from mlflow.entities import Span, TraceInfo

RUN, CASE, SHOWN, ANNOTATOR = (f"evalkit.label.{name}" for name in ("run", "case", "shown", "annotator"))
_TITLES = {
    "prompt": "question",
    "context": "context",
    "reference": "reference answer",
    "response": "response",
    "response_a": "response A",
    "response_b": "response B",
}
_PREVIEW, _WIDE = 1_000, 100_000
"""How many characters of question and responses the review page shows: as many as MLflow's column holds, which SQLite
does not limit."""
_CUT = "… [cut: 'View full trace' has all of it]"


def log_tasks(uri: str, experiment: str, result: RunResult, tasks: Sequence[Task], annotator: str) -> list[str]:
    """Send tasks as traces of an experiment, in their order, and return their ids."""
    from mlflow.tracing.client import TracingClient

    tracing, now = TracingClient(uri), int(time.time() * 1000)
    width = _PREVIEW if sqlite_file(uri) is None else _WIDE
    if not tasks:
        return []
    logged = [_Logged(task, annotator, run_of(result), place, now + place, width) for place, task in enumerate(tasks)]
    for one in logged:
        tracing.start_trace(one.info(experiment))
    tracing.log_spans(experiment, [one.span() for one in logged])
    return [one.trace_id for one in logged]


def run_of(result: RunResult) -> str:
    """Return what a run is known by in its tasks' tags."""
    return str(result.manifest.get("run_id") or result.folder)


@dataclass(frozen=True, slots=True)
class _Logged:
    """One task as a trace; `started` in milliseconds since 1970."""

    task: Task
    annotator: str
    run: str
    place: int
    started: int
    width: int

    @property
    def identity(self) -> str:
        return hashlib.sha256(f"{self.run} {self.annotator} {self.task.name} {self.started}".encode()).hexdigest()

    @property
    def trace_id(self) -> str:
        return f"tr-{self.identity[:32]}"

    def parts(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return what is asked, and the responses that are judged."""
        texts = {_TITLES[name]: text for name, text in self.task.texts.items()}
        return (
            {name: text for name, text in texts.items() if not name.startswith("response")},
            {name: text for name, text in texts.items() if name.startswith("response")},
        )

    def info(self, experiment: str) -> TraceInfo:
        from mlflow.entities import TraceInfo, TraceLocation, TraceState

        asked, said = self.parts()
        return TraceInfo(
            trace_id=self.trace_id,
            trace_location=TraceLocation.from_experiment_id(experiment),
            request_time=self.started,
            execution_duration=1,
            state=TraceState.OK,
            request_preview=_page(asked, self.width),
            response_preview=_page(said, self.width),
            trace_metadata={},
            tags={
                "mlflow.traceName": f"to label {self.place + 1}",
                "mlflow.trace.spansLocation": "TRACKING_STORE",
                RUN: self.run,
                CASE: self.task.case_id[:4000],
                SHOWN: ",".join(map(str, self.task.shown)),
                ANNOTATOR: self.annotator,
            },
        )

    def span(self) -> Span:
        from mlflow.entities import Span

        asked, said = self.parts()
        values = {
            "mlflow.traceRequestId": self.trace_id,
            "mlflow.spanType": "CHAT_MODEL",
            "mlflow.spanInputs": {"messages": [{"role": "user", "content": _page(asked)}]},
            "mlflow.spanOutputs": {"choices": [{"message": {"role": "assistant", "content": _page(said)}}]},
            "mlflow.message.format": "openai",
        }
        return Span.from_dict(
            {
                "trace_id": self.trace_id,
                "span_id": self.identity[32:48],
                "parent_span_id": None,
                "name": f"to label {self.place + 1}",
                "start_time_unix_nano": self.started * 1_000_000,
                "end_time_unix_nano": (self.started + 1) * 1_000_000,
                "status": {"code": "OK", "message": ""},
                "attributes": {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()},
            }
        )


def _page(texts: Mapping[str, str], limit: int | None = None) -> str:
    """Return texts under their titles as Markdown, one alone without; what goes beyond `limit` is cut, and says so."""
    if limit is not None:
        share = limit // len(texts) - 30
        texts = {name: text if len(text) <= share else text[: share - len(_CUT)] + _CUT for name, text in texts.items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n\n".join(f"**{name[:1].upper()}{name[1:]}**\n\n{text}" for name, text in texts.items())
