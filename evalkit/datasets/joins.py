"""Join several files: add rows of other files to each row with the same key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalkit.config import JoinConfig
from evalkit.datasets.compression import bare_name
from evalkit.datasets.field_mapping import Getter, RowFault, getter, missing_column_error
from evalkit.datasets.formats import Row
from evalkit.datasets.labels import normalize_label
from evalkit.datasets.sources import file_source, find_files
from evalkit.datasets.text import ABSENT, Tally
from evalkit.errors import DatasetError

Key = tuple[str, ...]
UNASKED = "rows of dataset.join.{} without a matching case"
WITHOUT = "cases without a row in dataset.join.{}"
FEWER = "cases with answers from only some of the models in dataset.join.{}"
BY_FILE = "responses of dataset.join.{} whose model is taken from the file name"


class Join:
    """One joined set of files, in memory by key: `columns`, `responses` or `labels` of each case.

    Args:
        name: Its name in `dataset.join`, and the column for its rows.
        config: The join settings.
        base: A folder to search for the files after the current one.
        tally: The counter for rows without a match.
    """

    def __init__(self, name: str, config: JoinConfig, base: Path | None, tally: Tally) -> None:
        self.name, self.adds = name, config.add
        self._key = f"dataset.join.{name}"
        self._tally, self._by_file = tally, Tally()
        self._ours = [getter(column, f"{self._key}.by") for column in config.ours]
        self._columns = config.ours
        given = {part: getattr(config, part) for part in ("text", "model", "label", "annotator")}
        self._named: dict[str, str] = {part: named for part, named in given.items() if named is not None}
        self._found: dict[Key, Any] = {}
        self._places: dict[Key, str] = {}
        self._asked: set[Key] = set()
        self._models: dict[str, None] = {}
        self._read(config, base)

    def add_to(self, row: Row, place: str) -> None:
        """Add to a row, in the column with this join's name, its object, list of responses, or labels by annotator.

        Raises:
            DatasetError: If the row has no such key, or already has a column with this name.
        """
        if self.name in row:
            what = f"the row already has a column '{self.name}'"
            raise DatasetError(what, where=place, remedy=f"give {self._key} another name")
        key = _key_of(row, self._ours, self._columns, place)
        self._asked.add(key)
        found = self._found.get(key)
        row[self.name] = {"columns": None, "responses": [], "labels": {}}[self.adds] if found is None else found

    def count(self, row: Row, place: str) -> None:
        """Count what is missing for a case in this join."""
        if not row[self.name]:
            self._tally.add(WITHOUT.format(self.name), place)
        elif self.adds == "responses" and len(row[self.name]) < len(self._models):
            self._tally.add(FEWER.format(self.name), place)

    def count_rest(self) -> None:
        """Count the joined rows without a match, after all rows have been read."""
        for key in self._found.keys() - self._asked:
            self._tally.add(UNASKED.format(self.name), self._places[key])

    def notes(self) -> tuple[str, ...]:
        """Return the notes on assumptions."""
        return self._by_file.notes()

    def _read(self, config: JoinConfig, base: Path | None) -> None:
        read = {"columns": self._take_row, "responses": self._take_response, "labels": self._take_label}[config.add]
        theirs = [getter(column, f"{self._key}.key") for column in config.theirs]
        parts = {part: getter(named, f"{self._key}.{part}") for part, named in self._named.items()}
        for path in find_files(config.path, base, key=f"{self._key}.path", format=config.format):
            for place, row in file_source([path], config.format, str(path)).rows():
                key = _key_of(row, theirs, config.theirs, place)
                self._places.setdefault(key, place)
                try:
                    read(key, row, place, parts, path)
                except RowFault as fault:
                    raise fault.at(place) from None
        if not self._found:
            raise DatasetError(
                "has no rows", where=f"{self._key}.path={config.path}", remedy="set it to a file with rows"
            )

    def _take_row(self, key: Key, row: Row, place: str, _parts: Mapping[str, Getter], _path: Path) -> None:
        if key in self._found:
            raise self._twice(key, place)
        self._found[key] = row

    def _take_response(self, key: Key, row: Row, place: str, parts: Mapping[str, Getter], path: Path) -> None:
        text = self._part(row, "text", parts, place)
        model = _given(row, parts.get("model"))
        if model in (None, ""):
            model = bare_name(path)
            self._by_file.add(BY_FILE.format(self.name), place)
        model = str(model)
        answers = self._found.setdefault(key, [])
        if any(one["model"] == model for one in answers):
            raise self._twice(key, place, f" and model '{model}'")
        self._models[model] = None
        answers.append({"text": text, "model": model})

    def _take_label(self, key: Key, row: Row, place: str, parts: Mapping[str, Getter], _path: Path) -> None:
        label = self._part(row, "label", parts, place)
        person = _given(row, parts.get("annotator"))
        person = "" if person is None else str(person)
        people = self._found.setdefault(key, {})
        if "model" not in parts:
            if person in people:
                raise self._twice(key, place, f" and annotator '{person}'" if person else "")
            people[person] = label
            return
        grades, model = people.setdefault(person, {}), str(self._part(row, "model", parts, place))
        if model in grades:
            raise self._twice(key, place, f" and model '{model}'")
        grades[model] = label

    def _part(self, row: Row, part: str, parts: Mapping[str, Getter], place: str) -> Any:
        value = parts[part](row)
        if value is ABSENT:
            what, remedy = missing_column_error(self._named[part], row, f" for {self._key}.{part}")
            raise DatasetError(what, where=place, remedy=remedy)
        return value

    def _twice(self, key: Key, place: str, more: str = "") -> DatasetError:
        what = f"a second row with key {', '.join(key)}{more}"
        remedy = f"remove one, or add a column that distinguishes them to {self._key}.key"
        return DatasetError(what, where=place, remedy=remedy)


def build_joins(configs: Mapping[str, JoinConfig], base: Path | None, tally: Tally) -> tuple[Join, ...]:
    """Read all joins.

    Raises:
        ConfigError: If a file does not exist or has no reader.
        DatasetError: If a row has no key, or a duplicate one.
    """
    return tuple(Join(name, config, base, tally) for name, config in configs.items())


def join_rows(rows: Iterator[tuple[str, Row]], joins: Sequence[Join]) -> Iterator[tuple[str, Row]]:
    """Yield rows with their joined data."""
    for place, row in rows:
        row = dict(row)
        for join in joins:
            join.add_to(row, place)
        yield place, row


def _key_of(row: Row, getters: Sequence[Getter], columns: Sequence[str], place: str) -> Key:
    try:
        values = [get(row) for get in getters]
    except RowFault as fault:
        raise fault.at(place) from None
    for value, column in zip(values, columns, strict=True):
        if value is ABSENT or value is None:
            what, remedy = (
                missing_column_error(column, row, " to join by") if value is ABSENT else (f"'{column}' is null", "")
            )
            raise DatasetError(what, where=place, remedy=remedy or "give each row its key")
    return tuple(normalize_label(value) for value in values)


def _given(row: Row, get: Getter | None) -> Any:
    value = None if get is None else get(row)
    return None if value is ABSENT else value
