"""Classes: pass and fail, ordered words, and words that raters share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from evalkit.core.errors import DatasetError
from evalkit.core.patterns import lazy_pattern
from evalkit.interop.layouts.judgment_files import number
from evalkit.interop.tables.column_types import LONGEST_WORD, NEARLY_ALL
from evalkit.interop.tables.questions import Answer, OpenTableError
from evalkit.interop.tables.rater_levels import Raw, Space
from evalkit.interop.tables.word_questions import MOST_LEVELS, ask_for_unread
from evalkit.interop.tables.words import (
    ARROW,
    begins,
    fold,
    ordered,
    polarity,
    same_ranks,
)

_MARKS: Final = " .!*`\"'"
"""Marks around a word."""
_CHECK_MARKS: Final = lazy_pattern("[✓✔✅✗✘✖❌]{2,}")
"""The marks of several checks, as a printed report has them in one cell."""
_OPPOSITES: Final = {"pass": "fail", "fail": "pass"}
_RANKING: Final = lazy_pattern(r"\w\s*[>≻]\s*\w+\s*[>≻]\s*\w")


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of raters, and which of them are one class.

    Attributes:
        raws: The levels of each rater.
        classes: {rater: {level: its class}}; levels with equal folded words are one class.
        spelled: The spelling of each class that occurs first.
        has_synonyms: Whether raters spell the words of a scale in two ways.
    """

    raws: Mapping[str, Raw]
    classes: Mapping[str, Mapping[str, str]]
    spelled: Mapping[str, str]
    has_synonyms: bool

    @classmethod
    def of(cls, raws: Mapping[str, Raw]) -> _Words:
        folded = {name: _folded(raw) for name, raw in raws.items()}
        synonyms = same_ranks(frozenset(levels.values()) for levels in folded.values())
        classes = {}
        for name, levels in folded.items():
            classes[name] = {
                text: synonyms.get(word, word) for text, word in levels.items()
            }
        spelled = _spelling(raws, classes)
        return cls(raws, classes, spelled, bool(synonyms))

    @property
    def used(self) -> set[str]:
        """The classes of all raters' levels."""
        used: set[str] = set()
        for levels in self.classes.values():
            used.update(levels.values())
        return used

    @property
    def mapped(self) -> set[str]:
        """The classes that the user mapped words to."""
        mapped: set[str] = set()
        for raw in self.raws.values():
            mapped.update(map(fold, raw.mapped.values()))
        return mapped

    @property
    def every_class(self) -> set[str]:
        """All classes."""
        return self.used | self.mapped

    def cells_with(self, classes: Set[str]) -> int:
        """Return the number of cells of all raters that have one of these classes."""
        count = 0
        for name, levels in self.classes.items():
            counts = self.raws[name].words
            count += sum(
                counts[text] for text, word in levels.items() if word in classes
            )
        return count

    def values(self) -> dict[str, dict[str, Any]]:
        """Return the class of each level of each rater, as it is spelled."""
        values: dict[str, dict[str, Any]] = {}
        for name, raw in self.raws.items():
            values[name] = {}
            for text, word in self.classes[name].items():
                values[name][text] = self.spelled[word]
            for text, meaning in raw.mapped.items():
                values[name][text] = self.spelled[fold(meaning)]
        return values

    def notes(self) -> list[str]:
        """Return which words are read as others of the same rank."""
        if not self.has_synonyms:
            return []
        read_as = {}
        for levels in self.classes.values():
            for text, word in levels.items():
                spelled = self.spelled[word]
                if fold(text) != fold(spelled):
                    read_as[text.strip()] = spelled
        return [f"'{text}' is read as '{word}'" for text, word in read_as.items()]


def class_space(raws: Mapping[str, Raw], where: str) -> Space | None:
    """Return the space of classes: pass and fail, ordered words, or words that raters share."""
    # Long texts state a verdict somewhere, which another reading finds.
    if any(map(_has_long_texts, raws.values())):
        return None
    words = _Words.of(raws)
    meanings, _ = polarity()
    classes = words.every_class
    space: Space | None
    if in_order := _order(words):
        # At least three words, so also bad, ok and good, each of which judges.
        space = _ordered_space(words, in_order)
    elif classes and classes <= meanings.keys():
        # Every word judges.
        space = _pass_and_fail(words, where)
    else:
        space = _shared_classes(words, where)
    if space is not None:
        space.notes = [*words.notes(), *space.notes]
    return space


def _has_long_texts(raw: Raw) -> bool:
    if raw.column.kind == "stated":
        return True
    return any(len(text) > LONGEST_WORD for text in raw.words)


