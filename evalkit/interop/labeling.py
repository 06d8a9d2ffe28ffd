"""Export blind labeling tasks in random order, without judges, verdicts or models; read and add their labels.

The order of a pair's responses is random too, so that annotators' position bias does not affect the
labels.

`sample_for_labeling` chooses the cases to label: the most informative ones more often, all with a
known probability above 0. Cases are stratified by what there is to learn from them and by their
verdicts. Half of the labels go to all strata equally, half in proportion to their size, and within
a stratum to a simple random sample. A case's probability is the share of its stratum that is
sampled. Metrics weight its label by the inverse, so that they are about all cases (Cochran 1977,
Sampling Techniques, ch. 5). The order within a stratum is fixed, so more labels extend a sample.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from heapq import heapify, heapreplace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

from evalkit.config import RunConfig
from evalkit.core.annotations import (
    FIRST,
    INCLUSION,
    UNKNOWN,
    annotation_classes,
    annotation_grades,
    choice_for,
    choices_in,
    chosen,
    inclusion,
)
from evalkit.core.checklists import ChecklistError, is_item_answer, leaves, read_answer
from evalkit.core.hashing import text_digest
from evalkit.core.regular_files import read_text
from evalkit.core.scale import Classes
from evalkit.datasets.labels import Labels, consensus, has_label, read_choice
from evalkit.errors import ConfigError, DatasetError, did_you_mean
from evalkit.foreign_files.judgment_files import number, rows_of
from evalkit.results import RunResult
from evalkit.runs.layout import LABEL_SAMPLE
from evalkit.types import Annotation, Case, ItemAnswer, Unit, Verdict, Winner
from evalkit.values import Json, JsonObject, frozen

CHOICES: tuple[Winner, ...] = ("A", "B", "TIE")
BETTER, GRADE, CLASS = "better", "grade", "class"
EVERY_CASE: Mapping[str, float] = MappingProxyType({})
"""The probabilities of cases that are all labeled."""
_CHOSEN: Mapping[object, Winner] = {winner: winner for winner in CHOICES}
_TITLES = {"prompt": "Question", "context": "Context", "reference": "Reference"}


@frozen
class Task:
    """One labeling task: a pair, or one response, of a case; `shown` has its responses in the order shown.

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


@frozen
class Label:
    """One annotator's label: a winner in the case's order, a grade or a class of one response, or an item's answer.

    `unit` is empty if a grade or an answer does not name its response. `location` is the label's
    file and line. `item` is the id of the checklist item, if the label is the answer to one.
    `probability` is that with which the case was chosen for labeling, if the label is of a task:
    any value from its file, or UNKNOWN.
    """

    case_id: str
    unit: Unit
    annotator: str
    value: Winner | float | str
    location: str = field(default="", compare=False)
    item: str = ""
    probability: Any = field(default=None, compare=False)


def class_reader(config: RunConfig) -> Labels | None:
    """Return what reads the names of a run's classes, with its label map; `None` if its rubric is a scale."""
    classes = config.rubric.named_classes
    if classes is None:
        return None
    return Labels(config.dataset.label_map, classes, can_map=False)


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
    """Return the number of responses per label of a run: one if responses were scored, otherwise two.

    For scored responses, annotators give grades instead of comparing pairs.
    """
    if any(len(judgment.unit) == 1 for judgment in result.judgments):
        return 1
    return 2


def task_texts(case: Case, order: Unit) -> dict[str, str]:
    """Return the texts of a task by name: the prompt, context and reference if there are any, and the responses."""
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
    """Return tasks for import into Label Studio, for a control `better` (choices A, B, TIE), `grade` or `class`."""
    return [{"data": {**task.texts, **identity(task)}} for task in tasks]


