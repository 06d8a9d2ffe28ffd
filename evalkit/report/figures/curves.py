"""Figures of calibration, tie thresholds, length and scores, and tables of verdicts as squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log10, sqrt

from markupsafe import Markup

from evalkit.core.display import estimate, fixed, quoted, shorten
from evalkit.report.counts import RATIOS, LengthClass
from evalkit.report.figures.drawing import (
    Axis,
    Figure,
    dot,
    figure,
    grid,
    hint,
    label_width,
    legend,
    levels,
    line,
    node,
    path,
    percent,
    text,
)
from evalkit.report.texts import LABELS, Words, metric_words
from evalkit.scoring.catalog import SHORT_TITLES
from evalkit.scoring.stats.bootstrap import share_interval
from evalkit.types import Winner
from evalkit.values import Json

WIDTH, HEIGHT = 420.0, 330.0
AFTER = ("temperature", "isotonic")


def _axes(keys: int) -> tuple[Axis, Axis]:
    """Return the axes of a plot of shares, with space for `keys` lines of a legend above it."""
    return Axis(0.0, 1.0, 44.0, WIDTH - 12), Axis(0.0, 1.0, HEIGHT - 44 + 18.0 * keys, 30.0 + 18 * keys)


def _framed(name: str, keys: Sequence[tuple[str, Words]], elements: Sequence[Markup], words: str = "") -> Figure:
    key = legend(44.0, 14.0, keys)
    return figure(name, WIDTH, HEIGHT + 18 * len(keys), [*key, *elements], words=words)


def reliability(curves: Json) -> Figure | None:
    """Return accuracy by stated confidence, as stated and recalibrated; `None` if no confidence was stated."""
    bins = [one for one in curves.get("stated") or () if one["accuracy"] is not None]
    if not bins:
        return None
    shown = [name for name in AFTER if curves.get(name)]
    keys = [("curve", LABELS["stated"]), *((f"curve also{k}", LABELS[name]) for k, name in enumerate(shown))]
    x, y = _axes(len(keys))
    elements = grid(x, y, (LABELS["confidence"], LABELS["accuracy"]))
    elements.append(line(x(0), y(0), x(1), y(1), "chance"))
    for place, name in enumerate(shown):
        points = [(x(one["confidence"]), y(one["accuracy"])) for one in curves[name]]
        elements.append(path(points, f"curve also{place}"))
    largest = max(one["n"] for one in bins)
    elements.append(path([(x(one["confidence"]), y(one["accuracy"])) for one in bins], "curve"))
    for one in bins:
        at = x(one["confidence"])
        label = f"{one['from']:.1f}-{one['to']:.1f}: n = {one['n']}, {one['accuracy']:.2f}"
        bar = [] if one["low"] is None else [line(at, y(one["low"]), at, y(one["high"]), "whisker")]
        elements.append(hint(label, *bar, dot(at, y(one["accuracy"]), 3 + 5 * sqrt(one["n"] / largest))))
    return _framed("reliability", keys, elements, "reliability_after" if shown else "")


def sequence(table: Json) -> Figure | None:
    """Return the interval of the metric that stops a run by the number of clusters; `None` if it has none."""
    points: Sequence[Json] = table.get("points") or ()
    if len(points) < 2:
        return None
    ends, first, last = [one[side] for one in points for side in ("low", "high")], points[0], points[-1]
    x = Axis(log10(first["clusters"]), log10(last["clusters"]), 44.0, WIDTH - 12)
    y, middle = Axis(min(0.0, *ends), max(1.0, *ends), HEIGHT - 44, 30.0), (last["low"] + last["high"]) / 2
    elements = [text(x.start, y.end - 10, metric_words(table["metric"]), "axis start"), *levels(x, y)]
    elements.append(text((x.start + x.end) / 2, y.start + 34, LABELS["clusters"], "axis"))
    for count in [10**power * digit for power in range(7) for digit in (1, 2, 5)]:
        if first["clusters"] <= count <= last["clusters"]:
            at = x(log10(count))
            elements += [line(at, y.start, at, y.end, "grid"), text(at, y.start + 16, f"{count:,}", "tick")]
    for end in (middle - table["width"] / 2, middle + table["width"] / 2):
        elements.append(line(x.start, y(end), x.end, y(end), "chance"))
    for side in ("low", "high"):
        elements.append(path([(x(log10(one["clusters"])), y(one[side])) for one in points], "curve"))
    return figure("sequence", WIDTH, HEIGHT, elements)


def frontier(points: Sequence[Json], threshold: float) -> Figure | None:
    """Return the effect of each tie threshold, with the configured one marked; `None` for fewer than three."""
    if len(points) < 3:
        return None
    kinds = [("curve", "decided_accuracy"), ("curve also0", "accuracy"), ("curve also1", "weak_rate")]
    series = [(class_, name) for class_, name in kinds if sum(one[name] is not None for one in points) > 1]
    if not series:
        return None
    x, y = _axes(len(series))
    elements = grid(x, y, (LABELS["tie_rate"], LABELS["share"]))
    for class_, name in series:
        known = [one for one in points if one[name] is not None]
        elements.append(path([(x(one["tie_rate"]), y(one[name])) for one in known], class_))
        for one in known:
            kind, size = ("dot", 6) if abs(one["threshold"] - threshold) < 1e-9 else ("small", 3)
            at = x(one["tie_rate"]), y(one[name])
            label = f"{one['threshold']:g}: {one['tie_rate']:.2f}, {one[name]:.2f}"
            elements.append(hint(label, dot(*at, size, f"{kind} {class_.removeprefix('curve').strip() or 'also'}")))
    return _framed("frontier", [(class_, LABELS[name]) for class_, name in series], elements)


def lengths(classes: Sequence[LengthClass], level: float) -> Figure | None:
    """Return how often the longer response won, by length ratio; `None` if no pair is decided."""
    used = [(place, one) for place, one in enumerate(classes) if one.decided]
    if not used:
        return None
    x, y = _axes(0)
    step = (WIDTH - 56) / len(classes)
    elements = [text(x.start, y.end - 10, LABELS["longer_wins"], "axis start"), *levels(x, y, percent)]
    elements.append(line(x.start, y(0.5), x.end, y(0.5), "chance"))
    inner = (f"{low:g}-{high:g}" for low, high in pairwise(RATIOS))
    elements += _ticks([f"≤ {RATIOS[0]:g}", *inner, f"> {RATIOS[-1]:g}"])
    elements.append(text(WIDTH / 2 + 16, HEIGHT - 8, LABELS["times_longer"], "axis"))
    for place, one in used:
        at, share = 44 + step * (place + 0.5), one.longer / one.decided
        low, high = share_interval(share, one.clusters, level)
        label = f"{one.longer} / {one.decided} ({one.clusters})"
        whisker, count = (
            line(at, y(low), at, y(high), "whisker"),
            text(at + 9, y(share) + 4, f"{one.decided:,}", "count"),
        )
        elements.append(hint(label, whisker, dot(at, y(share), 5), count))
    return figure("lengths", WIDTH, HEIGHT, elements)


def _ticks(names: Sequence[str]) -> list[Markup]:
    """Return the names of columns below them."""
    step = (WIDTH - 56) / len(names)
    return [text(44 + step * (place + 0.5), HEIGHT - 28, name, "tick") for place, name in enumerate(names)]


def histogram(judge: Mapping[float, int], annotators: Mapping[float, int]) -> Figure | None:
    """Return the distribution of scores, next to annotators' grades if there are any; `None` without scores."""
    if not judge:
        return None
    values = sorted({*judge, *annotators})
    low, high = min(values), max(values)
    count = len(values) if len(values) <= 12 else 12
    ends = [low + (high - low) * k / count for k in range(count + 1)] if len(values) > 12 else None
    bars = [_shares(given, values, ends) for given in (judge, annotators) if given]
    tallest = max(max(shares) for shares in bars)
    y, step = Axis(0.0, tallest, HEIGHT - 44, 40.0), (WIDTH - 56) / count
    elements = levels(_axes(0)[0], y, percent)
    for k, shares in enumerate(bars):
        width = step * 0.8 / len(bars)
        for place, share in enumerate(shares):
            left = 44 + step * (place + 0.1) + width * k
            bar = node("rect", x=left, y=y(share), width=width, height=y.start - y(share), class_=f"bar bar{k}")
            elements.append(hint(f"{100 * share:.1f}%", bar))
    middles = (
        [f"{(low + high) / 2:.3g}" for low, high in pairwise(ends)] if ends else [f"{value:g}" for value in values]
    )
    elements += _ticks(middles)
    for k, name in enumerate(("judge", "people")[: len(bars)]):
        elements.append(node("rect", x=44 + 110 * k, y=12, width=12, height=12, class_=f"bar bar{k}"))
        elements.append(text(62 + 110.0 * k, 22.0, LABELS[name], "key"))
    elements.append(text(WIDTH / 2 + 16, HEIGHT - 8, LABELS["score"], "axis"))
    return figure("scores", WIDTH, HEIGHT, elements)


