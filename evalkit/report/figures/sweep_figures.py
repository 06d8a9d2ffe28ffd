"""Figures of a sweep: metrics by configuration, agreement against cost, and significant differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10

from markupsafe import Markup

from evalkit.core.display import interval, p_value, shorten
from evalkit.core.types import Metric
from evalkit.report.figures.drawing import (
    Axis,
    Figure,
    dot,
    figure,
    hint,
    label_width,
    levels,
    line,
    node,
    path,
    text,
    text_width,
)
from evalkit.report.figures.forest import Row, bounds, forest_figure
from evalkit.report.texts import LABELS, metric_words
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.leaderboard import COST, Contrast, Standing

WIDTH, HEIGHT = 740.0, 380.0
MOST_ROWS, MOST_SQUARES, LARGE = 80, 80, 30
SIDE, MARGIN, LEFT = 20.0, 390.0, 390.0
LINE = 14.0
"""The height of a line of text."""


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


def pareto_front(
    rows: Sequence[Standing], by: str | None, names: Mapping[str, str]
) -> Figure | None:
    """Return agreement against cost for each configuration, with the Pareto front as a line."""
    # (configuration, its metric, its cost)
    points = [
        (row, quality, price.value)
        for row in rows
        if row.pareto is not None
        and (quality := row.metrics.get(by or "")) is not None
        and (price := row.metrics.get(COST)) is not None
        and quality.value is not None
        and price.value is not None
    ]
    if len({cost for _, _, cost in points}) < 2:
        return None
    values = [
        x
        for _, metric, _ in points
        for x in (metric.value, metric.low, metric.high)
        if x is not None
    ]
    margin = 0.05 * (max(values) - min(values)) or 0.05
    x, x_of_cost, unit = _cost_axis([cost for *_, cost in points])
    y = Axis(min(values) - margin, max(values) + margin, HEIGHT - 48, 30.0)
    elements = [
        text(x.start, 18.0, metric_words(by or ""), "axis start"),
        *levels(x, y),
    ]
    for at, label in unit:
        elements += [
            line(at, y.start, at, y.end, "grid"),
            text(at, y.start + 16, label, "tick"),
        ]
    elements.append(text((x.start + x.end) / 2, HEIGHT - 10, LABELS["cost"], "axis"))
    best = sorted(
        (x_of_cost[cost], y(metric.value or 0.0))
        for row, metric, cost in points
        if row.pareto
    )
    elements.append(path(best, "curve"))
    # position of a dot -> the configurations there
    rows_at: dict[tuple[float, float], list[tuple[Standing, Metric]]] = {}
    for row, metric, cost in points:
        rows_at.setdefault((x_of_cost[cost], y(metric.value or 0.0)), []).append(
            (row, metric)
        )
    elements += [_point(*point, same, y, names) for point, same in rows_at.items()]
    elements += _labels(
        {point: same for point, same in rows_at.items() if same[0][0].pareto},
        names,
        x,
        y,
    )
    return figure("front", WIDTH, HEIGHT, elements, wide=True)


def _cost_axis(
    costs: Sequence[float],
) -> tuple[Axis, dict[float, float], list[tuple[float, str]]]:
    """Return an axis of costs, logarithmic if they differ much; the position of each cost; and the ticks."""
    start = 60.0
    end = WIDTH - 20
    low = min(costs)
    high = max(costs)
    if low > 0 and high / low > 8:
        axis = Axis(log10(low) - 0.1, log10(high) + 0.1, start, end)
        round_ones = [
            factor * 10.0**k
            for k in range(floor(axis.low), ceil(axis.high))
            for factor in (1, 2, 5)
        ]
        ticks = [
            (axis(log10(x)), f"{x:.4g}")
            for x in round_ones
            if axis.low <= log10(x) <= axis.high
        ]
        return axis, {cost: axis(log10(cost)) for cost in costs}, ticks
    axis = Axis(0.0, high * 1.08, start, end)
    return axis, {cost: axis(cost) for cost in costs}, axis.ticks()


def _point(
    at: float,
    value: float,
    same: Sequence[tuple[Standing, Metric]],
    y: Axis,
    names: Mapping[str, str],
) -> Markup:
    """Return the dot of configurations with the same agreement and cost."""
    row, metric = same[0]
    parts = [dot(at, value, 6) if row.pareto else dot(at, value, 4, "small")]
    if metric.low is not None and metric.high is not None:
        parts.insert(
            0,
            line(
                at,
                y(metric.low),
                at,
                y(metric.high),
                "whisker" if row.pareto else "faint",
            ),
        )
    return hint(
        "\n".join(f"{names[row.job]}: {interval(metric)}" for row, metric in same),
        *parts,
    )


def _labels(
    points: Mapping[tuple[float, float], Sequence[tuple[Standing, Metric]]],
    names: Mapping[str, str],
    x: Axis,
    y: Axis,
) -> list[Markup]:
    """Return the name of each point, at the nearest height where it covers no other name and no dot."""
    elements: list[Markup] = []
    # (left, right, height) of every dot and name so far
    taken = [(at - 6, at + 6, value) for at, value in points]
    for (at, value), same in sorted(points.items(), key=lambda point: point[0][1]):
        name = shorten(names[same[0][0].job], 44) + (
            f" (+{len(same) - 1})" if len(same) > 1 else ""
        )
        side = 1 if at < (x.start + x.end) / 2 else -1
        start, end = sorted((at + side * 9, at + side * (9 + text_width(name, 7.5))))
        neighbors = [
            height
            for label_start, right, height in taken
            if label_start < end and start < right
        ]
        # by half lines, the nearest to the dot first
        heights = (
            value - 4 + LINE / 2 * k
            for k in sorted(range(-2 * MOST_ROWS, 2 * MOST_ROWS), key=abs)
        )
        inside = (height for height in heights if y.end <= height <= y.start)
        height = next(
            (
                height
                for height in inside
                if all(
                    abs(height - 4 - taken_height) >= LINE for taken_height in neighbors
                )
            ),
            value - 4,
        )
        taken.append((start, end, height - 4))
        if abs(height - 4 - value) > LINE:
            elements.append(line(at, value, at + side * 7, height - 4, "faint"))
        elements.append(
            text(at + side * 9, height, name, "key" if side > 0 else "key end")
        )
    return elements


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
