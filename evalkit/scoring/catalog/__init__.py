"""The metric catalog: name, title, definition, direction and order of every metric.

Tables, report titles, gates, summaries, leaderboards and docs/reference/metrics.md derive from it. To add a metric,
write the function that computes it and one row here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from evalkit.plugins import find_benchmark
from evalkit.scoring.catalog.benchmark_rows import BENCHMARK_ROWS, BENCHMARK_TITLES
from evalkit.scoring.catalog.checklist_rows import CHECKLIST_ROWS
from evalkit.scoring.catalog.class_rows import CLASS_ROWS
from evalkit.scoring.catalog.diagnostic_rows import DIAGNOSTIC_ROWS
from evalkit.scoring.catalog.spec import Catalog, Match, MetricSpec
from evalkit.scoring.catalog.verdict_rows import VERDICT_ROWS

__all__ = [
    "BENCHMARK_TITLES",
    "CATALOG",
    "JUDGE_COLUMNS",
    "LEADERBOARD_COLUMNS",
    "RANKED_BY",
    "TESTED",
    "Catalog",
    "Match",
    "MetricSpec",
    "catalog_of",
]

CATALOG: Final = Catalog(
    (
        *(replace(row, benchmark=BENCHMARK_TITLES[row.group]) for row in BENCHMARK_ROWS),
        *CLASS_ROWS,
        *VERDICT_ROWS,
        *CHECKLIST_ROWS,
        *DIAGNOSTIC_ROWS,
    )
)
"""Every metric of evalkit."""


def catalog_of(benchmark: str | None) -> Catalog:
    """Return the catalog of runs on a benchmark: evalkit's, preceded by the rows of a third-party benchmark.

    Raises:
        ConfigError: if the benchmark is unknown.
    """
    if benchmark is None or benchmark in CATALOG.benchmarks:
        return CATALOG
    found = find_benchmark(benchmark)
    return Catalog((*(replace(row, benchmark=found.title) for row in found.metrics), *CATALOG.rows))


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
