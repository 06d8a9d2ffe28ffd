"""Record a sample of judgments as MLflow traces: request, answer and parsed judgment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from evalkit.config import TrackingConfig
from evalkit.core.annotations import annotation_classes, annotation_grades, choice_for
from evalkit.core.errors import ConfigError, TrackingError
from evalkit.core.redaction import without_password
from evalkit.core.types import Case, Judgment, Unit, Usage, Verdict
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.evaluators.json_answers import answer_entries, rationale
from evalkit.interop.otel import explanations, span_of, trace_of
from evalkit.runs.results import RunResult
from evalkit.runs.side_by_side import letters
from evalkit.tracking import contents
from evalkit.tracking.connection import mlflow_errors, open_client, tracking_uri

if TYPE_CHECKING:
    from mlflow.entities import Assessment, Span, TraceInfo


Kind = Literal["missing", "flip", "mismatch", "tie", "plain"]
_KINDS: tuple[Kind, ...] = ("missing", "flip", "mismatch", "tie", "plain")


def choose(result: RunResult, count: int) -> list[Judgment]:
    """Return `count` judgments: in turn from missing, flipped, mislabeled, tied and other units.

    The passes of a unit stay together.
    """
    # unit -> the indices of its judgments in `result.judgments`
    by_unit: dict[tuple[str, Unit], list[int]] = {}
    missing: set[tuple[str, Unit]] = set()
    for index, judgment in enumerate(result.judgments):
        unit = (judgment.case_id, judgment.unit)
        by_unit.setdefault(unit, []).append(index)
        if not judgment.readable:
            missing.add(unit)
    # kind -> units, each as the list of its judgments' indices
    kinds: dict[Kind, list[list[int]]] = {name: [] for name in _KINDS}
    for verdict in result.verdicts:
        unit = (verdict.case_id, verdict.unit)
        # popped: a unit with several verdicts counts once
        if indices := by_unit.pop(unit, None):
            kinds[kind(verdict, missing=unit in missing)].append(indices)
    # units without a verdict
    kinds["plain"].extend(by_unit.values())
    chosen = islice(
        (index for indices in _in_turn(list(kinds.values())) for index in indices),
        count,
    )
    return [result.judgments[index] for index in chosen]


def kind(verdict: Verdict, *, missing: bool) -> Kind:
    """Return the most notable property of a unit; `missing` says that one of its
    judgments is missing.
    """
    if missing:
        return "missing"
    if verdict.orders and verdict.orders.consistent is False:
        return "flip"
    decision = verdict.winner or verdict.class_name
    if decision and verdict.label is not None and verdict.label != decision:
        return "mismatch"
    if verdict.winner == "TIE":
        return "tie"
    return "plain"


def _in_turn(queues: list[list[list[int]]]) -> Iterator[list[int]]:
    # queue -> its units; the units of a turn are one of each queue that still has one
    for turn in range(max(map(len, queues), default=0)):
        yield from (queue[turn] for queue in queues if turn < len(queue))


QUESTIONS = {2: "better response", 1: "grade"}
"""The name of annotators' feedback on pairs, and on single responses."""
CLASS = "class"
"""The name of annotators' feedback on single responses if the rubric has classes."""


def question_of(result: RunResult, size: int) -> str:
    """Return the name of annotators' feedback on units of `size` responses of a run."""
    if size == 1 and result.config.rubric.classes:
        return CLASS
    return QUESTIONS[size]


MOST_ITEMS = 50
"""At most this many checklist items of a judgment become assessments."""


def assess(
    judgment: Judgment, verdict: Verdict | None, case: Case | None, judge: str
) -> list[Assessment]:
    """Return feedback by criterion, by item and overall, the verdict, the annotators'
    labels and the expected label.
    """
    assessments = [
        *_judge_assessments(judgment, judge),
        *_verdict_assessments(verdict),
        *_annotator_assessments(verdict, case),
    ]
    return [*assessments, *_item_assessments(judgment, case)]


