"""Export a run's responses as blind labeling tasks, in the formats of labeling tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from evalkit.interop.exporters import json_array, no_judgments
from evalkit.labels.sample import LabelSample
from evalkit.labels.tasks import Task, argilla_records, label_studio_tasks, label_tasks
from evalkit.runs.results import RunResult

TASK_FORMATS: Mapping[str, Callable[[Sequence[Task]], list[dict[str, object]]]] = (
    MappingProxyType({"argilla": argilla_records, "label_studio": label_studio_tasks})
)
"""Each format, with what makes its records of tasks."""


def export_tasks(
    result: RunResult, name: str, seed: int, sample: LabelSample | None
) -> bytes:
    """Return a run's tasks in a format of `TASK_FORMATS`, as the content of one JSON file.

    Tasks are shuffled by `seed`; `sample` selects them.

    Raises:
        ConfigError: If the run has no judgments.
    """
    if not result.judgments:
        raise no_judgments(name)
    if sample is None:
        tasks = label_tasks(result, seed=seed)
    else:
        tasks = label_tasks(
            result, seed=seed, units=sample.units, probabilities=sample.probabilities
        )
    return json_array(TASK_FORMATS[name](tasks))
