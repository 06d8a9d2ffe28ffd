"""Import any table with columns mapped by the user: pairs with a winner or margin; responses with scores or classes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from evalkit.benchmarks.judgment_files import Peek, number, rows_of, text
from evalkit.benchmarks.records import (
    NONE,
    NOTHING,
    TIE,
    Answer,
    Options,
    ParsedFile,
    Record,
    RecordedJudgment,
    missing_record,
    parse_winner,
)
from evalkit.datasets.field_mapping import RowFault, column_value, plain_row
from evalkit.datasets.formats import Row
from evalkit.datasets.labels import normalize_label
from evalkit.datasets.text import ABSENT
from evalkit.errors import ConfigError, DatasetError, did_you_mean
from evalkit.types import Winner

FIELDS = (
    "id",
    "prompt",
    "context",
    "reference",
    "response",
    "response_a",
    "response_b",
    "model",
    "model_a",
    "model_b",
    "winner",
    "margin",
    "order",
    "score",
    "class",
    "grade",
    "label",
    "text",
    "judge",
    "sample",
    "confidence",
)
_SWAPPED = {"ab": False, "ba": True, "a": False, "b": True, "false": False, "true": True, "0": False, "1": True}
_MARGINS: Mapping[Winner, float] = {"A": 1.0, "B": -1.0, "TIE": 0.0}


def sniff(start: Peek) -> bool:
    """Return whether a file has rows; the user maps their columns."""
    return bool(start.row)


def read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each row.

    Raises:
        ConfigError: If the fields do not include a winner or score, or include a field not used by rows of this kind.
        DatasetError: If a row is invalid, or no row has a mapped column.
    """
    columns, questions = _Columns(dict(options.fields)), _Questions()
    records = [
        _record(columns, _plain(row, place), questions, index, place, options)
        for index, (place, row) in enumerate(rows_of(path))
    ]
    columns.check(path)
    return ParsedFile(records, unread=not columns.telling)


def _plain(row: Row, place: str) -> Row:
    try:
        return plain_row(row)
    except RowFault as fault:
        raise fault.at(place) from None


class _Columns:
    """Find canonical fields in rows, by the user's mapping or by their own names."""

    def __init__(self, fields: dict[str, str]) -> None:
        for name in fields:
            if name not in FIELDS and not name.startswith(("score.", "label.", "metadata.")):
                raise ConfigError("no such field", where=f"--fields {name}", remedy=did_you_mean(name, FIELDS))
        self._fields, self._unseen, self._unused = fields, dict(fields), dict(fields)
        self._names: tuple[str, ...] = ()
        self.telling = False
        """Whether any row had a column for a verdict."""

    def get(self, row: Mapping[str, Any], name: str) -> Any:
        self._unused.pop(name, None)
        value = column_value(dict(row), self._fields.get(name, name))
        if value is ABSENT or value is None:
            return None
        self._unseen.pop(name, None)
        return value

    def has(self, row: Mapping[str, Any], name: str) -> bool:
        return name in self._fields or name in row

    def named(self, *names: str) -> bool:
        """Return whether the user maps one of these fields, or one below it, such as `score.style`."""
        return any(field.partition(".")[0] in names for field in self._fields)

    def under(self, prefix: str, row: Mapping[str, Any]) -> list[str]:
        """Return the names of a kind, such as `score.style`: the mapped ones, or else matching columns."""
        named = [name for name in self._fields if name.startswith(f"{prefix}.")]
        return named or [name for name in row if name.startswith(f"{prefix}.")]

    def saw(self, row: Mapping[str, Any]) -> None:
        self._names = tuple(row)
        for name, column in list(self._unseen.items()):
            if column in row:
                del self._unseen[name]

    def check(self, path: Path) -> None:
        for name, column in self._unseen.items():
            remedy = did_you_mean(column, self._names)
            raise DatasetError(f"no row has the column '{column}', mapped to {name}", where=str(path), remedy=remedy)
        for name in self._unused:
            what = "rows of this kind do not use this field"
            raise ConfigError(what, where=f"--fields {name}={self._fields[name]}", remedy="remove it")


