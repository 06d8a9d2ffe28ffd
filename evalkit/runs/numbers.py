"""A metric as it is written: its value, its intervals, and what they rest on."""

from __future__ import annotations

from typing import Any

from evalkit.types import Metric


def metric_values(metric: Metric) -> dict[str, Any]:
    """Return a metric's numbers by their names in metrics.json; its own name is not among them."""
    return {
        "value": metric.value,
        "low": metric.low,
        "high": metric.high,
        "n": metric.n,
        "missing": metric.missing,
        "worst_low": metric.worst_low,
        "worst_high": metric.worst_high,
        "note": metric.note,
    }