def with_labels(
    cases: Sequence[Case],
    labels: Sequence[Label],
    with_own_label: Collection[str] = (),
    classes: Classes | None = None,
) -> tuple[Case, ...]:
    """Return cases with annotators' labels added; an annotator's new label replaces an older one.

    A case's own label or grades, which belong to no annotator, remain the reference for verdicts.
    Other cases use the majority or the mean grade. `with_own_label` are the cases that have their
    own label in addition to annotators' labels. `classes` are those of the rubric, if labels are
    classes.

    Raises:
        DatasetError: If a label is for an unknown case or does not apply to it.
    """
    by_case: dict[str, dict[str, dict[Unit, Winner | float | str]]] = {}
    answers: dict[str, list[tuple[Label, int]]] = {}
    cases_by_id = {case.id: case for case in cases}
    for label in labels:
        case = cases_by_id.get(label.case_id)
        if case is None:
            problem = f"the run has no case '{label.case_id}'"
            raise DatasetError(
                problem,
                where=label.location or f"label by {label.annotator}",
                remedy="use ids of cases in this run",
            )
        if label.item:
            answers.setdefault(label.case_id, []).append(
                (label, _response_of(label, case))
            )
            continue
        unit = _unit_of(label, case, classes)
        by_case.setdefault(label.case_id, {}).setdefault(label.annotator, {})[unit] = (
            label.value
        )
    answered = (
        _with_answers(case, answers[case.id]) if case.id in answers else case
        for case in cases
    )
    return tuple(
        (
            _with_label(
                case, by_case[case.id], case.id in with_own_label or has_own_label(case)
            )
            if case.id in by_case
            else case
        )
        for case in answered
    )


def has_own_label(case: Case) -> bool:
    """Return whether a case has a label or grades that belong to no annotator."""
    return not case.labels and has_label(case)


def _response_of(label: Label, case: Case) -> int:
    """Return the index of the response that an item's answer is about; it can be omitted if the case has one."""
    where = f"{label.location or label.annotator}, case '{case.id}'"
    item_ids = [item.id for item in leaves(case.checklist)]
    if label.item not in item_ids:
        problem = f"'{label.item:.60}' is not an item that a judge answers"
        if item_ids:
            remedy = did_you_mean(label.item, item_ids)
        else:
            remedy = "judge with mode=checklist, or remove the column item"
        raise DatasetError(problem, where=where, remedy=remedy)
    unit = label.unit or ((0,) if len(case.responses) == 1 else ())
    if len(unit) != 1 or unit[0] not in range(len(case.responses)):
        problem = (
            f"the label of item '{label.item:.60}' does not name one of {len(case.responses)}"
            " responses"
        )
        raise DatasetError(
            problem, where=where, remedy="set it in a column response_index, from 0"
        )
    return unit[0]


def _with_answers(case: Case, answered: Sequence[tuple[Label, int]]) -> Case:
    """Return a case with annotators' answers to its checklist items added."""
    # item -> annotator -> an answer for each response
    labels = {
        item.id: {name: list(answers) for name, answers in item.labels.items()}
        for item in case.checklist
    }
    for label, response in answered:
        answers = labels[label.item].setdefault(
            label.annotator, [None] * len(case.responses)
        )
        answers[response] = cast(ItemAnswer, label.value)
    items = (
        replace(
            item,
            labels={name: tuple(answers) for name, answers in labels[item.id].items()},
        )
        for item in case.checklist
    )
    return replace(case, checklist=tuple(items))


def _unit_of(label: Label, case: Case, classes: Classes | None) -> Unit:
    """Return the unit of a label; a grade can omit it if the case has one response."""
    where = f"{label.location or label.annotator}, case '{case.id}'"
    if not label.unit:
        if len(case.responses) == 1:
            return (0,)
        kind = "grade" if classes is None else "class"
        if isinstance(label.value, float | int):
            written = f"{label.value:g}"
        else:
            written = f"'{label.value}'"
        problem = (
            f"the {kind} {written} does not name one of {len(case.responses)} responses"
        )
        alternative = "; or write A, B or TIE" if classes is None else ""
        raise DatasetError(
            problem,
            where=where,
            remedy=f"set it in a column response_index, from 0{alternative}",
        )
    if (
        len(set(label.unit)) < len(label.unit)
        or len(label.unit) > 2
        or max(label.unit) >= len(case.responses)
    ):
        last = len(case.responses) - 1
        if last == 0 and len(label.unit) == 2 and isinstance(label.value, str):
            problem = (
                f"'{label.value}' is a label of a pair, and the case has one response"
            )
            remedy = "write its grade"
            remedy += (
                "; to label a checklist item, name it in a column item"
                if case.checklist
                else ""
            )
            raise DatasetError(problem, where=where, remedy=remedy)
        if last:
            remedy = f"use one or two of 0 to {last}, such as 0,{last}"
        else:
            remedy = "use 0, the only response"
        raise DatasetError(
            f"a label of responses {list(label.unit)} does not apply",
            where=where,
            remedy=remedy,
        )
    if classes is not None:
        if len(label.unit) != 1 or label.value not in classes.names:
            problem = f"'{label.value}' is not a class of one response"
            class_names = ", ".join(classes.names)
            raise DatasetError(
                problem,
                where=where,
                remedy=f"write one of {class_names} for one response",
            )
        return label.unit
    if isinstance(label.value, str) != (len(label.unit) == 2):
        problem = (
            f"'{label.value}' is not a label of {len(label.unit)}"
            f" response{'s' * (len(label.unit) > 1)}"
        )
        raise DatasetError(
            problem,
            where=where,
            remedy="write A, B or TIE for a pair, a number for one response",
        )
    return label.unit


