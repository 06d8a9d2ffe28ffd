"""What the verdicts of all raters mean together: winners of pairs, classes, or scores.

All raters of a table are read in one space. If their words have no common one, that is a question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from evalkit.foreign_files.judgment_files import number
from evalkit.foreign_files.layouts import Unit
from evalkit.foreign_files.records import NONE
from evalkit.interop.import_file import guessed_scale
from evalkit.interop.tables.column_types import (
    DATE,
    LONGEST_WORD,
    NO_STATEMENT,
    TypedColumn,
    denominators,
    is_date,
)
from evalkit.interop.tables.questions import Answer, OpenTableError
from evalkit.interop.tables.words import (
    EMPTY,
    begins,
    fold,
    is_unclear_failure,
    opposite_among,
    ordered,
    polarity,
    tie_kind,
)
from evalkit.values import JsonObject

SENTINEL: Final = -1.0
"""A number for no verdict, if nothing else in a table is below zero and no label is."""
_WINNERS: Final = frozenset({"A", "B", "TIE"})
_MOST_COMMANDS: Final = 3
_MOST_LEVELS: Final = 12
_NEAR: Final = 0.25
"""Two raters use one scale if their ends differ by at most this share of it."""
SIGNED: Final = (
    "negative numbers are read as preferring B and positive ones as preferring A;"
    " the other way around: --map"
)
SIGNED_FIRST: Final = "negative numbers are read as preferring A, as in HelpSteer; the other way around: --map"


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
    """The levels of a rater: those that the user mapped, those without a verdict, and the rest with their counts."""

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
    """Return the levels of each rater, by what the user mapped and what states that there is no verdict."""
    mapped = {word.casefold(): meaning for word, meaning in words.items()}
    mapped |= {fold(word): meaning for word, meaning in words.items()}
    every = [word for column in raters.values() for word in column.counts]
    found = {}
    for name, column in raters.items():
        raw = Raw(column)
        for text, count in column.counts.items():
            key = text.strip().casefold()
            meaning = mapped.get(key, mapped.get(fold(text)))
            if meaning is not None and meaning != NONE:
                raw.mapped[text] = meaning
            elif meaning == NONE:
                raw.missing[text] = "mapped to NONE"
            elif text in column.missing and not (
                is_unclear_failure(text) and opposite_among(text, every)
            ):
                raw.missing[text] = column.missing[text]
            else:
                raw.words[text] = count
        found[name] = raw
    return found


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
        systems: The names of the systems that wrote two responses.
        compared: Whether each row has two responses.
        where: The table's name.

    Raises:
        OpenTableError: If the words have no common meaning.
    """
    raters = {**judges, **labels}
    raws = raw_levels(raters, words)
    _drop_sentinels(raws, labels)
    meanings = {meaning for raw in raws.values() for meaning in raw.mapped.values()}
    known_systems = {fold(system) for system in systems}
    space = _pairs(raws, known_systems, meanings, where, compared=compared)
    if space is None and compared:
        space = _stated(raws, judges, labels, where)
    if space is None and compared:
        _ask_for_winners(raws, where)
    if space is None:
        space = _numbers(raws, judges, labels, where)
    if space is None:
        space = _classes(raws, where)
    if space is None:
        space = _stated(raws, judges, labels, where)
    if space is None:
        space = _mixed(raws, judges, labels)
    if space is None:
        _ask_for_words(raws, where)
    for name, raw in raws.items():
        space.missing[name] = {**raw.missing, **space.missing.get(name, {})}
    return space


def _drop_sentinels(raws: Mapping[str, Raw], labels: Iterable[str]) -> None:
    """Read -1 as no verdict if no other number is below zero, and no label is."""
    numbers = {
        name: {text: value for text in raw.words if (value := number(text)) is not None}
        for name, raw in raws.items()
    }
    values = [value for levels in numbers.values() for value in levels.values()]
    if not values or any(value < 0 and value != SENTINEL for value in values):
        return
    if any(SENTINEL in numbers[label].values() for label in labels):
        return
    for name, raw in raws.items():
        judged = set(numbers[name].values())
        # -1, 0, 1 and -1, 1 are preferences, votes or signs
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


