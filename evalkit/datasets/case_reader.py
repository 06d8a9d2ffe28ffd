"""Convert rows to cases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from evalkit.config import CHECKLIST, SCORED_MODES, DatasetConfig
from evalkit.core.checklists import ChecklistError, read_items
from evalkit.core.errors import DatasetError, did_you_mean
from evalkit.core.scale import Classes
from evalkit.core.types import Annotation, Case, ChecklistItem, Response, Winner
from evalkit.core.values import JsonObject
from evalkit.datasets.field_mapping import Columns, Layout, RowFault, plain, plain_row
from evalkit.datasets.joins import Join
from evalkit.datasets.labels import (
    CONSENSUS,
    SPLIT,
    Labels,
    consensus,
    holds_people,
    is_labeled,
    model_annotations,
    read_people,
    response_annotations,
)
from evalkit.datasets.located_rows import Row
from evalkit.datasets.text import ABSENT, NoteCounts, SkippedRow, Texts

_PARTS = frozenset({"text", "model", "label", "grade", "labels"})
NUMBERED = "cases without an id, identified by row number"
SAME = "cases with two identical responses"
UNUSED_IN_ITEMS = "checklist items with a '{:.40}', which is not used"
NAN_IN_ITEMS = "checklist items whose {} are NaN, read as absent"
UNUSED = "responses with a '{}', which is not used"


class CaseReader:
    """Convert rows to cases, and count interpretations.

    Args:
        config: The dataset settings.
        mode: The mode of the run; all modes except `pointwise` and `checklist` need two responses.
        joins: The joins, each in the column with its name.
        tally: The counter for notes.
        items: The checklist items of all cases.
        classes: The classes of the rubric, which labels name; `None` if labels are choices and
            grades.
        call: The fields that a call needs, in words; empty if rows are those of a dataset.
        rendered: Whether rows have texts that evalkit made, with markers of pictures.
        columns: Where rows have their fields, if another reader with the same settings has found
            them.
    """

    def __init__(
        self,
        config: DatasetConfig,
        mode: str,
        joins: Sequence[Join] = (),
        tally: NoteCounts | None = None,
        items: tuple[ChecklistItem, ...] = (),
        classes: Classes | None = None,
        call: str = "",
        *,
        rendered: bool = False,
        columns: Columns | None = None,
    ) -> None:
        self._checklists = mode == CHECKLIST
        self._items = items
        self._call = call
        self.columns = columns or Columns(
            config.fields,
            frozenset(config.join),
            checklists=self._checklists,
            call=call,
        )
        self._has_checklist = self._checklists or self.columns.is_mapped(CHECKLIST)
        self.tally = NoteCounts() if tally is None else tally
        self._texts = Texts(config, self.tally, call, rendered=rendered)
        self._labels = Labels(config.label_map, classes, can_map=not call)
        self._least = 1 if mode in SCORED_MODES else 2
        self._mode, self._joins = mode, joins
        self._answers = [join.name for join in joins if join.adds == "responses"]
        self._said = [join.name for join in joins if join.adds == "labels"]

    def read(self, row: Row, number: int, location: str) -> Case | None:
        """Return the case in row `number` (from 1); `None` if it is dropped.

        Raises:
            DatasetError: If the row is not a case; the message names `location`.
        """
        try:
            case = self._read_case(plain_row(row), number, location)
            if case.checklist:
                self._count_unset(row, location)
            return case
        except RowFault as fault:
            raise fault.at(location) from None
        except SkippedRow:
            return None

    def id_of(self, row: Row, number: int, location: str) -> str:
        """Return the id of the case in a row; the row number if it has none.

        Raises:
            DatasetError: If the mapped column is missing.
        """
        try:
            return self._case_id(row, self.columns.layout(row), number, location)
        except RowFault as fault:
            raise fault.at(location) from None

    def _case_id(self, row: Row, layout: Layout, number: int, location: str) -> str:
        """Return the id of a row's case; the row's number if it has none."""
        value = layout.get["id"](row)
        if type(value) is str and value:
            return value
        if value is ABSENT and self.columns.is_mapped("id"):
            value = self.columns.need(row, "id", location)
        case_id = self._texts.name(value, "id", location)
        if case_id is None:
            self.tally.add(NUMBERED, location)
            return str(number)
        return case_id

    def _read_case(self, row: Row, number: int, location: str) -> Case:
        """Return the case of a row.

        Args:
            row: The row.
            number: Its number in the data, which is the id of a case without one.
            location: Its file and line, for errors.

        Raises:
            DatasetError: If a column is missing, or a value is not what its field needs.
        """
        layout = self.columns.layout(row)
        texts = self._texts
        get = layout.get
        present = layout.present
        responses = self._responses(row, layout, location)
        self._check_responses(responses, location)
        label: Winner | None = None
        if (value := get["label"](row)) is not ABSENT:
            label, responses = self._labels.attach(value, responses, location)
        metadata: JsonObject = {}
        for column in layout.metadata:
            metadata[column] = row[column]
        annotations: dict[str, Annotation] = {}
        if self._said or "labels" in present or layout.shape == "responses":
            annotations, label, responses = self._read_annotations(
                row, layout, label, responses, metadata, location
            )
        for join in self._joins:
            join.count(row, location)
        if (prompt := get["prompt"](row)) is ABSENT:
            prompt = self.columns.need(row, "prompt", location)
        return Case(
            self._case_id(row, layout, number, location),
            texts.needed(prompt, "prompt", "prompts", location),
            responses,
            texts.optional(get["context"](row), "context", location)
            if "context" in present
            else None,
            (
                texts.optional(get["reference"](row), "reference", location)
                if "reference" in present
                else None
            ),
            label,
            metadata,
            annotations,
            self._read_checklist(row, layout, len(responses), location)
            if self._has_checklist
            else (),
        )

    def _read_checklist(
        self, row: Row, layout: Layout, responses: int, location: str
    ) -> tuple[ChecklistItem, ...]:
        """Return the checklist of a case; empty in other modes unless the field is mapped.

        Args:
            row: The row of the data.
            layout: How to read the fields of rows with these columns.
            responses: The number of responses, for answers by response.
            location: The file and line of the row.

        Raises:
            DatasetError: If it is missing where it is needed, or is no checklist.
        """
        value = layout.get["checklist"](row)
        if value is ABSENT and self.columns.is_mapped("checklist"):
            value = self.columns.need(row, "checklist", location)
        if isinstance(value, str):
            value = plain(_parsed(value, "checklist", location))

        def unused(key: str) -> None:
            self.tally.add(UNUSED_IN_ITEMS.format(key), location)

        try:
            items = () if value is ABSENT or value is None else value
            return read_items(
                items, responses=responses, shared=self._items, unused=unused
            )
        except ChecklistError as bad:
            remedy = bad.remedy
            if value is ABSENT and self._call:
                remedy = f"pass {self._call}"
            elif value is ABSENT:
                remedy = (
                    "name its column in dataset.fields.checklist (the columns are"
                    f" {', '.join(list(row)[:8])})"
                )
            raise DatasetError(bad.what, where=location, remedy=remedy) from None

    def _count_unset(self, row: Row, location: str) -> None:
        """Count the points and weights that are NaN in data whose writers mark a
        missing value so.
        """
        todo = [self.columns.layout(row).get["checklist"](row)]
        while todo:
            value = todo.pop()
            if isinstance(value, str) and "NaN" in value:
                value = _parsed(value, "checklist", location)
            elif callable(listed := getattr(value, "tolist", None)):
                value = listed()
            if isinstance(value, dict):
                for key in ("points", "weight"):
                    if (number := value.get(key)) != number:
                        self.tally.add(NAN_IN_ITEMS.format(key), location)
                todo += value.values()
            elif isinstance(value, list | tuple):
                todo += value

    def _read_annotations(
        self,
        row: Row,
        layout: Layout,
        label: Winner | None,
        responses: tuple[Response, ...],
        metadata: JsonObject,
        location: str,
    ) -> tuple[dict[str, Annotation], Winner | None, tuple[Response, ...]]:
        """Return annotators' labels by name, the label of the case, and its responses with
        grades.

        The label or grades are the case's own, those of a join, or the consensus of the
        annotators if there is no other. The label is `None` if there is none.

        Args:
            row: The row of the data.
            layout: How to read the fields of rows with these columns.
            label: The label that the row itself gives the case; `None` if it has none.
            responses: The responses of the case.
            metadata: The other columns; the column of annotators' labels is removed from it.
            location: The file and line of the row.

        Raises:
            DatasetError: If a label cannot be read.
        """
        value = layout.get["labels"](row)
        people = dict[str, Annotation]()
        if value not in (ABSENT, None) and (
            self.columns.is_mapped("labels") or holds_people(value)
        ):
            people = read_people(value, self._labels, len(responses), location)
            metadata.pop(self.columns.column("labels"), None)
        if layout.shape == "responses":
            people |= response_annotations(
                layout.get["responses"](row), self._labels, location
            )
        for name in self._said:
            joined = row[name]
            people |= model_annotations(
                {k: v for k, v in joined.items() if k},
                self._labels,
                responses,
                location,
            )
            if "" in joined:
                case_label = joined[""]
                if isinstance(case_label, dict):
                    value = [case_label.get(response.model) for response in responses]
                else:
                    value = case_label
                label, responses = self._labels.attach(value, responses, location)
        if people and label is None and not any(map(is_labeled, responses)):
            label, graded = consensus(people, responses)
            responses = tuple(graded)
            self.tally.add(
                CONSENSUS
                if label is not None or any(map(is_labeled, graded))
                else SPLIT,
                location,
            )
        return people, label, responses

    def _responses(
        self, row: Row, layout: Layout, location: str
    ) -> tuple[Response, ...]:
        """Return the responses of a row: from a list, from one column for each, and from joins."""
        if layout.shape == "responses":
            responses = self._response_list(
                self.columns.need(row, "responses", location), location
            )
        elif self._answers and not any(
            f in layout.present or self.columns.is_mapped(f) for f, _ in layout.ends
        ):
            # all responses are joined
            responses = ()
        else:
            get = layout.get
            texts = self._texts
            listed = []
            for field, model in layout.ends:
                if (value := get[field](row)) is ABSENT:
                    value = self.columns.need(row, field, location)
                text = texts.needed(value, field, "responses", location)
                listed.append(
                    Response(text, texts.name(get[model](row), model, location))
                )
            responses = tuple(listed)
        if self._answers:
            return responses + self._joined_responses(row, location)
        return responses

    def _joined_responses(self, row: Row, location: str) -> tuple[Response, ...]:
        return tuple(
            self._response_of(entry, f"{name}.{i}", location)
            for name in self._answers
            for i, entry in enumerate(row[name])
        )

    def _response_list(self, value: Any, location: str) -> tuple[Response, ...]:
        """Return the responses of a column that has all of them.

        Raises:
            DatasetError: If it is not a list, or an entry is not a response.
        """
        value = _parsed(value, "responses", location)
        if not isinstance(value, list):
            raise DatasetError(
                "responses is not a list",
                where=location,
                remedy="write a list of texts or of {model, text}",
            )
        return tuple(
            self._response_of(entry, f"responses.{i}", location)
            for i, entry in enumerate(value)
        )

    def _response_of(self, entry: Any, name: str, location: str) -> Response:
        """Return one response of a list: a text, or an object with a text, a model and a label.

        Raises:
            DatasetError: If the object has no text.
        """
        if not isinstance(entry, dict):
            return Response(self._texts.needed(entry, name, "responses", location))
        if "text" not in entry:
            raise DatasetError(
                f"{name} has no 'text'",
                where=location,
                remedy=did_you_mean("text", entry),
            )
        if not entry.keys() <= _PARTS:
            for unused in entry.keys() - _PARTS:
                self.tally.add(UNUSED.format(unused), location)
        response = Response(
            self._texts.needed(entry["text"], f"{name}.text", "responses", location),
            self._texts.name(entry.get("model"), f"{name}.model", location),
        )
        return self._labels.response(
            response, entry.get("label", entry.get("grade")), location
        )

    def _check_responses(self, responses: tuple[Response, ...], location: str) -> None:
        """Check that a case has enough responses for the mode, and note equal ones.

        Raises:
            DatasetError: If it has too few.
        """
        count = len(responses)
        if count < self._least:
            if not responses:
                remedy = "add responses to the case"
            elif self._call:
                remedy = f"pass {self._call}"
            else:
                remedy = "set mode=pointwise"
            many = f"{count or 'no'} response{'' if count == 1 else 's'}"
            raise DatasetError(
                f"{many}, and mode {self._mode} needs {self._least}",
                where=location,
                remedy=remedy,
            )
        if count == 2:
            same = responses[0].text == responses[1].text != ""
        else:
            texts = [response.text for response in responses if response.text]
            same = len(set(texts)) < len(texts)
        if same:
            self.tally.add(SAME, location)


def _parsed(value: Any, field: str, location: str) -> Any:
    """Return the list in a cell of a table, as JSON; other values as they are."""
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise DatasetError(
            f"{field} is not a JSON list", where=location, remedy="fix the JSON"
        ) from None
