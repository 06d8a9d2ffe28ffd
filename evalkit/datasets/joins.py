"""Join several files: add rows of other files to each row with the same key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalkit.config import JoinConfig
from evalkit.core.errors import DatasetError
from evalkit.core.ids import id_text
from evalkit.datasets.compression import bare_name
from evalkit.datasets.field_mapping import needed
from evalkit.datasets.joined_labels import KnownLabels
from evalkit.datasets.located_rows import Placed, Row
from evalkit.datasets.sources import file_source, find_files
from evalkit.datasets.text import NoteCounts

Key = tuple[str, ...]
Reader = Callable[[Row, str], Any]
_PARTS: Mapping[str, tuple[str, ...]] = {
    "columns": (),
    "responses": ("text", "model"),
    "labels": ("label", "annotator", "model"),
}
"""What is read of a joined row, by what it adds."""
_OPTIONAL = ("responses", "model"), ("labels", "annotator")
UNASKED = "rows of dataset.join.{} without a matching case"
WITHOUT = "cases without a row in dataset.join.{}"
FEWER = "cases with answers from only some of the models in dataset.join.{}"
NO_LABEL = "rows of dataset.join.{} whose label is no verdict by the reading"
BY_FILE = "responses of dataset.join.{} whose model is taken from the file name"


class Join:
    """One joined set of files, in memory by key: `columns`, `responses` or `labels` of each case.

    Args:
        name: Its name in `dataset.join`, and the column for its rows.
        config: The join settings.
        base: A folder to search for the files after the current one.
        tally: The counter for rows without a match.
    """

    def __init__(
        self, name: str, config: JoinConfig, base: Path | None, tally: NoteCounts
    ) -> None:
        self.name = name
        self.adds = config.add
        self._key = f"dataset.join.{name}"
        self._tally = tally
        self._assumed = NoteCounts()
        self._ours = self._columns(config.ours, "by")
        self._parts = {
            part: needed(
                column, f"{self._key}.{part}", optional=(config.add, part) in _OPTIONAL
            )
            for part in _PARTS[config.add]
            if (column := getattr(config, part)) is not None
        }
        self._known_labels: KnownLabels | None = None
        if config.reading is not None:
            self._known_labels = KnownLabels(
                config.reading, config.label, f"{self._key}.reading"
            )
        self._found: dict[Key, Any] = {}
        self._places: dict[Key, str] = {}
        self._asked: set[Key] = set()
        self._models: dict[str, None] = {}
        self._read_files(config, base)

    def add_to(self, row: Row, location: str) -> None:
        """Add to a row, in the column with this join's name, its object, list of
        responses, or labels by annotator.

        Raises:
            DatasetError: If the row has no such key, or already has a column with this name.
        """
        if self.name in row:
            problem = f"the row already has a column '{self.name}'"
            raise DatasetError(
                problem, where=location, remedy=f"give {self._key} another name"
            )
        key = _key_of(row, self._ours, location)
        self._asked.add(key)
        joined = self._found.get(key)
        if self.adds == "responses":
            joined = [
                {"text": text, "model": model} for model, text in (joined or {}).items()
            ]
        row[self.name] = {} if joined is None and self.adds == "labels" else joined

    def count(self, row: Row, location: str) -> None:
        """Count what is missing for a case in this join."""
        if not row[self.name]:
            self._tally.add(WITHOUT.format(self.name), location)
        elif self.adds == "responses" and len(row[self.name]) < len(self._models):
            self._tally.add(FEWER.format(self.name), location)

    def count_rest(self) -> None:
        """Count the joined rows without a match, after all rows have been read."""
        for key in self._found.keys() - self._asked:
            self._tally.add(UNASKED.format(self.name), self._places[key])

    def notes(self) -> tuple[str, ...]:
        """Return the notes on assumptions."""
        return self._assumed.notes()

    def _read_files(self, config: JoinConfig, base: Path | None) -> None:
        """Read the rows of the joined files.

        Raises:
            DatasetError: If there are none, or two have the same key.
        """
        theirs = self._columns(config.theirs, "key")
        for path in find_files(
            config.path, base, key=f"{self._key}.path", format=config.format
        ):
            for location, row in file_source([path], config.format, str(path)).rows():
                key = _key_of(row, theirs, location)
                self._places.setdefault(key, location)
                self._add_row(key, row, location, path)
        if not self._places:
            raise DatasetError(
                "has no rows",
                where=f"{self._key}.path={config.path}",
                remedy="set it to a file with rows",
            )

    def _columns(self, columns: Sequence[str], option: str) -> list[tuple[str, Reader]]:
        return [
            (column, needed(column, f"{self._key}.{option}", " to join by"))
            for column in columns
        ]

    def _add_row(self, key: Key, row: Row, location: str, path: Path) -> None:
        """Keep what a row of a joined file adds, under its key.

        `_found` has, by key: the row itself, {model: response}, {annotator: label}, or
        {annotator: {model: label}}.

        Raises:
            DatasetError: If another row has added it.
        """
        parts = {part: read(row, location) for part, read in self._parts.items()}
        # the mapping that gets the value, under `name`
        held: dict[Any, Any] = self._found
        name: Any = key
        value, part_name = row, ""
        if self.adds == "responses":
            model = parts.get("model")
            if model in (None, ""):
                # without a column of models, each file has the answers of one
                model = bare_name(path)
                self._assumed.add(BY_FILE.format(self.name), location)
            held = self._found.setdefault(key, {})
            name = str(model)
            value = parts["text"]
            part_name = "model"
            self._models[name] = None
        elif self.adds == "labels":
            annotator = parts.get("annotator")
            value = parts["label"]
            if self._known_labels is not None:
                value = self._known_labels.read(value, location)
                if value is None:
                    self._assumed.add(NO_LABEL.format(self.name), location)
                    return
            held = self._found.setdefault(key, {})
            part_name = "annotator"
            name = "" if annotator is None else str(annotator)
            if "model" in parts:
                held = held.setdefault(name, {})
                name = str(parts["model"])
                part_name = "model"
        if name in held:
            qualifier = f" and {part_name} '{name}'" if part_name and name else ""
            remedy = f"remove one, or add a column that distinguishes them to {self._key}.key"
            raise DatasetError(
                f"a second row with key {', '.join(key)}{qualifier}",
                where=location,
                remedy=remedy,
            )
        held[name] = value


def build_joins(
    configs: Mapping[str, JoinConfig], base: Path | None, tally: NoteCounts
) -> tuple[Join, ...]:
    """Read all joins.

    Raises:
        ConfigError: If a file does not exist or has no reader.
        DatasetError: If a row has no key, or a duplicate one.
    """
    return tuple(Join(name, config, base, tally) for name, config in configs.items())


def join_rows(rows: Iterator[Placed], joins: Sequence[Join]) -> Iterator[Placed]:
    """Yield rows with their joined data."""
    for location, row in rows:
        row = dict(row)
        for join in joins:
            join.add_to(row, location)
        yield location, row


def _key_of(row: Row, columns: Sequence[tuple[str, Reader]], location: str) -> Key:
    values = [(column, read(row, location)) for column, read in columns]
    if null := next((column for column, value in values if value is None), None):
        raise DatasetError(
            f"'{null}' is null", where=location, remedy="give each row its key"
        )
    return tuple(id_text(value) for _, value in values)