def _with_label(
    case: Case,
    by_annotator: Mapping[str, Mapping[Unit, Winner | float | str]],
    keeps_own_label: bool,
) -> Case:
    people: dict[str, Annotation] = dict(case.labels)
    for annotator, values in by_annotator.items():
        people[annotator] = _annotation(case, people.get(annotator), values)
    if keeps_own_label:
        return replace(case, labels=people)
    label, responses = consensus(people, case.responses)
    return replace(case, labels=people, label=label, responses=tuple(responses))


def _annotation(
    case: Case, before: Annotation | None, values: Mapping[Unit, Winner | float | str]
) -> Annotation:
    # an annotator's labels of one case are classes, choices or grades
    classes = {
        unit[0]: value
        for unit, value in values.items()
        if isinstance(value, str) and len(unit) == 1
    }
    if classes:
        class_names = list(annotation_classes(before)) if before is not None else []
        class_names = class_names or [None] * len(case.responses)
        return tuple(classes.get(index, name) for index, name in enumerate(class_names))
    choices = {
        unit: winner
        for unit, value in values.items()
        if (winner := _CHOSEN.get(value)) is not None
    }
    if choices:
        return chosen(
            {**dict(choices_in(before) if before is not None else ()), **choices}
        )
    grades: list[float | None] = (
        list(annotation_grades(before)) if before is not None else []
    )
    grades = grades or [None] * len(case.responses)
    for unit, value in values.items():
        grades[unit[0]] = float(value)
    return tuple(grades)


Row = Json
Answers = Iterable[tuple[str, Any, Any, bool]]
"""Each answer as annotator, value, question, and whether it is finished."""
EMPTY = "rows without a label"
OTHERS = "answers to questions other than better, grade or class"
UNFINISHED = "labels that were discarded or not submitted"
_IDS = ("case_id", "id")
_ANNOTATORS = ("annotator", "annotator_id", "labeller", "user", "user_id")


def read_labels(
    path: Path, left_out: Counter[str] | None = None, classes: Labels | None = None
) -> list[Label]:
    """Read the labels of a file in any of the formats.

    Args:
        path: The file, or a folder of files.
        left_out: Counts omitted items by kind.
        classes: Reads the names of classes, if the labels are classes.

    Raises:
        DatasetError: If a row has no label, or does not identify what it labels.
    """
    left_out = Counter() if left_out is None else left_out
    labels = [
        label
        for location, row in rows_of(path)
        for label in row_labels(location, row, left_out, classes)
    ]
    if not labels:
        raise DatasetError(
            "has no labels", where=str(path), remedy="use a file with labels"
        )
    return labels


def row_labels(
    location: str, row: Row, left_out: Counter[str], classes: Labels | None
) -> Iterator[Label]:
    """Yield the labels in one row of a file; arguments and errors as in `read_labels`."""
    if isinstance(row.get("annotations"), list) and isinstance(
        row.get("data"), Mapping
    ):
        task = row["data"]
        answers = _label_studio(row["annotations"])
        unnamed = "task has no data.case_id"
    elif isinstance(row.get("fields"), Mapping) and "responses" in row:
        task = row.get("metadata") or {}
        answers = _argilla(row["responses"] or {})
        unnamed = "record has no metadata.case_id"
    else:
        task, answers = _plain(row, location)
        unnamed = ""
    if task.get("case_id") is None:
        raise DatasetError(
            f"the {unnamed}", where=location, remedy="export it with evalkit export"
        )
    for annotator, value, question, is_finished in answers:
        if not is_finished:
            left_out[UNFINISHED] += 1
        elif value in (None, ""):
            left_out[EMPTY] += 1
        elif question not in (BETTER, GRADE, CLASS):
            left_out[OTHERS] += 1
        elif (label := _label(task, annotator, value, location, classes)) is None:
            left_out[EMPTY] += 1
        else:
            yield replace(label, probability=task.get(INCLUSION, UNKNOWN))


