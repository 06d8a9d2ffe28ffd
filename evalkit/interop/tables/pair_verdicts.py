"""Winners of pairs: words, comparisons, signed numbers, and the names of systems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from evalkit.interop.tables.rater_levels import Raw, Space, unread_words
from evalkit.interop.tables.word_questions import (
    MOST_LEVELS,
    ask_for_numbers,
    ask_for_pair_words,
    ask_for_sides,
)
from evalkit.interop.tables.words import fold, named_by_side, tie_kind

POSITIONS: Final = ("FIRST", "SECOND")
"""The meanings of words for the response shown first and second."""
WINNERS: Final = frozenset({"A", "B", "TIE"})
SYSTEM: Final = "SYSTEM"
"""The meaning of words that name a system of their row, which may be on either side."""
SIGNED: Final = (
    "negative numbers are read as preferring B and positive ones as preferring A;"
    " the other way around: --map"
)
_FLIPPED: Final = {"A": "B", "B": "A", "TIE": "TIE"}
SIGNED_FIRST: Final = (
    "negative numbers are read as preferring A, "
    "as in HelpSteer; the other way around: --map"
)


def pair_space(
    raws: Mapping[str, Raw],
    systems: Counter[str],
    meanings: set[str],
    where: str,
    *,
    compared: bool,
) -> Space | None:
    """Return the space of winners if all raters name them."""
    space = Space("pair")
    signed: set[float] = set()
    for name, raw in raws.items():
        mapped = {*raw.mapped.values()}
        if not mapped <= {*WINNERS, *POSITIONS, SYSTEM}:
            return None
        values: dict[str, Any] = {**raw.mapped}
        column = raw.column
        if raw.words and column.is_numeric and column.share(column.numbers) == 1:
            numbers = {text: column.numbers[text] for text in raw.words}
            signed |= set(numbers.values())
            if not compared and not any(value < 0 for value in numbers.values()):
                return None
            values |= _signed(numbers)
        else:
            values |= _named_systems(raw, systems, where)
            for text in raw.words:
                if text in column.pairs:
                    values.setdefault(text, column.pairs[text])
            if compared:
                values |= _by_side(raw, values)
        space.values[name] = values
    # Words of some rater name systems, which may be on either side.
    space.by_row = any(SYSTEM in values.values() for values in space.values.values())
    names_winners = space.by_row or _names_winners(raws, meanings)
    if not compared and not names_winners:
        return None
    if not _is_read(space, raws, where, compared=compared):
        return None
    if signed:
        _read_signs(space, raws, signed, where)
    ties = _kinds_of_ties(raws)
    if ties:
        listed = ", ".join(
            f"{'both good' if kind == 'tie_good' else 'both bad'}: {count}"
            for kind, count in sorted(ties.items(), reverse=True)
        )
        space.notes.append(f"ties of different kinds are read as ties ({listed})")
    return space


def _named_systems(raw: Raw, systems: Counter[str], where: str) -> dict[str, str]:
    """Return the words of a rater that name systems.

    They come first: `m2` is a system before it is the second response.

    Raises:
        OpenTableError: If words name both a system and a side.
    """
    names = [text for text in raw.words if fold(text) in systems]
    pairs = raw.column.pairs
    by_side = {text: pairs[text] for text in names if text in pairs}
    # Counted once for each side: such a system is on either side.
    rotate = all(systems[fold(text)] > 1 for text in names)
    both = {*by_side.values()} == {"A", "B"} and not raw.mapped
    if rotate and both and len(systems) == len(by_side):
        ask_for_sides(by_side, where)
    return dict.fromkeys(names, SYSTEM)


def _is_read(
    space: Space, raws: Mapping[str, Raw], where: str, *, compared: bool
) -> bool:
    """Return whether most verdicts are winners; without pairs, nearly all must be.

    Raises:
        OpenTableError: If it is open what the others mean.
    """
    total = 0
    read = 0
    for name, raw in raws.items():
        total += raw.total
        values = space.values[name]
        read += sum(count for text, count in raw.words.items() if text in values)
    if not compared and read < 0.8 * total:
        return False
    unread = unread_words(space, raws)
    if unread and read < 0.5 * total:
        return False
    if any(_states(raw, space.values[name]) for name, raw in raws.items()):
        return False
    if unread:
        if not compared and not space.by_row:
            return False
        ask_for_pair_words(unread, raws, where)
    return True


def _read_signs(
    space: Space, raws: Mapping[str, Raw], signed: set[float], where: str
) -> None:
    """Read which numbers prefer A: 1 of 1 and 2, or those of one sign.

    Raises:
        OpenTableError: If there are other positive numbers only.
    """
    if signed <= {1.0, 2.0}:
        for name, raw in raws.items():
            for text in raw.words:
                if text in raw.column.numbers:
                    is_first = raw.column.numbers[text] == 1
                    space.values[name][text] = "A" if is_first else "B"
        space.notes.append("1 and 2 are read as the first and the second response")
        return
    if not any(value < 0 for value in signed):
        ask_for_numbers(signed, raws, where)
    strength = any("strength" in name or "preference" in name for name in raws)
    wide = any(abs(value) > 1 for value in signed)
    if not (strength and wide):
        space.notes.append(SIGNED)
        return
    space.notes.append(SIGNED_FIRST)
    for name, raw in raws.items():
        values = space.values[name]
        for text in raw.words:
            if text in raw.column.numbers:
                values[text] = _FLIPPED[values[text]]


def _kinds_of_ties(raws: Mapping[str, Raw]) -> Counter[str]:
    """Return the number of ties of two good and of two bad responses."""
    kinds = Counter[str]()
    for raw in raws.values():
        for text, count in raw.words.items():
            kind = tie_kind(text)
            if kind in ("tie_good", "tie_bad"):
                kinds[kind] += count
    return kinds


def _by_side(raw: Raw, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the winners of words that name a side within a name, or by 1 and 2 next to
    words for ties.
    """
    unread = [text for text in raw.words if text not in values]
    if len(raw.words) > MOST_LEVELS:
        return {}
    if {text.strip() for text in unread} == {"1", "2"} and set(values.values()) <= {
        "TIE"
    }:
        return {text: "A" if text.strip() == "1" else "B" for text in unread}
    return named_by_side(unread)


def _states(raw: Raw, values: Mapping[str, Any]) -> bool:
    """Return whether a rater's verdicts are stated in texts rather than words."""
    words = sum(count for text, count in raw.words.items() if text in values)
    return words < 0.5 * raw.total and bool(raw.column.stated)


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
        whole = raw.words and all(len(word) > 1 for word in words)
        if whole and raw.column.kind == "pair":
            return True
    return any(
        raw.column.is_numeric
        and any(value < 0 for value in raw.column.distinct_numbers)
        and any(word in name.casefold() for word in ("prefer", "winner", "better"))
        for name, raw in raws.items()
    )
