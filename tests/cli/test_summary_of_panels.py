"""A panel's summary: its own metrics in the table, its judges in one of theirs."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from evalkit.cli.summary import judge_table, metric_table
from evalkit.report.metric_names import metric_words
from evalkit.types import Metric

METRICS = {
    metric.name: metric
    for metric in (
        Metric("agreement/accuracy", 0.8, 0.6, 0.9, 10),
        Metric("panel/alpha", 0.4, 0.1, 0.7, 30),
        Metric("judge/x/agreement/accuracy", 0.7, 0.5, 0.8, 10),
        Metric("judge/x/tie_rate", 0.1, None, None, 10),
        Metric("judge/y/agreement/accuracy", None, n=0, missing=10),
        Metric("judge/y/tie_rate", 0.2, None, None, 10),
    )
}


def shown(table) -> str:
    out = StringIO()
    Console(file=out, width=200).print(table)
    return out.getvalue()


def test_judges_stand_in_a_table_of_their_own() -> None:
    assert "judge/" not in shown(metric_table(METRICS, 0.95))
    assert "panel/alpha" in shown(metric_table(METRICS, 0.95))
    lines = [line.split() for line in shown(judge_table(METRICS)).splitlines()]
    assert lines == [
        ["judge", "accuracy", "tie_rate"],
        ["x", "0.700", "[0.500,", "0.800]", "0.100"],
        ["y", "–", "0.200"],
    ]


def test_a_single_judge_has_no_such_table() -> None:
    assert judge_table({"agreement/accuracy": METRICS["agreement/accuracy"]}) is None


def test_metrics_of_a_judge_are_named_after_it() -> None:
    assert metric_words("judge/x/tie_rate") == ("x: Ties", "x：平局率")
    assert metric_words("judge/x/other") == ("x: other", "x：other")