def _plain(row: Row, location: str) -> tuple[Row, Answers]:
    """Return the task and the label in a row: columns id, annotator, label (or better, grade), and shown if not 0,1.

    For a case with more responses, `shown` lists the two labeled responses in the order shown. A
    column `item` names a checklist item, and the label is the answer to it.
    """

    def first(*names: str) -> Any:
        return next(
            (row[name] for name in names if row.get(name) not in (None, "")), None
        )

    case = first(*_IDS)
    annotator = first(*_ANNOTATORS)
    if case is None or annotator is None:
        missing = "case" if case is None else "annotator"
        remedy = f"add columns id, annotator and label; the columns are {', '.join(map(str, row))}"
        raise DatasetError(f"the label has no {missing}", where=location, remedy=remedy)
    order = row.get("shown") or row.get("response_index") or row.get("response")
    task = {
        "case_id": case,
        "shown": order,
        "item": first("item"),
        INCLUSION: row.get(INCLUSION),
    }
    return task, [(str(annotator), first("label", CLASS, BETTER, GRADE), GRADE, True)]


def _label(
    task: Row, annotator: str, value: Any, location: str, classes: Labels | None
) -> Label | None:
    """Return a label: of a pair if it is a winner, of one response if it is a number or a class; `None` if it is none.

    Raises:
        DatasetError: If it is none of them, or the task's order is invalid.
    """
    case = str(task["case_id"])
    written_order = task.get("shown")
    order = None if written_order in (None, "") else shown_of(written_order, location)
    if item := str(task.get("item") or "").strip():
        try:
            answer = read_answer(value, f"item '{item:.60}'")
        except ChecklistError as error:
            raise DatasetError(
                error.what, where=location, remedy=error.remedy
            ) from None
        if answer is None:
            return None
        return Label(case, order or (), annotator, answer, location, item)
    if classes is not None:
        name = classes.class_of(value, location)
        if name is None:
            return None
        return Label(case, order or (), annotator, name, location)
    grade = number(value)
    if grade is not None and (order is None or len(order) == 1):
        return Label(case, order or (), annotator, grade, location)
    if isinstance(value, str) and is_item_answer(value):
        remedy = "name the item in a column item"
        raise DatasetError(
            f"'{value}' is a label of a checklist item", where=location, remedy=remedy
        )
    winner = read_choice(value, location)
    order = order if order is not None and len(order) == 2 else FIRST
    return Label(
        case, tuple(sorted(order)), annotator, unswapped(winner, order), location
    )


def _argilla(responses: Row) -> Answers:
    """Yield the answers in an Argilla 2 record: {question: [{value, user_id}]}."""
    for question, answers in responses.items():
        for answer in answers or ():
            is_finished = answer.get("status", "submitted") == "submitted"
            yield (
                str(answer.get("user_id") or "argilla"),
                answer.get("value"),
                question,
                is_finished,
            )


def _label_studio(annotations: Iterable[Row]) -> Answers:
    """Yield the answers to a Label Studio task: choices, numbers or ratings by annotator."""
    for annotation in annotations:
        if annotation.get("was_cancelled"):
            yield "", None, "", False
            continue
        by = annotation.get("completed_by")
        annotator = str(
            (by.get("email") or by.get("id"))
            if isinstance(by, Mapping)
            else by or "label studio"
        )
        for result in annotation.get("result") or ():
            value = result.get("value") or {}
            values = value.get("choices") or [value.get("rating", value.get("number"))]
            yield (
                annotator,
                values[0],
                "" if len(values) > 1 else result.get("from_name"),
                True,
            )


Kind = Literal["disagreement", "flip", "near", "plain"]
KINDS: tuple[Kind, ...] = ("disagreement", "flip", "near", "plain")
"""Reasons to label a unit, the most informative first."""
_NEAR = 0.34
"""A margin this close to the threshold is near it: one of three samples disagrees."""
EACH = 4
"""Strata are merged unless there are this many labels for each, on average."""


