"""Figures of systems and of judges: ranking, cyclic verdicts, corrected rates, tokens,
cost and latency.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import cos, hypot, pi, sin

from markupsafe import Markup

from evalkit.core.display import dollars, letter, shorten
from evalkit.core.translation import Text, gettext, in_every_language
from evalkit.core.types import Metric
from evalkit.core.values import Json
from evalkit.report.counts import Spending
from evalkit.report.figures.drawing import (
    Axis,
    Figure,
    figure,
    hint,
    line,
    node,
    text,
    text_width,
)
from evalkit.report.figures.forest import Row, bounds, forest_figure
from evalkit.report.findings.corrections import RATES, corrected_rates, is_determined
from evalkit.report.texts import FIGURES, LABELS, metric_words
from evalkit.scoring.decision import Metrics

MOST_SYSTEMS, MOST_CYCLES = 40, 6
SIDE, RADIUS, NODE = 230.0, 78.0, 15.0


def ranking(systems_table: Json) -> Figure | None:
    """Return the systems with their ratings and intervals, or with win rates if ratings
    are undetermined.
    """
    systems: Sequence[Json] = (systems_table.get("systems") or ())[:MOST_SYSTEMS]
    if len(systems) < 2:
        return None
    rated = any(system["rating"]["value"] is not None for system in systems)
    name, digits = ("rating", 0) if rated else ("win_rate", 2)
    rows = [
        Row(
            (system["system"],) * 2,
            metric_of(system["system"], system[name]),
            digits=digits,
        )
        for system in systems
    ]
    low, high = bounds(rows) if rated else (0.0, 1.0)
    sure = any(row.metric.low is not None for row in rows)
    key = "ranking" if sure else "ranking_points"
    if not rated:
        key = "ranking_rates"
    return forest_figure("ranking", FIGURES[key], rows, low, high)


def metric_of(name: str, numbers: Json) -> Metric:
    """Return a metric from its entry in a file of the run folder."""
    return Metric(
        name,
        numbers["value"],
        numbers.get("low"),
        numbers.get("high"),
        numbers.get("n") or 0,
    )


def cycles(cycles_table: Json) -> Figure | None:
    """Return the first cases with cyclic verdicts as graphs, or `None` if there are none."""
    cases: Sequence[Json] = [
        case for case in cycles_table.get("cases") or () if case["cycles"]
    ][:MOST_CYCLES]
    if not cases:
        return None
    across = min(len(cases), 4)
    down = -(-len(cases) // across)
    elements = [
        node(
            "g",
            *_draw_graph(case),
            transform=f"translate({SIDE * (index % across):.0f} {SIDE * (index // across):.0f})",
        )
        for index, case in enumerate(cases)
    ]
    return figure("cycles", SIDE * across, SIDE * down, elements, wide=True)


def _points_on_circle(members: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Return a point for each response, at equal distances clockwise from the top."""
    center_x = SIDE / 2
    # Below the middle, since the name of the case is above.
    center_y = SIDE / 2 + 8
    points = {}
    for position, index in enumerate(members):
        angle = 2 * pi * position / len(members) - pi / 2
        x = center_x + RADIUS * cos(angle)
        y = center_y + RADIUS * sin(angle)
        points[index] = (x, y)
    return points


