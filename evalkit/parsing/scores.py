"""Read scores and winners, and the error of all readers."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Literal

from evalkit.core.classes import Classes
from evalkit.core.scale import Scale
from evalkit.parsing.plain_text import to_half_width
from evalkit.types import Winner

Kind = Literal["empty", "truncated", "no_answer", "ambiguous", "invalid", "logprobs", "refusal", "content_filter"]


class UnreadableError(Exception):
    """A judge's text has no usable answer; it becomes the status of a judgment and is never shown to the user.

    Args:
        kind: The kind of problem.
        reason: The problem in one line that can be shown to the judge.
    """

    def __init__(self, kind: Kind, reason: str) -> None:
        self.kind, self.reason = kind, " ".join(reason.split())
        super().__init__(self.reason)


_DIGITS = MappingProxyType(
    {numeral: str(value) for value, numeral in enumerate("零一二三四五六七八九")} | {"〇": "0", "两": "2"}
)
_ONES = "一二两三四五六七八九"
_CHINESE = re.compile(
    rf"(?:(?P<hundred>一百)|(?P<tens>[{_ONES}]?十)?(?P<ones>[{_ONES}零〇])?)(?:点(?P<decimals>[{_ONES}零〇]+))?"
)
_NUMERAL = f"[{_ONES}零〇十百]"
_OUT_OF = r"[ \t]*(?:/|out of)[ \t]*\d+(?:\.\d+)?"
_RANGE = "[-~–—]"
_LONGEST = 64  # characters of a number and of its context
_BEFORE = re.compile(rf"(?:\d[\d.,]*{_RANGE}?|(?<![\w)\]])[+-]|{_NUMERAL}+点?)\Z")
_AFTER = re.compile(rf"点?{_NUMERAL}+|(?:[.,]?\d)*(?:[%¼½¾²³]|{_RANGE}\d[\d.]*|{_OUT_OF})?", re.IGNORECASE)
_BASE = re.compile(_OUT_OF, re.IGNORECASE)


def chinese_number(text: str) -> float | None:
    """Return the value of a Chinese numeral from 零 to 一百, with decimals after 点; `None` if it is not one."""
    match = _CHINESE.fullmatch(text)
    if match is None or not (match["hundred"] or match["tens"] or match["ones"]):
        return None
    if match["tens"] and match["ones"] in ("零", "〇"):
        return None
    tens = 10 if match["hundred"] else int(_DIGITS[match["tens"][0]]) if match["tens"] and match["tens"] != "十" else 0
    whole = 10 * (tens or (1 if match["tens"] else 0)) + int(_DIGITS[match["ones"] or "零"])
    return float(f"{whole}.{''.join(_DIGITS[digit] for digit in match['decimals'] or '零')}")


def extent(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of the complete number that contains `text[start:end]`.

    For 1 in "10" it is 10, for 8 in "8/10" it is 8/10, and for 3 in "3-4" it is the range. The span of a text without
    a number is unchanged.
    """
    if not re.search(rf"\d|{_NUMERAL}", text[start:end]):
        return start, end
    skipped = max(0, start - _LONGEST)
    before = _BEFORE.search(text[skipped:start]) if re.match(rf"\d|{_NUMERAL}", text[start:end]) else None
    after = _AFTER.match(text, end, end + _LONGEST) if re.search(rf"(?:\d|{_NUMERAL})\Z", text[start:end]) else None
    return skipped + before.start() if before else start, after.end() if after else end


def with_base(text: str, end: int) -> int:
    """Return the end of "/5" or "out of 5" at `end`; `end` if there is none."""
    match = _BASE.match(text, end)
    return match.end() if match else end


_NUMBER = r"[+-]?\d+(?:\.\d+)?"
_WRITTEN = re.compile(
    rf"(?P<score>{_NUMBER})\s*(?:(?:/|out of)\s*(?P<of>{_NUMBER})|(?P<percent>%))?"
    r"\s*(?:分|星|points?|stars?)?\s*[.。]?",
    re.IGNORECASE,
)


def read_score(value: object, scale: Scale) -> float:
    """Return a score written as a number or as text such as `4`, `3.5/5`, `４`, `4分` or `四分`, in scale units.

    Raises:
        UnreadableError: If it has no such form, its denominator is not the scale's maximum, or it is off the scale.
    """
    if isinstance(value, str):
        value = _spelt(value, scale)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnreadableError("invalid", f"{value!r:.60} is not a score: write a number on the scale {scale.name()}")
    # Checked before the conversion: an integer can be too large for a float.
    if not scale.contains(value):
        raise UnreadableError("invalid", f"{value!s:.60} is not on the scale {scale.name()}")
    return float(value) + 0.0


def _spelt(text: str, scale: Scale) -> float:
    plain = to_half_width(text).strip().strip("*")
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
        raise UnreadableError("invalid", f"'{plain[:60]}' is not a score out of {scale.text(scale.max)}")
    return float(written["score"])


def read_class(value: object, classes: Classes) -> str:
    """Return the class, or the abstention, if a value is a text that contains only its name, in any case.

    Raises:
        UnreadableError: If it is anything else; the nearest name is never chosen.
    """
    found = classes.find(value) if isinstance(value, str) else None
    if found is None:
        shown = value.strip() if isinstance(value, str) else repr(value)
        raise UnreadableError("invalid", f"'{shown[:60]}' is not a class: write one of {', '.join(classes.answers)}")
    return found


_TIES = ("TIE", "TIED", "DRAW", "EQUAL", "平局", "平手", "打平", "持平")
_SPELLINGS = MappingProxyType({"A": "A", "B": "B"} | dict.fromkeys(_TIES, "TIE"))
_TITLE = re.compile(
    r"\A(?:(?:THE )?(?:RESPONSE|ASSISTANT|ANSWER|OUTPUT)[ _]?|响应|回答|回复|答案)\(?(?P<letter>[AB])\)?\Z"
)


def read_winner(text: str) -> Winner:
    """Return the winner if a text contains only a winner, such as `A`, `tie`, `Response B` or `平局`.

    Raises:
        UnreadableError: If it does not.
    """
    spelt = to_half_width(text).strip().strip("\"'`*.。").strip().upper()
    titled = _TITLE.match(spelt)
    winner = _SPELLINGS.get(titled["letter"].strip() if titled else spelt)
    if winner is None:
        raise UnreadableError("invalid", f"'{text.strip()[:60]}' is not a winner: write A, B, or TIE")
    return "A" if winner == "A" else "B" if winner == "B" else "TIE"
