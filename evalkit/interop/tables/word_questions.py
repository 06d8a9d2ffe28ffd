"""Questions about words of verdicts that have no meaning in common."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Final, NoReturn

from evalkit.interop.layouts.records import NONE
from evalkit.interop.tables.column_types import MOSTLY
from evalkit.interop.tables.questions import (
    Answer,
    OpenTableError,
    UnreadColumnsError,
)
from evalkit.interop.tables.rater_levels import MAPPED_TO_NONE, Raw
from evalkit.interop.tables.words import fold, word_group

# A question about words offers at most this many meanings of a kind.
_MOST_COMMANDS: Final = 3
MOST_LEVELS: Final = 12
_WHOLE: Final = 100
_NOTHING: Final = word_group("nothing")
"""Words for nothing that may be classes."""
_OFTEN: Final = 0.05
_OTHER_COLUMN: Final = (
    "name a column of verdicts: --judge COLUMN, or map the words: --map WORD=VALUE"
)


def ask_for_sides(by_side: Mapping[str, str], where: str) -> NoReturn:
    """Ask whether words that name a side, and are the names of systems too, are one or the other.

    Raises:
        OpenTableError: Always.
    """
    words = ", ".join(f"'{word}'" for word in by_side)
    sides = [
        option
        for word, side in by_side.items()
        for option in ("--map", f"{word}={side}")
    ]
    systems = [option for word in by_side for option in ("--map", f"{word}=SYSTEM")]
    answers = [
        Answer("sides of the row", tuple(sides)),
        Answer("systems, which are on either side", tuple(systems)),
    ]
    problem = f"{words} are names of systems and of sides: which do the winners name?"
    raise OpenTableError(problem, where, answers)


def ask_for_numbers(
    values: set[float], raws: Mapping[str, Raw], where: str
) -> NoReturn:
    """Ask which number is which winner.

    Raises:
        OpenTableError: Always.
    """
    low_first = sorted(values)
    names = ", ".join(f"'{name}'" for name in raws)
    if len(low_first) == 1:
        problem = (
            f"{names} has {low_first[0]:g}, which names no winner of two responses"
        )
        raise UnreadColumnsError(problem, where=where, remedy=_OTHER_COLUMN)
    if len(low_first) > MOST_LEVELS:
        _ask_for_middle(raws, where)
        problem = f"{names} has {len(low_first)} different numbers, which are no winners of pairs"
        raise UnreadColumnsError(problem, where=where, remedy=_OTHER_COLUMN)
    # For two and three numbers, the usual meanings in the order of the numbers.
    sides: Sequence[tuple[str, ...]] = (
        (("A", "B"), ("B", "A"))
        if len(low_first) == 2
        else (
            ("A", "B", "TIE"),
            ("A", "TIE", "B"),
            ("TIE", "A", "B"),
            ("B", "TIE", "A"),
        )
        if len(low_first) == 3
        else ()
    )
    answers = []
    for winners in sides:
        pairs = [
            f"{value:g}={side}" for value, side in zip(low_first, winners, strict=True)
        ]
        answers.append(
            Answer(
                ", ".join(pairs),
                tuple(word for pair in pairs for word in ("--map", pair)),
            )
        )
    # More numbers are grades of preference around their middle.
    if not answers:
        half = (low_first[0] + low_first[-1]) / 2
        for low, high in (("A", "B"), ("B", "A")):
            pairs = [
                f"{value:g}={low if value < half else high if value > half else 'TIE'}"
                for value in low_first
            ]
            answers.append(
                Answer(
                    f"low numbers prefer {low}",
                    tuple(word for pair in pairs for word in ("--map", pair)),
                )
            )
    listed = ", ".join(f"{value:g}" for value in low_first)
    raise OpenTableError(
        f"{names} compare two responses by numbers ({listed}): which number is which winner?",
        where,
        answers,
    )


def _ask_for_middle(raws: Mapping[str, Raw], where: str) -> None:
    """Ask which response many numbers prefer, if each of them is a share of 1 or of 100.

    Raises:
        OpenTableError: If so.
    """
    answers = []
    numeric = {name: raw for name, raw in raws.items() if raw.column.is_numeric}
    middles = {}
    for name, raw in numeric.items():
        values = raw.column.distinct_numbers
        if values[0] < 0 or values[-1] > _WHOLE:
            return
        middles[name] = 0.5 if values[-1] <= 1 else _WHOLE / 2
    for high, low in (("A", "B"), ("B", "A")):
        options = []
        for name, middle in middles.items():
            options += ["--map", f"{name}:>{middle:g}={high}"]
            options += ["--map", f"{name}:<{middle:g}={low}"]
            if middle in numeric[name].column.distinct_numbers:
                options += ["--map", f"{name}:{middle:g}=TIE"]
        answers.append(Answer(f"high numbers prefer {high}", tuple(options)))
    listed = ", ".join(f"'{name}'" for name in middles)
    problem = (
        f"{listed} has numbers for two responses: which one do high numbers prefer?"
    )
    raise OpenTableError(problem, where, answers)


def ask_for_winners(raws: Mapping[str, Raw], where: str) -> NoReturn:
    """Ask what the words of a table with two responses mean, if none of them names a winner.

    Raises:
        OpenTableError: Always.
    """
    levels = dict.fromkeys(text for raw in raws.values() for text in raw.words)
    words = list({fold(text): text for text in levels}.values())
    listed = ", ".join(f"'{word[:40]}'" for word in words[:6])
    answers = []
    # Few words can be assigned in both orders; more of them only show what an answer looks like.
    if 2 <= len(words) <= 3:
        for sides in (("A", "B", "TIE"), ("B", "A", "TIE")):
            pairs = [f"{word}={side}" for word, side in zip(words, sides, strict=False)]
            options = tuple(option for pair in pairs for option in ("--map", pair))
            answers.append(Answer(", ".join(pairs), options))
    elif words:
        options = tuple(
            option
            for index, word in enumerate(words[:MOST_LEVELS])
            for option in (
                "--map",
                f"{word[:60]}={('A', 'B')[index] if index < 2 else 'TIE'}",
            )
        )
        answers.append(Answer("for example", options))
    raise OpenTableError(
        f"each row has two responses, and {listed} name no winner", where, answers
    )


def ask_about_others(
    others: Sequence[str],
    raws: Mapping[str, Raw],
    options: Sequence[str],
    where: str,
) -> NoReturn:
    """Ask whether columns without a word for a winner compare the two responses.

    Args:
        others: The columns.
        raws: All raters' levels, by column.
        options: The options with which only the other columns are raters.
        where: The table's name.

    Raises:
        OpenTableError: Always.
    """
    answers = [Answer("they do not compare the responses", tuple(options))]
    words = dict.fromkeys(word for name in others for word in raws[name].words)
    # Two words can only be the two responses.
    if len(words) == 2:
        first, second = words
        for high, low in (("A", "B"), ("B", "A")):
            mapped = ("--map", f"{first}={high}", "--map", f"{second}={low}")
            answers.append(Answer(f"{first}={high}, {second}={low}", mapped))
    shown = ", ".join(
        f"'{name}' ('{next(iter(raws[name].words))[:40]}')" for name in others
    )
    verb = "names" if len(others) == 1 else "name"
    problem = f"each row has two responses, and {shown} {verb} no winner"
    raise OpenTableError(problem, where, answers)


def ask_for_pair_words(
    unread: Sequence[tuple[str, str]], raws: Mapping[str, Raw], where: str
) -> NoReturn:
    """Ask what words of a table of pairs mean, of which others are winners.

    Raises:
        OpenTableError: Always.
    """
    # {word: its cells}, over all raters.
    by_word: dict[str, int] = {}
    columns: dict[str, None] = {}
    for name, text in unread:
        by_word[text] = by_word.get(text, 0) + raws[name].words[text]
        columns[name] = None
    listed = ", ".join(
        f"'{text[:40]}' ({count})" for text, count in list(by_word.items())[:6]
    )
    answers = [
        Answer(
            meaning, tuple(o for text in by_word for o in ("--map", f"{text}={value}"))
        )
        for value, meaning in (("TIE", "ties"), (NONE, "no verdict"))
    ]
    if len(by_word) == 1:
        text = next(iter(by_word))
        answers += [
            Answer(f"{side} wins", ("--map", f"{text}={side}")) for side in ("A", "B")
        ]
    names = ", ".join(f"'{name}'" for name in columns)
    problem = f"{names} has {_unknown(len(by_word), 'known winner')}: {listed}"
    if len(by_word) > MOST_LEVELS:
        raise UnreadColumnsError(problem, where=where, remedy=_OTHER_COLUMN)
    raise OpenTableError(problem, where, answers)


def ask_for_unread(
    unread: Sequence[tuple[str, str]],
    raws: Mapping[str, Raw],
    what: str,
    where: str,
    known: Sequence[str],
) -> NoReturn:
    """Ask what words that are no verdicts mean.

    Raises:
        OpenTableError: Always.
    """
    counts: Counter[str] = Counter()
    columns: dict[str, None] = {}
    for name, text in unread:
        counts[text] += raws[name].words[text]
        columns[name] = None
    names = ", ".join(f"'{name}'" for name in columns)
    listed = ", ".join(
        f"'{text[:40]}' ({count})" for text, count in counts.most_common(6)
    )
    # So many words are texts or names, and no question can list them.
    if len(counts) > MOST_LEVELS:
        problem = (
            f"{names} has {_unknown(len(counts), what.removesuffix('s'))}: {listed}"
        )
        raise UnreadColumnsError(problem, where=where, remedy=_OTHER_COLUMN)
    answers = []
    by_rater: dict[str, list[str]] = {}
    for name, text in unread:
        by_rater.setdefault(name, []).append(text)
    # One unknown word on each side: they may mean the same.
    if len(by_rater) == 2 and all(len(texts) == 1 for texts in by_rater.values()):
        ((first,), (second,)) = by_rater.values()
        answers.append(
            Answer(f"'{first}' means '{second}'", ("--map", f"{first}={second}"))
        )
    begun = {text: _begun_word(text, known) for text in counts}
    if all(begun.values()):
        words = tuple(o for text in counts for o in ("--map", f"{text}={begun[text]}"))
        answers.append(Answer("the words that they begin with", words))
    none = tuple(o for text in counts for o in ("--map", f"{text}={NONE}"))
    answers.append(Answer("no verdict", none))
    # A word can be a class of its own only where verdicts are classes.
    if what != "numbers":
        as_they_are = tuple(
            o for text in counts for o in ("--map", f"{text}={_class_name(text)}")
        )
        answers.append(Answer("a class of its own", as_they_are))
    if len(counts) == 1:
        text = next(iter(counts))
        answers += [
            Answer(f"the same as '{word}'", ("--map", f"{text}={word}"))
            for word in known[:_MOST_COMMANDS]
        ]
    problem = f"{names} has {_unknown(len(counts), what.removesuffix('s'))}: {listed}"
    raise OpenTableError(problem, where, answers)


def _unknown(count: int, kind: str) -> str:
    """Return how many words are none of a kind."""
    if count == 1:
        return f"1 word that is no {kind}"
    return f"{count} words that are no {kind}s"


def _begun_word(text: str, known: Sequence[str]) -> str:
    """Return the known word that a text begins with, as `fail` in `fail (see mail)`;
    empty if there is none.
    """
    folded = fold(text)
    begun = [word for word in known if re.match(rf"{re.escape(fold(word))}\W", folded)]
    return max(begun, key=len, default="")


def _class_name(text: str) -> str:
    """Return a word as the name of a class, which has no marks."""
    return " ".join(re.sub(r"[^\w\- ]+", " ", text).split()).strip("-_ ") or "other"


def ask_about_nothing(raws: Mapping[str, Raw], where: str) -> None:
    """Ask whether a word such as `none`, which the judge and a person use among
    classes, is a class.

    Raises:
        OpenTableError: If there is one.
    """
    used: dict[str, list[str]] = {}
    for raw in raws.values():
        classes = not raw.column.is_numeric and 1 < len(raw.words) <= MOST_LEVELS
        if not classes or raw.column.share(raw.column.flags) >= MOSTLY:
            continue
        for text in raw.missing:
            often = raw.column.counts[text] >= _OFTEN * len(raw.column.cells)
            settled = raw.missing[text] == MAPPED_TO_NONE
            if fold(text) in _NOTHING and often and not settled:
                used.setdefault(fold(text), []).append(text)
    for texts in used.values():
        if len(texts) < 2:
            continue
        spelled = dict.fromkeys(texts)
        answers = [
            Answer(
                "a class of its own",
                tuple(o for text in spelled for o in ("--map", f"{text}={texts[0]}")),
            ),
            Answer(
                "no verdict",
                tuple(o for text in spelled for o in ("--map", f"{text}={NONE}")),
            ),
        ]
        problem = f"several raters have '{texts[0]}' next to classes: is it a class?"
        raise OpenTableError(problem, where, answers)


def ask_for_words(raws: Mapping[str, Raw], where: str) -> NoReturn:
    """Ask what the words of raters mean that have none in common.

    Raises:
        OpenTableError: Always.
    """
    parts = []
    answers = []
    pairs: list[str] = []
    columns = list(raws.items())
    for name, raw in columns:
        listed = ", ".join(f"'{text[:30]}'" for text, _ in raw.words.most_common(4))
        parts.append(f"'{name}' has {listed}")
    levels = [list(raw.words) for _, raw in columns]
    few = all(len(words) <= MOST_LEVELS for words in levels)
    # As many words on each side: they may correspond in some order.
    if few and len(levels) > 1 and len({len(words) for words in levels}) == 1:
        first, *higher_levels = levels
        for order in _orders(first, higher_levels):
            pairs = [
                f"{text}={meaning}"
                for words in higher_levels
                for text, meaning in zip(words, order, strict=True)
            ]
            options = tuple(o for pair in pairs for o in ("--map", pair))
            answers.append(Answer(", ".join(pairs[:4]), options))
    elif few and levels[0]:
        first, *higher_levels = levels
        none = tuple(
            o
            for words in (higher_levels or [first])
            for text in words
            if text not in first or not higher_levels
            for o in ("--map", f"{text[:60]}={first[0]}")
        )
        answers.append(Answer("for example", none))
    # Numbers with a few words among them: these are the question.
    for name, raw in raws.items():
        numbers = {
            text: raw.words[text] for text in raw.words if text in raw.column.numbers
        }
        words = [(name, text) for text in raw.words if text not in numbers]
        if 0 < len(words) <= MOST_LEVELS and sum(numbers.values()) >= raw.total / 2:
            ask_for_unread(words, raws, "numbers", where, ())
    # An answer without a meaning would ask the same again.
    answers = [answer for answer in answers if answer.options]
    if not answers:
        problem = f"the raters use different words: {'; '.join(parts)}"
        raise UnreadColumnsError(problem, where=where, remedy=_OTHER_COLUMN)
    raise OpenTableError(
        f"the raters use different words: {'; '.join(parts)}", where, answers
    )


def _orders(
    meanings: Sequence[str], words: Sequence[Sequence[str]]
) -> list[tuple[str, ...]]:
    """Return orders of words in which they may be the meanings of as many others, the
    likeliest first.
    """
    if len(meanings) <= _MOST_COMMANDS:
        orders = list(permutations(meanings))
    else:
        # Each order shifts the words by one.
        orders = [
            (*meanings[offset:], *meanings[:offset]) for offset in range(_MOST_COMMANDS)
        ]
    if len(words) != 1:
        return orders
    # Words that begin alike, as `e` and `entailment`.
    begun = [
        [meaning for meaning in meanings if _begin_alike(fold(text), fold(meaning))]
        for text in words[0]
    ]
    if all(len(alike) == 1 for alike in begun):
        likely = tuple(alike[0] for alike in begun)
        if len({*likely}) == len(likely):
            orders = [likely, *(order for order in orders if order != likely)]
    return orders


def _begin_alike(text: str, meaning: str) -> bool:
    return text.startswith(meaning) or meaning.startswith(text)
