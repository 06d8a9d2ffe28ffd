"""Tokens, cost and latency of the answers by judge, and rates corrected by labels."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from evalkit.core.display import dollars, shorten
from evalkit.core.translation import Text, gettext, in_every_language
from evalkit.report.class_findings import class_names
from evalkit.report.counts import Spending
from evalkit.report.figures.drawing import Axis, Figure, canvas, line, node, text, text_width
from evalkit.report.figures.forest import Row, forest_figure
from evalkit.report.metric_names import Words, metric_words
from evalkit.report.texts import FIGURES, LABELS
from evalkit.scoring.metrics.corrections import RANDOM
from evalkit.types import Metric

WIDTH, LEFT, RIGHT, ROW = 740.0, 180.0, 410.0, 44.0
CORRECTED = ("win_rate/a", "win_rate/b", "tie_rate")


def costs(judges: Mapping[str, Spending], cases: int) -> Figure | None:
    """Return tokens per case, cost per case and latency of each judge; `None` if no usage is known."""
    used = {name: one for name, one in judges.items() if one.answers}
    totals = {name: (one.prompt_tokens + one.completion_tokens) / max(1, cases) for name, one in used.items()}
    if not totals or not max(totals.values()):
        return None
    axis = Axis(0.0, max(totals.values()), LEFT, RIGHT)
    elements: list[Markup] = []
    bottom = ROW * len(used)
    for x, tick in axis.ticks(3):
        elements += [line(x, 0.0, x, bottom, "grid"), text(x, bottom + 16, tick, "tick")]
    labels = [in_every_language(_label(one, max(1, cases))) for one in used.values()]
    for place, ((name, one), label) in enumerate(zip(used.items(), labels, strict=True)):
        elements += _judge(name, one, max(1, cases), axis, ROW * place, label)
    elements.append(text((LEFT + RIGHT) / 2, bottom + 34, LABELS["tokens_a_case"], "axis"))
    title, caption = FIGURES["costs"]
    width = max(WIDTH, RIGHT + 16 + max(map(text_width, labels)))
    return Figure("costs", title, canvas(width, bottom + 40, *elements, label=title), caption, wide=True)


def _label(one: Spending, cases: int) -> Text:
    """Return the cost of a case and the latency of an answer."""
    label = gettext("{money} per case", money="-" if one.unpriced else dollars(one.cost_usd / cases))
    half, most = one.latency(0.5), one.latency(0.9)
    if half is None or most is None:
        return label
    return gettext("{cost} · {half:.2g} s, 90% ≤ {most:.2g} s", cost=label, half=half, most=most)


def _judge(name: str, one: Spending, cases: int, axis: Axis, y: float, label: Words) -> list[Markup]:
    prompt, completion = one.prompt_tokens / cases, one.completion_tokens / cases
    middle = axis(prompt)
    return [
        text(LEFT - 12, y + 26, shorten(name, 24), "name"),
        node(
            "g",
            node("title", f"{prompt:,.0f} + {completion:,.0f}"),
            node("rect", class_="bar bar0", x=axis.start, y=y + 12, width=middle - axis.start, height=20),
            node("rect", class_="bar bar1", x=middle, y=y + 12, width=axis(prompt + completion) - middle, height=20),
        ),
        text(RIGHT + 16, y + 26, label, "value"),
    ]


def corrected(metrics: Mapping[str, Metric]) -> Figure | None:
    """Return each rate as judged, above its correction by the labeled cases; `None` if nothing is corrected."""
    rows: list[Row] = []
    pairs = {name: f"corrected/{name}" for name in CORRECTED}
    pairs |= {f"class/{name}/rate": f"corrected/prediction_powered/{name}" for name in class_names(metrics)}
    for name, better in pairs.items():
        judged, right = metrics.get(name), metrics.get(better)
        if judged is not None and right is not None and right.low is not None and RANDOM in (right.note or ""):
            rows += [Row(metric_words(name), judged, faint=True), Row(metric_words(right.name), right)]
    return forest_figure("corrected", FIGURES["corrected"], rows, 0.0, 1.0) if rows else None
