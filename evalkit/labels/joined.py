"""Add annotators' labels to cases: winners in the case's order, grades, classes and
answers to items.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import cast

from evalkit.config import RunConfig
from evalkit.core.annotations import (
    Label,
    annotation_classes,
    annotation_grades,
    choices_in,
    chosen,
)
from evalkit.core.checklists import leaves
from evalkit.core.errors import DatasetError, did_you_mean
from evalkit.core.scale import Classes
from evalkit.core.types import Annotation, Case, ItemAnswer, Unit, Winner
from evalkit.datasets.labels import Labels, consensus, has_label
from evalkit.labels.tasks import CHOICES

_CHOSEN: Mapping[object, Winner] = {winner: winner for winner in CHOICES}


def class_reader(config: RunConfig) -> Labels | None:
    """Return what reads the names of a run's classes, with its label map; `None` if its
    rubric is a scale.
    """
    classes = config.rubric.named_classes
    if classes is None:
        return None
    return Labels(config.dataset.label_map, classes, can_map=False)


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
    # case -> annotator -> unit -> value
    values: dict[str, dict[str, dict[Unit, Winner | float | str]]] = {}
    # case -> its checklist answers, each with the index of its response
    answers: dict[str, list[tuple[Label, int]]] = {}
    cases_by_id = {case.id: case for case in cases}
    for label in labels:
        case = cases_by_id.get(label.case_id)
        if case is None:
            raise DatasetError(
                f"the run has no case '{label.case_id}'",
                where=label.location or f"label by {label.annotator}",
                remedy="use ids of cases in this run",
            )
        if label.item:
            answer = (label, _response_of(label, case))
            answers.setdefault(case.id, []).append(answer)
        else:
            unit = _unit_of(label, case, classes)
            by_annotator = values.setdefault(case.id, {})
            by_annotator.setdefault(label.annotator, {})[unit] = label.value

    def labeled(case: Case) -> Case:
        if case.id in answers:
            case = _add_item_answers(case, answers[case.id])
        if case.id in values:
            keeps_own_label = case.id in with_own_label or has_own_label(case)
            case = _add_annotations(case, values[case.id], keeps_own_label)
        return case

    return tuple(labeled(case) for case in cases)


def has_own_label(case: Case) -> bool:
    """Return whether a case has a label or grades that belong to no annotator."""
    return not case.labels and has_label(case)


def _response_of(label: Label, case: Case) -> int:
    """Return the index of the response that an item's answer is about; it can be omitted if the
    case has one.

    Raises:
        DatasetError: If the case has no such item, or the label does not name one of its
            responses.
    """
    where = f"{label.location or label.annotator}, case '{case.id}'"
    item_ids = [item.id for item in leaves(case.checklist)]
    if label.item not in item_ids:
        problem = f"'{label.item:.60}' is not an item that a judge answers"
        if item_ids:
            remedy = did_you_mean(label.item, item_ids)
        else:
            remedy = "judge with mode=checklist, or remove the column item"
        raise DatasetError(problem, where=where, remedy=remedy)
    # With one response, a file need not say which.
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


def _add_item_answers(case: Case, answered: Sequence[tuple[Label, int]]) -> Case:
    """Return a case with annotators' answers to its checklist items added.

    Args:
        case: The case.
        answered: Each label, of an item of the case, with the index of the response that it is
            about.
    """
    # item -> annotator -> an answer for each response
    labels = {
        item.id: {name: list(answers) for name, answers in item.labels.items()}
        for item in case.checklist
    }
    for label, response in answered:
        # One entry for each response of the case, empty until it is answered.
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
        # The index of the last response, for the message.
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
    # A winner is a text and about two responses; a grade is a number and about one.
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


def _add_annotations(
    case: Case,
    by_annotator: Mapping[str, Mapping[Unit, Winner | float | str]],
    keeps_own_label: bool,
) -> Case:
    """Return a case with labels of more annotators, and the consensus of all as its label.

    A case that came with a label keeps it as the reference.
    """
    people: dict[str, Annotation] = dict(case.labels)
    for annotator, values in by_annotator.items():
        people[annotator] = _merge_annotation(case, people.get(annotator), values)
    # The case's own label remains the reference.
    if keeps_own_label:
        return replace(case, labels=people)
    # From all annotators, not just the new ones: it replaces the consensus so far.
    label, responses = consensus(people, case.responses)
    return replace(case, labels=people, label=label, responses=tuple(responses))


def _merge_annotation(
    case: Case, before: Annotation | None, values: Mapping[Unit, Winner | float | str]
) -> Annotation:
    """Return an annotator's label of a case, new values added to the ones before.

    Args:
        case: the case.
        before: the annotator's earlier label, if any.
        values: the new values by unit: classes, choices or grades, all of one kind.
    """
    # an annotator's labels of one case are classes, choices or grades
    classes = {
        unit[0]: value
        for unit, value in values.items()
        if isinstance(value, str) and len(unit) == 1
    }
    if classes:
        class_names = list(annotation_classes(before)) if before is not None else []
        # Index i is response i; earlier classes of other responses remain.
        class_names = class_names or [None] * len(case.responses)
        return tuple(classes.get(index, name) for index, name in enumerate(class_names))
    choices = {
        unit: winner
        for unit, value in values.items()
        if (winner := _CHOSEN.get(value)) is not None
    }
    if choices:
        return chosen(
            # New choices come last, so that they replace old ones of the same pair.
            {**dict(choices_in(before) if before is not None else ()), **choices}
        )
    grades: list[float | None] = (
        list(annotation_grades(before)) if before is not None else []
    )
    # Likewise by response.
    grades = grades or [None] * len(case.responses)
    for unit, value in values.items():
        grades[unit[0]] = float(value)
    return tuple(grades)
