"""A finding: one sentence on one metric in every language, and what modules of findings share."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal, TypeAlias

from evalkit.core.display import interval, percent, points, visible
from evalkit.core.translation import Message, Text, in_every_language
from evalkit.core.types import Metric
from evalkit.core.values import Json, frozen
from evalkit.scoring.decision import BALANCED, Metrics

Tone: TypeAlias = Literal["good", "bad", "warn", "info"]

_MARKS = re.compile(r"[\\`<\[\]*_!]")


@frozen
class Finding:
    """One sentence on one metric, in English and Chinese; `tone` says whether it is
    good or bad news.
    """

    metric: str
    tone: Tone
    text: str
    text_zh: str


@frozen
class RunFacts:
    """What findings read of a run, in addition to its metrics.

    Attributes:
        mode: Its mode.
        positive: The positive class, if there is one.
        details: The content of the run folder's detail files, by name.
        confidence: The confidence of its intervals.
    """

    mode: str
    positive: str | None
    details: Json
    confidence: float


def finding(metric: str | Metric, tone: Tone, text: Message) -> Finding:
    """Return a finding in every language; the text on a metric can name its `rate`,
    `value`, `points` and `n`.
    """
    if isinstance(metric, Metric) and isinstance(text, Text):
        values = {
            "rate": percent(metric),
            "value": interval(metric),
            "points": points(metric),
            "n": metric.n,
        }
        text = replace(text, values={**values, **text.values})
    return Finding(
        metric.name if isinstance(metric, Metric) else metric,
        tone,
        *map(visible, in_every_language(text)),
    )


def as_markdown(text: str) -> str:
    """Return a text on one line of Markdown, without links, images or HTML, which names
    from the data can have.
    """
    return _MARKS.sub(r"\\\g<0>", " ".join(text.split()))


LONGEST = 39
"""The most words of a sentence that people act on."""
NAMED = 5
"""The most systems to name where several may be the best."""


def has_classes(metrics: Metrics) -> bool:
    """Return whether the metrics are those of a judge that chooses classes."""
    return BALANCED in metrics


def class_names(metrics: Metrics) -> list[str]:
    """Return the names of the classes, in the order of the config."""
    return [
        name[len("class/") : -len("/rate")]
        for name in metrics
        if name.startswith("class/") and name[-5:] == "/rate"
    ]
