"""Send labeling tasks to MLflow as traces in review queues, and read annotators'
feedback as labels.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.config import TrackingConfig
from evalkit.core.annotations import UNKNOWN, Label
from evalkit.core.errors import ConfigError, TrackingError
from evalkit.core.redaction import without_password
from evalkit.core.types import Unit
from evalkit.core.values import frozen
from evalkit.datasets.labels import Labels, read_choice
from evalkit.labels.joined import class_reader
from evalkit.labels.sample import LabelSample
from evalkit.labels.tasks import CHOICES, Task, label_tasks, shown_of, unswapped
from evalkit.runs.results import RunResult
from evalkit.tracking.connection import (
    mlflow_errors,
    open_client,
    sqlite_file,
    tracking_uri,
)
from evalkit.tracking.mlflow_environment import experiment_name
from evalkit.tracking.traces import (
    CLASS,
    QUESTIONS,
    Trace,
    question_of,
    span,
    trace_info,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Assessment, Span, TraceInfo
    from mlflow.entities import Trace as LoggedTrace


_TAGS = ("run", "case", "shown", "annotator", "probability")
RUN, CASE, SHOWN, ANNOTATOR, PROBABILITY = (f"evalkit.label.{name}" for name in _TAGS)
_TITLES = {
    "prompt": "question",
    "context": "context",
    "reference": "reference answer",
    "response": "response",
    "response_a": "response A",
    "response_b": "response B",
}
_PREVIEW, _WIDE = 1_000, 100_000
"""How many characters of prompt and responses the review page shows: the size of MLflow's column,
which SQLite does not limit."""
_CUT = "… [cut: 'View full trace' has all of it]"


def log_tasks(
    uri: str, experiment: str, result: RunResult, tasks: Sequence[Task], annotator: str
) -> list[str]:
    """Send tasks as traces of an experiment, in order, and return the traces' ids.

    Args:
        uri: The tracking store.
        experiment: The id of the experiment.
        result: The run that the tasks are about.
        tasks: The tasks; without any, nothing is sent.
        annotator: Who should label them.
    """
    from mlflow.tracing.client import TracingClient

    tracing = TracingClient(uri)
    now = int(time.time() * 1000)
    # A database server refuses or cuts longer previews.
    width = _PREVIEW if sqlite_file(uri) is None else _WIDE
    if not tasks:
        return []
    logged = [
        # a millisecond apart, which keeps their order
        _Logged(task, annotator, run_of(result), position, now + position, width)
        for position, task in enumerate(tasks)
    ]
    for task in logged:
        tracing.start_trace(task.info(experiment))
    tracing.log_spans(experiment, [task.span() for task in logged])
    return [task.trace.id for task in logged]


def run_of(result: RunResult) -> str:
    """Return the id of a run in its tasks' tags."""
    return str(result.manifest.get("run_id") or result.folder)


