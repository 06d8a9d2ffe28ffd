"""Values to texts: numbers, conversations and nothing among them, each by a stated rule that is counted."""

from __future__ import annotations

import json
from typing import Any

from evalkit.config import DatasetConfig
from evalkit.datasets.conversations import conversation_text, is_conversation, is_message
from evalkit.datasets.field_mapping import ABSENT
from evalkit.errors import DatasetError, pasted


class Tally:
    """Counts what should be said once, with the first place it was seen."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, str]] = {}

    def add(self, what: str, place: str) -> None:
        """Count one."""
        count, first = self._seen.get(what, (0, place))
        self._seen[what] = (count + 1, first)

    def clear(self) -> None:
        """Begin anew."""
        self._seen.clear()

    def notes(self) -> tuple[str, ...]:
        """Return one line for each thing counted."""
        return tuple(f"{what}: {count} (first: {place})" for what, (count, place) in self._seen.items())


AS_TEXT = "numbers and booleans taken as text"
EMPTY = "empty {}, judged as they are"
NULL = "{} that are null, taken as empty"
SPOKEN = "conversations rendered as text"
CUT = "{} cut to dataset.max_chars={}, beginning and end kept"
LONG = "{} of more than 50,000 characters, judged whole (dataset.max_chars cuts them)"
LONGEST = 50_000


class SkippedRow(Exception):  # noqa: N818 - no fault: the row is counted, and the next one is read
    """A row without a text that every case has, where such rows are left out."""


class Texts:
    """Makes texts of the values of one dataset, and counts what it had to interpret."""

    def __init__(self, config: DatasetConfig, tally: Tally) -> None:
        self._nulls, self._most = config.nulls, config.max_chars
        self._tally = tally
        self.short = min(config.max_chars or LONGEST, LONGEST)

    def needed(self, value: Any, field: str, plural: str, place: str) -> str:
        """Return a text that every case has; `plural` is what such texts are called in notes.

        Raises:
            DatasetError: if it is null (and such rows are refused), or is no text.
            LeftOut: if it is null, and such rows are left out.
        """
        if type(value) is str and 0 < len(value) <= self.short:
            return value
        if value is None:
            return self._null(field, plural, place)
        text = self._text(value, field, place)
        if text == "":
            self._tally.add(EMPTY.format(plural), place)
        return self._cut(text, plural, place)

    def optional(self, value: Any, field: str, place: str) -> str | None:
        """Return a text that a case may have; none for null and for an empty one."""
        if value is None or value is ABSENT or value == "":
            return None
        if type(value) is str and len(value) <= self.short:
            return value
        return self._cut(self._text(value, field, place), f"{field}s", place) or None

    def name(self, value: Any, field: str, place: str) -> str | None:
        """Return an id or a model's name, in JSON's spelling if it is a number; none for null and for an empty one."""
        if type(value) is str:
            return value or None
        if value is None or value is ABSENT:
            return None
        return value if isinstance(value, str) else self._spelled(value, field, place)

    def _null(self, field: str, plural: str, place: str) -> str:
        if self._nulls == "refuse":
            remedy = 'leave the row out, write "" if the text is really empty, or set dataset.nulls'
            raise DatasetError(f"{field} is null", where=place, remedy=remedy)
        if self._nulls == "leave_out":
            self._tally.add(f"rows left out since {field} is null", place)
            raise SkippedRow
        self._tally.add(NULL.format(plural), place)
        return ""

    def _text(self, value: Any, field: str, place: str) -> str:
        if isinstance(value, str):
            return value
        if is_conversation(value) or is_message(value):
            self._tally.add(SPOKEN, place)
            return conversation_text(value if isinstance(value, list) else [value])
        if isinstance(value, bool | int | float):
            self._tally.add(AS_TEXT, place)
        return self._spelled(value, field, place)

    def _spelled(self, value: Any, field: str, place: str) -> str:
        if isinstance(value, dict | list):
            kind, part = ("a list", "0") if isinstance(value, list) else ("an object", next(iter(value), "key"))
            key = f"dataset.fields.{field.partition('.')[0]}"
            raise DatasetError(
                f"{field} is {kind}, not a text",
                where=place,
                remedy=f"name the part that is meant, such as {pasted(key, f'column.{part}')}",
            )
        return json.dumps(value)

    def _cut(self, text: str, plural: str, place: str) -> str:
        if self._most is not None and len(text) > self._most:
            self._tally.add(CUT.format(plural, self._most), place)
            return truncate(text, self._most)
        if len(text) > LONGEST:
            self._tally.add(LONG.format(plural), place)
        return text


def truncate(text: str, most: int) -> str:
    """Return the first and the last half of `most` characters of a longer text, and between them how many are gone."""
    tail = most // 2
    head = text[: most - tail]
    return f"{head}\n[... {len(text) - most:,} characters left out ...]\n{text[len(text) - tail :]}"
