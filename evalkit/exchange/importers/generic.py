"""Any table of judgments, its columns named by the user: pairs with a winner or a margin, or responses with scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalkit.datasets.columns import ABSENT, look_up, plain
from evalkit.errors import ConfigError, DatasetError, did_you_mean
from evalkit.exchange.files import Peek, number, rows_of, text
from evalkit.exchange.records import TIE, Answer, Found, Options, Record, Said, lost
from evalkit.exchange.spellings import winner_of
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
    """Say whether it has rows at all: their columns are named by the user."""
    return bool(start.row)


def read(path: Path, options: Options) -> Found:
    """Return a record for each row.

    Raises:
        ConfigError: if the fields do not say what was judged, or name columns that are not there.
    """
    columns = _Columns(dict(options.fields))
    records = [
        record
        for index, (place, row) in enumerate(rows_of(path))
        for record in _records(columns, plain(row), index, place, options)
    ]
    columns.check(path)
    return Found(records, unread=not columns.telling)


class _Columns:
    """Finds the canonical fields in rows, as the user maps them or else under their own names."""

    def __init__(self, fields: dict[str, str]) -> None:
        for name in fields:
            if name not in FIELDS and not name.startswith(("score.", "label.", "metadata.")):
                raise ConfigError("no such field", where=f"--fields {name}", remedy=did_you_mean(name, FIELDS))
        self._fields, self._unseen = fields, dict(fields)
        self._names: tuple[str, ...] = ()
        self.telling = False
        """Whether a row had a verdict, or a place for one."""

    def get(self, row: Mapping[str, Any], name: str) -> Any:
        value = look_up(dict(row), self._fields.get(name, name))
        if value is ABSENT or value is None:
            return None
        self._unseen.pop(name, None)
        return value

    def has(self, row: Mapping[str, Any], name: str) -> bool:
        return name in self._fields or name in row

    def under(self, prefix: str, row: Mapping[str, Any]) -> list[str]:
        """Return the names of a kind, such as `score.style`: those mapped, else the columns that go by one."""
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
            raise DatasetError(f"no row has a column '{column}', named for {name}", where=str(path), remedy=remedy)


def _records(columns: _Columns, row: Mapping[str, Any], index: int, place: str, options: Options) -> Iterator[Record]:
    columns.saw(row)
    judge = str(columns.get(row, "judge") or options.judge or "judge")
    scored = columns.has(row, "score") or columns.under("score", row)
    if scored or columns.has(row, "winner") or columns.has(row, "margin"):
        columns.telling = True
    elif not columns.has(row, "text"):
        raise _silent(row, place)
    said = _Said(columns, row, judge, place)
    name = columns.get(row, "id")
    prompt = text(columns.get(row, "prompt"))
    more: dict[str, Any] = {
        "context": text(columns.get(row, "context")) or None,
        "reference": text(columns.get(row, "reference")) or None,
        "metadata": {key.partition(".")[2]: columns.get(row, key) for key in columns.under("metadata", row)},
    }
    question = str(name) if name is not None else prompt or str(index)
    if scored or columns.has(row, "response"):
        yield Record(question, prompt, (_single(columns, row),), said.scores(), **more)
        return
    pair = _pair(columns, row)
    models = pair[0].model, pair[1].model
    swapped = _swapped(columns.get(row, "order"), place)
    winner = winner_of(columns.get(row, "winner"), models, options.winners, place)
    shown = pair[::-1] if swapped else pair
    people = {
        key.partition(".")[2]: winner_of(columns.get(row, key), models, options.winners, place)
        for key in columns.under("label", row)
    }
    label = winner_of(columns.get(row, "label"), models, options.winners, place)
    yield Record(
        question,
        prompt,
        shown,
        said.pair(winner, swapped=swapped),
        better=_key(label, pair),
        labels={person: key for person, choice in people.items() if (key := _key(choice, pair))},
        **more,
    )


def _silent(row: Mapping[str, Any], place: str) -> ConfigError:
    names = ", ".join(map(str, list(row)[:8]))
    remedy = f"map them: --fields winner=COLUMN, or score=COLUMN; the columns are {names}"
    return ConfigError("says neither a winner nor a score", where=place, remedy=remedy)


def _key(winner: Winner | None, pair: tuple[Answer, Answer]) -> str | None:
    if winner is None or winner == "TIE":
        return TIE if winner else None
    return pair[0].key if winner == "A" else pair[1].key


def _single(columns: _Columns, row: Mapping[str, Any]) -> Answer:
    model, response = columns.get(row, "model"), text(columns.get(row, "response"))
    grade = columns.get(row, "grade") if columns.has(row, "grade") else columns.get(row, "label")
    return Answer(str(model or response or "1"), response, None if model is None else str(model), number(grade))


def _pair(columns: _Columns, row: Mapping[str, Any]) -> tuple[Answer, Answer]:
    texts = [text(columns.get(row, f"response_{side}")) for side in "ab"]
    models = [columns.get(row, f"model_{side}") for side in "ab"]
    keys = [str(model or side) for model, side in zip(models, "ab", strict=True)]
    if keys[0] == keys[1]:
        keys = ["a", "b"]
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
        raise DatasetError(f"'{value}' is not an order", where=place, remedy="write ab, or ba where B was shown first")
    return _SWAPPED[spelt]


class _Said:
    """What one row says of the judge's word."""

    def __init__(self, columns: _Columns, row: Mapping[str, Any], judge: str, place: str) -> None:
        self._columns, self._row, self._judge, self._place = columns, row, judge, place
        words, sample = columns.get(row, "text"), number(columns.get(row, "sample"))
        self._more: dict[str, Any] = {
            "text": None if words is None else text(words),
            "sample": None if sample is None else int(sample),
        }

    def pair(self, winner: Winner | None, *, swapped: bool) -> Said:
        margin = self._within("margin", -1.0, 1.0)
        if winner is not None:
            margin = _MARGINS[winner]
        if margin is None:
            return self._lost(self._columns.get(self._row, "winner"))
        value = -margin + 0.0 if swapped else margin
        return Said(self._judge, value=value, confidence=self._confidence(), **self._more)

    def scores(self) -> Said:
        named = self._columns.under("score", self._row)
        cells = {name.partition(".")[2]: self._columns.get(self._row, name) for name in named}
        cells = cells or {"quality": self._columns.get(self._row, "score")}
        scores = {name: number(value) for name, value in cells.items()}
        known = {name: value for name, value in scores.items() if value is not None}
        if len(known) < len(scores):
            return self._lost(", ".join(str(value) for name, value in cells.items() if name not in known))
        return Said(self._judge, scores=known, confidence=self._confidence(), **self._more)

    def _lost(self, cell: Any) -> Said:
        return lost(self._judge, "no verdict" if cell in (None, "") else f"the file says '{cell}'", **self._more)

    def _confidence(self) -> float | None:
        return self._within("confidence", 0.0, 1.0)

    def _within(self, name: str, low: float, high: float) -> float | None:
        """Return a number that must lie between two; on another scale it would be taken for what it is not."""
        found = number(self._columns.get(self._row, name))
        if found is not None and not low <= found <= high:
            remedy = f"write it from {low:g} to {high:g}"
            raise DatasetError(f"{name} {found:g} is not on the scale of one", where=self._place, remedy=remedy)
        return found
