"""Figures that are tables of shaded squares: verdicts by label or by order, and metrics
by slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from evalkit.core.display import estimate, fixed, quoted, shorten
from evalkit.core.types import Winner
from evalkit.core.values import Json
from evalkit.report.figures.drawing import (
    Figure,
    figure,
    hint,
    label_width,
    node,
    text,
)
from evalkit.report.texts import LABELS, Words
from evalkit.scoring.catalog import SHORT_TITLES

CELL = (78.0, 46.0)
LEFT = 96.0
TOP = 52.0
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
    further = list(
        dict.fromkeys(
            name
            for row in rows
            for name in labels[row]
            if name not in (*names, *CLASSES)
        )
    )
    columns = [
        *(names or CLASSES),
        *(name for name in further if any(labels[row].get(name) for row in rows)),
    ]
    counts = [[labels[row].get(column, 0) for column in columns] for row in rows]
    return _draw_table("confusion", rows, columns, counts, ("label", "verdict"))


def passes(counted: Mapping[tuple[Winner | None, Winner | None], int]) -> Figure | None:
    """Return the verdicts of the first order against the second; `None` if pairs were
    shown in one order.
    """
    if not sum(n for (first, second), n in counted.items() if first and second):
        return None
    names = {**dict.fromkeys(CLASSES), "missing": None}
    counts_of: dict[tuple[str, str], int] = {
        (a or "missing", b or "missing"): n for (a, b), n in counted.items()
    }
    used = [
        name
        for name in names
        if name != "missing" or any("missing" in pair for pair in counts_of)
    ]
    counts = [[counts_of.get((row, column), 0) for column in used] for row in used]
    return _draw_table("passes", used, used, counts, ("first_order", "second_order"))


def _draw_table(
    name: str,
    rows: Sequence[str],
    columns: Sequence[str],
    counts: Sequence[Sequence[int]],
    axes: tuple[str, str],
) -> Figure:
    """Draw a table of counts, each cell shaded by its share of the row.

    Args:
        name: the name of the figure.
        rows: the names of the rows.
        columns: the names of the columns.
        counts: (rows, columns) the counts.
        axes: the labels of the rows and of the columns, as keys of `LABELS`.
    """
    width, height = CELL
    elements = [
        text(LEFT + width * len(columns) / 2, 16.0, LABELS[axes[1]], "axis"),
        text(0.0, TOP - 12, LABELS[axes[0]], "axis start"),
    ]
    for index, column in enumerate(columns):
        elements.append(
            text(LEFT + width * (index + 0.5), TOP - 12, _named(column, 11), "tick")
        )
    for i, (row, row_counts) in enumerate(zip(rows, counts, strict=True)):
        y = TOP + height * i
        total = sum(row_counts)
        name_of_row = text(LEFT - 10, y + height / 2 + 4, _named(row, 13), "tick end")
        elements.append(name_of_row)
        for j, n in enumerate(row_counts):
            x = LEFT + width * j
            share = n / total if total else 0.0
            # Even a small count is visible, and even the whole row is not black.
            shade = 0.08 + 0.72 * share if n else 0.0
            class_ = "same" if row == columns[j] else "other"
            tooltip = f"{n:,} ({100 * share:.0f} %)"
            cell = _draw_cell(x, y, f"{n:,}", tooltip, shade, class_, share > STRONG)
            elements.append(cell)
    return figure(
        name, LEFT + width * len(columns) + 2, TOP + height * len(rows) + 4, elements
    )


def _named(name: str, width: int) -> Words:
    short = shorten(name, width)
    return _NAMES.get(name, (short, short))


def _draw_cell(
    x: float,
    y: float,
    words: str,
    tooltip: str,
    shade: float,
    class_: str,
    strong: bool,
) -> Markup:
    """Draw a cell with a tooltip.

    Args:
        x: its left edge.
        y: its upper edge.
        words: its text.
        tooltip: the text under the pointer.
        shade: how dark it is, from 0 to 1.
        class_: the class of its color.
        strong: whether it is so dark that its text must be light.
    """
    width, height = CELL
    inside = {"x": x + 1, "y": y + 1, "width": width - 2, "height": height - 2}
    return hint(
        tooltip,
        node("rect", **inside, class_="cell"),
        node(
            "rect",
            **inside,
            class_=class_,
            fill_opacity=f"{shade:.2f}" if shade else "0",
        ),
        text(
            x + width / 2,
            y + height / 2 + 5,
            words,
            "cellvalue strong" if strong else "cellvalue",
        ),
    )


def slices(rows: Sequence[Json], confidence: float) -> Figure | None:
    """Return the values of each metric (columns) by slice (rows) as a heat map; `None`
    without slices.
    """
    if not rows:
        return None
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    names = list(dict.fromkeys((row["column"], row["value"]) for row in rows))
    width, height = CELL
    names_width = label_width(
        (f"{column} {value}" for column, value in names), 14.0, 220.0
    )
    elements = []
    for index, metric in enumerate(metrics):
        elements.append(
            text(
                names_width + width * (index + 0.5),
                16.0,
                SHORT_TITLES.get(metric, metric),
                "tick",
            )
        )
    for index, (column, value) in enumerate(names):
        y = 26.0 + height * (index + 0.5) + 4
        elements.append(
            text(
                names_width - 10,
                y,
                shorten(f"{column} {quoted(value)}", 32),
                "tick end",
            )
        )
    for row in rows:
        x = names_width + width * metrics.index(row["metric"])
        y = 26.0 + height * names.index((row["column"], row["value"]))
        value_estimate = row["estimate"]
        p = row["p_holm"]
        if value_estimate is None:
            words = ""
        else:
            words = fixed(value_estimate, 2) + (
                "*" if p is not None and p <= 1 - confidence else ""
            )
        share = min(max(value_estimate or 0.0, 0.0), 1.0)
        tooltip = (
            f"{row['n']:,}:"
            f" {estimate(value_estimate, row['low'], row['high'], lambda value: fixed(value, 2))}"
        )
        elements.append(
            _draw_cell(x, y, words, tooltip, 0.8 * share, "same", share > STRONG)
        )
    return figure(
        "slices",
        names_width + width * len(metrics) + 2,
        30.0 + height * len(names),
        elements,
    )
