"""Read annotators' labels from files: CSV or other rows, Argilla records, Label Studio exports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalkit.benchmarks.judgment_files import number, rows_of
from evalkit.core.annotations import FIRST, INCLUSION, UNKNOWN
from evalkit.core.checklists import ChecklistError, is_item_answer, read_answer
from evalkit.datasets.labels import Labels, read_choice
from evalkit.errors import DatasetError
from evalkit.interop.labeling import BETTER, CLASS, GRADE, Label, shown_of, unswapped

Row = Mapping[str, Any]
EMPTY = "rows without a label"
OTHERS = "answers to questions other than better, grade or class"
UNFINISHED = "labels that were discarded or not submitted"
_IDS = ("case_id", "id")
_ANNOTATORS = ("annotator", "annotator_id", "labeller", "user", "user_id")


def read_labels(path: Path, left_out: Counter[str] | None = None, classes: Labels | None = None) -> list[Label]:
    """Read the labels of a file in any of the formats.

    Args:
        path: The file, or a folder of files.
        left_out: Counts omitted items by kind.
        classes: Reads the names of classes, if the labels are classes.

    Raises:
        DatasetError: If a row has no label, or does not identify what it labels.
    """
    found: list[Label] = []
    left_out = Counter() if left_out is None else left_out
    for place, row in rows_of(path):
        if isinstance(row.get("annotations"), list) and isinstance(row.get("data"), Mapping):
            probability = row["data"].get(INCLUSION, UNKNOWN)
            labels = _label_studio(row, place, left_out, classes)
        elif isinstance(row.get("fields"), Mapping) and "responses" in row:
            probability = (row.get("metadata") or {}).get(INCLUSION, UNKNOWN)
            labels = _argilla(row, place, left_out, classes)
        else:
            probability = row.get(INCLUSION)
            labels = _plain(row, place, left_out, classes)
        found += [replace(label, probability=probability) for label in labels]
    if not found:
        raise DatasetError("has no labels", where=str(path), remedy="use a file with labels")
    return found


def _plain(row: Row, place: str, left_out: Counter[str], classes: Labels | None) -> Iterator[Label]:
    """Yield a row's label: columns id, annotator, label (or better, grade), and shown if it is not 0,1.

    For a case with more responses, `shown` lists the two labeled responses in the order shown. A column `item` names a
    checklist item, and the label is the answer to it.
    """
    value = next((row[name] for name in ("label", CLASS, BETTER, GRADE) if row.get(name) not in (None, "")), None)
    annotator = next((str(row[name]) for name in _ANNOTATORS if row.get(name) not in (None, "")), None)
    case = next((str(row[name]) for name in _IDS if row.get(name) not in (None, "")), None)
    if case is None or annotator is None:
        names = ", ".join(map(str, row))
        missing = "case" if case is None else "annotator"
        remedy = f"add columns id, annotator and label; the columns are {names}"
        raise DatasetError(f"the label has no {missing}", where=place, remedy=remedy)
    if value is None:
        left_out[EMPTY] += 1
    else:
        shown = row.get("shown") or row.get("response_index") or row.get("response")
        if (item := row.get("item")) not in (None, ""):
            yield from _answer(Label(case, (), annotator, str(value), place, str(item).strip()), value, shown, left_out)
        else:
            yield from _label(case, annotator, value, shown, place, left_out, classes)


def _answer(label: Label, value: Any, shown: Any, left_out: Counter[str]) -> Iterator[Label]:
    """Yield the label of a checklist item."""
    try:
        answer = read_answer(value, f"item '{label.item:.60}'")
    except ChecklistError as error:
        raise DatasetError(error.what, where=label.place, remedy=error.remedy) from None
    if answer is None:
        left_out[EMPTY] += 1
    else:
        yield replace(label, value=answer, unit=() if shown in (None, "") else shown_of(shown, label.place))


def _label(
    case: str,
    annotator: str,
    value: Any,
    shown: Any,
    place: str,
    left_out: Counter[str],
    classes: Labels | None,
) -> Iterator[Label]:
    """Yield a label: of a pair if it is a winner, of one response if it is a number or a class."""
    order = None if shown in (None, "") else shown_of(shown, place)
    if classes is not None:
        name = classes.class_of(value, place)
        if name is None:
            left_out[EMPTY] += 1
        else:
            yield Label(case, order or (), annotator, name, place)
        return
    grade = number(value)
    if grade is not None and (order is None or len(order) == 1):
        yield Label(case, order or (), annotator, grade, place)
        return
    if isinstance(value, str) and is_item_answer(value):
        remedy = "name the item in a column item"
        raise DatasetError(f"'{value}' is a label of a checklist item", where=place, remedy=remedy)
    winner = read_choice(value, place)
    shown_ = order if order is not None and len(order) == 2 else FIRST
    yield Label(case, tuple(sorted(shown_)), annotator, unswapped(winner, shown_), place)


def _argilla(row: Row, place: str, left_out: Counter[str], classes: Labels | None) -> Iterator[Label]:
    """Yield the labels in an Argilla 2 record: {question: [{value, user_id}]}."""
    known = row.get("metadata") or {}
    case = known.get("case_id")
    if case is None:
        raise DatasetError("the record has no metadata.case_id", where=place, remedy="export it with evalkit export")
    responses = row["responses"] or {}
    for question, given in responses.items():
        for answer in given or ():
            if answer.get("value") is None:
                left_out[EMPTY] += 1
            elif question not in (BETTER, GRADE, CLASS):
                left_out[OTHERS] += 1
            elif answer.get("status", "submitted") != "submitted":
                left_out[UNFINISHED] += 1
            else:
                annotator = str(answer.get("user_id") or "argilla")
                shown = known.get("shown")
                yield from _label(str(case), annotator, answer["value"], shown, place, left_out, classes)


def _label_studio(row: Row, place: str, left_out: Counter[str], classes: Labels | None) -> Iterator[Label]:
    """Yield the labels of a Label Studio task: choices, numbers or ratings by annotator."""
    data = row["data"]
    if data.get("case_id") is None:
        raise DatasetError("the task has no data.case_id", where=place, remedy="export it with evalkit export")
    for annotation in row["annotations"]:
        if annotation.get("was_cancelled"):
            left_out[UNFINISHED] += 1
            continue
        by = annotation.get("completed_by")
        annotator = str((by.get("email") or by.get("id")) if isinstance(by, Mapping) else by or "label studio")
        for result in annotation.get("result") or ():
            value = result.get("value") or {}
            values = value.get("choices") or [value.get("rating", value.get("number"))]
            if values[0] is None:
                left_out[EMPTY] += 1
            elif result.get("from_name") not in (BETTER, GRADE, CLASS) or len(values) > 1:
                left_out[OTHERS] += 1
            else:
                shown, case = data.get("shown"), str(data["case_id"])
                yield from _label(case, annotator, values[0], shown, place, left_out, classes)