@frozen
class _Logged:
    """One task as a trace. `started` is in milliseconds since 1970."""

    task: Task
    annotator: str
    run: str
    position: int
    started: int
    width: int

    @property
    def trace(self) -> Trace:
        """The trace, with an id from what it is about."""
        task = f"{self.run} {self.annotator} {self.task.name} {self.started}"
        return Trace.of(task, f"to label {self.position + 1}", self.started)

    def parts(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the prompt and the responses to label."""
        texts = {_TITLES[name]: text for name, text in self.task.texts.items()}
        return (
            {
                name: text
                for name, text in texts.items()
                if not name.startswith("response")
            },
            {name: text for name, text in texts.items() if name.startswith("response")},
        )

    def info(self, experiment: str) -> TraceInfo:
        """Return what MLflow lists of the task, with the tags by which its label is read again."""
        prompt, responses = self.parts()
        return trace_info(
            self.trace,
            experiment,
            request_preview=_page(prompt, self.width),
            response_preview=_page(responses, self.width),
            trace_metadata={},
            tags={
                RUN: self.run,
                CASE: self.task.case_id[:4000],
                SHOWN: ",".join(map(str, self.task.shown)),
                ANNOTATOR: self.annotator,
                PROBABILITY: repr(self.task.probability),
            },
        )

    def span(self) -> Span:
        """Return the task as one call of a chat model, which MLflow shows as a conversation."""
        prompt, responses = self.parts()
        values = {
            "mlflow.spanType": "CHAT_MODEL",
            "mlflow.spanInputs": {
                "messages": [{"role": "user", "content": _page(prompt)}]
            },
            "mlflow.spanOutputs": {
                "choices": [
                    {"message": {"role": "assistant", "content": _page(responses)}}
                ]
            },
            "mlflow.message.format": "openai",
        }
        return span(self.trace, 1, self.trace.name, values)


def _page(texts: Mapping[str, str], limit: int | None = None) -> str:
    """Return texts under their titles as Markdown; a single text has no title.

    Args:
        texts: The texts by title, at least one.
        limit: The most characters, which the texts share evenly: longer ones are cut. `None` for
            no limit.
    """
    if limit is not None:
        # room for each text, without its title
        share = limit // len(texts) - 30
        texts = {
            name: text if len(text) <= share else text[: share - len(_CUT)] + _CUT
            for name, text in texts.items()
        }
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n\n".join(
        f"**{name[:1].upper()}{name[1:]}**\n\n{text}" for name, text in texts.items()
    )


NOBODY = ("", "User", "default", "unknown")
"""The name of feedback's source on a server without sign-in; the annotator is then the owner of the
queue."""


@frozen
class LabelTarget:
    """Where tasks were sent: the experiment's name and id, and each annotator's queue."""

    experiment: str
    experiment_id: str
    queues: Mapping[str, str]


def send_tasks(
    config: TrackingConfig,
    result: RunResult,
    sample: LabelSample,
    annotators: Sequence[str],
) -> LabelTarget:
    """Send tasks to a queue for each annotator: without verdicts, in random order.

    Annotators do not see each other's labels. The tasks are in a separate experiment without the
    judge's verdicts.

    Args:
        config: which MLflow store to use.
        result: the run to label.
        sample: the units to label; its seed is also that of the order of tasks.
        annotators: names of the annotators.

    Raises:
        TrackingError: if MLflow cannot be reached or refuses.
    """
    uri = tracking_uri(config)
    with _label_errors(uri):
        from evalkit.tracking.mlflow_tracker import experiment_of

        client = open_client(uri)
        name = f"{experiment_name(config)} labels"
        experiment = experiment_of(client, uri, name)
        queues = {}
        # tasks of an earlier command stay in the queue and are not sent again
        sent = [
            _task_of(trace) for trace in _traces_of(client, experiment, run_of(result))
        ]
        for annotator in annotators:
            # Each annotator gets an order of their own, so that no case is always the last one.
            seed = _seed(sample.seed, annotator)
            chances = sample.probabilities
            tasks = label_tasks(
                result, seed=seed, units=sample.units, probabilities=chances
            )
            # Sending again adds only what is new: a queue must not ask the same question twice.
            new = [
                task
                for task in tasks
                if (annotator, task.case_id, task.unit) not in sent
            ]
            traces = log_tasks(uri, experiment, result, new, annotator)
            if len(new) < len(tasks):
                earlier = f", {len(tasks) - len(new)} of them sent earlier"
            else:
                earlier = ""
            queues[annotator] = (
                _add_to_queue(
                    uri, experiment, result, annotator, traces, len(tasks[0].unit)
                )
                + earlier
            )
        return LabelTarget(name, experiment, queues)


def _task_of(trace: LoggedTrace) -> tuple[str, str, Unit]:
    """Return a trace's annotator and task."""
    tags = trace.info.tags
    unit = tuple(sorted(shown_of(tags[SHOWN], f"trace {trace.info.trace_id}")))
    return tags.get(ANNOTATOR, ""), tags[CASE], unit


def _seed(seed: int, annotator: str) -> int:
    return int(hashlib.sha256(f"{seed} {annotator}".encode()).hexdigest()[:12], 16)


def _add_to_queue(
    uri: str,
    experiment: str,
    result: RunResult,
    annotator: str,
    traces: Sequence[str],
    size: int,
) -> str:
    """Put traces into the annotator's review queue; a server without queues has only the traces.

    Args:
        uri: The tracking store.
        experiment: The id of the experiment.
        result: The run that the traces are about.
        annotator: Whose queue it is.
        traces: The ids of the traces; may be empty.
        size: The number of responses in a task, 1 or 2.

    Returns:
        Where the annotator finds the tasks: the name of the queue, or how to find the traces.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.tracing.client import TracingClient

    tracing = TracingClient(uri)
    alone = (
        f"the traces tagged {ANNOTATOR} = {annotator}: add feedback named"
        f" '{question_of(result, size)}'"
    )
    # an MLflow without queues
    if not hasattr(tracing, "_create_review_queue"):
        return alone
    try:
        schema = _label_schema(tracing, experiment, result, size)
    except (MlflowException, NotImplementedError) as problem:
        if getattr(problem, "error_code", "ENDPOINT_NOT_FOUND") != "ENDPOINT_NOT_FOUND":
            raise
        return alone
    name = f"{annotator}: {Path(result.folder or 'run').name} {run_of(result)[:6]}"
    try:
        # MLflow has no public functions for queues yet, so an absent one is handled above.
        queue = tracing._get_review_queue_by_name(experiment, name)
    except MlflowException:
        # On a server without sign-in every user is `default`.
        queue = tracing._create_review_queue(
            experiment,
            name=name,
            queue_type="custom",
            users=[annotator, "default"],
            schema_ids=[schema],
        )
    if traces:
        tracing._add_items_to_review_queue(queue.queue_id, item_ids=list(traces))
    return f"review queue '{name}'"


def _label_schema(tracing: Any, experiment: str, result: RunResult, size: int) -> str:
    """Return the id of the question that annotators answer; create it if the experiment lacks it.

    Args:
        tracing: MLflow's client of traces.
        experiment: the id of the experiment.
        result: the run, whose rubric says what may be answered.
        size: the number of responses in a task, 1 or 2.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.genai.label_schemas import InputCategorical, InputNumeric

    name = question_of(result, size)
    classes = result.config.rubric.named_classes
    if size == 2:
        entry: Any = InputCategorical(options=list(CHOICES))
        instruction = (
            "Which response answers the question better: A, B, or neither (TIE)?"
        )
    elif classes is not None:
        entry = InputCategorical(options=list(classes.answers))
        instruction = f"Which class is the response: {', '.join(classes.answers)}?"
    else:
        low, high = result.config.rubric.scale.ends or (None, None)
        entry = InputNumeric(min_value=low, max_value=high)
        instruction = "How good is the response" + (
            "?" if low is None else f", from {low:g} to {high:g}?"
        )
    try:
        schema = tracing._get_label_schema_by_name(experiment, name)
    except MlflowException:
        schema = tracing._create_label_schema(
            experiment,
            name=name,
            type="feedback",
            input=entry,
            instruction=instruction,
            enable_comment=True,
        )
    return str(schema.schema_id)


def fetch_labels(config: TrackingConfig, result: RunResult) -> list[Label]:
    """Return the labels of a run's tasks in MLflow: the last feedback of each annotator
    on each task.

    The annotator is the user that MLflow names as the feedback's source, or the owner of the task's
    queue on a server without sign-in.

    Raises:
        ConfigError: if there are no labels, or one is invalid.
        TrackingError: if MLflow cannot be reached or refuses.
    """
    uri = tracking_uri(config)
    if (file := sqlite_file(uri)) is not None and not file.is_file():
        raise ConfigError(
            "no such store",
            where=uri,
            remedy="run `evalkit label RUN --to mlflow`, or set tracking.uri",
        )
    with _label_errors(uri):
        client = open_client(uri)
        name = f"{experiment_name(config)} labels"
        experiment = client.get_experiment_by_name(name)
        traces: list[LoggedTrace] = []
        if experiment:
            run_id = run_of(result)
            traces += _traces_of(client, str(experiment.experiment_id), run_id)
        feedback = [
            (trace, assessment)
            for trace in traces
            for assessment in _human_assessments(trace)
        ]
    if not feedback:
        if not traces:
            remedy = "run `evalkit label RUN --to mlflow`"
        else:
            remedy = "annotators label in MLflow: `evalkit ui`"
        raise ConfigError(
            f"none of this run's {len(traces)} tasks has a label",
            where=uri,
            remedy=remedy,
        )
    labels: dict[tuple[str, Unit, str], Label] = {}
    reader = class_reader(result.config)

    def created(pair: tuple[LoggedTrace, Assessment]) -> int:
        _, assessment = pair
        return assessment.create_time_ms or 0

    # Oldest first, so that the last feedback of an annotator replaces the earlier ones below.
    for trace, assessment in sorted(feedback, key=created):
        label = _read_label(trace, assessment, reader)
        if label is None:
            continue
        probability = trace.info.tags.get(PROBABILITY, UNKNOWN)
        labels[label.case_id, label.unit, label.annotator] = replace(
            label, probability=probability
        )
    return list(labels.values())


def _traces_of(
    client: MlflowClient, experiment: str, run: str
) -> Iterator[LoggedTrace]:
    """Yield the traces of a run, page by page."""
    token = None
    filter_string = f"tag.`{RUN}` = '{run}'"
    while True:
        page = client.search_traces(
            locations=[experiment],
            filter_string=filter_string,
            max_results=100,
            page_token=token,
            include_spans=False,
        )
        yield from page
        token = page.token
        if not token:
            return


def _human_assessments(trace: LoggedTrace) -> Iterator[Assessment]:
    for assessment in trace.info.assessments or ():
        human = (
            assessment.source is not None and assessment.source.source_type == "HUMAN"
        )
        if (
            human
            and assessment.name in (*QUESTIONS.values(), CLASS)
            and getattr(assessment, "valid", True) is not False
        ):
            yield assessment


def _read_label(
    trace: LoggedTrace, assessment: Assessment, reader: Labels | None
) -> Label | None:
    """Return the label in an assessment, `None` if it names no class."""
    tags = trace.info.tags
    location = f"trace {trace.info.trace_id}"
    order = shown_of(tags[SHOWN], location)
    source = str(assessment.source.source_id or "")
    annotator = tags.get(ANNOTATOR, "human") if source in NOBODY else source
    if getattr(assessment, "feedback", None) is not None:
        value = assessment.feedback.value
    else:
        value = assessment.expectation.value
    unit = tuple(sorted(order))
    if len(unit) == 1 and reader is not None:
        name = reader.class_of(value, location)
        if name is None:
            return None
        return Label(tags[CASE], unit, annotator, name, location)
    if len(unit) == 1:
        return Label(tags[CASE], unit, annotator, _grade(value, location), location)
    return Label(
        tags[CASE],
        unit,
        annotator,
        # An annotator saw A and B in the order shown.
        unswapped(read_choice(value, location), order),
        location,
    )


def _grade(value: Any, location: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"'{value}' is not a number",
            where=location,
            remedy="answer with a number there",
        ) from None


def _label_errors(uri: str) -> AbstractContextManager[None]:
    problem = f"{without_password(uri)}: MLflow could not exchange labels"
    return mlflow_errors(lambda cause: TrackingError(f"{problem}: {cause}"))
