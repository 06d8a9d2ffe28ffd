"""Numbers in running text: Chinese numerals, and where a number begins and ends."""

from __future__ import annotations

import re
from types import MappingProxyType

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
_LONGEST = 64  # characters of a number, and of what is around it
_BEFORE = re.compile(rf"(?:\d[\d.,]*{_RANGE}?|(?<![\w)\]])[+-]|{_NUMERAL}+点?)\Z")
_AFTER = re.compile(rf"点?{_NUMERAL}+|(?:[.,]?\d)*(?:[%¼½¾²³]|{_RANGE}\d[\d.]*|{_OUT_OF})?", re.IGNORECASE)
_BASE = re.compile(_OUT_OF, re.IGNORECASE)


def chinese_number(text: str) -> float | None:
    """Return the number that a Chinese numeral from 零 to 一百 spells, or one with decimals after 点; else none."""
    match = _CHINESE.fullmatch(text)
    if match is None or not (match["hundred"] or match["tens"] or match["ones"]):
        return None
    if match["tens"] and match["ones"] in ("零", "〇"):
        return None
    tens = 10 if match["hundred"] else int(_DIGITS[match["tens"][0]]) if match["tens"] and match["tens"] != "十" else 0
    whole = 10 * (tens or (1 if match["tens"] else 0)) + int(_DIGITS[match["ones"] or "零"])
    return float(f"{whole}.{''.join(_DIGITS[digit] for digit in match['decimals'] or '零')}")


def extent(text: str, start: int, end: int) -> tuple[int, int]:
    """Return where the whole number begins and ends of which `text[start:end]` is written.

    1 of "10" is 10, 8 of "8/10" is 8/10 and 3 of "3-4" is a range; a text without any number stays as it is.
    """
    if not re.search(rf"\d|{_NUMERAL}", text[start:end]):
        return start, end
    skipped = max(0, start - _LONGEST)
    before = _BEFORE.search(text[skipped:start]) if re.match(rf"\d|{_NUMERAL}", text[start:end]) else None
    after = _AFTER.match(text, end, end + _LONGEST) if re.search(rf"(?:\d|{_NUMERAL})\Z", text[start:end]) else None
    return skipped + before.start() if before else start, after.end() if after else end


def with_base(text: str, end: int) -> int:
    """Return where "/5" or "out of 5" ends, if it stands at `end`, else `end`."""
    match = _BASE.match(text, end)
    return match.end() if match else end
