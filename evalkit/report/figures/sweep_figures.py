"""Figures of a sweep: metrics by configuration, and significant differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log10

from markupsafe import Markup

from evalkit.core.display import p_value, shorten
from evalkit.core.types import Metric
from evalkit.report.figures.drawing import (
    Figure,
    figure,
    hint,
    label_width,
    node,
    text,
)
from evalkit.report.figures.forest import Row, bounds, forest_figure
from evalkit.report.texts import metric_words
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.leaderboard import Contrast, Standing

MOST_ROWS, MOST_SQUARES, LARGE = 80, 80, 30
SIDE, MARGIN, LEFT = 20.0, 390.0, 390.0


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


def significance_groups(
    rows: Sequence[Standing],
    contrasts: Sequence[Contrast],
    alpha: float,
    names: Mapping[str, str],
) -> Figure | None:
    """Return a square for each pair of configurations, filled if they differ significantly."""
    ranked = [row for row in rows if row.letters is not None][:MOST_SQUARES]
    if len(ranked) < 3:
        return None
    contrast_of = {
        frozenset((contrast.first, contrast.second)): contrast for contrast in contrasts
    }
    margin = label_width((names[row.job] for row in ranked), 48.0, MARGIN)
    elements: list[Markup] = []
    side = SIDE if len(ranked) <= LARGE else SIDE * LARGE / len(ranked) + 2
    for i, row in enumerate(ranked):
        y = 26 + side * i
        elements.append(
            text(
                margin - 34,
                y + side / 2 + 4,
                shorten(names[row.job], 52),
                "name" if side > 15 else "key end",
            )
        )
        elements.append(text(margin - 8, y + side / 2 + 4, str(i + 1), "tick end"))
        if side > 15 or i % 5 == 4:
            elements.append(text(margin + side * (i + 0.5), 18.0, str(i + 1), "tick"))
        for j, column in enumerate(ranked):
            if i != j and (
                contrast := contrast_of.get(frozenset((row.job, column.job)))
            ):
                x = margin + side * j
                p = contrast.p_holm
                class_ = "cell" if p is None or p > alpha else "apart"
                square = node(
                    "rect",
                    class_=class_,
                    x=x + 1,
                    y=y + 1,
                    width=side - 2,
                    height=side - 2,
                )
                elements.append(
                    hint(
                        f"{contrast.difference:+.3f}, p {p_value(p, '= ') or '= -'}",
                        square,
                    )
                )
    size = side * len(ranked)
    return figure("differences", margin + size + 4, size + 32, elements, wide=True)
