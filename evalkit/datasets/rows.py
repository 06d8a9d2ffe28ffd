"""Rows to cases."""

from __future__ import annotations

import json
from typing import Any

from evalkit.config import DatasetConfig
from evalkit.datasets.columns import Columns, plain
from evalkit.datasets.labels import Labels
from evalkit.datasets.people import SAID, SPLIT, consensus, holds_people, of_responses, read_people
from evalkit.datasets.readers import Row
from evalkit.errors import DatasetError, did_you_mean
from evalkit.types import Annotation, Case, Response, Winner

_ALONE = frozenset({"pointwise"})
_OF_A_CASE = frozenset({"id", "prompt", "context", "reference", "label"})
_PARTS = ("text", "model", "label", "labels")

NUMBERED = "cases without an id, named by the number of their row"
AS_TEXT = "numbers and booleans taken as text"
EMPTY = "empty {}, judged as they are"
SAME = "cases with two identical responses"
UNUSED = "responses with a '{}', which was not used"


class Tally:
    """Counts what should be said once, with the first place it was seen."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, str]] = {}

    def add(self, what: str, place: str) -> None:
        """Count one."""
        count, first = self._seen.get(what, (0, place))
        self._seen[what] = (count + 1, first)

    def notes(self) -> tuple[str, ...]:
        """Return one line for each thing counted."""
        return tuple(f"{what}: {count} (first: {place})" for what, (count, place) in self._seen.items())


class CaseReader:
    """Makes cases of rows, and keeps count of what it had to interpret.

    Args:
        config: how columns and labels are named.
        mode: what the cases are for; all modes but `pointwise` need two responses.
    """

    def __init__(self, config: DatasetConfig, mode: str) -> None:
        self.columns = Columns(config.fields)
        self.tally = Tally()
        self._labels = Labels(config.label_map)
        self._mode = mode

    def read(self, row: Row, number: int, place: str) -> Case:
        """Return the case that row `number` (from 1) holds.

        Raises:
            DatasetError: if it is not one; the message names `place`.
        """
        row = plain(row)
        responses, used = self._responses(row, place)
        self._check(responses, place)
        label, responses = self._labels.attach(self.columns.get(row, "label"), responses, place)
        people, used = self._people(row, len(responses), used, place)
        if people and label is None and all(response.grade is None for response in responses):
            label, responses = self._agreed(people, responses, place)
        return Case(
            id=self._id(row, number, place),
            prompt=self._text(self.columns.need(row, "prompt", place), "prompt", "prompts", place),
            responses=responses,
            context=self._optional(row, "context", place),
            reference=self._optional(row, "reference", place),
            label=label,
            metadata=self.columns.metadata(row, used | _OF_A_CASE),
            labels=people,
        )

    def _people(self, row: Row, count: int, used: set[str], place: str) -> tuple[dict[str, Annotation], set[str]]:
        value = self.columns.get(row, "labels")
        people: dict[str, Annotation] = {}
        if value is not None and (self.columns.is_mapped("labels") or holds_people(value)):
            people, used = read_people(value, self._labels, count, place), used | {"labels"}
        if "responses" in used:
            people |= of_responses(self.columns.get(row, "responses"), self._labels, place)
        return people, used

    def _agreed(
        self, people: dict[str, Annotation], responses: tuple[Response, ...], place: str
    ) -> tuple[Winner | None, tuple[Response, ...]]:
        label, graded = consensus(people, responses)
        known = label is not None or any(response.grade is not None for response in graded)
        self.tally.add(SAID if known else SPLIT, place)
        return label, tuple(graded)

    def _id(self, row: Row, number: int, place: str) -> str:
        value = self.columns.need(row, "id", place) if self.columns.is_mapped("id") else self.columns.get(row, "id")
        if value is None or value == "":
            self.tally.add(NUMBERED, place)
            return str(number)
        return self._spelled(value, "id", place)

    def _responses(self, row: Row, place: str) -> tuple[tuple[Response, ...], set[str]]:
        shape = self.columns.shape(row)
        if shape == "responses":
            return self._listed(self.columns.need(row, "responses", place), place), {"responses"}
        ends = ("_a", "_b") if shape == "response_a" else ("",)
        texts = [
            self._text(self.columns.need(row, f"response{e}", place), f"response{e}", "responses", place) for e in ends
        ]
        models = [self._optional(row, f"model{e}", place) for e in ends]
        used = {f"{field}{end}" for field in ("response", "model") for end in ends}
        return tuple(Response(text, model) for text, model in zip(texts, models, strict=True)), used

    def _listed(self, value: Any, place: str) -> tuple[Response, ...]:
        if isinstance(value, str) and value.lstrip().startswith("["):
            value = _parsed(value, place)
        if not isinstance(value, list):
            raise DatasetError(
                "responses is not a list", where=place, remedy="write a list of texts or of {model, text}"
            )
        return tuple(self._entry(entry, f"responses.{i}", place) for i, entry in enumerate(value))

    def _entry(self, entry: Any, name: str, place: str) -> Response:
        if not isinstance(entry, dict):
            return Response(self._text(entry, name, "responses", place))
        if "text" not in entry:
            raise DatasetError(f"{name} has no 'text'", where=place, remedy=did_you_mean("text", entry))
        for unused in entry.keys() - set(_PARTS):
            self.tally.add(UNUSED.format(unused), place)
        model = entry.get("model")
        return Response(
            self._text(entry["text"], f"{name}.text", "responses", place),
            None if model in (None, "") else self._spelled(model, f"{name}.model", place),
            self._labels.grade(entry.get("label"), place),
        )

    def _optional(self, row: Row, field: str, place: str) -> str | None:
        value = self.columns.get(row, field)
        return None if value is None or value == "" else self._counted(value, field, place)

    def _text(self, value: Any, field: str, plural: str, place: str) -> str:
        if value is None:
            raise DatasetError(
                f"{field} is null", where=place, remedy='leave the row out, or write "" if the text is really empty'
            )
        if value == "":
            self.tally.add(EMPTY.format(plural), place)
        return self._counted(value, field, place)

    def _counted(self, value: Any, field: str, place: str) -> str:
        if isinstance(value, bool | int | float):
            self.tally.add(AS_TEXT, place)
        return self._spelled(value, field, place)

    def _spelled(self, value: Any, field: str, place: str) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, dict | list):
            kind, part = ("a list", "0") if isinstance(value, list) else ("an object", next(iter(value), "key"))
            raise DatasetError(
                f"{field} is {kind}, not a text",
                where=place,
                remedy=f"name the part that is meant, such as dataset.fields.{field.partition('.')[0]}=column.{part}",
            )
        return json.dumps(value)

    def _check(self, responses: tuple[Response, ...], place: str) -> None:
        least = 1 if self._mode in _ALONE else 2
        if len(responses) < least:
            remedy = "set mode=pointwise" if responses else "give the case its responses"
            many = f"{len(responses) or 'no'} response{'' if len(responses) == 1 else 's'}"
            raise DatasetError(f"{many}, and mode {self._mode} needs {least}", where=place, remedy=remedy)
        if len({response.text for response in responses}) < len(responses):
            self.tally.add(SAME, place)


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise DatasetError("responses is not a JSON list", where=place, remedy="mend it") from None