def _wins_in(cycles: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the winner and the loser of each pair of neighbors in the cycles, sorted."""
    wins: set[tuple[int, int]] = set()
    for cycle in cycles:
        # The last response of a cycle beats the first.
        losers = [*cycle[1:], cycle[0]]
        wins |= set(zip(cycle, losers, strict=True))
    return sorted(wins)


def _draw_graph(case: Json) -> list[Markup]:
    """Draw the cycles of a case: responses on a circle, an arrow from each winner to its loser."""
    # Indices of responses.
    members: list[int] = sorted({index for cycle in case["cycles"] for index in cycle})
    point_of = _points_on_circle(members)
    reversed_pairs = {tuple(pair) for pair in case["reverse"]}
    elements = []
    for winner, loser in _wins_in(case["cycles"]):
        is_reversed = (winner, loser) in reversed_pairs
        class_ = "arrow reverse" if is_reversed else "arrow"
        elements.append(_arrow(point_of[winner], point_of[loser], class_))
    models = case["models"]
    for index in members:
        x, y = point_of[index]
        model = models[index] if index < len(models) else None
        knot = node("circle", cx=x, cy=y, r=NODE, class_="knot")
        label = text(x, y + 5, letter(index), "cellvalue")
        elements.append(hint(f"{letter(index)} {model or ''}", knot, label))
    return [text(SIDE / 2, 14.0, shorten(str(case["case_id"]), 28), "tick"), *elements]


def _arrow(start: tuple[float, float], end: tuple[float, float], class_: str) -> Markup:
    """Return an arrow between two nodes, with its head at the loser."""
    (x1, y1), (x2, y2) = start, end
    size = hypot(x2 - x1, y2 - y1) or 1.0
    # (ux, uy) points from node to node, and (-uy, ux) is at right angles to it
    ux = (x2 - x1) / size
    uy = (y2 - y1) / size
    tip = (x2 - ux * (NODE + 2), y2 - uy * (NODE + 2))
    base = (x2 - ux * (NODE + 11), y2 - uy * (NODE + 11))
    corners = [
        tip,
        (base[0] - 5 * uy, base[1] + 5 * ux),
        (base[0] + 5 * uy, base[1] - 5 * ux),
    ]
    return node(
        "g",
        node("line", x1=x1 + ux * NODE, y1=y1 + uy * NODE, x2=base[0], y2=base[1]),
        node("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)),
        class_=class_,
    )


WIDTH, LEFT, RIGHT, ROW = 740.0, 180.0, 410.0, 44.0


def _draw_tokens(spending: Spending, cases: int, axis: Axis, y: float) -> Markup:
    """Draw the tokens of a judge per case as two bars, end to end: the prompt's and the
    answer's.
    """
    prompt = spending.prompt_tokens / cases
    answer = spending.completion_tokens / cases
    middle = axis(prompt)
    end = axis(prompt + answer)
    prompt_width = middle - axis.start
    answer_width = end - middle
    return hint(
        f"{prompt:,.0f} + {answer:,.0f}",
        node(
            "rect", class_="bar bar0", x=axis.start, y=y, width=prompt_width, height=20
        ),
        node("rect", class_="bar bar1", x=middle, y=y, width=answer_width, height=20),
    )


def costs(judges: Mapping[str, Spending], cases: int) -> Figure | None:
    """Return tokens per case, cost per case and latency of each judge; `None` if no
    usage is known.
    """
    used = {name: spending for name, spending in judges.items() if spending.answers}
    cases = max(1, cases)
    most = max(
        (
            (spending.prompt_tokens + spending.completion_tokens) / cases
            for spending in used.values()
        ),
        default=0.0,
    )
    if not most:
        return None
    axis = Axis(0.0, most, LEFT, RIGHT)
    elements: list[Markup] = []
    bottom = ROW * len(used)
    for x, tick in axis.ticks(3):
        elements += [
            line(x, 0.0, x, bottom, "grid"),
            text(x, bottom + 16, tick, "tick"),
        ]
    labels = [in_every_language(_label(spending, cases)) for spending in used.values()]
    for index, (name, spending) in enumerate(used.items()):
        y = ROW * index
        elements += [
            text(LEFT - 12, y + 26, shorten(name, 24), "name"),
            _draw_tokens(spending, cases, axis, y + 12),
            text(RIGHT + 16, y + 26, labels[index], "value"),
        ]
    elements.append(
        text((LEFT + RIGHT) / 2, bottom + 34, LABELS["tokens_a_case"], "axis")
    )
    return figure(
        "costs",
        max(WIDTH, RIGHT + 16 + max(map(text_width, labels))),
        bottom + 40,
        elements,
        wide=True,
    )


def _label(spending: Spending, cases: int) -> Text:
    """Return the cost of a case and the latency of an answer."""
    if spending.unpriced:
        label = gettext("price unknown")
    else:
        label = gettext("{money} per case", money=dollars(spending.cost_usd / cases))
    half = spending.latency(0.5)
    most = spending.latency(0.9)
    if half is None or most is None:
        return label
    return gettext(
        "{cost} · {half:.2g} s, 90% ≤ {most:.2g} s", cost=label, half=half, most=most
    )


def corrected(metrics: Metrics) -> Figure | None:
    """Return each rate as judged, above its correction by the labeled cases; `None` if
    nothing is corrected.
    """
    rows: list[Row] = []
    for _, judged, right in corrected_rates(metrics):
        if judged.name in RATES or is_determined(right):
            rows += [
                Row(metric_words(judged.name), judged, faint=True),
                Row(metric_words(right.name), right),
            ]
    if rows:
        return forest_figure("corrected", FIGURES["corrected"], rows, 0.0, 1.0)
    return None
