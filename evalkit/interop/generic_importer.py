"""Import any table with columns mapped by the user: pairs with a winner or margin;
responses with scores or classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.values import Json, JsonObject
from evalkit.datasets.field_mapping import RowFault, column_value, plain_row
from evalkit.datasets.labels import normalize_label
from evalkit.datasets.text import ABSENT
from evalkit.interop.layouts.judgment_files import Peek, rows_of, text
from evalkit.interop.layouts.layouts import CELLS, PREFIXES, Unit, below, record_of
from evalkit.interop.layouts.records import Importer, Options, ParsedFile
from evalkit.interop.verdict_words import verdicts_among

FIELDS = tuple(
    dict.fromkeys(
        name for names in CELLS.values() for name in names if name != "metadata"
    )
)

_SHORT: Final = 100
"""Longer texts describe no group of questions."""
_EXPORTED: Final = frozenset({"unit", "status", "error", "verdict", "verdict_reason"})
"""What a run's export says about each answer, next to the fields of a question."""
_GIVEN = ("winner", "margin", "score", "class", "label", "grade")


def is_field(name: str) -> bool:
    """Return whether a name is a field, or one below it, such as `score.style`."""
    return name in FIELDS or name.startswith(PREFIXES)


def _sniff(start: Peek) -> bool:
    return bool(start.row)


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each row.

    Raises:
        ConfigError: If the fields do not include a winner or score, or include a field not used by
            rows of this kind.
        DatasetError: If a row is invalid, or no row has a mapped column.
    """
    for name in options.fields:
        if not is_field(name):
            raise ConfigError(
                "no such field",
                where=f"--fields {name}",
                remedy=did_you_mean(name, FIELDS),
            )
    # fields whose column no row has, and fields that no kind of row uses: both are
    # mistakes
    unseen = dict(options.fields)
    unused = dict(options.fields)
    questions: dict[str, tuple[str, str | None]] = {}
    row: Json = {}
    records = []
    unread = True
    rows = list(_rows(path, options))
    described = _description_columns(rows, options.fields)
    options = replace(
        options, winners={**_classes(cells for *_, cells in rows), **options.winners}
    )
    for index, (location, row, cells) in enumerate(rows):
        for name, column in options.fields.items():
            if cells[name] is not None or column in row:
                unseen.pop(name, None)
        unit, has_verdict = _judged_unit(cells, row, location, options)
        unread = unread and not has_verdict
        hidden = {
            "label" * (unit == "response" and "grade" in cells),
            "score" * bool(below("score", cells)),
        }
        for name in list(unused):
            if name.partition(".")[0] in CELLS[unit] and name not in hidden:
                del unused[name]
        question = _question_name(questions, cells, index, location)
        metadata = {f"metadata.{name}": row.get(name) for name in described}
        records.append(
            record_of({**metadata, **cells}, location, unit, options, question)
        )
    for name, column in unseen.items():
        remedy = did_you_mean(column, tuple(row))
        raise DatasetError(
            f"no row has the column '{column}', mapped to {name}",
            where=str(path),
            remedy=remedy,
        )
    for name, column in unused.items():
        raise ConfigError(
            "rows of this kind do not use this field",
            where=f"--fields {name}={column}",
            remedy="remove it",
        )
    return ParsedFile(records, unread=unread)


def _description_columns(
    rows: Sequence[tuple[str, Json, Json]], fields: Mapping[str, str]
) -> list[str]:
    """Return the columns that say something about a question, such as its language.

    No field uses them.

    They are short, have one value for each question, and are searched for slices. If the user maps
    any metadata, only that is kept.
    """
    if any(name.startswith("metadata.") for name in fields):
        return []
    used = {column.partition(".")[0] for column in fields.values()}
    names = dict.fromkeys(name for _, row, _ in rows for name in row)
    if names.keys() >= _EXPORTED:
        used |= _EXPORTED
    candidates = [
        name for name in names if not is_field(name) and name not in used and name
    ]
    return [name for name in candidates if _describes_questions(name, rows)]


def _describes_questions(name: str, rows: Sequence[tuple[str, Json, Json]]) -> bool:
    """Return whether a column has short values, and one for each question."""
    values: dict[object, object] = {}
    for _, row, cells in rows:
        value = row.get(name)
        # A row without an id and a prompt is a question of its own.
        question = text(cells.get("id")) or text(cells.get("prompt")) or len(values)
        is_short = value is None or isinstance(value, bool | int | float)
        if isinstance(value, str):
            is_short = len(value) <= _SHORT
        if not is_short or values.setdefault(question, value) != value:
            return False
    return True


def _rows(path: Path, options: Options) -> Iterator[tuple[str, Json, Json]]:
    """Yield the place of each row, the row, and its cells."""
    for location, read in rows_of(path):
        try:
            row = plain_row(read)
        except RowFault as fault:
            raise fault.at(location) from None
        yield location, row, _cells(row, options.fields)


def _classes(rows: Iterable[Json]) -> dict[str, str]:
    """Return the classes whose names usually state that there is no verdict, such as
    `failed` next to `passed`.
    """
    named = ("class", "label")
    words = {
        normalize_label(cell)
        for cells in rows
        if "class" in cells
        for name, cell in cells.items()
        if cell is not None and name.partition(".")[0] in named
    }
    verdicts = verdicts_among(words)
    return {word: word for word in words if word.casefold() in verdicts}


def _cells(row: Json, fields: Mapping[str, str]) -> JsonObject:
    """Return the cells of a row: mapped ones, and columns with the names of fields.

    If fields below a prefix are mapped, other columns below it are not fields. A column that is
    mapped to a verdict or a label has no other role, whatever its name.
    """
    mapped = tuple(f"{name.partition('.')[0]}." for name in fields if "." in name)
    judged_columns = {
        column for name, column in fields.items() if name.partition(".")[0] in _GIVEN
    }
    cells = {
        name: value
        for name, value in row.items()
        if is_field(name) and not name.startswith(mapped) and name not in judged_columns
    }
    for name, column in fields.items():
        value = column_value(dict(row), column)
        cells[name] = None if value is ABSENT else value
    return cells


def _judged_unit(
    cells: Json, row: Json, location: str, options: Options
) -> tuple[Unit, bool]:
    """Return what a row judges, and whether it has a column for a verdict.

    If rows have scores and winners, the user's mapping decides.

    Raises:
        ConfigError: If they have both and the user maps neither or both, or they have none and no
            text.
    """
    scored = any(name.partition(".")[0] == "score" for name in cells)
    compared = "winner" in cells or "margin" in cells
    if scored and compared:
        named = {name.partition(".")[0] for name in options.fields}
        scored = options.scores or (
            "score" in named and not named & {"winner", "margin"}
        )
        compared = (
            not scored and "score" not in named and bool(named & {"winner", "margin"})
        )
        if not scored and not compared:
            remedy = "map one of them, as in --fields winner=COLUMN, or use --scores"
            raise ConfigError(
                "has both scores and winners", where=location, remedy=remedy
            )
    if compared:
        return "pair", True
    if scored:
        return "response", True
    if "class" in cells:
        return "class", True
    if "text" not in cells:
        names = ", ".join(map(str, list(row)[:8]))
        remedy = (
            "set --fields winner=COLUMN, "
            f"score=COLUMN or class=COLUMN; the columns are {names}"
        )
        raise ConfigError(
            "has neither a winner nor a score nor a class",
            where=location,
            remedy=remedy,
        )
    return ("response" if "response" in cells else "pair"), False


def _question_name(
    asked_questions: dict[str, tuple[str, str | None]],
    cells: Json,
    index: int,
    location: str,
) -> str:
    """Return the name of a row's question: its id, or else its prompt, or else the row number.

    Raises:
        DatasetError: If rows with the same id have different prompts.
    """
    prompt = text(cells.get("prompt"))
    context = text(cells.get("context")) or None
    id_ = cells.get("id")
    if id_ is None:
        names = (
            prompt if number == 1 else f"{prompt} ({number})" for number in count(1)
        )
        return next(
            n
            for n in names
            if asked_questions.setdefault(n, (prompt, context)) == (prompt, context)
        ) or str(index)
    earlier_prompt, _ = asked_questions.setdefault(str(id_), (prompt, context))
    if prompt and earlier_prompt and prompt != earlier_prompt:
        remedy = "use a unique id for each question"
        raise DatasetError(
            f"id '{id_}' is already used for another prompt",
            where=location,
            remedy=remedy,
        )
    if prompt and not earlier_prompt:
        asked_questions[str(id_)] = prompt, context
    return str(id_)


IMPORTER = Importer(
    "generic",
    "any CSV, JSONL, JSON or Parquet: --fields winner=COLUMN … or score=COLUMN … or class=COLUMN …",
    _sniff,
    _read_records,
)
