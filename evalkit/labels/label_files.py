"""Read annotators' labels from the files of labeling tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalkit.core.annotations import (
    FIRST,
    INCLUSION,
    UNKNOWN,
    Label,
)
from evalkit.core.checklists import ChecklistError, is_item_answer, read_answer
from evalkit.core.errors import DatasetError
from evalkit.core.values import Json
from evalkit.datasets.labels import Labels, read_choice
from evalkit.interop.layouts.judgment_files import number, rows_of
from evalkit.labels.tasks import BETTER, CLASS, GRADE, shown_of, unswapped

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
    """Yield the labels in one row of a file, whatever tool wrote it.

    Args:
        location: The file and line of the row.
        row: The row.
        left_out: Counts omitted items by kind.
        classes: Reads the names of classes, if the labels are classes.

    Raises:
        DatasetError: If the row does not identify what it labels.
    """
    # The format is that of the row, not of the file's name: Label Studio, Argilla, or columns.
    if isinstance(row.get("annotations"), list) and isinstance(
        row.get("data"), Mapping
    ):
        task = row["data"]
        answers = _read_label_studio(row["annotations"])
        unnamed = "task has no data.case_id"
    elif isinstance(row.get("fields"), Mapping) and "responses" in row:
        task = row.get("metadata") or {}
        answers = _argilla(row["responses"] or {})
        unnamed = "record has no metadata.case_id"
    else:
        task, answers = _read_plain_row(row, location)
        unnamed = ""
    if task.get("case_id") is None:
        raise DatasetError(
            f"the {unnamed}", where=location, remedy="export it with evalkit export"
        )
    for annotator, value, question, is_finished in answers:
        if not is_finished:
            left_out[UNFINISHED] += 1
        # Left out labels are counted, so that a user sees why there are fewer than rows.
        elif value in (None, ""):
            left_out[EMPTY] += 1
        elif question not in (BETTER, GRADE, CLASS):
            left_out[OTHERS] += 1
        elif (label := _read_label(task, annotator, value, location, classes)) is None:
            left_out[EMPTY] += 1
        else:
            # A row without the probability was picked by the annotator's tool, in a way nobody
            # knows.
            yield replace(label, probability=task.get(INCLUSION, UNKNOWN))


def _read_plain_row(row: Row, location: str) -> tuple[Row, Answers]:
    """Return the task in a row, and its one label: the columns are id, annotator, label (or
    better, grade), and shown if not 0,1.

    For a case with more responses, `shown` lists the two labeled responses in the order shown. A
    column `item` names a checklist item, and the label is the answer to it.

    Raises:
        DatasetError: If the case or the annotator is missing.
    """

    def first(*names: str) -> Any:
        return next(
            (row[name] for name in names if row.get(name) not in (None, "", [])), None
        )

    case = first(*_IDS)
    annotator = first(*_ANNOTATORS)
    if case is None or annotator is None:
        missing = "case" if case is None else "annotator"
        remedy = f"add columns id, annotator and label; the columns are {', '.join(map(str, row))}"
        raise DatasetError(f"the label has no {missing}", where=location, remedy=remedy)
    # The number 0 names the first response; it is no missing value.
    order = first("shown", "response_index", "response")
    task = {
        "case_id": case,
        "shown": order,
        "item": first("item"),
        INCLUSION: row.get(INCLUSION),
    }
    return task, [(str(annotator), first("label", CLASS, BETTER, GRADE), GRADE, True)]


def _read_label(
    task: Row, annotator: str, value: Any, location: str, classes: Labels | None
) -> Label | None:
    """Return a label: of a pair if it is a winner, of one response if it is a number or a class,
    of an item if the task names one; `None` for an empty value.

    Args:
        task: The case, the order in which responses were shown, and the item, if any.
        annotator: Whose label it is.
        value: The label as written.
        location: The file and line of the row.
        classes: Reads the names of classes, if the labels are classes.

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
    # A choice needs two responses: the first two, unless the row says otherwise.
    order = order if order is not None and len(order) == 2 else FIRST
    return Label(
        # Kept in the order of the case, whatever the annotator saw.
        case,
        tuple(sorted(order)),
        annotator,
        unswapped(winner, order),
        location,
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


def _read_label_studio(annotations: Iterable[Row]) -> Answers:
    """Yield the answers to a Label Studio task: annotator, value, name of the question, and
    whether it was finished.
    """
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
            # Several choices are no answer to a question of evalkit; the empty name below leaves
            # them out.
            values = value.get("choices") or [value.get("rating", value.get("number"))]
            yield (
                annotator,
                values[0],
                "" if len(values) > 1 else result.get("from_name"),
                True,
            )
