"""Read annotators' labels, choices between two responses or grades, in the spelling of the file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import isfinite
from typing import Any

from evalkit.core.annotations import (
    annotation_classes,
    annotation_grades,
    choice_for,
    chosen,
    majority,
    parse_pair_key,
)
from evalkit.core.display import shorten
from evalkit.core.errors import DatasetError, pasted
from evalkit.core.scale import Classes
from evalkit.core.types import Annotation, Case, Response, Unit, Winner
from evalkit.core.values import Json, JsonObject

LabelMap = Mapping[str, "Winner | float | str"]
Labeled = tuple["Winner | None", tuple[Response, ...]]

_MOST_KNOWN = 1000
_SHORT = 100
_EXACT = 2**53  # up to here, each integer has its own float
_WINNERS: dict[str, Winner] = {"a": "A", "b": "B", "tie": "TIE"}


def normalize_label(value: Any) -> str:
    """Return the normalized text of a label: `1`, `"1"` and `1.0` are the same label."""
    if type(value) is str and len(value) <= _SHORT:
        return _normalized(value)
    return _plain(json.dumps(value) if isinstance(value, bool) else str(value))


@lru_cache(_MOST_KNOWN)
def _normalized(value: str) -> str:
    return _plain(value)


def _plain(value: str) -> str:
    text = value.strip()
    number = finite_number(text)
    if number is None:
        return text
    return f"{number:.15g}"


def finite_number(text: str) -> float | None:
    """Return the number in a text; `None` for anything else, NaN and infinities."""
    try:
        number = float(text)
    except ValueError:
        return None
    if isfinite(number):
        return number
    return None


def read_choice(value: Any, location: str) -> Winner:
    """Return the choice between two responses that an annotator's label is.

    Raises:
        DatasetError: If it is not A, B or TIE, in any case: other spellings, such as left or 1,
            need not mean A.
    """
    winner = _WINNERS.get(normalize_label(value).lower())
    if winner is None:
        raise DatasetError(
            f"'{shorten(str(value), 60)}' is not a winner",
            where=location,
            remedy="write A, B or TIE",
        )
    return winner


class Labels:
    """Read the labels of one dataset with its `label_map`: choices or grades, or
    classes if the rubric has `classes`.

    A label that is the abstention is no label. `can_map` is whether its user can still change the
    label map.
    """

    def __init__(
        self,
        label_map: LabelMap,
        classes: Classes | None = None,
        *,
        can_map: bool = True,
    ) -> None:
        self._can_map = can_map
        self._map = {normalize_label(key): value for key, value in label_map.items()}
        self._classes = classes
        self._known: dict[str, Winner | float | None] = {}
        self._answers: dict[str, str] = {}

    def attach(
        self, value: Any, responses: tuple[Response, ...], location: str
    ) -> Labeled:
        """Return the choice between the first two responses, if `value` is one, and the
        responses with their grades.

        Raises:
            DatasetError: If it is neither a choice nor a grade for each response.
        """
        if value is None or value == "":
            return None, responses
        if isinstance(value, str):
            if "[" in value and value.lstrip().startswith("["):
                value = _listed(value, location)
        elif isinstance(value, dict) and self._classes is None:
            raise self._misfit_error(value, None, len(responses), location)
        label = self._read_label(value, len(responses), location)
        if isinstance(label, str):
            return label, responses
        return None, tuple(map(self._with, responses, label))

    def class_of(self, value: Any, location: str) -> str | None:
        """Return the class that a label names; `None` if there is none, or it is the abstention.

        Raises:
            DatasetError: If it is not a class and not mapped to one.
        """
        answer = self.answer_of(value, location)
        if self._classes is not None and answer in self._classes.names:
            return answer
        return None

    def answer_of(self, value: Any, location: str) -> str | None:
        """Return the class or the abstention that a value names; `None` for an empty value.

        The labels must be classes: `classes` was given.

        Raises:
            DatasetError: As `class_of`.
        """
        if value is None or value == "":
            return None
        assert self._classes is not None
        if type(value) is str and value in self._answers:
            return self._answers[value]
        text = normalize_label(value)
        text = normalize_label(self._map.get(text, text))
        answer = self._classes.find(text)
        if answer is None:
            names = self._classes.names
            if self._can_map:
                remedy = f"map it, for example {self._mapped(value, names[0])}"
            else:
                remedy = "write one of them"
            problem = (
                f"label {_shown(value)} is not one of the classes {', '.join(names)}"
            )
            raise DatasetError(problem, where=location, remedy=remedy)
        if type(value) is str:
            self._answers[value] = answer
        return answer

    def response(self, response: Response, value: Any, location: str) -> Response:
        """Return a response with its grade, or its class.

        Raises:
            DatasetError: As `grade` or `class_of`.
        """
        return self._with(response, self._value(value, location))

    def _with(self, response: Response, value: Any) -> Response:
        return replace(
            response, **{"grade" if self._classes is None else "class_name": value}
        )

    def _value(self, value: Any, location: str) -> Any:
        if self._classes is None:
            return self.grade(value, location)
        return self.class_of(value, location)

    def annotations(self, values: Sequence[Any], location: str) -> Annotation:
        """Return one annotator's grades, or classes, of responses; arguments and errors
        as above.
        """
        return tuple(self._value(value, location) for value in values)

    def grade(self, value: Any, location: str) -> float | None:
        """Return the grade of one response; `None` if it has none.

        Raises:
            DatasetError: If it is neither a number nor mapped to one.
        """
        if value is None or value == "":
            return None
        meaning = self._meaning(value)
        if isinstance(meaning, float):
            return meaning
        if self._can_map:
            remedy = f"map it to a number, for example {self._mapped(value, '1')}"
        else:
            remedy = "pass a number"
        raise DatasetError(
            f"the grade {_shown(value)} is not a number", where=location, remedy=remedy
        )

    def annotation(self, value: Any, count: int, location: str) -> Annotation | None:
        """Return one annotator's label of a case with `count` responses; `None` if there is none.

        Raises:
            DatasetError: If it is neither a choice nor a grade for each response.
        """
        if value is None or value == "":
            return None
        if isinstance(value, dict) and self._classes is None:
            return chosen(
                {
                    self._pair(name, count, location): self._choice(choice, location)
                    for name, choice in value.items()
                }
            )
        return self._read_label(value, count, location)

    def _read_label(
        self, value: Any, count: int, location: str
    ) -> Winner | tuple[Any, ...]:
        """Return the winner that a label names, or the grades or classes of all responses, in
        their order.

        Args:
            value: The label in the data.
            count: The number of responses.
            location: The file and line of the row.

        Raises:
            DatasetError: If the label does not fit the number of responses.
        """
        if isinstance(value, list) or self._classes is not None:
            values = value if isinstance(value, list) else [value]
            self._check_count(values, count, location)
            return tuple(self._value(value, location) for value in values)
        meaning = self._meaning(value)
        if isinstance(meaning, str) and count > 1:
            return meaning
        if isinstance(meaning, float) and count == 1:
            return (meaning,)
        raise self._misfit_error(value, meaning, count, location)

    def _pair(self, name: str, count: int, location: str) -> Unit:
        unit = parse_pair_key(str(name))
        if unit is None or unit[1] >= count:
            remedy = "name pairs by two indices, the lower first, as in 0,2"
            raise DatasetError(
                f"label '{name}' is not a pair of {count} responses",
                where=location,
                remedy=remedy,
            )
        return unit

    def _choice(self, value: Any, location: str) -> Winner:
        meaning = self._meaning(value)
        if not isinstance(meaning, str):
            raise DatasetError(
                f"label {_shown(value)} is not A, B or TIE",
                where=location,
                remedy="write one of them",
            )
        return meaning

    def _meaning(self, value: Any) -> Winner | float | None:
        """Return what a label means: a winner, or a number; `None` if it is neither."""
        if type(value) is not str:
            # Larger integers are not exact as floats; booleans are no integers here.
            exact = type(value) is int and not self._map and -_EXACT < value < _EXACT
            if exact:
                return float(value)
            return self._read_meaning(value)
        if value not in self._known:
            # free texts as labels would fill the memory
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[value] = self._read_meaning(value)
        return self._known[value]

    def _read_meaning(self, value: Any) -> Winner | float | None:
        text = normalize_label(value)
        if text in self._map:
            mapped = self._map[text]
            # Other texts are classes, which only a rubric with classes has.
            if isinstance(mapped, str):
                return _WINNERS.get(mapped.lower())
            return float(mapped)
        return _WINNERS.get(text.lower(), finite_number(text))

    def _check_count(self, grades: Sequence[Any], count: int, location: str) -> None:
        if len(grades) != count:
            kind, kinds = (
                ("grade", "grades") if self._classes is None else ("class", "classes")
            )
            raise DatasetError(
                f"label has {len(grades)} {kinds} for {count} responses",
                where=location,
                remedy=f"list one {kind} per response, null if there is none",
            )

    def _mapped(self, value: Any, meaning: str) -> str:
        """Return the command-line override that adds a label to the map."""
        mapped = {
            name: format(was, "g") if isinstance(was, float) else str(was)
            for name, was in self._map.items()
        }
        entries = {**mapped, normalize_label(value): meaning}
        return pasted(
            "dataset.label_map",
            ", ".join(f"{name}={to}" for name, to in entries.items()),
        )

    def _misfit_error(
        self, value: Any, meaning: Winner | float | None, count: int, location: str
    ) -> DatasetError:
        """Return the error for a label that does not fit the number of responses."""
        label = _shown(value)
        if isinstance(meaning, str):
            problem = f"label {label} chooses between two responses, but there is one"
            remedy = "label it with a number"
        elif count > 1:
            problem = f"label {label} is not mapped to A, B or TIE"
            remedy = (
                f"map it, for example {self._mapped(value, 'A')}, or give a list of"
                f" {count} grades"
            )
        else:
            problem = f"label {label} is not a number"
            remedy = f"map it to a number, for example {self._mapped(value, '1')}"
        return DatasetError(problem, where=location, remedy=remedy)


def _listed(text: str, location: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise DatasetError(
            f"label {_shown(text)} is not a JSON list",
            where=location,
            remedy="fix the JSON",
        ) from None


def _shown(value: Any) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), 40)


def is_labeled(response: Response) -> bool:
    """Return whether annotators gave a response a grade or a class."""
    return response.grade is not None or response.class_name is not None


def has_label(case: Case) -> bool:
    """Return whether a case has a label, or a response of it has."""
    return case.label is not None or any(map(is_labeled, case.responses))


UNLABELED = "cases without a label: "


def unlabeled_note(missing: int, rows: int) -> tuple[str, ...]:
    """Return the note on cases without a label; nothing if there are none, or if no
    case has a label.
    """
    if 0 < missing < rows:
        return (f"{UNLABELED}{missing} of {rows}",)
    return ()


CONSENSUS = "labels from the majority of annotators, or the mean of their grades"
SPLIT = "cases without a label because annotators are evenly split"


def read_people(
    value: Any, labels: Labels, responses: int, location: str
) -> dict[str, Annotation]:
    """Return the labels of a case by annotator, from an object or JSON.

    Raises:
        DatasetError: If it is not a mapping, or has an invalid label.
    """
    labels_by_annotator = _parse_labels(value, location)
    read = {
        name: labels.annotation(label, responses, location)
        for name, label in labels_by_annotator.items()
    }
    return {name: label for name, label in read.items() if label is not None}


def holds_people(value: Any) -> bool:
    """Return whether a value is an object; a column named `labels` can have other values."""
    return isinstance(value, dict) or (
        isinstance(value, str) and value.lstrip().startswith("{")
    )


def response_annotations(
    entries: Any, labels: Labels, location: str
) -> dict[str, Annotation]:
    """Return annotators' grades of single responses, given as {text, model, labels:
    {name: grade}}.
    """
    if not isinstance(entries, list):
        return {}
    graded = [
        _parse_labels(e.get("labels"), location)
        if isinstance(e, dict) and e.get("labels")
        else {}
        for e in entries
    ]
    names = dict.fromkeys(name for grades in graded for name in grades)
    return {
        name: labels.annotations([grades.get(name) for grades in graded], location)
        for name in names
    }


def model_annotations(
    values: Json, labels: Labels, responses: Sequence[Response], location: str
) -> dict[str, Annotation]:
    """Return annotators' labels in which grades can be by model: {name: label or {model: grade}}.

    Raises:
        DatasetError: If a label is invalid.
    """
    by_annotator = {
        name: labels.annotation(
            [value.get(response.model) for response in responses]
            if isinstance(value, dict)
            else value,
            len(responses),
            location,
        )
        for name, value in values.items()
    }
    return {
        name: label
        for name, label in by_annotator.items()
        if label is not None and any(g is not None for g in label)
    }


def _parse_labels(value: Any, location: str) -> JsonObject:
    """Return the labels of a column, by annotator; a text is read as JSON.

    Raises:
        DatasetError: If it is not an object.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise DatasetError(
                "labels is not a JSON object", where=location, remedy="fix the JSON"
            ) from None
    if not isinstance(value, dict):
        raise DatasetError(
            "labels is not an object", where=location, remedy="write {annotator: label}"
        )
    return {str(name): label for name, label in value.items()}


def consensus(
    labels: Mapping[str, Annotation], responses: Sequence[Response]
) -> tuple[Winner | None, list[Response]]:
    """Return the majority's choice, and the responses with mean grades and majority classes.

    The choice is `None` if annotators are split or chose nothing; a response without grades or a
    majority keeps none.

    Args:
        labels: The label of each annotator.
        responses: The responses of the case.
    """
    chosen: Winner | None = majority(choice_for(label) for label in labels.values())
    classes = [
        classes for label in labels.values() if (classes := annotation_classes(label))
    ]
    return chosen, [
        replace(
            response,
            grade=_mean(labels, position),
            class_name=majority(names[position] for names in classes),
        )
        for position, response in enumerate(responses)
    ]


def _mean(labels: Mapping[str, Annotation], position: int) -> float | None:
    grades = [
        grades[position]
        for label in labels.values()
        if (grades := annotation_grades(label))
    ]
    present = [grade for grade in grades if grade is not None]
    if present:
        return sum(present) / len(present)
    return None
