"""The column in which a judge says how sure it is of its verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.parts import Parts
from evalkit.interop.tables.rater_levels import Space
from evalkit.interop.tables.words import matches, tokens

ROLE: Final = "confidence"
_SHORT: Final = "p"
"""The word for a probability in names such as `p_unsafe`."""
_PERCENT: Final = 100
_LEAST_PERCENT: Final = 10
"""Numbers above 1 of which none is higher than this are levels, not percentages."""
_BELOW_CHANCE: Final = 0.1
"""A verdict is more sure than a guess: if more numbers than this share are not, they
are of a class.
"""
_GROUPS: Final = ("stated", "judge", "verdict", "value", "system", "part")


def find_confidence(parts: Parts, space: Space) -> None:
    """Give the column with the confidence in each verdict its role, in shares of 1.

    Only of a single judge with classes or pairs is it clear which verdict a number is
    about, and its name says nothing else. A probability of a class is none: it is low
    where the verdict is another.
    """
    if len(parts.raters.judges) != 1 or parts.raters.criteria:
        return
    _drop_probabilities(parts)
    if space.unit == "response" or parts.form is not None:
        return
    judge = next(iter(parts.raters.judges))
    used = {role.column for role in parts.roles}
    names = [
        name for name in parts.typed if name not in used and _is_named(name, judge)
    ]
    if len(names) != 1:
        return
    (name,) = names
    values = _shares(parts, name)
    if values is None:
        return
    present = [value for value in values if value is not None]
    classes = {value for levels in space.values.values() for value in levels.values()}
    guess = 1 / max(2, len(classes - {None}))
    low = sum(value < guess - 1e-9 for value in present)
    if low > _BELOW_CHANCE * len(present):
        parts.raters.unused[name] = "often below that of a guess, so of a class"
        return
    parts.columns.cells[name] = values
    parts.add_role(name, ROLE, "how sure the judge is of its verdict")


def _drop_probabilities(parts: Parts) -> None:
    """Drop numbers from which the only judge's verdict follows, as `toxic_prob` next to
    `toxic_pred`: what the judge computed says nothing about the case.
    """
    judge = next(iter(parts.raters.judges))
    used = {role.column for role in parts.roles}
    classes = {word for verdict in parts.typed[judge].words for word in tokens(verdict)}
    for name, column in parts.typed.items():
        if name in used or matches(name, "stated"):
            continue
        parts_of_name = tokens(name)
        words = [word for word in parts_of_name if not _is_doubt(word, column)]
        has_doubt = len(words) < len(parts_of_name)
        if has_doubt and _all_about(words, judge, classes):
            parts.raters.unused[name] = "a probability of the judge's"


def _is_doubt(word: str, column: TypedColumn) -> bool:
    """Return whether a word of a name says that its numbers are probabilities, as `p` does."""
    if matches(word, "doubt"):
        return True
    if word != _SHORT or not column.is_numeric:
        return False
    return all(0 <= value <= 1 for value in column.distinct_numbers)


def _all_about(words: Iterable[str], judge: str, classes: Collection[str] = ()) -> bool:
    """Return whether each word is one of a judge's name or classes, or of names of verdicts in
    general.
    """
    known = {*tokens(judge), *classes}
    for word in words:
        is_general = any(matches(word, group) for group in _GROUPS)
        if word not in known and not is_general:
            return False
    return True


def _is_named(name: str, judge: str) -> bool:
    """Return whether all words of a name say that a judge states its confidence."""
    if not matches(name, "stated") or matches(name, "human"):
        return False
    return _all_about(tokens(name), judge)


def _shares(parts: Parts, name: str) -> list[float | None] | None:
    """Return a column of numbers as shares of 1; `None` if they are none."""
    column = parts.typed[name]
    numbers = column.numbers
    values = [None if text is None else numbers.get(text) for text in column.texts]
    present = [value for value in values if value is not None]
    if not present or len(present) < column.total:
        return None
    if min(present) < 0:
        return None
    most = max(present)
    if most <= 1:
        return values
    if _LEAST_PERCENT < most <= _PERCENT:
        return [None if value is None else value / _PERCENT for value in values]
    return None
