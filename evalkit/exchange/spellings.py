"""How files spell a winner, a choice, or that there is none."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Any

from evalkit.datasets.labels import spelling
from evalkit.errors import DatasetError
from evalkit.parsing import UnreadableError, read_winner
from evalkit.types import Winner

NONE = "NONE"
_NOTHING = ("", "-1", "none", "null", "nan", "n/a", "error", "failed", "invalid", "invalid_judge", "unparseable")
_TIES = ("tie (bothbad)", "tie (inconsistent)", "both", "neither", "same", "equal", "c")
_FIRST = ("a", "model_a", "model_1", "response_a", "response_1", "output_1", "first", "left")
_SECOND = ("b", "model_b", "model_2", "response_b", "response_2", "output_2", "second", "right")


def winner_of(
    value: Any, names: tuple[str | None, str | None], known: Mapping[str, str] | None, place: str
) -> Winner | None:
    """Return the winner that a cell spells, none where it says that there is none.

    Args:
        value: the cell.
        names: the models of the first and the second response, which may be what it spells.
        known: the user's own spellings, to A, B, TIE or NONE; none where no option gives any.
        place: where it stands.

    Raises:
        DatasetError: if it spells something else.
    """
    if value is None:
        return None
    text = spelling(value)
    mapped = known is not None
    if known and text in known:
        return None if known[text] == NONE else _checked(known[text], place, mapped)
    if text in names and names[0] != names[1]:
        return "A" if text == names[0] else "B"
    folded = text.casefold()
    if folded in _NOTHING:
        return None
    if folded in _FIRST:
        return "A"
    if folded in _SECOND:
        return "B"
    if folded in _TIES:
        return "TIE"
    return _checked(text, place, mapped)


def _checked(text: str, place: str, mapped: bool) -> Winner:
    try:
        return read_winner(text)
    except UnreadableError:
        remedy = f"say what it means: --map {quote(f'{text}=A')} (or B, TIE, NONE)" if mapped else "write A, B or TIE"
        raise DatasetError(f"'{text[:60]}' is not a winner", where=place, remedy=remedy) from None
