"""The metric catalog: name, title, definition, direction and order of every metric.

Tables, report titles, gates, summaries, leaderboards and docs/reference/metrics.md derive from it. To add a metric,
write the function that computes it and one row here; the rows of a benchmark are in its own module.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from evalkit.plugins import benchmark_named, find_benchmark, own_benchmarks
from evalkit.protocols import Benchmark
from evalkit.scoring.catalog.checklist_rows import CHECKLIST_ROWS
from evalkit.scoring.catalog.class_rows import CLASS_ROWS
from evalkit.scoring.catalog.decision_rows import DECISION_ROWS
from evalkit.scoring.catalog.diagnostic_rows import DIAGNOSTIC_ROWS
from evalkit.scoring.catalog.spec import Catalog, Match, MetricSpec
from evalkit.scoring.catalog.verdict_rows import VERDICT_ROWS

__all__ = [
    "CATALOG",
    "JUDGE_COLUMNS",
    "LEADERBOARD_COLUMNS",
    "RANKED_BY",
    "TESTED",
    "Catalog",
    "Match",
    "MetricSpec",
    "benchmark_title",
    "catalog_of",
    "full_catalog",
]


def benchmark_title(benchmark: Benchmark) -> str:
    """Return a benchmark's title in reports, the same in every language."""
    return getattr(benchmark, "short_title", "") or benchmark.title


def _rows_of(benchmark: Benchmark) -> tuple[MetricSpec, ...]:
    known = {name: getattr(benchmark, name, {}) for name in ("values", "extra_values", "words")}
    return tuple(replace(row, benchmark=benchmark_title(benchmark), **known) for row in benchmark.metrics)


def _catalog_of_group(group: str) -> Catalog | None:
    """Return the catalog of a benchmark's own metrics; `None` if the group is not a benchmark."""
    benchmark = benchmark_named(group)
    return None if benchmark is None else _catalog(_rows_of(benchmark))


_catalog = cache(Catalog)
CATALOG: Final = Catalog(
    (*CLASS_ROWS, *VERDICT_ROWS, *CHECKLIST_ROWS, *DIAGNOSTIC_ROWS, *DECISION_ROWS), _catalog_of_group
)
"""Every metric: rows of those that do not need a benchmark; a benchmark's are found by name, and come first."""


def catalog_of(benchmark: str | None) -> Catalog:
    """Return the catalog with the rows of one benchmark only.

    Raises:
        ConfigError: if the benchmark is unknown.
    """
    return CATALOG if benchmark is None else Catalog((*_rows_of(find_benchmark(benchmark)), *CATALOG.rows))


@cache
def full_catalog() -> Catalog:
    """Return the catalog with the rows of all of evalkit's own benchmarks, for the docs."""
    return Catalog((*(row for benchmark in own_benchmarks().values() for row in _rows_of(benchmark)), *CATALOG.rows))


RANKED_BY: Final = ("agreement/accuracy", "agreement/spearman", "checklist/accuracy", "position/consistency")
"""Metrics that rank the jobs of a sweep: the first that every job has, otherwise the first that any has."""
TESTED: Final = (
    "agreement/accuracy",
    "agreement/error",
    "agreement/spearman",
    "checklist/accuracy",
    "position/consistency",
    "score/mean",
    "tie_rate",
)
"""Metrics that compared runs are tested in by default: the first that every run has."""
LEADERBOARD_COLUMNS: Final = (
    "agreement/accuracy",
    "agreement/accuracy_per_order",
    "agreement/accuracy_decided",
    "agreement/accuracy_both_orders",
    "agreement/kappa",
    "class/balanced_accuracy",
    "class/tpr",
    "class/tnr",
    "class/macro_f1",
    "class/abstained",
    "agreement/spearman",
    "checklist/accuracy",
    "checklist/kappa",
    "checklist/met_rate",
    "position/consistency",
    "position/first_rate",
    "length/longer_rate",
    "length/slope_at_label",
    "tie_rate",
    "conflict/ratio",
    "between/contradiction",
    "cost/per_case",
    "latency/per_case",
)
"""The metrics of a leaderboard, in order; those that no job has are omitted."""
MAIN_COLUMNS: Final = (
    "agreement/accuracy",
    "class/balanced_accuracy",
    "agreement/spearman",
    "checklist/accuracy",
    "position/first_rate",
    "tie_rate",
    "length/longer_rate",
    "cost/per_case",
    "agreement/accuracy_decided",
)
"""The metrics of a leaderboard that come first where there is no room for all."""
JUDGE_COLUMNS: Final = (
    "agreement/accuracy",
    "agreement/kappa",
    "class/balanced_accuracy",
    "agreement/spearman",
    "checklist/accuracy",
    "tie_rate",
    "position/consistency",
)
"""The metrics of the table of a panel's judges, in order."""
