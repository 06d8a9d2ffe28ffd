"""Curves: what confidence is worth, what a tie threshold buys, and what length does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import sqrt
from typing import Any

from markupsafe import Markup

from evalkit.report.counts import RATIOS, LengthClass
from evalkit.report.figures.captions import FIGURES, LABELS
from evalkit.report.figures.drawing import Axis, Figure, canvas, grid, legend, line, node, path, text
from evalkit.report.metric_names import Words
from evalkit.scoring.stats.bootstrap import share_interval

WIDTH, HEIGHT = 420.0, 330.0
AFTER = ("temperature", "isotonic")


def _axes(keys: int) -> tuple[Axis, Axis]:
    """Return the axes of a plot of shares, with room for so many keys above it."""
    return Axis(0.0, 1.0, 44.0, WIDTH - 12), Axis(0.0, 1.0, HEIGHT - 44 + 18.0 * keys, 30.0 + 18 * keys)


def _framed(keys: Sequence[tuple[str, Words]], drawn: Sequence[Markup], title: Words) -> Markup:
    key = legend(44.0, 14.0, keys)
    return canvas(WIDTH, HEIGHT + 18 * len(keys), *key, *drawn, label=title)


def reliability(curves: Mapping[str, Any]) -> Figure | None:
    """Return accuracy by stated confidence, with what recalibration would make of it; none without confidences."""
    bins = [one for one in curves.get("stated") or () if one["accuracy"] is not None]
    if not bins:
        return None
    shown = [name for name in AFTER if curves.get(name)]
    keys = [("curve", LABELS["stated"]), *((f"curve also{k}", LABELS[name]) for k, name in enumerate(shown))]
    x, y = _axes(len(keys))
    drawn = grid(x, y, (LABELS["confidence"], LABELS["accuracy"]))
    drawn.append(line(x(0), y(0), x(1), y(1), "chance"))
    for place, name in enumerate(shown):
        points = [(x(one["confidence"]), y(one["accuracy"])) for one in curves[name]]
        drawn.append(path(points, f"curve also{place}"))
    largest = max(one["n"] for one in bins)
    drawn.append(path([(x(one["confidence"]), y(one["accuracy"])) for one in bins], "curve"))
    drawn += [_bin(one, x, y, largest) for one in bins]
    title, caption = FIGURES["reliability_after" if shown else "reliability"]
    return Figure("reliability", title, _framed(keys, drawn, title), caption)


def _bin(one: Mapping[str, Any], x: Axis, y: Axis, largest: int) -> Markup:
    at = x(one["confidence"])
    said = f"{one['from']:.1f}-{one['to']:.1f}: n = {one['n']}, {one['accuracy']:.2f}"
    bar = [] if one["low"] is None else [line(at, y(one["low"]), at, y(one["high"]), "whisker")]
    dot = node("circle", class_="dot", cx=at, cy=y(one["accuracy"]), r=3 + 5 * sqrt(one["n"] / largest))
    return node("g", node("title", said), *bar, dot)


def frontier(points: Sequence[Mapping[str, Any]], threshold: float) -> Figure | None:
    """Return what each tie threshold would give, the configured one marked; none where no choice is left."""
    if len(points) < 3:
        return None
    kinds = [("curve", "decided_accuracy"), ("curve also0", "accuracy"), ("curve also1", "weak_rate")]
    there = [(class_, name) for class_, name in kinds if sum(one[name] is not None for one in points) > 1]
    if not there:
        return None
    x, y = _axes(len(there))
    drawn = grid(x, y, (LABELS["tie_rate"], LABELS["share"]))
    for class_, name in there:
        known = [one for one in points if one[name] is not None]
        drawn.append(path([(x(one["tie_rate"]), y(one[name])) for one in known], class_))
        drawn += [_point(one, name, x, y, threshold, class_.removeprefix("curve").strip()) for one in known]
    title, caption = FIGURES["frontier"]
    return Figure("frontier", title, _framed([(c, LABELS[name]) for c, name in there], drawn, title), caption)


def _point(one: Mapping[str, Any], name: str, x: Axis, y: Axis, threshold: float, series: str) -> Markup:
    here = abs(one["threshold"] - threshold) < 1e-9
    said = f"{one['threshold']:g}: {one['tie_rate']:.2f}, {one[name]:.2f}"
    class_ = f"{'dot' if here else 'small'} {series or 'also'}"
    dot = node("circle", class_=class_, cx=x(one["tie_rate"]), cy=y(one[name]), r=6 if here else 3)
    return node("g", node("title", said), dot)


def lengths(classes: Sequence[LengthClass], level: float) -> Figure | None:
    """Return how often the longer response won, by how much longer it was; none where no pair was decided."""
    used = [(place, one) for place, one in enumerate(classes) if one.decided]
    if not used:
        return None
    y = Axis(0.0, 1.0, HEIGHT - 44, 30.0)
    step = (WIDTH - 56) / len(classes)
    drawn = grid(Axis(0.0, 1.0, 44.0, WIDTH - 12), y, (("", ""), LABELS["longer_wins"]))[-1:]
    for at, label in y.ticks():
        drawn += [line(44.0, at, WIDTH - 12, at, "grid"), text(38.0, at + 4, f"{100 * float(label):g}", "tick end")]
    drawn.append(line(44.0, y(0.5), WIDTH - 12, y(0.5), "chance"))
    for place, name in enumerate(_names()):
        drawn.append(text(44 + step * (place + 0.5), HEIGHT - 28, name, "tick"))
    drawn.append(text(WIDTH / 2 + 16, HEIGHT - 8, LABELS["times_longer"], "axis"))
    for place, one in used:
        at, share = 44 + step * (place + 0.5), one.longer / one.decided
        low, high = share_interval(share, one.clusters, level)
        said = f"{one.longer} / {one.decided} ({one.clusters})"
        drawn.append(
            node(
                "g",
                node("title", said),
                line(at, y(low), at, y(high), "whisker"),
                node("circle", class_="dot", cx=at, cy=y(share), r=5),
                text(at + 9, y(share) + 4, f"{one.decided:,}", "count"),
            )
        )
    title, caption = FIGURES["lengths"]
    return Figure("lengths", title, canvas(WIDTH, HEIGHT, *drawn, label=title), caption)


def _names() -> list[str]:
    inner = [f"{low:g}-{high:g}" for low, high in pairwise(RATIOS)]
    return [f"≤ {RATIOS[0]:g}", *inner, f"> {RATIOS[-1]:g}"]


def histogram(judge: Mapping[float, int], people: Mapping[float, int]) -> Figure | None:
    """Return how often each score was given, people's grades beside where there are any; none without scores."""
    if not judge:
        return None
    values = sorted({*judge, *people})
    low, high = min(values), max(values)
    count = len(values) if len(values) <= 12 else 12
    ends = [low + (high - low) * k / count for k in range(count + 1)] if len(values) > 12 else None
    bars = [_shares(given, values, ends) for given in (judge, people) if given]
    tallest = max(max(shares) for shares in bars)
    y, step = Axis(0.0, tallest, HEIGHT - 44, 40.0), (WIDTH - 56) / count
    drawn = []
    for at, label in y.ticks():
        drawn += [line(44.0, at, WIDTH - 12, at, "grid"), text(38.0, at + 4, f"{100 * float(label):g}", "tick end")]
    for k, shares in enumerate(bars):
        width = step * 0.8 / len(bars)
        for place, share in enumerate(shares):
            left = 44 + step * (place + 0.1) + width * k
            bar = node("rect", x=left, y=y(share), width=width, height=y.start - y(share), class_=f"bar bar{k}")
            drawn.append(node("g", node("title", f"{100 * share:.1f}%"), bar))
    for place in range(count):
        said = f"{values[place]:g}" if ends is None else f"{(ends[place] + ends[place + 1]) / 2:.3g}"
        drawn.append(text(44 + step * (place + 0.5), HEIGHT - 28, said, "tick"))
    drawn += _keys(len(bars))
    drawn.append(text(WIDTH / 2 + 16, HEIGHT - 8, LABELS["score"], "axis"))
    title, caption = FIGURES["scores"]
    return Figure("scores", title, canvas(WIDTH, HEIGHT, *drawn, label=title), caption)


def _keys(count: int) -> list[Markup]:
    names: Sequence[Words] = [LABELS["judge"], LABELS["people"]]
    drawn = []
    for k, name in enumerate(names[:count]):
        drawn.append(node("rect", x=44 + 110 * k, y=12, width=12, height=12, class_=f"bar bar{k}"))
        drawn.append(text(62 + 110.0 * k, 22.0, name, "key"))
    return drawn


def _shares(given: Mapping[float, int], values: Sequence[float], ends: Sequence[float] | None) -> list[float]:
    total = sum(given.values())
    if ends is None:
        return [given.get(value, 0) / total for value in values]
    counts, width = [0] * (len(ends) - 1), ends[1] - ends[0]
    for value, n in given.items():
        counts[min(len(counts) - 1, int((value - ends[0]) / width + 1e-9))] += n
    return [n / total for n in counts]
