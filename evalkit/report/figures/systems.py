"""Figures of the compared systems: their ranking, and cases with cyclic verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, hypot, pi, sin
from typing import Any

from markupsafe import Markup

from evalkit.core.display import shorten
from evalkit.report.case_list import letter
from evalkit.report.figures.drawing import Figure, canvas, node, text
from evalkit.report.figures.forest import Row, bounds, forest_figure
from evalkit.report.texts import FIGURES
from evalkit.types import Metric

MOST_SYSTEMS, MOST_CYCLES = 40, 6
SIDE, RADIUS, NODE = 230.0, 78.0, 15.0


def ranking(found: Mapping[str, Any]) -> Figure | None:
    """Return the systems with their ratings and intervals, or with win rates if ratings are undetermined."""
    systems: Sequence[Mapping[str, Any]] = (found.get("systems") or ())[:MOST_SYSTEMS]
    if len(systems) < 2:
        return None
    rated = any(one["rating"]["value"] is not None for one in systems)
    name, digits = ("rating", 0) if rated else ("win_rate", 2)
    rows = [Row((one["system"],) * 2, metric_of(one["system"], one[name]), digits=digits) for one in systems]
    low, high = bounds(rows) if rated else (0.0, 1.0)
    sure = any(row.metric.low is not None for row in rows)
    words = FIGURES["ranking_rates" if not rated else "ranking" if sure else "ranking_points"]
    return forest_figure("ranking", words, rows, low, high)


def metric_of(name: str, numbers: Mapping[str, Any]) -> Metric:
    """Return a metric from its entry in a file of the run folder."""
    return Metric(name, numbers["value"], numbers.get("low"), numbers.get("high"), numbers.get("n") or 0)


def cycles(found: Mapping[str, Any]) -> Figure | None:
    """Return the first cases with cyclic verdicts as graphs, or `None` if there are none."""
    cases: Sequence[Mapping[str, Any]] = [one for one in found.get("cases") or () if one["cycles"]][:MOST_CYCLES]
    if not cases:
        return None
    across = min(len(cases), 4)
    down = -(-len(cases) // across)
    elements = [
        node("g", *_graph(one), transform=f"translate({SIDE * (place % across):.0f} {SIDE * (place // across):.0f})")
        for place, one in enumerate(cases)
    ]
    title, caption = FIGURES["cycles"]
    return Figure("cycles", title, canvas(SIDE * across, SIDE * down, *elements, label=title), caption, wide=True)


def _graph(case: Mapping[str, Any]) -> list[Markup]:
    members: list[int] = sorted({k for cycle in case["cycles"] for k in cycle})
    middle = SIDE / 2, SIDE / 2 + 8
    angle = {k: 2 * pi * place / len(members) - pi / 2 for place, k in enumerate(members)}
    place = {k: (middle[0] + RADIUS * cos(a), middle[1] + RADIUS * sin(a)) for k, a in angle.items()}
    wins = sorted({pair for cycle in case["cycles"] for pair in zip(cycle, [*cycle[1:], cycle[0]], strict=True)})
    reverse = {tuple(pair) for pair in case["reverse"]}
    elements = [_arrow(place[a], place[b], "arrow reverse" if (a, b) in reverse else "arrow") for a, b in wins]
    for k in members:
        x, y = place[k]
        model = case["models"][k] if k < len(case["models"]) else None
        elements.append(
            node(
                "g",
                node("title", f"{letter(k)} {model or ''}"),
                node("circle", cx=x, cy=y, r=NODE, class_="knot"),
                text(x, y + 5, letter(k), "cellvalue"),
            )
        )
    return [text(SIDE / 2, 14.0, shorten(str(case["case_id"]), 28), "tick"), *elements]


def _arrow(start: tuple[float, float], end: tuple[float, float], class_: str) -> Markup:
    """Return an arrow between two nodes, with its head at the loser."""
    (x1, y1), (x2, y2) = start, end
    size = hypot(x2 - x1, y2 - y1) or 1.0
    ux, uy = (x2 - x1) / size, (y2 - y1) / size
    tip, base = (x2 - ux * (NODE + 2), y2 - uy * (NODE + 2)), (x2 - ux * (NODE + 11), y2 - uy * (NODE + 11))
    corners = [tip, (base[0] - 5 * uy, base[1] + 5 * ux), (base[0] + 5 * uy, base[1] - 5 * ux)]
    return node(
        "g",
        node("line", x1=x1 + ux * NODE, y1=y1 + uy * NODE, x2=base[0], y2=base[1]),
        node("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)),
        class_=class_,
    )
