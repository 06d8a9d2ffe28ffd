"""One sentence on one metric, and the words that numbers take in it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from evalkit.scoring.chance_level import Side, known, side
from evalkit.types import Metric

__all__ = ["Finding", "Metrics", "Side", "Tone", "as_markdown", "dollars", "interval", "known", "percent", "side"]

Tone: TypeAlias = Literal["good", "bad", "warn", "info"]
Metrics: TypeAlias = Mapping[str, Metric]
_MARKS = re.compile(r"[\\`<\[\]*_!]")


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence on one metric, in English and Chinese; `tone` is how good the news is."""

    metric: str
    tone: Tone
    text: str
    text_zh: str


def interval(metric: Metric, digits: int = 2) -> str:
    """Return a metric's value with its interval, as `0.52 [0.38, 0.66]`."""
    if metric.value is None:
        return "-"
    value = _fixed(metric.value, digits)
    if metric.low is None or metric.high is None:
        return value
    return f"{value} [{_fixed(metric.low, digits)}, {_fixed(metric.high, digits)}]"


def _fixed(value: float, digits: int) -> str:
    """Return a number with so many digits, and 0 without a sign."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def percent(metric: Metric) -> str:
    """Return a rate with its interval, as `52% [38, 66]`."""
    if metric.value is None:
        return "-"
    value = f"{100 * metric.value:.0f}%"
    if metric.low is None or metric.high is None:
        return value
    return f"{value} [{100 * metric.low:.0f}, {100 * metric.high:.0f}]"


def dollars(amount: float) -> str:
    """Return a sum in words, as `US$ 12.50`; of less than a dollar two figures, as `US$ 0.0000072`."""
    if amount == 0:
        return "US$ 0"
    places = 2 if abs(amount) >= 1 else 1 - math.floor(math.log10(abs(amount)))
    whole, _, cents = f"{amount:,.{places}f}".partition(".")
    return f"US$ {whole}.{cents[:2]}{cents[2:].rstrip('0')}"


def as_markdown(text: str) -> str:
    """Return a text on one line of Markdown, without links, images or HTML: names in it come from the data."""
    return _MARKS.sub(r"\\\g<0>", " ".join(text.split()))