def _judge_assessments(judgment: Judgment, judge: str) -> list[Assessment]:
    """Return a judge's answer as assessments: each criterion, and the whole or its error."""
    from mlflow.entities import AssessmentSource, Feedback

    source = AssessmentSource("LLM_JUDGE", judgment.judge or judge)
    assessments: list[Assessment] = [
        Feedback(
            name=name,
            value=value,
            source=source,
            rationale=rationale(judgment.answer, name),
        )
        for name, value in judgment.criteria.items()
    ]
    if judgment.error is not None:
        assessments.append(
            Feedback(
                name="judgment",
                error=f"{judgment.status}: {judgment.error}",
                source=source,
            )
        )
    elif (
        decision := judgment.class_name if judgment.value is None else judgment.value
    ) is not None:
        reasoning = rationale(judgment.answer)
        assessments.append(
            Feedback(
                name="judgment", value=decision, source=source, rationale=reasoning
            )
        )
    return assessments


def _item_assessments(judgment: Judgment, case: Case | None) -> Iterator[Assessment]:
    """Yield the judge's answer to each checklist item with its reason, and the
    annotators' answers.
    """
    from mlflow.entities import AssessmentSource, Feedback

    source = AssessmentSource("LLM_JUDGE", judgment.judge or "judge")
    reasons = {
        entry.get("item"): entry.get("reason")
        for entry in answer_entries((judgment.answer or {}).get("items"))
    }
    items = {item.id: item for item in case.checklist} if case is not None else {}
    for name, answer in islice(judgment.items.items(), MOST_ITEMS):
        if answer is not None:
            yield Feedback(
                name=name,
                value=answer,
                source=source,
                rationale=str(reasons.get(name) or "") or None,
            )
        # `answers` has one label for each response of the case; the judgment is about one of
        # them.
        for annotator, answers in items[name].labels.items() if name in items else ():
            if (label := answers[judgment.unit[0]]) is not None:
                yield Feedback(
                    name=name,
                    value=label,
                    source=AssessmentSource("HUMAN", annotator or "label"),
                )


def _verdict_assessments(verdict: Verdict | None) -> list[Assessment]:
    """Return the verdict as an assessment of code; empty without one."""
    from mlflow.entities import AssessmentSource, Feedback

    if verdict is None:
        return []
    nothing = "abstained" if verdict.reason == "abstained" else "none"
    value = (
        verdict.winner
        or verdict.class_name
        or (nothing if verdict.score is None else verdict.score)
    )
    return [
        Feedback(
            name="verdict",
            value=value,
            source=AssessmentSource("CODE", "evalkit"),
            rationale=verdict.reason,
        )
    ]


def _annotator_assessments(
    verdict: Verdict | None, case: Case | None
) -> list[Assessment]:
    """Return each annotator's label as feedback, and the label of the case as the expectation."""
    from mlflow.entities import AssessmentSource, Expectation, Feedback

    label = label_of(verdict, case)
    labels = dict(_labels_of(verdict, case)) or (
        {} if label is None else {"label": label}
    )
    # Annotators' feedback has the name of the question that they are asked in a review queue.
    size = 1 if verdict is not None and len(verdict.unit) == 1 else 2
    if size == 1 and any(isinstance(value, str) for value in labels.values()):
        name = CLASS
    else:
        name = QUESTIONS[size]
    feedback: list[Assessment] = [
        Feedback(name=name, value=value, source=AssessmentSource("HUMAN", annotator))
        for annotator, value in labels.items()
    ]
    if label is None:
        return feedback
    return [
        *feedback,
        Expectation("label", label, source=AssessmentSource("HUMAN", "label")),
    ]


def _labels_of(
    verdict: Verdict | None, case: Case | None
) -> Iterator[tuple[str, str | float]]:
    """Yield each annotator's name with their label of a unit: a choice for a pair, or a grade or
    class for a response.

    Annotators without a label of this unit are skipped. Nothing is yielded without a verdict or
    case.
    """
    if verdict is None or case is None:
        return
    for annotator, label in case.labels.items():
        if (choice := choice_for(label, verdict.unit)) is not None:
            yield annotator, choice
        elif (
            len(verdict.unit) == 1
            and (values := annotation_grades(label) or annotation_classes(label))
            and (value := values[verdict.unit[0]]) is not None
        ):
            yield annotator, value


def label_of(verdict: Verdict | None, case: Case | None) -> str | float | None:
    """Return the label of a unit: the verdict's, or the grade of its only response."""
    if verdict is None or verdict.label is not None or case is None:
        if verdict:
            return verdict.label
        return None
    response = case.responses[verdict.unit[0]]
    if len(verdict.unit) == 1:
        if response.grade is None:
            return response.class_name
        return response.grade
    return None