@frozen
class LabelSample:
    """Cases sampled for labeling.

    Attributes:
        units: the units of the cases to label now, as (case id, responses); those that have labels
            are omitted.
        probabilities: by case id, the probability of each sampled case, also of earlier ones.
        strata: by name, the number of cases in each stratum, and how many of them are sampled.
        seed: the seed of the order within strata.
    """

    units: Sequence[tuple[str, Unit]]
    probabilities: Mapping[str, float]
    strata: Mapping[str, tuple[int, int]]
    seed: int

    def content(self) -> str:
        """Return the sample as the content of its file in the run folder."""
        strata = {
            name: {"cases": cases, "sampled": sampled}
            for name, (cases, sampled) in self.strata.items()
        }
        values = {
            "seed": self.seed,
            "strata": strata,
            "probabilities": dict(self.probabilities),
        }
        return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def sample_for_labeling(result: RunResult, count: int, seed: int = 0) -> LabelSample:
    """Sample cases with about `count` units to label.

    The cases of earlier samples that have labels belong to the sample, if this one extends theirs;
    otherwise they count once, as all other labeled cases. If every case has a label, all can be
    sampled again.

    Args:
        result: the run.
        count: the number of units, such as pairs; all units of a sampled case are labeled.
        seed: the seed of the order within strata.
    """
    by_case = units_to_label(result)
    labeled = set[str]()
    earlier = set[str]()
    for case in result.cases:
        if case.id in by_case and any(
            _has_label(case.labels, unit) for unit in by_case[case.id]
        ):
            (earlier if isinstance(inclusion(case), float) else labeled).add(case.id)
    open_cases = [name for name in by_case if name not in labeled] or list(by_case)
    # the number of cases that have about `count` units
    case_count = max(1, count * len(by_case) // max(1, sum(map(len, by_case.values()))))
    chosen, strata = _stratified(result, open_cases, case_count + len(earlier), seed)
    if not earlier <= chosen.keys():
        open_cases = [name for name in open_cases if name not in earlier] or open_cases
        chosen, strata = _stratified(result, open_cases, case_count, seed)
    new = [name for name in chosen if name not in earlier] or chosen
    return LabelSample(
        [(name, unit) for name in new for unit in by_case[name]], chosen, strata, seed
    )


def _stratified(
    result: RunResult, names: Sequence[str], count: int, seed: int
) -> tuple[dict[str, float], dict[str, tuple[int, int]]]:
    """Return the probability of each sampled case by id, and the size of each stratum and of its sample."""
    most = max(1, count // EACH)
    # the finest strata that are few enough for EACH cases of each
    members = next(
        level for level in strata_of(result, names, seed) if len(level) <= most
    )
    shares = allocate(
        {name: len(cases) for name, cases in sorted(members.items())}, count
    )
    chosen = {
        case: shares[name] / len(members[name])
        for name in shares
        for case in members[name][: shares[name]]
    }
    return chosen, {name: (len(members[name]), share) for name, share in shares.items()}


def strata_of(
    result: RunResult, names: Sequence[str], seed: int
) -> Iterator[dict[str, list[str]]]:
    """Yield the cases of each stratum in random order, in ever larger strata; the last has all cases."""
    selected = set(names)
    size = labeled_size(result)
    reasons: dict[str, tuple[int, str]] = {}
    for verdict in result.verdicts:
        if len(verdict.unit) == size and verdict.case_id in selected:
            kind = KINDS.index(disagreement_kind(verdict, result.config.tie.threshold))
            reason = (kind, _verdict_key(verdict))
            reasons[verdict.case_id] = min(reason, reasons.get(verdict.case_id, reason))
    levels = (
        {
            name: f"{KINDS[kind]}, verdict {key}"
            for name, (kind, key) in reasons.items()
        },
        {name: KINDS[kind] for name, (kind, _) in reasons.items()},
        dict.fromkeys(reasons, "all"),
    )
    ordered = sorted(names, key=lambda name: text_digest(f"{seed}\0{name}"))
    for stratum in levels:
        members: dict[str, list[str]] = {}
        for name in ordered:
            members.setdefault(stratum[name], []).append(name)
        yield members


def allocate(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """Return how many cases of each stratum to sample: at least one, and never fewer if more are wanted.

    Each next case is that of the stratum that is the furthest behind its share (Sainte-Laguë's
    method).

    Args:
        sizes: the number of cases of each stratum.
        count: the number of cases to sample.
    """
    shares = {
        name: 1 / len(sizes) + size / sum(sizes.values())
        for name, size in sizes.items()
    }
    counts = dict.fromkeys(sizes, 1)
    queue = [(-shares[name] / 1.5, name) for name in sizes if sizes[name] > 1]
    # the stratum that is the furthest behind its share comes first; a full one comes
    # last
    heapify(queue)
    for _ in range(min(count, sum(sizes.values())) - len(sizes)):
        name = queue[0][1]
        counts[name] += 1
        full = counts[name] == sizes[name]
        heapreplace(
            queue, (1.0 if full else -shares[name] / (counts[name] + 0.5), name)
        )
    return counts


def disagreement_kind(verdict: Verdict, threshold: float) -> Kind:
    """Return the reason to label a unit."""
    votes = {vote for vote in verdict.votes.values() if vote is not None}
    if len(votes) > 1 or (verdict.reason == "split" and len(verdict.unit) == 1):
        return "disagreement"
    if verdict.orders is not None and verdict.orders.consistent is False:
        return "flip"
    if verdict.margin is not None and abs(abs(verdict.margin) - threshold) <= _NEAR:
        return "near"
    return "plain"


def _verdict_key(verdict: Verdict) -> str:
    return str(
        verdict.winner or verdict.class_name
        if verdict.score is None
        else round(verdict.score)
    )


def _has_label(labels: Mapping[str, Annotation], unit: Unit) -> bool:
    return any(label_of(annotation, unit) is not None for annotation in labels.values())


def label_of(annotation: Annotation, unit: Unit) -> Winner | float | str | None:
    """Return an annotator's choice for a pair, or the grade or class of one response; `None` without one."""
    if len(unit) == 2:
        return choice_for(annotation, unit)
    values = annotation_grades(annotation) or annotation_classes(annotation)
    if values:
        return values[unit[0]]
    return None


def with_probabilities(
    before: Sequence[Case],
    after: Sequence[Case],
    labels: Sequence[Label],
    sampled: Mapping[str, float] | None,
) -> tuple[Case, ...]:
    """Return cases with new labels, and with the probability that they were chosen for them.

    A case that had a label without such a probability keeps none, unless the sample recorded in the
    run folder includes it, as a random one. Otherwise that sample decides: a case that it does not
    have was labeled anyway. Without a record, the label's own probability counts.

    Args:
        before: the cases before they were labeled.
        after: the same cases with their labels.
        labels: the new labels.
        sampled: the recorded probabilities by case id; `None` without a record.
    """
    carried = {label.case_id: label.probability for label in labels}
    had = {old.id for old in before if has_label(old) or old.labels}
    adopted = had & (sampled or {}).keys() if len(had) < len(before) else set()
    cases = []
    for old, new in zip(before, after, strict=True):
        earlier = inclusion(old)
        label_probability = carried.get(old.id)
        probability: Any = earlier
        if (
            earlier is not None
            or old.id in adopted
            or (old.id in carried and old.id not in had)
        ):
            probability = label_probability or earlier
            if sampled is not None and not _is_certain(label_probability):
                probability = sampled.get(old.id)
        metadata = {
            name: value for name, value in new.metadata.items() if name != INCLUSION
        }
        stated = {} if probability is None else {INCLUSION: probability}
        cases.append(
            new
            if probability == earlier
            else replace(new, metadata={**metadata, **stated})
        )
    return tuple(cases)


def _is_certain(probability: Any) -> bool:
    return str(probability) in ("1", "1.0")


def recorded(folder: Path) -> dict[str, float] | None:
    """Return the probability of each sampled case in a run folder; `None` if nothing was sampled.

    Raises:
        ConfigError: if the file is damaged.
    """
    file = folder / LABEL_SAMPLE
    if not file.exists():
        return None
    try:
        probabilities = json.loads(read_text(file))["probabilities"]
        return {
            str(name): float(probability) for name, probability in probabilities.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        remedy = "remove the file; the labels then are of cases picked with unknown probabilities"
        raise ConfigError(
            "is not a sample of cases", where=str(file), remedy=remedy
        ) from None
