"""Format numbers, amounts, paths and long texts for the terminal, the report and messages."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from evalkit.core.patterns import lazy_pattern
from evalkit.core.types import Metric

_NOT_XML = lazy_pattern("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 (section 2.2) does not allow."""

_SMALL = 0.0095
_BLANK = (
    "".join(char for char in map(chr, range(0x3001)) if char.isspace())
    + "\u115f\u1160\u2800\u3164\uffa0"
)
"""Spaces, and letters without ink."""


def shorten(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters; a shortened text ends with `…`."""
    if len(text) <= limit:
        return text
    return text[: limit - 1] + "…"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 case`, `2 cases`, `1,000 cases`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def slug(text: str) -> str:
    """Return a name for use in metrics: lower case, with `_` for anything but letters,
    digits, dots and dashes.
    """
    return re.sub(r"[^\w.-]+", "_", text.strip()).strip("_").lower()


def char_code(char: str) -> str:
    """Return a character's code as names of metrics show it, such as `_1b_`."""
    return f"_{ord(char):x}_"


def visible(text: str) -> str:
    """Return a text with control characters, line breaks and other invisible ones
    replaced by their codes.
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or unicodedata.category(character) == "Zs"
        else char_code(character)
        for character in text
    )


def letter(index: int) -> str:
    """Return the name of a case's response: A, B, …, Z, then its number."""
    if index < 26:
        return chr(ord("A") + index)
    return str(index + 1)


def one_line(text: str) -> str:
    """Return a name on one line: line breaks and spaces as one space, other invisible
    characters as their codes.
    """
    if text.isprintable():
        return text
    return visible(" ".join(text.split()))


def printable(text: str) -> str:
    """Return a text for a terminal or a page: line breaks and tabs stay, other control
    characters become `\ufffd`.
    """
    if text.isprintable():
        return text
    return _CONTROL.sub("\ufffd", text)


_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029"
    "\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]"
)
"""C0 and C1 controls, and marks that change the direction of text; a carriage return hides a
line."""


def xml_text(text: str) -> str:
    """Return a text with a replacement for each character that XML does not allow, not even
    escaped.
    """
    return _NOT_XML.sub("�", text)


def visible_names(
    names: Iterable[str], form: Callable[[str], str] = visible
) -> dict[str, str]:
    """Return each name in a form for metrics and texts, in order.

    A form that another name has gets a number.

    Args:
        names: distinct names.
        form: the form; names that are their own form keep it.
    """
    ordered = list(names)
    # Names that are shown as they are come first: no other name may get their form.
    taken = {name for name in ordered if form(name) == name}
    forms = {}
    for name in ordered:
        candidate = form(name)
        number = 2
        while candidate != name and candidate in taken:
            candidate = f"{form(name)}_{number}"
            number = number + 1
        taken.add(candidate)
        forms[name] = candidate
    return forms


def quoted(text: str) -> str:
    """Return a text in quotation marks if they are needed to see where it begins and
    ends, otherwise as it is.
    """
    if text and text.strip(_BLANK) == text:
        return text
    return f"“{text}”"


def relative(path: Path) -> Path:
    """Return a path relative to the current folder if it is inside, else the path itself."""
    here = Path.cwd()
    if path.is_relative_to(here):
        return path.relative_to(here)
    return path


def fixed(value: float, digits: int) -> str:
    """Return a number with `digits` decimals, halves rounded away from 0 (0.695 is 0.70
    and 70%); 0 has no sign.
    """
    if not math.isfinite(value):
        return f"{value}"
    # Rounded to nine digits first: 0.695 may be stored as 0.69499999999999995.
    rounded = Decimal(repr(round(value, 9))).quantize(
        Decimal(1).scaleb(-digits), ROUND_HALF_UP
    )
    return f"{rounded + 0 if rounded else abs(rounded):,.{digits}f}"


def number(value: float | None, *, signed: bool = False) -> str:
    """Return a number for a terminal table: three decimals, none for an integer of 2 or
    more, `–` for `None`.
    """
    if value is None:
        return "–"
    if float(value).is_integer() and abs(value) >= 2:
        return f"{value:{'+' if signed else ''}.0f}"
    text = fixed(value, 3)
    if not signed or text.startswith("-"):
        return text
    return f"+{text}"


