"""A record for each row of a table: its case, and the judgments of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, TypeAlias

from evalkit.core.errors import DatasetError
from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.judgment_files import text
from evalkit.interop.layouts.layouts import (
    judgment_of,
    read_class,
    read_grade,
    record_of,
)
from evalkit.interop.layouts.records import (
    Answer,
    Options,
    Record,
    RecordedJudgment,
    missing_record,
)
from evalkit.interop.tables.columns import cell_text
from evalkit.interop.tables.parts import Parts
from evalkit.interop.tables.rater_levels import Space
from evalkit.interop.tables.rater_roles import MAY_BE_VERDICT
from evalkit.interop.tables.words import EMPTY

_OF_PAIRS: Final = ("response_a", "response_b", "model_a", "model_b", "order")
"""The roles of a pair's columns: a response has no sides."""
_OF_RESPONSES: Final = ("response", "model")
"""The roles of a response's columns: a pair has no single response."""
_OF_JUDGMENTS: Final = (
    "text",
    "confidence",
    "order",
    "sample",
    "model_a",
    "model_b",
)
"""The roles that a judgment depends on besides its verdict."""
_CELLS: Final = (
    "prompt",
    "context",
    "reference",
    *_OF_RESPONSES,
    *_OF_PAIRS,
    "sample",
    "text",
    "confidence",
)
UNJUDGED: Final = missing_record("none", "not judged")
"""The judgment of an answer to judge."""


def table_records(
    parts: Parts,
    verdicts: Mapping[str, Sequence[Any]],
    space: Space,
    *,
    answers: bool = False,
) -> Iterator[Record]:
    """Yield a record for each row with verdicts, or for each row if they are answers to judge."""
    _check_samples(parts)
    described = _described_roles(parts, space)
    # {role: the cells of its column}
    cells = {role: parts.columns.cells[name] for role, name in described.items()}
    judgments = _Judgments(parts, verdicts, space, cells, answers=answers)
    prompts = _texts_of("prompt", cells, parts)
    rows = _judged_rows(parts, described, prompts, judgments)
    if space.unit == "pair":
        return _records_of_pairs(rows, parts, verdicts, cells, judgments.options)
    by_class = space.unit == "class"
    return _records_of_responses(
        rows, parts, verdicts, cells, judgments.options, by_class=by_class
    )


_Row: TypeAlias = tuple[int, str, JsonObject, list[RecordedJudgment]]
"""A row with judgments: its index, the id of its case, its metadata, and the judgments."""


def _records_of_pairs(
    rows: Iterator[_Row],
    parts: Parts,
    verdicts: Mapping[str, Sequence[Any]],
    cells_by_role: Mapping[str, Sequence[Any]],
    options: Options,
) -> Iterator[Record]:
    """Yield the records of rows about pairs."""
    labels = list(parts.raters.labels)
    for row, case_id, metadata, judgments in rows:
        cells = _cells_of(cells_by_role, row)
        cells["id"] = case_id
        cells["metadata"] = metadata
        # One label is that of the case; several are their annotators'.
        for name in labels:
            key = "label" if len(labels) == 1 else f"label.{name}"
            cells[key] = verdicts[name][row]
        cells |= parts.constants
        location = parts.columns.places[row]
        yield record_of(cells, location, "pair", options, said=judgments)


def _records_of_responses(
    rows: Iterator[_Row],
    parts: Parts,
    verdicts: Mapping[str, Sequence[Any]],
    cells: Mapping[str, Sequence[Any]],
    options: Options,
    *,
    by_class: bool,
) -> Iterator[Record]:
    """Yield the records of rows about single responses, whose labels are classes or grades."""
    prompts = _texts_of("prompt", cells, parts)
    contexts = _texts_of("context", cells, parts)
    references = _texts_of("reference", cells, parts)
    responses = _texts_of("response", cells, parts)
    models = cells.get("model")
    # One label is that of the response; several are their annotators'.
    columns = {name: verdicts[name] for name in parts.raters.labels}
    only = next(iter(columns.values())) if len(columns) == 1 else None
    of_people = {} if only is not None else columns
    # One empty mapping for all rows: there are millions.
    nobody: dict[str, Any] = {}

    # {cell: its class}; each is read once.
    classes: dict[Any, str | None] = {}

    def label(cell: Any, row: int) -> Any:
        if by_class:
            if cell not in classes:
                classes[cell] = read_class(cell, options)
            return classes[cell]
        return read_grade(cell, parts.columns.places[row])

    for row, case_id, metadata, (first, *others) in rows:
        response = responses[row]
        model = None if models is None else models[row]
        # A response is identified by its model, or else by its text.
        key = str(model or response or "1")
        name = None if model is None else str(model)
        own = None if only is None else label(only[row], row)
        if by_class:
            answer = Answer(key, response, name, class_name=own)
        else:
            answer = Answer(key, response, name, own)
        people = nobody
        if of_people:
            people = {
                person: value
                for person, column in of_people.items()
                if (value := label(column[row], row)) is not None
            }
        yield Record(
            case_id,
            prompts[row],
            (answer,),
            first,
            context=contexts[row] or None,
            reference=references[row] or None,
            metadata=metadata,
            labels=nobody,
            grades=nobody if by_class else people,
            classes=people if by_class else nobody,
            others=tuple(others),
        )


