"""Figures of a sweep: metrics by configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log10

from evalkit.core.types import Metric
from evalkit.report.figures.drawing import (
    Figure,
    label_width,
)
from evalkit.report.figures.forest import Row, bounds, forest_figure
from evalkit.report.texts import metric_words
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.leaderboard import Standing

MOST_ROWS = 80
LEFT = 390.0


def by_metric(
    name: str, rows: Sequence[Standing], names: Mapping[str, str]
) -> Figure | None:
    """Return one metric of every configuration, in the order of the leaderboard."""
    measured = [
        (row, metric)
        for row in rows[:MOST_ROWS]
        if (metric := row.metrics.get(name)) and metric.value is not None
    ]
    if not measured:
        return None
    spec = CATALOG[name]
    if spec.high is None and spec.low == 0:
        digits = _digits([metric for _, metric in measured])
    else:
        digits = 2
    elements = [
        Row((names[row.job],) * 2, metric, CATALOG.chance(name), digits=digits)
        for row, metric in measured
    ]
    least, most = bounds(elements)
    low = least if spec.low is None else spec.low
    high = most if spec.high is None else spec.high
    if low == -1 and all(
        (element.metric.low or element.metric.value or 0) >= 0 for element in elements
    ):
        low = 0.0
    title = metric_words(name)
    names_width = label_width((names[row.job] for row in rows), 28.0, LEFT)
    return forest_figure(
        name.replace("/", "-"), (title, ("", "")), elements, low, high, names_width
    )


def _digits(metrics: Sequence[Metric]) -> int:
    largest = max((metric.value or 0.0 for metric in metrics), default=0.0)
    if largest > 0:
        return max(2, 2 - floor(log10(largest)))
    return 2
