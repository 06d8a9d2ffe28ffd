"""Tables as squares: labels against verdicts, and one order against the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from evalkit.core.display import shorten
from evalkit.report.figures.drawing import Figure, canvas, node, text
from evalkit.report.metric_names import Words
from evalkit.report.texts import FIGURES, LABELS
from evalkit.types import Winner

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


def confusion(table: Mapping[str, Any]) -> Figure | None:
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
    title, caption = FIGURES["confusion"]
    return Figure("confusion", title, _table(rows, columns, counts, ("label", "verdict"), title), caption)


def passes(counted: Mapping[tuple[Winner | None, Winner | None], int]) -> Figure | None:
    """Return the verdicts of the first order against the second; `None` if pairs were shown in one order."""
    if not sum(n for (first, second), n in counted.items() if first and second):
        return None
    names = {**dict.fromkeys(CLASSES), "missing": None}
    found: dict[tuple[str, str], int] = {(a or "missing", b or "missing"): n for (a, b), n in counted.items()}
    used = [name for name in names if name != "missing" or any("missing" in pair for pair in found)]
    counts = [[found.get((row, column), 0) for column in used] for row in used]
    title, caption = FIGURES["passes"]
    return Figure("passes", title, _table(used, used, counts, ("first_order", "second_order"), title), caption)


def _table(
    rows: Sequence[str], columns: Sequence[str], counts: Sequence[Sequence[int]], axes: tuple[str, str], title: Words
) -> Markup:
    width, height = CELL
    elements = [
        text(LEFT + width * len(columns) / 2, 16.0, LABELS[axes[1]], "axis"),
        text(0.0, TOP - 12, LABELS[axes[0]], "axis start"),
    ]
    for place, column in enumerate(columns):
        elements.append(text(LEFT + width * (place + 0.5), TOP - 12, _named(column, 11), "tick"))
    for i, (row, line) in enumerate(zip(rows, counts, strict=True)):
        total = sum(line)
        elements.append(text(LEFT - 10, TOP + height * (i + 0.5) + 4, _named(row, 13), "tick end"))
        for j, n in enumerate(line):
            elements.append(
                _cell(LEFT + width * j, TOP + height * i, n, n / total if total else 0.0, row == columns[j])
            )
    size = LEFT + width * len(columns) + 2, TOP + height * len(rows) + 4
    return canvas(*size, *elements, label=title)


def _named(name: str, width: int) -> Words:
    short = shorten(name, width)
    return _NAMES.get(name, (short, short))


def _cell(x: float, y: float, n: int, share: float, same: bool) -> Markup:
    width, height = CELL
    class_ = "same" if same else "other"
    return node(
        "g",
        node("title", f"{n:,} ({100 * share:.0f} %)"),
        node("rect", x=x + 1, y=y + 1, width=width - 2, height=height - 2, class_="cell"),
        node(
            "rect",
            x=x + 1,
            y=y + 1,
            width=width - 2,
            height=height - 2,
            class_=class_,
            fill_opacity=f"{0.08 + 0.72 * share:.2f}" if n else "0",
        ),
        text(x + width / 2, y + height / 2 + 5, f"{n:,}", "cellvalue strong" if share > STRONG else "cellvalue"),
    )