def _described_roles(parts: Parts, space: Space) -> dict[str, str]:
    """Return the columns that describe what is judged, by their roles."""
    others = _OF_RESPONSES if space.unit == "pair" else _OF_PAIRS
    by_role = parts.by_role()
    columns: dict[str, str] = {
        role: by_role[role] for role in _CELLS if role in by_role and role not in others
    }
    if parts.keys.sample is not None:
        columns["sample"] = parts.keys.sample
    return columns


def _cells_of(columns: Mapping[str, Sequence[Any]], row: int) -> JsonObject:
    """Return the cells of a row that have a value."""
    cells = {name: column[row] for name, column in columns.items()}
    return {name: cell for name, cell in cells.items() if cell is not None}


def _texts_of(
    role: str, cells: Mapping[str, Sequence[Any]], parts: Parts
) -> Sequence[str]:
    """Return the texts of the column of a role; empty ones without it."""
    column = cells.get(role)
    if column is None:
        return [""] * len(parts.columns)
    # Nearly all cells are texts, and a call for each takes longer than this look.
    return [cell if type(cell) is str else text(cell) for cell in column]


def _metadata_columns(parts: Parts, described: Collection[str]) -> list[str]:
    """Return the columns that are used for nothing else.

    Args:
        parts: The table.
        described: The columns that describe what is judged.
    """
    by_role = parts.by_role()
    used = {
        *described,
        *parts.raters.judges,
        *parts.raters.labels,
        *parts.raters.criteria,
    }
    if "id" in by_role and len(parts.keys.unit) < 2:
        used.add(by_role["id"])
    # The case is what was rated: another verdict about it would tell who is right.
    used |= {name for name, why in parts.raters.unused.items() if why != MAY_BE_VERDICT}
    # A rater in the rows of a long table gave verdicts, whether they are used or not.
    used.update(parts.widened)
    return [name for name in parts.columns.cells if name not in used]


def _judged_rows(
    parts: Parts,
    described: Mapping[str, str],
    prompts: Sequence[str],
    judgments: _Judgments,
) -> Iterator[_Row]:
    """Yield the rows that have judgments.

    Args:
        parts: The table.
        described: The columns that describe what is judged, by their roles.
        prompts: The prompt of each row.
        judgments: Reads the judgments of a row.

    Raises:
        DatasetError: If an id has two prompts.
    """
    columns = parts.columns
    names = _metadata_columns(parts, described.values())
    metadata = _rows_of({name: columns.cells[name] for name in names})
    # {id: its prompt}: an id with two prompts is an error.
    known: dict[str, str] = {}
    # Not strict: without columns there is no end of metadata.
    rows = zip(_ids(parts), prompts, metadata, strict=False)
    for row, (case_id, prompt, cells) in enumerate(rows):
        if known.setdefault(case_id, prompt) != prompt:
            raise DatasetError(
                f"id '{case_id[:60]}' is already used for another prompt",
                where=columns.places[row],
                remedy="use a unique id for each question, or name its column: --id COLUMN",
            )
        found = judgments.of_row(row)
        if found:
            yield row, case_id, cells, found


def _rows_of(columns: Mapping[str, Sequence[Any]]) -> Iterator[JsonObject]:
    """Yield the cells of each row by name, without empty ones; without columns, forever."""
    if not columns:
        yield from repeat({})
    for row in zip(*columns.values(), strict=True):
        # Not each cell of a column by its index: there are millions.
        yield {
            name: cell
            for name, cell in zip(columns, row, strict=True)
            if cell is not None
        }


def _is_plain(name: str) -> bool:
    return name.casefold() in ("winner", "score", "class")


