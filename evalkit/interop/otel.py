"""Export verdicts and metrics as OpenTelemetry events, in OTLP's JSON; cases link to
the traces they came from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, Final

from evalkit.core.resources import own_version
from evalkit.core.types import Case, Judgment, Metric, Unit, Verdict
from evalkit.core.values import Json, JsonObject
from evalkit.evaluators.json_answers import rationale
from evalkit.runs.results import RunResult
from evalkit.runs.rows import judged_case

EVENT: Final = "gen_ai.evaluation.result"
"""The name of an event: open-telemetry/semantic-conventions-genai, model/gen-ai/events.yaml."""
BATCH: Final = 1_000
"""The most events in one line."""
_INFO: Final = 9
# A trace as id, also of a single turn of it, with or without MLflow's prefix.
_TRACE: Final = re.compile(r"(?:tr-)?([0-9a-f]{32})(?: #\d+)?")


def trace_of(case: Case) -> str | None:
    """Return the trace that a case came from, in hexadecimal: its `trace_id`, or its
    id; `None` if unknown.
    """
    match = _TRACE.fullmatch(str(case.metadata.get("trace_id", case.id)))
    if match:
        return match[1]
    return None


def span_of(case: Case) -> str | None:
    """Return the span that a case came from, in hexadecimal: its `span_id`; `None` if
    it has none.
    """
    match = re.fullmatch("[0-9a-f]{16}", str(case.metadata.get("span_id", "")))
    return match and match[0]


def explanations(judgments: Iterable[Judgment]) -> dict[tuple[str, Unit], str]:
    """Return the judge's words on each unit, from its first judgment that has any."""
    rationales: dict[tuple[str, Unit], str] = {}
    for judgment in judgments:
        if (key := (judgment.case_id, judgment.unit)) not in rationales and (
            words := rationale(judgment.answer)
        ):
            rationales[key] = words
    return rationales


def otel_events(result: RunResult) -> Iterator[JsonObject]:
    """Yield `LogsData` of OTLP with the events of a run.

    There is one for each verdict, each of its criteria, and each metric with its interval.

    A missing verdict has no score, and its reason as `error.type`. An event is part of the trace of
    its case if that is known, and has the `response_id` in the case's metadata.
    """
    cases = {case.id: case for case in result.cases}
    words = explanations(result.judgments)
    if result.manifest.get("ended"):
        ended = datetime.fromisoformat(result.manifest["ended"])
    else:
        ended = None
    if ended is None:
        time = {}
    else:
        # Nanoseconds as a text: JSON numbers would lose digits.
        time = {"timeUnixNano": str(int(ended.timestamp() * 1e6) * 1000)}
    events = (
        {**time, "severityNumber": _INFO, "eventName": EVENT, **event}
        for event in (
            *(
                event
                for verdict in result.verdicts
                for event in _verdict_events(
                    verdict, judged_case(verdict.case_id, cases), words
                )
            ),
            *(
                _metric_event(name, metric)
                for name, metric in result.metrics.items()
                if metric.value is not None
            ),
        )
    )
    resource = _attributes(
        {
            "service.name": "evalkit",
            "service.version": own_version(),
            "evalkit.judge": result.manifest.get("judge"),
            "evalkit.mode": result.config.mode.name,
            "evalkit.config_hash": result.manifest.get("config_hash"),
            "evalkit.use": result.decision.use,
        }
    )
    # One line for each batch, so that a large run is not one object.
    while batch := list(islice(events, BATCH)):
        scope = {
            "scope": {"name": "evalkit", "version": own_version() or ""},
            "logRecords": batch,
        }
        yield {"resourceLogs": [{"resource": resource, "scopeLogs": [scope]}]}


def otel_lines(result: RunResult) -> bytes:
    """Return the events as lines, each a `LogsData`."""
    lines = (
        json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"
        for line in otel_events(result)
    )
    return "".join(lines).encode("utf-8", "backslashreplace")


def _verdict_events(
    verdict: Verdict, case: Case, words: Mapping[tuple[str, Unit], str]
) -> Iterator[JsonObject]:
    """Yield the event of a verdict, then one for each of its criteria.

    `words` has the explanations of verdicts, by case and unit.
    """
    # A response has a score, a pair a margin.
    value = verdict.margin if verdict.score is None else verdict.score
    label = verdict.winner or verdict.class_name or None
    # Other reasons say why there is no verdict; to abstain is one.
    if label is None and verdict.reason == "abstained":
        label = verdict.reason
    link = _span_link(case)
    about = {
        "gen_ai.response.id": _response_id(case, verdict.unit),
        "evalkit.case.id": case.id,
        "evalkit.responses": ",".join(map(str, verdict.unit)),
        "evalkit.judge": verdict.judge or None,
    }
    main = {
        "gen_ai.evaluation.score.value": value,
        "gen_ai.evaluation.score.label": label,
        "gen_ai.evaluation.explanation": words.get((verdict.case_id, verdict.unit)),
        "error.type": verdict.reason if value is None and label is None else None,
        "evalkit.reason": verdict.reason,
    }
    yield {
        **link,
        **_attributes({"gen_ai.evaluation.name": "verdict", **main, **about}),
    }
    for name, score in verdict.criteria.items():
        scored = {
            "gen_ai.evaluation.name": name,
            "gen_ai.evaluation.score.value": score,
        }
        yield {**link, **_attributes(scored | about)}


def _span_link(case: Case) -> JsonObject:
    """Return the ids of the trace and span that a case was read from; nothing without a trace."""
    trace = trace_of(case)
    if trace is None:
        return {}
    span = span_of(case)
    if span is None:
        return {"traceId": trace}
    return {"traceId": trace, "spanId": span}


def _response_id(case: Case, unit: Unit) -> Any:
    """Return the id of the response that was judged, of a pair the first one; `None`
    without one.
    """
    ids = case.metadata.get("response_id")
    # A list has the ids of all responses of the case.
    if isinstance(ids, list) and len(ids) > unit[0]:
        return ids[unit[0]]
    return ids


def _metric_event(name: str, metric: Metric) -> JsonObject:
    """Return the event of a metric, with its bounds and counts."""
    ends = {
        f"evalkit.{end}": getattr(metric, end)
        for end in ("low", "high", "worst_low", "worst_high", "n", "missing")
    }
    return _attributes(
        {
            "gen_ai.evaluation.name": name,
            "gen_ai.evaluation.score.value": metric.value,
            **ends,
        }
    )


def _attributes(values: Json) -> JsonObject:
    return {
        "attributes": [
            {"key": key, "value": _value(attribute)}
            for key, attribute in values.items()
            if attribute is not None
        ]
    }


def _value(value: Any) -> JsonObject:
    if isinstance(value, int) and not isinstance(value, bool):
        # OTLP writes integers as texts.
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": str(value)}
