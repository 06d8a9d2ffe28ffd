"""Scores: numbers of all raters on one scale, or on several, of which only the order is
compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from evalkit.interop.import_settings import guessed_scale
from evalkit.interop.layouts.judgment_files import number
from evalkit.interop.tables.column_types import (
    DATE,
    TypedColumn,
    denominators,
    is_date,
)
from evalkit.interop.tables.questions import Answer, OpenTableError, command
from evalkit.interop.tables.rater_levels import Raw, Space, unread_words
from evalkit.interop.tables.word_questions import MOST_LEVELS, ask_for_unread
from evalkit.interop.tables.words import (
    fold,
    matches,
    ordered,
    polarity,
    tokens,
    word_group,
)

_CODE: Final = re.compile(r"-?(?:9+|88+|77+|98|999?8)(?:\.0+)?")
"""Numbers that surveys write for no answer."""
# A code is rare; a level in more cells is a score.
_RARE: Final = 0.25
_OPTIONS: Final = word_group("option")
_CODES: Final = word_group("code")
"""Words of the names of columns with numbers of classes."""
_PREDICTED: Final = word_group("predicted")
"""Words of the names of columns of classifiers."""
_NEAR: Final = 0.25
"""Two raters use one scale if their ends differ by at most this share of it."""


def score_space(
    raws: Mapping[str, Raw],
    judges: Mapping[str, TypedColumn],
    labels: Mapping[str, TypedColumn],
    where: str,
) -> Space | None:
    """Return the space of scores if all raters give numbers, some of them other than 0 and 1."""
    values: dict[str, dict[str, Any]] = {}
    for name, raw in raws.items():
        mapped = {text: number(meaning) for text, meaning in raw.mapped.items()}
        # A mapped word without a number, or words without numbers, are no scores.
        if None in mapped.values() or not (raw.column.is_numeric or mapped):
            return None
        values[name] = {**mapped}
        values[name] |= {
            text: raw.column.numbers[text]
            for text in raw.words
            if text in raw.column.numbers
        }
    # All numbers of all raters: 0 and 1 alone, or -1 and 1, are classes or winners.
    distinct = {value for levels in values.values() for value in levels.values()}
    # 1% or 1/5 are scores even if no other levels occur.
    if (distinct <= {0.0, 1.0} or distinct == {-1.0, 1.0}) and all(
        raw.column.unit == "number" for raw in raws.values()
    ):
        return None
    space = Space("response", values)
    unread = unread_words(space, raws)
    words = []
    for name, text in unread:
        if is_date(text):
            # A program that opens the table may have turned 1-2 into a date.
            space.missing.setdefault(name, {})[text] = DATE
        else:
            words.append((name, text))
    if words:
        ask_for_unread(words, raws, "numbers", where, ())
    _check_codes(space, raws, where)
    _check_numbers_of_options(raws, where)
    # The scale is set last, because codes would widen it.
    _set_scale(space, raws, judges, labels)
    return space


def _check_codes(space: Space, raws: Mapping[str, Raw], where: str) -> None:
    """Ask whether a number such as 99 or -9, far from all scores, is a code for no verdict.

    Raises:
        OpenTableError: If a rater has one, unless the user mapped it.
    """
    for name, raw in raws.items():
        levels = {
            text: space.values[name][text]
            for text in raw.words
            if text in space.values[name]
        }
        # A number such as 99 is a code only if it is far from all other numbers.
        codes = [text for text in levels if _CODE.fullmatch(text.strip())]
        scores = [value for text, value in levels.items() if text not in codes]
        if not codes or len(scores) < 2:
            continue
        span = max(scores) - min(scores)
        far = [
            text
            for text in codes
            # Far: outside the range of the scores by more than half of it.
            if not min(scores) - span / 2 <= levels[text] <= max(scores) + span / 2
        ]
        if not far or sum(raw.words[text] for text in far) > _RARE * raw.total:
            continue
        answers = [
            Answer(
                "no verdict",
                tuple(o for text in far for o in ("--map", f"{name}:{text}=NONE")),
            ),
            Answer(
                "a score",
                tuple(o for text in far for o in ("--map", f"{name}:{text}={text}")),
            ),
        ]
        count = sum(raw.words[text] for text in far)
        problem = (
            f"'{name}' has {', '.join(far)} in {count} cells and otherwise {min(scores):g} to"
            f" {max(scores):g}: does it stand for no verdict?"
        )
        raise OpenTableError(problem, where, answers)


def _check_numbers_of_options(raws: Mapping[str, Raw], where: str) -> None:
    """Ask whether integers of columns such as `judge_best` are scores, or the numbers of options.

    Raises:
        OpenTableError: If all raters have such columns, unless the user mapped their numbers.
    """
    # One column named otherwise, or a mapped word, shows what the numbers are.
    if not raws or any(
        raw.mapped or not _names_options(name) for name, raw in raws.items()
    ):
        return
    levels = {text: None for raw in raws.values() for text in raw.words}
    values = {value for raw in raws.values() for value in raw.column.numbers.values()}
    # Two levels may be A and B; many levels or fractions are scores.
    if not 2 < len(values) <= MOST_LEVELS or not all(map(float.is_integer, values)):
        return
    names = ", ".join(f"'{name}'" for name in raws)
    options = any(not _OPTIONS.isdisjoint(tokens(name)) for name in raws)
    what = "option" if options else "class"
    kinds = f"{what}s" if options else "classes"
    answers = [
        Answer(
            kinds,
            tuple(o for text in levels for o in ("--map", f"{text}={what} {text}")),
        ),
        Answer(
            "scores", tuple(o for text in levels for o in ("--map", f"{text}={text}"))
        ),
    ]
    raise OpenTableError(
        f"{names} have integers: are they scores, or numbers of {kinds}?",
        where,
        answers,
    )


def _names_options(name: str) -> bool:
    named = _OPTIONS | _CODES
    parts = {*tokens(name)}
    is_predicted = bool(parts) and parts <= _PREDICTED
    return not matches(name, "value") and (is_predicted or not named.isdisjoint(parts))


def _set_scale(
    space: Space,
    raws: Mapping[str, Raw],
    judges: Mapping[str, TypedColumn],
    labels: Mapping[str, TypedColumn],
) -> None:
    """Set the scale that all raters use; without one, only order is compared."""
    ends = {name: _ends(space.values[name].values()) for name in raws}
    scales = {name: _scale(space.values[name].values(), raws[name]) for name in raws}
    bottoms_of_fractions = [_denominators(raw) for raw in raws.values()]
    if bottoms_of_fractions[0] and len({*bottoms_of_fractions}) == 1:
        # `0,5/5` next to `4/5`: the file states the scale.
        lowest = min(scale[0] for scale in scales.values())
        scales = {name: (lowest, *scale[1:]) for name, scale in scales.items()}
    # Stars are numbers on the same scale; percentages and fractions are not.
    units = {
        (raw.column.unit if raw.column.unit in ("percent", "fraction") else "number")
        for raw in raws.values()
    }
    # (lowest, highest) of each rater's scale, without the step.
    bottoms = {scale[:2] for scale in scales.values()}
    same = len(bottoms) == 1 and len(units | {"number"}) <= 2
    if same:
        low, high = next(iter(bottoms))
        span = high - low
        # The lowest and the highest value that each rater uses.
        lows = [end[0] for end in ends.values()]
        highs = [end[1] for end in ends.values()]
        near = _NEAR * span
        # Raters who use different parts of one range may be on two scales.
        same = max(lows) - min(lows) <= near and max(highs) - min(highs) <= near
        # No scale starts so high: a rater leaves the lower half of this one out.
        same = same or max(lows) >= low + span / 2
        same = same or not labels or "percent" in units or "fraction" in units
    # Labels of two values next to a judge of many are classes, whatever their numbers.
    two_classes = any(len(set(space.values[label].values())) == 2 for label in labels)
    graded = any(len(set(space.values[judge].values())) > 2 for judge in judges)
    if same and not (two_classes and graded):
        low, high = next(iter(bottoms))
        # The finest step of all raters.
        step = min(scale[2] for scale in scales.values())
        space.scale = (low, high, step)
        return
    # No common scale: numbers are compared by rank only.
    space.rubric = {"real": True}
    # The coarser scale is mapped to the finer one, which may be either side's.
    options = _mapping(space, labels, judges) or _mapping(space, judges, labels)
    space.notes.append(_two_scales(ends))
    if options:
        space.notes.append(f"{MAPPED}{command(options)}")


MAPPED: Final = (
    "to compare levels too, give each level its value on the other scale, for example: "
)
"""The note before the options that map one scale to another; `check` makes it a command."""
_MOST_LEVELS: Final = 11


def _mapping(
    space: Space, coarse: Mapping[str, TypedColumn], fine: Mapping[str, TypedColumn]
) -> list[str]:
    """Return the options that map the levels of a single rater to the scale of the
    others; empty if there are many.

    Either the ends of both scales are the same, or both grow in proportion if that meets more
    scores of the others. Neither is fitted, so levels can still differ.
    """
    # Levels of several raters would need a command for each.
    if len(coarse) != 1 or not fine:
        return []
    name = next(iter(coarse))
    levels = space.values[name]
    other_values = {value for rater in fine for value in space.values[rater].values()}
    low, high, _ = guessed_scale([*levels.values()])
    bottom, top, _ = guessed_scale([*other_values])
    # The finer scale must be the wider one.
    if not 2 <= len(levels) <= _MOST_LEVELS or top - bottom <= high - low:
        return []
    # The ratio of the lengths of both scales.
    slope = (top - bottom) / (high - low)
    # By ends: the lowest level is the lowest of the other scale, the highest its highest.
    by_ends = {text: bottom + slope * (level - low) for text, level in levels.items()}
    # By ratio: 2 of 5 is 4 of 10, and 0 stays 0.
    by_ratio = by_ends
    if high:
        by_ratio = {text: top * level / high for text, level in levels.items()}
    meets = [len(other_values & {*mapped.values()}) for mapped in (by_ends, by_ratio)]
    # The mapping that meets more of the values that the other raters give.
    best = by_ratio if meets[1] > meets[0] else by_ends
    return [
        word
        for text, value in sorted(best.items(), key=lambda item: item[1])
        for word in ("--map", f"{name}:{text}={value:g}")
    ]


def _two_scales(ends: Mapping[str, tuple[float, float]]) -> str:
    listed = ", ".join(
        f"'{name}' {low:g} to {high:g}" for name, (low, high) in ends.items()
    )
    return (
        f"scores and labels may be on different scales ({listed}): only their order is compared;"
        " if they share one, set rubric.real=false rubric.min and rubric.max"
    )


def _ends(values: Iterable[float]) -> tuple[float, float]:
    present = list(values) or [0.0]
    return min(present), max(present)


def _denominators(raw: Raw) -> frozenset[float]:
    """Return the denominators of a rater's fractions; nothing for other numbers."""
    if raw.column.unit != "fraction":
        return frozenset()
    return frozenset(denominators(raw.words))