def _pass_and_fail(words: _Words, where: str) -> Space | None:
    """Return the space of raters whose words all judge; `None` if a word is neither pass nor
    fail.
    """
    raws = words.raws
    space = Space("class")
    is_mapped = any(raw.mapped for raw in raws.values())
    used = [frozenset(levels.values()) for levels in words.classes.values() if levels]
    if len(set(used)) <= 1 and not is_mapped:
        # All raters use the same words, so that their own spelling can stay.
        _check_polarity(raws, where)
        space.values = words.values()
        return space
    if any(ordered(raw.words) for raw in raws.values()):
        return None  # ok between bad and good is neither pass nor fail
    _check_polarity(raws, where)
    # Two opposite words in all: yes and no stay as they are, also if a rater uses only one.
    if len(words.every_class) == 2 and not is_mapped:
        space.values = words.values()
        return space
    meanings, _ = polarity()
    for name, raw in raws.items():
        values = {text: meanings[word] for text, word in words.classes[name].items()}
        for text, meaning in raw.mapped.items():
            values[text] = meanings.get(fold(meaning), meaning)
        space.values[name] = values
    return space


def _order(words: _Words) -> Sequence[str] | None:
    """Return the words of all raters in the order of one known scale; `None` without one."""
    graded = all(begins(name, "grade") for name in words.raws)
    spelled = (words.spelled[word] for word in sorted(words.every_class))
    return ordered(spelled, grades=graded)


def _ordered_space(words: _Words, in_order: Sequence[str]) -> Space:
    space = Space("class")
    space.rubric = {"classes": dict.fromkeys(in_order, ""), "ordered": True}
    space.values = words.values()
    space.notes.append(f"the words are ordered: {' < '.join(in_order)}")
    return space


def _shared_classes(words: _Words, where: str) -> Space | None:
    """Return the space of words that raters share; `None` if they share too few."""
    raws = words.raws
    # Numbers next to words are scores and classes, which is another reading.
    if any(raw.column.is_numeric and raw.words for raw in raws.values()):
        return None
    _check_lists(raws, where)
    _check_rankings(raws, where)
    classes = words.every_class
    if not classes:
        return None
    if len(classes) > MOST_LEVELS and not _share_levels(words):
        return None
    if len(raws) > 1 and not _have_common_words(words, where):
        return None
    space = Space("class")
    space.values = words.values()
    by_rater = [levels.values() for levels in space.values.values()]
    spellings = {value for levels in by_rater for value in levels}
    if len(spellings) > 2:
        space.notes.append(
            "the classes are not ordered; if they are, set rubric.ordered=true and"
            " rubric.classes in their order"
        )
    return space


def _have_common_words(words: _Words, where: str) -> bool:
    """Return whether raters share the words of most cells, so that they have common classes.

    Raises:
        OpenTableError: If it is open what a word of only one rater means.
    """
    raws = words.raws
    # {class: the number of raters that have it}
    counts = Counter[str]()
    for name, levels in words.classes.items():
        mapped = map(fold, raws[name].mapped.values())
        counts.update({*levels.values(), *mapped})
    alone = {word for word, count in counts.items() if count == 1}
    shared = words.every_class - alone
    if not shared:
        return False
    unmapped = alone - words.mapped
    unread = [
        (name, text)
        for name, levels in words.classes.items()
        for text, word in levels.items()
        if word in unmapped
    ]
    if not unread:
        return True
    # Too few cells with a shared word leave open whether these are classes at all.
    total = sum(raw.total for raw in raws.values())
    if words.cells_with(shared) < 0.5 * total:
        return False
    if not _has_many_classes(shared):
        ask_for_unread(unread, raws, "known verdicts", where, sorted(shared))
    return True


def _check_rankings(raws: Mapping[str, Raw], where: str) -> None:
    """Check that no rater ranks more than two responses.

    Raises:
        DatasetError: If one does, because rankings are no classes.
    """
    for name, raw in raws.items():
        ranking = next((text for text in raw.words if _RANKING.search(text)), None)
        if ranking is not None:
            problem = (
                f"'{name}' has rankings ('{ranking[:40]}'), which are not one verdict"
            )
            remedy = "write a row for each pair of responses, with its winner"
            raise DatasetError(problem, where=where, remedy=remedy)


def _share_levels(words: _Words) -> bool:
    """Return whether nearly all verdicts are words that another rater has too, or that
    recur if there is no other one.

    Then many words are classes.
    """
    raws = words.raws.values()
    if len(raws) == 1:
        return all(2 * len(raw.words) <= raw.total for raw in raws)
    counts = Counter[str]()
    for levels in words.classes.values():
        counts.update({*levels.values()})
    shared = {word for word, count in counts.items() if count > 1}
    total = sum(raw.total for raw in raws)
    return words.cells_with(shared) >= NEARLY_ALL * total


