"""Findings: one sentence on one metric, in every language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from evalkit.core.translation import Message, in_every_language
from evalkit.scoring.chance_level import Side, known, side
from evalkit.types import Metric

__all__ = [
    "Finding",
    "Metrics",
    "Side",
    "Tone",
    "as_markdown",
    "finding",
    "known",
    "side",
]

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


def finding(metric: str, tone: Tone, text: Message) -> Finding:
    """Return a finding in every language."""
    return Finding(metric, tone, *in_every_language(text))


def as_markdown(text: str) -> str:
    """Return a text on one line of Markdown, without links, images or HTML: names in it come from the data."""
    return _MARKS.sub(r"\\\g<0>", " ".join(text.split()))