class _Questions:
    """The names of questions; each has one prompt and context."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[str, str | None]] = {}

    def name(self, given: Any, prompt: str, context: str | None, index: int, place: str) -> str:
        """Return the name of a row's question: its id, or else its prompt, or else the row number.

        Raises:
            DatasetError: If rows with the same id have different prompts.
        """
        if given is None:
            names = (prompt if number == 1 else f"{prompt} ({number})" for number in count(1))
            return next(n for n in names if self._asked.setdefault(n, (prompt, context)) == (prompt, context)) or str(
                index
            )
        known, _ = self._asked.setdefault(str(given), (prompt, context))
        if prompt and known and prompt != known:
            remedy = "use a unique id for each question"
            raise DatasetError(f"id '{given}' is already used for another prompt", where=place, remedy=remedy)
        if prompt and not known:
            self._asked[str(given)] = prompt, context
        return str(given)


def _record(
    columns: _Columns, row: Mapping[str, Any], questions: _Questions, index: int, place: str, options: Options
) -> Record:
    columns.saw(row)
    judge = str(columns.get(row, "judge") or options.judge or "judge")
    scored, compared = _kind(columns, row, place, options)
    classed = columns.has(row, "class") and not (scored or compared)
    if scored or compared or classed:
        columns.telling = True
    elif not columns.has(row, "text"):
        raise _silent(row, place)
    said = _Said(columns, row, judge, place)
    prompt, context = text(columns.get(row, "prompt")), text(columns.get(row, "context")) or None
    question = questions.name(columns.get(row, "id"), prompt, context, index, place)
    more: dict[str, Any] = {
        "context": context,
        "reference": text(columns.get(row, "reference")) or None,
        "metadata": {key.partition(".")[2]: columns.get(row, key) for key in columns.under("metadata", row)},
    }
    if classed:
        classes = {
            key.partition(".")[2]: name
            for key in columns.under("label", row)
            if (name := _class(columns.get(row, key), options)) is not None
        }
        model, response = columns.get(row, "model"), text(columns.get(row, "response"))
        label = _class(columns.get(row, "label"), options)
        answer = Answer(
            str(model or response or "1"), response, None if model is None else str(model), class_name=label
        )
        return Record(question, prompt, (answer,), said.of_class(options), classes=classes, **more)
    if scored or (columns.has(row, "response") and not compared):
        grades = {key.partition(".")[2]: _grade(columns.get(row, key), place) for key in columns.under("label", row)}
        known = {person: grade for person, grade in grades.items() if grade is not None}
        return Record(question, prompt, (_single(columns, row, place),), said.scores(), grades=known, **more)
    pair = _pair(columns, row)
    models = pair[0].model, pair[1].model
    swapped = _swapped(columns.get(row, "order"), place)
    winner = parse_winner(columns.get(row, "winner"), models, options.winners, place)
    shown = pair[::-1] if swapped else pair
    people = {
        key.partition(".")[2]: parse_winner(columns.get(row, key), models, options.winners, place)
        for key in columns.under("label", row)
    }
    label = parse_winner(columns.get(row, "label"), models, options.winners, place)
    return Record(
        question,
        prompt,
        shown,
        said.pair(winner, swapped=swapped),
        better=_key(label, pair),
        labels={person: key for person, choice in people.items() if (key := _key(choice, pair))},
        **more,
    )


def _class(cell: Any, options: Options) -> str | None:
    """Return the class in a cell, by the user's spellings; `None` if it is empty or states that there is none."""
    if cell is None or (name := normalize_label(cell)) == "":
        return None
    name = options.winners.get(name, name)
    return None if name == NONE or name.casefold() in NOTHING else name


def _kind(columns: _Columns, row: Mapping[str, Any], place: str, options: Options) -> tuple[bool, bool]:
    """Return whether rows have a score, and whether they have a winner; if both, the user's mapping decides.

    Raises:
        ConfigError: If they have both and the user maps neither or both.
    """
    scored = columns.has(row, "score") or bool(columns.under("score", row))
    compared = columns.has(row, "winner") or columns.has(row, "margin")
    if not (scored and compared):
        return scored, compared
    named = columns.named("score"), columns.named("winner", "margin")
    if options.scores or named == (True, False):
        return True, False
    if named == (False, True):
        return False, True
    remedy = "map one of them, as in --fields winner=COLUMN, or use --scores"
    raise ConfigError("has both scores and winners", where=place, remedy=remedy)


def _silent(row: Mapping[str, Any], place: str) -> ConfigError:
    names = ", ".join(map(str, list(row)[:8]))
    remedy = f"set --fields winner=COLUMN, score=COLUMN or class=COLUMN; the columns are {names}"
    return ConfigError("has neither a winner nor a score nor a class", where=place, remedy=remedy)


def _key(winner: Winner | None, pair: tuple[Answer, Answer]) -> str | None:
    if winner is None or winner == "TIE":
        return TIE if winner else None
    return pair[0].key if winner == "A" else pair[1].key


