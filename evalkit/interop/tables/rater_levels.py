"""The levels of raters, and what all of their verdicts mean together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.core.values import JsonObject
from evalkit.interop.layouts.judgment_files import number
from evalkit.interop.layouts.layouts import Unit
from evalkit.interop.layouts.records import NONE
from evalkit.interop.tables.column_types import (
    LONGEST_WORD,
    NO_STATEMENT,
    TypedColumn,
)
from evalkit.interop.tables.words import fold, is_unclear_failure, opposite_among

MAPPED_TO_NONE: Final = "mapped to NONE"
"""Why a word that the user mapped so has no verdict."""
EMPTY_CELL: Final = "EMPTY"
"""The word for an empty cell in `--map EMPTY=VALUE`."""
_BOUND: Final = re.compile(r"(?:(.+):)?([<>])\s*(-?\d+(?:\.\d+)?)")
"""A word for all numbers beyond one, perhaps of one column."""


class UnknownWordError(ConfigError):
    """A word that the user mapped and that no judge or label has."""

    def __init__(self, word: str, levels: Iterable[str], where: str) -> None:
        self.word = word
        short = [text for text in levels if len(text) <= LONGEST_WORD]
        problem = f"no judge or label has the word '{word}' of --map"
        super().__init__(problem, where=where, remedy=did_you_mean(word, short))


@dataclass(slots=True)
class Space:
    """What the verdicts are: of pairs, responses in scores, or classes.

    Attributes:
        unit: What is judged.
        values: The verdict of each level of each rater.
        missing: Why each level of each rater has none.
        rubric: The settings of the rubric.
        notes: What was assumed.
        by_row: Whether winners may be named by the systems of their row.
        scale: The ends and the step of scores, if the raters use one.
    """

    unit: Unit
    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: dict[str, dict[str, str]] = field(default_factory=dict)
    rubric: JsonObject = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    by_row: bool = False
    scale: tuple[float, float, float] | None = None


@dataclass(slots=True)
class Raw:
    """The levels of a rater: those that the user mapped, those without a verdict, and
    the rest with their counts.
    """

    column: TypedColumn
    mapped: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    words: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """The number of cells with a verdict to read."""
        return self.words.total()


def raw_levels(
    raters: Mapping[str, TypedColumn], words: Mapping[str, str]
) -> dict[str, Raw]:
    """Return the levels of each rater, by what the user mapped and what states that
    there is no verdict.
    """
    meanings = _Meanings.of(words)
    every_word = [word for column in raters.values() for word in column.counts]
    levels = {}
    for name, column in raters.items():
        raw = Raw(column)
        for text, count in column.counts.items():
            meaning = meanings.of_level(text, name, column)
            if meaning == NONE:
                raw.missing[text] = MAPPED_TO_NONE
            elif meaning is not None:
                raw.mapped[text] = meaning
            elif _states_nothing(text, column, every_word):
                raw.missing[text] = column.missing[text]
            else:
                raw.words[text] = count
        levels[name] = raw
    return levels


def _states_nothing(text: str, column: TypedColumn, words: Iterable[str]) -> bool:
    """Return whether a level says that there is no verdict, among the words of all raters."""
    if text not in column.missing:
        return False
    # `failed` next to `passed` is a verdict.
    is_verdict = is_unclear_failure(text) and opposite_among(text, words)
    return not is_verdict


@dataclass(frozen=True, slots=True)
class _Bound:
    """A word such as `>0.5` or `judge:>0.5` that the user mapped.

    Attributes:
        column: The column in lower case; empty for all.
        is_lower: Whether larger numbers are beyond it.
        number: The bound.
        meaning: What the user mapped it to.
    """

    column: str
    is_lower: bool
    number: float
    meaning: str

    @classmethod
    def of(cls, word: str, meaning: str) -> _Bound | None:
        bound = _BOUND.fullmatch(word)
        if bound is None:
            return None
        column, sign, number = bound.groups(default="")
        return cls(column.casefold(), sign == ">", float(number), meaning)

    def holds(self, value: float, name: str) -> bool:
        """Return whether a number of a column is beyond the bound."""
        if self.column and self.column != name.casefold():
            return False
        if self.is_lower:
            return value > self.number
        return value < self.number


@dataclass(frozen=True, slots=True)
class _Meanings:
    """What the user mapped words to.

    Attributes:
        texts: The meaning of each word, which may begin with its column, as `judge:good`.
        numbers: The meaning of each number; the column is empty for all.
        bounds: The words for all numbers beyond one.
    """

    texts: Mapping[str, str]
    numbers: Mapping[tuple[str, float], str]
    bounds: Sequence[_Bound]

    @classmethod
    def of(cls, words: Mapping[str, str]) -> _Meanings:
        texts = {word.casefold(): meaning for word, meaning in words.items()}
        texts |= {fold(word): meaning for word, meaning in words.items()}
        # 10 and 10.0 are one number.
        numbers = {}
        for word, meaning in words.items():
            column, _, text = word.rpartition(":")
            value = number(text)
            if value is not None:
                numbers[column.casefold(), value] = meaning
        bounds = [_Bound.of(word, meaning) for word, meaning in words.items()]
        return cls(texts, numbers, [bound for bound in bounds if bound is not None])

    def of_level(self, text: str, name: str, column: TypedColumn) -> str | None:
        """Return the meaning of a level of a rater; `None` if the user did not map it."""
        # A word that is mapped for this rater wins over the same word for all raters.
        for key in (f"{name}:{text}".casefold(), *_spellings(text)):
            if key in self.texts:
                return self.texts[key]
        value = number(text) if self.numbers else None
        if value is not None:
            for key_of_number in ((name.casefold(), value), ("", value)):
                if key_of_number in self.numbers:
                    return self.numbers[key_of_number]
        if not self.bounds or text not in column.numbers:
            return None
        value = column.numbers[text]
        meanings = (bound.meaning for bound in self.bounds if bound.holds(value, name))
        return next(meanings, None)


def check_mapped(
    raters: Mapping[str, TypedColumn], words: Mapping[str, str], where: str
) -> None:
    """Check that each word that the user mapped is in a column of a judge or a label.

    Raises:
        UnknownWordError: If one is in none.
    """
    if not words:
        return
    columns = raters.values()
    levels = list(dict.fromkeys(text for column in columns for text in column.counts))
    spellings = {key for text in levels for key in _spellings(text)}
    numbers = {number(text) for text in levels} - {None}
    for word in words:
        is_level = not spellings.isdisjoint(_spellings(word))
        if is_level or word == EMPTY_CELL or number(word) in numbers:
            continue
        column, _, text = word.rpartition(":")
        bound = _Bound.of(word, "")
        if bound is not None:
            column = bound.column
        elif not column:
            raise UnknownWordError(word, levels, where)
        named = [name for name in raters if name.casefold() == column.casefold()]
        if column and not named:
            raise UnknownWordError(word, levels, where)
        if bound is None:
            # The text after the colon is a word of this column.
            [name] = named[:1]
            check_mapped({"": raters[name]}, {text: ""}, where)


def _spellings(text: str) -> tuple[str, str]:
    """Return what is equal for two spellings of a word."""
    return text.strip().casefold(), fold(text)


def _long_texts(raw: Raw, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the levels without a value that are texts, which state no verdict."""
    return {
        text: NO_STATEMENT
        for text in raw.words
        if text not in values and len(text) > LONGEST_WORD
    }


def unread_words(space: Space, raws: Mapping[str, Raw]) -> list[tuple[str, str]]:
    """Note which levels are texts without a verdict, and return the words that the
    space does not have.
    """
    unread = []
    for name, raw in raws.items():
        values = space.values[name]
        missing = _long_texts(raw, values)
        count = sum(raw.words[text] for text in missing)
        if count <= 0.2 * raw.total:
            space.missing.setdefault(name, {}).update(missing)
        else:
            missing = {}
        unread += [
            (name, text)
            for text in raw.words
            if text not in values and text not in missing
        ]
    return unread
