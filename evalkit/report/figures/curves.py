"""Figures of calibration, tie thresholds, length, stops and scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import log10, sqrt

from markupsafe import Markup

from evalkit.core.values import Json
from evalkit.report.counts import RATIOS, LengthClass
from evalkit.report.figures.drawing import (
    Axis,
    Figure,
    dot,
    figure,
    grid,
    hint,
    legend,
    levels,
    line,
    node,
    path,
    percent,
    text,
)
from evalkit.report.texts import LABELS, Words, metric_words
from evalkit.scoring.stats.share_intervals import share_interval

WIDTH, HEIGHT = 420.0, 330.0
AFTER = ("temperature", "isotonic")
MOST_BARS = 12
"""Scores with more values than this are shown in so many classes of equal width."""


def _axes(keys: int) -> tuple[Axis, Axis]:
    """Return the axes of a plot of shares, with space for `keys` lines of a legend above it."""
    # Left and right ends of x in pixels, then bottom and top of y, which grows downward.
    return Axis(0.0, 1.0, 44.0, WIDTH - 12), Axis(
        0.0, 1.0, HEIGHT - 44 + 18.0 * keys, 30.0 + 18 * keys
    )


def _framed(
    name: str,
    keys: Sequence[tuple[str, Words]],
    elements: Sequence[Markup],
    words: str = "",
) -> Figure:
    # A line of the legend is 18 pixels high.
    key = legend(44.0, 14.0, keys)
    return figure(name, WIDTH, HEIGHT + 18 * len(keys), [*key, *elements], words=words)


def reliability(curves: Json) -> Figure | None:
    """Return accuracy by stated confidence, as stated and recalibrated; `None` if no
    confidence was stated.
    """
    # Bins of stated confidence; empty ones have no accuracy.
    bins = [
        point for point in curves.get("stated") or () if point["accuracy"] is not None
    ]
    if not bins:
        return None
    names = [name for name in AFTER if curves.get(name)]
    keys = [
        ("curve", LABELS["stated"]),
        *((f"curve also{k}", LABELS[name]) for k, name in enumerate(names)),
    ]
    x, y = _axes(len(keys))
    elements = grid(x, y, (LABELS["confidence"], LABELS["accuracy"]))
    # The diagonal: perfectly calibrated.
    elements.append(line(x(0), y(0), x(1), y(1), "chance"))
    for index, name in enumerate(names):
        points = [
            (x(point["confidence"]), y(point["accuracy"])) for point in curves[name]
        ]
        elements.append(path(points, f"curve also{index}"))
    largest = max(point["n"] for point in bins)
    elements.append(
        path(
            [(x(point["confidence"]), y(point["accuracy"])) for point in bins], "curve"
        )
    )
    for point in bins:
        at = x(point["confidence"])
        label = f"{point['from']:.1f}-{point['to']:.1f}: n = {point['n']}, {point['accuracy']:.2f}"
        if point["low"] is None:
            bar = []
        else:
            bar = [line(at, y(point["low"]), at, y(point["high"]), "whisker")]
        elements.append(
            hint(
                label,
                *bar,
                # The area of a dot grows with the number of verdicts in its bin.
                dot(at, y(point["accuracy"]), 3 + 5 * sqrt(point["n"] / largest)),
            )
        )
    return _framed("reliability", keys, elements, "reliability_after" if names else "")


def sequence(table: Json) -> Figure | None:
    """Return the interval of the metric that stops a run by the number of clusters;
    `None` if it has none.
    """
    points: Sequence[Json] = table.get("points") or ()
    if len(points) < 2:
        return None
    # Both ends of each interval, for the scale of y.
    ends = [point[side] for point in points for side in ("low", "high")]
    first = points[0]
    last = points[-1]
    # x is the logarithm of the number of clusters, so that early looks do not crowd.
    x = Axis(log10(first["clusters"]), log10(last["clusters"]), 44.0, WIDTH - 12)
    # Rates keep the scale of 0 to 1, differences widen it.
    y = Axis(min(0.0, *ends), max(1.0, *ends), HEIGHT - 44, 30.0)
    # The lines around the middle of the last interval show the width at which a run
    # stops.
    middle = (last["low"] + last["high"]) / 2
    elements = [
        text(x.start, y.end - 10, metric_words(table["metric"]), "axis start"),
        *levels(x, y),
    ]
    elements.append(
        text((x.start + x.end) / 2, y.start + 34, LABELS["clusters"], "axis")
    )
    # Ticks at 1, 2 and 5 times powers of ten.
    for count in [10**power * digit for power in range(7) for digit in (1, 2, 5)]:
        if first["clusters"] <= count <= last["clusters"]:
            at = x(log10(count))
            elements += [
                line(at, y.start, at, y.end, "grid"),
                text(at, y.start + 16, f"{count:,}", "tick"),
            ]
    for end in (middle - table["width"] / 2, middle + table["width"] / 2):
        elements.append(line(x.start, y(end), x.end, y(end), "chance"))
    for side in ("low", "high"):
        elements.append(
            path(
                [(x(log10(point["clusters"])), y(point[side])) for point in points],
                "curve",
            )
        )
    return figure("sequence", WIDTH, HEIGHT, elements)


def frontier(points: Sequence[Json], threshold: float) -> Figure | None:
    """Return the effect of each tie threshold, with the configured one marked; `None`
    for fewer than three.
    """
    if len(points) < 3:
        return None
    kinds = [
        ("curve", "decided_accuracy"),
        ("curve also0", "accuracy"),
        ("curve also1", "weak_rate"),
    ]
    # A curve needs at least two points with a value.
    series = [
        (class_, name)
        for class_, name in kinds
        if sum(point[name] is not None for point in points) > 1
    ]
    if not series:
        return None
    x, y = _axes(len(series))
    elements = grid(x, y, (LABELS["tie_rate"], LABELS["share"]))
    for class_, name in series:
        points_with_value = [point for point in points if point[name] is not None]
        elements.append(
            path(
                [(x(point["tie_rate"]), y(point[name])) for point in points_with_value],
                class_,
            )
        )
        for point in points_with_value:
            kind, size = (
                ("dot", 6)
                # The threshold of the run has a larger dot; 1e-9 absorbs rounding in the grid.
                if abs(point["threshold"] - threshold) < 1e-9
                else ("small", 3)
            )
            at = x(point["tie_rate"]), y(point[name])
            label = (
                f"{point['threshold']:g}: {point['tie_rate']:.2f}, {point[name]:.2f}"
            )
            elements.append(
                hint(
                    label,
                    dot(
                        *at,
                        size,
                        f"{kind} {class_.removeprefix('curve').strip() or 'also'}",
                    ),
                )
            )
    return _framed(
        "frontier", [(class_, LABELS[name]) for class_, name in series], elements
    )


def lengths(classes: Sequence[LengthClass], level: float) -> Figure | None:
    """Return how often the longer response won, by length ratio; `None` if no pair is decided."""
    used = [
        (index, length_class)
        # The index of a class is its column; classes without decided pairs leave a gap.
        for index, length_class in enumerate(classes)
        if length_class.decided
    ]
    if not used:
        return None
    x, y = _axes(0)
    # The width of a column in pixels.
    step = (WIDTH - 56) / len(classes)
    elements = [
        text(x.start, y.end - 10, LABELS["longer_wins"], "axis start"),
        *levels(x, y, percent),
    ]
    elements.append(line(x.start, y(0.5), x.end, y(0.5), "chance"))
    # Bounds of the ratio of lengths: the longer response divided by the shorter one.
    inner = (f"{low:g}-{high:g}" for low, high in pairwise(RATIOS))
    elements += _ticks([f"≤ {RATIOS[0]:g}", *inner, f"> {RATIOS[-1]:g}"])
    elements.append(text(WIDTH / 2 + 16, HEIGHT - 8, LABELS["times_longer"], "axis"))
    for index, length_class in used:
        # The middle of the column.
        at = 44 + step * (index + 0.5)
        share = length_class.longer / length_class.decided
        # Pairs of one cluster are not independent, so clusters are the sample size.
        low, high = share_interval(share, length_class.clusters, level)
        label = (
            f"{length_class.longer} / {length_class.decided} ({length_class.clusters})"
        )
        whisker = line(at, y(low), at, y(high), "whisker")
        count = text(at + 9, y(share) + 4, f"{length_class.decided:,}", "count")
        elements.append(hint(label, whisker, dot(at, y(share), 5), count))
    return figure("lengths", WIDTH, HEIGHT, elements)


def _ticks(names: Sequence[str]) -> list[Markup]:
    """Return the names of columns below them."""
    step = (WIDTH - 56) / len(names)
    return [
        text(44 + step * (index + 0.5), HEIGHT - 28, name, "tick")
        for index, name in enumerate(names)
    ]


def histogram(
    judge: Mapping[float, int], annotators: Mapping[float, int]
) -> Figure | None:
    """Return the distribution of scores, next to annotators' grades if there are any;
    `None` without scores.
    """
    if not judge:
        return None
    # The values of both, so that their bars are comparable.
    values = sorted({*judge, *annotators})
    ends = _class_ends(values) if len(values) > MOST_BARS else None
    # A bar for each value, or for classes of equal width.
    if ends is None:
        names = [f"{value:g}" for value in values]
    else:
        names = [f"{(low + high) / 2:.3g}" for low, high in pairwise(ends)]
    # One list of shares for the judge, then one for annotators.
    bars = [_shares(counts, values, ends) for counts in (judge, annotators) if counts]
    tallest = max(max(shares) for shares in bars)
    y = Axis(0.0, tallest, HEIGHT - 44, 40.0)
    # The width of a column in pixels; bars of both side by side fill 80% of it.
    step = (WIDTH - 56) / len(names)
    width = step * 0.8 / len(bars)
    elements = levels(_axes(0)[0], y, percent)
    for k, shares in enumerate(bars):
        for index, share in enumerate(shares):
            # The left end: one tenth of the column, then the bars before this one.
            bar_x = 44 + step * (index + 0.1) + width * k
            bar = node(
                "rect",
                x=bar_x,
                y=y(share),
                width=width,
                height=y.start - y(share),
                class_=f"bar bar{k}",
            )
            elements.append(hint(f"{100 * share:.1f}%", bar))
    elements += _ticks(names)
    elements += _legend(("judge", "people")[: len(bars)])
    elements.append(text(WIDTH / 2 + 16, HEIGHT - 8, LABELS["score"], "axis"))
    return figure("scores", WIDTH, HEIGHT, elements)


def _class_ends(values: Sequence[float]) -> list[float]:
    """Return the ends of classes of equal width, one more than there are classes."""
    low = min(values)
    high = max(values)
    return [low + (high - low) * k / MOST_BARS for k in range(MOST_BARS + 1)]


def _legend(names: Sequence[str]) -> Iterator[Markup]:
    """Yield a square of the color of each list of bars, and its name."""
    for k, name in enumerate(names):
        x = 44 + 110 * k
        yield node("rect", x=x, y=12, width=12, height=12, class_=f"bar bar{k}")
        yield text(x + 18.0, 22.0, LABELS[name], "key")


def _shares(
    counted: Mapping[float, int], values: Sequence[float], ends: Sequence[float] | None
) -> list[float]:
    """Return the share of each value, or of each class between ends."""
    total = sum(counted.values())
    if ends is None:
        return [counted.get(value, 0) / total for value in values]
    counts = [0] * (len(ends) - 1)
    width = ends[1] - ends[0]
    for value, n in counted.items():
        # The largest value belongs to the last class; 1e-9 keeps a value at an end in its class.
        counts[min(len(counts) - 1, int((value - ends[0]) / width + 1e-9))] += n
    return [n / total for n in counts]
