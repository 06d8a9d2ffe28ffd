"""Convert values to texts: each conversion (numbers, conversations, nulls) is counted in a note."""

from __future__ import annotations

import json
from typing import Any

from evalkit.config import DatasetConfig
from evalkit.datasets.conversations import conversation_text, is_conversation, is_message
from evalkit.datasets.field_mapping import ABSENT
from evalkit.errors import DatasetError, pasted


class Tally:
    """Count notes, each with its first location."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, str]] = {}

    def add(self, what: str, place: str) -> None:
        """Count one occurrence."""
        count, first = self._seen.get(what, (0, place))
        self._seen[what] = (count + 1, first)

    def clear(self) -> None:
        """Reset."""
        self._seen.clear()

    def notes(self) -> tuple[str, ...]:
        """Return one line per note."""
        return tuple(f"{what}: {count} (first: {place})" for what, (count, place) in self._seen.items())


AS_TEXT = "numbers and booleans read as text"
EMPTY = "empty {}, judged as they are"
NULL = "{} that are null, read as empty"
SPOKEN = "conversations rendered as text"
CUT = "{} shortened to dataset.max_chars={}, keeping the beginning and the end"
LONG = "{} of more than 50,000 characters, judged in full (see dataset.max_chars)"
LONGEST = 50_000


class SkippedRow(Exception):  # noqa: N818 - not an error: the row is counted and skipped
    """A row without a required text, when such rows are dropped."""


class Texts:
    """Convert the values of one dataset to texts, and count interpretations."""

    def __init__(self, config: DatasetConfig, tally: Tally) -> None:
        self._nulls, self._most = config.nulls, config.max_chars
        self._tally = tally
        self.short = min(config.max_chars or LONGEST, LONGEST)

    def needed(self, value: Any, field: str, plural: str, place: str) -> str:
        """Return a required text; `plural` is its name in notes.

        Raises:
            DatasetError: If it is null (and nulls are errors), or not a text.
            LeftOut: If it is null, and such rows are dropped.
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
        """Return an optional text; `None` for null and for an empty text."""
        if value is None or value is ABSENT or value == "":
            return None
        if type(value) is str and len(value) <= self.short:
            return value
        return self._cut(self._text(value, field, place), f"{field}s", place) or None

    def name(self, value: Any, field: str, place: str) -> str | None:
        """Return an id or a model name, a number as in JSON; `None` for null and for an empty one."""
        if type(value) is str:
            return value or None
        if value is None or value is ABSENT:
            return None
        return value if isinstance(value, str) else self._spelled(value, field, place)

    def _null(self, field: str, plural: str, place: str) -> str:
        if self._nulls == "refuse":
            remedy = 'remove the row, write "" for an empty text, or set dataset.nulls'
            raise DatasetError(f"{field} is null", where=place, remedy=remedy)
        if self._nulls == "leave_out":
            self._tally.add(f"rows dropped because {field} is null", place)
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
                remedy=f"select a part, such as {pasted(key, f'column.{part}')}",
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
    """Return the first and last characters of a longer text, `most` in total, with the number omitted between them."""
    tail = most // 2
    head = text[: most - tail]
    return f"{head}\n[... {len(text) - most:,} characters omitted ...]\n{text[len(text) - tail :]}"