def _scale(values: Iterable[float], raw: Raw) -> tuple[float, float, float]:
    present = list(values)
    low, high, step = guessed_scale(present)
    if raw.column.unit == "stars":
        # Stars go from 1, and to 5 unless there are more.
        low = 1.0
        high = max(5.0, high)
    if bottoms := _denominators(raw):
        high = max(bottoms)
        # A fraction such as 4/5 has the end in its denominator.
        low = min(low, 1.0)
    return low, high, step


def mixed_space(
    raws: Mapping[str, Raw],
    judges: Mapping[str, TypedColumn],
    labels: Mapping[str, TypedColumn],
) -> Space | None:
    """Return the space of scores against classes: numbers of some raters, two classes
    or ordered words of others.
    """
    if not judges or not labels:
        return None
    space = Space("response")
    notes = []
    meanings, _ = polarity()
    for name, raw in raws.items():
        numbers = {text: number(meaning) for text, meaning in raw.mapped.items()}
        mapped = {
            # pass and fail count as numbers next to a mapped number.
            text: {"pass": 1.0, "fail": 0.0}.get(meaning, numbers[text])
            for text, meaning in raw.mapped.items()
        }
        if None in mapped.values():
            return None
        column = raw.column
        values = {
            text: column.numbers[text] for text in raw.words if text in column.numbers
        }
        flags = {
            text: meanings[fold(text)] for text in raw.words if fold(text) in meanings
        }
        in_order = ordered(raw.words)
        # Each level is a number: the scores of the judge or of the labels.
        if len(values) == len(raw.words):
            space.values[name] = dict(values)
        elif in_order:
            # Words of a scale get their position in it, from 1.
            folded = [fold(word) for word in in_order]
            space.values[name] = {
                text: float(folded.index(fold(text)) + 1) for text in raw.words
            }
            notes.append(f"'{name}' is ordered: {' < '.join(in_order)}")
        # Words that all say pass or fail are 1 and 0.
        elif len(flags) == len(raw.words):
            space.values[name] = {
                text: 1.0 if meaning == "pass" else 0.0
                for text, meaning in flags.items()
            }
            notes.append(f"'{name}': pass is 1 and fail is 0")
        else:
            return None
        # What the user mapped wins.
        space.values[name] |= mapped
    space.rubric = {"real": True}
    space.notes = notes
    space.notes.append(
        "scores are compared with classes by their order (AUC); no bias follows from two scales"
    )
    return space
