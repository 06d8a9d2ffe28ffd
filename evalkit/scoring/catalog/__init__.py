"""The metric catalog: name, title, definition, direction and order of every metric,
from metrics.toml.

Tables, report titles, gates, summaries, leaderboards and docs/reference/metrics.md derive from it.
To add a metric, write the function that computes it, list it in `metric_registry`, and add a row
there. The rows of a benchmark are in benchmarks/NAME.toml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Final

from evalkit.core.benchmark_discovery import (
    benchmark_named,
    find_benchmark,
    own_benchmarks,
)
from evalkit.core.errors import PluginError
from evalkit.core.prepared_files import read_table
from evalkit.core.protocols import Benchmark
from evalkit.core.translation import Text, gettext
from evalkit.core.values import Json
from evalkit.scoring.catalog.custom import (
    CustomMetric,
    installed_metrics,
    metrics_of_group,
)
from evalkit.scoring.catalog.spec import (
    CHECKLISTS,
    CLASSES,
    EVERY,
    PAIRS,
    POINTWISE,
    SCORES,
    Catalog,
    Match,
    MetricSpec,
)

__all__ = [
    "CATALOG",
    "COLUMNS",
    "HEADINGS",
    "JUDGE_COLUMNS",
    "LEADERBOARD_COLUMNS",
    "RANKED_BY",
    "SHORT_TITLES",
    "TESTED",
    "Catalog",
    "CustomMetric",
    "Match",
    "MetricSpec",
    "benchmark_title",
    "catalog_of",
    "custom_metrics",
    "full_catalog",
    "heading",
    "metric_row",
]


def benchmark_title(benchmark: Benchmark) -> str:
    """Return a benchmark's title in reports, the same in every language."""
    return getattr(benchmark, "short_title", "") or benchmark.title


def _rows_of(benchmark: Benchmark) -> tuple[MetricSpec, ...]:
    facts = {
        name: getattr(benchmark, name, {})
        for name in ("values", "extra_values", "words")
    }
    return tuple(
        replace(row, benchmark=benchmark_title(benchmark), **facts)
        for row in benchmark.metrics
    )


def _catalog_of_group(group: str) -> Catalog | None:
    """Return the catalog of the metrics of a benchmark or a plug-in; `None` if the
    group is neither.
    """
    benchmark = benchmark_named(group)
    if benchmark is not None:
        return _catalog(_rows_of(benchmark))
    try:
        metrics = metrics_of_group(group, CATALOG.groups)
    except PluginError:  # `evalkit plugins` shows why, and a run is refused
        return None
    if not metrics:
        return None
    return _catalog(tuple(metric.spec for metric in metrics))


def custom_metrics() -> tuple[CustomMetric, ...]:
    """Return the metrics of plug-ins.

    Raises:
        PluginError: if one of them cannot be used.
    """
    return installed_metrics(CATALOG.groups)


_TABLE: Final = read_table(Path(__file__).parent / "metrics.toml")
_MODES: Final = {
    "pairs": PAIRS,
    "scores": SCORES,
    "pointwise": POINTWISE,
    "checklists": CHECKLISTS,
    "classes": CLASSES,
    "every": EVERY,
}


def metric_row(name: str, entry: Json) -> MetricSpec:
    """Return an entry of metrics.toml, or of a benchmark's facts, as a row, with the
    defaults of `MetricSpec`.
    """
    attributes = dict(entry)
    if (modes := attributes.get("modes")) is not None:
        attributes["modes"] = _MODES[modes] if isinstance(modes, str) else tuple(modes)
    if "interval" in attributes:
        attributes["interval"] = _TABLE["intervals"][attributes["interval"]]
    if (ends := attributes.pop("range", None)) is not None:
        attributes["low"], attributes["high"] = (
            float(end) if isfinite(end) else None for end in ends
        )
    return MetricSpec(name, **attributes)


_catalog = cache(Catalog)
CATALOG: Final = Catalog(
    (metric_row(name, entry) for name, entry in _TABLE["metrics"].items()),
    _catalog_of_group,
)
"""Every metric: rows of those that do not need a benchmark; a benchmark's are found by name, and
come first."""


def catalog_of(benchmark: str | None) -> Catalog:
    """Return the catalog with the rows of one benchmark only, and those of plug-ins.

    Raises:
        ConfigError: if the benchmark is unknown.
        PluginError: if a metric of a plug-in cannot be used.
    """
    custom = tuple(metric.spec for metric in custom_metrics())
    if benchmark is None and not custom:
        return CATALOG
    rows = () if benchmark is None else _rows_of(find_benchmark(benchmark))
    return Catalog((*rows, *CATALOG.rows, *custom))


@cache
def full_catalog() -> Catalog:
    """Return the catalog with the rows of all of evalkit's own benchmarks, for the docs."""
    return Catalog(
        (
            *(
                row
                for benchmark in own_benchmarks().values()
                for row in _rows_of(benchmark)
            ),
            *CATALOG.rows,
        )
    )


COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    name: tuple(names) for name, names in _TABLE["columns"].items()
}
"""Lists of metrics by their use, each in the order of its table."""
RANKED_BY: Final = COLUMNS["ranked_by"]
TESTED: Final = COLUMNS["tested"]
LEADERBOARD_COLUMNS: Final = COLUMNS["leaderboard_columns"]
MAIN_COLUMNS: Final = COLUMNS["main_columns"]
JUDGE_COLUMNS: Final = COLUMNS["judge_columns"]
SHORT_TITLES: Final[Mapping[str, str]] = _TABLE["short_titles"]
"""Titles of metrics where a line has little room."""
HEADINGS: Final = {group: Text(text) for group, text in _TABLE["headings"].items()}
"""The heading of each group of the catalog; groups that are read together share one."""


def heading(name: str) -> Text | str:
    """Return the heading above a metric: its group's, its benchmark's, or the judge's
    of a panel.
    """
    match = CATALOG.find(name)
    if match is not None and match.judge is not None:
        return match.judge
    if match is not None and match.spec.benchmark:
        return match.spec.benchmark
    return HEADINGS.get(name.partition("/")[0], gettext("Other metrics"))
