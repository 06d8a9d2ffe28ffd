"""Classes: pass and fail, ordered words, and words that raters share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from evalkit.core.errors import DatasetError
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
_CHECK_MARKS: Final = re.compile("[✓✔✅✗✘✖❌]{2,}")
"""The marks of several checks, as a printed report has them in one cell."""
_RANKING: Final = re.compile(r"\w\s*[>≻]\s*\w+\s*[>≻]\s*\w")


def class_space(raws: Mapping[str, Raw], where: str) -> Space | None:
    """Return the space of classes: pass and fail, ordered words, or words that raters share."""
    # {rater: {text: folded word}}; equal folded words are one class.
    words = {name: _folded(raw) for name, raw in raws.items()}
    synonyms = same_ranks(frozenset(levels.values()) for levels in words.values())
    words = {
        name: {text: synonyms.get(word, word) for text, word in levels.items()}
        for name, levels in words.items()
    }
    union = {word for levels in words.values() for word in levels.values()}
    union |= {fold(meaning) for raw in raws.values() for meaning in raw.mapped.values()}
    spelled = _spelling(raws, words)
    meanings, _ = polarity()
    space = Space("class")
    # The words of a rank that raters spell in two ways.
    read_as = {
        text.strip(): spelled[word]
        for levels in words.values()
        for text, word in levels.items()
        if synonyms and fold(text) != fold(spelled[word])
    }
    space.notes += [f"'{text}' is read as '{word}'" for text, word in read_as.items()]
    texts = any(
        raw.column.kind == "stated"
        or any(len(text) > LONGEST_WORD for text in raw.words)
        for raw in raws.values()
    )
    # Long texts state a verdict somewhere, which another reading finds.
    if texts:
        return None
    # All raters use the same words, so that their own spelling can stay.
    same = len({frozenset(levels.values()) for levels in words.values() if levels}) <= 1
    # Every word judges: pass and fail.
    if union and union <= meanings.keys():
        if same and not any(raw.mapped for raw in raws.values()):
            _check_polarity(raws, where)
            space.values = {
                name: {text: spelled[word] for text, word in levels.items()}
                for name, levels in words.items()
            }
            return space
        if any(ordered(raw.words) for raw in raws.values()):
            return None  # ok between bad and good is neither pass nor fail
        _check_polarity(raws, where)
        # Two opposite words in all: yes and no stay as they are.
        subset = _common_pair(words, union)
        for name, raw in raws.items():
            values = {text: meanings[word] for text, word in words[name].items()}
            values |= {
                text: meanings.get(fold(meaning), meaning)
                for text, meaning in raw.mapped.items()
            }
            is_mapped = any(raw.mapped for raw in raws.values())
            if subset and not is_mapped:
                values = {text: spelled[word] for text, word in words[name].items()}
            space.values[name] = values
        return space
    # An order needs all words of all raters in one known scale.
    graded = all(begins(name, "grade") for name in raws)
    in_order = ordered((spelled[word] for word in sorted(union)), grades=graded)
    if in_order:
        space.rubric = {"classes": dict.fromkeys(in_order, ""), "ordered": True}
        space.values = _spelled_values(raws, words, spelled)
        space.notes.append(f"the words are ordered: {' < '.join(in_order)}")
        return space
    # Numbers next to words are scores and classes, which is another reading.
    if any(raw.column.is_numeric and raw.words for raw in raws.values()):
        return None
    _check_lists(raws, where)
    _check_rankings(raws, where)
    if not union or (len(union) > MOST_LEVELS and not _share_levels(raws, words)):
        return None
    counts = Counter(
        word
        for name, levels in words.items()
        for word in {*levels.values(), *map(fold, raws[name].mapped.values())}
    )
    # Raters must share words, or their classes would have nothing in common.
    if len(raws) > 1:
        alone = {word for word, count in counts.items() if count == 1}
        shared = union - alone
        if not shared:
            return None
        # Cells with a shared word: too few leave open whether these are classes at all.
        covered = sum(
            raw.words[text]
            for name, raw in raws.items()
            for text, word in words[name].items()
            if word in shared
        )
        total = sum(raw.total for raw in raws.values())
        mapped = {
            fold(meaning) for raw in raws.values() for meaning in raw.mapped.values()
        }
        unread = [
            (name, text)
            for name, levels in words.items()
            for text, word in levels.items()
            if word in alone and word not in mapped
        ]
        if unread and covered < 0.5 * total:
            return None
        if unread and not (alone <= mapped) and not _has_many_classes(shared):
            ask_for_unread(unread, raws, "known verdicts", where, sorted(shared))
    space.values = _spelled_values(raws, words, spelled)
    classes = dict.fromkeys(
        value for levels in space.values.values() for value in levels.values()
    )
    if len(classes) > 2:
        space.notes.append(
            "the classes are not ordered; if they are, set rubric.ordered=true and"
            " rubric.classes in their order"
        )
    return space


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


def _share_levels(
    raws: Mapping[str, Raw], words: Mapping[str, Mapping[str, str]]
) -> bool:
    """Return whether nearly all verdicts are words that another rater has too, or that
    recur if there is no other one.

    Then many words are classes.
    """
    if len(raws) == 1:
        return all(2 * len(raw.words) <= raw.total for raw in raws.values())
    counts = Counter(word for levels in words.values() for word in {*levels.values()})
    covered = sum(
        raw.words[text]
        for name, raw in raws.items()
        for text, word in words[name].items()
        if counts[word] > 1
    )
    return covered >= NEARLY_ALL * sum(raw.total for raw in raws.values())


def _check_lists(raws: Mapping[str, Raw], where: str) -> None:
    """Check that no rater gives several classes in a cell.

    Raises:
        DatasetError: If one does, because their order would count.
    """
    for name, raw in raws.items():
        several_marks = next(filter(_has_several_marks, raw.words), None)
        if several_marks is not None:
            raise _several_error(name, several_marks, where)
        # A comma is common in names of classes, so that it needs more evidence.
        for separator in (";", "|", ","):
            lists = {text: text.split(separator) for text in raw.words}
            several = [text for text, parts in lists.items() if len(parts) > 1]
            parts = {part.strip() for text in several for part in lists[text]}
            # Parts that recur in other combinations are classes in a list.
            recur = len(several) > 1 and len(parts) < len(lists) and len(parts) > 1
            single = {text.strip() for text in raw.words if text not in several}
            if recur or (separator != "," and parts & single):
                raise _several_error(name, several[0], where)


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


def _common_pair(words: Mapping[str, Mapping[str, str]], union: set[str]) -> bool:
    """Return whether all words are one pair of opposites, of which a rater uses only one."""
    return len(union) == 2 and all(
        set(levels.values()) <= union for levels in words.values()
    )


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


def _spelled_values(
    raws: Mapping[str, Raw],
    words: Mapping[str, Mapping[str, str]],
    spelled: Mapping[str, str],
) -> dict[str, dict[str, Any]]:
    values: dict[str, dict[str, Any]] = {}
    for name, raw in raws.items():
        values[name] = {text: spelled[word] for text, word in words[name].items()}
        values[name] |= {
            text: spelled[fold(meaning)] for text, meaning in raw.mapped.items()
        }
    return values


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
    # All columns about a fault, or none: yes means the same in all.
    if (
        len(raws) < 2
        or True not in about.values()
        or all(about.get(name) for name in raws)
    ):
        return
    adverse = next(name for name, is_adverse in about.items() if is_adverse)
    levels = list(raws[adverse].words)
    meanings, _ = polarity()
    answers = []
    # The first answer turns the words around, the second keeps them.
    for flip in (True, False):
        pairs = []
        for text in levels:
            meaning = meanings[fold(text)]
            flipped = "fail" if meaning == "pass" else "pass"
            pairs.append((text, flipped if flip else meaning))
        # Another rater uses the same words, so the mapping must name the column.
        clash = any(
            fold(text) in {fold(word) for word in raw.words}
            for name, raw in raws.items()
            if name != adverse
            for text in levels
        )
        if clash:
            pairs = [(f"{adverse}:{text}", meaning) for text, meaning in pairs]
        options = tuple(
            o for text, meaning in pairs for o in ("--map", f"{text}={meaning}")
        )
        answers.append(Answer("it is a fault" if flip else "it is no fault", options))
    problem = (
        f"'{adverse}' seems to be about a fault and other columns are not: does"
        f" '{levels[0]}' there mean that a response fails?"
    )
    raise OpenTableError(problem, where, answers)