_PREVIEW = 1_000
_LONGEST_TAG = 250
_NANOSECONDS = 1_000_000
"""In a millisecond."""
_OF_SPANS = slice(32, 47)
"""The digits of a trace's identity that begin the ids of its spans."""


@frozen
class Trace:
    """A trace to send: its identity in hexadecimal, its name in lists, and its times in
    milliseconds since 1970.
    """

    identity: str
    name: str
    started: int
    duration: int = 1
    error: str | None = None

    @classmethod
    def of(cls, text: str, *details: Any) -> Trace:
        """Return a trace with an identity from a text."""
        return cls(hashlib.sha256(text.encode()).hexdigest(), *details)

    @property
    def id(self) -> str:
        """The trace's id in MLflow."""
        return f"tr-{self.identity[:32]}"


def trace_info(
    trace: Trace, experiment: str, *, tags: Mapping[str, str], **details: Any
) -> TraceInfo:
    """Return what MLflow stores about a trace in an experiment, with its tags and other
    `details`.
    """
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    return TraceInfo(
        trace_id=trace.id,
        trace_location=TraceLocation.from_experiment_id(experiment),
        request_time=trace.started,
        execution_duration=trace.duration,
        state=TraceState.OK if trace.error is None else TraceState.ERROR,
        tags={
            "mlflow.traceName": trace.name,
            "mlflow.trace.spansLocation": "TRACKING_STORE",
            **tags,
        },
        **details,
    )


def span(trace: Trace, number: int, name: str, attributes: Json) -> Span:
    """Return the span with a number in a trace; span 1 is the parent of the others.

    Args:
        trace: The trace; its times are in milliseconds.
        number: The number of the span, from 1 to 9: it is the last digit of its id.
        name: The name of the span.
        attributes: What MLflow shows of it; every value is written as JSON.
    """
    from mlflow.entities import Span

    # 15 of the 16 digits of a span's id; the last one is its number
    stem = trace.identity[_OF_SPANS]
    values = {"mlflow.traceRequestId": trace.id, **attributes}
    return Span.from_dict(
        {
            "trace_id": trace.id,
            "span_id": f"{stem}{number}",
            "parent_span_id": None if number == 1 else f"{stem}1",
            "name": name,
            "start_time_unix_nano": trace.started * _NANOSECONDS,
            "end_time_unix_nano": (trace.started + trace.duration) * _NANOSECONDS,
            "status": {
                "code": "OK" if trace.error is None else "ERROR",
                "message": trace.error or "",
            },
            "attributes": {
                key: json.dumps(value, ensure_ascii=False)
                for key, value in values.items()
            },
        }
    )


@frozen
class TracedJudgment:
    """One judgment with its trace and what that shows."""

    trace: Trace
    judgment: Judgment
    case: Case | None
    verdict: Verdict | None
    judge: str


def log_traces(
    uri: str, experiment: str, run: str, result: RunResult, count: int
) -> int:
    """Send `count` judgments as traces of the MLflow run `run` and return how many were sent.

    Each trace with its assessments is one write, and all spans together are one more; MLflow's
    fluent API would need several writes per trace.

    Args:
        uri: the MLflow store.
        experiment: id of the experiment.
        run: id of the MLflow run.
        result: the evalkit run.
        count: how many judgments to send.

    Raises:
        TrackingError: if the server does not take spans.
    """
    if not (chosen := choose(result, count)):
        return 0
    from mlflow.tracing.client import TracingClient

    client = TracingClient(uri)
    judged = _traced_judgments(result, chosen, run)
    for traced in judged:
        client.start_trace(_trace_info(traced, experiment, run))
    # All spans in one request, after the traces that they belong to.
    try:
        client.log_spans(
            experiment, [span for traced in judged for span in _trace_spans(traced)]
        )
    except NotImplementedError as problem:
        raise TrackingError(
            "the MLflow server is too old for traces (3.4 is needed): set tracking.traces=0"
        ) from problem
    return len(judged)


