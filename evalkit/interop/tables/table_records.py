"""A record for each row of a table: its case, and the judgments of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

from evalkit.core.errors import DatasetError
from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.judgment_files import text
from evalkit.interop.layouts.layouts import judgment_of, record_of
from evalkit.interop.layouts.records import (
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

_CELLS: Final = (
    "prompt",
    "context",
    "reference",
    "response",
    "model",
    "response_a",
    "response_b",
    "model_a",
    "model_b",
    "order",
    "sample",
    "text",
    "confidence",
)


def table_records(
    parts: Parts,
    verdicts: Mapping[str, Sequence[Any]],
    space: Space,
    *,
    answers: bool = False,
) -> Iterator[Record]:
    """Yield a record for each row with verdicts, or for each row if they are answers to judge."""
    by_role = parts.by_role()
    unit = space.unit
    # A pair has no single response, and a response no sides.
    sides = (
        ("response", "model")
        if unit == "pair"
        else ("response_a", "response_b", "model_a", "model_b", "order")
    )
    plain = {
        role: by_role[role] for role in _CELLS if role in by_role and role not in sides
    }
    if parts.keys.sample is not None:
        plain["sample"] = parts.keys.sample
        _check_samples(parts)
    # {column: texts by row}, for ids and names of judges.
    texts = {name: column.texts for name, column in parts.typed.items()}
    cells_by_role: dict[str, list[Any]] = {
        role: parts.columns.cells[name] for role, name in plain.items()
    }
    used = {
        *plain.values(),
        *parts.raters.judges,
        *parts.raters.labels,
        *parts.raters.criteria,
    }
    if "id" in by_role and len(parts.keys.unit) < 2:
        used.add(by_role["id"])
    # The case is what was rated: another verdict about it would tell who is right.
    used |= {name for name, why in parts.raters.unused.items() if why != MAY_BE_VERDICT}
    metadata = {
        name: cells for name, cells in parts.columns.cells.items() if name not in used
    }
    labels = list(parts.raters.labels)
    judges = list(parts.raters.judges)
    # Only a table with a column of judges' names has another judge in each row.
    form = (
        parts.form if parts.form is not None and parts.form.kind == "judges" else None
    )
    options = _options(space)
    read = _Judgments(space, options)
    # {id: its prompt}: an id with two prompts is an error.
    prompts: dict[str, str] = {}
    # Not strict: without columns there is no end of rows.
    rows = zip(
        parts.columns.places,
        _rows_of(cells_by_role),
        _rows_of(metadata),
        strict=False,
    )
    for row, (location, cells, described) in enumerate(rows):
        cells["id"] = _id(parts, texts, row)
        _check_prompt(prompts, cells, location)
        cells["metadata"] = described
        # One label is that of the case; several are their annotators'.
        for name in labels:
            key = "label" if len(labels) == 1 else f"label.{name}"
            cells[key] = verdicts[name][row]
        cells |= parts.constants
        judgments = []
        # Criteria of one judge are one judgment, read through the first column.
        for name in judges[:1] if parts.raters.criteria else judges:
            judge = "judge" if _is_plain(name) or parts.raters.criteria else name
            if form is not None and texts[form.rater][row] is not None:
                judge = str(texts[form.rater][row])
            judgments += read(parts, verdicts, judge, name, row, cells, location)
        if answers:
            judgments = [UNJUDGED]
        if judgments:
            yield record_of(cells, location, unit, options, said=judgments)


def _rows_of(columns: Mapping[str, Sequence[Any]]) -> Iterator[JsonObject]:
    """Yield the cells of each row by name, without empty ones; without columns, forever."""
    if not columns:
        yield from ({} for _ in count())
    for row in zip(*columns.values(), strict=True):
        # Not each cell of a column by its index: there are millions.
        yield {
            name: cell
            for name, cell in zip(columns, row, strict=True)
            if cell is not None
        }


UNJUDGED: Final = missing_record("none", "not judged")
"""The judgment of an answer to judge."""


def _is_plain(name: str) -> bool:
    return name.casefold() in ("winner", "score", "class")


def _options(space: Space) -> Options:
    if space.unit != "class":
        return Options()
    words = {value for levels in space.values.values() for value in levels.values()}
    return Options(winners={word: word for word in words})


class _Judgments:
    """The reading of a judge's verdicts; equal ones of rows that say nothing else of it
    are one object.
    """

    def __init__(self, space: Space, options: Options) -> None:
        self._space = space
        self._options = options
        self._known: dict[tuple[Any, ...], RecordedJudgment] = {}
        self._verdict = {"pair": "winner", "class": "class", "response": "score"}[
            space.unit
        ]

    def __call__(
        self,
        parts: Parts,
        verdicts: Mapping[str, Sequence[Any]],
        judge: str,
        name: str,
        row: int,
        cells: Json,
        location: str,
    ) -> list[RecordedJudgment]:
        level = parts.typed[name].texts[row]
        if parts.raters.criteria:
            scores = {
                f"score.{criterion}": verdicts[column][row]
                for column, criterion in parts.raters.criteria.items()
                if verdicts[column][row] is not None
            }
            if not scores:
                scores = {"error": "no score"}
            judged_cells: JsonObject = {"judge": judge, **scores}
            return [
                judgment_of(
                    {**cells, **judged_cells}, self._space.unit, location, self._options
                )
            ]
        value = verdicts[name][row]
        cause = None if level is None else self._space.missing.get(name, {}).get(level)
        # A judgment with these cells depends on more than its verdict.
        plain = not (
            {"text", "confidence", "order", "sample", "model_a", "model_b"}
            & cells.keys()
        )
        # Equal judgments of rows without other facts are one object, which saves memory.
        key = (judge, value, cause, level if cause else None)
        if plain and key in self._known:
            return [self._known[key]]
        judged_cells = {"judge": judge, self._verdict: value}
        # A word for an error is a failure of the judge; a word that the user mapped to NONE is
        # not.
        if value is None and cause is not None and cause != EMPTY:
            judged_cells["failure" if cause != "mapped to NONE" else "error"] = (
                f"{cause}: {str(level)[:80]}"
            )
        judgment = judgment_of(
            {**cells, **judged_cells}, self._space.unit, location, self._options
        )
        if plain:
            self._known[key] = judgment
        return [judgment]


def _id(parts: Parts, texts: Mapping[str, Sequence[str | None]], row: int) -> str:
    values = [texts[name][row] for name in parts.keys.unit]
    named = [value for value in values if value is not None]
    if not named:
        # Rows without any key are named by their number.
        return f"row {row + 1}" if parts.keys.unit else str(row + 1)
    return (
        "/".join(named) if len(named) < 2 else "/".join(value[:80] for value in named)
    )


def _check_prompt(prompts: dict[str, str], cells: Json, location: str) -> None:
    prompt = text(cells.get("prompt"))
    if prompts.setdefault(cells["id"], prompt) != prompt:
        raise DatasetError(
            f"id '{cells['id'][:60]}' is already used for another prompt",
            where=location,
            remedy="use a unique id for each question, or name its column: --id COLUMN",
        )


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