def _single(columns: _Columns, row: Mapping[str, Any], place: str) -> Answer:
    model, response = columns.get(row, "model"), text(columns.get(row, "response"))
    name = "grade" if columns.has(row, "grade") else "label"
    grade = _grade(columns.get(row, name), place)
    return Answer(str(model or response or "1"), response, None if model is None else str(model), grade)


def _grade(cell: Any, place: str) -> float | None:
    """Return an annotator's grade of a response; `None` if the cell is empty.

    Raises:
        DatasetError: If it is not a number.
    """
    if cell is None or cell == "":
        return None
    grade = number(cell)
    if grade is None:
        raise DatasetError(f"'{str(cell)[:60]}' is not a grade", where=place, remedy="write a number")
    return grade


def _pair(columns: _Columns, row: Mapping[str, Any]) -> tuple[Answer, Answer]:
    texts = [text(columns.get(row, f"response_{side}")) for side in "ab"]
    models = [columns.get(row, f"model_{side}") for side in "ab"]
    keys = [str(model or said or side) for model, said, side in zip(models, texts, "ab", strict=True)]
    if keys[0] == keys[1]:
        keys = [f"{key} ({side})" for key, side in zip(keys, "ab", strict=True)]
    one, two = (
        Answer(key, said, None if model is None else str(model))
        for key, said, model in zip(keys, texts, models, strict=True)
    )
    return one, two


def _swapped(value: Any, place: str) -> bool:
    if value is None or value == "":
        return False
    spelt = str(value).strip().casefold()
    if spelt not in _SWAPPED:
        raise DatasetError(f"'{value}' is not an order", where=place, remedy="write ab, or ba if B was shown first")
    return _SWAPPED[spelt]


class _Said:
    """The judgment in one row."""

    def __init__(self, columns: _Columns, row: Mapping[str, Any], judge: str, place: str) -> None:
        self._columns, self._row, self._judge, self._place = columns, row, judge, place
        words, sample = columns.get(row, "text"), number(columns.get(row, "sample"))
        self._more: dict[str, Any] = {
            "text": None if words is None else text(words),
            "sample": None if sample is None else int(sample),
            "confidence": self._within("confidence", 0.0, 1.0),
        }

    def pair(self, winner: Winner | None, *, swapped: bool) -> RecordedJudgment:
        margin = self._within("margin", -1.0, 1.0)
        if winner is not None:
            margin = self._agreed(winner, margin)
        if margin is None:
            return self._lost(self._columns.get(self._row, "winner"))
        value = -margin + 0.0 if swapped else margin
        return RecordedJudgment(self._judge, value=value, **self._more)

    def _agreed(self, winner: Winner, margin: float | None) -> float:
        """Return the margin of a winner; the row's margin must not favor the other response."""
        own = _MARGINS[winner]
        if margin is None or own * margin == 0:
            return own
        if own * margin < 0:
            what = f"winner {winner} and margin {margin:g} disagree"
            raise DatasetError(what, where=self._place, remedy="fix the row, or map only one of them")
        return margin

    def scores(self) -> RecordedJudgment:
        named = self._columns.under("score", self._row)
        cells = {name.partition(".")[2]: self._columns.get(self._row, name) for name in named}
        cells = cells or {"quality": self._columns.get(self._row, "score")}
        scores = {name: number(value) for name, value in cells.items()}
        known = {name: value for name, value in scores.items() if value is not None}
        if len(known) < len(scores):
            return self._lost(", ".join(str(value) for name, value in cells.items() if name not in known))
        return RecordedJudgment(self._judge, scores=known, **self._more)

    def of_class(self, options: Options) -> RecordedJudgment:
        cell = self._columns.get(self._row, "class")
        name = _class(cell, options)
        if name is None:
            return self._lost(cell)
        return RecordedJudgment(self._judge, class_name=name, **self._more)

    def _lost(self, cell: Any) -> RecordedJudgment:
        return missing_record(
            self._judge, "no verdict" if cell in (None, "") else f"the file says '{cell}'", **self._more
        )

    def _within(self, name: str, low: float, high: float) -> float | None:
        """Return a number that must be between two bounds, so that other scales are not misread."""
        found = number(self._columns.get(self._row, name))
        if found is not None and not low <= found <= high:
            remedy = f"write it from {low:g} to {high:g}"
            raise DatasetError(f"{name} {found:g} is out of range", where=self._place, remedy=remedy)
        return found