def _traced_judgments(
    result: RunResult, chosen: Sequence[Judgment], run: str
) -> list[TracedJudgment]:
    """Return judgments with their cases and verdicts, `None` if the run does not have them.

    Args:
        result: The run.
        chosen: The judgments to send, in the order of the traces.
        run: The id of the run in MLflow, of which the ids of the traces are made.
    """
    units = {(judgment.case_id, judgment.unit) for judgment in chosen}
    # Only the chosen ones: a run may have millions of judgments, and a few are sent.
    ids = {case_id for case_id, _ in units}
    cases = {case.id: case for case in result.cases if case.id in ids}
    verdicts = {
        (v.case_id, v.unit): v for v in result.verdicts if (v.case_id, v.unit) in units
    }
    started = contents.milliseconds(result.manifest.get("started")) or 0
    name = f"{contents.mode(result)} judgment"
    return [
        TracedJudgment(
            Trace.of(
                f"{run} {position}",
                name,
                # a millisecond apart, which keeps their order
                started + position,
                _duration(judgment),
                judgment.error,
            ),
            judgment,
            cases.get(judgment.case_id),
            verdicts.get((judgment.case_id, judgment.unit)),
            judgment.judge or contents.judge(result),
        )
        for position, judgment in enumerate(chosen)
    ]


def _duration(judgment: Judgment) -> int:
    """Return the milliseconds that a call took, at least 1."""
    if judgment.completion:
        return max(1, round(1000 * judgment.completion.latency))
    return 1


def _trace_info(judged: TracedJudgment, experiment: str, run: str) -> TraceInfo:
    """Return what MLflow lists of a judgment: previews, tags and assessments.

    Args:
        judged: The judgment with its case and verdict.
        experiment: The id of the experiment.
        run: The id of the run in MLflow, of which the trace is a part.
    """
    judgment = judged.judgment
    case = judged.case
    return trace_info(
        judged.trace,
        experiment,
        request_preview=(case.prompt if case else judgment.case_id)[:_PREVIEW],
        response_preview=_outcome(judgment)[:_PREVIEW],
        trace_metadata={"mlflow.sourceRun": run} | _totals(judgment),
        tags={
            "evalkit.case_id": judgment.case_id[:_LONGEST_TAG],
            "evalkit.shown": letters(judgment.shown),
            "evalkit.status": judgment.status,
        },
        assessments=assess(judgment, judged.verdict, case, judged.judge),
    )


def _outcome(judgment: Judgment) -> str:
    if judgment.error is not None:
        return f"{judgment.status}: {judgment.error}"
    if judgment.completion:
        return judgment.completion.text
    return judgment.status


def _totals(judgment: Judgment) -> dict[str, str]:
    totals = {
        "mlflow.trace.tokenUsage": _usage(judgment),
        "mlflow.trace.cost": _cost(judgment),
    }
    return {key: json.dumps(value) for key, value in totals.items() if value}


def _usage(judgment: Judgment) -> dict[str, int]:
    usage = judgment.completion.usage if judgment.completion else Usage()
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return {}
    total = usage.prompt_tokens + usage.completion_tokens
    return {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "total_tokens": total,
    }


def _cost(judgment: Judgment) -> dict[str, float]:
    cost = judgment.completion.cost_usd if judgment.completion else None
    if cost is None:
        return {}
    # The price list has one cost for a call; how it is divided is not known.
    return {"input_cost": 0.0, "output_cost": 0.0, "total_cost": cost}


def _trace_spans(judged: TracedJudgment) -> list[Span]:
    """Return a judgment as two spans: the evaluator, and in it the call of the model."""
    judgment = judged.judgment
    completion = judged.judgment.completion
    inputs = _trace_inputs(judged)
    names = ("status", "value", "confidence", "answer", "read_by", "error")
    read = {
        name: value for name in names if (value := getattr(judgment, name)) is not None
    }
    outputs = (
        {"completion": completion.text} if completion else {"error": judgment.error}
    )
    call = {
        "mlflow.llm.model": (completion and completion.model) or judged.judge,
        "mlflow.chat.tokenUsage": _usage(judgment),
        # Always set, even to {}: if it is missing, MLflow imports LiteLLM to look up a price.
        "mlflow.llm.cost": _cost(judgment),
    }
    root = {
        "mlflow.spanType": "EVALUATOR",
        "mlflow.spanInputs": inputs,
        "mlflow.spanOutputs": read,
    }
    leaf = {
        "mlflow.spanType": "CHAT_MODEL",
        "mlflow.spanInputs": inputs,
        "mlflow.spanOutputs": outputs,
        **call,
    }
    return [
        span(judged.trace, 1, judged.trace.name, root),
        span(judged.trace, 2, judged.judge, leaf),
    ]


