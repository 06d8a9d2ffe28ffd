"""Write docs/reference/metrics.md from the metric catalog: `python docs/generate_metrics.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from evalkit.scoring.catalog import CATALOG, MetricSpec, full_catalog
from evalkit.scoring.catalog.spec import BOOTSTRAP, BOTH, EVERY

PAGE = Path(__file__).parent / "reference" / "metrics.md"
INTRODUCTION = """# Metrics

<!-- Written by docs/generate_metrics.py. Edit the rows in evalkit/scoring/catalog and evalkit/benchmarks. -->

Each metric of `metrics.json` has a `value` and the ends of its interval, `low` and `high`.
`n` counts the units behind it, and `missing` those that are not there.
`worst_low` and `worst_high` are its value if every missing answer had gone against it, or for it.
A metric without a value has a `note` that gives the reason.
Intervals are percentiles of a bootstrap that resamples clusters of cases, unless the table names another one.
A share of exactly 0 or 1 has an exact binomial interval.

Each judge of a panel also has its own metrics, named `judge/NAME/METRIC`.
Names in braces are placeholders, such as `{criterion}` or `{model}`.
The chance level is the value for a judge that ignores the responses.
"""
BENCHMARKS = """## Benchmarks

A run has the metrics of the benchmark that `dataset.benchmark` names.
"""
SCOPES = {"comparison": "a comparison of runs", "sweep": "a sweep"}


def page() -> str:
    """Return the page: evalkit's own metrics by group, then those of benchmarks."""
    published = [row for row in full_catalog().rows if row.benchmark]
    return "\n".join(
        [
            INTRODUCTION,
            *_groups(CATALOG.rows, "##"),
            BENCHMARKS,
            *_groups(published, "###"),
        ]
    )


def _groups(rows: Sequence[MetricSpec], level: str) -> Iterator[str]:
    for group, members in groupby(rows, key=lambda row: row.group):
        yield f"{level} {group}\n"
        for row in members:
            yield _entry(row)


def _entry(row: MetricSpec) -> str:
    facts = [f"Range: {_range(row)}."]
    facts += [f"Better: {row.better}."] if row.better else []
    facts += [] if row.chance is None else [f"Chance level: {_number(row.chance)}."]
    facts += (
        [f"Modes: {', '.join(row.modes)}."] if row.modes not in (BOTH, EVERY) else []
    )
    facts += [f"Needs {row.needs}."] if row.needs else []
    facts += [f"Measured in {SCOPES[row.scope]}."] if row.scope != "run" else []
    facts += [f"Interval: {row.interval}."] if row.interval != BOOTSTRAP else []
    formula = [f"    Formula: {row.formula}", ""] if row.formula else []
    source = [f"    Source: {row.source}", ""] if row.source else []
    return "\n".join(
        [
            f"`{row.name}`",
            f":   {row.definition}",
            "",
            *formula,
            f"    {' '.join(facts)}",
            "",
            *source,
        ]
    )


def _range(row: MetricSpec) -> str:
    ends = {(True, True): "any number", (False, True): f"{_number(row.low)} or more"}
    return (
        f"{ends.get((row.low is None, row.high is None), f'{_number(row.low)} to {_number(row.high)}')}"
        f" ({row.unit})"
    )


def _number(value: float | str | None) -> str:
    return f"{value:g}" if isinstance(value, float | int) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
