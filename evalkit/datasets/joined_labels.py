"""Labels of a joined file that are read as another table of the same shape was."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from evalkit.config.table_reading import NO_VERDICT, TableReading, load_reading
from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.ids import id_text
from evalkit.datasets.labels import finite_number

_LISTED: Final = 8


class KnownLabels:
    """What the words of a column of labels mean by the reading of a table.

    Args:
        reading: The reading, or the file that has it.
        column: The column of labels.
        key: The key of the join's reading in the config.

    Raises:
        ConfigError: If the file has no reading, or the reading does not use the column.
    """

    def __init__(self, reading: TableReading | str, column: str, key: str) -> None:
        if isinstance(reading, str):
            reading = load_reading(Path(reading).expanduser())
        self._reading = reading
        self._column = column
        known = reading.columns.get(column)
        if known is None or not known.values:
            with_values = [
                name for name, kind in reading.columns.items() if kind.values
            ]
            remedy = did_you_mean(column, with_values)
            if not remedy:
                remedy = f"choose from {', '.join(with_values[:_LISTED])}"
            raise ConfigError(
                f"says nothing about verdicts in '{column}'", where=key, remedy=remedy
            )
        # In any case, unless words that differ only in case mean different things.
        self._values = {id_text(text): value for text, value in known.values.items()}
        self._folded = known.folded(_folded)
        self._key = key

    def read(self, value: Any, location: str) -> Any:
        """Return the meaning of a label; `None` if it is no verdict.

        Raises:
            DatasetError: If the reading does not know it.
        """
        if value is None:
            return None
        text = _text(value)
        meaning = self._values.get(text, self._folded.get(_folded(text)))
        if meaning is None:
            meaning = self._new_number(text)
        if meaning is None:
            words = ", ".join(f"'{word}'" for word in [*self._values][:_LISTED])
            raise DatasetError(
                f"'{self._column}' has the value '{text[:40]}', which the reading does not know"
                f" ({words})",
                where=location,
                remedy=f"check the column, or read the labels without {self._key}",
            )
        return None if meaning == NO_VERDICT else meaning

    def _new_number(self, text: str) -> float | None:
        """Return a score that the table of the reading happens not to have, if its scale has it."""
        scale = self._reading.scale
        if self._reading.unit != "response" or scale is None:
            return None
        lowest, highest, _ = scale
        number = finite_number(text)
        if number is None or not lowest <= number <= highest:
            return None
        return number


def _text(value: Any) -> str:
    """Return a value as a cell of a table has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return id_text(value)


def _folded(text: str) -> str:
    return " ".join(id_text(text).split()).casefold()