def _trace_inputs(judged: TracedJudgment) -> JsonObject:
    """Return the texts of a case by name, responses in the order in which the judge saw them."""
    case = judged.case
    order = judged.judgment.shown
    if case is None:
        return {"case_id": judged.judgment.case_id}
    inputs: JsonObject = {"case_id": case.id, "prompt": case.prompt}
    inputs |= {
        key: text
        for key in ("context", "reference")
        if (text := getattr(case, key)) is not None
    }
    # `position` is where the judge saw it, `index` the response's index in the case.
    for position, index in enumerate(order):
        name = f"response {letters((index,))}"
        if len(order) > 1:
            name = f"{name}, shown {_ordinal(position)}"
        inputs[name] = case.responses[index].text
    return inputs


def _ordinal(position: int) -> str:
    if position < 3:
        return ("first", "second", "third")[position]
    return f"{position + 1}th"


RUN = "evalkit.run"
"""The metadata of an assessment that names the run it comes from."""


def log_assessments(config: TrackingConfig, result: RunResult) -> tuple[int, str]:
    """Add the verdict and the values by criterion to the trace or span that each case
    came from; a run is added once.

    Args:
        config: which MLflow store has the traces.
        result: the run.

    Returns:
        how many traces were assessed, and the store.

    Raises:
        ConfigError: if no case came from a trace.
        TrackingError: if MLflow cannot be reached, or has no such trace.
    """
    traces = {case.id: trace for case in result.cases if (trace := trace_of(case))}
    if not traces:
        remedy = (
            "judge traces with dataset.path=mlflow-traces:EXPERIMENT, "
            "or name each case's trace_id"
        )
        raise ConfigError(
            "no case came from a trace", where="--to mlflow-assessments", remedy=remedy
        )
    spans = {case.id: span_of(case) for case in result.cases if case.id in traces}
    uri = tracking_uri(config)
    words = explanations(result.judgments)
    run_metadata = {
        "evalkit.config_hash": str(result.manifest.get("config_hash")),
        "evalkit.use": result.decision.use,
    }
    added: dict[str, list[Assessment]] = {}
    problem = f"{without_password(uri)}: MLflow could not take the assessments"
    with mlflow_errors(lambda cause: TrackingError(f"{problem}: {cause}")):
        open_client(uri)
        from mlflow.entities import AssessmentSource, Feedback
        from mlflow.tracing.client import TracingClient

        client = TracingClient(uri)
        for verdict in result.verdicts:
            if (trace := traces.get(verdict.case_id)) is None:
                continue
            shared: JsonObject = {
                "source": AssessmentSource(
                    "LLM_JUDGE", verdict.judge or contents.judge(result)
                ),
                "span_id": spans[verdict.case_id],
                "metadata": {
                    **run_metadata,
                    RUN: str(result.manifest.get("run_id")),
                    "evalkit.reason": verdict.reason,
                },
            }
            value = (
                verdict.winner or verdict.class_name
                if verdict.score is None
                else verdict.score
            )
            if verdict.reason == "abstained":
                value = verdict.reason
            explanation = words.get((verdict.case_id, verdict.unit), verdict.reason)
            outcome = {"error": verdict.reason} if value is None else {"value": value}
            values = [
                Feedback(name, score, **shared)
                for name, score in verdict.criteria.items()
            ]
            added.setdefault(trace, []).extend(
                [
                    Feedback("verdict", rationale=explanation, **outcome, **shared),
                    *values,
                ]
            )
        for trace, assessments in added.items():
            # One question for each trace, since a trace may be that of several verdicts.
            existing = client.get_trace_info(f"tr-{trace}").assessments or ()
            of_run = (
                assessment
                for assessment in existing
                if (assessment.metadata or {}).get(RUN) == shared["metadata"][RUN]
            )
            # assessments of an earlier command are not added again
            earlier = {(assessment.name, assessment.span_id) for assessment in of_run}
            for assessment in assessments:
                if (assessment.name, assessment.span_id) not in earlier:
                    client.log_assessment(f"tr-{trace}", assessment)
    return len(added), without_password(uri)
