"""What the verdicts of all raters mean together: winners of pairs, classes, or scores.

All raters of a table are read in one space. If their words have no common one, that is a question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from evalkit.interop.layouts.judgment_files import number
from evalkit.interop.tables.class_verdicts import class_space
from evalkit.interop.tables.column_types import (
    LONGEST_WORD,
    NO_STATEMENT,
    TypedColumn,
)
from evalkit.interop.tables.pair_verdicts import WINNERS, pair_space
from evalkit.interop.tables.rater_levels import Raw, Space, raw_levels
from evalkit.interop.tables.score_verdicts import mixed_space, score_space
from evalkit.interop.tables.word_questions import (
    ask_about_nothing,
    ask_about_others,
    ask_for_unread,
    ask_for_winners,
    ask_for_words,
)
from evalkit.interop.tables.words import EMPTY, fold

SENTINEL: Final = -1.0
"""A number for no verdict, if nothing else in a table is below zero and no label is."""


def verdict_space(
    judges: Mapping[str, TypedColumn],
    labels: Mapping[str, TypedColumn],
    words: Mapping[str, str],
    systems: Iterable[str],
    *,
    compared: bool,
    where: str,
) -> Space:
    """Return the space of the verdicts of judges and labels.

    Args:
        judges: The judges' columns.
        labels: The labels' columns.
        words: The user's meanings of words.
        systems: The names of the systems that wrote two responses, once for each side.
        compared: Whether each row has two responses.
        where: The table's name.

    Raises:
        OpenTableError: If the words have no common meaning.
    """
    raters = {**judges, **labels}
    raws = raw_levels(raters, words)
    # -1 may mean no verdict, which must be known before numbers are read.
    _drop_sentinels(raws, labels, compared=compared)
    if not compared:
        ask_about_nothing(raws, where)
    meanings = {meaning for raw in raws.values() for meaning in raw.mapped.values()}
    known_systems = Counter(fold(system) for system in systems)
    # From the strictest reading to the loosest: the first that fits all raters counts.
    space = pair_space(raws, known_systems, meanings, where, compared=compared)
    if space is None and compared:
        # With two responses, verdicts are winners; scores and classes do not come into question.
        space = _stated(raws, judges, labels, where)
    if space is None and compared:
        _ask_about_others(raws, judges, labels, where)
        ask_for_winners(raws, where)
    if space is None:
        space = score_space(raws, judges, labels, where)
    if space is None:
        space = class_space(raws, where)
    if space is None:
        space = _stated(raws, judges, labels, where)
    if space is None:
        space = mixed_space(raws, judges, labels)
    if space is None:
        ask_for_words(raws, where)
    for name, raw in raws.items():
        # What is missing by itself, and what the reading found to be missing.
        space.missing[name] = {**raw.missing, **space.missing.get(name, {})}
    return space


def _ask_about_others(
    raws: Mapping[str, Raw], judges: Iterable[str], labels: Iterable[str], where: str
) -> None:
    """Ask whether raters whose words name no winner compare the responses, if others do.

    Raises:
        OpenTableError: If a judge names winners, and another rater never does.
    """
    naming = {
        name
        for name, raw in raws.items()
        if pair_space({name: raw}, Counter(), set(), where, compared=True) is not None
    }
    by_judges = [name for name in judges if name in naming]
    others = [name for name in raws if name not in naming]
    some_name_winners = any(not WINNERS.isdisjoint(raws[name].words) for name in others)
    if not by_judges or not others or some_name_winners:
        return
    options = [option for name in by_judges for option in ("--judge", name)]
    by_labels = [name for name in labels if name in naming] or ["NONE"]
    options += [option for name in by_labels for option in ("--label", name)]
    ask_about_others(others, raws, options, where)


def _drop_sentinels(
    raws: Mapping[str, Raw], labels: Iterable[str], *, compared: bool
) -> None:
    """Read -1 as no verdict if no other number is below zero, and no label is."""
    numbers = {
        name: {text: value for text in raw.words if (value := number(text)) is not None}
        for name, raw in raws.items()
    }
    values = [value for levels in numbers.values() for value in levels.values()]
    # Another negative number shows that the scale goes below zero.
    if not values or any(value < 0 and value != SENTINEL for value in values):
        return
    if any(SENTINEL in numbers[label].values() for label in labels):
        return
    for name, raw in raws.items():
        # Of two responses, a frequent -1 is a preference for one.
        if compared and not _is_minority(raw, numbers[name]):
            continue
        judged = set(numbers[name].values())
        # -1, 0, 1 and -1, 1 are preferences, votes or signs
        # Votes and signs use -1: only a rare -1, or other numbers elsewhere, is a mark.
        if judged <= {-1.0, 0.0, 1.0} and raw.column.share(numbers[name]) == 1:
            if any(
                set(levels.values()) - {0.0, 1.0, -1.0} for levels in numbers.values()
            ):
                pass
            elif not _is_minority(raw, numbers[name]):
                continue
        for text, value in numbers[name].items():
            if value == SENTINEL:
                raw.missing[text] = EMPTY
                del raw.words[text]


def _is_minority(raw: Raw, numbers: Mapping[str, float]) -> bool:
    negative = sum(raw.words[text] for text, value in numbers.items() if value < 0)
    return negative <= 0.1 * raw.total


def _stated(
    raws: Mapping[str, Raw],
    judges: Mapping[str, TypedColumn],
    labels: Mapping[str, TypedColumn],
    where: str,
) -> Space | None:
    """Return the space of verdicts that texts state, next to words."""
    stated = {
        name: raw.column.stated
        for name, raw in raws.items()
        if raw.column.kind in ("stated", "text", "class", "pair", "flag")
        and raw.column.stated
    }
    # Columns with texts that state a verdict; words that are verdicts stay as they are.
    texts = {
        name
        for name, raw in raws.items()
        if name in stated and any(text not in raw.column.flags for text in raw.words)
    }
    if not texts:
        return None
    # Verdicts that are not the whole text, for the note.
    count = 0
    replaced: dict[str, TypedColumn] = {}
    for name, raw in raws.items():
        if name not in texts:
            replaced[name] = raw.column
            continue
        cells = []
        for text in raw.column.texts:
            value = None if text is None else stated[name].get(text)
            count += (
                value is not None
                and text is not None
                and fold(text) != fold(str(value))
            )
            cells.append(value)
        replaced[name] = TypedColumn(name, cells)
    # Columns of the stated verdicts are read like any other table.
    inner = verdict_space(
        {name: replaced[name] for name in judges},
        {name: replaced[name] for name in labels},
        {},
        (),
        compared=any(
            str(value) in WINNERS for name in texts for value in stated[name].values()
        ),
        where=where,
    )
    for name in texts:
        levels = inner.values[name]
        # Back from the stated verdicts to the texts of the cells.
        by_text = {
            text: levels[str_value]
            for text, value in stated[name].items()
            if (str_value := _level(value)) in levels
        }
        raw = raws[name]
        inner.values[name] = by_text | {**raw.mapped}
        unread = [text for text in raw.words if text not in by_text]
        # A short word without a statement may be a verdict that is not known.
        short = [(name, text) for text in unread if len(text) <= LONGEST_WORD]
        if short:
            ask_for_unread(short, raws, "known verdicts", where, ())
        inner.missing[name] = dict.fromkeys(unread, NO_STATEMENT)
    inner.notes.append(f"verdicts read from the beginning or end of a text: {count}")
    return inner


def _level(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