def _shares(given: Mapping[float, int], values: Sequence[float], ends: Sequence[float] | None) -> list[float]:
    total = sum(given.values())
    if ends is None:
        return [given.get(value, 0) / total for value in values]
    counts, width = [0] * (len(ends) - 1), ends[1] - ends[0]
    for value, n in given.items():
        counts[min(len(counts) - 1, int((value - ends[0]) / width + 1e-9))] += n
    return [n / total for n in counts]


CELL, LEFT, TOP = (78.0, 46.0), 96.0, 52.0
STRONG = 0.75  # share of a row; cells above it are bright in the dark theme and need dark text
CLASSES = ("A", "TIE", "B")
MOST = 12
"""The most classes that a table shows."""
_NAMES = {
    "A": LABELS["a"],
    "TIE": LABELS["tie"],
    "B": LABELS["b"],
    "missing": LABELS["missing"],
}


def confusion(table: Json) -> Figure | None:
    """Return the confusion table of labels and verdicts, or `None` if it is empty.

    Classes of a rubric keep their order and names. A table of more than `MOST` of them is omitted.
    """
    labels: Mapping[str, Mapping[str, int]] = table.get("labels") or {}
    names = [name for name in labels if name not in CLASSES] and [*labels]
    rows = [name for name in names or CLASSES if sum(labels.get(name, {}).values())]
    if not rows or len(names) > MOST:
        return None
    others = list(dict.fromkeys(name for row in rows for name in labels[row] if name not in (*names, *CLASSES)))
    columns = [*(names or CLASSES), *(name for name in others if any(labels[row].get(name) for row in rows))]
    counts = [[labels[row].get(column, 0) for column in columns] for row in rows]
    return _table("confusion", rows, columns, counts, ("label", "verdict"))