def _options(space: Space) -> Options:
    if space.unit != "class":
        return Options()
    words = {value for levels in space.values.values() for value in levels.values()}
    return Options(winners={word: word for word in words})


class _Judgments:
    """The reading of judges' verdicts; equal ones of rows that say nothing else of them
    are one object.
    """

    def __init__(
        self,
        parts: Parts,
        verdicts: Mapping[str, Sequence[Any]],
        space: Space,
        cells: Mapping[str, Sequence[Any]],
        *,
        answers: bool,
    ) -> None:
        """Initialize with the cells that describe what is judged, by role."""
        self.options = _options(space)
        self._verdicts = verdicts
        self._space = space
        self._criteria = parts.raters.criteria
        self._answers = answers
        self._places = parts.columns.places
        self._said = {role: cells[role] for role in _OF_JUDGMENTS if role in cells}
        # Only a table with a column of judges' names has another judge in each row.
        self._raters: Sequence[str | None] | None = None
        if parts.form is not None and parts.form.kind == "judges":
            self._raters = parts.typed[parts.form.rater].texts
        judges = list(parts.raters.judges)
        # Criteria of one judge are one judgment, read through the first column.
        if self._criteria:
            judges = judges[:1]
        self._judges = {
            name: "judge" if _is_plain(name) or self._criteria else name
            for name in judges
        }
        # {column: texts by row}
        self._texts = {name: parts.typed[name].texts for name in judges}
        self._known: dict[tuple[Any, ...], RecordedJudgment] = {}
        self._verdict = {"pair": "winner", "class": "class", "response": "score"}[
            space.unit
        ]

    def of_row(self, row: int) -> list[RecordedJudgment]:
        """Return the judgments of a row."""
        if self._answers:
            return [UNJUDGED]
        # Without them, a judgment depends on its verdict only.
        cells = _cells_of(self._said, row) if self._said else {}
        judgments = []
        for name, judge in self._judges.items():
            if self._raters is not None and self._raters[row] is not None:
                judge = str(self._raters[row])
            if self._criteria:
                judgments.append(self._by_criterion(judge, row, cells))
            else:
                judgments.append(self._of_judge(judge, name, row, cells))
        return judgments

    def _by_criterion(self, judge: str, row: int, cells: Json) -> RecordedJudgment:
        scores = {
            f"score.{criterion}": self._verdicts[column][row]
            for column, criterion in self._criteria.items()
            if self._verdicts[column][row] is not None
        }
        if not scores:
            scores = {"error": "no score"}
        return judgment_of(
            {**cells, "judge": judge, **scores},
            self._space.unit,
            self._places[row],
            self.options,
        )

    def _of_judge(
        self, judge: str, name: str, row: int, cells: Json
    ) -> RecordedJudgment:
        level = self._texts[name][row]
        value = self._verdicts[name][row]
        cause = None
        if level is not None and name in self._space.missing:
            cause = self._space.missing[name].get(level)
        # Equal judgments of rows without other facts are one object, which saves memory.
        key = (judge, value, cause, level if cause else None)
        if not cells and key in self._known:
            return self._known[key]
        judged_cells = {"judge": judge, self._verdict: value}
        # A word for an error is a failure of the judge; a word that the user mapped to NONE is
        # not.
        if value is None and cause is not None and cause != EMPTY:
            judged_cells["failure" if cause != "mapped to NONE" else "error"] = (
                f"{cause}: {str(level)[:80]}"
            )
        judgment = judgment_of(
            {**cells, **judged_cells},
            self._space.unit,
            self._places[row],
            self.options,
        )
        if not cells:
            self._known[key] = judgment
        return judgment


def _ids(parts: Parts) -> Iterator[str]:
    """Yield the id of each row: its texts in the columns that identify a case."""
    columns = [parts.typed[name].texts for name in parts.keys.unit]
    if not columns:
        yield from map(str, range(1, len(parts.columns) + 1))
    for row, values in enumerate(zip(*columns, strict=True), 1):
        named = [value for value in values if value is not None]
        if len(named) > 1:
            yield "/".join(value[:80] for value in named)
        else:
            # Rows without any key are named by their number.
            yield named[0] if named else f"row {row}"


def _check_samples(parts: Parts) -> None:
    """Number repeats that words tell apart."""
    name = parts.keys.sample
    if name is None or parts.typed[name].is_numeric:
        return
    numbers: dict[str, int] = {}
    column = parts.columns.cells[name]
    parts.columns.cells[name] = [
        None if cell is None else numbers.setdefault(cell_text(cell), len(numbers))
        for cell in column
    ]
