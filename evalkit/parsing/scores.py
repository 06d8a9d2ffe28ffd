"""One spelling of a score, read as a value of the scale."""

from __future__ import annotations

import re

from evalkit.parsing.numbers import chinese_number
from evalkit.parsing.thinking import half_width
from evalkit.parsing.unreadable import UnreadableError
from evalkit.scales import Scale

_NUMBER = r"[+-]?\d+(?:\.\d+)?"
_WRITTEN = re.compile(
    rf"(?P<score>{_NUMBER})\s*(?:(?:/|out of)\s*(?P<of>{_NUMBER})|(?P<percent>%))?"
    r"\s*(?:分|星|points?|stars?)?\s*[.。]?",
    re.IGNORECASE,
)


def read_score(value: object, scale: Scale) -> float:
    """Return a score that is written as a number or spelt as `4`, `3.5/5`, `４`, `4分` or `四分`, in scale units.

    Raises:
        UnreadableError: if it is no such spelling, is out of another number than the scale's maximum, or is off it.
    """
    if isinstance(value, str):
        value = _spelt(value, scale)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnreadableError("invalid", f"{value!r:.60} is not a score: write a number on the scale {scale.name()}")
    # Before it is made a float: an integer may be beyond all floats.
    if not scale.contains(value):
        raise UnreadableError("invalid", f"{value!s:.60} is not on the scale {scale.name()}")
    return float(value) + 0.0


def _spelt(text: str, scale: Scale) -> float:
    plain = half_width(text).strip().strip("*")
    numeral = chinese_number(re.sub(r"[分。]*\Z", "", plain))
    if numeral is not None:
        return numeral
    written = _WRITTEN.fullmatch(plain)
    if written is None:
        raise UnreadableError(
            "invalid", f"'{text.strip()[:60]}' is not a score: write a number on the scale {scale.name()}"
        )
    base = 100.0 if written["percent"] else float(written["of"] or scale.max)
    if base != scale.max:
        raise UnreadableError("invalid", f"'{plain[:60]}' is not out of {scale.text(scale.max)}")
    return float(written["score"])
