"""Blind labeling tasks in random order, without judges, verdicts or models.

The order of a pair's responses is random too, so that annotators' position bias does not affect the
labels.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from evalkit.core.annotations import (
    INCLUSION,
)
from evalkit.core.errors import DatasetError
from evalkit.core.types import Case, Unit, Winner
from evalkit.core.values import JsonObject, frozen
from evalkit.runs.results import RunResult

CHOICES: tuple[Winner, ...] = ("A", "B", "TIE")


BETTER, GRADE, CLASS = "better", "grade", "class"


EVERY_CASE: Mapping[str, float] = MappingProxyType({})
"""The probabilities of cases that are all labeled."""
_TITLES = {"prompt": "Question", "context": "Context", "reference": "Reference"}


@frozen
class Task:
    """One labeling task: a pair, or one response, of a case; `shown` has its responses
    in the order shown.

    `probability` is that with which its case was chosen for labeling.
    """

    case_id: str
    unit: Unit
    shown: Unit
    texts: Mapping[str, str]
    probability: float = 1.0

    @property
    def name(self) -> str:
        """Its unique name, without information about the judge."""
        return f"{self.case_id} {'-'.join(map(str, self.shown))}"


def label_tasks(
    result: RunResult,
    *,
    seed: int = 0,
    units: Iterable[tuple[str, Unit]] | None = None,
    probabilities: Mapping[str, float] = EVERY_CASE,
) -> list[Task]:
    """Return the labeling tasks of a run, one for every judged pair or response, in random order.

    Args:
        result: The run.
        seed: Determines the order of tasks and of the responses in a pair.
        units: The units to label; by default all.
        probabilities: The probability with which each case was chosen, if not all are labeled.
    """
    rng = random.Random(seed)
    every = (
        (case, unit)
        for case, case_units in units_to_label(result).items()
        for unit in case_units
    )
    to_label = list(dict.fromkeys(every if units is None else units))
    cases = {case.id: case for case in result.cases}
    # Units first, then the order of each: both come from one generator, so a seed gives the same
    # tasks.
    rng.shuffle(to_label)
    tasks = []
    for case_id, unit in to_label:
        order = unit[::-1] if rng.random() < 0.5 else unit
        texts = task_texts(cases[case_id], order)
        tasks.append(Task(case_id, unit, order, texts, probabilities.get(case_id, 1.0)))
    return tasks


def units_to_label(result: RunResult) -> dict[str, list[Unit]]:
    """Return the judged pairs or responses of each case of a run."""
    size = labeled_size(result)
    units: dict[str, list[Unit]] = {}
    for verdict in result.verdicts:
        if len(verdict.unit) == size:
            units.setdefault(verdict.case_id, []).append(verdict.unit)
    return units


def labeled_size(result: RunResult) -> int:
    """Return the number of responses per label of a run: one if responses were scored,
    otherwise two.

    For scored responses, annotators give grades instead of comparing pairs.
    """
    if any(len(judgment.unit) == 1 for judgment in result.judgments):
        return 1
    return 2


def task_texts(case: Case, order: Unit) -> dict[str, str]:
    """Return the texts of a task by name: the prompt, context and reference if there
    are any, and the responses.
    """
    texts = {"prompt": case.prompt}
    texts |= {
        name: text for name in ("context", "reference") if (text := getattr(case, name))
    }
    names = ("response",) if len(order) == 1 else ("response_a", "response_b")
    return texts | {
        name: case.responses[index].text
        for name, index in zip(names, order, strict=True)
    }


def unswapped(choice: Winner, task_shown: Unit) -> Winner:
    """Convert a choice between responses as shown to the case's order."""
    # The case's order is ascending, so a sorted order was shown as it is.
    if choice == "TIE" or task_shown == tuple(sorted(task_shown)):
        return choice
    if choice == "A":
        return "B"
    return "A"


def identity(task: Task) -> JsonObject:
    """Return the fields that identify a task when its label is imported."""
    return {
        "case_id": task.case_id,
        "shown": ",".join(map(str, task.shown)),
        INCLUSION: task.probability,
    }


def shown_of(value: Any, location: str) -> Unit:
    """Parse the order in which a task was shown, as written by `identity`.

    Raises:
        DatasetError: If it is not an order.
    """
    try:
        order = tuple(int(part) for part in str(value).split(","))
    except ValueError:
        raise DatasetError(
            f"'{value}' is not an order of responses",
            where=location,
            remedy="write 0,1 or 1,0",
        ) from None
    return order


def argilla_records(tasks: Sequence[Task]) -> list[dict[str, object]]:
    """Return tasks as Argilla records: `fields` to show, `metadata` to identify.

    The question is `better`, `grade` or `class`.
    """
    return [
        {
            "id": task.name,
            "fields": dict(task.texts),
            "metadata": identity(task),
            "suggestions": {},
            "responses": {},
            "vectors": {},
        }
        for task in tasks
    ]


def label_studio_tasks(tasks: Sequence[Task]) -> list[dict[str, object]]:
    """Return tasks for import into Label Studio, for a control `better` (choices A, B,
    TIE), `grade` or `class`.
    """
    return [{"data": {**task.texts, **identity(task)}} for task in tasks]
