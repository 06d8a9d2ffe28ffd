"""Where a decision does not hold: slices of the data in which the judge is shown to be worse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from evalkit.core.types import Metric
from evalkit.scoring.decision.decision_types import USES, Use, Where
from evalkit.scoring.decision.evidence import Metrics

WHERE: Final = "decision/where/"
"""Prefix of the metrics of slices that allow less than other cases; their notes say which cases."""
LEAN_WHERE: Final = "decision/lean_where/"
"""Prefix of the lean in a slice whose rates are off by far more than those of other cases."""
SPREAD_WHERE: Final = "decision/spread_where/"
"""Prefix of the ratio of spreads in a slice in which alone scores are compressed or expanded."""
MISSING_WHERE: Final = "decision/missing_where/"
"""Prefix of the share of missing answers in the slice that has far more of them than
other cases.
"""
LABELED_SHARE: Final = "labels/share"
"""What shows that a slice has hardly any labels: the share of its cases that have one."""
WITHIN: Final = "decision/within"
"""The lowest agreement within the values of a column."""
LONGER: Final = "longer_response"
"""The column that says which response of a pair is the longer one."""
VARIES: Final = "decision/varies"
"""How far the share of right verdicts varies between values with few labels each."""
FOLLOWS: Final = "decision/follows"
"""How many verdicts are those usual for a column, if nothing shows that the judge knows more."""


def places(metrics: Metrics, use: Use) -> Iterator[Where]:
    """Yield the slices in which a judge cannot be used for `use`, worst first.

    Args:
        metrics: the metrics of the judge.
        use: what it can be used for otherwise.
    """
    for name, metric in metrics.items():
        if not name.startswith(WHERE) or metric.value is None:
            continue
        where = _where(metric)
        if where is not None and USES.index(where.allows) < USES.index(use):
            yield where


def stratum(metric: Metric) -> str:
    """Return the column within whose values `WITHIN` is the agreement, or that
    `FOLLOWS` is about.
    """
    return str(_note(metric).get("column", "?"))


def in_slices(metrics: Metrics, prefix: str) -> Iterator[Metric]:
    """Yield the metrics of slices whose names have a prefix, such as `LEAN_WHERE`."""
    for name, metric in metrics.items():
        if name.startswith(prefix) and metric.value is not None:
            yield metric


def lean_of(metric: Metric) -> tuple[str, str]:
    """Return which rate the lean in a slice is of, such as `class`, and the class."""
    kind, _, subject = str(_note(metric).get("lean", "")).partition("/")
    return kind, subject


def slice_of(metric: Metric) -> tuple[str, str]:
    """Return the column and the value that a metric of a slice is about."""
    content = _note(metric)
    return str(content.get("column", "?")), str(content.get("value", "?"))


def is_label(metric: Metric) -> bool:
    """Return whether the column of `FOLLOWS` may be another label."""
    return _note(metric).get("label") is True


def searched(metric: Metric) -> tuple[list[tuple[str, str, int]], list[str]]:
    """Return the small slices that seem worse, each with its units, and the columns
    that were not searched.

    Args:
        metric: the number of slices that were tested.
    """
    content = _note(metric)
    small = content.get("small")
    omitted = content.get("omitted")
    slices = [
        (str(row["column"]), str(row["value"]), int(row["n"]))
        for row in (small if isinstance(small, list) else [])
        if isinstance(row, dict) and row.keys() >= {"column", "value", "n"}
    ]
    names = omitted if isinstance(omitted, list) else []
    return slices, [str(name) for name in names]


def _note(metric: Metric) -> dict[str, Any]:
    """Return what a note says; nothing if it is not as evalkit writes it."""
    try:
        content = json.loads(metric.note or "")
    except ValueError:
        return {}
    if isinstance(content, dict):
        return content
    return {}


def _where(metric: Metric) -> Where | None:
    content = _note(metric)
    column = content.get("column")
    value = content.get("value")
    allows = content.get("allows")
    if not isinstance(column, str) or not isinstance(value, str):
        return None
    if allows not in USES:
        return None
    return Where(
        column=column,
        value=value,
        allows=allows,
        metric=metric,
        shown_by=str(content.get("metric", "")),
        start=_end(content.get("from")),
        below=_end(content.get("below")),
        is_bin="from" in content,
        computed=content.get("computed") is True,
    )


def _end(end: Any) -> float | str | None:
    if isinstance(end, bool) or not isinstance(end, int | float | str):
        return None
    return end