def passes(counted: Mapping[tuple[Winner | None, Winner | None], int]) -> Figure | None:
    """Return the verdicts of the first order against the second; `None` if pairs were shown in one order."""
    if not sum(n for (first, second), n in counted.items() if first and second):
        return None
    names = {**dict.fromkeys(CLASSES), "missing": None}
    found: dict[tuple[str, str], int] = {(a or "missing", b or "missing"): n for (a, b), n in counted.items()}
    used = [name for name in names if name != "missing" or any("missing" in pair for pair in found)]
    counts = [[found.get((row, column), 0) for column in used] for row in used]
    return _table("passes", used, used, counts, ("first_order", "second_order"))


def _table(
    name: str, rows: Sequence[str], columns: Sequence[str], counts: Sequence[Sequence[int]], axes: tuple[str, str]
) -> Figure:
    width, height = CELL
    elements = [
        text(LEFT + width * len(columns) / 2, 16.0, LABELS[axes[1]], "axis"),
        text(0.0, TOP - 12, LABELS[axes[0]], "axis start"),
    ]
    for place, column in enumerate(columns):
        elements.append(text(LEFT + width * (place + 0.5), TOP - 12, _named(column, 11), "tick"))
    for i, (row, cells) in enumerate(zip(rows, counts, strict=True)):
        total = sum(cells)
        elements.append(text(LEFT - 10, TOP + height * (i + 0.5) + 4, _named(row, 13), "tick end"))
        for j, n in enumerate(cells):
            share, class_ = n / total if total else 0.0, "same" if row == columns[j] else "other"
            shade, shown = 0.08 + 0.72 * share if n else 0.0, f"{n:,} ({100 * share:.0f} %)"
            at = LEFT + width * j, TOP + height * i
            elements.append(_shaded(*at, f"{n:,}", shown, shade, class_, share > STRONG))
    return figure(name, LEFT + width * len(columns) + 2, TOP + height * len(rows) + 4, elements)


def _named(name: str, width: int) -> Words:
    short = shorten(name, width)
    return _NAMES.get(name, (short, short))


def _shaded(x: float, y: float, words: str, shown: str, shade: float, class_: str, strong: bool) -> Markup:
    width, height = CELL
    inside = {"x": x + 1, "y": y + 1, "width": width - 2, "height": height - 2}
    return hint(
        shown,
        node("rect", **inside, class_="cell"),
        node("rect", **inside, class_=class_, fill_opacity=f"{shade:.2f}" if shade else "0"),
        text(x + width / 2, y + height / 2 + 5, words, "cellvalue strong" if strong else "cellvalue"),
    )


def slices(rows: Sequence[Json], confidence: float) -> Figure | None:
    """Return the values of each metric (columns) by slice (rows) as a heat map; `None` without slices."""
    if not rows:
        return None
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    names = list(dict.fromkeys((row["column"], row["value"]) for row in rows))
    width, height = CELL
    left = label_width((f"{column} {value}" for column, value in names), 14.0, 220.0)
    elements = []
    for place, metric in enumerate(metrics):
        elements.append(text(left + width * (place + 0.5), 16.0, SHORT_TITLES.get(metric, metric), "tick"))
    for place, (column, value) in enumerate(names):
        y = 26.0 + height * (place + 0.5) + 4
        elements.append(text(left - 10, y, shorten(f"{column} {quoted(value)}", 32), "tick end"))
    for row in rows:
        x, y = left + width * metrics.index(row["metric"]), 26.0 + height * names.index((row["column"], row["value"]))
        known, p = row["estimate"], row["p_holm"]
        words = "" if known is None else fixed(known, 2) + ("*" if p is not None and p <= 1 - confidence else "")
        share = min(max(known or 0.0, 0.0), 1.0)
        shown = f"{row['n']:,}: {estimate(known, row['low'], row['high'], lambda value: fixed(value, 2))}"
        elements.append(_shaded(x, y, words, shown, 0.8 * share, "same", share > STRONG))
    return figure("slices", left + width * len(metrics) + 2, 30.0 + height * len(names), elements)