def _long_texts(raw: Raw, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the levels without a value that are texts, which state no verdict."""
    return {
        text: NO_STATEMENT
        for text in raw.words
        if text not in values and len(text) > LONGEST_WORD
    }


def _complete(space: Space, raws: Mapping[str, Raw]) -> list[tuple[str, str]]:
    """Note which levels are texts without a verdict, and return the words that the space does not have."""
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


def _pairs(
    raws: Mapping[str, Raw],
    systems: set[str],
    meanings: set[str],
    where: str,
    *,
    compared: bool,
) -> Space | None:
    """Return the space of winners if all raters name them."""
    space = Space("pair")
    signed: set[float] = set()
    named = False
    for name, raw in raws.items():
        values: dict[str, Any] = {**raw.mapped}
        if raw.mapped and not set(raw.mapped.values()) <= _WINNERS:
            return None
        column = raw.column
        if raw.words and column.is_numeric and column.share(column.numbers) == 1:
            numbers = {text: column.numbers[text] for text in raw.words}
            signed |= set(numbers.values())
            if not compared and not any(value < 0 for value in numbers.values()):
                return None
            values |= _signed(numbers)
        else:
            values |= {
                text: column.pairs[text] for text in raw.words if text in column.pairs
            }
            for text in raw.words:
                if text not in values and fold(text) in systems:
                    values[text] = "SYSTEM"
                    named = True
        space.values[name] = values
    if not compared and not named and not _names_winners(raws, meanings):
        return None
    read = sum(
        raw.words[text]
        for name, raw in raws.items()
        for text in raw.words
        if text in space.values[name]
    )
    total = sum(raw.total for raw in raws.values())
    if not compared and read < 0.8 * total:
        return None
    unread = _complete(space, raws)
    if unread and read < 0.5 * total:
        return None
    if unread:
        if not compared and not named:
            return None
        _ask_for_pair_words(unread, raws, where)
    space.by_row = named
    if signed:
        strength = any("strength" in name or "preference" in name for name in raws)
        wide = any(abs(value) > 1 for value in signed)
        reverse = strength and wide
        if signed <= {1.0, 2.0}:
            for name, raw in raws.items():
                space.values[name] |= {
                    text: "A" if raw.column.numbers[text] == 1 else "B"
                    for text in raw.words
                    if text in raw.column.numbers
                }
            space.notes.append("1 and 2 are read as the first and the second response")
        elif not any(value < 0 for value in signed):
            _ask_for_numbers(signed, raws, where)
        else:
            space.notes.append(SIGNED_FIRST if reverse else SIGNED)
            if reverse:
                flip = {"A": "B", "B": "A", "TIE": "TIE"}
                for name, raw in raws.items():
                    space.values[name] |= {
                        text: flip[space.values[name][text]]
                        for text in raw.words
                        if text in raw.column.numbers
                    }
    ties = Counter(
        kind
        for raw in raws.values()
        for text, count in raw.words.items()
        if (kind := tie_kind(text)) in ("tie_good", "tie_bad")
        for _ in range(count)
    )
    if ties:
        listed = ", ".join(
            f"{'both good' if kind == 'tie_good' else 'both bad'}: {count}"
            for kind, count in sorted(ties.items(), reverse=True)
        )
        space.notes.append(f"ties of different kinds are read as ties ({listed})")
    return space


def _signed(numbers: Mapping[str, float]) -> dict[str, str]:
    return {
        text: "A" if value > 0 else "B" if value < 0 else "TIE"
        for text, value in numbers.items()
    }


def _names_winners(raws: Mapping[str, Raw], meanings: set[str]) -> bool:
    """Return whether the words of a table without two responses are winners and not classes."""
    if "TIE" in meanings:
        return True
    for name, raw in raws.items():
        words = {fold(text) for text in raw.words}
        if any(tie_kind(text) for text in raw.words) and words & {"a", "b"}:
            return True
        if any(text.strip().startswith("[[") for text in raw.words):
            return True
        if raw.column.kind == "comparison" or "winner" in name.casefold():
            return True
        if raw.words and all(len(word) > 1 for word in words):
            if raw.column.share(raw.column.pairs) == 1 and raw.column.kind == "pair":
                return True
    return any(
        raw.column.is_numeric
        and any(value < 0 for value in raw.column.distinct_numbers)
        and any(word in name.casefold() for word in ("prefer", "winner", "better"))
        for name, raw in raws.items()
    )


def _ask_for_numbers(values: set[float], raws: Mapping[str, Raw], where: str) -> None:
    """Ask which number is which winner.

    Raises:
        OpenTableError: Always.
    """
    low_first = sorted(values)
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
    names = ", ".join(f"'{name}'" for name in raws)
    listed = ", ".join(f"{value:g}" for value in low_first)
    raise OpenTableError(
        f"{names} compare two responses by numbers ({listed}): which number is which winner?",
        where,
        answers,
    )


def _ask_for_winners(raws: Mapping[str, Raw], where: str) -> None:
    """Ask what the words of a table with two responses mean, if none of them names a winner.

    Raises:
        OpenTableError: Always.
    """
    levels = dict.fromkeys(text for raw in raws.values() for text in raw.words)
    words = list({fold(text): text for text in levels}.values())
    listed = ", ".join(f"'{word[:40]}'" for word in words[:6])
    answers = []
    if 2 <= len(words) <= 3:
        for sides in (("A", "B", "TIE"), ("B", "A", "TIE")):
            pairs = [f"{word}={side}" for word, side in zip(words, sides, strict=False)]
            options = tuple(option for pair in pairs for option in ("--map", pair))
            answers.append(Answer(", ".join(pairs), options))
    elif words:
        options = tuple(
            option
            for index, word in enumerate(words[:_MOST_LEVELS])
            for option in (
                "--map",
                f"{word[:60]}={('A', 'B')[index] if index < 2 else 'TIE'}",
            )
        )
        answers.append(Answer("for example", options))
    raise OpenTableError(
        f"each row has two responses, and {listed} name no winner", where, answers
    )


def _ask_for_pair_words(
    unread: Sequence[tuple[str, str]], raws: Mapping[str, Raw], where: str
) -> None:
    """Ask what words of a table of pairs mean, of which others are winners.

    Raises:
        OpenTableError: Always.
    """
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
    what = f"{names} has {len(by_word)} words that are no known winners: {listed}"
    raise OpenTableError(what, where, answers)


def _numbers(
    raws: Mapping[str, Raw],
    judges: Mapping[str, TypedColumn],
    labels: Mapping[str, TypedColumn],
    where: str,
) -> Space | None:
    """Return the space of scores if all raters give numbers, some of them other than 0 and 1."""
    values: dict[str, dict[str, Any]] = {}
    for name, raw in raws.items():
        mapped = {text: number(meaning) for text, meaning in raw.mapped.items()}
        if None in mapped.values() or not (raw.column.is_numeric or mapped):
            return None
        values[name] = {**mapped}
        values[name] |= {
            text: raw.column.numbers[text]
            for text in raw.words
            if text in raw.column.numbers
        }
    distinct = {value for levels in values.values() for value in levels.values()}
    if distinct <= {0.0, 1.0} and all(
        raw.column.unit == "number" for raw in raws.values()
    ):
        return None
    space = Space("response", values)
    unread = _complete(space, raws)
    words = []
    for name, text in unread:
        if is_date(text):
            space.missing.setdefault(name, {})[text] = DATE
        else:
            words.append((name, text))
    if words:
        _ask_for_unread(words, raws, "numbers", where, ())
    _set_scale(space, raws, judges, labels)
    return space


def _set_scale(
    space: Space,
    raws: Mapping[str, Raw],
    judges: Mapping[str, TypedColumn],
    labels: Mapping[str, TypedColumn],
) -> None:
    """Set the scale that all raters use; without one, only order is compared."""
    ends = {name: _ends(space.values[name].values(), raws[name]) for name in raws}
    scales = {name: _scale(space.values[name].values(), raws[name]) for name in raws}
    units = {
        (raw.column.unit if raw.column.unit in ("percent", "fraction") else "number")
        for raw in raws.values()
    }
    bottoms = {scale[:2] for scale in scales.values()}
    same = len(bottoms) == 1 and len(units | {"number"}) <= 2
    if same:
        low, high = next(iter(bottoms))
        span = high - low
        lows = [end[0] for end in ends.values()]
        highs = [end[1] for end in ends.values()]
        near = _NEAR * span
        same = max(lows) - min(lows) <= near and max(highs) - min(highs) <= near
        same = same or not labels or "percent" in units or "fraction" in units
    two_classes = any(len(set(space.values[label].values())) == 2 for label in labels)
    graded = any(len(set(space.values[judge].values())) > 2 for judge in judges)
    if same and not (two_classes and graded):
        low, high = next(iter(bottoms))
        step = min(scale[2] for scale in scales.values())
        space.scale = (low, high, step)
        return
    space.rubric = {"real": True}
    space.notes.append(_two_scales(ends))


def _two_scales(ends: Mapping[str, tuple[float, float]]) -> str:
    listed = ", ".join(
        f"'{name}' {low:g} to {high:g}" for name, (low, high) in ends.items()
    )
    return (
        f"scores and labels may be on different scales ({listed}): only their order is compared;"
        " if they share one, set rubric.real=false rubric.min and rubric.max"
    )


def _ends(values: Iterable[float], raw: Raw) -> tuple[float, float]:
    known = list(values) or [0.0]
    return min(known), max(known)


def _scale(values: Iterable[float], raw: Raw) -> tuple[float, float, float]:
    known = list(values)
    low, high, step = guessed_scale(known)
    if raw.column.unit == "stars":
        low, high = 1.0, max(5.0, high)
    if raw.column.unit == "fraction" and (bottoms := denominators(raw.words)):
        high = max(bottoms)
        low = min(low, 1.0)
    return low, high, step


def _classes(raws: Mapping[str, Raw], where: str) -> Space | None:
    """Return the space of classes: pass and fail, ordered words, or words that raters share."""
    words = {name: _folded(raw) for name, raw in raws.items()}
    union = {word for levels in words.values() for word in levels.values()}
    union |= {fold(meaning) for raw in raws.values() for meaning in raw.mapped.values()}
    spelled = _spelling(raws, words)
    meanings, _ = polarity()
    space = Space("class")
    texts = any(
        raw.column.kind == "stated"
        or any(len(text) > LONGEST_WORD for text in raw.words)
        for raw in raws.values()
    )
    if texts:
        return None
    same = len({frozenset(levels.values()) for levels in words.values() if levels}) <= 1
    if union and union <= meanings.keys():
        if same and not any(raw.mapped for raw in raws.values()):
            space.values = {
                name: {text: spelled[word] for text, word in levels.items()}
                for name, levels in words.items()
            }
            return space
        _check_polarity(raws, where)
        subset = _common_pair(words, union)
        for name, raw in raws.items():
            values = {text: meanings[word] for text, word in words[name].items()}
            values |= {
                text: meanings.get(fold(meaning), meaning)
                for text, meaning in raw.mapped.items()
            }
            if subset and not any(raw.mapped for raw in raws.values()):
                values = {text: spelled[word] for text, word in words[name].items()}
            space.values[name] = values
        return space
    if in_order := ordered(spelled[word] for word in sorted(union)):
        space.rubric = {"classes": dict.fromkeys(in_order, ""), "ordered": True}
        space.values = _spelled_values(raws, words, spelled)
        space.notes.append(f"the words are ordered: {' < '.join(in_order)}")
        return space
    if any(raw.column.is_numeric and raw.words for raw in raws.values()):
        return None
    if not union or len(union) > _MOST_LEVELS:
        return None
    seen = Counter(word for levels in words.values() for word in set(levels.values()))
    if len(raws) > 1:
        alone = {word for word, count in seen.items() if count == 1}
        shared = union - alone
        if not shared:
            return None
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
        if (
            unread
            and not (alone <= mapped)
            and not _is_rare_class(unread, raws, shared)
        ):
            _ask_for_unread(unread, raws, "known verdicts", where, sorted(shared))
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


def _is_rare_class(
    unread: Sequence[tuple[str, str]], raws: Mapping[str, Raw], shared: set[str]
) -> bool:
    """Return whether words that one rater uses are plausible classes: three or more others are shared, and none is a doubt."""
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
        folded[text] = f"{value:g}" if value is not None else fold(text)
    return folded


def _spelling(
    raws: Mapping[str, Raw], words: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Return the spelling of each folded word that occurs first."""
    spelled: dict[str, str] = {}
    for name, raw in raws.items():
        for text, word in words[name].items():
            spelled.setdefault(word, text.strip())
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
    about = {
        name: begins(name, "adverse")
        for name, raw in raws.items()
        if not all(fold(text) in judging for text in raw.words)
    }
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
    for flip in (True, False):
        pairs = []
        for text in levels:
            meaning = meanings[fold(text)]
            flipped = "fail" if meaning == "pass" else "pass"
            pairs.append((text, flipped if flip else meaning))
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
    what = (
        f"'{adverse}' seems to be about a fault and other columns are not: does"
        f" '{levels[0]}' there mean that a response fails?"
    )
    raise OpenTableError(what, where, answers)


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
    texts = {
        name
        for name, raw in raws.items()
        if name in stated and any(text not in raw.column.flags for text in raw.words)
    }
    if not texts:
        return None
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
    inner = verdict_space(
        {name: replaced[name] for name in judges},
        {name: replaced[name] for name in labels},
        {},
        (),
        compared=any(
            str(value) in _WINNERS for name in texts for value in stated[name].values()
        ),
        where=where,
    )
    for name in texts:
        levels = inner.values[name]
        by_text = {
            text: levels[str_value]
            for text, value in stated[name].items()
            if (str_value := _level(value)) in levels
        }
        raw = raws[name]
        inner.values[name] = by_text | {**raw.mapped}
        unread = [text for text in raw.words if text not in by_text]
        short = [(name, text) for text in unread if len(text) <= LONGEST_WORD]
        if short:
            _ask_for_unread(short, raws, "known verdicts", where, ())
        inner.missing[name] = dict.fromkeys(unread, NO_STATEMENT)
    inner.notes.append(f"verdicts read from the beginning or end of a text: {count}")
    return inner


def _level(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _mixed(
    raws: Mapping[str, Raw],
    judges: Mapping[str, TypedColumn],
    labels: Mapping[str, TypedColumn],
) -> Space | None:
    """Return the space of scores against classes: numbers of some raters, two classes or ordered words of others."""
    if not judges or not labels:
        return None
    space = Space("response")
    notes = []
    meanings, _ = polarity()
    for name, raw in raws.items():
        if raw.mapped:
            return None
        column = raw.column
        numbers = {
            text: column.numbers[text] for text in raw.words if text in column.numbers
        }
        flags = {
            text: meanings[fold(text)] for text in raw.words if fold(text) in meanings
        }
        in_order = ordered(raw.words)
        if len(numbers) == len(raw.words):
            space.values[name] = dict(numbers)
        elif len(flags) == len(raw.words):
            space.values[name] = {
                text: 1.0 if meaning == "pass" else 0.0
                for text, meaning in flags.items()
            }
            notes.append(f"'{name}': pass is 1 and fail is 0")
        elif in_order:
            folded = [fold(word) for word in in_order]
            space.values[name] = {
                text: float(folded.index(fold(text)) + 1) for text in raw.words
            }
            notes.append(f"'{name}' is ordered: {' < '.join(in_order)}")
        else:
            return None
    space.rubric = {"real": True}
    space.notes = notes
    space.notes.append(
        "scores are compared with classes by their order (AUC); no bias follows from two scales"
    )
    return space


def _ask_for_unread(
    unread: Sequence[tuple[str, str]],
    raws: Mapping[str, Raw],
    what: str,
    where: str,
    known: Sequence[str],
) -> None:
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
    answers = []
    by_rater: dict[str, list[str]] = {}
    for name, text in unread:
        by_rater.setdefault(name, []).append(text)
    if len(by_rater) == 2 and all(len(texts) == 1 for texts in by_rater.values()):
        ((first,), (second,)) = by_rater.values()
        answers.append(
            Answer(f"'{first}' means '{second}'", ("--map", f"{first}={second}"))
        )
    none = tuple(o for text in counts for o in ("--map", f"{text}={NONE}"))
    answers.append(Answer("no verdict", none))
    if what != "numbers":
        own = tuple(o for text in counts for o in ("--map", f"{text}={text}"))
        answers.append(Answer("a class of its own", own))
    if len(counts) == 1:
        text = next(iter(counts))
        for word in known[:_MOST_COMMANDS]:
            answers.append(Answer(f"the same as '{word}'", ("--map", f"{text}={word}")))
    raise OpenTableError(
        f"{names} has {len(counts)} words that are no {what}: {listed}", where, answers
    )


def _ask_for_words(raws: Mapping[str, Raw], where: str) -> Any:
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
    few = all(len(words) <= _MOST_LEVELS for words in levels)
    if few and len(levels) > 1 and len({len(words) for words in levels}) == 1:
        first, *rest = levels
        for offset in range(min(len(first), _MOST_COMMANDS)):
            pairs = [
                f"{text}={first[(index + offset) % len(first)]}"
                for words in rest
                for index, text in enumerate(words)
            ]
            options = tuple(o for pair in pairs for o in ("--map", pair))
            answers.append(Answer(", ".join(pairs[:4]), options))
    elif few:
        first, *rest = levels
        none = tuple(
            o
            for words in (rest or [first])
            for text in words
            if text not in first or not rest
            for o in ("--map", f"{text[:60]}={first[0]}")
        )
        answers.append(Answer("for example", none))
    raise OpenTableError(
        f"the raters use different words: {'; '.join(parts)}", where, answers
    )