def _check_lists(raws: Mapping[str, Raw], where: str) -> None:
    """Check that no rater gives several classes in a cell.

    Raises:
        DatasetError: If one does, because their order would count.
    """
    for name, raw in raws.items():
        several_marks = next(filter(_has_several_marks, raw.words), None)
        if several_marks is not None:
            raise _several_error(name, several_marks, where)
        for separator in (";", "|", ","):
            cell = _list_of_classes(raw.words, separator)
            if cell is not None:
                raise _several_error(name, cell, where)


def _list_of_classes(cells: Collection[str], separator: str) -> str | None:
    """Return the first of a rater's cells with several classes; `None` if there are none."""
    lists = []
    single = set()
    for cell in cells:
        if separator in cell:
            lists.append(cell)
        else:
            single.add(cell.strip())
    parts: set[str] = set()
    for cell in lists:
        parts.update(part.strip() for part in cell.split(separator))
    # Parts that recur in other combinations are classes in a list.
    if len(lists) > 1 and 1 < len(parts) < len(cells):
        return lists[0]
    # A comma is common in names of classes, so that it needs more evidence.
    if separator != "," and parts & single:
        return lists[0]
    return None


def _several_error(name: str, cell: str, where: str) -> DatasetError:
    problem = f"'{name}' has several classes in a cell ('{cell[:40]}'), which are not one verdict"
    remedy = "give each class a column of yes and no, and check one at a time"
    return DatasetError(problem, where=where, remedy=remedy)


def _has_several_marks(text: str) -> bool:
    """Return whether a cell has a mark for each of several checks, as `✔✗`."""
    return _CHECK_MARKS.fullmatch(text) is not None and len({*text}) > 1


def _has_many_classes(shared: set[str]) -> bool:
    """Return whether raters share so many classes that a word of one rater is plausibly
    another class.
    """
    meanings, _ = polarity()
    return len(shared) >= 4 and not (shared & meanings.keys())


def _folded(raw: Raw) -> dict[str, str]:
    folded = {}
    for text in raw.words:
        value = number(text)
        # 1 and 1.0 are one class.
        folded[text] = f"{value:g}" if value is not None else fold(text)
    return folded


def _spelling(
    raws: Mapping[str, Raw], words: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Return the spelling of each folded word that occurs first."""
    spelled: dict[str, str] = {}
    for name, raw in raws.items():
        for text, word in words[name].items():
            plain = ARROW.sub("", text.strip())
            spelled.setdefault(word, plain.strip(_MARKS) or plain)
        for meaning in raw.mapped.values():
            spelled.setdefault(fold(meaning), meaning)
    return spelled


def _check_polarity(raws: Mapping[str, Raw], where: str) -> None:
    """Ask what yes means if one rater's column is about a fault and another's is not.

    Raises:
        OpenTableError: If so.
    """
    _, judging = polarity()
    # Words such as good and bad judge by themselves, whatever the column is named after.
    about = {
        name: begins(name, "adverse")
        for name, raw in raws.items()
        if not all(fold(text) in judging for text in raw.words)
    }
    faults = [name for name, is_adverse in about.items() if is_adverse]
    # All columns about a fault, or none: yes means the same in all.
    if len(raws) < 2 or len(faults) in (0, len(raws)):
        return
    adverse = faults[0]
    levels = list(raws[adverse].words)
    words_of_others = {
        fold(word)
        for name, raw in raws.items()
        if name != adverse
        for word in raw.words
    }
    # Another rater uses the same words, so the mapping must name the column.
    clash = any(fold(text) in words_of_others for text in levels)
    prefix = f"{adverse}:" if clash else ""
    meanings, _ = polarity()
    kept = {f"{prefix}{text}": meanings[fold(text)] for text in levels}
    flipped = {text: _OPPOSITES[meaning] for text, meaning in kept.items()}
    answers = [
        Answer("it is a fault", _map_options(flipped)),
        Answer("it is no fault", _map_options(kept)),
    ]
    problem = (
        f"'{adverse}' seems to be about a fault and other columns are not: does"
        f" '{levels[0]}' there mean that a response fails?"
    )
    raise OpenTableError(problem, where, answers)


def _map_options(meanings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options that map words to meanings."""
    options: list[str] = []
    for text, meaning in meanings.items():
        options += ["--map", f"{text}={meaning}"]
    return tuple(options)
