"""The levels of raters, and what all of their verdicts mean together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
    mapped = {word.casefold(): meaning for word, meaning in words.items()}
    mapped |= {fold(word): meaning for word, meaning in words.items()}
    bounds = [*_bounds(words)]
    # 10 and 10.0 are one number.
    numbers = {
        (column.casefold(), value): meaning
        for word, meaning in words.items()
        for column, _, text in [word.rpartition(":")]
        if (value := number(text)) is not None
    }
    every = [word for column in raters.values() for word in column.counts]
    levels = {}
    for name, column in raters.items():
        raw = Raw(column)
        for text, count in column.counts.items():
            key = text.strip().casefold()
            by_text = mapped.get(key, mapped.get(fold(text)))
            # A word that is mapped for this rater wins over the same word for all raters.
            meaning = mapped.get(f"{name}:{text}".casefold(), by_text)
            value = number(text) if meaning is None and numbers else None
            if value is not None:
                for_all = numbers.get(("", value))
                meaning = numbers.get((name.casefold(), value), for_all)
            if meaning is None and bounds:
                meaning = _beyond(column.numbers.get(text), name, bounds)
            if meaning is not None and meaning != NONE:
                raw.mapped[text] = meaning
            elif meaning == NONE:
                raw.missing[text] = MAPPED_TO_NONE
            elif text in column.missing and not (
                is_unclear_failure(text) and opposite_among(text, every)
            ):
                raw.missing[text] = column.missing[text]
            else:
                raw.words[text] = count
        levels[name] = raw
    return levels


def check_mapped(
    raters: Mapping[str, TypedColumn], words: Mapping[str, str], where: str
) -> None:
    """Check that each word that the user mapped is in a column of a judge or a label.

    Raises:
        UnknownWordError: If one is in none.
    """
    if not words:
        return
    levels = {text: None for column in raters.values() for text in column.counts}
    keys = {key for text in levels for key in (text.strip().casefold(), fold(text))}
    numbers = {value for text in levels if (value := number(text)) is not None}
    for word in words:
        is_level = word in levels or {word.strip().casefold(), fold(word)} & keys
        if is_level or word == EMPTY_CELL or number(word) in numbers:
            continue
        column, _, text = word.rpartition(":")
        if (bound := _BOUND.fullmatch(word)) is not None:
            column = bound[1] or ""
        elif not column:
            raise UnknownWordError(word, levels, where)
        named = [name for name in raters if name.casefold() == column.casefold()]
        if column and not named:
            raise UnknownWordError(word, levels, where)
        if bound is None:
            check_mapped({"": raters[named[0]]}, {text: ""}, where)


def _bounds(words: Mapping[str, str]) -> Iterator[tuple[str, str, float, str]]:
    """Yield the column (empty for all), the sign, the number and the meaning of words
    such as `>0.5`.
    """
    for word, meaning in words.items():
        bound = _BOUND.fullmatch(word)
        if bound is not None:
            column, sign, number = bound.groups()
            yield column or "", sign, float(number), meaning


def _beyond(
    value: float | None, name: str, bounds: Iterable[tuple[str, str, float, str]]
) -> str | None:
    """Return the meaning of the first bound beyond which a number is."""
    if value is None:
        return None
    for column, sign, bound, meaning in bounds:
        is_beyond = value < bound
        if sign == ">":
            is_beyond = value > bound
        is_about = column.casefold() in ("", name.casefold())
        if is_about and is_beyond:
            return meaning
    return None


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
        if sum(raw.words[text] for text in missing) <= 0.2 * raw.total:
            space.missing.setdefault(name, {}).update(missing)
        else:
            missing = {}
        unread += [
            (name, text)
            for text in raw.words
            if text not in values and text not in missing
        ]
    return unread
