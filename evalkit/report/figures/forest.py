"""Rows of values with their intervals on one axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from evalkit.core.display import interval, shorten
from evalkit.core.types import Metric
from evalkit.core.values import frozen
from evalkit.report.figures.drawing import (
    Axis,
    Figure,
    canvas,
    dot,
    line,
    node,
    text,
    text_width,
)
from evalkit.report.findings.finding import class_names
from evalkit.report.texts import FIGURES, Words, metric_words
from evalkit.scoring.catalog import CATALOG, COLUMNS
from evalkit.scoring.decision import Metrics

MOST = 12
LEFT, RIGHT, WIDTH, ROW = 270.0, 580.0, 740.0, 26.0

OF_CLASS = ("rate", "precision", "recall", "f1")


@frozen
class Row:
    """One value with its name and interval; `chance` is marked, and `faint` rows are pale."""

    words: Words
    metric: Metric
    chance: float | None = None
    faint: bool = False
    digits: int = 2


def main_figures(metrics: Metrics) -> list[Figure]:
    """Return figures of the main rates (0 to 1) and coefficients (-1 to 1).

    Intervals without width are omitted, because they show nothing: for example, scores cannot have
    cycles.
    """
    panels = [
        _panel(
            "rates",
            _rows_of(metrics, COLUMNS["figure_rates"], _by_chance(metrics)),
            0.0,
            1.0,
        ),
        _panel(
            "coefficients",
            _rows_of(metrics, COLUMNS["figure_coefficients"], {}),
            -1.0,
            1.0,
        ),
        _panel("classes", _rows_of(metrics, _by_class(metrics), {}), 0.0, 1.0),
    ]
    return [panel for panel in panels if panel is not None]


def _by_class(metrics: Metrics) -> list[str]:
    """Return the names of the metrics of each class; those of more than `MOST` classes
    would not be read.
    """
    names = class_names(metrics)
    if len(names) <= MOST:
        return [f"class/{name}/{end}" for name in names for end in OF_CLASS]
    return []


def _by_chance(metrics: Metrics) -> dict[str, float]:
    """Return the agreement by chance: where kappa is 0, ties included; 0.5 if kappa is unknown."""
    accuracy = metrics.get("agreement/accuracy")
    kappa = metrics.get("agreement/kappa")
    if (
        accuracy is None
        or kappa is None
        or accuracy.value is None
        or kappa.value is None
        or kappa.value >= 1
    ):
        return {"agreement/accuracy": 0.5}
    return {"agreement/accuracy": (accuracy.value - kappa.value) / (1 - kappa.value)}


def _rows_of(
    metrics: Metrics, names: Iterable[str], chance: Mapping[str, float]
) -> list[Row]:
    """Return a row for each metric with an interval, and the value that chance would give."""
    with_value = [
        metric
        for name in names
        if (metric := metrics.get(name)) is not None and metric.low != metric.high
    ]
    return [
        Row(
            metric_words(metric.name),
            metric,
            chance.get(metric.name, CATALOG.chance(metric.name)),
        )
        for metric in with_value
    ]


def _panel(name: str, rows: Sequence[Row], low: float, high: float) -> Figure | None:
    title, caption = FIGURES[name]
    if rows:
        return forest_figure(name, (title, caption), rows, low, high)
    return None


def forest_figure(
    name: str,
    words: tuple[Words, Words],
    rows: Sequence[Row],
    low: float,
    high: float,
    names_width: float = LEFT,
) -> Figure:
    """Return a figure of rows; see `forest`."""
    title, caption = words
    return Figure(
        name,
        title,
        forest(rows, low, high, title, names_width),
        caption,
        wide=True,
    )


def forest(
    rows: Sequence[Row],
    low: float,
    high: float,
    label: Words,
    names_width: float = LEFT,
) -> Markup:
    """Return a forest plot.

    Args:
        rows: the values with their names.
        low: the lower end of the axis.
        high: the upper end of the axis.
        label: the title for screen readers.
        names_width: the width of the names in pixels.
    """
    axis = Axis(low, high, names_width, names_width + RIGHT - LEFT)
    bottom = ROW * len(rows)
    ticks = [
        Markup("").join(
            [line(x, 0.0, x, bottom + 2, "grid"), text(x, bottom + 18, tick, "tick")]
        )
        for x, tick in axis.ticks()
    ]
    values = max(text_width(interval(row.metric, row.digits)) for row in rows)
    width = axis.end + max(WIDTH - RIGHT, 16 + values)
    elements = [
        _draw_row(row, axis, ROW * (index + 0.5), width)
        for index, row in enumerate(rows)
    ]
    return canvas(width, bottom + 24, *ticks, *elements, label=label)


def _draw_row(row: Row, axis: Axis, y: float, width: float) -> Markup:
    """Draw a row: its name, its interval and its value as text, in a group with a tooltip."""
    metric = row.metric
    value_text = interval(row.metric, row.digits)
    parts = [
        node("title", f"{metric.name} {value_text}"),
        node("rect", class_="hit", x=0, y=y - ROW / 2, width=width, height=ROW),
        text(
            axis.start - 14,
            y + 4,
            (_fitted(row.words[0], axis), _fitted(row.words[1], axis)),
            "name",
        ),
    ]
    parts += [*_marks(row, axis, y), text(axis.end + 16, y + 4, value_text, "value")]
    return node("g", *parts, class_="faint" if row.faint else None)


def _marks(row: Row, axis: Axis, y: float) -> list[Markup]:
    """Return the chance level, interval, worst-case bounds and value of a row."""
    metric = row.metric
    parts = []
    if row.chance is not None:
        parts.append(line(axis(row.chance), y - 10, axis(row.chance), y + 10, "chance"))
    if metric.low is not None and metric.high is not None:
        parts.append(line(axis(metric.low), y, axis(metric.high), y, "ci"))
    if metric.worst_low is not None and metric.worst_high is not None:
        parts.append(
            line(axis(metric.worst_low), y, axis(metric.worst_high), y, "worst")
        )
    if metric.value is not None:
        parts.append(dot(axis(metric.value), y, 5))
    return parts


def _fitted(name: str, axis: Axis) -> str:
    return shorten(name, int((axis.start - 14) / 7))


def bounds(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the ends of an axis that contains every value and interval, with a margin."""
    ends = [
        x
        for row in rows
        for x in (row.metric.value, row.metric.low, row.metric.high)
        if x is not None
    ]
    if not ends:
        return 0.0, 1.0
    margin = (max(ends) - min(ends)) * 0.05 or 0.5
    return min(ends) - margin, max(ends) + margin
