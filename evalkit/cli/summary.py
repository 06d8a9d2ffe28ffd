"""What a finished run prints: what was found, in words, then the numbers with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from evalkit.cli.console import plain_console, print_heading
from evalkit.core.display import dollars, number, relative
from evalkit.gating import GATE, gate_lines
from evalkit.report.findings import findings_of
from evalkit.scoring.catalog import CATALOG, JUDGE_COLUMNS
from evalkit.types import Metric, RunResult


def interval(metric: Metric) -> str:
    """Return a metric's interval in brackets, or nothing where it has none."""
    if metric.low is None or metric.high is None:
        return ""
    return f"[{number(metric.low)}, {number(metric.high)}]"


def _worth_a_row(metric: Metric) -> bool:
    spec = CATALOG.spec(metric.name)
    return CATALOG.is_headline(metric.name) and spec is not None and bool(metric.value or not spec.hidden_at_zero)


def _shown(metric: Metric) -> bool:
    return (metric.value is not None and _worth_a_row(metric)) or _undefined(metric)


def _undefined(metric: Metric) -> bool:
    """Say whether a coefficient has no value although it has data: all labels are of one class, or all scores equal."""
    spec = CATALOG.spec(metric.name)
    undefined = metric.value is None and metric.n > 0 and CATALOG.is_headline(metric.name)
    return undefined and spec is not None and spec.group == "agreement" and spec.is_coefficient


def _worst(metric: Metric) -> str:
    """Return what a metric would be if every missing answer had gone against, or for, it."""
    if not metric.missing or metric.worst_low is None or metric.worst_high is None:
        return ""
    return f"{number(metric.worst_low)} to {number(metric.worst_high)}"


def metric_table(metrics: Mapping[str, Metric], confidence: float) -> Table:
    """Return the table of a run's main metrics; the others are in its folder and report."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric")
    table.add_column("value", justify="right")
    table.add_column(f"{confidence:.0%} interval")
    table.add_column("n", justify="right")
    table.add_column("missing", justify="right")
    lacking = any(metric.missing and metric.worst_low is not None for metric in metrics.values() if _shown(metric))
    if lacking:
        table.add_column("worst case")
    for metric in metrics.values():
        if _shown(metric):
            missing = str(metric.missing) if metric.missing else ""
            value = "not defined" if _undefined(metric) else number(metric.value)
            cells = [metric.name, value, interval(metric), str(metric.n), missing]
            table.add_row(*cells, *([_worst(metric)] if lacking else []))
    return table


def judge_table(metrics: Mapping[str, Metric]) -> Table | None:
    """Return the table of a panel's judges, none where there is no panel."""
    judges = list(dict.fromkeys(name.split("/")[1] for name in metrics if name.startswith("judge/")))
    known = [name for name in JUDGE_COLUMNS if any(_of(metrics, judge, name) for judge in judges)]
    if not judges:
        return None
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("judge")
    for name in known:
        table.add_column(name.removeprefix("agreement/"), justify="right")
    for judge in judges:
        found = [_of(metrics, judge, name) for name in known]
        table.add_row(judge, *(f"{number(one.value)} {interval(one)}".strip() if one else "–" for one in found))
    return table


def _of(metrics: Mapping[str, Metric], judge: str, name: str) -> Metric | None:
    metric = metrics.get(f"judge/{judge}/{name}")
    return metric if metric is not None and metric.value is not None else None


def print_summary(result: RunResult) -> None:
    """Print a finished run on standard output."""
    console = plain_console()
    manifest = result.manifest
    rows = manifest["dataset"]["rows"]
    what = f"{manifest['mode']} · {manifest['judge']} · {manifest['dataset']['name']}"
    console.print(print_heading(what, f" ({rows} case{'s' * (rows != 1)})"))
    for finding in findings_of(result):
        console.print(f"  • {finding.text}")
    console.print()
    console.print(metric_table(result.metrics, result.config.scoring.confidence))
    console.print()
    if judges := judge_table(result.metrics):
        console.print(judges)
        console.print()
    if gate := manifest.get(GATE):
        console.print("\n".join([*gate_lines(gate), ""]))
    _print_calls(console, result)
    for note in manifest.get("notes", []):
        console.print(f"note: {note}")
    _print_places(console, result)


def _print_calls(console: Console, result: RunResult) -> None:
    if brought := result.manifest.get("imported"):
        layout = f" ({brought['format']})" if brought.get("format") else ""
        console.print(f"imported: {brought['judgments']} judgments from {brought['source']}{layout}")
        return
    calls = result.calls
    cost = "price unknown" if result.cost_usd is None else dollars(result.cost_usd)
    text = f"calls: {calls.planned} planned, {calls.stored} stored, {calls.sent} sent, {calls.failed} failed; {cost}"
    console.print(text)


def _print_places(console: Console, result: RunResult) -> None:
    if result.folder:
        more = sum(metric.value is not None for metric in result.metrics.values())
        console.print(f"report: {relative(Path(result.folder) / 'report.html')} (all {more} metrics)")
    if run_id := result.manifest.get("mlflow_run_id"):
        console.print(f"MLflow: run {run_id}; `evalkit ui` opens it")
    if tracked := result.manifest.get("tracked"):
        console.print(f"{tracked['tracker']}: run {tracked['id']}")