def p_value(p: float | None, equals: str = "") -> str:
    """Return a p-value with three decimals after `equals`, or as `< 0.001`; an empty
    text for `None`.
    """
    if p is None:
        return ""
    if p < 0.001:
        return "< 0.001"
    return f"{equals}{p:.3f}"


def exact(value: float | None) -> str:
    """Return a number for a report table: three decimals, none for an integer, two
    significant digits if small.
    """
    if value is None:
        return ""
    if 0 < abs(value) < _SMALL:
        return f"{value:.2g}"
    if float(value).is_integer():
        return f"{value:,.0f}"
    return fixed(value, 3)


def span(low: float, high: float) -> str:
    """Return an interval as `[0.380, 0.660]`; both ends have the same decimals unless
    both are small.
    """
    if 0 < high < _SMALL:
        return f"[{low:.2g}, {high:.2g}]"
    digits = 0 if float(low).is_integer() and float(high).is_integer() else 3
    return f"[{fixed(low, digits)}, {fixed(high, digits)}]"


def brief(value: float, metric: Metric) -> str:
    """Return a number in a metric's units, with decimals for three significant digits
    of the metric's value.
    """
    size = abs(metric.value or 0.0)
    if 0 < size < 0.01:
        return f"{value:,.5f}"
    if size < 10:
        return f"{value:,.3f}"
    return f"{value:,.1f}"


def estimate(
    value: float | None,
    low: float | None,
    high: float | None,
    show: Callable[[float], str],
    unit: str = "",
) -> str:
    """Return a value with its interval, as `52% [38, 66]`.

    Without an interval it is alone; without a value it is `-`.

    Args:
        value: The value.
        low: The lower end of its interval.
        high: The upper end of its interval.
        show: Formats a number.
        unit: The unit after the value.
    """
    if value is None:
        return "-"
    ends = "" if low is None or high is None else f" [{show(low)}, {show(high)}]"
    return f"{show(value)}{unit}{ends}"


def interval(metric: Metric, digits: int = 2) -> str:
    """Return a metric's value with its interval, as `0.52 [0.38, 0.66]`."""
    return estimate(
        metric.value, metric.low, metric.high, lambda value: fixed(value, digits)
    )


def with_interval(metric: Metric, *, signed: bool = False) -> str:
    """Return the value of a metric and its interval in brackets, if it has one."""
    value = number(metric.value, signed=signed)
    if metric.low is None or metric.high is None:
        return value
    return f"{value} [{number(metric.low, signed=signed)}, {number(metric.high, signed=signed)}]"


def percent(metric: Metric) -> str:
    """Return a rate with its interval, as `52% [38, 66]`; next to 0% and 100% with decimals."""
    digits = _percent_digits(metric.value)
    return estimate(
        metric.value,
        metric.low,
        metric.high,
        lambda value: fixed(100 * value, digits),
        "%",
    )


def _percent_digits(value: float | None) -> int:
    """Return the decimals of a percentage, so that no rate is 0% or 100% that is not."""
    if value is None:
        return 0
    # The distance to the nearer end, in percent.
    gap = 100 * min(value, 1 - value)
    if gap <= 0 or gap >= 0.5:
        return 0
    if gap >= 0.05:
        return 1
    return 2


def points(metric: Metric, *, absolute: bool = False) -> str:
    """Return a difference of rates with its interval in percentage points, as `-12 [-20, -4]`.

    Args:
        metric: The metric.
        absolute: Whether its sign is said in words: then a negative one is shown as `12 [4, 20]`.
    """
    value = metric.value
    low = metric.low
    high = metric.high
    if absolute and value is not None and value < 0:
        value = -value
        # the ends change places
        low = None if metric.high is None else -metric.high
        high = None if metric.low is None else -metric.low
    return estimate(value, low, high, _hundredths)


def _hundredths(value: float) -> str:
    return fixed(100 * value, 0)


def dollars(amount: float) -> str:
    """Format an amount in USD, as `$12.50`; below a dollar with two significant digits,
    as `$0.0000072`.
    """
    if amount == 0:
        return "$0"
    decimals = 2 if abs(amount) >= 1 else 1 - math.floor(math.log10(abs(amount)))
    whole, _, cents = f"{amount:,.{decimals}f}".partition(".")
    return f"${whole}.{cents[:2]}{cents[2:].rstrip('0')}"
