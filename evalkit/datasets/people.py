"""What single people said of a case, where several labelled it, and what they said together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evalkit.choices import choice_of, grades_of, majority
from evalkit.datasets.labels import Labels
from evalkit.errors import DatasetError
from evalkit.types import Annotation, Response, Winner

SAID = "labels taken from what most people chose, or from the mean of their grades"
SPLIT = "cases on whose label people are evenly split, left without one"


def read_people(value: Any, labels: Labels, responses: int, place: str) -> dict[str, Annotation]:
    """Return people's labels of a case: a mapping from name to a label, as an object or as JSON.

    Raises:
        DatasetError: if it is none, or holds what is no label.
    """
    found = _object(value, place)
    read = {name: labels.annotation(label, responses, place) for name, label in found.items()}
    return {name: label for name, label in read.items() if label is not None}


def holds_people(value: Any) -> bool:
    """Say whether a column holds an object, which a column named `labels` of something else need not."""
    return isinstance(value, dict) or (isinstance(value, str) and value.lstrip().startswith("{"))


def of_responses(entries: Any, labels: Labels, place: str) -> dict[str, Annotation]:
    """Return people's grades that stand on single responses, as {text, model, labels: {name: grade}}."""
    if not isinstance(entries, list):
        return {}
    graded = [_object(e.get("labels"), place) if isinstance(e, dict) and e.get("labels") else {} for e in entries]
    names = dict.fromkeys(name for grades in graded for name in grades)
    return {name: tuple(labels.grade(grades.get(name), place) for grades in graded) for name in names}


def of_models(
    said: Mapping[str, Any], labels: Labels, responses: Sequence[Response], place: str
) -> dict[str, Annotation]:
    """Return people's labels where a grade may stand for a response by its model: {name: label or {model: grade}}.

    Raises:
        DatasetError: if one is no label.
    """
    found = {
        name: labels.annotation(
            [one.get(response.model) for response in responses] if isinstance(one, dict) else one, len(responses), place
        )
        for name, one in said.items()
    }
    return {name: label for name, label in found.items() if label is not None and any(g is not None for g in label)}


def _object(value: Any, place: str) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise DatasetError("labels is not a JSON object", where=place, remedy="mend it") from None
    if not isinstance(value, dict):
        raise DatasetError("labels is not an object", where=place, remedy="write {annotator: label}")
    return {str(name): label for name, label in value.items()}


def consensus(labels: Mapping[str, Annotation], responses: Sequence[Response]) -> tuple[Winner | None, list[Response]]:
    """Return the choice that most people made, none where they are split, and responses with their mean grades."""
    chosen = majority(choice_of(label) for label in labels.values())
    return chosen, [replace(response, grade=_mean(labels, place)) for place, response in enumerate(responses)]


def _mean(labels: Mapping[str, Annotation], place: int) -> float | None:
    grades = [grades[place] for label in labels.values() if (grades := grades_of(label))]
    known = [grade for grade in grades if grade is not None]
    return sum(known) / len(known) if known else None
